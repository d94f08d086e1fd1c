"""Reads what a model file says about itself, without the library that wrote it or runs it."""
