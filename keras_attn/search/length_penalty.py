"""Scores of hypotheses from log probabilities and lengths.

`scores = log_probs / divisor`, plus the coverage penalty if there is one. Log probabilities are
negative, so a larger length penalty favors longer hypotheses. The length L excludes the end token;
the log probability includes it.

    average            max(L, 1)^a        a = 1 is the mean per token
    average_with_end   max(L + e, 1)^a    e is 1 if the hypothesis ended with the end token, else
                                          0: CTranslate2 4.8, fairseq
    gnmt               ((5 + L) / 6)^a    [Wu et al., 2016](https://arxiv.org/abs/1609.08144), (14)
    none               1
"""

from keras import ops

from keras_attn._types import Tensor

FORMS = ("average", "average_with_end", "gnmt", "none")


def divisor(
    num_tokens: int | Tensor,
    has_end: bool | Tensor,
    length_penalty: float | Tensor,
    form: str = "average",
) -> Tensor:
    """Returns the divisor of the log probability.

    Args:
        num_tokens: Int or int tensor, number of tokens including the end token.
        has_end: Bool or boolean tensor, whether there is an end token.
        length_penalty: Float or scalar tensor, the exponent a.
        form: String, one of `FORMS`. Defaults to `"average"`.

    Returns:
        Float32 tensor that broadcasts to the shape of both.
    """
    lengths = ops.cast(num_tokens, "float32")
    if form == "none":
        return ops.ones_like(lengths)
    if form != "average_with_end":
        lengths = lengths - ops.cast(has_end, "float32")
    if form == "gnmt":
        return ops.power((lengths + 5.0) / 6.0, length_penalty)
    return ops.power(ops.maximum(lengths, 1.0), length_penalty)


def best_attainable(
    log_probs: Tensor,
    length: int | Tensor,
    max_length: Tensor,
    length_penalty: float | Tensor,
    form: str = "average",
) -> Tensor:
    """Returns an upper bound of the score that an open hypothesis can still reach.

    Its log probability can only decrease, and its length will be between `length` and `max_length`.
    The divisor is monotonic in the length, so the bound is at one of these two lengths.

    Args:
        log_probs: Float32 tensor of shape `(batch,)`.
        length: Int or scalar tensor, number of tokens so far.
        max_length: Int tensor of shape `(batch,)`.
        length_penalty: Float or scalar tensor, the exponent a.
        form: String, one of `FORMS`. Defaults to `"average"`.

    Returns:
        Float32 tensor of shape `(batch,)`.
    """
    return ops.maximum(
        log_probs / divisor(length + 1, True, length_penalty, form),
        log_probs / divisor(max_length, False, length_penalty, form),
    )
