"""Layers that keep or pool one sequence work on sequences of sequences, with their masks."""

import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_attn import (
    AttentionPooling,
    AttentionRNN,
    AttentionRNNCell,
    BahdanauAttention,
    CombinedAttention,
    IntraDecoderAttention,
    IntraSentenceAttention,
    LearnedPositions,
    LuongAttention,
    MultiHeadAttention,
    SequencePooling,
    SinusoidalPositions,
    SoftAlignment,
    TiedMLMHead,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
    rnn_seq2seq,
)
from keras_attn._layer.attach_mask import AttachMask
from tests.contracts import assert_close, numpy

DOCUMENTS = np.random.default_rng(0).normal(size=(2, 3, 5, 4)).astype("float32")
LAYERS = {
    "pooling": SequencePooling,
    "attention pooling": lambda: AttentionPooling(3),
    "learned": lambda: LearnedPositions(6),
    "sinusoidal": SinusoidalPositions,
    "intra-decoder": lambda: IntraDecoderAttention(LuongAttention("dot")),
    "logits": lambda: TiedMLMHead(keras.layers.ReversibleEmbedding(7, 4)),
    "block": lambda: TransformerEncoderBlock(2, 8),
}


@pytest.mark.parametrize("name", LAYERS)
def test_equals_a_call_with_each_sequence(name):
    layer = LAYERS[name]()
    documents = keras.Input(DOCUMENTS.shape[1:])
    model = keras.Model(documents, keras.layers.TimeDistributed(layer)(documents))
    expected = np.stack([numpy(layer(document)) for document in DOCUMENTS])
    assert model.output_shape == (None, *expected.shape[1:])
    assert_close(numpy(model(DOCUMENTS)), expected, 1e-5)


def embed_documents(layer):
    """A model of ids `(batch, sentences, words)`, with numbers of sentences and words that vary."""
    ids = keras.Input((None, None), dtype="int32")
    vectors = keras.layers.Embedding(20, 4, mask_zero=True)(ids)
    return keras.Model(ids, keras.layers.TimeDistributed(layer)(vectors))


IDS = np.array([[[5, 6, 0, 0], [7, 8, 9, 0]], [[4, 0, 0, 0], [0, 0, 0, 0]]])
MASKED_LAYERS = {
    "heads": lambda: MultiHeadAttention(2, 3),
    "encoder block": lambda: TransformerEncoderBlock(2, 8),
    "decoder block": lambda: TransformerDecoderBlock(2, 8, cross_attention=False),
    "intra-decoder": lambda: IntraDecoderAttention(LuongAttention("dot")),
    "pooling": SequencePooling,
    "attention pooling": lambda: AttentionPooling(3),
}


@pytest.mark.parametrize("name", MASKED_LAYERS)
def test_time_distributed_passes_the_implicit_mask(name):
    """Also of a saved model, over axes of unknown length."""
    model = embed_documents(MASKED_LAYERS[name]())
    embedding, wrapper = model.layers[1:]
    received = numpy(model(IDS))
    for document, ids in zip(received, IDS, strict=True):
        expected = numpy(wrapper.layer(embedding(ids)))
        if "pooling" in name:
            assert_close(document, expected)
        else:
            assert_close(document[ids != 0], expected[ids != 0])
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.keras")
        model.save(path)
        assert_close(numpy(keras.models.load_model(path)(IDS)), received)


def test_time_distributed_passes_the_implicit_mask_to_a_recurrent_layer():
    layer = AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(3)), name="rnn")
    mask = np.random.default_rng(1).random((2, 3, 5)) < 0.7
    received = keras.layers.TimeDistributed(layer)(AttachMask()(DOCUMENTS, mask=mask))
    for found, document, own in zip(numpy(received), DOCUMENTS, mask, strict=True):
        expected = numpy(layer(document, mask=own))
        assert_close(found[own], expected[own])


def hierarchical_classifier():
    """Words to sentences, sentences to a document."""
    model = embed_documents(TransformerEncoderBlock(2, 8))
    sentences = keras.layers.TimeDistributed(SequencePooling())(model.output)
    context = TransformerEncoderBlock(2, 8)(sentences)
    return keras.Model(model.input, SequencePooling()(context))


def test_padding_of_words_and_sentences_changes_nothing():
    model = hierarchical_classifier()
    more = np.pad(IDS, ((0, 0), (0, 2), (0, 3)))
    assert_close(numpy(model(more)), numpy(model(IDS)))
    square = np.pad(IDS, ((0, 0), (0, 2), (0, 0)))  # as many sentences as words
    assert_close(numpy(model(square)), numpy(model(IDS)))


def test_a_mask_of_whole_sequences_masks_all_their_positions():
    block, pooling = TransformerEncoderBlock(2, 8), SequencePooling()
    mask = np.array([[True, False, True], [False, True, True]])
    documents = DOCUMENTS
    for layer in (block, pooling):
        received = numpy(keras.layers.TimeDistributed(layer)(documents, mask=mask))
        assert_close(received[mask], numpy(layer(documents[mask])))
    assert (numpy(keras.layers.TimeDistributed(pooling)(documents, mask=mask))[~mask] == 0).all()


PAIRS = {
    "bahdanau": (lambda: BahdanauAttention(3), "value"),
    "multiple": (lambda: CombinedAttention({"text": BahdanauAttention(3)}), "value"),
    "decoder block": (lambda: TransformerDecoderBlock(2, 8), "encoder_outputs"),
    "soft alignment": (lambda: SoftAlignment(keras.layers.Dense(3)), "second"),
    "intra-sentence": (lambda: IntraSentenceAttention(keras.layers.Dense(3)), "second"),
    "recurrent": (
        lambda: AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(3), BahdanauAttention(3))),
        "encoder_outputs",
    ),
    "recurrent decoder": (
        lambda: rnn_seq2seq(9, 9, units=4, embedding_dim=4)[1],
        "encoder_outputs",
    ),
    "Transformer decoder": (
        lambda: TransformerDecoder(
            TransformerDecoderBlock(2, 8), keras.layers.ReversibleEmbedding(9, 4)
        ),
        "encoder_outputs",
    ),
}


@pytest.mark.parametrize("is_built", [False, True])
@pytest.mark.parametrize("name", PAIRS)
def test_a_layer_with_two_sequences_is_refused_in_a_wrapper(name, is_built):
    make, argument = PAIRS[name]
    layer = make()
    first = np.ones((2, 3), "int32") if "decoder" in name and "block" not in name else DOCUMENTS[0]
    if is_built:
        second = DOCUMENTS[0, : len(first)]
        layer(first, second)
    with pytest.raises(ValueError, match=f"{argument} .*Received: {argument}=None. .*reshape"):
        keras.layers.TimeDistributed(layer)(np.stack([first] * 2))


@pytest.mark.parametrize("name", ["heads", "bahdanau", "multiple", "soft alignment"])
def test_one_mask_for_two_sequences_is_refused(name):
    layer = MultiHeadAttention(2, 3) if name == "heads" else PAIRS[name][0]()
    first, second = DOCUMENTS[0], DOCUMENTS[1]
    layer(first, second)
    with pytest.raises(ValueError, match=r"a mask for each sequence.*mask with shape \(3, 5\)"):
        layer.call(first, second, mask=np.ones((3, 5), bool))


@pytest.mark.parametrize("name", MASKED_LAYERS)
def test_rematerialization_keeps_the_implicit_mask(name):
    layer = MASKED_LAYERS[name]()
    vectors = DOCUMENTS[0]
    mask = np.arange(5) < np.array([[3], [5], [1]])
    expected = numpy(layer(AttachMask()(vectors, mask=mask)))
    with keras.RematScope(mode="full"):
        again = type(layer).from_config(layer.get_config())
    again.build(vectors.shape)
    again.set_weights(layer.get_weights())
    assert_close(numpy(again(AttachMask()(vectors, mask=mask))), expected)
