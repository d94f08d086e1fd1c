"""Layers of Keras, computed faster."""
