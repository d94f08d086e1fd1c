"""Reading of folders and errors, without PyTorch and transformers."""

import json

import numpy as np
import pytest

from keras_attn.convert import ConversionError, from_transformers
from keras_attn.training import RunDirectory
from keras_attn_commands.main import main
from tests.convert.small_checkpoints import (
    MARIAN_CONFIG,
    OPUS_MT_KEYS,
    marian_weights,
    random_sources,
    write_folder,
)

pytest.importorskip("safetensors")
SOURCES = random_sources(4)


def found_ids(model):
    return np.array(model(SOURCES)["token_ids"]).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("whole") / "marian")


def test_a_command_writes_a_run_directory(folder, tmp_path, capsys):
    run = tmp_path / "RUN"
    assert main(["convert", str(folder), str(run), "--report"]) == 0
    printed = capsys.readouterr().out
    assert "config.json: d_model = 8: mapped, size of the vectors" in printed
    assert "a MarianMTModel. Settings: 18 mapped, 0 irrelevant, 1 harmless, 0 ignored" in printed
    loaded = RunDirectory(run)
    assert loaded.files["conversion"].read_text() in printed
    expected = found_ids(from_transformers(folder).model)
    assert found_ids(loaded.load_model("generation")) == expected
    assert main(["convert", str(folder), str(run)]) == 0  # replaces an earlier conversion


def test_a_command_writes_nothing_on_an_error(folder, tmp_path, capsys):
    run = tmp_path / "RUN"
    assert main(["convert", str(tmp_path / "missing"), str(run)]) == 1
    assert capsys.readouterr().err.startswith("Nothing was converted. Expected the path of a fold")
    run.mkdir()
    (run / "state").write_text("of a training")
    assert main(["convert", str(folder), str(run)]) == 1
    assert [path.name for path in tmp_path.rglob("*")] == ["RUN", "state"]


def test_a_command_says_that_there_is_no_tokenizer(folder, tmp_path, capsys):
    assert main(["convert", str(folder), str(tmp_path / "RUN")]) == 0
    printed = capsys.readouterr().out
    assert "none, because the folder does not have source.spm, target.spm and vocab.json" in printed
    assert "reads and writes token ids" in printed


def test_other_paths_than_checkpoints_are_named(folder, tmp_path):
    from_transformers(folder).save(tmp_path / "RUN")
    with pytest.raises(ConversionError, match="a run directory, which is already converted"):
        from_transformers(tmp_path / "RUN")
    with pytest.raises(ConversionError, match="a file. Pass its folder"):
        from_transformers(folder / "config.json")


def test_architectures_are_checked_before_weights(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    with pytest.raises(ConversionError, match="Received: model_type='whisper'"):
        from_transformers(tmp_path)


def test_the_config_of_an_opus_mt_model_has_the_search_settings(tmp_path):
    folder = write_folder(tmp_path / "opus", {**MARIAN_CONFIG, **OPUS_MT_KEYS})
    with pytest.raises(ConversionError, match="force"):
        from_transformers(write_folder(tmp_path / "x", {**MARIAN_CONFIG, "forced_eos_token_id": 3}))
    converted = from_transformers(folder)
    assert converted.count("ignored") == 0
    search = converted.model.search
    assert (search.beam_width, search.max_length, search.stop) == (4, 15, "heuristic")
    assert search.suppressed_token_ids == [59] and search.force_end_token


def test_a_generation_config_replaces_the_search_settings_of_the_config(tmp_path):
    generation = {"num_beams": 2, "early_stopping": True, "max_length": 9, "eos_token_id": 0}
    generation |= {"decoder_start_token_id": 59, "pad_token_id": 59}
    config = {**MARIAN_CONFIG, **OPUS_MT_KEYS}
    folder = write_folder(tmp_path / "both", config, generation_config=generation)
    converted = from_transformers(folder)
    search = converted.model.search
    assert (search.beam_width, search.max_length, search.suppressed_token_ids) == (2, 8, [])
    assert "config.json: num_beams = 4: irrelevant, generation_config.json" in converted.report()


def test_the_first_releases_of_bart_force_the_start_token(tmp_path):
    """Only without a `generation_config.json`, as in `GenerationConfig.from_model_config`."""
    config = {**MARIAN_CONFIG, "force_bos_token_to_be_generated": True, "bos_token_id": 5}
    folder = write_folder(tmp_path / "bart", config)
    assert from_transformers(folder).model.search.forced_prefix_ids == [5]
    generation = {"decoder_start_token_id": 59, "pad_token_id": 59, "eos_token_id": 0}
    write_folder(folder, config, generation_config=generation)
    assert from_transformers(folder).model.search.forced_prefix_ids == []


def test_a_command_replaces_search_settings(folder, tmp_path, capsys):
    arguments = ["convert", str(folder), str(tmp_path / "RUN")]
    assert main([*arguments, "--setting", "num_beams=3", "--setting", "max_length=9"]) == 0
    report = RunDirectory(tmp_path / "RUN").files["conversion"].read_text()
    assert "search: BeamDecoder(" in report and "max_length=8" in report
    assert "max_length = 9: mapped, max_length, without the start token; at your" in report
    assert main([*arguments, "--setting", "d_model=9"]) == 1
    assert "with 'd_model'. Settings of the model belong to its weights" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_of_half_precision_are_read(tmp_path, dtype):
    import ml_dtypes
    from safetensors.numpy import save_file

    folder = write_folder(tmp_path / dtype)
    numpy_dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    rounded = {name: value.astype(numpy_dtype) for name, value in marian_weights().items()}
    save_file(rounded, folder / "model.safetensors")
    found = from_transformers(folder).model.encoder.embedding.embeddings
    expected = rounded["model.shared.weight"].astype("float32")
    np.testing.assert_array_equal(np.array(found), expected)


def test_shards_are_read_and_missing_ones_are_named(tmp_path, folder):
    from safetensors.numpy import save_file

    sharded = tmp_path / "sharded"
    sharded.mkdir()
    (sharded / "config.json").write_text(json.dumps(MARIAN_CONFIG))
    weights, weight_map = marian_weights(), {}
    names = sorted(weights)
    for number, part in enumerate((names[:9], names[9:])):
        shard = f"model-0000{number + 1}-of-00002.safetensors"
        save_file({name: weights[name] for name in part}, sharded / shard)
        weight_map |= dict.fromkeys(part, shard)
    index = {"metadata": {}, "weight_map": weight_map}
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
    converted = from_transformers(sharded)
    assert found_ids(converted.model) == found_ids(from_transformers(folder).model)
    (sharded / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ConversionError, match="without model-00002-of-00002.safetensors"):
        from_transformers(sharded)


@pytest.mark.parametrize("is_sharded", [False, True])
def test_weights_of_pytorch_are_read(tmp_path, folder, is_sharded):
    torch = pytest.importorskip("torch")
    other = tmp_path / "bin"
    other.mkdir()
    (other / "config.json").write_text(json.dumps(MARIAN_CONFIG))
    tensors = {name: torch.tensor(value) for name, value in marian_weights().items()}
    # Published files have buffers of other dtypes, and weights of half precision.
    tensors["model.shared.weight"] = tensors["model.shared.weight"].bfloat16()
    rounded = tensors["model.shared.weight"].float().numpy()
    expected = write_folder(
        tmp_path / "rounded", weights=marian_weights(**{"model.shared.weight": rounded})
    )
    parts = {"pytorch_model.bin": list(tensors)}
    if is_sharded:
        names = sorted(tensors)
        shards = "pytorch_model-0000{}-of-00002.bin"
        parts = {shards.format(1): names[:9], shards.format(2): names[9:]}
        weight_map = {name: file for file, part in parts.items() for name in part}
        index = json.dumps({"weight_map": weight_map})
        (other / "pytorch_model.bin.index.json").write_text(index)
    for file, part in parts.items():
        torch.save({name: tensors[name] for name in part}, other / file)
    found = found_ids(from_transformers(other).model)
    assert found == found_ids(from_transformers(expected).model)


def test_code_in_weights_of_pytorch_does_not_run(tmp_path):
    torch = pytest.importorskip("torch")
    (tmp_path / "config.json").write_text(json.dumps(MARIAN_CONFIG))
    torch.save({"model.shared.weight": RunsCode(tmp_path)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ConversionError, match="pytorch_model.bin.* Python objects that are not"):
        from_transformers(tmp_path)
    assert not (tmp_path / "ran").exists()


class RunsCode:
    """An object that creates a file when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return (self.folder / "ran").touch, ()


def without(name):
    return {key: value for key, value in marian_weights().items() if key != name}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (without("model.encoder.layers.0.fc1.bias"), "missing: model.encoder.layers.0.fc1.bias"),
        (marian_weights(**{"other.weight": np.ones(3)}), "unused: other.weight"),
        (
            marian_weights(**{"model.decoder.layers.0.fc2.weight": np.ones((8, 11))}),
            r"wrong: model.decoder.layers.0.fc2.weight of shape \(8, 11\) instead of \(8, 12\)",
        ),
        (
            marian_weights(**{"lm_head.weight": np.ones((60, 8))}),
            "lm_head.weight, which differs from model.shared.weight",
        ),
        (
            marian_weights(**{"model.encoder.embed_positions.weight": np.ones((32, 8))}),
            "embed_positions.weight, which has different values",
        ),
        (
            marian_weights(**{"model.shared.weight": np.ones((59, 8))}),
            r"model.shared.weight of shape \(59, 8\) instead of \(60, 8\)",
        ),
    ],
)
def test_wrong_weights_are_named(tmp_path, weights, message):
    folder = write_folder(tmp_path / "wrong", weights=weights)
    with pytest.raises(ConversionError, match=message):
        from_transformers(folder)


def test_copies_of_tied_weights_are_accepted(tmp_path, folder):
    shared = marian_weights()["model.shared.weight"]
    copies = {"lm_head.weight": shared, "model.decoder.embed_tokens.weight": shared}
    converted = from_transformers(write_folder(tmp_path / "tied", weights=marian_weights(**copies)))
    assert found_ids(converted.model) == found_ids(from_transformers(folder).model)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "whisper"}, r"model_type.*'marian'.*Received: model_type='whisper'"),
        ({"architectures": ["MarianForCausalLM"]}, "the class MarianMTModel"),
        ({"some_new_option": 3}, r"some_new_option=3 \(an unknown setting\)"),
        ({"static_position_embeddings": False}, "the type of positions"),
        ({"activation_function": "quick_gelu"}, "activations.*'quick_gelu'"),
        ({"num_hidden_layers": 2}, "must equal encoder_layers"),
    ],
)
def test_settings_that_cannot_be_converted_are_refused(tmp_path, changed, message):
    folder = write_folder(tmp_path / "other", {**MARIAN_CONFIG, **changed})
    with pytest.raises(ConversionError, match=message):
        from_transformers(folder)


def test_ignored_settings_are_accepted_and_must_exist(tmp_path):
    folder = write_folder(tmp_path / "own", {**MARIAN_CONFIG, "some_new_option": 3})
    assert from_transformers(folder, ["some_new_option"]).count("ignored") == 1
    with pytest.raises(ConversionError, match=r"\['another'\], which the checkpoint does not"):
        from_transformers(folder, ["some_new_option", "another"])
    with pytest.raises(ValueError, match=r"Pass \['some_new_option'\]"):
        from_transformers(folder, "some_new_option")


def test_folders_without_a_model_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ConversionError, match="hf download Helsinki-NLP/opus-mt-en-de --local-dir"):
        from_transformers("Helsinki-NLP/opus-mt-en-de")
    with pytest.raises(ConversionError, match="config.json is missing"):
        from_transformers(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConversionError, match="Expected JSON"):
        from_transformers(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(MARIAN_CONFIG))
    with pytest.raises(ConversionError, match="Expected weights.*model.safetensors"):
        from_transformers(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"12345")
    with pytest.raises(ConversionError, match="Expected weights.*Copy the file again"):
        from_transformers(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ImportError, match="PyTorch.*pip install torch"):
        from_transformers(tmp_path)
