from collections.abc import Sequence

from keras_attn._types import Tensor


def check_rows_or_one(name: str, axes: Sequence[str], values: Tensor, max_lengths: Tensor) -> None:
    """Raises a `ValueError` unless a tensor has one row per batch entry, or a single row.

    Args:
        name: String, argument name.
        axes: Sequence of strings, names of the axes after the batch axis.
        values: Tensor of shape `(batch, ...)` or `(1, ...)`.
        max_lengths: Tensor of shape `(batch,)`, determines the batch size.

    Raises:
        ValueError: If `values` has a different shape.
    """
    batch, shape = max_lengths.shape[0], tuple(values.shape)
    fits = len(shape) == 1 + len(axes) and (shape[0] in (1, batch) or None in (shape[0], batch))
    if not fits:
        each, alike = (
            f"({', '.join([first, *axes])}{'' if axes else ','})" for first in ("batch", "1")
        )
        raise ValueError(
            f"Expected {name} of shape {each}, or {alike} for all batch entries. "
            f"Received: {name} with shape {shape}, batch={batch}. Pass one row per batch entry."
        )
