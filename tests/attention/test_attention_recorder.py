import keras
import numpy as np
import pytest

from keras_attn import (
    LuongAttention,
    MultiHeadAttention,
    TrainingModel,
    record_attention_scores,
    rnn_seq2seq,
    transformer_tiny,
)
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy

SOURCE_IDS = np.array([[5, 6, 7, 2], [5, 2, 0, 0]], "int32")
TARGET_IDS = np.array([[1, 8, 9], [1, 9, 8]], "int32")
IDS = {"source_ids": SOURCE_IDS, "target_ids": TARGET_IDS}


def test_every_layer_and_head_of_a_model_is_recorded_without_changing_it():
    model = TrainingModel(*transformer_tiny(12, 12, num_layers=2))
    logits = numpy(model(IDS))
    with record_attention_scores() as scores:
        assert_close(numpy(model(IDS)), logits, 1e-6)
    own, cross = "self_attention", "cross_attention_layer"
    sides = {"encoder": [own], "decoder": [own, cross]}
    assert set(scores) == {
        f"{side}/stack/block_{block}/{kind}"
        for side, kinds in sides.items()
        for kind in kinds
        for block in range(2)
    }
    lengths = {
        "self_attention": {"encoder": 4, "decoder": 3},
        "cross_attention_layer": {"decoder": 4},
    }
    for path, weights in scores.items():
        side, kind = path.split("/")[0], path.split("/")[-1]
        source = lengths[kind][side]
        assert weights.shape == (2, 4, 4 if side == "encoder" else 3, source)
        assert_close(weights.sum(axis=-1), np.ones(weights.shape[:3]))


def test_what_is_recorded_are_the_weights():
    layer = MultiHeadAttention(2, 3, name="attention")
    query = np.random.normal(size=(2, 4, 6)).astype("float32")
    _, weights = layer(query, return_attention_scores=True)
    with record_attention_scores() as scores:
        layer(query)
    assert_close(scores, {"attention": numpy(weights)}, 1e-6)


def test_nothing_is_recorded_outside_of_the_block():
    layer = LuongAttention("dot", name="attention")
    query = np.ones((1, 2, 4), "float32")
    with record_attention_scores() as scores:
        pass
    layer(query, query)
    assert scores == {}


@requires_tensorflow("elsewhere loops are compiled, and have no values at each step")
def test_the_steps_of_a_loop_make_one_alignment():
    encoder, decoder = rnn_seq2seq(12, 12, units=4, embedding_dim=4)
    encoded = encoder(SOURCE_IDS)
    _, weights = decoder(TARGET_IDS, **encoded, return_attention_scores=True)
    with record_attention_scores() as scores:
        decoder(TARGET_IDS, **encoded)
    (recorded,) = scores.values()
    assert_close(recorded, numpy(weights), 1e-6)


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="Keras does not compile `predict` on PyTorch"
)
def test_compiled_models_have_nothing_to_record():
    inputs = keras.Input((3, 4))
    model = keras.Model(inputs, LuongAttention("dot")(inputs, inputs))
    with record_attention_scores(), pytest.raises(ValueError, match="Call the model itself"):
        model.predict(np.ones((1, 3, 4), "float32"), verbose=0)


def test_weights_of_batches_of_other_sizes_cannot_be_joined():
    layer = LuongAttention("dot", name="attention")
    value = np.ones((3, 4, 2), "float32")
    with (
        record_attention_scores(),
        pytest.raises(ValueError, match=r"\(2, 4, 4\) after.*\(3, 4, 4\)"),
    ):
        layer(value, value)
        layer(value[:2], value[:2])
