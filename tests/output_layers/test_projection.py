import keras
import numpy as np
import pytest

import keras_attn
from tests.backend import precision, requires_tensorflow

pytestmark = requires_tensorflow("the precision of one backend")


@pytest.mark.parametrize("outer", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("inner", ["mixed_bfloat16", "mixed_float16"])
def test_projection_of_a_step_has_the_precision_of_the_teacher_forced_pass(inner, outer):
    """That of the decoder, whatever the global one is, and whether Keras calls or a search."""
    with precision(outer):
        encoder, decoder = keras_attn.transformer_tiny(11, 11, dtype=inner)
        encoded = encoder(np.array([[5, 6, 2]], "int32"))
        at_once = decoder(np.array([[1, 4]], "int32"), **encoded)[:, 0]
        memory = decoder.prepare_memory(**encoded)
        step, _ = decoder.step(np.array([1], "int32"), decoder.initial_state(memory), memory)
    at_once, step = (keras.ops.convert_to_numpy(logits) for logits in (at_once, step))
    for logits in (at_once, step):
        rounded = keras.ops.cast(keras.ops.cast(logits, inner[6:]), "float32")
        np.testing.assert_array_equal(logits, rounded)
    np.testing.assert_allclose(step, at_once, atol=0.1)
