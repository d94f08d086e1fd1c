import numpy as np


def mask_tokens(
    token_ids,
    vocabulary_size,
    mask_token_id,
    seed,
    rate=0.15,
    mask_rate=0.8,
    random_rate=0.1,
    special_token_ids=(0, 1, 2),
    pad_token_id=0,
):
    """Hides some tokens, for a masked language model to find them.

    Introduced by [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 3.1. Of the
    tokens that are chosen, most are replaced by the mask, some by a random token, and the rest stay
    what they are, so that a model cannot trust a token because it is not the mask. With a `seed` of
    its own, each epoch hides other tokens of the same sentences.

    Args:
        token_ids: int array `(batch, time)`.
        vocabulary_size: int, number of ids; random tokens are below it.
        mask_token_id: int, the id of the mask.
        seed: int, or a tuple of ints such as `(seed, epoch, step)`: equal seeds hide the same.
        rate: float in [0, 1], share of the tokens that are chosen. Default 0.15.
        mask_rate: float, share of the chosen tokens that are replaced by the mask. Default 0.8.
        random_rate: float, share of the chosen tokens that are replaced by a random one, which is
            neither special nor the mask. Default 0.1.
        special_token_ids: ids that are never chosen. Default: padding, start and end, 0 to 2.
        pad_token_id: int, the label of the tokens that were not chosen. Default 0.

    Returns:
        Tuple of two int32 arrays `(batch, time)`: the ids with some of them replaced, and the
        labels, which are `pad_token_id` for all tokens but the chosen ones.

    Raises:
        ValueError: for shares out of range, or a mask outside the vocabulary.

    Example:

    >>> masked, labels = mask_tokens(np.array([[1, 5, 6, 7, 2, 0]]), 9, mask_token_id=3, seed=2)
    >>> masked.tolist(), labels.tolist()
    ([[1, 5, 6, 3, 2, 0]], [[0, 0, 0, 7, 0, 0]])
    """
    if not 0 <= rate <= 1 or mask_rate < 0 or random_rate < 0 or mask_rate + random_rate > 1:
        raise ValueError(
            "rate, mask_rate, random_rate and mask_rate + random_rate must be in [0, 1]. Received: "
            f"rate={rate}, mask_rate={mask_rate}, random_rate={random_rate}."
        )
    if not 0 <= mask_token_id < vocabulary_size:
        raise ValueError(
            f"mask_token_id must be an id below vocabulary_size={vocabulary_size}. "
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
