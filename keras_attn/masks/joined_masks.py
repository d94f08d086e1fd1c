"""Masks joined with each other, checked and brought to the axes that attention needs."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn._layer.argument_checks import known_values
from keras_attn._types import Mask, Masks, Tensor

EXPLICIT_MASKS = ("attention_mask", "encoder_mask")


def join(sequence: Any, **given: Masks | None) -> Any:
    """Joins all masks of a sequence: a position counts where all of them are True.

    Args:
        sequence: `(batch, time, features)`, with more axes before the features for attention over
            several axes, or ids `(batch, time)`; a dict of sequences.
        **given: masks by the names of the call arguments that hold them, each of them `None`, a
            tensor or a dict from names of sequences. An explicit mask, `attention_mask` or
            `encoder_mask`, may have the shape `(batch, target, time)` too. All others are implicit
            masks and have the axes of the sequence without the features. One without the time
            axis, which wrappers pass if their own mask has one entry for each sequence, counts for
            all its positions. An implicit mask with more axes is reduced: a position counts if
            any of its parts does. `TimeDistributed` around a layer that pools words to sentences
            leaves such a mask `(batch, sentences, words)` on the sentences.

    Returns:
        Boolean mask, `(batch, time)` or of the rank of the explicit mask; a dict of masks if the
        sequence or a mask is a dict; `None` if there is no mask.

    Raises:
        ValueError: for a mask that does not fit the sequence, or with other values than 0 and 1.
    """
    given = {name: mask for name, mask in given.items() if _is_given(mask)}
    if any(isinstance(mask, dict) for mask in given.values()):
        sequences = sequence if isinstance(sequence, dict) else {}
        keys = {key: None for mask in given.values() if isinstance(mask, dict) for key in mask}
        joined = {key: join(sequences.get(key), **_entries(given, key)) for key in keys}
        return {key: mask for key, mask in joined.items() if mask is not None}
    joined = None
    for name, mask in given.items():
        mask = boolean(mask, name)
        if sequence is not None and not isinstance(sequence, dict):
            mask = _fit(sequence, mask, name)
        joined = both(joined, mask)
    return joined


def _is_given(mask):
    """Whether there is a mask, or one in a dict."""
    return any(map(_is_given, mask.values())) if isinstance(mask, dict) else mask is not None


def _entries(given, key):
    """The masks for one of several sequences; a mask that is no dict is for all of them."""
    return {name: mask.get(key) if isinstance(mask, dict) else mask for name, mask in given.items()}


def _fit(sequence, mask, name):
    """Brings an implicit mask to the axes of a sequence, see `join`; checks an explicit one."""
    if name in EXPLICIT_MASKS:
        _check_explicit(sequence, mask, name)
        return mask
    shape = tuple(mask.shape)
    rank = max(len(sequence.shape) - 1, 2)
    if not shape or not all(map(_fits, shape[:rank], sequence.shape)):
        raise ValueError(
            f"Expected {name} with shape (batch, time), for a sequence of shape "
            f"{tuple(sequence.shape)}. Received: {name} with shape {shape}."
        )
    if len(shape) > rank:
        return ops.any(mask, axis=tuple(range(rank, len(shape))))
    if len(shape) < rank:
        vectors = sequence if len(sequence.shape) == 2 else sequence[..., 0]
        for _ in range(rank - len(shape)):
            mask = ops.expand_dims(mask, -1)
        return ops.ones_like(vectors, dtype="bool") & mask
    return mask


def boolean(mask: Any, name: str) -> Tensor:
    """A mask as a boolean tensor.

    Masks that are added to scores, 0 where a position counts and -1e9 where it does not, mean the
    opposite. They are refused where their values are known. In a graph they are not: there every
    number but 0 counts as True.

    Args:
        mask: tensor or array, boolean or of zeros and ones.
        name: str, the name of the argument, for the error.

    Raises:
        ValueError: for other floats than 0 and 1, or negative integers.
    """
    if not hasattr(mask, "dtype"):
        mask = np.asarray(mask)
    dtype = keras.backend.standardize_dtype(mask.dtype)
    if dtype == "bool":
        return ops.convert_to_tensor(mask) if isinstance(mask, np.ndarray) else mask
    values = known_values(mask)
    if values is not None and values.size:
        is_float = "float" in dtype
        values = values.astype("float32") if is_float else values
        if ((values != 0) & (values != 1)).any() if is_float else (values < 0).any():
            raise ValueError(
                f"Expected a boolean {name}, True = may be attended, or one of zeros and ones. "
                f"Received: {name} of dtype {dtype} with values from {values.min()} to "
                f"{values.max()}. If it is a mask that is added to scores, pass `{name} == 0`."
            )
    return ops.cast(mask, "bool")


def refuse_single_mask(mask: Mask | None, *names: str) -> None:
    """Refuses the only mask that a wrapper passes to a layer with two sequences.

    Args:
        mask: the call argument `mask`.
        *names: names of the arguments for the masks that the layer needs.

    Raises:
        ValueError: if there is a mask.
    """
    if mask is not None:
        raise ValueError(
            f"Expected a mask for each sequence: {' and '.join(names)}. Received: mask with shape "
            f"{tuple(mask.shape)}, as a wrapper passes it. Call the layer without the wrapper: "
            "merge the axis of the wrapper and the batch axis of all inputs with "
            "keras.ops.reshape."
        )


def attention_mask(value: Tensor, mask: Mask | None = None, name: str = "attention_mask") -> Tensor:
    """Brings a mask to the rank of attention scores.

    Args:
        value: `(batch, source, features)`, what is attended to.
        mask: `None` (everything may be attended), `(batch, source)` or `(batch, target, source)`.
        name: str, the name of the argument, for errors.

    Returns:
        Boolean tensor `(batch, 1, source)` or `(batch, target, source)`.
    """
    if mask is None:
        return ops.ones_like(value[:, None, :, 0], dtype="bool")  # (B, 1, S)
    mask = boolean(mask, name)
    _check_explicit(value, mask, name)
    mask = broadcast_batch(mask, value)
    return mask[:, None, :] if len(mask.shape) == 2 else mask  # (B, 1, S) or (B, T, S)


def _check_explicit(value, mask, name):
    if (
        len(mask.shape) not in (2, 3)
        or not _fits(mask.shape[0], value.shape[0])
        or not _fits(mask.shape[-1], value.shape[1])
    ):
        raise ValueError(
            f"{name} must have shape (batch, source) or (batch, target, source). "
            f"Received: {name} with shape {tuple(mask.shape)}, for a memory of shape "
            f"{tuple(value.shape)}."
        )


def broadcast_batch(mask: Mask, value: Tensor) -> Tensor:
    """Repeats a mask `(1, ...)` that the batch shares to `(batch, ...)`, if the sizes are known.

    Args:
        mask: `(1 or batch, ...)`.
        value: `(batch, ...)`, what is attended to.
    """
    batch = value.shape[0]
    return mask if mask.shape[0] != 1 or batch in (None, 1) else ops.repeat(mask, batch, axis=0)


def _fits(size, other):
    """Whether two sizes are equal or one of them is 1, as far as they are known."""
    return size == other or bool({1, None} & {size, other})


def both(mask: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Joins two boolean masks, each of which may be `None`.

    The mask of lower rank counts for all queries: `(batch, source)` for `(batch, target, source)`.
    """
    if mask is None or other is None or mask is other:
        return other if mask is None else mask
    low, high = sorted((mask, other), key=lambda each: len(each.shape))
    for _ in range(len(high.shape) - len(low.shape)):
        low = ops.expand_dims(low, 1)
    return ops.cast(low, "bool") & ops.cast(high, "bool")
