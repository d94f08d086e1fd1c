"""The metadata of classifiers, and what the runtime computes from texts, compared with Keras."""

import json

import keras
import numpy as np
import pytest

from keras_attn import (
    AttentionPooling,
    LearnedPositions,
    TransformerEncoder,
    TransformerEncoderBlock,
    sequence_classifier,
)
from keras_attn.export import export_functional_litert, export_functional_onnx
from keras_attn.export._checks.functional_comparison import expected_batches
from keras_attn.export._checks.parity_inputs import arrays_in_order
from keras_attn.export._formats.functional_metadata import FunctionalMetadata
from keras_attn.export._trace.functional_function import FunctionalFunction
from keras_attn.text import SentencePieceTokenizer
from keras_attn_checks.export_options import FunctionalOnnxOptions

TEXTS = ["the film is good", "a bad film", "music so fun", "its plot was dull , not good"]
LABELS = ["bad", "good"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "texts.txt"
    path.write_text("\n".join(TEXTS * 5))
    return SentencePieceTokenizer.train([path], 50, "bpe")


def rows(tokenizer, end=(), padding="post"):
    ids = [[*row, *end] for row in tokenizer.encode(TEXTS)]
    return keras.utils.pad_sequences(ids, padding=padding)


def pooled(ids, mask_zero=True):
    vectors = keras.layers.Embedding(50, 4, mask_zero=mask_zero)(ids)
    return AttentionPooling(3)(vectors, return_attention_scores=True)


def make_classifier(mask_zero=True, length=None, dtype="int32"):
    ids = keras.Input((length,), dtype=dtype, name="ids")
    features, attention = pooled(ids, mask_zero)
    good = keras.layers.Dense(1, "sigmoid", kernel_initializer=keras.initializers.Constant(30.0))
    return keras.Model(ids, {"good": good(features), "attention": attention})


def make_transformer(max_length=30):
    encoder = TransformerEncoder(
        TransformerEncoderBlock(2, 6),
        keras.layers.ReversibleEmbedding(50, 4),
        num_layers=1,
        positions=LearnedPositions(max_length),
    )
    return sequence_classifier(encoder, 2)


def describe(model, sample, **options):
    """The settings of a file, without writing it."""
    options = FunctionalOnnxOptions(parity_inputs=sample, **options)
    function = FunctionalFunction(model)
    arrays = arrays_in_order(sample, function.inputs)
    batches, fixed = expected_batches(function, arrays, None)
    dimensions = function.dimensions(arrays, batches, fixed)
    metadata = FunctionalMetadata(function, dimensions, batches, options).describe()
    return json.loads(metadata["keras_attn.settings"])


@pytest.mark.parametrize("litert", [False, True])
@pytest.mark.parametrize("mask_zero", [True, False])
def test_classifier_of_texts_equals_keras(tokenizer, tmp_path, litert, mask_zero):
    """Each text alone, in a batch with other texts: the padding of the batch changes nothing."""
    runtime = pytest.importorskip("keras_attn_runtime")
    if litert:
        pytest.importorskip("ai_edge_litert.interpreter", reason="needs keras-attn[litert]")
    model = make_classifier(mask_zero)
    export = export_functional_litert if litert else export_functional_onnx
    path = tmp_path / ("classifier.tflite" if litert else "classifier.onnx")
    export(model, path, rows(tokenizer), tokenizer=tokenizer, labels=LABELS)
    results = runtime.Classifier(path).classify(TEXTS)
    for ids, result in zip(tokenizer.encode(TEXTS), results, strict=True):
        expected = {name: np.array(each)[0] for name, each in model(np.array([ids])).items()}
        np.testing.assert_allclose(result.probabilities["good"], expected["good"][0], atol=1e-5)
        np.testing.assert_allclose(result.attention, expected["attention"], atol=1e-5)
        assert result.label == LABELS[int(expected["good"][0] > 0.5)]


def test_functional_metadata_names_inputs_outputs_labels_and_attention(tokenizer):
    settings = describe(make_classifier(), rows(tokenizer), tokenizer=tokenizer, labels=LABELS)
    ids = {"kind": "ids", "dtype": "int32", "shape": ["batch", "ids_1"]}
    assert (settings["kind"], settings["inputs"]) == ("functional", {"ids": ids})
    assert settings["outputs"]["good"] == {"dtype": "float32", "shape": ["batch", 1]}
    assert settings["classes"] == {"output": "good", "labels": LABELS, "activation": "none"}
    assert settings["attention"] == "attention"
    source = settings["source"]
    assert (source["tokenizer"], source["vocabulary_size"]) == ("sentencepiece", 50)
    assert (source["add_start"], source["add_end"]) == (False, False)
    assert source["max_length"] is None and source["ignores_padding"]
    assert not describe(
        make_classifier(False), rows(tokenizer), tokenizer=tokenizer, labels=LABELS
    )["source"]["ignores_padding"]


def test_functional_metadata_of_a_file_without_tokenizer():
    images = keras.Input((4, 4, 3), name="images")
    model = keras.Model(images, keras.layers.Dense(3)(keras.layers.Flatten()(images)))
    sample = np.zeros((2, 4, 4, 3), "float32")
    settings = describe(model, sample)
    shape = ["batch", 4, 4, 3]
    assert settings["inputs"] == {"images": {"kind": "image", "dtype": "float32", "shape": shape}}
    assert settings["source"] is settings["classes"] is settings["attention"] is None
    labels = ["cat", "dog", "cow"]
    assert describe(model, sample, labels=labels)["classes"]["labels"] == labels


def test_functional_metadata_takes_special_tokens_from_the_sample(tokenizer):
    options = {"tokenizer": tokenizer, "labels": LABELS}
    settings = describe(make_transformer(), rows(tokenizer, [tokenizer.end_token_id]), **options)
    source = settings["source"]
    assert (source["add_start"], source["add_end"], source["end_token_id"]) == (False, True, 2)
    assert source["max_length"] == 30 - 1  # one position is that of the end token
    for max_length, expected in ((7, 7), (40, 29)):
        options["max_length"] = max_length
        ended = rows(tokenizer, [tokenizer.end_token_id])
        assert describe(make_transformer(), ended, **options)["source"]["max_length"] == expected
    assert settings["classes"] == {"output": "logits", "labels": LABELS, "activation": "softmax"}


def test_functional_metadata_describes_a_mask_lengths_and_token_types(tokenizer):
    ids = keras.Input((None,), dtype="int32", name="ids")
    mask = keras.Input((None,), dtype="int32", name="attention_mask")
    lengths = keras.Input((), dtype="int32", name="lengths")
    vectors = keras.layers.Embedding(50, 4)(ids)
    features = AttentionPooling(3)(vectors, mask=keras.ops.equal(mask, 1))
    features = features / keras.ops.cast(lengths[:, None], "float32")
    types = keras.Input((None,), dtype="int32", name="token_type_ids")
    features += keras.ops.sum(types, axis=1, keepdims=True)
    model = keras.Model([ids, mask, lengths, types], keras.layers.Dense(2, "softmax")(features))
    sample = rows(tokenizer)
    real = sample != 0
    arrays = [sample, real.astype("int32"), real.sum(axis=1), np.zeros_like(sample)]
    settings = describe(model, arrays, tokenizer=tokenizer, labels=LABELS)
    kinds = [each["kind"] for each in settings["inputs"].values()]
    assert kinds == ["ids", "mask", "lengths", "token_types"]
    assert settings["source"]["ignores_padding"] and settings["classes"]["activation"] == "none"


@pytest.mark.parametrize(
    ("units", "activation", "expected"),
    [
        (1, "linear", "sigmoid"),
        (1, "sigmoid", "none"),
        (2, "linear", "softmax"),
        (2, "softmax", "none"),
        (2, "tanh", "softmax"),
    ],
)
def test_functional_metadata_finds_out_what_the_output_is(tokenizer, units, activation, expected):
    """Also logits that are in [0, 1], as those of zero weights."""
    ids = keras.Input((None,), dtype="int32")
    kernel = "glorot_uniform" if activation == "tanh" else "zeros"
    dense = keras.layers.Dense(units, activation, kernel_initializer=kernel)
    model = keras.Model(ids, dense(pooled(ids)[0]))
    settings = describe(model, rows(tokenizer), tokenizer=tokenizer, labels=LABELS)
    assert settings["classes"]["activation"] == expected


def test_functional_metadata_of_ids_of_fixed_length_and_of_float_dtype(tokenizer):
    sample = rows(tokenizer)
    model = make_classifier(mask_zero=False, length=sample.shape[1], dtype="float32")
    settings = describe(model, sample, tokenizer=tokenizer, labels=LABELS)
    shape = ["batch", sample.shape[1]]
    assert settings["inputs"]["ids"] == {"kind": "ids", "dtype": "float32", "shape": shape}
    assert settings["source"]["ignores_padding"]  # each row has the same length


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": ["a", "b", "c"]}, r"one output of shape \(batch, 3\).*Received: outputs="),
        ({"labels": ["a"]}, "at least two names"),
        ({"labels": ["a", "a"]}, "different labels"),
        ({"labels": "ab"}, None),
        ({"tokenizer": keras.layers.Dense(1)}, "Received: type=Dense. Train one with Sentence"),
    ],
)
def test_functional_metadata_refuses_what_does_not_fit(tokenizer, options, message):
    with pytest.raises(ValueError, match=message or "Received: labels='ab'"):
        describe(make_classifier(), rows(tokenizer), **options)


def test_functional_metadata_refuses_a_sample_of_other_ids_or_padded_on_the_left(tokenizer):
    with pytest.raises(ValueError, match="padded on the right with the id 0.*begins with .0"):
        describe(make_classifier(), rows(tokenizer, padding="pre"), tokenizer=tokenizer)
    tokenizer = SentencePieceTokenizer(tokenizer.model, vocabulary_size=20)
    with pytest.raises(ValueError, match=r"in \[0, 20\), the vocabulary .*ids from 0 to"):
        describe(make_classifier(), np.array([[5, 30, 0]]), tokenizer=tokenizer)


def test_functional_metadata_refuses_a_tokenizer_for_two_texts(tokenizer):
    first, second = (keras.Input((None,), dtype="int32", name=name) for name in ("a", "b"))
    model = keras.Model([first, second], pooled(first)[0] + pooled(second)[0])
    sample = rows(tokenizer)
    with pytest.raises(ValueError, match="one input of ids .*Received: inputs=.*'b'"):
        describe(model, [sample, sample], tokenizer=tokenizer)
