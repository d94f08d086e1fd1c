"""Penalties that make tokens impossible."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._types import Tensor
from keras_attn_checks.number_types import is_number


def token_penalties(
    vocabulary_size: int,
    suppressed_token_ids: Sequence[int],
    end_token_ids: Sequence[int],
    step: int | Tensor,
    min_length: int | Tensor,
) -> Tensor:
    """Returns a penalty for each token. Searches add the penalties to log probabilities.

    Args:
        vocabulary_size: Int, number of tokens.
        suppressed_token_ids: List of ints, tokens that are always impossible.
        end_token_ids: List of ints, tokens that are impossible before `min_length` tokens.
        step: Scalar int32 tensor, number of previous tokens.
        min_length: Int or scalar int32 tensor, minimum number of tokens without the end token.

    Returns:
        Float32 tensor of shape `(V,)`.

    Raises:
        ValueError: If a token is not in the vocabulary.
    """
    if max([*end_token_ids, *suppressed_token_ids]) >= vocabulary_size:
        raise ValueError(
            f"Expected token ids below the size of the vocabulary, {vocabulary_size}. Received: "
            f"end_token_ids={list(end_token_ids)}, suppressed_token_ids="
            f"{list(suppressed_token_ids)}. Pass ids of the target vocabulary."
        )
    always = _penalty(vocabulary_size, suppressed_token_ids)
    if is_number(min_length) and not min_length:
        return always
    early = _penalty(vocabulary_size, [*suppressed_token_ids, *end_token_ids])
    return ops.where(step < min_length, early, always)


def _penalty(vocabulary_size, token_ids):
    penalty = np.zeros(vocabulary_size, "float32")
    penalty[list(token_ids)] = IMPOSSIBLE
    return ops.convert_to_tensor(penalty)
