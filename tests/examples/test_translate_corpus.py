"""Partitions of a corpus, and two workers of Ray of which one is killed."""

import importlib.util
import json
import re
from types import SimpleNamespace

import pytest

from tests.examples.scripts import EXAMPLES, python

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


def read_partitions(partitions):
    """Texts of the partitions, as a worker reads them."""
    texts = []
    for each in partitions:
        with open(each["path"], "rb") as file:
            file.seek(each["start"])
            texts.append([translate_corpus.read_line(file) for _ in range(each["lines"])])
    return texts


def test_partitions_hold_each_line_once(tmp_path):
    first, second, empty = (tmp_path / name for name in ("first", "second", "empty"))
    first.write_bytes("\ufeffa\r\nb\u2028b\n\nd\rd\ne".encode())
    second.write_bytes("ä\nf\n".encode())
    empty.write_bytes(b"")
    partitions = translate_corpus.find_partitions([first, empty, second], 2)
    assert [each["part"] for each in partitions] == [0, 1, 2, 3]
    assert read_partitions(partitions) == [["a", "b\u2028b"], ["", "d\rd"], ["e"], ["ä", "f"]]


def test_a_corpus_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "latin"
    path.write_bytes(b"a\n\xe4\n")
    with pytest.raises(SystemExit, match="Received: line 2 of .*latin, .*0xe4"):
        translate_corpus.find_partitions([path], 10)
    path.write_bytes(b"")
    with pytest.raises(SystemExit, match="Expected lines to translate. Received: none in"):
        translate_corpus.find_partitions([path], 10)


def test_a_folder_of_another_corpus_is_refused(tmp_path):
    model = tmp_path / "model.onnx"
    model.write_bytes(b"1")
    args = SimpleNamespace(model=model, out=tmp_path / "out")
    partitions = [{"part": 0, "path": "a", "start": 0, "lines": 3}]
    for _ in range(2):
        translate_corpus.prepare_folder(args, partitions)
    with pytest.raises(SystemExit, match="same model, corpus and --partition-lines. Received: .*o"):
        translate_corpus.prepare_folder(args, [{**partitions[0], "lines": 4}])
    model.write_bytes(b"2")
    with pytest.raises(SystemExit, match="same model"):
        translate_corpus.prepare_folder(args, partitions)


def test_a_folder_of_another_text_with_as_many_lines_is_refused(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"1")
    args = SimpleNamespace(model=tmp_path / "model.onnx", out=tmp_path / "out")
    corpus = tmp_path / "corpus"

    def prepare(text):
        corpus.write_text(text)
        translate_corpus.prepare_folder(args, translate_corpus.find_partitions([corpus], 2))

    prepare("one\ntwo\nthree\n")
    prepare("one\ntwo\nthree\n")
    for text in ("one\ntwo\nfour!\n", "two\none\nthree\n"):  # the same numbers of bytes and lines
        with pytest.raises(SystemExit, match="same model, corpus and --partition-lines"):
            prepare(text)
    (args.out / "job.json").unlink()
    (args.out / "part-00000.txt").write_text("eins\nzwei\n")
    with pytest.raises(SystemExit, match="same model, corpus and --partition-lines"):
        prepare("one\ntwo\nthree\n")


def test_a_worker_writes_a_complete_partition(model, tmp_path):
    lines = different_lines(101)
    (tmp_path / "corpus").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (partition,) = translate_corpus.find_partitions([tmp_path / "corpus"], 200)
    translator = Translator(model, num_threads=1)
    row = translate_corpus.PartitionTranslator(translator, tmp_path)(partition)
    assert (row["lines"], row["truncated"]) == (101, 0)
    assert (tmp_path / "part-00000.txt").read_text("utf-8").splitlines() == lines
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.slow
@has_ray
def test_each_line_is_translated_once_if_a_worker_is_killed(model, tmp_path):
    lines = different_lines(20_000)
    for name, part in (("one.txt", lines[:12_345]), ("two.txt", lines[12_345:])):
        (tmp_path / name).write_text("\n".join(part) + "\n", encoding="utf-8")
    options = [SCRIPT, model, "out", "one.txt", "two.txt", "--partition-lines", 2000]
    output = python(tmp_path, *options, "--workers", 2, "--kill-one").stdout
    finished = re.findall(r"(\d+) of 11: part (\d+), worker (\d+)", output)
    assert sorted(int(part) for _, part, _ in finished) == list(range(11))
    assert len({worker for _, _, worker in finished}) >= 2
    assert len(re.findall(r"killing worker \d+", output)) == 1
    report = json.loads(output.splitlines()[-1])
    assert report["lines"] == 20_000 and report["earlier_lines"] == 0

    def written():
        parts = sorted((tmp_path / "out").glob("part-*.txt"))
        return [line for path in parts for line in path.read_text("utf-8").splitlines()]

    assert written() == lines
    assert not list((tmp_path / "out").glob("*.partial"))
    (tmp_path / "out" / "part-00006.txt").unlink()
    report = json.loads(python(tmp_path, *options).stdout.splitlines()[-1])
    assert report["lines"] == 345 and report["earlier_lines"] == 19_655
    assert written() == lines
