"""How the score of a hypothesis is made from its log probability and length.

`scores = log_probs / divisor(lengths, length_penalty)`: with log probabilities below zero, a larger
penalty favours longer hypotheses. Length counts tokens without the end token; the log probability
includes the end token's.

    average   max(L, 1)^a        CTranslate2, fairseq and others; a = 1 is the mean per token
    gnmt      ((5 + L) / 6)^a    [Wu et al., 2016](https://arxiv.org/abs/1609.08144), equation 14
    none      1
"""

from keras import ops

FORMS = ("average", "gnmt", "none")


def divisor(lengths, length_penalty, form="average"):
    """What the log probability is divided by.

    Args:
        lengths: integer tensor, tokens without the end token.
        length_penalty: float scalar, the exponent a.
        form: `"average"`, `"gnmt"` or `"none"`.

    Returns:
        float32 tensor of the shape of `lengths`.
    """
    lengths = ops.cast(lengths, "float32")
    if form == "none":
        return ops.ones_like(lengths)
    base = ops.maximum(lengths, 1.0) if form == "average" else (lengths + 5.0) / 6.0
    return ops.power(base, length_penalty)


def best_attainable(log_probs, length, max_length, length_penalty, form="average"):
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
        log_probs / divisor(length, length_penalty, form),
        log_probs / divisor(max_length, length_penalty, form),
    )
