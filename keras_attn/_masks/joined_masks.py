"""Combines, checks and broadcasts masks."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn._layer.argument_checks import known_values
from keras_attn._types import Mask, Masks, Tensor

EXPLICIT_MASKS = ("attention_mask", "encoder_mask")


def join(sequence: Any, **given: Masks | None) -> Any:
    """Combines all masks for a sequence: a position is unmasked if all masks are `True`.

    Args:
        sequence: Tensor of shape `(batch, time, features)`, ids of shape `(batch, time)`, or a dict
            of such sequences. For attention over several axes, the tensor has more axes between
            batch and features.
        **given: Masks, by call argument name. Each value is `None`, a tensor, or a dict from
            sequence names to tensors. An explicit mask (`attention_mask` or `encoder_mask`) may
            also have the shape `(batch, target, time)`. All other masks are implicit, with the
            sequence's axes except the features. An implicit mask without the time axis applies to
            all positions in a sequence: for example, `TimeDistributed` splits a mask of shape
            `(batch, sentences)` into one mask of shape `(batch,)` for each sentence. An implicit
            mask with additional axes is reduced: a position is unmasked if any of its entries is
            `True`. For example, if `TimeDistributed` wraps a layer that pools words to sentences,
            its output has the shape `(batch, sentences, features)`, but keeps the mask of shape
            `(batch, sentences, words)`.

    Returns:
        Boolean mask with the axes of the sequence except the features, or with the rank of the
        explicit mask. If the sequence or a mask is a dict, a dict of masks. `None` if all masks are
        `None`.

    Raises:
        ValueError: If a mask does not fit the sequence, or contains invalid values, see `boolean`.
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
    """Returns whether a mask, or at least one mask in a dict, is not `None`."""
    return any(map(_is_given, mask.values())) if isinstance(mask, dict) else mask is not None


def _entries(given, key):
    """Returns the masks for the sequence `key`. A mask that is not a dict applies to all keys."""
    return {name: mask.get(key) if isinstance(mask, dict) else mask for name, mask in given.items()}


def _fit(sequence, mask, name):
    """Converts an implicit mask to a sequence's axes (see `join`). Checks explicit masks."""
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
    """Converts a mask to a boolean tensor.

    An additive mask (0 where attention is allowed, -1e9 elsewhere) has the opposite meaning, so it
    raises an error. In a compiled function, the values are unknown and cannot be checked: every
    number except 0 becomes `True`.

    Args:
        mask: Boolean tensor or array, or a tensor or array of zeros and ones.
        name: String, argument name, for the error message.

    Raises:
        ValueError: If the mask contains floats other than 0 and 1, or negative integers.
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
                f"Expected a boolean {name} (True: may be attended to), or zeros and ones. "
                f"Received: {name} of dtype {dtype} with values from {values.min()} to "
                f"{values.max()}. If this is an additive mask (0: may be attended to), pass "
                f"{name} == 0."
            )
    return ops.cast(mask, "bool")


def refuse_single_mask(mask: Mask | None, *names: str) -> None:
    """Raises a `ValueError` if a wrapper passes a single mask to a layer with two sequences.

    Args:
        mask: The call argument `mask`.
        *names: Names of the layer's mask arguments.

    Raises:
        ValueError: If `mask` is not `None`.
    """
    if mask is not None:
        raise ValueError(
            f"Expected a mask for each sequence: {' and '.join(names)}. Received: mask with shape "
            f"{tuple(mask.shape)}, probably from a wrapper such as TimeDistributed. Call the layer "
            "without the wrapper: first use keras.ops.reshape to merge the axis that the wrapper "
            "iterates over into the batch axis of each input."
        )


def attention_mask(value: Tensor, mask: Mask | None = None, name: str = "attention_mask") -> Tensor:
    """Broadcasts a mask to the rank of attention scores.

    Args:
        value: Tensor of shape `(batch, source, features)`, the attention values.
        mask: Mask of shape `(batch, source)` or `(batch, target, source)`, or `None` if all
            positions may be attended to.
        name: String, argument name, for error messages.

    Returns:
        Boolean tensor of shape `(batch, 1, source)` or `(batch, target, source)`.

    Raises:
        ValueError: If `mask` contains invalid values, see `boolean`, or does not fit `value`.

    Example:

    >>> import numpy as np
    >>> from keras_attn.masks import attention_mask
    >>> mask = attention_mask(np.ones((2, 3, 4)), np.array([[True, True, False]] * 2))
    >>> tuple(mask.shape)
    (2, 1, 3)
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
            f"Expected {name} of shape (batch, source) or (batch, target, source). "
            f"Received: {name} with shape {tuple(mask.shape)}, for a sequence of shape "
            f"{tuple(value.shape)}."
        )


def broadcast_batch(mask: Mask, value: Tensor) -> Tensor:
    """Repeats a mask `(1, ...)` to `(batch, ...)` if both batch sizes are known.

    Args:
        mask: Tensor of shape `(1 or batch, ...)`.
        value: Tensor of shape `(batch, ...)`, the attention values.
    """
    batch = value.shape[0]
    return mask if mask.shape[0] != 1 or batch in (None, 1) else ops.repeat(mask, batch, axis=0)


def _fits(size, other):
    """Returns whether two sizes are equal, or one of them is 1 or unknown."""
    return size == other or bool({1, None} & {size, other})


def both(mask: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Combines two boolean masks: the result is `True` where both masks are `True`.

    `None` means no mask. If the ranks differ, the mask with the lower rank is broadcast: a mask
    `(batch, source)` applies to all queries in a mask `(batch, target, source)`.
    """
    if mask is None or other is None or mask is other:
        return other if mask is None else mask
    low, high = sorted((mask, other), key=lambda operand: len(operand.shape))
    for _ in range(len(high.shape) - len(low.shape)):
        low = ops.expand_dims(low, 1)
    return ops.cast(low, "bool") & ops.cast(high, "bool")
