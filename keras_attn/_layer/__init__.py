"""Base class for all layers, argument checks, and functions that build layers."""
