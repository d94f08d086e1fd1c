"""`keras-attn-runtime classify`, as a process with pipes."""

import json

import pytest
from keras_attn_runtime import Classifier
from keras_attn_runtime._commands.main import main

from tests.runtime.fake_classifier import write_classifier

TEXTS = ["two dogs run", "", "some text", "the old man reads a book"]
LINES = "\n".join(TEXTS).encode()


@pytest.fixture(scope="module")
def path(tokenizer_model, tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp("classifier") / "c.onnx", tokenizer_model)


@pytest.fixture
def run(start_command):
    def run(*arguments, text=LINES):
        process = start_command("classify", *arguments)
        output, messages = process.communicate(text, timeout=30)
        return process.returncode, output.decode(), messages.decode()

    return run


def test_classify_writes_a_label_for_each_line(run, path):
    labels = [label or "" for label in Classifier(path)(TEXTS)]
    assert run(path, "--batch-size", 2, "--window", 2) == (0, "\n".join(labels) + "\n", "")
    assert labels[1] == "" and all(labels[2:])
    assert run(path, text=b"") == (0, "", "")


def test_classify_writes_json_lines(run, path):
    status, output, _ = run(path, "--format", "jsonl", "--attention")
    results = Classifier(path).classify(TEXTS)
    for line, result in zip(output.splitlines(), results, strict=True):
        found = json.loads(line)
        assert (found["label"], found["pieces"]) == (result.label, result.pieces)
        assert found["probabilities"] == pytest.approx(result.probabilities, rel=1e-5)
        attention = [] if result.attention is None else result.attention.tolist()
        assert found["attention"] == pytest.approx(attention, abs=1e-6)
        assert found["truncated"] is False
    assert status == 0
    _, output, _ = run(path, "--format", "jsonl")
    assert "attention" not in json.loads(output.splitlines()[0])


def test_classify_writes_the_lines_before_a_bad_line(run, path):
    status, output, messages = run(path, text=b"two dogs\n\xff\nsome text\n")
    assert (status, len(output.splitlines())) == (1, 1)
    assert messages.startswith("error: line 2: expected UTF-8") and messages.count("\n") == 1


def test_classify_can_replace_invalid_bytes_and_refuse_long_lines(run, path):
    text = b"\xff\n" + LINES
    options = ["--invalid-utf8", "replace", "--max-source-length", 15]
    status, output, messages = run(path, *options, text=text)
    assert (status, len(output.splitlines())) == (0, 5)
    assert messages.startswith("warning: line 5: cut to the limits of 15 tokens and 480 characters")
    status, output, messages = run(path, *options, "--long-lines", "error", text=text)
    assert (status, len(output.splitlines())) == (1, 4)
    assert messages.startswith("error: line 5: expected at most max_source_length=15 tokens")


def test_classify_stops_at_the_timeout(start_command, path):
    process = start_command("classify", path, "--timeout", 1)
    assert process.wait(timeout=30) == 124  # standard input stays open


def test_classify_refuses_files_without_labels_or_attention(run, model_path, tmp_path, path):
    status, output, messages = run(model_path)
    assert (status, output) == (1, "") and "Run it with a Translator" in messages
    with pytest.raises(SystemExit):
        main(["classify", str(path), "--attention"])
    tokenizer = tmp_path / "source.spm"
    assert main(["extract", str(path), "--tokenizers", str(tmp_path)]) == 0
    other = write_classifier(tmp_path / "c.onnx", tokenizer.read_bytes(), attention=None)
    status, output, messages = run(other, "--format", "jsonl", "--attention")
    assert (status, output) == (1, "") and "with attention weights" in messages


def test_info_and_translate_tell_how_to_run_a_classifier(path, capsys):
    assert main(["info", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    inputs, outputs = "['ids', 'mask', 'lengths']", "['logits']"
    what = f"a functional model with the inputs {inputs} and the outputs {outputs}"
    assert f"content: {what}" in lines
    assert "run with: a Classifier, or `keras-attn-runtime classify`" in lines
    assert main(["translate", str(path)]) == 1
    assert f"{what}. Run it with a Classifier" in capsys.readouterr().err
