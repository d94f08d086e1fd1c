"""Keys and values of the positions that a decoder has seen: the only file that touches their slots.

A cache is a dict of `keys` `(batch, heads, slots, key_dim)` and `values` `(batch, heads, slots,
value_dim)`. It either grows with each position, which is what runs fast on ONNX Runtime, or has a
fixed capacity, which is what JAX and XLA need.

The beams of a sentence share a cache: each step fills one slot for each of them, and whatever beams
a search goes on with, nothing in the cache is moved. Which slots a beam may attend to is told by
its *ancestors*, float32 `(batch * beams, 1, slots)`, what is added to its scores: 0 in the slots of
the tokens that it has behind it. Only they are chosen anew at each step, and they are small. The
price is that a beam has scores for the slots of the others too.
"""

from keras import ops

from keras_attn._decoding_state import history
from keras_attn.masks import MASKED_SCORE, scores_of_mask


def new_cache(batch, num_heads, key_dim, value_dim, dtype, capacity, growing=None):
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
        "keys": history.new_history(heads, (key_dim,), dtype, capacity, growing),
        "values": history.new_history(heads, (value_dim,), dtype, capacity, growing),
    }


def extend(cache, keys, values, slot, growing=None):
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
        "keys": history.extend(cache["keys"], keys, slot, growing),
        "values": history.extend(cache["values"], values, slot, growing),
    }


def join(cache, other):
    """A cache with the slots of one cache, then those of another."""
    return {name: ops.concatenate([cache[name], other[name]], axis=2) for name in cache}


def archive(shared):
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


def num_slots(cache, new_positions=0, growing=None, archive=None):
    """Slots of a cache, used or not, once there are new positions in it: int or int32 scalar.

    Those of an archive, which come before them, are counted too.
    """
    slots = ops.shape(cache["keys"])[2]
    slots = slots + new_positions if history.grows(growing) else slots
    return slots if archive is None else slots + num_slots(archive)


def own_slots(batch, beam_width):
    """What the slots of a step add to the ancestors: each beam attends to its own, to no other's.

    Args:
        batch: int or int32 scalar.
        beam_width: int.

    Returns:
        float32 `(batch, beam_width, beam_width)`.
    """
    others = scores_of_mask(ops.eye(beam_width, dtype="bool"))
    return ops.zeros((batch, 1, 1), dtype="float32") + others


def new_ancestors(own, capacity, growing=None, used=None):
    """Ancestors in a new cache.

    Args:
        own: as from `own_slots`.
        capacity, growing: as in `new_cache`.
        used: boolean `(batch, slots)`, the slots that come before those of the beams: whether all
            beams may attend to them. Default `None`: there are none.

    Returns:
        The ancestors.
    """
    rows, beam_width = ops.shape(own)[0] * own.shape[1], own.shape[1]
    ancestors = history.new_history((rows, 1), (), "float32", capacity, growing)
    ancestors = ancestors + MASKED_SCORE
    if used is None:
        return ancestors
    before = ops.repeat(scores_of_mask(used), beam_width, axis=0)[:, None]  # (B*K, 1, slots)
    return ops.concatenate([before, ancestors], axis=2)


def extend_ancestors(ancestors, own, slot, growing=None):
    """Ancestors after a step.

    Args:
        ancestors: the ancestors.
        own: as from `own_slots`.
        slot, growing: as in `extend`.

    Returns:
        The new ancestors.
    """
    beam_width = own.shape[1]
    own = ops.reshape(own, (-1, 1, beam_width))  # (B*K, 1, K)
    return history.extend(ancestors, own, slot, growing)


def scores_of_ancestors(ancestors, own):
    """The ancestors as what is added to scores, float32 `(batch, 1, beams, slots)`."""
    slots = ops.shape(ancestors)[2]
    slots = slots if isinstance(slots, int) else -1  # of which a batch of zero would tell nothing
    return ops.reshape(ancestors, (ops.shape(own)[0], 1, own.shape[1], slots))
