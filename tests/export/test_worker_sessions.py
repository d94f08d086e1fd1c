"""Workers of the runtime share one copy of the weights of an ONNX file."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from keras_attn_runtime import ModelFileError, Translator
from keras_attn_runtime._engines.create_sessions import can_share_weights, create_sessions
from keras_attn_runtime._engines.shared_folder import shared_folder

from keras_attn.export import export_onnx
from tests.export.small_translator import make_translator, settings_of
from tests.runtime.conftest import RUNTIME

MAPS = Path("/proc/self/maps")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("workers") / "model.onnx"
    export_onnx(make_translator(vocabulary_sizes=(450, 460)), path, parity_inputs=None)
    return path


def run(session):
    sources = np.random.default_rng(2).integers(3, 450, (5, 7), "int32")
    sizes = {"max_length": np.array(9, "int32"), "length_penalty": np.array(1, "float32")}
    return session.run(None, {"source_ids": sources, **sizes, **settings_of(session)})


def mapped_weights():
    """Returns the memory regions with the content of a deleted file of weights."""
    lines = MAPS.read_text().splitlines()
    return {line.split()[0] for line in lines if line.endswith(".weights (deleted)")}


def test_sessions_of_workers_return_the_same_values_as_one_session(path):
    alone, *others = create_sessions(path), *create_sessions(path, num_threads=1, num_sessions=3)
    expected = run(*alone)
    for session in others:
        for value, same in zip(run(session), expected, strict=True):
            np.testing.assert_array_equal(value, same)
        assert session.get_modelmeta().custom_metadata_map.keys() == (
            alone[0].get_modelmeta().custom_metadata_map.keys()
        )


@pytest.mark.skipif(
    not (MAPS.exists() and can_share_weights()),
    reason="needs Linux, which lists the mapped files, and a release that can share weights",
)
def test_weights_are_in_one_file_that_is_mapped_and_already_deleted(path, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = mapped_weights()
    sessions = create_sessions(path, "cpu", num_threads=1, num_sessions=2)
    assert mapped_weights() > before
    assert not list(tmp_path.iterdir())
    del sessions
    assert mapped_weights() <= before


@pytest.mark.skipif(not can_share_weights(), reason="needs a release that can share weights")
def test_weights_that_a_killed_process_left_are_removed(path, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = (
        "import os, sys, tempfile; from keras_attn_runtime._engines import create_sessions as c\n"
        "tempfile.tempdir = sys.argv[2]; load = c.create_session\n"
        "c.create_session = lambda path, **options: (load(path, **options), os._exit(3))\n"
        "c.create_sessions(sys.argv[1], num_sessions=2)"
    )
    command = [sys.executable, "-c", code, str(path), str(tmp_path)]
    assert subprocess.run(command, env={**os.environ, "PYTHONPATH": str(RUNTIME)}).returncode == 3
    (left,) = tmp_path.iterdir()
    assert (left / "model.onnx.weights").stat().st_size > 0
    create_sessions(path, num_sessions=2)
    assert not list(tmp_path.iterdir())


def test_weights_of_a_process_that_is_still_loading_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with shared_folder() as first, shared_folder() as second:
        assert first.is_dir() and second.is_dir() and first != second
    assert not list(tmp_path.iterdir())


def test_workers_without_a_temporary_directory(path, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    first, second = create_sessions(path, num_sessions=2)
    for value, same in zip(run(first), run(second), strict=True):
        np.testing.assert_array_equal(value, same)


def test_damaged_file_is_named_by_its_own_path(tmp_path):
    (tmp_path / "damaged.onnx").write_bytes(b"\x08\x08 nothing")
    with pytest.raises(ModelFileError, match=r"damaged\.onnx"):
        Translator(tmp_path / "damaged.onnx", num_workers=2)
