"""Comparison of the most probable tokens that two implementations of a search return."""

import numpy as np

from keras_attn._search.top_tokens import TOP_TOKEN_IDS, TOP_TOKEN_LOG_PROBS
from keras_attn.export._types import Arrays


def largest_top_token_difference(first: Arrays, second: Arrays, where: np.ndarray) -> float:
    """Returns the largest difference of the log probabilities of a token.

    With other rounding errors, equally probable tokens change places, and another one of them can
    be the last. The second implementation therefore may lack a token if it is not more probable
    than the last token that it returns.

    Args:
        first, second: Dicts of arrays, the outputs of the implementations. 0 is returned if they
            have no `top_token_ids`.
        where: Boolean array of shape `(batch, hypotheses)`, the hypotheses to compare.

    Returns:
        Float. Values below -1 are compared by their relative difference, as in `token_log_probs`.
        `inf` if there are NaNs.
    """
    if TOP_TOKEN_IDS not in first or not where.any():
        return 0.0
    # The number of steps may differ if other hypotheses of the batch have different lengths.
    length = min(outputs[TOP_TOKEN_IDS].shape[2] for outputs in (first, second))
    ids, values, other_ids, other_values = (
        outputs[name][where][:, :length]  # (H, T, k)
        for outputs in (first, second)
        for name in (TOP_TOKEN_IDS, TOP_TOKEN_LOG_PROBS)
    )
    largest = [0.0]
    for rank in range(ids.shape[-1]):
        is_same = other_ids == ids[..., rank, None]
        found = np.where(is_same, other_values, -np.inf).max(axis=-1)  # (H, T)
        found = np.where(is_same.any(axis=-1), found, other_values[..., -1])
        value = values[..., rank]
        difference = np.abs(value - found) / np.maximum(1, np.abs(value))
        largest.append(float(difference.max(initial=0)))
    # A comparison with NaN is never true, so `max` would hide NaN.
    return float("inf") if np.isnan(largest).any() else max(largest)
