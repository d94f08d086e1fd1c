"""What all hypotheses of a sentence begin with: its prefix, in the carry of a search."""

import numpy as np
from keras import ops

from keras_attn._backend import gather
from keras_attn._layer.argument_checks import check_integers, known_values
from keras_attn._types import Tensor, TensorDict
from keras_attn.search.rows_or_one import check_rows_or_one


def check_prefix(prefix_ids: Tensor, pad_token_id: int, vocabulary_size: int | None) -> None:
    """Refuses a prefix whose ids are not those of tokens.

    Ids that are known only in a graph are not checked.

    Args:
        prefix_ids: tensor.
        pad_token_id: int, which may be outside of the vocabulary.
        vocabulary_size: int, or `None` if it is unknown.

    Raises:
        ValueError: for ids that are not integers, negative or not below the size of the vocabulary.
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


def free_behind(prefix_ids: Tensor, max_lengths: Tensor, pad_token_id: int) -> Tensor:
    """Prefixes as a search carries them: behind the longest one too there is padding.

    Args:
        prefix_ids: int `(batch, prefix)` or `(1, prefix)`, padded on the right.
        max_lengths: int32 `(batch,)`, for the size of the batch.
        pad_token_id: int, the sign that all tokens are free.

    Returns:
        int32 `(batch, prefix + 1)`.

    Raises:
        ValueError: for another shape.
    """
    check_rows_or_one("prefix_ids", ("prefix",), prefix_ids, max_lengths)
    rows = ops.zeros_like(max_lengths)[:, None]  # (B, 1)
    prefix = ops.cast(prefix_ids, "int32") + rows  # (B, P)
    prefix = ops.concatenate([prefix, rows + pad_token_id], axis=1)  # (B, P+1)
    # The size of the batch is to be as unknown as that of all else that a loop carries.
    return ops.reshape(prefix, (ops.shape(max_lengths)[0], ops.shape(prefix)[1]))


def forced_tokens(
    carry: TensorDict, step_logits: Tensor, num_open_hypotheses: int, pad_token_id: int
) -> tuple[Tensor, Tensor, Tensor] | None:
    """The tokens of the prefix that come next.

    Args:
        carry: of a search; its `prefix` as from `free_behind`, if there is one.
        step_logits: float32 `(batch * hypotheses, V)`.
        num_open_hypotheses: int, open hypotheses of each sentence.
        pad_token_id: int.

    Returns:
        `None` where the search has no prefix, else a tuple of the tokens, int32 `(batch, 1)`, their
        log probabilities after each hypothesis, float32 `(batch, hypotheses)`, and whether there is
        still one, boolean `(batch, 1)`.
    """
    if "prefix" not in carry:
        return None
    last_column = ops.shape(carry["prefix"])[1] - 1
    column = ops.minimum(carry["step"], last_column)
    tokens = ops.take(carry["prefix"], column, axis=1)[:, None]  # (B, 1)
    of_rows = tokens + ops.zeros((1, num_open_hypotheses), dtype="int32")  # (B, K)
    log_probs = gather.gather_beams(
        ops.log_softmax(step_logits), ops.reshape(of_rows, (-1, 1))
    )  # (B*K, 1)
    log_probs = ops.reshape(log_probs, (-1, num_open_hypotheses))  # (B, K)
    return tokens, log_probs, tokens != pad_token_id


def follow(
    forced: tuple[Tensor, Tensor, Tensor] | None, tokens: Tensor, log_probs: Tensor
) -> tuple[Tensor, Tensor]:
    """What is chosen, or the prefix in its place while it lasts: tokens and log probabilities.

    Args:
        forced: as from `forced_tokens`.
        tokens, log_probs: int32 and float32 `(batch, hypotheses)`, chosen for each hypothesis.
    """
    if forced is None:
        return tokens, log_probs
    forced_tokens, forced_log_probs, is_forced = forced
    return (
        ops.where(is_forced, forced_tokens, tokens),
        ops.where(is_forced, forced_log_probs, log_probs),
    )
