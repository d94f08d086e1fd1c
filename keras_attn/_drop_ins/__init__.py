"""Faster versions of Keras layers."""
