"""Damaged, incomplete and hostile files of a checkpoint are errors of one line."""

import json
import os
import sys

import numpy as np
import pytest

from keras_attn.convert import ConversionError, from_opennmt_tf, from_transformers
from keras_attn.convert._original_files import read_original_files
from keras_attn.convert._weight_files import WeightFiles
from tests.convert.small_checkpoints import (
    MARIAN_CONFIG,
    marian_weights,
    write_folder,
    write_marian_tokenizers,
)

pytest.importorskip("safetensors")

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"


def refused(folder, **options):
    with pytest.raises(ConversionError) as info:
        from_transformers(folder, **options)
    assert "\n" not in str(info.value)
    return str(info.value)


def write(folder, config=None, weights=None):
    return write_folder(folder, {**MARIAN_CONFIG, **(config or {})}, weights)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff" * 99, None, LFS], ids=["empty", "json", "noise", "half", "lfs"]
)
def test_damaged_safetensors_are_named(tmp_path, content):
    path = write(tmp_path / "x") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:3000] if content is None else content)
    message = refused(path.parent)
    assert str(path) in message
    assert ("git lfs pull" in message) == (content == LFS)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "source.spm"])
def test_pointers_of_git_lfs_are_named(tmp_path, name):
    folder = write(tmp_path / "x")
    write_marian_tokenizers(folder)
    (folder / name).write_bytes(LFS)
    assert f"Received: {str(folder / name)!r}, a Git LFS pointer" in refused(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1]", "Expected a JSON object"),
        (b"{", "Expected JSON in"),
        (b'{"a": "\xff"}', "Expected JSON in"),
        (b"[" * 100_000, "Expected JSON in"),
    ],
    ids=["list", "cut", "latin", "deep"],
)
@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_damaged_json_is_named(tmp_path, name, content, message):
    folder = write(tmp_path / "x")
    (folder / name).write_bytes(content)
    found = refused(folder)
    assert message in found and name in found


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({}, "weight_map=None"),
        ({"weight_map": ["a"]}, r"weight_map=\['a'\]"),
        ({"weight_map": {"a": "model-1.safetensors"}}, "without model-1.safetensors"),
        ({"weight_map": {"a": "../x.safetensors"}}, r"names of files.*'../x.safetensors'"),
    ],
)
def test_damaged_indices_of_shards_are_named(tmp_path, index, message):
    (tmp_path / "config.json").write_text(json.dumps(MARIAN_CONFIG))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ConversionError, match=message):
        from_transformers(tmp_path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_named(tmp_path, value):
    weights = marian_weights()
    weights["model.decoder.layers.0.fc1.bias"][3] = value
    message = refused(write(tmp_path / "x", weights=weights))
    assert "model.decoder.layers.0.fc1.bias, which contains NaN or infinity" in message


@pytest.mark.parametrize("content", [b"\x0a\x0e\x0a\x05<unk>\x15\x00", b"", None])
def test_damaged_sentencepiece_models_are_named(tmp_path, content):
    folder = write(tmp_path / "x")
    write_marian_tokenizers(folder)
    path = folder / "target.spm"
    if content is None:  # the end of a piece
        content = path.read_bytes()[:16]
        length = 2 + content[1]
        content = path.read_bytes()[:length]
    path.write_bytes(content)
    assert f"{str(path)!r} cannot be converted. Expected a" in refused(folder)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"encoder_layers": 10**7}, "model.encoder.layers.1 to .*encoder_layers=10000000"),
        ({"d_model": 10**7}, r"instead of \(60, 10000000\) \(vocab_size=60, d_model=10000000\)"),
        ({"vocab_size": 10**9}, r"vocab_size=1000000000"),
        ({"decoder_ffn_dim": 7}, r"layers.0.fc1.weight of shape \(12, 8\) .*decoder_ffn_dim=7"),
        ({"encoder_attention_heads": 3}, "encoder_attention_heads in config.json to divide d_mode"),
    ],
)
def test_sizes_that_the_weights_refute_are_named_before_a_model_is_built(
    tmp_path, config, message, monkeypatch
):
    module = sys.modules["keras_attn.convert._from_transformers"]
    monkeypatch.setattr(module, "_create_weights", None)
    with pytest.raises(ConversionError, match=message):
        from_transformers(write(tmp_path / "x", config))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("d_model", "8", "an integer of at least 1"),
        ("encoder_layers", 0, "an integer of at least 1"),
        ("decoder_attention_heads", True, "an integer of at least 1"),
        ("dropout", "much", "in [0, 1)"),
        ("dropout", 1.0, "in [0, 1)"),
        ("length_penalty", float("nan"), "a finite number"),
        ("scale_embedding", "yes", "true or false"),
        ("activation_function", 3, "a string"),
        ("activation_function", "quick_gelu", "one of the activations"),
        ("pad_token_id", None, "one id"),
        ("pad_token_id", -1, "an id of at least 0"),
        ("max_length", "long", "an integer of at least 0"),
        ("bad_words_ids", [["a"]], "a list of lists of ids"),
        ("suppress_tokens", [None], "a list of ids"),
    ],
)
def test_values_of_a_wrong_type_are_named_with_their_file(tmp_path, name, value, message):
    found = refused(write(tmp_path / "x", {name: value}))
    assert f"Expected {name} in config.json to be {message}" in found
    assert f"{name}={value!r}" in found


def test_links_out_of_the_folder_are_refused(tmp_path):
    folder = write(tmp_path / "x")
    secret = tmp_path / "secret"
    secret.write_text("{}")
    (folder / "tokenizer_config.json").symlink_to(secret)
    assert "a link to" in refused(folder) and str(secret) in refused(folder)
    (folder / "tokenizer_config.json").unlink()
    (folder / "vocab.txt").write_text("a")
    (folder / "merges.txt").symlink_to("vocab.txt")  # a link inside of the folder
    assert read_original_files(folder)["merges.txt"] == b"a"


def test_the_cache_of_hugging_face_is_read(tmp_path):
    """`snapshots/COMMIT/config.json` is a link to a file among the blobs."""
    snapshot = tmp_path / "models--some--opus-mt" / "snapshots" / "0123"
    blobs = snapshot.parent.parent / "blobs"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, path in enumerate(write(tmp_path / "x").iterdir()):
        os.rename(path, blobs / f"blob{number}")
        (snapshot / path.name).symlink_to(f"../../blobs/blob{number}")
    run = from_transformers(snapshot).save(tmp_path / "RUN")
    copied = run.path / "original" / "config.json"
    assert json.loads(copied.read_text()) == MARIAN_CONFIG and not copied.is_symlink()


def test_adapters_of_peft_are_refused_with_advice(tmp_path):
    adapter = {"base_model_name_or_path": "some/base", "peft_type": "LORA"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(adapter))
    message = refused(tmp_path)
    assert "merge_and_unload()" in message and "'some/base'" in message
    (tmp_path / "adapter_config.json").write_text("[")
    assert "merge_and_unload()" in refused(write(tmp_path))


STATE_DICTS = {
    "state_dict": lambda weights: {"state_dict": weights, "epoch": 3},
    "model_state_dict": lambda weights: {"model_state_dict": weights, "optimizer": {"lr": 0.1}},
    "model": lambda weights: {"model": {"state_dict": weights}},
}


def write_bin(folder, content):
    import torch

    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")


@pytest.mark.parametrize("name", STATE_DICTS)
def test_state_dicts_inside_of_bin_files_are_read(tmp_path, name):
    torch = pytest.importorskip("torch")
    folder = write(tmp_path / "x")
    weights = {key: torch.tensor(value) for key, value in marian_weights().items()}
    write_bin(folder, STATE_DICTS[name](weights))
    files = WeightFiles(folder)
    for name, value in marian_weights().items():
        np.testing.assert_array_equal(files.read(name), value)


def test_other_content_of_bin_files_is_named(tmp_path):
    torch = pytest.importorskip("torch")
    tensors = {"a": torch.zeros(2)}
    for content, message in [
        ([1], "an object of the type list"),
        ({**tensors, "step": 5}, "'step' of the type int"),
        ({"model": tensors, "state_dict": tensors}, "under each of the keys"),
    ]:
        folder = write(tmp_path / "x")
        write_bin(folder, content)
        assert message in refused(folder)
    for content in (b"hello", b"", b"PK\x03\x04" + b"0" * 99, LFS):
        folder = write(tmp_path / "y")
        write_bin(folder, None)
        (folder / "pytorch_model.bin").write_bytes(content)
        assert str(folder / "pytorch_model.bin") in refused(folder)
        (folder / "pytorch_model.bin").unlink()


def test_weights_of_8_bits_are_named(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    folder = write(tmp_path / "x")
    weights = {key: torch.tensor(value) for key, value in marian_weights().items()}
    weights["final_logits_bias"] = weights["final_logits_bias"].to(torch.float8_e4m3fn)
    save_file(weights, folder / "model.safetensors")
    assert "final_logits_bias of dtype F8_E4M3" in refused(folder)


def test_pointers_of_git_lfs_are_named_for_opennmt_tf(tmp_path):
    (tmp_path / "ckpt-5.index").write_bytes(LFS)
    with pytest.raises(ConversionError, match="ckpt-5.index', a Git LFS pointer"):
        from_opennmt_tf(tmp_path)
