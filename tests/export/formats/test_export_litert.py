import base64
import contextlib
import hashlib
import json
import zipfile

import keras
import numpy as np
import pytest

from keras_attn import (
    BeamDecoder,
    GenerationModel,
    GreedyDecoder,
    SamplingDecoder,
    rnn_seq2seq,
    transformer_seq2seq,
    with_search,
)
from keras_attn.export import ExportError, export_litert
from keras_attn.export._formats.file_metadata import describe
from keras_attn.export._trace import litert_conversion
from keras_attn.export._trace.litert_conversion import convert_to_litert
from keras_attn.export._trace.search_function import SearchFunction
from keras_attn.training import ModelCard
from tests.export.small_translator import SOURCE, litert_settings
from tests.models.mean_decoder import MeanDecoder
from tests.slow_cases import all_slow_but

interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="needs keras-attn[litert]")


@pytest.fixture(scope="module")
def small_model():
    """Returns a Transformer whose hypotheses end at different lengths."""
    encoder, decoder = transformer_seq2seq(
        45, 46, num_layers=2, num_heads=2, embedding_dim=16, intermediate_dim=32, seed=1
    )
    model = GenerationModel(encoder, BeamDecoder(decoder, beam_width=3, max_length=20))
    keras.utils.set_random_seed(4)
    for weight in model.weights:
        if len(weight.shape) > 1:
            weight.assign(keras.random.normal(weight.shape, stddev=0.5))
    return model


@pytest.fixture(scope="module")
def exported_litert(translator, tokenizers, tmp_path_factory):
    """Returns the path of an exported recurrent translator, and the report of the export."""
    path = tmp_path_factory.mktemp("litert") / "small.tflite"
    report = export_litert(
        translator,
        path,
        *tokenizers,
        alignments=True,
        parity_sentences=SOURCE,
        model_card=ModelCard(license="Apache-2.0"),
    )
    return path, report


def run(path, **inputs):
    runner = interpreter.Interpreter(str(path)).get_signature_runner("serving_default")
    return runner(**inputs)


def inputs_of(ids, max_length=20, length_penalty=1.0, **others):
    return {
        "source_ids": np.array(ids, "int32"),
        "max_length": np.array(max_length, "int32"),
        "length_penalty": np.array(length_penalty, "float32"),
        "min_length": np.array(0, "int32"),
        "patience": np.array(1, "float32"),
        **others,
    }


def test_export_litert_equals_keras(exported_litert, translator, tokenizers):
    path, report = exported_litert
    assert report.all_equal == 1.0 and report.sentences >= 200
    assert report.cut > 0
    for text in SOURCE:
        ids = tokenizers[0].encode([text])
        expected = translator(np.array(ids, "int32"))
        actual = run(path, **inputs_of(ids, translator.search.max_length))
        steps = expected["token_ids"].shape[2]
        np.testing.assert_array_equal(actual["token_ids"][:, :, :steps], expected["token_ids"])
        np.testing.assert_array_equal(actual["lengths"], expected["lengths"])
        np.testing.assert_allclose(actual["scores"], expected["scores"], atol=1e-4)
        assert actual["alignments"].shape[3] == len(ids[0])
        weights = actual["alignments"][0, 0, : int(actual["lengths"][0, 0])]
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-5)


@pytest.mark.parametrize("can_widen", [False, True])
def test_export_litert_warns_of_a_decoder_that_cannot_widen(tmp_path, can_widen):
    class OwnDecoder(MeanDecoder):
        vocabulary_size = 10

    OwnDecoder.can_widen = can_widen
    encoder, _ = rnn_seq2seq(10, 10, embedding_dim=4, units=2)
    model = GenerationModel(encoder, GreedyDecoder(OwnDecoder(name="own"), max_length=3))
    message = "search with OwnDecoder 'own' grow in each step.*Set.*implement widen"
    warns = contextlib.nullcontext() if can_widen else pytest.warns(UserWarning, match=message)
    with warns as found:
        export_litert(model, tmp_path / "m.tflite")
    if found:
        warned = [each.filename for each in found if each.category is UserWarning]
        assert warned == [__file__]


def test_export_litert_stores_metadata_after_the_model(exported_litert, translator, tokenizers):
    path, report = exported_litert
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        files = {name: archive.read(name) for name in archive.namelist()}
        start = min(each.header_offset for each in archive.infolist())
    assert set(files) == {"keras_attn.json", "card.json", "source.spm", "target.spm"}
    function = SearchFunction(translator, *tokenizers, alignments=True, fixed_counts=True)
    expected = describe(function, *tokenizers)
    entries = json.loads(files["keras_attn.json"])
    model = path.read_bytes()[:start]
    assert entries.pop("keras_attn.model_checksum") == hashlib.sha256(model).hexdigest()
    for side, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        assert files[f"{side}.spm"] == tokenizer.model
        entries[f"keras_attn.{side}_tokenizer"] = base64.b64encode(tokenizer.model).decode()
    assert entries == expected
    card = json.loads(files["card.json"])
    assert card["license"] == "Apache-2.0"
    assert card["parity"]["sentences"] == report.sentences
    # The interpreter ignores what follows the model.
    ids = [[7, 8, 9]]
    whole = run(path, **inputs_of(ids))
    alone = interpreter.Interpreter(model_content=model).get_signature_runner("serving_default")
    for name, value in alone(**inputs_of(ids)).items():
        np.testing.assert_array_equal(whole[name], value)


@pytest.mark.parametrize("precision", all_slow_but("int8", cases=["float16", "int8"]))
def test_export_litert_precision_makes_the_file_smaller(small_model, tmp_path, precision):
    # Larger than the graph of the search, so that the weights decide the size.
    encoder, decoder = transformer_seq2seq(
        900, 900, num_layers=1, num_heads=2, embedding_dim=64, intermediate_dim=128, seed=1
    )
    model = GenerationModel(encoder, BeamDecoder(decoder, beam_width=2, max_length=6))
    report = export_litert(model, tmp_path / "small.tflite", precision=precision)
    weights = sum(4 * weight.numpy().size for weight in model.weights)
    share = {"float16": 0.5, "int8": 0.25}[precision]
    assert (tmp_path / "small.tflite").stat().st_size < share * weights + 200_000
    assert report.precision.precision == precision
    assert report.precision.best_equal > 0.8


def test_export_litert_batch_size_prefix_and_alignments_of_a_transformer(small_model, tmp_path):
    path = tmp_path / "small.tflite"
    report = export_litert(
        small_model, path, batch_size=3, accept_target_prefix=True, alignments=True
    )
    assert report.all_equal == 1.0 and report.sentences >= 200
    ids = [[5, 6, 7, 2], [8, 2, 0, 0], [9, 10, 2, 0]]
    prefix = np.array([[11, 12], [13, 0], [0, 0]], "int32")
    actual = run(path, **inputs_of(ids, prefix_ids=prefix))
    assert actual["token_ids"][0, 0, :2].tolist() == [11, 12]
    assert actual["token_ids"][1, 0, 0] == 13
    assert actual["alignments"][1, 0, 0].tolist()[2:] == [0, 0]  # padding


def test_export_litert_samples_with_seeds(small_model, tmp_path):
    model = with_search(
        small_model, SamplingDecoder, num_hypotheses=2, repetition_penalty=1.3, top_k=8
    )
    report = export_litert(model, tmp_path / "small.tflite")
    assert report.is_stochastic and report.all_equal > 0.9
    ids = [[5, 6, 7, 2]]
    inputs = {**inputs_of(ids), **litert_settings(model.search)}
    del inputs["patience"]
    found = [
        run(tmp_path / "small.tflite", **inputs, seeds=np.array([seed], "int32"))
        for seed in (2, *[1] * 20)
    ]
    other, first, *repeated = (each["token_ids"].tolist() for each in found)
    # LiteRT with XNNPACK returns one of two results at random if the shapes in the loop change.
    assert all(each == first for each in repeated)
    assert first != other


def test_export_litert_names_operators_that_litert_lacks():
    import tensorflow as tf

    class LowBits(keras.layers.Layer):
        """A layer with an operator that LiteRT lacks."""

        def call(self, inputs):
            return tf.bitwise.bitwise_and(inputs, 3)

        def compute_output_shape(self, input_shape):
            return input_shape

    layer = LowBits(name="low_bits")
    signature = [tf.TensorSpec((1, 4), tf.int32, name="x")]
    with pytest.raises(ExportError, match=r"tf.BitwiseAnd in \['low_bits.*export_onnx"):
        convert_to_litert({"serving_default": (lambda x: {"y": layer(x)}, signature)}, [])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"precision": "int4"}, "Expected precision to be one of"),
        ({"batch_size": 0}, r"Expected batch_size to be an integer in \[1, 2\*\*31\)"),
        ({"batch_size": None}, "dynamic batch size"),
    ],
)
def test_export_litert_refuses_arguments(small_model, tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        export_litert(small_model, tmp_path / "small.tflite", **arguments)
    assert not list(tmp_path.iterdir())


def test_export_litert_refuses_large_models_before_the_conversion(
    small_model, tmp_path, monkeypatch
):
    monkeypatch.setattr(litert_conversion, "LIMIT", 1000)
    size = sum(4 * weight.numpy().size for weight in small_model.weights)
    with pytest.raises(ExportError, match=f"at most 1,000 bytes.*Received: {size:,} bytes"):
        export_litert(small_model, tmp_path / "small.tflite")
    assert not list(tmp_path.iterdir())


def test_export_litert_keeps_files_of_other_kinds(small_model, tmp_path):
    (tmp_path / "notes.txt").write_text("not a model")
    with pytest.raises(FileExistsError, match="a file of another kind"):
        export_litert(small_model, tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "not a model"
