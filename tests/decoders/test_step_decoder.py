import keras
import numpy as np
import pytest

from keras_attn import GreedyDecoder, StepDecoder
from tests.contracts import assert_close, numpy
from tests.testing.small_decoder import SmallDecoder

ENCODED = {
    "encoder_outputs": np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32"),
    "encoder_mask": np.arange(4) < np.array([[4], [2]]),
}


def test_step_decoder_builds_all_parts_by_default():
    decoder = SmallDecoder()
    decoder.build((None, None), (None, None, 3), (None, None))
    assert decoder.built
    assert [weight.shape for weight in decoder.weights] == [(5, 4), (3, 4), (4,), (4, 5), (5,)]


def test_step_decoder_is_built_and_saved_as_a_part_of_a_search(tmp_path):
    inputs = {
        "encoder_outputs": keras.Input((None, 3), name="encoder_outputs"),
        "encoder_mask": keras.Input((None,), dtype="bool", name="encoder_mask"),
    }
    search = GreedyDecoder(SmallDecoder(), max_length=4)
    model = keras.Model(inputs, search(**inputs))
    assert len(model.weights) == 5
    expected = numpy(model(ENCODED))
    model.save(tmp_path / "model.keras")
    assert_close(numpy(keras.models.load_model(tmp_path / "model.keras")(ENCODED)), expected)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("prepare_memory", [None]),
        ("initial_state", [{}]),
        ("step", [None, {}, {}]),
        ("call", [None, None]),
    ],
)
def test_step_decoder_requires_the_methods_of_the_contract(method, arguments):
    with pytest.raises(NotImplementedError, match=f"StepDecoder must override `{method}`"):
        getattr(StepDecoder(), method)(*arguments)
