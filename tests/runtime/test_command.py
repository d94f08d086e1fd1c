"""Tests `keras-attn-runtime translate`, mostly as a process with pipes."""

import io
import json
import os
import select
import signal
import subprocess

import numpy as np
import pytest
from keras_attn_runtime.__main__ import main
from keras_attn_runtime._commands.lines import read_lines
from keras_attn_runtime._models.exported_model import ExportedModel


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
    assert (status, messages) == (0, "")  # no progress, because stderr is not a terminal


def test_empty_input_gives_empty_output(start_command, model_path):
    assert run(start_command, model_path) == (0, b"", "")


def test_options_reach_the_model(start_command, model_path):
    options = ["--max-length", 0, "--threads", 1, "--window", 1]
    assert run(start_command, model_path, *options, text=b"two dogs\nx\n") == (0, b"\n\n", "")
    options = ["--format", "jsonl", "--max-length", 4, "--length-penalty", 0.5, "--workers", 2]
    status, output, messages = run(start_command, model_path, *options, text=b"two dogs\nx\n")
    result = json.loads(output.splitlines()[0])
    assert (status, messages, len(result["token_ids"])) == (0, "", 4)
    assert (result["log_prob"], result["score"], result["ended"]) == (-4.0, -2.0, False)


def test_every_option_reaches_the_translator(monkeypatch, tmp_path):
    given = {}

    class Recorder:
        has_alignments = True
        max_source_characters = 400

        def __init__(self, model, **options):
            given.update(options, model=model)

        def translate_iterable(self, lines, **options):
            given.update(options)
            return iter(())

    monkeypatch.setattr("keras_attn_runtime._commands.line_command.Translator", Recorder)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    (tmp_path / "phrases.txt").touch()
    options = {
        "constraints": tmp_path / "phrases.txt",
        **{"threads": 3, "workers": 2, "batch-size": 5, "window": 7, "max-length": 9},
        **{"length-penalty": 0.5, "num-hypotheses": 2, "max-source-length": 11},
        "beam-width": 2,
        **{"min-length": 3, "repetition-penalty": 1.2, "no-repeat-ngram-size": 4, "patience": 0.5},
        **{"coverage-penalty": 0.1, "diversity-strength": 2.0, "temperature": 0.7},
        **{"top-k": 6, "top-p": 0.8, "min-p": 0.2},
        "max-source-characters": 400,
        "timeout": 50,
        "target-prefix": "<2de>",
        "stop-text": "#",
        "seed": 3,
        "from": "en",
        "to": "de",
    }
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    others = ["--format", "jsonl", "--alignments", "--long-lines", "error"]
    others += ["--constraints-in-order", "--replace-unknown"]
    others += ["--rule-input", "most=2", "--rule-input", "prices=1,-0.5", "--rule-input", "one=3,"]
    assert main(["model.onnx", *arguments, *others]) == 0
    assert 0 < given.pop("timeout") <= 50
    assert given.pop("constraints") is not None
    assert given == {
        "model": "model.onnx",
        "providers": [("cpu", {})],
        "num_threads": 3,
        "num_workers": 2,
        "constraints_in_order": True,
        "batch_size": 5,
        "window": 7,
        "max_length": 9,
        "length_penalty": 0.5,
        "beam_width": 2,
        "min_length": 3,
        "repetition_penalty": 1.2,
        "no_repeat_ngram_size": 4,
        "patience": 0.5,
        "coverage_penalty": 0.1,
        "diversity_strength": 2.0,
        "temperature": 0.7,
        "top_k": 6,
        "top_p": 0.8,
        "min_p": 0.2,
        "num_hypotheses": 2,
        "max_source_length": 11,
        "max_source_characters": 400,
        "target_prefix": "<2de>",
        "stop_texts": ["#"],
        "rule_inputs": {"most": 2, "prices": [1, -0.5], "one": [3]},
        "replace_unknown": True,
        "seed": 3,
        "source_language": "en",
        "target_language": "de",
        "alignments": True,
        "truncate": False,
    }


@pytest.mark.parametrize(
    ("command", "option", "values"),
    [
        ("translate", "--format", ("text", "jsonl")),
        ("translate", "--long-lines", ("truncate", "error")),
        ("translate", "--invalid-utf8", ("error", "replace")),
        ("info", "--format", ("text", "json")),
    ],
)
def test_every_choice_of_an_option_runs(start_command, model_path, command, option, values):
    for value in values:
        arguments = [command, model_path, option, value]
        status, output, messages = run(start_command, *arguments, text=b"two dogs\n")
        assert (status, messages) == (0, "")
        assert (b"two dogs" in output) == (command == "translate")
        assert output.startswith(b"{") == (value in ("json", "jsonl"))


def test_long_line_is_cut_with_a_warning(start_command, model_path):
    text = b"a tree\n" + b"some text " * 20 + b"\na dog\n"
    status, output, messages = run(start_command, model_path, "--max-source-length", 10, text=text)
    first, cut, last = output.decode().splitlines()
    assert (status, first, last) == (0, "a tree", "a dog")
    assert cut and ("some text " * 20).startswith(cut)
    assert messages == "warning: line 2: cut to the limits of 10 tokens and 320 characters\n"


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
        ["model.onnx", "--temperature", "0"],
        ["model.onnx", "--top-p", "1.5"],
        ["model.onnx", "--top-k", "2.5"],
        ["model.onnx", "--long-lines", "lose"],
        *(
            ["model.onnx", "--rule-input", each]
            for each in ("most", "=1", "most=", "m=1,,2", "m=x")
        ),
        ["model.onnx", "--unknown"],
        ["model.onnx", "--num-hypotheses", "2"],
        ["model.onnx", "--format", "jsonl", "--num-hypotheses", "0"],
        ["model.onnx", "--alignments"],
        ["model.onnx", "--skip-unscorable"],
        ["score", "model.onnx"],
        ["score", "model.onnx", "targets.txt", "--alignments"],
        ["score", "model.onnx", "targets.txt", "--num-hypotheses", "2"],
        ["model.onnx", "--format", "xml"],
        ["model.onnx", "--provider", "cuda", "--provider-option", "device_id"],
        ["model.onnx", "--provider", "cuda", "--provider-option", "=1"],
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
        (["model.onnx", "--provider", "tpu"], "Expected providers of the installed"),
        (["model.onnx", "--provider-option", "device_id=1"], "no options for the CPU"),
    ],
)
def test_what_cannot_be_used(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").touch()
    assert main(arguments) == 1
    output, messages = capsys.readouterr()
    assert output == "" and messages.startswith("error: ") and message in messages


def test_json_lines(start_command, model_path):
    text = "two dogs\n\nsome text 🙂\nno end".encode()
    status, output, messages = run(start_command, model_path, "--format", "jsonl", text=text)
    assert (status, messages) == (0, "")
    lines = output.decode().split("\n")
    assert lines.pop() == ""
    results = [json.loads(line) for line in lines]
    assert len(results) == 4
    first, empty = results[:2]
    assert list(first) == (
        ["text", "score", "log_prob", "ended", "token_ids", "pieces", "source_pieces", "truncated"]
    )
    length = len(first["token_ids"])
    assert (first["text"], first["score"], first["log_prob"]) == ("two dogs", -1.0, -length)
    assert first["source_pieces"] == [*first["pieces"], "</s>"]
    assert empty == {
        "text": "",
        "score": 0.0,
        "log_prob": 0.0,
        "ended": True,
        "token_ids": [],
        "pieces": [],
        "source_pieces": [],
        "truncated": False,
    }


def test_json_lines_with_hypotheses_and_alignments(start_command, model_path):
    options = ["--format", "jsonl", "--num-hypotheses", 2, "--alignments"]
    _, output, _ = run(start_command, model_path, *options, text=b"two dogs\n")
    result = json.loads(output)
    best, second = result["hypotheses"]
    assert best == {key: result[key] for key in best}
    assert (best["text"], second["text"], second["alignments"]) == ("two dogs", "", [])
    length = len(best["token_ids"])
    np.testing.assert_array_equal(best["alignments"], np.eye(length, length + 1))


def test_json_lines_tell_what_was_cut(start_command, model_path):
    options = ["--format", "jsonl", "--max-source-length", 3]
    _, output, messages = run(start_command, model_path, *options, text=b"two dogs run\na\n")
    assert [json.loads(line)["truncated"] for line in output.splitlines()] == [True, False]
    assert messages == "warning: line 1: cut to the limits of 3 tokens and 96 characters\n"


def test_hypotheses_and_alignments_that_the_file_lacks(write_model, capsys):
    path = str(write_model(alignments=False))
    assert main([path, "--format", "jsonl", "--num-hypotheses", "3"]) == 1
    assert "num_hypotheses of at most 2" in capsys.readouterr().err
    assert main([path, "--format", "jsonl", "--alignments"]) == 1
    assert "Expected a file with alignments" in capsys.readouterr().err


def test_text_of_a_file_without_a_target_tokenizer(start_command, write_model):
    path = write_model(target__tokenizer="other")
    status, output, messages = run(start_command, path, text=b"two dogs\n")
    assert (status, output) == (1, b"")
    assert "Expected a file with a target tokenizer" in messages
    assert "or use --format jsonl, which writes ids" in messages


def test_text_of_a_file_without_tokenizers(start_command, write_model):
    path = write_model(source__tokenizer="none", target__tokenizer="none")
    status, output, messages = run(start_command, path, text=b"two dogs\n")
    assert (status, output) == (1, b"")
    assert "Expected a file with a source tokenizer and a target tokenizer" in messages


def test_provider_options_reach_the_session(model_path, monkeypatch, capsys):
    import onnxruntime

    def refuse(path, options, providers, **rest):
        raise RuntimeError(f"no session with {providers}")

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["TestExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    options = ["--provider-option", "device_id=1", "--provider-option", "mode=a=b"]
    assert main([str(model_path), "--provider", "test", *options]) == 1
    messages = capsys.readouterr().err
    assert "[('TestExecutionProvider', {'device_id': '1', 'mode': 'a=b'})]" in messages
    assert "Check the options {'device_id': '1', 'mode': 'a=b'}" in messages


def handle_interrupts():
    """Enables Ctrl-C in the new process, also if the tests run in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


SIGNALS = pytest.mark.parametrize("number, expected", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


@SIGNALS
def test_signal_while_waiting_for_lines(start_command, model_path, number, expected):
    process = start_command(model_path, "--window", 2, preexec_fn=handle_interrupts)
    process.stdin.write(b"two dogs\nsome text\na tree\n")
    process.stdin.flush()
    done = process.stdout.readline() + process.stdout.readline()
    process.send_signal(number)
    rest, messages = process.communicate(timeout=30)
    assert process.returncode == expected
    assert (done, rest, messages) == (b"two dogs\nsome text\n", b"", b"")


@SIGNALS
def test_signal_in_the_middle_of_a_file(
    start_command, write_model, tmp_path, monkeypatch, number, expected
):
    # The lines exceed the size of a pipe and the reader does not read, so the signal arrives inside
    # a line. Without buffers in Python, the system then writes a part of the line.
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    line = b"some text " * 2000
    path = write_model(alignments=False)  # alignments would be large
    (tmp_path / "in.txt").write_bytes((line + b"\n") * 50)
    options = ["--max-source-length", 30_000, "--max-length", 30_000, "--window", 8]
    with open(tmp_path / "in.txt", "rb") as lines:
        process = start_command(
            path, *options, "--format", "jsonl", stdin=lines, preexec_fn=handle_interrupts
        )
        begin = os.read(process.stdout.fileno(), 10)
        process.send_signal(number)
        rest, messages = process.communicate(timeout=30)
    assert (process.returncode, messages) == (expected, b"")
    *results, end = (begin + rest).split(b"\n")
    assert end == b"" and len(results) == 8  # the whole window, which is already translated
    for result in results:
        assert json.loads(result)["text"].encode() == line.strip()


@SIGNALS
def test_signal_ends_a_command_that_cannot_write(
    start_command, model_path, tmp_path, number, expected
):
    (tmp_path / "in.txt").write_bytes((b"some text " * 20 + b"\n") * 2000)
    with open(tmp_path / "in.txt", "rb") as lines:
        process = start_command(
            model_path, "--window", 2000, stdin=lines, preexec_fn=handle_interrupts
        )
        assert process.stdout.read(10) == b"some text "
        process.send_signal(number)  # the pipe is full
        assert process.wait(timeout=60) == expected


def test_non_blocking_input_is_read_to_its_end(start_command, model_path):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.write(writer, b"two ")
    process = start_command(model_path, stdin=reader)
    while select.select([reader], [], [], 0)[0]:  # wait until the command has read it
        assert process.poll() is None
    os.write(writer, b"dogs\n")
    os.close(writer)
    output, messages = process.communicate(timeout=30)
    os.close(reader)
    assert (process.returncode, output, messages) == (0, b"two dogs\n", b"")


def test_background_job_goes_on_ignoring_interrupts(start_command, model_path):
    process = start_command(
        model_path,
        "--window",
        1,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    process.stdin.write(b"two dogs\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"two dogs\n"
    process.send_signal(signal.SIGINT)
    output, messages = process.communicate(b"a tree\n", timeout=30)
    assert (process.returncode, output, messages) == (0, b"a tree\n", b"")


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


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_closed_streams(start_command, model_path, closed):
    process = start_command(model_path, preexec_fn=lambda: os.close(closed))
    output, messages = process.communicate(b"" if closed == 0 else b"two dogs\n", timeout=30)
    if closed == 2:
        assert (process.returncode, output) == (0, b"two dogs\n")
    else:
        assert (process.returncode, output) == (1, b"")
        name = [b"standard input. Received: stdin", b"standard output. Received: stdout"][closed]
        assert messages.startswith(b"error: Expected " + name)


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
def test_no_progress_among_translations_on_a_terminal(start_command, model_path):
    controller, terminal = os.openpty()
    process = start_command(model_path, stdout=terminal, stderr=terminal)
    os.close(terminal)
    process.communicate(b"two dogs\nsome text\n", timeout=30)
    shown = os.read(controller, 10_000)
    os.close(controller)
    assert shown == b"two dogs\r\nsome text\r\n"


def test_byte_order_mark_is_no_text():
    lines = read_lines(io.BytesIO("\ufefftwo dogs\n\ufeffx".encode()))
    assert list(lines) == ["two dogs", "\ufeffx"]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
def test_typed_lines_are_answered_at_once(start_command, model_path):
    controller, terminal = os.openpty()
    process = start_command(model_path, stdin=terminal, stderr=subprocess.DEVNULL)
    os.close(terminal)
    os.write(controller, b"two dogs\n")
    assert process.stdout.readline() == b"two dogs\n"
    os.close(controller)


def test_newline_in_a_translation_adds_no_line(model_path, monkeypatch, capfdbinary, tmp_path):
    from keras_attn_runtime._text.sentencepiece_tokenizer import SentencePieceTokenizer

    monkeypatch.setattr(SentencePieceTokenizer, "decode", lambda self, ids: "one\ntwo")
    (tmp_path / "in.txt").write_bytes(b"two dogs\na tree\n")
    with open(tmp_path / "in.txt") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main([str(model_path)]) == 0
    assert capfdbinary.readouterr().out == b"one two\none two\n"


class ClosedTerminal(io.StringIO):
    def isatty(self):
        return True

    def write(self, text):
        raise OSError(5, "Input/output error")


def test_a_terminal_that_was_closed_does_not_end_the_work(model_path, monkeypatch, tmp_path):
    lines = "two dogs\n" * 3
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    monkeypatch.setattr("sys.stderr", ClosedTerminal())
    monkeypatch.setattr("keras_attn_runtime._commands.progress.Progress.advance", _advance_at_once)
    with open(tmp_path / "out.txt", "w") as output:
        monkeypatch.setattr("sys.stdout", output)
        assert main([str(model_path), "--max-source-length", "1"]) == 0  # with warnings
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a file of Linux")
def test_messages_that_nobody_can_read_do_not_change_the_status(start_command, model_path):
    with open("/dev/full", "wb") as full:
        process = start_command(model_path, "--max-source-length", 1, stderr=full)
        output, _ = process.communicate(b"two dogs\n" * 3, timeout=30)  # with warnings
    assert (process.returncode, len(output.splitlines())) == (0, 3)


def test_the_line_with_which_onnx_runtime_fails_is_named(model_path, monkeypatch, tmp_path, capsys):
    def fail(model, feeds, call):
        if (feeds["source_ids"] != 0).sum(1).max() > 8:
            raise RuntimeError("bad allocation")
        return search(model, feeds, call)

    search = ExportedModel._search
    monkeypatch.setattr(ExportedModel, "_search", fail)
    lines = b"a\n\n" + b"two dogs " * 20 + b"\na\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    with open(tmp_path / "out.txt", "w") as output:
        monkeypatch.setattr("sys.stdout", output)
        assert main([str(model_path)]) == 1
    assert (tmp_path / "out.txt").read_text() == "a\n\n"
    assert capsys.readouterr().err.startswith("error: line 3: ONNX Runtime failed on 1 sentences")


def _advance_at_once(progress):
    progress._show(0.0)


def test_systems_that_cannot_make_streams_blocking(model_path, monkeypatch, tmp_path):
    monkeypatch.delattr(os, "set_blocking")  # Windows, before Python 3.12
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"two dogs\n")))
    with open(tmp_path / "out.txt", "w") as output:
        monkeypatch.setattr("sys.stdout", output)
        assert main([str(model_path)]) == 0
    assert (tmp_path / "out.txt").read_text() == "two dogs\n"


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
def test_translations_on_a_terminal(start_command, model_path):
    controller, terminal = os.openpty()
    process = start_command(model_path, stdout=terminal)
    os.close(terminal)
    process.stdin.write(b"two dogs\nred\n")
    process.stdin.close()
    assert process.wait(30) == 0
    assert os.read(controller, 1000).decode().splitlines() == ["two dogs", "red"]
    os.close(controller)


@pytest.mark.parametrize("option", ["--max-length", "--length-penalty"])
def test_numbers_that_are_too_large_name_both_limits(option, capsys):
    with pytest.raises(SystemExit):
        main(["model.onnx", option, "9999999999"])
    assert "in [0" in capsys.readouterr().err


def test_a_setting_that_the_file_lacks_is_one_line(start_command, model_path):
    status, output, messages = run(
        start_command, model_path, "--temperature", "0.7", text=b"two dogs\n"
    )
    assert (status, output) == (1, b"")
    assert messages.count("\n") == 1 and "`--search-class SamplingDecoder`" in messages
