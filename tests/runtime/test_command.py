"""The command `python -m keras_attn_runtime`, mostly as a process with pipes."""

import os
import signal
import subprocess

import pytest
from keras_attn_runtime.__main__ import main


def run(start_command, *arguments, text=b""):
    process = start_command(*arguments)
    output, messages = process.communicate(text, timeout=30)
    return process.returncode, output, messages.decode()


def test_lines_in_are_lines_out(start_command, model_path):
    text = "two dogs\n\nsome text\r\n   \na\u2028tree\x0b\x0c\x85dog\nno end".encode()
    status, output, messages = run(start_command, model_path, "--batch-size", 2, text=text)
    lines = output.decode().split("\n")
    assert lines[:4] == ["two dogs", "", "some text", ""]
    assert lines[4].startswith("a") and lines[4].endswith("dog")
    assert lines[5:] == ["no end", ""]
    assert (status, messages) == (0, "")  # silent where stderr is no terminal


def test_empty_input_gives_empty_output(start_command, model_path):
    assert run(start_command, model_path) == (0, b"", "")


def test_options_reach_the_model(start_command, model_path):
    options = ["--max-length", 0, "--length-penalty", 0.6, "--threads", 1, "--window", 1]
    assert run(start_command, model_path, *options, text=b"two dogs\nx\n") == (0, b"\n\n", "")


def test_long_line_is_cut_with_a_warning(start_command, model_path):
    text = b"a tree\n" + b"some text " * 20 + b"\na dog\n"
    status, output, messages = run(start_command, model_path, "--max-source-length", 10, text=text)
    first, cut, last = output.decode().splitlines()
    assert (status, first, last) == (0, "a tree", "a dog")
    assert cut and ("some text " * 20).startswith(cut)
    assert messages == "warning: line 2: cut to its first 10 tokens\n"


def test_long_line_stops_on_request(start_command, model_path):
    text = b"a tree\n" + b"some text " * 20 + b"\na dog\n"
    options = ["--max-source-length", 10, "--long-lines", "error"]
    status, output, messages = run(start_command, model_path, *options, text=text)
    assert (status, output) == (1, b"a tree\n")
    assert messages.startswith("error: line 2: expected at most max_source_length=10 tokens")


def test_invalid_utf8_stops_with_its_line(start_command, model_path):
    status, output, messages = run(start_command, model_path, text=b"two dogs\na\n ab\xff c\nx\n")
    assert (status, output) == (1, b"two dogs\na\n")
    assert messages.startswith("error: line 3: expected UTF-8. Received: byte 0xff at byte 3")


def test_invalid_utf8_is_replaced_on_request(start_command, model_path):
    options = ["--invalid-utf8", "replace"]
    status, output, messages = run(start_command, model_path, *options, text=b"a \xff\ntwo dogs\n")
    lines = output.decode().splitlines()
    assert (status, messages, len(lines), lines[1]) == (0, "", 2, "two dogs")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["model.onnx", "--batch-size", "0"],
        ["model.onnx", "--window", "-1"],
        ["model.onnx", "--max-length", "many"],
        ["model.onnx", "--length-penalty", "nan"],
        ["model.onnx", "--long-lines", "lose"],
        ["model.onnx", "--unknown"],
    ],
)
def test_wrong_command_line(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "error" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nothing.onnx"], "nothing.onnx"),
        (["model.onnx", "--provider", "tpu"], "Expected providers among"),
    ],
)
def test_what_cannot_be_used(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").touch()
    assert main(arguments) == 1
    output, messages = capsys.readouterr()
    assert output == "" and messages.startswith("error: ") and message in messages


def test_interrupt_keeps_what_is_done(start_command, model_path):
    process = start_command(model_path, "--window", 2)
    process.stdin.write(b"two dogs\nsome text\na tree\n")
    process.stdin.flush()
    done = process.stdout.readline() + process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest, messages = process.communicate(timeout=30)
    assert process.returncode == 130
    assert (done, rest, messages) == (b"two dogs\nsome text\n", b"", b"")


def test_reader_that_goes_away(start_command, model_path):
    process = start_command(model_path, "--window", 1)
    process.stdin.write(b"two dogs\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"two dogs\n"
    process.stdout.close()
    process.stdin.write(b"some text\n" * 100)
    process.stdin.close()
    assert process.wait(timeout=30) == 1
    assert process.stderr.read() == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk(start_command, model_path):
    with open("/dev/full", "wb") as full:
        process = start_command(model_path, stdout=full)
        _, messages = process.communicate(b"two dogs\n", timeout=30)
    assert process.returncode == 1
    assert messages.startswith(b"error: ") and messages.count(b"\n") == 1


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
def test_progress_on_a_terminal(start_command, model_path):
    controller, terminal = os.openpty()
    process = start_command(model_path, stderr=terminal)
    os.close(terminal)
    output, _ = process.communicate(b"two dogs\nsome text\n", timeout=30)
    messages = os.read(controller, 10_000)
    os.close(controller)
    assert output == b"two dogs\nsome text\n"
    assert b"2 lines, " in messages and messages.endswith(b"lines/s\r\n")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
def test_typed_lines_are_answered_at_once(start_command, model_path):
    controller, terminal = os.openpty()
    process = start_command(model_path, stdin=terminal, stderr=subprocess.DEVNULL)
    os.close(terminal)
    os.write(controller, b"two dogs\n")
    assert process.stdout.readline() == b"two dogs\n"
    os.close(controller)


def test_newline_in_a_translation_adds_no_line(model_path, monkeypatch, capfdbinary, tmp_path):
    from keras_attn_runtime.tokenizer import Tokenizer

    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: "one\ntwo")
    (tmp_path / "in.txt").write_bytes(b"two dogs\na tree\n")
    with open(tmp_path / "in.txt") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main([str(model_path)]) == 0
    assert capfdbinary.readouterr().out == b"one two\none two\n"
