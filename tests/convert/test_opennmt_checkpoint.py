"""Which checkpoint of OpenNMT-tf is read, and errors of its variables."""

import shutil

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from keras_attn.convert import ConversionError, from_opennmt_tf  # noqa: E402
from keras_attn.convert._opennmt_checkpoint import OpenNMTCheckpoint  # noqa: E402
from tests.convert.opennmt_checkpoints import (  # noqa: E402
    SOURCE,
    arguments_text,
    opennmt_variables,
    write_opennmt,
)

ONE_LAYER = {"layers": (1, 1)}
ARGUMENTS = arguments_text(**ONE_LAYER)
INNER = "model/encoder/layers/0/ffn/layer/inner/kernel"


def variables(seed=0, **changed):
    return opennmt_variables(seed, **ONE_LAYER) | changed


def embedding(folder):
    return np.array(from_opennmt_tf(folder).model.encoder.embedding.embeddings)


def save_names(prefix, tensors):
    """Writes a checkpoint with any names."""
    names, values = list(tensors), list(tensors.values())
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(value) for value in values],
    )


def as_saved(values):
    return {f"{name}/.ATTRIBUTES/VARIABLE_VALUE": value for name, value in values.items()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with two checkpoints, and one with their average below it."""
    folder = tmp_path_factory.mktemp("opennmt") / "run"
    write_opennmt(folder, variables(0), ARGUMENTS, step=100)
    other = write_opennmt(folder.parent / "other", variables(1), ARGUMENTS, step=200)
    for path in other.glob("ckpt-200.*"):
        shutil.copy(path, folder)
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "/home/trainer/run/ckpt-200"\n'
        'all_model_checkpoint_paths: "/home/trainer/run/ckpt-100"\n'
        'all_model_checkpoint_paths: "/home/trainer/run/ckpt-200"\n'
    )
    write_opennmt(folder / "avg", variables(2), step=200, description=False)
    return folder


def test_opennmt_newest_checkpoint_of_a_folder_is_read(run):
    np.testing.assert_array_equal(embedding(run), variables(1)[SOURCE])
    for path in (run / "ckpt-100", run / "ckpt-100.index"):
        np.testing.assert_array_equal(embedding(path), variables(0)[SOURCE])


def test_opennmt_averaged_checkpoint_has_the_description_above_it(run, monkeypatch):
    np.testing.assert_array_equal(embedding(run / "avg"), variables(2)[SOURCE])
    monkeypatch.chdir(run / "avg")
    np.testing.assert_array_equal(embedding("."), variables(2)[SOURCE])


def test_opennmt_folder_without_state_needs_a_single_checkpoint(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    (folder / "checkpoint").unlink()
    with pytest.raises(ConversionError, match=r"\['ckpt-100', 'ckpt-200'\]. Pass the path of one"):
        from_opennmt_tf(folder)
    for path in folder.glob("ckpt-200.*"):
        path.unlink()
    np.testing.assert_array_equal(embedding(folder), variables(0)[SOURCE])


def test_opennmt_missing_and_damaged_files_are_named(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    with pytest.raises(ConversionError, match="nowhere.*does not exist"):
        from_opennmt_tf(tmp_path / "nowhere")
    (data,) = folder.glob("ckpt-200.data*")
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ConversionError, match="ckpt-200'. Received: .*Copy the .index and .data"):
        from_opennmt_tf(folder)
    data.unlink()
    with pytest.raises(ConversionError, match="ckpt-200'. Received: .*Copy the .index and .data"):
        from_opennmt_tf(folder)
    (folder / "ckpt-200.index").write_bytes(b"12345")
    with pytest.raises(ConversionError, match="ckpt-200'. Received: .*Copy the .index and .data"):
        from_opennmt_tf(folder)
    (folder / "ckpt-200.index").unlink()
    with pytest.raises(ConversionError, match=r"ckpt-200, and a folder with .*\['ckpt-100'\]"):
        from_opennmt_tf(folder)


def test_opennmt_slots_of_the_optimizer_are_left_out(tmp_path):
    values = as_saved(variables())
    slots = {
        f"{INNER}/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE": np.ones((16, 24)),
        "optimizer/_variables/1/.ATTRIBUTES/VARIABLE_VALUE": np.ones(3),
        "save_counter/.ATTRIBUTES/VARIABLE_VALUE": np.int64(1),
    }
    save_names(tmp_path / "ckpt", {**values, **slots})
    assert set(OpenNMTCheckpoint(tmp_path).shapes) == set(variables())
    assert OpenNMTCheckpoint(tmp_path).name == "ckpt"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_opennmt_variables_of_half_precision_are_read(tmp_path, dtype):
    rounded = {n: tf.cast(value, dtype) for n, value in as_saved(variables()).items()}
    save_names(tmp_path / "ckpt", rounded)
    found = OpenNMTCheckpoint(tmp_path).read(SOURCE)
    expected = rounded[f"{SOURCE}/.ATTRIBUTES/VARIABLE_VALUE"]
    np.testing.assert_array_equal(found, tf.cast(expected, "float32").numpy())
    assert found.dtype == np.float32


def without(name):
    return {key: value for key, value in variables().items() if key != name}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (without(INNER), f"missing: {INNER}. Check that model_description.py belongs"),
        (without(SOURCE), f"missing: {SOURCE}"),
        (variables(**{"model/other": np.ones(3, "float32")}), "unused: model/other"),
        (
            variables(**{INNER: np.ones((24, 16), "float32")}),
            rf"wrong: {INNER} of shape \(24, 16\) instead of \(16, 24\)",
        ),
        (opennmt_variables(), "unused: model/decoder/layers/1/attention/0/input_layer_norm/beta"),
    ],
    ids=["missing", "missing embedding", "unused", "shape", "more layers"],
)
def test_opennmt_wrong_variables_are_named(tmp_path, values, message):
    folder = write_opennmt(tmp_path / "run", values, ARGUMENTS)
    with pytest.raises(ConversionError, match=message):
        from_opennmt_tf(folder)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["model/encoder/rnn/cell/cells/0/kernel"], "Models with recurrent layers cannot"),
        (["model/decoder/cell/cells/0/cell/kernel"], "cells and attention differ"),
        (["model/decoder/layers/0/self_attention/layer/linear_keys/kernel"], "not language models"),
        (["model/encoder/layers/0/self_attention/layer/linear_keys/kernel"], "model/decoder/layer"),
        (["layer/kernel"], r"\['layer/kernel/.ATTRIBUTES/VARIABLE_VALUE'\]"),
    ],
)
def test_opennmt_other_models_are_refused(tmp_path, names, message):
    save_names(tmp_path / "ckpt", as_saved(dict.fromkeys(names, np.ones(3))))
    with pytest.raises(ConversionError, match=message):
        from_opennmt_tf(tmp_path, model_type="TransformerBase")


def test_opennmt_checkpoints_of_version_1_are_refused(tmp_path):
    save_names(tmp_path / "model.ckpt-500000", {"transformer/encoder/w_embs": np.ones(3)})
    with pytest.raises(ConversionError, match="OpenNMT-tf 1 gives. Load it once"):
        from_opennmt_tf(tmp_path)
