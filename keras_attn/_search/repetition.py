"""Repetition penalty and n-gram blocking."""

from keras import ops

from keras_attn._backend import gather
from keras_attn._backend.scatter import scatter_add
from keras_attn._backend.top_k import top_k
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._types import Tensor
from keras_attn_checks.number_types import is_number


def penalize_repetition(
    logits: Tensor, token_ids: Tensor, step: int | Tensor, penalty: float | Tensor
) -> Tensor:
    """Makes a hypothesis's previous tokens less probable.

    With p = `penalty`, the function replaces each previous token's logit x by:

        x / p  if x > 0,  else  x p

    The penalty was introduced in section 4.1 of [Keskar et al.,
    2019](https://arxiv.org/abs/1909.05858). The paper always divides x, which would make tokens
    with negative logits more probable. CTranslate2 and Hugging Face Transformers' greedy search and
    sampling use the same formula as this function. The beam search in Transformers applies the
    formula to log probabilities instead, so the same penalty has a different effect.

    Args:
        logits: Float32 tensor of shape `(batch * hypotheses, V)`.
        token_ids: Int32 tensor of shape `(batch, hypotheses, steps)`, the previous tokens.
        step: Scalar int32 tensor, number of previous tokens. Later columns are ignored.
        penalty: Positive float or scalar tensor. Values above 1 make repetitions less probable.

    Returns:
        Float32 tensor of shape `(batch * hypotheses, V)`.
    """
    tokens, is_token = _of_rows(token_ids, step, logits)  # (rows, T)
    tokens = ops.where(is_token, tokens, tokens[:, :1])
    # Scatter each token only once, because LiteRT adds the values of repeated indices.
    tokens, _ = top_k(tokens, ops.shape(tokens)[1])  # (rows, T), sorted
    before = ops.zeros_like(tokens[:, :1]) - 1  # not a token
    previous = ops.concatenate([before, tokens], axis=1)[:, :-1]  # (rows, T)
    factor = ops.cast(ops.where(step > 0, penalty, 1.0), logits.dtype)
    values = gather.gather_beams(logits, tokens)  # (rows, T)
    penalized = ops.where(values > 0, values / factor, values * factor)
    # Do not change infinite logits: the difference would be NaN.
    is_changed = (tokens != previous) & (penalized != values)
    # For penalties from 0.5 to 2, the differences and the sums have no rounding errors.
    changes = ops.where(is_changed, penalized - values, 0.0)
    return scatter_add(logits, token_places(tokens), ops.reshape(changes, (-1,)))


def forbid_repeated_ngrams(
    log_probs: Tensor,
    token_ids: Tensor,
    step: int | Tensor,
    size: int,
    used_size: int | Tensor | None = None,
) -> Tensor:
    """Makes tokens impossible that would repeat an n-gram in their hypothesis.

    As in fairseq, the log probabilities of all other tokens do not change. [Paulus et al.,
    2018](https://arxiv.org/abs/1705.04304), section 2.5, used this method with trigrams.

    Args:
        log_probs: Float32 tensor of shape `(batch * hypotheses, V)`.
        token_ids: Int32 tensor of shape `(batch, hypotheses, steps)`, the previous tokens.
        step: Scalar int32 tensor, number of previous tokens. Later columns are ignored.
        size: Int >= 1, number of tokens in an n-gram.
        used_size: Scalar int32 tensor that replaces `size`, at most `size`. With 0, nothing is
            forbidden. Defaults to `None`: `size`.

    Returns:
        Float32 tensor of shape `(batch * hypotheses, V)`.
    """
    tokens, is_token = _of_rows(token_ids, step, log_probs)  # (rows, T)
    rows, columns = ops.shape(tokens)
    before = ops.zeros((rows, size - 1), dtype="int32") - 1  # not a token
    padded = ops.concatenate([before, tokens], axis=1)  # (rows, size - 1 + T)
    repeats = is_token
    used_size = size if used_size is None else used_size
    is_fixed = is_number(used_size)
    if not is_fixed:
        repeats = repeats & (used_size > 0)
    for index in range(size - 1):
        # Find the previous n-grams that have the same token as the newest n-gram at this index.
        newest = ops.take(padded, step + index, axis=1)[:, None]  # (rows, 1)
        is_same = padded[:, index : index + columns] == newest
        repeats = repeats & (is_same if is_fixed else is_same | (index < size - used_size))
    penalties = ops.cast(ops.where(repeats, IMPOSSIBLE, 0.0), log_probs.dtype)
    return scatter_add(log_probs, token_places(tokens), ops.reshape(penalties, (-1,)))


def _of_rows(token_ids, step, logits):
    """Returns the tokens `(rows, steps)`, and a mask that is `True` for tokens before `step`."""
    columns = ops.shape(token_ids)[2]
    tokens = ops.reshape(token_ids, (ops.shape(logits)[0], columns))
    is_token = ops.zeros_like(tokens, dtype="bool") | (ops.arange(columns, dtype="int32") < step)
    return tokens, is_token


def token_places(tokens: Tensor) -> Tensor:
    """Returns row and token indices for all tokens, int32 `(rows * steps, 2)`."""
    rows = ops.arange(ops.shape(tokens)[0], dtype="int32")[:, None]
    rows = ops.broadcast_to(rows, ops.shape(tokens))
    return ops.reshape(ops.stack([rows, tokens], axis=-1), (-1, 2))
