"""Export of models whose inputs are not ids: images, features of any length, two inputs."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_attn_runtime import InputError, Translator
from keras_attn_runtime._models.stepped_model import SteppedModel

from keras_attn import (
    AttentionRNNCell,
    BahdanauAttention,
    BeamDecoder,
    GenerationModel,
    PatchEmbedding,
    RNNDecoder,
    SamplingDecoder,
    TransformerEncoder,
    TransformerEncoderBlock,
    export,
)
from keras_attn.export import (
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
    export_saved_model,
)
from keras_attn.training import ImageFormat, ModelCard, RunDirectory
from keras_attn_commands import main as program
from tests.contracts import assert_close, assert_identical, numpy
from tests.export.small_translator import make_translator, session

GENERATOR = np.random.default_rng(3)
IMAGE_FORMAT = ImageFormat(scale=1 / 255, resize="bilinear")
IMAGES = GENERATOR.random((5, 8, 8, 3)).astype("float32")
FEATURES = GENERATOR.normal(size=(3, 7, 4)).astype("float32")
DOMAINS = np.array([[2], [0], [1]], "int32")


def randomize(model):
    keras.utils.set_random_seed(8)
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.8))
    return model


def make_decoder(vocabulary_size=20):
    return RNNDecoder(
        AttentionRNNCell(keras.layers.GRUCell(8), BahdanauAttention(8)),
        keras.layers.Embedding(vocabulary_size, 8),
        head=keras.layers.Dense(vocabulary_size),
    )


def make_search(vocabulary_size=20):
    decoder = make_decoder(vocabulary_size)
    return BeamDecoder(
        decoder, beam_width=2, num_hypotheses=2, max_length=9, relative_max_length=None,
        return_alignments=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def captioner(tokenizers):
    encoder = TransformerEncoder(TransformerEncoderBlock(2, 8), PatchEmbedding(4, 8), num_layers=1)
    image = keras.Input((8, 8, 3), name="image")
    return randomize(
        GenerationModel(encoder, make_search(tokenizers[1].vocabulary_size), inputs=image)
    )


@pytest.fixture(scope="module")
def exported(captioner, tokenizers, tmp_path_factory):
    path = tmp_path_factory.mktemp("captioner") / "captioner.onnx"
    report = export_onnx(captioner, path, target_tokenizer=tokenizers[1], image_format=IMAGE_FORMAT)
    return path, report


def texts(results, tokenizer):
    rows = zip(results["token_ids"][:, 0], results["lengths"][:, 0], strict=True)
    return tokenizer.decode([ids[:length].tolist() for ids, length in rows])


def test_onnx_file_of_an_image_model_says_what_it_reads(exported):
    translator, report = Translator(exported[0]), exported[1]
    assert report.sentences == 80 and report.best_equal == 1 and report.cut > 0
    assert translator.settings.source is None
    image = translator.settings.inputs["image"]
    assert (image.kind, image.dtype, image.shape) == ("image", "float32", ("batch", 8, 8, 3))
    assert (image.image.channels, image.image.resize) == ("rgb", "bilinear")
    assert (image.image.scale, image.image.offset) == ((1 / 255,) * 3, (0.0,) * 3)


def test_onnx_file_of_an_image_model_writes_captions(captioner, exported, tokenizers):
    translator = Translator(exported[0])
    expected = numpy(captioner(IMAGES))
    captions = translator.generate({"image": IMAGES}, batch_size=2)
    assert [each.text for each in captions] == texts(expected, tokenizers[1])
    assert_close(np.array([each.score for each in captions]), expected["scores"][:, 0])
    assert captions[0].alignments.shape == (
        len(captions[0].token_ids),
        5,
    )  # class token and patches
    assert [each.text for each in captions] == captioner.generate(
        {"image": IMAGES}, target_tokenizer=tokenizers[1]
    )
    for height, width, channels in ((4, 8, 3), (8, 4, 3), (8, 8, 1)):
        with pytest.raises(InputError, match=r"shape \(8, 8, 3\) for 'image'"):
            translator.generate({"image": IMAGES[:, :height, :width, :channels]})
    with pytest.raises(InputError, match="finite numbers for 'image'. Received: nan"):
        translator.generate({"image": IMAGES * np.nan})


@pytest.mark.slow
def test_steps_of_an_image_model_give_the_same(captioner, tokenizers, tmp_path):
    export_onnx_steps(captioner, tmp_path / "steps", target_tokenizer=tokenizers[1])
    expected = numpy(captioner(IMAGES))
    sources = [{"image": image} for image in IMAGES]
    length_penalty = captioner.search.length_penalty
    actual = SteppedModel(tmp_path / "steps").run(sources, 9, length_penalty)
    assert_identical(actual["lengths"], expected["lengths"])
    assert_close(actual["scores"], expected["scores"])


def test_saved_model_of_an_image_model_writes_captions(captioner, tokenizers, tmp_path):
    card = ModelCard(license="CC0-1.0")
    options = {"model_card": card, "image_format": IMAGE_FORMAT}
    export_saved_model(captioner, tmp_path / "model", target_tokenizer=tokenizers[1], **options)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    assert list(loaded.signatures) == ["serving_default"]
    results = loaded.generate(tf.constant(IMAGES))
    expected = numpy(captioner(IMAGES))
    assert_close(results["scores"].numpy(), expected["scores"])
    captions = [text.decode() for text in results["text"].numpy()[:, 0]]
    assert captions == texts(expected, tokenizers[1])
    metadata = json.loads((tmp_path / "model/assets.extra/keras_attn.json").read_text())
    settings = json.loads(metadata["keras_attn.settings"])
    assert settings["source"] is None and list(settings["inputs"]) == ["image"]
    assert settings["inputs"]["image"]["image"] == IMAGE_FORMAT.entries()
    assert json.loads(metadata["keras_attn.card"])["license"] == "CC0-1.0"


class TwoInputs(keras.layers.Layer):
    """Encoder of features; adds the embedding of a domain to each of them."""

    def __init__(self):
        super().__init__()
        self.domains = keras.layers.Embedding(3, 4)

    def build(self, features_shape, domain_shape):
        self.domains.build(None)

    def call(self, features, domain):
        return {"encoder_outputs": features + self.domains(domain)}


@pytest.fixture(scope="module")
def two_inputs():
    inputs = {
        "features": keras.Input((None, 4), name="features"),
        "domain": keras.Input((1,), dtype="int32", name="domain"),
    }
    return randomize(GenerationModel(TwoInputs(), make_search(), inputs=inputs))


def test_onnx_file_of_two_inputs_reads_both_by_name(two_inputs, tmp_path):
    sample = {"features": FEATURES, "domain": DOMAINS}
    export_onnx(two_inputs, tmp_path / "two.onnx", parity_inputs=sample)
    translator = Translator(tmp_path / "two.onnx")
    kinds = {name: each.kind for name, each in translator.settings.inputs.items()}
    assert kinds == {"features": "features", "domain": "ids"}
    assert translator.settings.inputs["features"].shape == ("batch", "features_1", 4)
    # Rows of different lengths run in separate searches.
    rows = [FEATURES[0], FEATURES[1, :3], FEATURES[2]]
    found = translator.generate({"features": rows, "domain": DOMAINS})
    for row, domain, result in zip(rows, DOMAINS, found, strict=True):
        inputs = {"features": row[None], "domain": domain[None]}
        expected = numpy(two_inputs(inputs))
        length = expected["lengths"][0, 0]
        assert result.token_ids == expected["token_ids"][0, 0, :length].tolist()


@pytest.mark.slow
def test_int8_of_other_inputs_is_compared_with_float32(two_inputs, tmp_path):
    sample = {"features": FEATURES, "domain": DOMAINS}
    report = export_onnx(two_inputs, tmp_path / "two.onnx", parity_inputs=sample, precision="int8")
    assert report.precision.sentences == 80


@pytest.mark.slow
def test_export_draws_tokens_for_a_functional_encoder(tmp_path):
    image = keras.Input((None, None, 1), name="image")
    pixels = keras.layers.GlobalMaxPooling2D(keepdims=True)(keras.layers.Conv2D(8, 3)(image))
    outputs = {"encoder_outputs": keras.layers.Reshape((1, 8))(pixels)}
    encoder = keras.Model(image, outputs)
    search = SamplingDecoder(make_decoder(), max_length=5, relative_max_length=None)
    model = randomize(GenerationModel(encoder, search))
    report = export_onnx(model, tmp_path / "model.onnx")
    assert report.all_equal > 0.9
    images, seeds = GENERATOR.random((2, 9, 11, 1)).astype("float32"), np.array([5, 6], "int32")
    expected = numpy(model.search(**encoder(images), seeds=seeds))
    feeds = {"image": images, "seeds": seeds, "max_length": np.array(5, "int32")}
    feeds["length_penalty"] = np.array(1, "float32")
    (ids,) = session(tmp_path / "model.onnx").run(["token_ids"], feeds)
    assert_identical(ids, expected["token_ids"])


def test_export_refuses_samples_that_do_not_fit(captioner, two_inputs, tokenizers, tmp_path):
    path = tmp_path / "model.onnx"
    with pytest.raises(ValueError, match=r"parity_inputs, because .* integer inputs \['domain'\]"):
        export_onnx(two_inputs, path)
    with pytest.raises(ValueError, match="none for \\['domain'\\]"):
        export_onnx(two_inputs, path, parity_inputs={"features": FEATURES})
    with pytest.raises(ValueError, match=r"shape \(None, 8, 8, 3\) for the input 'image'"):
        export_onnx(captioner, path, parity_inputs=IMAGES[:, :4])
    with pytest.raises(ValueError, match="sentences only for a model that reads ids"):
        export_onnx(captioner, path, parity_sentences=["a"])
    with pytest.raises(ValueError, match="no source_tokenizer for a model of other inputs"):
        export_onnx(captioner, path, *tokenizers)
    with pytest.raises(ValueError, match="no source_tokenizer for a model of other inputs"):
        export_onnx_text(captioner, path, *tokenizers)
    with pytest.raises(ValueError, match="no parity_inputs for a model that reads ids"):
        export_onnx(make_translator(), path, parity_inputs=IMAGES)
    with pytest.raises(ValueError, match="max_source_characters only for a model that reads ids"):
        export_saved_model(captioner, path, max_source_characters=3)
    assert list(tmp_path.iterdir()) == []


def test_export_refuses_inputs_that_a_file_cannot_have(tmp_path):
    encoder = keras.layers.Identity()
    for name, shape, message in [
        ("seeds", (None, 4), r"other names than those of the search.*Received: \['seeds'\]"),
        ("features", None, r"any batch size. Received: \{'features': \(2, 3, 4\)\}"),
    ]:
        size = {"batch_shape": (2, 3, 4)} if shape is None else {"shape": shape}
        inputs = keras.Input(**size, name=name)
        encoder = keras.Model(inputs, {"encoder_outputs": keras.layers.Identity()(inputs)})
        model = GenerationModel(encoder, make_search())
        with pytest.raises(ValueError, match=message):
            export_onnx(model, tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("shape", "dtype", "image_format", "message"),
    [
        ((8, 8, 3), "float32", ImageFormat("gray"), r"width, 1\), because of channels='gray'"),
        ((8, 3), "float32", ImageFormat(), r"inputs of the shapes {'image': \('batch', 8, 3\)}"),
        ((8, 8, 3), "uint8", IMAGE_FORMAT, "scale=1 and offset=0 for images of integers"),
    ],
    ids=["channels", "no image", "dtype"],
)
def test_export_refuses_an_image_format_that_does_not_fit(
    tmp_path, shape, dtype, image_format, message
):
    image = keras.Input(shape, dtype=dtype, name="image")
    features = keras.layers.Reshape((-1, shape[-1]))(keras.ops.cast(image, "float32"))
    model = GenerationModel(keras.Model(image, {"encoder_outputs": features}), make_search())
    with pytest.raises(ValueError, match=message):
        export_onnx(
            model,
            tmp_path / "model.onnx",
            parity_inputs=np.ones((2, *shape), dtype),
            image_format=image_format,
        )


def test_export_refuses_an_axis_that_the_model_should_fix(tmp_path):
    inputs = keras.Input((None, 4), name="features")

    class FixedLength(keras.layers.Layer):
        def call(self, features):
            return {"encoder_outputs": features + keras.ops.ones((16, 4))}

    model = GenerationModel(FixedLength(), make_search(), inputs=inputs)
    with pytest.raises(ValueError, match=r"axis 1 of 'features'.*inputs=keras.Input\(shape"):
        export_onnx(model, tmp_path / "model.onnx")


def test_export_command_reads_a_sample(captioner, tokenizers, tmp_path, monkeypatch, capsys):
    run = RunDirectory.create(
        tmp_path / "run", "generation", None, tokenizers[1], image_format=IMAGE_FORMAT
    )
    run.save_model(captioner)
    np.savez(tmp_path / "images.npz", image=IMAGES)
    np.save(tmp_path / "images.npy", IMAGES)
    calls = []

    def export_onnx(*arguments, **options):
        calls.append((arguments, options))
        return export.ExportReport()

    monkeypatch.setattr(export, "export_onnx", export_onnx)

    def main(*options):
        return program.main(["export", "onnx", str(run.path), str(tmp_path / "file"), *options])

    assert main("--parity-inputs", str(tmp_path / "images.npz")) == 0
    (arguments, options) = calls[0]
    assert arguments[2] is None and arguments[3].model == tokenizers[1].model
    assert_identical(options["parity_inputs"], {"image": IMAGES})
    assert options["image_format"] == IMAGE_FORMAT
    for name in ("images.npy", "run/run.json"):
        assert main("--parity-inputs", str(tmp_path / name)) == 1
        assert "Expected a .npz file with an array for each input" in capsys.readouterr().err
