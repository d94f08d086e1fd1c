"""Random numbers and random indices that only depend on a seed."""
