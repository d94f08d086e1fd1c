"""Limits of the command: characters of a line, --timeout, and signals at any time.

No test asserts a time. If the environment variable `SIGTERM_SECONDS` is set, the slow tests print
how long the process took to end.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.runtime.conftest import RUNTIME
from tests.runtime.endless import endless_model
from tests.runtime.fake_model import build_model, metadata
from tests.runtime.test_source_characters import WRITING_SYSTEMS

SECONDS = 60
NUMBERS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs signals and pipes")


@pytest.fixture(scope="module")
def endless_path(tokenizer_model, tmp_path_factory):
    """Returns a model that never finishes a line with an unknown character."""
    path = tmp_path_factory.mktemp("endless") / "model.onnx"
    onnx.save(endless_model(tokenizer_model, endless_id=3), path)
    return path


@pytest.fixture(scope="module")
def large_path(tokenizer_model, tmp_path_factory):
    """Returns a model of 1 GB; most of it is used only by an unused output."""
    path = tmp_path_factory.mktemp("large") / "model.onnx"
    model = build_model(metadata(tokenizer_model))
    graph, side = model.graph, 11_500
    graph.node.append(helper.make_node("Identity", ["weights"], ["large"]))
    for name in ("weights", "more_weights"):
        weights = onnx.TensorProto(
            name=name, data_type=TensorProto.FLOAT, dims=[side, side], raw_data=bytes(4 * side**2)
        )
        graph.initializer.append(weights)
    graph.node.append(helper.make_node("Identity", ["more_weights"], ["larger"]))
    for name in ("large", "larger"):
        graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [side, side]))
    onnx.save(model, path)
    yield path
    path.unlink()


def interruptible():
    """Enables Ctrl-C in the new process, also if the tests run in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end_with(process, number):
    """Sends the signal, waits for the end, and returns the exit status of a shell."""
    begin = time.monotonic()
    process.send_signal(number)
    status = process.wait(SECONDS)
    if "SIGTERM_SECONDS" in os.environ:
        print(f"\nended {time.monotonic() - begin:.2f} s after signal {number}, status {status}")
    return 128 - status if status < 0 else status


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=name, marks=[pytest.mark.slow] if number else [])
        for number, (name, text) in enumerate(WRITING_SYSTEMS.items())
    ],
)
def test_a_line_of_ten_megabytes(start_command, model_path, text):
    content = f"two dogs\n{text}\na tree".encode()
    process = start_command(model_path, "--threads", 1)
    output, messages = process.communicate(content, timeout=SECONDS)
    first, cut, last = output.decode().splitlines()
    assert (process.returncode, first, last) == (0, "two dogs", "a tree")
    assert messages == b"warning: line 2: cut to the limits of 512 tokens and 16384 characters\n"
    process = start_command(model_path, "--long-lines", "error", "--threads", 1)
    output, messages = process.communicate(content, timeout=SECONDS)
    assert (process.returncode, output) == (1, b"two dogs\n")
    assert messages.startswith(b"error: line 2: expected at most max_source_characters=16384 ch")


def test_the_limit_of_characters_can_be_chosen(start_command, model_path):
    process = start_command(model_path, "--max-source-characters", 8)
    output, messages = process.communicate(b"two dogs\ntwo dogs run\n", timeout=SECONDS)
    assert (process.returncode, output) == (0, b"two dogs\ntwo dogs\n")
    assert messages == b"warning: line 2: cut to the limits of 512 tokens and 8 characters\n"


def test_a_target_of_ten_megabytes(start_command, tokenizer_model, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(endless_model(tokenizer_model, prefix=True), path)
    targets = tmp_path / "targets.txt"
    targets.write_text("a dog\n" + WRITING_SYSTEMS["jamo"], encoding="utf-8")
    process = start_command("score", path, targets)
    output, messages = process.communicate(b"two dogs\na tree\n", timeout=SECONDS)
    assert (process.returncode, len(output.splitlines())) == (1, 1)
    assert messages.startswith(b"error: line 2: Expected a target of at most 16384 characters")


def test_timeout_ends_an_endless_line(start_command, endless_path):
    process = start_command(endless_path, "--timeout", 5, "--window", 1)
    process.stdin.write("two dogs\na tree\n\u4e00\nred\n".encode())
    process.stdin.flush()
    assert process.wait(SECONDS) == 124
    assert process.stdout.read() == b"two dogs\na tree\n"
    assert process.stderr.read() == b"error: line 3: not finished within --timeout=5\n"


def test_timeout_holds_while_it_waits_for_lines(start_command, model_path):
    process = start_command(model_path, "--timeout", 5, "--window", 1)
    process.stdin.write(b"two dogs\n")
    process.stdin.flush()
    assert process.wait(SECONDS) == 124
    assert process.stdout.read() == b"two dogs\n"
    assert process.stderr.read() == b"error: line 2: not finished within --timeout=5\n"


@pytest.mark.slow
def test_timeout_holds_where_nobody_reads(start_command, model_path, tmp_path):
    (tmp_path / "in.txt").write_bytes((b"some text " * 20 + b"\n") * 2000)
    with open(tmp_path / "in.txt", "rb") as lines:
        process = start_command(model_path, "--timeout", 5, stdin=lines)
        assert process.wait(SECONDS) == 124
        assert process.stderr.read() == b"error: not finished within --timeout=5\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_timeout_holds_while_a_file_of_targets_blocks(start_command, tokenizer_model, tmp_path):
    onnx.save(endless_model(tokenizer_model, prefix=True), tmp_path / "model.onnx")
    os.mkfifo(tmp_path / "targets")
    process = start_command("score", tmp_path / "model.onnx", tmp_path / "targets", "--timeout", 1)
    assert process.wait(SECONDS) == 124
    assert process.stdout.read() == b""
    assert process.stderr.read() == b"error: not finished within --timeout=1\n"


BLOCKED = """
import os, sys, time
from keras_attn_runtime._commands.interruption import Interruption

how = sys.argv[1]
if how == "full":
    os.set_blocking(2, False)
    try:
        while True:
            os.write(2, bytes(1000))
    except BlockingIOError:
        os.set_blocking(2, True)
elif how == "closed":
    sys.stderr.close()
elif how == "none":
    sys.stderr = None
with Interruption(0.1):
    time.sleep(60)
"""


@POSIX
@pytest.mark.parametrize("how", ["full", "closed", "none"])
def test_timeout_holds_where_its_message_cannot_be_written(how):
    process = subprocess.Popen(
        [sys.executable, "-c", BLOCKED, how],
        env=dict(os.environ, PYTHONPATH=str(RUNTIME)),
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.wait(SECONDS) == 124


def test_timeout_that_is_long_enough_changes_nothing(start_command, model_path):
    process = start_command(model_path, "--timeout", 60)
    output, messages = process.communicate(b"two dogs\na tree\n", timeout=SECONDS)
    assert (process.returncode, output, messages) == (0, b"two dogs\na tree\n", b"")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_is_no_model(start_command, tmp_path):
    os.mkfifo(tmp_path / "model.onnx")
    process = start_command(tmp_path / "model.onnx")
    _, messages = process.communicate(b"", timeout=SECONDS)
    assert process.returncode == 1
    assert messages.startswith(b"error: Expected a regular file")


@POSIX
@NUMBERS
def test_signal_while_it_runs(start_command, endless_path, number):
    process = start_command(endless_path, "--window", 2, preexec_fn=interruptible)
    process.stdin.write("two dogs\na tree\n\u4e00\nred\n".encode())
    process.stdin.flush()
    done = process.stdout.readline() + process.stdout.readline()
    time.sleep(0.5)  # the command is running
    assert end_with(process, number) == 128 + number
    assert done + process.stdout.read() == b"two dogs\na tree\n"
    assert process.stderr.read() == b""


@POSIX
def test_signal_while_it_tokenizes(start_command, model_path, tmp_path):
    # Each line takes some tenths of a second in SentencePiece; the window contains all lines.
    (tmp_path / "in.txt").write_text(("\uac00" * 16_384 + "\n") * 2000, encoding="utf-8")
    with open(tmp_path / "in.txt", "rb") as lines:
        process = start_command(model_path, "--window", 2000, stdin=lines, preexec_fn=interruptible)
        position = 0
        while position < 200_000:  # the command has read some lines
            time.sleep(0.05)
            position = os.lseek(lines.fileno(), 0, os.SEEK_CUR)
            assert process.poll() is None
        assert end_with(process, signal.SIGTERM) == 143
    assert process.stdout.read() == process.stderr.read() == b""


CHANGED = """
import signal
from keras_attn_runtime import __main__ as command
from keras_attn_runtime._commands import line_command

class Translator:
    def __init__(self, *_, **options):
        self.max_source_characters = 9

    def translate_iterable(self, lines, **options):
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise ImportError("initialization failed")

line_command.Translator = Translator
command.run()
"""


@POSIX
def test_an_interrupt_that_becomes_another_error_stays_one():
    result = subprocess.run(
        [sys.executable, "-c", CHANGED, "model.onnx", "--format", "jsonl"],
        env=dict(os.environ, PYTHONPATH=str(RUNTIME)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
    )
    assert (result.returncode, result.stdout, result.stderr) == (143, b"", b"")


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.2, 0.4, 0.8])
def test_signal_while_it_starts(start_command, model_path, delay):
    process = start_command(model_path)
    time.sleep(delay)
    assert end_with(process, signal.SIGTERM) == 143
    assert process.stdout.read() == b""


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("delay", [1.0, 2.0, 4.0])
def test_signal_while_it_loads_a_gigabyte(start_command, large_path, delay):
    process = start_command(large_path)
    time.sleep(delay)
    assert end_with(process, signal.SIGTERM) == 143
    assert process.stdout.read() == process.stderr.read() == b""


@POSIX
@pytest.mark.slow
def test_timeout_holds_while_it_loads_a_gigabyte(start_command, large_path):
    process = start_command(large_path, "--timeout", 1)
    assert process.wait(SECONDS) == 124
    assert process.stderr.read() == b"error: not finished within --timeout=1\n"


@POSIX
@pytest.mark.slow
def test_signal_ends_a_command_that_nothing_else_ends(model_path):
    """Process 1 of a container: the system ignores signals without a handler."""
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    command = [*unshare, sys.executable, "-m", "keras_attn_runtime", str(model_path), "--window=1"]
    probe = subprocess.run([*unshare, "true"], capture_output=True)
    if probe.returncode != 0:
        pytest.skip("may not make a namespace of processes")
    process = subprocess.Popen(
        command,
        env=dict(os.environ, PYTHONPATH=str(RUNTIME)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        process.stdin.write(b"two dogs\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"two dogs\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        os.kill(int(children), signal.SIGTERM)
        assert process.wait(SECONDS) == 143
