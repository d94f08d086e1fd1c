"""Base class of all layers, argument checks, building."""
