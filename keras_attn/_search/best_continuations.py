import math
from collections.abc import Iterable

import numpy as np
from keras import ops

from keras_attn._backend import gather
from keras_attn._backend.top_k import top_k
from keras_attn._types import Tensor
from keras_attn_checks.number_types import is_integer

NEVER = -3e38
"""Log probability of vocabulary padding: finite, and lower than all others."""


def best_continuations(
    token_log_probs: Tensor,
    log_probs: Tensor,
    penalties: Tensor,
    penalized_token_ids: Iterable[int],
    *,
    beams: int | Tensor,
    most_beams: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the 2K most probable continuations of the K beams in each batch entry.

    A beam has one continuation for each of the V tokens. Sorting all K * V continuations would be
    slow, so the function divides the vocabulary into blocks, and first sorts the block maxima. The
    2K best continuations are in the 2K blocks with the largest maxima. The maxima ignore the
    penalties, so a block that contains penalized tokens can be worse than its maximum. For each
    such block, the function selects one additional block. With n blocks per beam, one of them with
    penalized tokens, the function sorts K * n maxima and 3K * V / n continuations. If V has no
    suitable divisor, the vocabulary is padded with tokens that are never selected.

    Args:
        token_log_probs: Float32 tensor of shape `(batch * beams, V)`, log probabilities of the next
            tokens.
        log_probs: Float32 tensor of shape `(batch, beams)`, beam log probabilities.
        penalties: Float32 tensor of shape `(V,)`, added to the tokens' log probabilities.
        penalized_token_ids: Iterable of ints, all tokens with a negative penalty.
        beams: Int or scalar int32 tensor, number K of beams.
        most_beams: Int, the largest value of `beams`. The blocks are chosen for it.

    Returns:
        Tuple of log probabilities (float32), parents (int32 beam indices) and tokens (int32), each
        of shape `(batch, 2 * beams)`, best first. Ties are ordered by beam, then by id.
    """
    batch, count = ops.shape(log_probs)[0], 2 * beams
    if not is_integer(batch) and not is_integer(beams):
        batch = -1  # fewer nodes; exported graphs never step an empty batch
    vocabulary_size = penalties.shape[0]
    block_size, blocks_per_beam = _sizes(vocabulary_size, most_beams, penalized_token_ids)
    num_blocks, num_chosen = -(-vocabulary_size // block_size), beams * blocks_per_beam
    missing = num_blocks * block_size - vocabulary_size
    if missing:
        token_log_probs = ops.pad(token_log_probs, ((0, 0), (0, missing)), constant_values=NEVER)
        penalties = ops.pad(penalties, ((0, missing),))

    blocks = ops.reshape(token_log_probs, (batch, beams * num_blocks, block_size))
    best = ops.reshape(ops.max(blocks, axis=-1), (batch, beams, num_blocks))
    best = ops.reshape(best + log_probs[:, :, None], (batch, beams * num_blocks))
    _, chosen = top_k(best, num_chosen)
    # Sort the block indices, so that ties keep their order. Use `top_k`, which the graph already
    # has.
    in_order, _ = top_k(-ops.cast(chosen, "float32"), num_chosen)
    chosen = ops.cast(-in_order, "int32")  # (B, C), in [0, K * n)
    # In an exported graph, a table lookup needs one node, and an integer division needs several.
    block_ids = np.arange(most_beams * num_blocks, dtype="int32")
    parents = gather.gather_rows(block_ids // num_blocks, chosen)  # (B, C)
    block_of_vocabulary = gather.gather_rows(block_ids % num_blocks, chosen)  # (B, C), in [0, n)

    blocks = gather.gather_beams(blocks, chosen)  # (B, C, V/n)
    penalties = ops.reshape(penalties, (num_blocks, block_size))
    blocks = blocks + gather.gather_rows(penalties, block_of_vocabulary)
    blocks = blocks + gather.gather_beams(log_probs, parents)[:, :, None]
    values, places = top_k(ops.reshape(blocks, (batch, num_chosen * block_size)), count)
    places = ops.cast(places, "int32")  # (B, count), in [0, C * V/n)
    block_of_place = np.arange(most_beams * blocks_per_beam * block_size, dtype="int32")
    block_of_place = block_of_place // block_size
    block = gather.gather_rows(block_of_place, places)  # (B, count), in [0, C)
    # Example: with blocks of 50 tokens, place 107 is token 7 of the selected block 2. If this is
    # block 31 of the vocabulary, the token id is 31 * 50 + 7 = 107 + (31 - 2) * 50.
    moved = block_of_vocabulary - ops.arange(num_chosen, dtype="int32")
    tokens = places + gather.gather_beams(moved, block) * block_size
    return values, gather.gather_beams(parents, block), tokens


def best_tokens(log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the most probable token in each row.

    The function first finds the best block of tokens, which in ONNX Runtime is three times as fast
    as a search in all tokens.

    Args:
        log_probs: Float32 tensor of shape `(rows, V)`.

    Returns:
        Tuple of log probabilities (float32) and tokens (int32), both of shape `(rows, 1)`. Of equal
        tokens, the first one is selected.
    """
    vocabulary_size = log_probs.shape[-1]
    size = min(
        range(1, 2 * math.isqrt(vocabulary_size) + 1),
        key=lambda size: (vocabulary_size % size > 0, size + vocabulary_size / size),
    )
    missing = -vocabulary_size % size
    if missing:
        log_probs = ops.pad(log_probs, ((0, 0), (0, missing)), constant_values=NEVER)
    blocks = ops.reshape(log_probs, (-1, (vocabulary_size + missing) // size, size))
    _, block = top_k(ops.max(blocks, axis=-1), 1)  # (rows, 1)
    block = ops.cast(block, "int32")
    values, place = top_k(gather.gather_beams(blocks, block)[:, 0], 1)  # (rows, 1)
    return values, block * size + ops.cast(place, "int32")


def _sizes(vocabulary_size, beams, penalized_token_ids):
    """Returns the block size and the number of selected blocks per beam that minimize the work."""

    def num_chosen(size):
        penalized = {token_id // size for token_id in penalized_token_ids}
        return min(2 + len(penalized), -(-vocabulary_size // size))

    def work(size):
        num_sorted = -(-vocabulary_size // size) + num_chosen(size) * size
        # Padding copies all tokens, which takes about a quarter of the time of sorting them.
        return num_sorted + (vocabulary_size / 4 if vocabulary_size % size else 0)

    size = min(range(1, math.isqrt(beams * vocabulary_size) + 1), key=work)
    return size, num_chosen(size)
