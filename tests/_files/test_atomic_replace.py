import contextlib
import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import pytest

from keras_attn._files.atomic_replace import atomic_replace

UMASK = os.umask(0o022)
os.umask(UMASK)


def test_replaces_a_file(tmp_path):
    path = tmp_path / "model.onnx"
    for content in ("first", "second"):
        with atomic_replace(path) as partial:
            partial.write_text(content)
            assert partial.parent.parent == path.parent and partial.name == path.name
        assert path.read_text() == content
    assert list(tmp_path.iterdir()) == [path]


def test_replaces_a_saved_model_whole(tmp_path):
    path = tmp_path / "model"
    for content in ("first", "second"):
        with atomic_replace(path) as partial:
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
        with atomic_replace(links["model.onnx"], is_file=True) as partial:
            partial.write_text(content)
        with atomic_replace(links["saved"]) as partial:
            partial.mkdir()
            (partial / "saved_model.pb").write_text(content)
        assert links["model.onnx"].read_text() == content
        assert (links["saved"] / "saved_model.pb").read_text() == content
    assert all(link.is_symlink() for link in links.values())
    assert {each.name for each in (tmp_path / "disk").iterdir()} == set(links)
    assert {each.name for each in tmp_path.iterdir()} == {"disk", *links}


def test_a_saved_model_with_metadata_is_replaced(tmp_path):
    for content in ("first", "second"):
        with atomic_replace(tmp_path / "model") as partial:
            (partial / "assets.extra").mkdir(parents=True)
            (partial / "assets.extra/keras_attn.json").write_text(content)
            (partial / "saved_model.pb").write_text(content)
        assert (tmp_path / "model/assets.extra/keras_attn.json").read_text() == content
    (tmp_path / "model/assets.extra/tf_serving_warmup_requests").write_text("a user's requests")
    with pytest.raises(FileExistsError, match="a directory with other content"):
        with atomic_replace(tmp_path / "model") as partial:
            partial.mkdir()
    assert (tmp_path / "model/assets.extra/tf_serving_warmup_requests").exists()


def test_leaves_what_others_put_into_an_export_alone(tmp_path):
    (tmp_path / "saved_model.pb").write_text("first")
    (tmp_path / "assets.extra").mkdir()
    with pytest.raises(FileExistsError, match="a directory with other content"):
        with atomic_replace(tmp_path) as partial:
            partial.mkdir()
    assert (tmp_path / "assets.extra").is_dir()


@pytest.mark.parametrize("name", ["assets", "variables", "model.weights", "step.onnx"])
def test_leaves_directories_alone_that_have_a_part_of_an_export_only(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(FileExistsError, match="a directory with other content"):
        with atomic_replace(tmp_path):
            raise AssertionError("the block must not run")
    assert (tmp_path / name).is_dir()


def test_leaves_other_directories_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="a directory with other content"):
        with atomic_replace(tmp_path):
            raise AssertionError("the block must not run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileExistsError, match="name of a file"):
        with atomic_replace(tmp_path / "empty") as partial:
            partial.write_text("a file")
    with pytest.raises(FileExistsError, match="name of a file"):
        with atomic_replace(tmp_path / "empty", is_file=True):
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
        with atomic_replace(path, **arguments):
            raise AssertionError("the block must not run")
    assert path.read_text() == "years of work"
    path.write_bytes(b"")
    with atomic_replace(path, **arguments) as partial:
        partial.write_text("an export")
    assert path.read_text() == "an export"


@pytest.mark.parametrize(
    "content, arguments",
    [(b"", {"is_file": False}), (b"\x08...", {"is_file": False, "first_bytes": b"\x08"})],
)
def test_a_directory_takes_the_place_of_what_may_be_replaced(tmp_path, content, arguments):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with atomic_replace(path, **arguments) as partial:
        partial.mkdir()
        (partial / "model.onnx").write_text("a graph")
    assert (path / "model.onnx").read_text() == "a graph"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["a named pipe", "a socket", "a device"])
def test_what_is_neither_a_file_nor_a_directory_is_refused(tmp_path, kind):
    path = tmp_path / "it"
    if kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(os.path.relpath(path))  # a long path is refused
    else:
        path.symlink_to(os.devnull)
    before = os.stat(path)
    for is_file in (None, True, False):
        with pytest.raises(FileExistsError, match=f"Received: .*{kind}.*another path"):
            with atomic_replace(path, is_file):
                raise AssertionError("the block must not run")
    assert os.path.samestat(before, os.stat(path)) and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["m" * 250, "\xe4" * 125, "a-" * 60])
def test_long_name_is_written_and_cleaned_up(tmp_path, name):
    path = tmp_path / name
    assert len(os.fsencode(name)) in (250, 120)
    with atomic_replace(path) as partial:
        partial.write_text("first")
        assert partial.name == name
        left = tmp_path / (".partial-abcdefgh" + partial.parent.name[len(".partial-abcdefgh") :])
        left.mkdir()
    other = tmp_path / f"{name[:-1]}."
    for file in (other, path):
        with atomic_replace(file) as partial:
            partial.write_text(file.name)
        assert file.read_text() == file.name
        assert left.exists() == (file == other)
    assert set(tmp_path.iterdir()) == {path, other}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o664])
def test_mode_of_a_replaced_file_is_kept(tmp_path, mode):
    path = tmp_path / "model.onnx"
    for content in ("first", "second", "third"):
        with atomic_replace(path) as partial:
            partial.write_text(content)
        assert path.read_text() == content
        if content == "first":
            assert path.stat().st_mode & 0o777 == 0o666 & ~UMASK
            path.chmod(mode)
        else:
            assert path.stat().st_mode & 0o777 == mode


def test_modes_of_a_replaced_directory_are_kept(tmp_path):
    path = tmp_path / "saved"
    write_export(path, "first")
    path.chmod(0o700)
    (path / "saved_model.pb").chmod(0o640)
    write_export(path, "second")
    modes = [each.stat().st_mode & 0o777 for each in (path, path / "saved_model.pb")]
    assert modes == [0o700, 0o640]
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o640)
    write_export(tmp_path / "file", "third")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o750


@contextlib.contextmanager
def ordinary_user(folder):
    """Runs the block as a user for whom permissions count, who owns what is in a folder."""
    if os.geteuid() != 0:
        yield
        return
    group = os.getegid()
    for path in (folder, *folder.iterdir()):
        os.chown(path, 65534, 65534)
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)


@pytest.mark.parametrize("write", ["file", "directory"])
def test_directory_that_can_be_written_and_not_listed(write):
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o711)
        folder = Path(root, "drop")
        folder.mkdir()
        folder.chmod(0o300)
        with ordinary_user(folder):
            with pytest.raises(PermissionError):
                os.listdir(folder)
            for content in ("old", "new"):
                if write == "directory":
                    write_export(folder / "it", content)
                    file = folder / "it" / "saved_model.pb"
                else:
                    file = folder / "it"
                    with atomic_replace(file) as partial:
                        partial.write_text(content)
                assert file.read_text() == content
        folder.chmod(0o700)
        assert [each.name for each in folder.iterdir()] == ["it"]


def test_demands_an_existing_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match="Create .*missing"):
        with atomic_replace(tmp_path / "missing" / "model.onnx"):
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
        with atomic_replace(path) as partial:
            partial.write_text("half a file")
            if full_at == "write":
                full()
    assert path.read_text() == "the old file"
    assert list(tmp_path.iterdir()) == [path]


HERE = Path(__file__).parent


def kills(folder, *options):
    """What `replacement_kills.py` counts."""
    command = [sys.executable, HERE / "replacement_kills.py", folder, *map(str, options)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


needs_exchange = pytest.mark.skipif(
    sys.platform not in ("linux", "darwin"), reason="the system cannot exchange directories"
)


@needs_exchange
def test_kill_before_any_system_call_leaves_a_whole_directory(tmp_path):
    counts = kills(tmp_path, "--each-call")
    assert counts["kills"] > 20
    assert counts["broken"] == counts["unrepaired"] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kill_without_exchange_is_repaired_by_the_next_write(tmp_path):
    """The only gap is the one between the two renames."""
    counts = kills(tmp_path, "--each-call", "--two-steps")
    assert counts["kills"] > 20
    assert counts["broken"] == 1 and counts["unrepaired"] == 0


@needs_exchange
def test_polling_reader_finds_a_whole_directory_while_writers_are_killed(tmp_path):
    counts = kills(tmp_path, "--kills", 30)
    assert counts["reads"] > 0
    assert counts["broken"] == counts["missing"] == counts["mixed"] == 0
    assert counts["left_after_it"] == 0 and counts["last"]


@needs_exchange
@pytest.mark.slow
def test_thousand_kills_lose_nothing(tmp_path):
    counts = kills(tmp_path, "--kills", os.environ.get("KERAS_ATTN_TEST_KILLS", 1000))
    assert counts["broken"] == counts["missing"] == counts["mixed"] == 0
    assert counts["left_after_it"] == 0 and counts["last"]


def write_export(path, content):
    with atomic_replace(path, is_file=False) as partial:
        partial.mkdir()
        (partial / "saved_model.pb").write_text(content)


@pytest.fixture(params=["exchange", "two steps"])
def replacement(request, monkeypatch):
    """Both ways to replace a directory."""
    if request.param == "two steps":
        monkeypatch.setattr("keras_attn._files.exchange_paths._system_call", lambda: None)


def test_two_writers_of_one_path_both_succeed(tmp_path, replacement):
    path = tmp_path / "saved"
    for old in (None, "old"):
        if old:
            write_export(path, old)
        with atomic_replace(path, is_file=False) as first:
            first.mkdir()
            (first / "saved_model.pb").write_text("first")
            with atomic_replace(path, is_file=False) as second:
                second.mkdir()
                (second / "saved_model.pb").write_text("second")
            assert (path / "saved_model.pb").read_text() == "second"
        assert (path / "saved_model.pb").read_text() == "first"
        assert list(tmp_path.iterdir()) == [path]
        (path / "saved_model.pb").unlink()
        path.rmdir()


def test_many_writers_at_the_same_time_all_succeed(tmp_path, replacement):
    path = tmp_path / "saved"

    def write_many(name):
        for _ in range(20):
            write_export(path, name)

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write_many, "abcd"))
    assert (path / "saved_model.pb").read_text() in "abcd"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [FileNotFoundError, FileExistsError, "another lock"])
def test_directory_that_another_process_cleans_up_is_not_used(tmp_path, monkeypatch, error):
    """Another process took it for one that a killed process left, before it was locked."""
    acquire, disturbed = filelock.FileLock.acquire, []

    def disturb(lock, *arguments, **options):
        if disturbed:
            return acquire(lock, *arguments, **options)
        disturbed.append(Path(lock.lock_file))
        if error != "another lock":
            shutil.rmtree(disturbed[0].parent)
            raise error(disturbed[0])
        result = acquire(lock, *arguments, **options)
        disturbed[0].unlink()
        disturbed[0].write_bytes(b"")
        return result

    monkeypatch.setattr(filelock.FileLock, "acquire", disturb)
    with atomic_replace(tmp_path / "file") as partial:
        assert partial.parent != disturbed[0].parent
        partial.write_text("new")
    assert (tmp_path / "file").read_text() == "new"


def test_directory_of_a_killed_process_is_removed(tmp_path):
    """Also one that has the same process id, as in containers."""
    path = tmp_path / "saved"
    for name in (f".partial-{os.getpid()}-saved", ".partial-abcdefgh-saved"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved").mkdir()
    other = tmp_path / ".partial-abcdefgh-not-saved"
    other.mkdir()
    write_export(path, "new")
    assert {each.name for each in tmp_path.iterdir()} == {"saved", other.name}


def test_directory_of_a_living_writer_is_kept(tmp_path):
    with atomic_replace(tmp_path / "model.onnx") as slow:
        slow.write_text("slow")
        with atomic_replace(tmp_path / "model.onnx") as fast:
            fast.write_text("fast")
        assert slow.read_text() == "slow"
    assert (tmp_path / "model.onnx").read_text() == "slow"


def test_file_system_without_locks_can_be_written(tmp_path, monkeypatch):
    def refuse(lock):
        raise OSError(errno.ENOLCK, "No locks available")

    path, left = tmp_path / "saved", tmp_path / ".partial-abcdefgh-saved"
    left.mkdir()
    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    for content in ("old", "new"):
        write_export(path, content)
        assert (path / "saved_model.pb").read_text() == content
    assert set(tmp_path.iterdir()) == {path, left}  # its process may live


@pytest.mark.parametrize("left", ["nothing", "a part"])
def test_old_directory_that_a_kill_left_aside_is_put_back(tmp_path, left):
    """By a write that fails, too."""
    path, aside = tmp_path / "saved", tmp_path / ".partial-abcdefgh-saved"
    (aside / "previous").mkdir(parents=True)
    (aside / "previous" / "saved_model.pb").write_text("old")
    if left == "a part":  # of a directory that cannot be moved and was being removed
        (path / "variables").mkdir(parents=True)
    with pytest.raises(OSError, match="No space"):
        with atomic_replace(path, is_file=False):
            raise OSError(errno.ENOSPC, "No space left on device")
    assert (path / "saved_model.pb").read_text() == "old"
    assert [each.name for each in path.iterdir()] == ["saved_model.pb"]
    assert list(tmp_path.iterdir()) == [path]


def test_directory_that_cannot_be_renamed_is_replaced(tmp_path, monkeypatch):
    """As on overlayfs, if it comes from the image of a container."""
    path, rename = tmp_path / "saved", os.rename
    write_export(path, "old")

    def refuse(old, new):
        if Path(old) == path:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(old, new)

    monkeypatch.setattr("keras_attn._files.exchange_paths._system_call", lambda: None)
    monkeypatch.setattr(os, "rename", refuse)
    write_export(path, "new")
    assert (path / "saved_model.pb").read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_error_in_the_second_of_two_steps_puts_the_old_directory_back(tmp_path, monkeypatch):
    path, rename = tmp_path / "saved", os.rename
    write_export(path, "old")

    def fail(old, new):
        if Path(new) == path and Path(old).name == path.name:
            raise OSError(errno.EIO, "Input/output error")
        rename(old, new)

    monkeypatch.setattr("keras_attn._files.exchange_paths._system_call", lambda: None)
    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="Input/output error"):
        write_export(path, "new")
    assert (path / "saved_model.pb").read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_content_that_appeared_during_the_block_is_not_replaced(tmp_path):
    path = tmp_path / "saved"
    with pytest.raises(FileExistsError, match="a directory with other content"):
        with atomic_replace(path, is_file=False) as partial:
            partial.mkdir()
            (partial / "saved_model.pb").write_text("new")
            path.mkdir()
            (path / "thesis.txt").write_text("years of work")
    assert (path / "thesis.txt").read_text() == "years of work"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG])
def test_errors_of_a_full_disk_name_the_file(tmp_path, code):
    path = tmp_path / "model.keras"
    with pytest.raises(OSError, match="model.keras") as raised, atomic_replace(path):
        raise OSError(code, os.strerror(code))  # as `write` and `fsync` do
    assert raised.value.filename == str(path) and not any(tmp_path.iterdir())
    with pytest.raises(BrokenPipeError) as raised, atomic_replace(path):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))  # of a different file
    assert raised.value.filename is None
