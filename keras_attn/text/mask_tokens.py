from collections.abc import Sequence

import numpy as np


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
    """Masks random tokens for masked language modeling.

    Introduced by [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 3.1. Most of the
    selected tokens are replaced by the mask, some by a random token, and the rest are unchanged, so
    that a model must predict all tokens. Use a different `seed` in each epoch to mask different
    tokens.

    Args:
        token_ids: Int array of shape `(batch, time)`.
        vocabulary_size: Positive int, number of ids.
        mask_token_id: Int, id of the mask.
        seed: Int, or tuple of ints such as `(seed, epoch, step)`. Equal seeds mask the same tokens.
        rate: Float in [0, 1], fraction of the tokens that are selected. Defaults to `0.15`.
        mask_rate: Float in [0, 1], fraction of the selected tokens that are replaced by the mask.
            Defaults to `0.8`.
        random_rate: Float in [0, 1], fraction of the selected tokens that are replaced by a random
            token, which is neither special nor the mask. Defaults to `0.1`.
        special_token_ids: Tuple of ints that are never selected. Defaults to `(0, 1, 2)`, the ids
            of padding, start and end.
        pad_token_id: Int, label of tokens that are not selected. Defaults to `0`.

    Returns:
        Tuple of two int32 arrays of shape `(batch, time)`: the ids with masked tokens, and the
        labels, which are `pad_token_id` for tokens that are not selected.

    Raises:
        ValueError: If a rate is out of range, or the mask is not in the vocabulary.

    Example:

    >>> masked, labels = mask_tokens(np.array([[1, 5, 6, 7, 2, 0]]), 9, mask_token_id=3, seed=2)
    >>> masked.tolist(), labels.tolist()
    ([[1, 5, 6, 3, 2, 0]], [[0, 0, 0, 7, 0, 0]])
    """
    if not 0 <= rate <= 1 or mask_rate < 0 or random_rate < 0 or mask_rate + random_rate > 1:
        raise ValueError(
            "Expected rate, mask_rate, random_rate and mask_rate + random_rate to be in [0, 1]. "
            f"Received: rate={rate}, mask_rate={mask_rate}, random_rate={random_rate}."
        )
    if not 0 <= mask_token_id < vocabulary_size:
        raise ValueError(
            f"Expected mask_token_id in [0, {vocabulary_size}), the range of the vocabulary. "
            f"Received: mask_token_id={mask_token_id}."
        )
    token_ids = np.asarray(token_ids, "int32")
    generator = np.random.default_rng(seed)
    is_special = np.isin(token_ids, list(special_token_ids))
    chosen = (generator.random(token_ids.shape) < rate) & ~is_special  # (B, T)
    fate = generator.random(token_ids.shape)  # (B, T)
    ordinary = np.setdiff1d(np.arange(vocabulary_size), [*special_token_ids, mask_token_id])
    randoms = generator.choice(ordinary, token_ids.shape)  # (B, T)
    masked = np.where(chosen & (fate < mask_rate), mask_token_id, token_ids)
    is_random = chosen & (fate >= mask_rate) & (fate < mask_rate + random_rate)
    masked = np.where(is_random, randoms, masked)
    return masked.astype("int32"), np.where(chosen, token_ids, pad_token_id).astype("int32")
