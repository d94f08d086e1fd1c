"""Length penalties for the scores of hypotheses.

The score of a hypothesis is `log_prob / divisor`, plus the coverage penalty of a beam search. Log
probabilities are negative, so a larger exponent `a` favors longer hypotheses. The length L excludes
the end token or stop sequence, but the log probability includes it. The divisors are:

    average            max(L, 1)^a        a = 1: mean log probability per token
    average_with_end   max(L + e, 1)^a    e = 1 with an end token, the length of a stop sequence, or
                                          0 (CTranslate2 4.8, fairseq)
    gnmt               ((5 + L) / 6)^a    [Wu et al., 2016](https://arxiv.org/abs/1609.08144),
                                          equation 14
    none               1
"""

from keras import ops

from keras_attn._types import Tensor
from keras_attn_checks.search_options import LengthPenaltyForm


def divisor(
    num_tokens: int | Tensor,
    num_end_tokens: int | Tensor,
    length_penalty: float | Tensor,
    form: LengthPenaltyForm = "average",
) -> Tensor:
    """Returns the number by which a log probability is divided.

    Args:
        num_tokens: Int or int tensor, number of tokens including the end token.
        num_end_tokens: Int or int tensor, 1 with an end token, otherwise the length of the stop
            sequence or 0. It may be a boolean.
        length_penalty: Float or scalar tensor, the exponent a.
        form: String, one of `LengthPenaltyForm`. Defaults to `"average"`.

    Returns:
        Float32 tensor. It can be broadcast to the shape of the log probabilities.
    """
    lengths = ops.cast(num_tokens, "float32")
    if form == "none":
        return ops.ones_like(lengths)
    if form != "average_with_end":
        lengths = lengths - ops.cast(num_end_tokens, "float32")
    if form == "gnmt":
        return ops.power((lengths + 5.0) / 6.0, length_penalty)
    return ops.power(ops.maximum(lengths, 1.0), length_penalty)


def best_attainable(
    log_probs: Tensor,
    min_length: int | Tensor,
    max_length: Tensor,
    length_penalty: float | Tensor,
    form: LengthPenaltyForm = "average",
) -> Tensor:
    """Returns an upper bound of the final score of an open hypothesis.

    The log probability of the hypothesis can only decrease, and its final length is between
    `min_length` and `max_length`. The divisor either increases or decreases over this range,
    depending on the sign of the length penalty. The largest score is therefore reached at
    `min_length` or at `max_length`.

    Args:
        log_probs: Float32 tensor of shape `(batch,)`, log probabilities of the open hypotheses.
        min_length: Int or scalar tensor, number of tokens so far. With stop sequences, at least 0
            and smaller by the longest one's length - 1.
        max_length: Int tensor of shape `(batch,)`.
        length_penalty: Float or scalar tensor, the exponent a.
        form: String, one of `LengthPenaltyForm`. Defaults to `"average"`.

    Returns:
        Float32 tensor of shape `(batch,)`.
    """
    return ops.maximum(
        log_probs / divisor(min_length + 1, True, length_penalty, form),
        log_probs / divisor(max_length, False, length_penalty, form),
    )
