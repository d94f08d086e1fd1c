"""Converted models with other weights are written back for transformers."""

import json
import types

import keras
import pytest

import keras_attn
from keras_attn.export import ExportError, export_transformers
from keras_attn.training import RunDirectory, enable_lora
from keras_attn_commands.main import main

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")

from keras_attn.convert import from_transformers  # noqa: E402
from tests.convert import test_encoders  # noqa: E402
from tests.convert.against_transformers import save  # noqa: E402
from tests.convert.small_checkpoints import (  # noqa: E402
    MARIAN_CONFIG,
    OPUS_MT_KEYS,
    marian_weights,
    write_folder,
    write_marian_tokenizers,
)
from tests.convert.written_models import (  # noqa: E402
    ENCODERS,
    GENERATORS,
    change_weights,
    check_equal_weights,
    compare_generator,
    convert_generator,
    export,
    load,
    model_class_of,
)


@pytest.mark.parametrize("name", GENERATORS)
def test_a_written_generator_computes_the_same(tmp_path, name):
    converted = convert_generator(name, tmp_path / "original")
    change_weights(converted.model)
    report = export(converted, tmp_path / "written")
    loaded = load(tmp_path / "written", model_class_of(report))
    difference, largest, equal = compare_generator(converted, loaded, count=24)
    assert difference < 1e-4 * max(1, largest)
    assert equal == 1
    again = from_transformers(tmp_path / "written")
    check_equal_weights(again.model, converted.model)
    assert again.search == converted.search


@pytest.mark.parametrize("name", ENCODERS)
def test_a_written_encoder_computes_the_same(tmp_path, name):
    save(ENCODERS[name](), tmp_path / "original")
    converted = from_transformers(tmp_path / "original")
    change_weights(converted.model)
    report = export(converted, tmp_path / "written")
    loaded = load(tmp_path / "written", model_class_of(report))
    test_encoders.check_outputs(loaded, converted.model)
    check_equal_weights(from_transformers(tmp_path / "written").model, converted.model)


@pytest.fixture(scope="module")
def opus_mt(tmp_path_factory):
    """A folder as opus-mt publishes it: settings of the search are in config.json."""
    folder = tmp_path_factory.mktemp("opus-mt")
    size = write_marian_tokenizers(folder)
    ids = {"vocab_size": size, "decoder_vocab_size": size, "pad_token_id": size - 1}
    ids |= {"decoder_start_token_id": size - 1, "bad_words_ids": [[size - 1]]}
    config = {**MARIAN_CONFIG, **OPUS_MT_KEYS, **ids}
    return write_folder(folder, config, marian_weights(vocabulary_size=size))


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_a_published_folder_is_written_in_the_form_of_today(opus_mt, tmp_path, capsys):
    """`generation_config.json` has the search settings, and the tokenizers are copied."""
    run, out = tmp_path / "RUN", tmp_path / "written"
    assert main(["convert", str(opus_mt), str(run)]) == 0
    assert main(["export", "transformers", str(run), str(out), "--verify"]) == 0
    assert "A MarianMTModel of transformers" in capsys.readouterr().out
    loaded = load(out, transformers.MarianMTModel)
    assert loaded.generation_config.num_beams == 4
    assert not hasattr(loaded.config, "bad_words_ids")
    texts = ["the cat sleeps in the red house", ">>fra<< a dog"]
    original, written = (
        transformers.MarianTokenizer.from_pretrained(folder) for folder in (opus_mt, out)
    )
    assert written(texts).input_ids == original(texts).input_ids
    assert main(["export", "transformers", str(run), str(out)]) == 0  # replaced
    names = {path.name for path in out.iterdir()}
    assert names >= {"source.spm", "target.spm", "vocab.json", "tokenizer_config.json"}


def test_another_search_is_written(opus_mt, tmp_path):
    converted = from_transformers(opus_mt)
    searches = {
        "beams": {"beam_width": 2, "num_hypotheses": 2, "stop": "heuristic", "min_length": 2},
        "greedy": {"search_class": keras_attn.GreedyDecoder, "max_length": 7},
        "sampling": {"search_class": keras_attn.SamplingDecoder, "top_k": 5, "temperature": 0.5},
    }
    for name, changed in searches.items():
        model = keras_attn.with_search(converted.model, **changed)
        export_transformers(model, tmp_path / name, original=converted.original)
        again = from_transformers(tmp_path / name).model.search
        found, expected = (search.get_config() for search in (again, model.search))
        ignored = {"name", "decoder"}
        if name != "beams":
            ignored |= {"length_penalty", "length_penalty_form"}
        for key in found.keys() - ignored:
            assert found[key] == expected[key], key
        load(tmp_path / name, transformers.MarianMTModel)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"length_penalty_form": "average"}, "length_penalty_form='average' instead of"),
        ({"coverage_penalty": 0.2}, "coverage_penalty=0.2 instead of 0.0"),
        ({"relative_max_length": (2, 10)}, "relative_max_length=.*instead of None"),
        ({"repetition_penalty": 1.5}, "changes log probabilities"),
    ],
)
def test_a_search_that_generate_does_not_have_is_refused(opus_mt, tmp_path, changed, message):
    converted = from_transformers(opus_mt)
    model = keras_attn.with_search(converted.model, **changed)
    with pytest.raises(ExportError, match=message):
        export_transformers(model, tmp_path / "written", original=converted.original)
    assert list(tmp_path.iterdir()) == []


def test_low_rank_updates_are_merged(opus_mt, tmp_path):
    converted = from_transformers(opus_mt)
    model = converted.model
    updates = enable_lora(model, rank=2, feed_forward_kernels=("expansion", "contraction"))
    for index, variable in enumerate(updates):
        variable.assign(keras.random.normal(variable.shape, seed=index) * 0.3)
    export_transformers(model, tmp_path / "written", original=opus_mt)
    loaded = load(tmp_path / "written", transformers.MarianMTModel)
    difference, largest, equal = compare_generator(converted, loaded, count=16)
    assert difference < 1e-4 * max(1, largest)
    assert equal == 1
    assert len(model.trainable_variables) == len(updates), "the model is not changed"


def test_a_bias_that_the_architecture_does_not_have_is_refused(tmp_path):
    converted = convert_generator("qwen2", tmp_path / "original")
    attention = converted.model.decoder.stack.blocks[0].self_attention
    attention.output_bias.assign(attention.output_bias + 0.1)
    with pytest.raises(ExportError, match="output_bias is not 0, and the architecture has no"):
        export(converted, tmp_path / "written")
    assert {path.name for path in tmp_path.iterdir()} == {"original"}


def test_bad_input_is_refused(opus_mt, tmp_path):
    converted = from_transformers(opus_mt)
    out = tmp_path / "written"
    other = json.loads(converted.original["config.json"]) | {"d_model": 16}
    (tmp_path / "empty").mkdir()
    for original, message in (
        (tmp_path / "empty", "Expected original to have config.json"),
        ({"config.json": b"{"}, "Expected JSON in config.json"),
        ({"config.json": b"[]"}, "Expected a JSON object in config.json"),
        ({"config.json": json.dumps(other).encode()}, "embedding.output_dim=8 instead of 16"),
    ):
        with pytest.raises(ExportError, match=message):
            export_transformers(converted.model, out, original=original)
    for directory in (opus_mt, opus_mt / "written"):
        with pytest.raises(FileExistsError, match="Expected path outside of original"):
            export_transformers(converted.model, directory, original=opus_mt)
        with pytest.raises(FileExistsError, match="Expected path outside of the checkpoint"):
            converted.save(directory)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text("{}")
    with pytest.raises(FileExistsError, match="a directory with other content"):
        export(converted, tmp_path / "own")
    with pytest.raises(FileExistsError, match="a directory with other content"):
        export(converted, opus_mt)  # a checkpoint is never replaced
    norm = converted.model.decoder.stack.blocks[0].memory_norm
    norm.beta.assign(norm.beta * float("nan"))
    with pytest.raises(ExportError, match="Expected finite weights"):
        export(converted, out)
    assert {path.name for path in tmp_path.iterdir()} == {"own", "empty"}


def test_the_command_needs_a_conversion_or_an_equal_architecture(tmp_path, capsys):
    encoder, decoder = keras_attn.rnn_seq2seq(20, 30, units=8, embedding_dim=8)
    model = keras_attn.GenerationModel(encoder, keras_attn.BeamDecoder(decoder, max_length=5))
    run = RunDirectory.create(tmp_path / "RUN", "generation")
    run.save_model(model)
    assert main(["export", "transformers", str(run.path), str(tmp_path / "out")]) == 1
    assert "Received: RNNEncoder and RNNDecoder." in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["export", "onnx", str(run.path), str(tmp_path / "out"), "--verify"])


SEARCH = {
    "max_length": 8,
    "relative_max_length": None,
    "length_penalty_form": "average_with_end",
}


def own_translator(positions, **block):
    """A post-norm or pre-norm Transformer that this library trains."""
    sides = []
    for kind in (keras_attn.TransformerEncoderBlock, keras_attn.TransformerDecoderBlock):
        sides.append(kind(2, 24, **block))
    encoder = keras_attn.TransformerEncoder(
        sides[0],
        keras.layers.Embedding(60, 16),
        num_layers=2,
        positions=positions(),
        scale_embedding=True,
    )
    table = keras.layers.ReversibleEmbedding(70, 16)
    decoder = keras_attn.TransformerDecoder(
        sides[1], table, head=None, num_layers=2, positions=positions(), scale_embedding=True
    )
    model = keras_attn.GenerationModel(encoder, keras_attn.BeamDecoder(decoder, **SEARCH))
    change_weights(model, scale=1.0)
    return model


def test_a_translator_that_equals_marian_is_written(tmp_path):
    model = own_translator(
        lambda: keras_attn.SinusoidalPositions("marian"), normalize_first=False, activation="gelu"
    )
    report = export_transformers(model, tmp_path / "written")
    assert report.class_name == "MarianMTModel"
    loaded = load(tmp_path / "written", transformers.MarianMTModel)
    difference, largest, equal = compare_generator(types.SimpleNamespace(model=model), loaded, 24)
    assert difference < 1e-4 * max(1, largest)
    assert equal == 1


def test_a_translator_that_equals_no_architecture_is_refused(tmp_path):
    model = own_translator(keras_attn.SinusoidalPositions)
    with pytest.raises(ExportError, match="'interleaved' instead of 'marian'.*differ more"):
        export_transformers(model, tmp_path / "written")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM"])
def test_a_language_model_that_equals_an_architecture_is_written(tmp_path, name):
    block, positions = {"activation": "gelu_tanh"}, keras_attn.LearnedPositions(32)
    if name.startswith("Llama"):
        block, positions = {"activation": "swiglu", "normalization": "rms", "use_bias": False}, None
        block["rotary"] = keras_attn.RotaryPositions(500.0)
    decoder = keras_attn.CausalLanguageModel(
        keras_attn.TransformerDecoderBlock(2, 24, cross_attention=False, **block),
        keras.layers.ReversibleEmbedding(60, 16),
        head=None,
        num_layers=2,
        positions=positions,
    )
    model = keras_attn.GenerationModel(None, keras_attn.BeamDecoder(decoder, **SEARCH))
    change_weights(model, scale=1.0)
    report = export_transformers(model, tmp_path / "written")
    assert report.class_name == name
    loaded = load(tmp_path / "written", getattr(transformers, name))
    difference, largest, equal = compare_generator(types.SimpleNamespace(model=model), loaded, 24)
    assert difference < 1e-4 * max(1, largest)
    assert equal == 1


def test_the_codes_of_languages_stay_in_the_search_settings(tmp_path):
    """A request selects the language here; transformers reads it from the file."""
    from tests.convert import test_languages

    test_languages.write(tmp_path / "original", "nllb")
    converted = from_transformers(tmp_path / "original")
    export(converted, tmp_path / "written")
    again = from_transformers(tmp_path / "written")
    assert again.search == converted.search
    generation = json.loads((tmp_path / "written" / "generation_config.json").read_text())
    assert generation == json.loads(converted.original["generation_config.json"])
    assert again.source_tokenizer.languages == converted.source_tokenizer.languages
