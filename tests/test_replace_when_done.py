import errno
import os
import signal
import subprocess
import sys
import time

import pytest

from keras_attn.replace_when_done import replace_when_done


def test_replaces_a_file(tmp_path):
    path = tmp_path / "model.onnx"
    for content in ("first", "second"):
        with replace_when_done(path) as partial:
            partial.write_text(content)
            assert partial.parent == path.parent
        assert path.read_text() == content
    assert list(tmp_path.iterdir()) == [path]


def test_replaces_a_saved_model_whole(tmp_path):
    path = tmp_path / "model"
    for content in ("first", "second"):
        with replace_when_done(path) as partial:
            partial.mkdir()
            (partial / "saved_model.pb").write_text(content)
            if content == "first":
                (partial / "assets").mkdir()
        assert (path / "saved_model.pb").read_text() == content
    assert {each.name for each in path.iterdir()} == {"saved_model.pb"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    links = {name: tmp_path / name for name in ("model.onnx", "saved")}
    for name, link in links.items():
        link.symlink_to(tmp_path / "disk" / name)
    for content in ("first", "second"):
        with replace_when_done(links["model.onnx"], is_file=True) as partial:
            partial.write_text(content)
        with replace_when_done(links["saved"]) as partial:
            partial.mkdir()
            (partial / "saved_model.pb").write_text(content)
        assert links["model.onnx"].read_text() == content
        assert (links["saved"] / "saved_model.pb").read_text() == content
    assert all(link.is_symlink() for link in links.values())
    assert {each.name for each in (tmp_path / "disk").iterdir()} == set(links)
    assert {each.name for each in tmp_path.iterdir()} == {"disk", *links}


def test_leaves_what_others_put_into_an_export_alone(tmp_path):
    (tmp_path / "saved_model.pb").write_text("first")
    (tmp_path / "assets.extra").mkdir()
    with pytest.raises(FileExistsError, match="a directory with other content"):
        with replace_when_done(tmp_path) as partial:
            partial.mkdir()
    assert (tmp_path / "assets.extra").is_dir()


@pytest.mark.parametrize("name", ["assets", "variables", "model.weights", "step.onnx"])
def test_leaves_directories_alone_that_have_a_part_of_an_export_only(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(FileExistsError, match="a directory with other content"):
        with replace_when_done(tmp_path):
            raise AssertionError("the block must not run")
    assert (tmp_path / name).is_dir()


def test_leaves_other_directories_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="a directory with other content"):
        with replace_when_done(tmp_path):
            raise AssertionError("the block must not run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileExistsError, match="name of a file"):
        with replace_when_done(tmp_path / "empty") as partial:
            partial.write_text("a file")
    with pytest.raises(FileExistsError, match="name of a file"):
        with replace_when_done(tmp_path / "empty", is_file=True):
            raise AssertionError("the block must not run")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty", "thesis.txt"]


@pytest.mark.parametrize(
    "arguments",
    [{"is_file": False}, {"first_bytes": b"\x08"}, {"is_file": True, "first_bytes": b"P"}],
)
def test_leaves_files_of_another_kind_alone(tmp_path, arguments):
    path = tmp_path / "thesis.txt"
    path.write_text("years of work")
    with pytest.raises(FileExistsError, match="a file with other content"):
        with replace_when_done(path, **arguments):
            raise AssertionError("the block must not run")
    assert path.read_text() == "years of work"
    path.write_bytes(b"")
    with replace_when_done(path, **arguments) as partial:
        partial.write_text("an export")
    assert path.read_text() == "an export"


@pytest.mark.parametrize(
    "content, arguments",
    [(b"", {"is_file": False}), (b"\x08...", {"is_file": False, "first_bytes": b"\x08"})],
)
def test_a_directory_takes_the_place_of_what_may_be_replaced(tmp_path, content, arguments):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with replace_when_done(path, **arguments) as partial:
        partial.mkdir()
        (partial / "model.onnx").write_text("a graph")
    assert (path / "model.onnx").read_text() == "a graph"
    assert list(tmp_path.iterdir()) == [path]


def test_demands_an_existing_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match="Create .*missing"):
        with replace_when_done(tmp_path / "missing" / "model.onnx"):
            raise AssertionError("the block must not run")


@pytest.mark.parametrize("full_at", ["write", "fsync"])
def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, full_at):
    path = tmp_path / "model.onnx"
    path.write_text("the old file")

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    if full_at == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        with replace_when_done(path) as partial:
            partial.write_text("half a file")
            if full_at == "write":
                full()
    assert path.read_text() == "the old file"
    assert list(tmp_path.iterdir()) == [path]


def test_a_kill_leaves_no_file_with_the_final_name(tmp_path):
    path, ready = tmp_path / "model.onnx", tmp_path / "ready"
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        # The module alone: it starts in a moment, the package in seconds.
        "sys.path.insert(0, sys.argv[1])\n"
        "from replace_when_done import replace_when_done\n"
        "with replace_when_done(sys.argv[2]) as partial:\n"
        "    partial.write_text('half a file')\n"
        "    Path(sys.argv[3]).touch()\n"
        "    time.sleep(60)\n"
    )
    folder = os.path.dirname(sys.modules["keras_attn.replace_when_done"].__file__)
    process = subprocess.Popen([sys.executable, "-c", program, folder, str(path), str(ready)])
    try:
        deadline = time.monotonic() + 30
        while not ready.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert ready.exists()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not path.exists()
    (left,) = [each for each in tmp_path.iterdir() if each != ready]
    assert left.name.startswith(".partial-") and left.name.endswith("-model.onnx")
    with replace_when_done(path) as partial:
        partial.write_text("whole")
    assert path.read_text() == "whole"
