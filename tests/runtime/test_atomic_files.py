"""Files are written whole or not at all: with exceptions, full disks and killed processes."""

import errno
import os
import signal
import subprocess
import sys

import pytest
from keras_attn_runtime._files.atomic_files import atomic_files, is_stream, require_different_files

KILLED = """
import os, signal, sys
from keras_attn_runtime._files.atomic_files import atomic_files

with atomic_files(sys.argv[1]) as (file,):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def write(content, *paths):
    with atomic_files(*paths) as files:
        for file in files:
            file.write(content)


def names(directory):
    return sorted(each.name for each in directory.iterdir())


def test_files_are_created_and_replaced(tmp_path):
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for content in (b"old", b"new"):
        write(content, *paths)
        assert [each.read_bytes() for each in paths] == [content, content]
    assert names(tmp_path) == ["a.txt", "b.txt"]


def test_exception_leaves_the_old_files(tmp_path):
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    write(b"old", paths[0])
    with pytest.raises(KeyError), atomic_files(*paths) as files:
        files[0].write(b"new")
        raise KeyError
    assert names(tmp_path) == ["a.txt"] and paths[0].read_bytes() == b"old"


@pytest.mark.parametrize("full", [0, 1])
def test_full_disk_leaves_all_old_files(tmp_path, full):
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    write(b"old", *paths)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"), atomic_files(*paths) as files:
            files[full].write(b"x" * 5000)
            files[1 - full].write(b"new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(tmp_path) == ["a.txt", "b.txt"]
    assert [each.read_bytes() for each in paths] == [b"old", b"old"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_killed_process_leaves_the_old_file_and_the_next_call_cleans_up(tmp_path):
    path = tmp_path / "a.csv"
    write(b"old", path)
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    (left,) = (each for each in tmp_path.iterdir() if each != path)
    assert left.name.startswith(".partial-") and path.read_bytes() == b"old"
    assert [each for each in tmp_path.rglob("*.csv") if each.is_file()] == [path]
    write(b"new", path)
    assert names(tmp_path) == ["a.csv"] and path.read_bytes() == b"new"


def test_target_of_a_link_is_replaced_and_keeps_its_mode(tmp_path):
    path, link = tmp_path / "a.txt", tmp_path / "link"
    write(b"old", path)
    path.chmod(0o640)
    link.symlink_to("a.txt")
    write(b"new", link)
    assert link.is_symlink() and path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_long_names_are_possible(tmp_path):
    path = tmp_path / ("é" * 127)
    write(b"new", path)
    assert names(tmp_path) == [path.name]


def test_paths_that_are_not_files_raise_an_error(tmp_path):
    with pytest.raises(IsADirectoryError, match="a directory. Add a file name"):
        write(b"", tmp_path)
    with pytest.raises(FileNotFoundError, match="Create .*none"):
        write(b"", tmp_path / "none" / "a.txt")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="a device, pipe or socket"):
        write(b"", tmp_path / "pipe")
    assert is_stream(tmp_path / "pipe") and is_stream("/dev/null")
    assert not is_stream(tmp_path / "a.txt") and not is_stream(tmp_path)


def test_inputs_are_not_outputs(tmp_path):
    path, other = tmp_path / "a.csv", tmp_path / "b.csv"
    path.write_bytes(b"data")
    require_different_files(other, path)
    require_different_files(path, other)
    other.write_bytes(b"data")
    require_different_files(other, path)
    (tmp_path / "soft").symlink_to("a.csv")
    os.link(path, tmp_path / "hard")
    for spelling in ("a.csv", "../" + tmp_path.name + "/a.csv", "soft", "hard"):
        with pytest.raises(ValueError, match="the same file as .*a.csv"):
            require_different_files(tmp_path / spelling, other, path)
    with open(path) as file, pytest.raises(ValueError, match="the same file as standard input"):
        require_different_files(path, file.fileno())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG])
def test_errors_of_a_full_disk_name_the_files(tmp_path, code):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(OSError, match=r"a\.csv, .*b\.csv"), atomic_files(*paths):
        raise OSError(code, os.strerror(code))  # as `write` and `fsync` do
    assert not any(tmp_path.iterdir())
    with pytest.raises(BrokenPipeError) as raised, atomic_files(*paths):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))  # of a different file
    assert raised.value.filename is None
