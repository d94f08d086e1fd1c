"""Base class of all layers, argument checks, and functions that build layers."""
