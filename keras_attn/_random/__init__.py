"""Random numbers and indices that are functions of a seed."""
