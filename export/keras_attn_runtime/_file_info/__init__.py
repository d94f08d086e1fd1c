"""Describes model files, without the libraries that write or run them."""
