from collections.abc import Sequence

import numpy as np

from keras_attn._layer.argument_checks import check_integers


def mask_tokens(
    token_ids: np.ndarray,
    vocabulary_size: int,
    mask_token_id: int,
    seed: int | tuple[int, ...],
    rate: float = 0.15,
    mask_rate: float = 0.8,
    random_rate: float = 0.1,
    special_token_ids: Sequence[int] = (0, 1, 2),
    pad_token_id: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Selects random tokens and masks them for masked language modeling.

    The method was introduced by [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section
    3.1. Most selected tokens are replaced by the mask token, some by a random token, and the rest
    are unchanged. The model cannot tell which unmasked tokens were selected, so it must learn a
    representation of every token. Use a different `seed` in each epoch to mask different tokens.

    Args:
        token_ids: Int array with shape `(batch, time)`, ids in `[0, vocabulary_size)`.
        vocabulary_size: Positive int, number of ids.
        mask_token_id: Int, mask token id.
        seed: Int, or tuple of ints such as `(seed, epoch, step)`. Calls with the same seed mask the
            same tokens.
        rate: Float in [0, 1], probability that a token is selected. Defaults to `0.15`.
        mask_rate: Float in [0, 1], probability that a selected token is replaced by the mask token.
            Defaults to `0.8`.
        random_rate: Float in [0, 1], probability that a selected token is replaced by a random
            token other than special tokens and the mask token. Defaults to `0.1`.
        special_token_ids: Tuple of ints, ids that are never selected, in addition to
            `pad_token_id`. Defaults to `(0, 1, 2)`: padding, start and end.
        pad_token_id: Int, padding id, and label for unselected tokens. Defaults to `0`.

    Returns:
        Tuple of two int32 arrays with shape `(batch, time)`: the ids with masked tokens, and the
        labels. A label is a selected token's original id, and `pad_token_id` elsewhere.

    Raises:
        ValueError: If a rate is out of range, or an id is not an integer in the vocabulary.

    Example:

    >>> import numpy as np
    >>> from keras_attn.text import mask_tokens
    >>> masked, labels = mask_tokens(np.array([[1, 5, 6, 7, 2, 0]]), 9, mask_token_id=3, seed=2)
    >>> masked.tolist(), labels.tolist()
    ([[1, 5, 6, 3, 2, 0]], [[0, 0, 0, 7, 0, 0]])
    """
    rates = (rate, mask_rate, random_rate, mask_rate + random_rate)
    if not all(0 <= number <= 1 for number in rates):  # false for NaN
        raise ValueError(
            "Expected rate, mask_rate, random_rate and mask_rate + random_rate to be in [0, 1]. "
            f"Received: rate={rate}, mask_rate={mask_rate}, random_rate={random_rate}."
        )
    if not 0 <= mask_token_id < vocabulary_size:
        raise ValueError(
            f"Expected mask_token_id in [0, {vocabulary_size}), the range of the vocabulary. "
            f"Received: mask_token_id={mask_token_id}."
        )
    token_ids = np.asarray(token_ids)
    check_integers("token_ids", token_ids)
    if token_ids.size and not 0 <= token_ids.min() <= token_ids.max() < vocabulary_size:
        raise ValueError(
            f"Expected token_ids in [0, {vocabulary_size}), the range of the vocabulary. Received: "
            f"token_ids from {token_ids.min()} to {token_ids.max()}."
        )
    token_ids = token_ids.astype("int32")
    special = [pad_token_id, *special_token_ids]
    generator = np.random.default_rng(seed)
    is_special = np.isin(token_ids, special)
    chosen = (generator.random(token_ids.shape) < rate) & ~is_special  # (B, T)
    fate = generator.random(token_ids.shape)  # (B, T)
    ordinary = np.setdiff1d(np.arange(vocabulary_size), [*special, mask_token_id])
    if random_rate > 0 and not len(ordinary):
        raise ValueError(
            "Expected a vocabulary with ordinary tokens for random_rate > 0. Received: "
            f"vocabulary_size={vocabulary_size}. Pass random_rate=0."
        )
    randoms = generator.choice(ordinary if len(ordinary) else [mask_token_id], token_ids.shape)
    masked = np.where(chosen & (fate < mask_rate), mask_token_id, token_ids)
    is_random = chosen & (fate >= mask_rate) & (fate < mask_rate + random_rate)
    masked = np.where(is_random, randoms, masked)
    return masked.astype("int32"), np.where(chosen, token_ids, pad_token_id).astype("int32")
