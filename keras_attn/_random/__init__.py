"""Random numbers and indices that depend on a seed alone."""
