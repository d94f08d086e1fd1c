"""What all layers of this package share: their base class, checks of arguments, building."""
