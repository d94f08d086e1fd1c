"""Keys and values of the positions that a decoder has seen: the only file that touches their slots.

A cache is a dict of `keys` `(batch, heads, slots, key_dim)` and `values` `(batch, heads, slots,
value_dim)`. It either grows with each position, which is what runs fast on ONNX Runtime, or has a
fixed capacity, which is what JAX and XLA need.

The beams of a sentence share a cache: each step fills one slot for each beam, and nothing in the
cache moves when a search selects beams. The *ancestor bias*, float32 `(batch * beams, 1, slots)`,
is added to the attention scores of a beam: 0 in the slots of its own tokens, a large negative
number in the slots of other beams. Only this small tensor is reordered at each step. The cost is
that a beam also computes scores for the slots of other beams.
"""

from typing import Any

from keras import ops

from keras_attn._decoding_state import growing_buffer
from keras_attn._types import Tensor, TensorDict
from keras_attn.masks import MASKED_SCORE, scores_of_mask


def new_cache(
    batch: int | Tensor,
    num_heads: int,
    key_dim: int,
    value_dim: int,
    dtype: Any,
    capacity: int,
    growing: bool | None = None,
) -> TensorDict:
    """A cache of no positions.

    Args:
        batch: int or int32 scalar.
        num_heads: int, key and value heads.
        key_dim, value_dim: ints, sizes of each head.
        dtype: dtype.
        capacity: int, the slots of a cache that does not grow.
        growing: bool, whether the cache grows. Default `None`: where the backend can.

    Returns:
        The cache.
    """
    heads = (batch, num_heads)
    return {
        "keys": growing_buffer.new_buffer(heads, (key_dim,), dtype, capacity, growing),
        "values": growing_buffer.new_buffer(heads, (value_dim,), dtype, capacity, growing),
    }


def extend(
    cache: TensorDict, keys: Tensor, values: Tensor, slot: int | Tensor, growing: bool | None = None
) -> TensorDict:
    """Puts new positions behind those of a cache.

    Args:
        cache: the cache.
        keys, values: `(batch, heads, new slots, key_dim or value_dim)`, a slot for each position,
            or for each beam.
        slot: int32 scalar, the slots in use, which is the number of the first new one.
        growing: as in `new_cache`.

    Returns:
        The new cache.
    """
    return {
        "keys": growing_buffer.extend(cache["keys"], keys, slot, growing),
        "values": growing_buffer.extend(cache["values"], values, slot, growing),
    }


def join(cache: TensorDict, other: TensorDict) -> TensorDict:
    """A cache with the slots of one cache, then those of another."""
    return {name: ops.concatenate([cache[name], other[name]], axis=2) for name in cache}


def archive(shared: TensorDict) -> TensorDict:
    """Moves what is in growing caches behind what is in their archives, which no step copies.

    Args:
        shared: dict with the lists `caches` and, if there are any, `archives`, of as many caches.

    Returns:
        The dict with both changed.
    """
    if "archives" not in shared:
        return shared
    pairs = list(zip(shared["archives"], shared["caches"], strict=True))
    return {
        **shared,
        "archives": [join(archive, cache) for archive, cache in pairs],
        "caches": [_emptied(cache) for _, cache in pairs],
    }


def _emptied(cache):
    slots = num_slots(cache)  # Not `:0`: in a loop the number must look unknown.
    return {name: values[:, :, slots:] for name, values in cache.items()}


def num_slots(
    cache: TensorDict,
    new_positions: int | Tensor = 0,
    growing: bool | None = None,
    archive: TensorDict | None = None,
) -> Any:
    """Slots of a cache, used or not, once there are new positions in it: int or int32 scalar.

    Those of an archive, which come before them, are counted too.
    """
    slots = ops.shape(cache["keys"])[2]
    slots = slots + new_positions if growing_buffer.supports_growth(growing) else slots
    return slots if archive is None else slots + num_slots(archive)


def own_slots(batch: int | Tensor, beam_width: int) -> Tensor:
    """Returns the ancestor bias of the slots of one step: each beam attends only to its own slot.

    Args:
        batch: int or int32 scalar.
        beam_width: int.

    Returns:
        float32 `(batch, beam_width, beam_width)`.
    """
    others = scores_of_mask(ops.eye(beam_width, dtype="bool"))
    return ops.zeros((batch, 1, 1), dtype="float32") + others


def new_ancestor_bias(
    own: Tensor, capacity: int, growing: bool | None = None, used: Tensor | None = None
) -> Tensor:
    """Creates the ancestor bias of a new cache.

    Args:
        own: as from `own_slots`.
        capacity, growing: as in `new_cache`.
        used: boolean `(batch, slots)`, the slots that come before those of the beams: whether all
            beams may attend to them. Default `None`: there are none.

    Returns:
        The ancestor bias.
    """
    rows, beam_width = ops.shape(own)[0] * own.shape[1], own.shape[1]
    ancestor_bias = growing_buffer.new_buffer((rows, 1), (), "float32", capacity, growing)
    ancestor_bias = ancestor_bias + MASKED_SCORE
    if used is None:
        return ancestor_bias
    before = ops.repeat(scores_of_mask(used), beam_width, axis=0)[:, None]  # (B*K, 1, slots)
    return ops.concatenate([before, ancestor_bias], axis=2)


def extend_ancestor_bias(
    ancestor_bias: Tensor, own: Tensor, slot: int | Tensor, growing: bool | None = None
) -> Tensor:
    """Adds the slots of one step.

    Args:
        ancestor_bias: as from `new_ancestor_bias`.
        own: as from `own_slots`.
        slot, growing: as in `extend`.

    Returns:
        The new ancestor bias.
    """
    beam_width = own.shape[1]
    own = ops.reshape(own, (-1, 1, beam_width))  # (B*K, 1, K)
    return growing_buffer.extend(ancestor_bias, own, slot, growing)


def reshape_ancestor_bias(ancestor_bias: Tensor, own: Tensor) -> Tensor:
    """Reshapes the ancestor bias to that of scores, float32 `(batch, 1, beams, slots)`."""
    slots = ops.shape(ancestor_bias)[2]
    slots = slots if isinstance(slots, int) else -1  # -1 cannot be inferred for an empty batch
    return ops.reshape(ancestor_bias, (ops.shape(own)[0], 1, own.shape[1], slots))
