"""Keys and values of the positions that a decoder has seen: the only file that touches their slots.

A cache is a dict of `keys` `(rows, heads, slots, key_dim)` and `values` `(rows, heads, slots,
value_dim)`. It either grows by one slot for each position, which is what runs fast on ONNX Runtime,
or has a fixed capacity, which is what JAX and XLA need.
"""

from keras import ops

from keras_attn import history


def new_cache(rows, num_heads, key_dim, value_dim, dtype, capacity, zero, growing=None):
    """A cache of no positions.

    Args:
        rows: int or int32 scalar, batch size times beams.
        num_heads: int, key and value heads.
        key_dim, value_dim: ints, sizes of each head.
        dtype: dtype.
        capacity: int, the slots of a cache that does not grow.
        zero: int32 scalar, see `keras_attn.history.hidden_zero`.
        growing: bool, whether the cache grows. Default `None`: where the backend can.

    Returns:
        The cache.
    """
    heads = (rows, num_heads)
    return {
        "keys": history.new_history(heads, (key_dim,), dtype, capacity, zero, growing),
        "values": history.new_history(heads, (value_dim,), dtype, capacity, zero, growing),
    }


def extend(cache, keys, values, slot, growing=None):
    """Puts new positions behind those of a cache.

    Args:
        cache: the cache.
        keys, values: `(rows, heads, positions, key_dim or value_dim)`.
        slot: int32 scalar, the slots in use, into which the first of the new positions goes.
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


def num_slots(cache, new_positions=0, growing=None):
    """Slots of a cache, used or not, once there are new positions in it: int or int32 scalar."""
    slots = ops.shape(cache["keys"])[2]
    return slots + new_positions if history.grows(growing) else slots
