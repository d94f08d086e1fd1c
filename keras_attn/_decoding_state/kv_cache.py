"""Key-value caches for the positions that a decoder has processed.

A cache is a dict of `keys` `(batch, heads, slots, key_dim)` and `values` `(batch, heads, slots,
value_dim)`. In ONNX Runtime, a cache that grows with each position is faster than a cache with a
fixed capacity. JAX and XLA require a fixed capacity.

The beams of a batch entry share a cache. Each step fills one slot per beam. When a search selects
beams, it does not reorder the cache. Instead, it reorders a small float32 tensor of shape `(batch *
beams, 1, slots)`, the *ancestor bias*, which is added to the attention scores of each beam. The
bias is 0 for the slots that contain previous tokens of the beam, and a large negative number for
all other slots. The disadvantage is that each beam also computes scores for the slots of other
beams.
"""

from typing import Any

from keras import ops

from keras_attn._backend.gather import repeat_rows
from keras_attn._decoding_state import growing_buffer
from keras_attn._masks import MASKED_SCORE, scores_of_mask
from keras_attn._types import Tensor, TensorDict
from keras_attn_checks.number_types import is_integer


def new_cache(
    batch: int | Tensor,
    num_heads: int,
    key_dim: int,
    value_dim: int,
    dtype: Any,
    capacity: int,
    growing: bool | None = None,
) -> TensorDict:
    """Creates an empty cache.

    Args:
        batch: Int or scalar int32 tensor, batch size.
        num_heads: Int, number of key and value heads.
        key_dim: Int, size of each head of the keys.
        value_dim: Int, size of each head of the values.
        dtype: String, dtype of the cache.
        capacity: Int, number of slots of a cache that does not grow.
        growing: Bool, whether the cache grows. Defaults to `None`: `True` on TensorFlow, `False` on
            other backends.

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
    """Appends new positions to a cache.

    Args:
        cache: Dict returned by `new_cache` or `extend`.
        keys: Tensor of shape `(batch, heads, new_slots, key_dim)`, with one slot per new position
            or per beam.
        values: Tensor of shape `(batch, heads, new_slots, value_dim)`.
        slot: Scalar int32 tensor, number of slots in use.
        growing: Bool, see `new_cache`.

    Returns:
        The new cache.
    """
    return {
        "keys": growing_buffer.extend(cache["keys"], keys, slot, growing),
        "values": growing_buffer.extend(cache["values"], values, slot, growing),
    }


def join(cache: TensorDict, other: TensorDict) -> TensorDict:
    """Concatenates the slots of two caches."""
    return {name: ops.concatenate([cache[name], other[name]], axis=2) for name in cache}


def archive(shared: TensorDict) -> TensorDict:
    """Moves the content of growing caches to archives, so that the next steps do not copy it.

    Args:
        shared: Dict with a list `caches` and optionally a list `archives` of the same length.
            Without `archives`, the dict is returned unchanged.

    Returns:
        The dict with new caches and archives.
    """
    if "archives" not in shared:
        return shared
    pairs = list(zip(shared["archives"], shared["caches"], strict=True))
    return {
        **shared,
        "archives": [join(archive, cache) for archive, cache in pairs],
        "caches": [_emptied(cache) for _, cache in pairs],
    }


def widen(state: TensorDict, steps: int) -> TensorDict:
    """Adds unused slots for the next steps to the caches and to the ancestor bias.

    Args:
        state: Dict with `ancestor_bias`, and a dict `shared` with `caches` and the result `own` of
            `own_slots`.
        steps: Int, number of steps.

    Returns:
        The dict with new caches and a new ancestor bias.
    """
    slots = steps * num_beams(state["shared"])
    caches = [
        {name: growing_buffer.widen(values, slots) for name, values in cache.items()}
        for cache in state["shared"]["caches"]
    ]
    ancestor_bias = growing_buffer.widen(state["ancestor_bias"], slots, MASKED_SCORE)
    shared = {**state["shared"], "caches": caches}
    return {**state, "ancestor_bias": ancestor_bias, "shared": shared}


def _emptied(cache):
    slots = num_slots(cache)  # The slice `slots:` is empty like `:0`, but has a dynamic size.
    return {name: values[:, :, slots:] for name, values in cache.items()}


def num_slots(
    cache: TensorDict,
    new_positions: int | Tensor = 0,
    growing: bool | None = None,
    archive: TensorDict | None = None,
) -> Any:
    """Returns the number of slots after new positions are added.

    Args:
        cache: The cache.
        new_positions: Int, number of new positions. Defaults to `0`.
        growing: Bool, see `new_cache`.
        archive: Cache whose slots are also counted. Defaults to `None`.
    """
    slots = ops.shape(cache["keys"])[2]
    slots = slots + new_positions if growing_buffer.grows_each_step(growing) else slots
    return slots if archive is None else slots + num_slots(archive)


def own_slots(batch: int | Tensor, beam_width: int | Tensor) -> TensorDict:
    """Returns the ancestor bias for the slots of one step: a beam only attends to its own slot.

    Args:
        batch: Int or scalar int32 tensor, batch size.
        beam_width: Int or scalar int32 tensor, number of beams.

    Returns:
        Dict of `own`, the bias, float32 `(batch, beam_width, beam_width)`. If `beam_width` is a
        tensor, it is the entry `num_beams`.
    """
    beams = ops.arange(beam_width, dtype="int32")
    own = ops.zeros((batch, 1, 1), dtype="float32") + scores_of_mask(beams[:, None] == beams)
    return {"own": own} if is_integer(beam_width) else {"own": own, "num_beams": beam_width}


def num_beams(shared: TensorDict) -> int | Tensor:
    """Returns the number of beams of the result of `own_slots`."""
    return shared.get("num_beams", shared["own"].shape[1])


def new_ancestor_bias(
    shared: TensorDict, capacity: int, growing: bool | None = None, used: Tensor | None = None
) -> Tensor:
    """Creates the ancestor bias of a new cache.

    Args:
        shared: Dict returned by `own_slots`, also with further entries.
        capacity: Int, see `new_cache`.
        growing: Bool, see `new_cache`.
        used: Boolean tensor of shape `(batch, slots)` for slots that all beams share, such as the
            slots of a prompt. `True` if the beams may attend to a slot. Defaults to `None`: no such
            slots.

    Returns:
        The ancestor bias.
    """
    beam_width = num_beams(shared)
    rows = ops.shape(shared["own"])[0] * beam_width
    ancestor_bias = growing_buffer.new_buffer((rows, 1), (), "float32", capacity, growing)
    ancestor_bias = ancestor_bias + MASKED_SCORE
    if used is None:
        return ancestor_bias
    before = repeat_rows(scores_of_mask(used), beam_width)[:, None]  # (B*K, 1, slots)
    return ops.concatenate([before, ancestor_bias], axis=2)


def extend_ancestor_bias(
    ancestor_bias: Tensor, shared: TensorDict, slot: int | Tensor, growing: bool | None = None
) -> Tensor:
    """Adds the slots of one step to the ancestor bias.

    Args:
        ancestor_bias: Tensor returned by `new_ancestor_bias`.
        shared: Dict returned by `own_slots`, also with further entries.
        slot: Scalar int32 tensor, number of slots in use.
        growing: Bool, see `new_cache`.

    Returns:
        The new ancestor bias.
    """
    own = ops.reshape(shared["own"], (-1, 1, num_beams(shared)))  # (B*K, 1, K)
    return growing_buffer.extend(ancestor_bias, own, slot, growing)


def reshape_ancestor_bias(ancestor_bias: Tensor, shared: TensorDict) -> Tensor:
    """Reshapes the ancestor bias to `(batch, 1, beams, slots)`, the axes of the scores."""
    slots = ops.shape(ancestor_bias)[2]
    slots = slots if isinstance(slots, int) else -1  # -1 cannot be inferred for an empty batch
    return ops.reshape(ancestor_bias, (ops.shape(shared["own"])[0], 1, num_beams(shared), slots))
