"""Values that a call adds to the log probabilities of tokens."""

import numpy as np
from keras import ops

from keras_attn._backend.gather import repeat_rows
from keras_attn._backend.scatter import scatter_add
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._layer.argument_checks import check_integers, known_values
from keras_attn._search.repetition import token_places
from keras_attn._search.rows_or_one import check_rows_or_one
from keras_attn._types import Tensor, TensorDict

NO_TOKEN = -1
"""Padding of the ids."""


def prepare_token_bias(
    ids: Tensor, values: Tensor, max_lengths: Tensor, vocabulary_size: int | None
) -> TensorDict:
    """Checks biases and broadcasts them to the batch.

    Args:
        ids: Int tensor of shape `(batch, biases)` or `(1, biases)`, padded with -1.
        values: Float tensor of the same shape. Values below -1e9 become -1e9: impossible tokens.
        max_lengths: Int32 tensor of shape `(batch,)`, determines the batch size.
        vocabulary_size: Int, or `None` if it is unknown.

    Returns:
        Dict of `ids`, int32, and `values`, float32, both of shape `(batch, biases)`.

    Raises:
        ValueError: If the shapes are wrong, ids are not integers or not in the vocabulary, or a
            value is NaN. Symbolic tensors are not checked.
    """
    for name, tensor in (("token_bias_ids", ids), ("token_bias_values", values)):
        check_rows_or_one(name, ("biases",), tensor, max_lengths)
    check_integers("token_bias_ids", ids)
    known_ids, known = known_values(ids), known_values(values)
    below = np.inf if vocabulary_size is None else vocabulary_size
    if known_ids is not None and known_ids.size:
        if known_ids.min() < NO_TOKEN or known_ids.max() >= below:
            raise ValueError(
                f"Expected token_bias_ids below {below}, padded with {NO_TOKEN}. Received: "
                f"token_bias_ids between {known_ids.min()} and {known_ids.max()}. Use ids of the "
                "target vocabulary."
            )
    if known is not None and np.isnan(known).any():
        raise ValueError(
            "Expected token_bias_values without NaN. Received: token_bias_values with NaN. Use "
            f"{IMPOSSIBLE:g} for impossible tokens."
        )
    is_token = ids != NO_TOKEN
    rows = ops.zeros_like(max_lengths)[:, None]  # (B, 1)
    values = ops.clip(ops.cast(values, "float32"), IMPOSSIBLE, -IMPOSSIBLE)
    return {
        "ids": ops.cast(ops.where(is_token, ids, 0), "int32") + rows,
        "values": ops.where(is_token, values, 0.0) + ops.cast(rows, "float32"),
    }


def add_token_bias(log_probs: Tensor, bias: TensorDict, beams: int | Tensor) -> Tensor:
    """Adds biases to log probabilities.

    Args:
        log_probs: Float32 tensor of shape `(batch * beams, V)`.
        bias: Dict returned by `prepare_token_bias`.
        beams: Int or scalar int32 tensor, number of hypotheses per batch entry.

    Returns:
        Float32 tensor of shape `(batch * beams, V)`.
    """
    places = token_places(repeat_rows(bias["ids"], beams))
    values = ops.reshape(repeat_rows(bias["values"], beams), (-1,))
    return scatter_add(log_probs, places, ops.cast(values, log_probs.dtype))
