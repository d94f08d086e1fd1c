from keras_attn_checks.number_types import is_finite


def check_tolerance(tolerance: float) -> None:
    """Raises an error if a tolerance is not a positive finite number."""
    if not is_finite(tolerance) or tolerance <= 0:
        raise ValueError(
            f"Expected tolerance to be a positive number. Received: tolerance={tolerance!r}."
        )
