"""How the score of a hypothesis is made from its log probability and length.

`scores = log_probs / divisor`, to which a coverage penalty is added if there is one: with log
probabilities below zero, a larger length penalty favours longer hypotheses. Length counts tokens
without the end token; the log probability includes the end token's.

    average            max(L, 1)^a        a = 1 is the mean per token
    average_with_end   max(L + e, 1)^a    e is 1 if the hypothesis has ended by the end token, else
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
    """What the log probability is divided by.

    Args:
        num_tokens: integer tensor or scalar, tokens with the end token.
        has_end: boolean tensor or bool, whether there is an end token.
        length_penalty: float scalar, the exponent a.
        form: one of `FORMS`.

    Returns:
        float32 tensor of a shape that can be broadcast to that of both.
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
    """The best score that an open hypothesis can still reach.

    Its log probability can only fall, and its length will be between `length` and `max_length`; the
    divisor is monotonic in the length, so that one of the two ends is the bound.

    Args:
        log_probs: float32 `(batch,)`.
        length: integer scalar, tokens so far.
        max_length: integer tensor `(batch,)`.
        length_penalty: float scalar.
        form: as in `divisor`.

    Returns:
        float32 `(batch,)`.
    """
    return ops.maximum(
        log_probs / divisor(length + 1, True, length_penalty, form),
        log_probs / divisor(max_length, False, length_penalty, form),
    )
