"""Partitions of a corpus, and two workers of Ray of which one is killed."""

import importlib.util
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.examples.scripts import EXAMPLES, ROOT, python

pytest.importorskip("keras_attn_runtime")
import translate_corpus
from keras_attn_runtime import Translator

SCRIPT = EXAMPLES / "translate_corpus.py"
WORDS = "small red house dogs run green field man reads book tree ball woman blue coat bus".split()
has_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A file whose translation is a copy of the text."""
    onnx = pytest.importorskip("onnx")
    from tests.runtime.fake_model import build_model, metadata, train_tokenizer

    path = tmp_path_factory.mktemp("model") / "copy.onnx"
    onnx.save(build_model(metadata(train_tokenizer())), path)
    return path


def different_lines(count):
    """Lines that differ in their words; every hundredth line is empty."""
    lines = []
    for number in range(count):
        digits = [number % 16, number // 16 % 16, number // 256 % 16, number // 4096]
        lines.append(" ".join(WORDS[each] for each in digits) if number % 100 else "")
    return lines


def test_partitions_hold_each_line_once(tmp_path, monkeypatch):
    monkeypatch.setattr(translate_corpus, "PARTITION_LINES", 2)
    first, second, empty = (tmp_path / name for name in ("first", "second", "empty"))
    first.write_bytes("\ufeffa\r\nb\u2028b\n\nd\rd\ne".encode())
    second.write_bytes("ä\nf\n".encode())
    empty.write_bytes(b"")
    partitions = translate_corpus.find_partitions([first, empty, second])
    assert [each["file"] for each in partitions] == [f"part-0000{part}.txt" for part in range(4)]
    assert [each["lines"] for each in partitions] == [2, 2, 1, 2]
    texts = [translate_corpus.read_partition(each) for each in partitions]
    assert texts == [["a", "b\u2028b"], ["", "d\rd"], ["e"], ["ä", "f"]]


def test_a_corpus_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(translate_corpus, "PARTITION_LINES", 2)
    path = tmp_path / "latin"
    path.write_bytes(b"a\nb\nc\xe4\n")
    with pytest.raises(SystemExit, match="Expected UTF-8. .*0xe4.* byte 5 of .*latin"):
        translate_corpus.find_partitions([path])
    path.write_bytes(b"")
    with pytest.raises(SystemExit, match="Expected lines to translate. Received: none in"):
        translate_corpus.find_partitions([path])


def test_a_folder_with_different_results_is_refused(tmp_path):
    model, corpus, out = (tmp_path / name for name in ("model.onnx", "corpus", "out"))
    model.write_bytes(b"1")

    def prepare(text):
        corpus.write_text(text)
        translate_corpus.prepare_folder(model, out, translate_corpus.find_partitions([corpus]))

    refused = pytest.raises(SystemExit, match="of the same model and corpus. Received: .*out. Ch")
    prepare("one\ntwo\n")
    prepare("one\ntwo\n")
    for text in ("one\ntwo\nthree\n", "two\none\n"):  # the second has as many bytes and lines
        with refused:
            prepare(text)
    model.write_bytes(b"2")
    with refused:
        prepare("one\ntwo\n")
    model.write_bytes(b"1")
    (out / "job.json").unlink()
    prepare("one\ntwo\n")  # nothing was translated
    (out / "job.json").unlink()
    (out / "part-00000.txt").write_text("eins\nzwei\n")
    with refused:
        prepare("one\ntwo\n")


def test_a_worker_writes_a_complete_partition(model, tmp_path):
    lines = different_lines(101)
    (tmp_path / "corpus").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (partition,) = translate_corpus.find_partitions([tmp_path / "corpus"])
    translator = Translator(model, num_threads=1)
    row = translate_corpus.PartitionTranslator(translator, tmp_path)(partition)
    assert (row["lines"], row["truncated"]) == (101, 0)
    assert (tmp_path / "part-00000.txt").read_text("utf-8").splitlines() == lines
    assert not list(tmp_path.glob("*.partial"))


def test_help_needs_no_runtime(tmp_path):
    assert "corpus" in python(tmp_path, "-S", SCRIPT, "--help").stdout


@pytest.mark.slow
@has_ray
def test_each_line_is_translated_once_if_a_worker_is_killed(model, tmp_path):
    lines = different_lines(20_000)
    for name, part in (("one.txt", lines[:12_345]), ("two.txt", lines[12_345:])):
        (tmp_path / name).write_text("\n".join(part) + "\n", encoding="utf-8")
    command = [SCRIPT, model, "out", "one.txt", "two.txt"]
    shown = []
    with subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "export")])},
    ) as process:
        for line in process.stdout:
            shown.append(line)
            if line.startswith("5 of 21: "):
                os.kill(int(line.split()[-1]), signal.SIGKILL)
    assert process.returncode == 0
    finished = re.findall(r"(\d+) of 21: part-(\d+).txt, worker (\d+)", "".join(shown))
    assert sorted(int(part) for _, part, _ in finished) == list(range(21))
    assert len({worker for _, _, worker in finished}) >= 2
    assert "Translated 20000 lines, 0 of them truncated\n" in shown

    def written():
        parts = sorted((tmp_path / "out").glob("part-*.txt"))
        return [line for path in parts for line in path.read_text("utf-8").splitlines()]

    assert written() == lines
    assert not list((tmp_path / "out").glob("*.partial"))
    (tmp_path / "out" / "part-00012.txt").unlink()
    again = python(tmp_path, *command).stdout
    assert "20 of 21 partitions are finished\n" in again and "Translated 345 lines" in again
    assert written() == lines
