"""Prefixes: tokens at the beginning of all hypotheses in a batch entry."""

from collections.abc import Callable, Sequence

import numpy as np
from keras import ops

from keras_attn._backend import gather
from keras_attn._layer.argument_checks import check_integers, known_values
from keras_attn._masks import END_OF_ROW, embeddable_ids, padding_mask
from keras_attn._search.rows_or_one import check_rows_or_one
from keras_attn._types import Tensor, TensorDict


def check_prefix(prefix_ids: Tensor, pad_token_id: int, vocabulary_size: int | None) -> None:
    """Raises a `ValueError` if prefix ids are not in the vocabulary.

    Symbolic tensors are not checked.

    Args:
        prefix_ids: Int tensor.
        pad_token_id: Int, padding id. It may be outside of the vocabulary.
        vocabulary_size: Int, or `None` if it is unknown.

    Raises:
        ValueError: If ids are not integers, are negative, or are not in the vocabulary.
    """
    check_integers("prefix_ids", prefix_ids)
    ids = known_values(prefix_ids)
    if ids is None or not ids.size:
        return
    below = np.inf if vocabulary_size is None else vocabulary_size
    wrong = ids[(ids != pad_token_id) & ((ids < 0) | (ids >= below))]
    if wrong.size:
        of_vocabulary = "" if vocabulary_size is None else f" and below {vocabulary_size}"
        raise ValueError(
            f"Expected prefix_ids of at least 0{of_vocabulary}. Received: prefix_ids with "
            f"{wrong[0]}. Use ids of the target vocabulary, and pad with pad_token_id="
            f"{pad_token_id}."
        )


def broadcast_prefix(
    prefix_ids: Tensor, max_lengths: Tensor, pad_token_id: int, first_ids: Sequence[int] = ()
) -> Tensor:
    """Broadcasts prefixes to the batch, and ends each of them with `END_OF_ROW`.

    Args:
        prefix_ids: Int tensor of shape `(batch, prefix)` or `(1, prefix)`, padded on the right.
        max_lengths: Int32 tensor of shape `(batch,)`, determines the batch size.
        pad_token_id: Int, padding id. At padding, the search may select any token.
        first_ids: List of ids to insert before each prefix. Defaults to `()`.

    Returns:
        Int32 tensor of shape `(batch, len(first_ids) + prefix + 1)`, with `END_OF_ROW` in place of
        padding.

    Raises:
        ValueError: If `prefix_ids` has the wrong shape.
    """
    check_rows_or_one("prefix_ids", ("prefix",), prefix_ids, max_lengths)
    rows = ops.zeros_like(max_lengths)[:, None]  # (B, 1)
    prefix_ids = ops.cast(prefix_ids, "int32")
    prefix_ids = ops.where(padding_mask(prefix_ids, pad_token_id), prefix_ids, END_OF_ROW)
    first = [rows + token_id for token_id in first_ids]
    prefix = ops.concatenate([*first, prefix_ids + rows, rows + END_OF_ROW], axis=1)  # (B, P+1)
    # All tensors of the loop need a dynamic batch size.
    return ops.reshape(prefix, (ops.shape(max_lengths)[0], ops.shape(prefix)[1]))


def prefix_lengths(prefix: Tensor) -> Tensor:
    """Returns the number of tokens in each prefix.

    Args:
        prefix: Result of `broadcast_prefix`.

    Returns:
        Int32 tensor of shape `(batch,)`, the first position where any token may be selected.
    """
    positions = ops.arange(ops.shape(prefix)[1], dtype="int32")  # (P+1,)
    last = ops.shape(prefix)[1] - 1
    return ops.min(ops.where(prefix == END_OF_ROW, positions, last), axis=1)


def forced_tokens(
    carry: TensorDict,
    log_probs_of_step: Callable[[], Tensor],
    num_open_hypotheses: int | Tensor,
    num_unscored: int | None = 0,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Returns the prefixes' tokens at the current step.

    Args:
        carry: A search's carry. Its optional entry `prefix` is a result of `broadcast_prefix`.
        log_probs_of_step: Function that returns the log probabilities of the next tokens, float32
            `(batch * hypotheses, V)`. It is called if the prefix tokens are scored.
        num_open_hypotheses: Int or scalar int32 tensor, number of open hypotheses per batch entry.
        num_unscored: Int. The first `num_unscored` prefix tokens get the log probability 0.
            `None` for all prefix tokens. Defaults to `0`.

    Returns:
        `None` if there is no prefix. Otherwise a tuple of the tokens, int32 `(batch, 1)`, their log
        probabilities for each hypothesis, float32 `(batch, hypotheses)`, and whether this step is
        within the prefix, boolean `(batch, 1)`.
    """
    if "prefix" not in carry:
        return None
    last_column = ops.shape(carry["prefix"])[1] - 1
    column = ops.minimum(carry["step"], last_column)
    tokens = ops.take(carry["prefix"], column, axis=1)[:, None]  # (B, 1)
    is_forced = tokens != END_OF_ROW  # (B, 1)
    tokens = embeddable_ids(tokens)
    if num_unscored is None:
        nothing = ops.zeros((1, num_open_hypotheses), dtype="float32")
        return tokens, ops.cast(tokens, "float32") * nothing, is_forced
    of_rows = tokens + ops.zeros((1, num_open_hypotheses), dtype="int32")  # (B, K)
    log_probs = gather.gather_beams(log_probs_of_step(), ops.reshape(of_rows, (-1, 1)))  # (B*K, 1)
    log_probs = ops.reshape(log_probs, (-1, num_open_hypotheses))  # (B, K)
    if num_unscored:
        log_probs = ops.where(carry["step"] < num_unscored, 0.0, log_probs)
    return tokens, log_probs, is_forced


def follow(
    forced: tuple[Tensor, Tensor, Tensor] | None, tokens: Tensor, log_probs: Tensor
) -> tuple[Tensor, Tensor]:
    """Replaces selected tokens by prefix tokens where the current step is within the prefix.

    Args:
        forced: Result of `forced_tokens`.
        tokens: Int32 tensor of shape `(batch, hypotheses)`, the selected tokens.
        log_probs: Float32 tensor of shape `(batch, hypotheses)`, their log probabilities.

    Returns:
        Tuple of the tokens and their log probabilities, both of shape `(batch, hypotheses)`.
    """
    if forced is None:
        return tokens, log_probs
    forced_tokens, forced_log_probs, is_forced = forced
    return (
        ops.where(is_forced, forced_tokens, tokens),
        ops.where(is_forced, forced_log_probs, log_probs),
    )
