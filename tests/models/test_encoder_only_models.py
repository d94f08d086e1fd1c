"""Masked language model, classifier of sentences, classifier of images: one encoder each."""

import keras
import numpy as np
import pytest

from keras_attn import (
    LearnedPositions,
    PatchEmbedding,
    RNNEncoder,
    SinusoidalPositions,
    TransformerEncoder,
    TransformerEncoderBlock,
    masked_language_model,
    sequence_classifier,
)
from keras_attn.text import mask_tokens
from keras_attn.training import compile_for_training
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy

VOCABULARY_SIZE, MASK = 12, 3
IDS = np.array([[1, 5, 6, 7, 2], [1, 9, 2, 0, 0]], "int32")


def text_encoder():
    return TransformerEncoder(
        TransformerEncoderBlock(2, 16, activation="gelu"),
        keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8),
        num_layers=1,
        positions=SinusoidalPositions(),
        name="encoder",
    )


def image_classifier():
    encoder = TransformerEncoder(
        TransformerEncoderBlock(2, 16, activation="gelu"),
        PatchEmbedding(2, 8),
        num_layers=1,
        positions=LearnedPositions(5),
        name="encoder",
    )
    images = keras.Input((4, 4, 1), name="images")
    return sequence_classifier(encoder, 3, pooling="first", inputs=images)


def test_the_classifier_shares_the_encoder():
    encoder = text_encoder()
    pretrained, classifier = masked_language_model(encoder), sequence_classifier(encoder, 3)
    assert pretrained(IDS).shape == (2, 5, VOCABULARY_SIZE) and classifier(IDS).shape == (2, 3)
    shared = {id(weight) for weight in encoder.weights}
    for model in (pretrained, classifier):
        assert shared < {id(weight) for weight in model.weights}
    before = numpy(classifier(IDS))
    pretrained.set_weights([weight * 1.5 for weight in pretrained.get_weights()])
    assert (numpy(classifier(IDS)) != before).any()
    # The embedding is counted once: it is the output matrix too.
    names = [weight.path for weight in pretrained.trainable_weights]
    assert sum("embeddings" in name for name in names) == 1


def test_padding_changes_no_class_and_no_token():
    encoder = text_encoder()
    wider = np.pad(IDS, [(0, 0), (0, 3)])
    classifier, pretrained = sequence_classifier(encoder, 3), masked_language_model(encoder)
    assert_close(numpy(classifier(wider)), numpy(classifier(IDS)))
    real = IDS != 0
    assert_close(numpy(pretrained(wider))[:, :5][real], numpy(pretrained(IDS))[real])


def test_a_recurrent_encoder_can_be_classified_too():
    embedding = keras.layers.Embedding(VOCABULARY_SIZE, 4)
    encoder = RNNEncoder(keras.layers.LSTMCell(3), embedding=embedding)
    assert sequence_classifier(encoder, 2)(IDS).shape == (2, 2)


def test_attention_pooling_returns_the_weights_of_the_logits():
    embedding = keras.layers.Embedding(VOCABULARY_SIZE, 4)
    encoder = RNNEncoder(keras.layers.LSTMCell(3), embedding=embedding)
    model = sequence_classifier(encoder, 2, pooling="attention", return_attention_scores=True)
    outputs = {name: numpy(each) for name, each in model(IDS).items()}
    # Yang et al., 2016, equations 5 to 7
    states = numpy(encoder(IDS)["encoder_outputs"])
    pool, dense = model.get_layer("pooling"), model.get_layer("logits")
    hidden = np.tanh(states @ numpy(pool.kernel) + numpy(pool.bias))
    scores = np.where(IDS != 0, (hidden @ numpy(pool.context_vector))[:, :, 0], -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert_close(outputs["attention"], weights)
    pooled = (weights[:, :, None] * states).sum(axis=1)
    assert_close(outputs["logits"], pooled @ numpy(dense.kernel) + numpy(dense.bias))
    only_logits = sequence_classifier(encoder, 2, pooling="attention")
    assert only_logits(IDS).shape == (2, 2)


def test_wrong_poolings_are_refused():
    with pytest.raises(ValueError, match=r"'attention'\). Received: pooling='max'"):
        sequence_classifier(text_encoder(), 2, pooling="max")
    with pytest.raises(ValueError, match="return_attention_scores=True. Received: pooling='mean'"):
        sequence_classifier(text_encoder(), 2, return_attention_scores=True)


def test_learns_hidden_tokens_from_both_sides():
    """In a sentence of equal tokens, the first follows from what is behind it."""
    tokens = np.random.default_rng(0).integers(4, VOCABULARY_SIZE, (1024, 1))
    ids = np.repeat(tokens, 6, axis=1).astype("int32")
    masked, labels = mask_tokens(ids, VOCABULARY_SIZE, MASK, seed=0, rate=0.3)
    model = masked_language_model(text_encoder())
    compile_for_training(model, learning_rate=1e-2, label_smoothing=0.0)
    model.fit(masked, labels, batch_size=64, epochs=20, verbose=0)
    for hidden in (0, 3, 5):
        sentences = ids[:64].copy()
        sentences[:, hidden] = MASK
        found = numpy(model(sentences))[:, hidden].argmax(axis=-1)
        assert (found == ids[:64, hidden]).mean() > 0.9


MODELS = {
    "masked": lambda: masked_language_model(text_encoder()),
    "classifier": lambda: sequence_classifier(text_encoder(), 3),
    "images": image_classifier,
}


def inputs_of(model):
    if len(model.input.shape) == 2:
        return IDS
    return np.random.default_rng(0).normal(size=(3, 4, 4, 1)).astype("float32")


@pytest.mark.parametrize("name", MODELS)
def test_saved_and_loaded(name, tmp_path):
    model = MODELS[name]()
    inputs = inputs_of(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(numpy(loaded(inputs)), numpy(model(inputs)))
    assert len(loaded.weights) == len(model.weights)


@requires_tensorflow("an export starts from a TensorFlow graph")
@pytest.mark.parametrize("name", MODELS)
def test_exported(name, tmp_path):
    from keras_attn.export import export_functional_onnx

    model = MODELS[name]()
    assert (
        export_functional_onnx(model, tmp_path / "model.onnx", inputs_of(model)).largest_difference
        < 1e-5
    )


def test_a_masked_language_model_needs_an_embedding_that_can_be_reversed():
    encoder = TransformerEncoder(
        TransformerEncoderBlock(2, 8), keras.layers.Embedding(9, 4), num_layers=1
    )
    with pytest.raises(ValueError, match="ReversibleEmbedding"):
        masked_language_model(encoder)


def test_a_classifier_drops_from_what_it_pooled():
    encoder = text_encoder()
    assert not any(block.dropout for block in encoder.stack.blocks)
    model = sequence_classifier(encoder, 3, dropout=0.5)
    inference = numpy(model(IDS))
    assert_close(numpy(model(IDS)), inference)
    assert np.abs(numpy(model(IDS, training=True)) - inference).max() > 1e-3
