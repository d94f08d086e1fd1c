def check_positive_integer(name, value):
    """Raises a `ValueError` that names the argument unless it is an integer of at least 1."""
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive integer. Received: {name}={value!r}.")


def check_dropout(name, rate):
    """Raises a `ValueError` that names the argument unless it is a share that may be dropped."""
    if not 0 <= rate < 1:
        raise ValueError(f"{name} must be in [0, 1). Received: {name}={rate}.")
