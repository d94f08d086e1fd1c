"""Pool of finished hypotheses in a beam search, best first."""

from keras import ops, tree

from keras_attn._backend import gather
from keras_attn._backend.top_k import top_k
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._decoding_state import growing_buffer
from keras_attn._search.constraints import constrained_order
from keras_attn._search.dead_ends import NO_RANK
from keras_attn._search.histories import HISTORIES
from keras_attn._types import Tensor, TensorDict
from keras_attn_checks.number_types import is_integer

MISSING = {"ranks": NO_RANK, "log_probs": IMPOSSIBLE}
"""Values of missing hypotheses. The other values are 0."""


def new_pool(max_lengths: Tensor, num_hypotheses: int | Tensor, capacity: int) -> TensorDict:
    """Creates an empty pool.

    If a batch entry's maximum length is 0, its pool contains the empty hypothesis.

    Args:
        max_lengths: Int32 tensor of shape `(batch,)`.
        num_hypotheses: Int or scalar int32 tensor, pool size.
        capacity: Int, number of columns if buffers cannot grow in a loop.

    Returns:
        Dict of `token_ids` (int32) of shape `(batch, hypotheses, columns)`, and `num_tokens`
        (int32), `ranks` and `log_probs` (float32) of shape `(batch, hypotheses)`.
    """
    rows = (ops.shape(max_lengths)[0], num_hypotheses)
    is_first = ops.arange(num_hypotheses, dtype="int32")[None, :] == 0  # (1, N)
    is_empty = (max_lengths[:, None] == 0) & is_first  # (B, N)
    return {
        "token_ids": growing_buffer.new_buffer(rows, (), "int32", capacity),
        "num_tokens": ops.zeros(rows, dtype="int32"),
        "ranks": ops.cast(ops.where(is_empty, 0.0, NO_RANK), "float32"),
        "log_probs": ops.cast(ops.where(is_empty, 0.0, IMPOSSIBLE), "float32"),
    }


def add_to_pool(
    pool: TensorDict,
    found: TensorDict,
    step: int | Tensor,
    batch: int | Tensor,
    num_hypotheses: int | Tensor,
) -> TensorDict:
    """Adds hypotheses to a pool and keeps the best hypotheses.

    Args:
        pool: Dict returned by `new_pool`, optionally with further histories.
        found: Dict with the same keys: this step's hypotheses. Its histories are longer by one step
            than those in `pool`. Hypotheses with the rank `NO_RANK` are not added.
        step: Scalar int32 tensor, number of previous tokens.
        batch: Int or scalar int32 tensor, batch size, which must not change in the loop.
        num_hypotheses: Int or scalar int32 tensor, pool size.

    Returns:
        The new pool.
    """
    pool = dict(pool)
    for name in HISTORIES:
        if name in pool:
            shape = (batch, num_hypotheses, *ops.shape(pool[name])[3:])
            nothing = ops.zeros(shape, dtype=pool[name].dtype)
            pool[name] = growing_buffer.append(pool[name], nothing, step)
    both = {name: ops.concatenate([pool[name], found[name]], axis=1) for name in pool}
    if "constraints_met" in both:
        order = constrained_order(both["ranks"], both["constraints_met"], IMPOSSIBLE)
        chosen = order[:, :num_hypotheses]
    else:
        _, chosen = top_k(both["ranks"], num_hypotheses)
    return tree.map_structure(lambda t: gather.gather_beams(t, chosen), both)


def resize_pool(pool: TensorDict, num_hypotheses: int | Tensor) -> TensorDict:
    """Returns the best hypotheses of a pool, and missing ones if the pool has fewer.

    Args:
        pool: Dict returned by `new_pool` or `add_to_pool`.
        num_hypotheses: Int or scalar int32 tensor, number of hypotheses.

    Returns:
        Dict with the same keys. Its tensors have the shape `(batch, num_hypotheses, ...)`.
    """
    size = pool["ranks"].shape[1]
    if size is None or not is_integer(num_hypotheses) or size < num_hypotheses:
        pool = {name: _with_missing(name, values, num_hypotheses) for name, values in pool.items()}
    return {name: values[:, :num_hypotheses] for name, values in pool.items()}


def _with_missing(name, values, count):
    """Appends `count` missing hypotheses."""
    batch, _, *rest = ops.shape(values)
    value = MISSING.get(name, 0)
    missing = ops.full((batch, count, *rest), value, dtype=values.dtype)
    return ops.concatenate([values, missing], axis=1)
