import keras
import numpy as np

from keras_attn.export._types import Arrays
from keras_attn.export.trace.search_function import SearchFunction

STEPS, SOURCES = 4, 4
"""Numbers of steps and of sources for which the logits are computed."""

IMPOSSIBLE = 5e3
"""Absolute value from which a logit is not a prediction but makes a token impossible."""


def largest_logit(function: SearchFunction, inputs: Arrays, token_ids: np.ndarray) -> float:
    """Returns the largest absolute logit of a model in the first steps of some hypotheses.

    Keras runs the steps. Impossible tokens, whose logits are large negative constants, do not
    count.

    Args:
        function: `SearchFunction`.
        inputs: Dict of arrays, the inputs of the encoder.
        token_ids: Int array `(batch, hypotheses, length)`, the hypotheses.

    Returns:
        Float.
    """
    encoded = function.encode_with_mask(*(inputs[name][:SOURCES] for name in function.inputs))
    search, decoder = function.search, function.search.decoder
    memory = decoder.prepare_memory(**encoded)
    ids = decoder.first_token_ids(memory, search.start_token_id)
    state = decoder.initial_state(memory, 1, False, STEPS)
    best, largest = token_ids[:SOURCES, 0, :STEPS], 0.0
    for step in range(best.shape[1]):
        logits, state = decoder.step(ids, state, memory)  # (B, V)
        sizes = np.abs(keras.ops.convert_to_numpy(logits))
        largest = max(largest, float(sizes[sizes < IMPOSSIBLE].max(initial=0)))
        ids = keras.ops.convert_to_tensor(best[:, step])
    return largest
