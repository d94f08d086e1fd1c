import gzip
import json
import tracemalloc

import pytest

from keras_attn.text import EncodedSentences, ParallelCorpus, SpecialTokenIds
from tests.text.corpus_text import Words


@pytest.fixture
def encode(tmp_path):
    """Encodes two texts into tmp_path/out/corpus, with up to 5 source and 4 target tokens."""

    def encode(source: str | bytes, target: str | bytes, packed: bool = False) -> ParallelCorpus:
        paths = []
        for name, text in (("text.en", source), ("text.de", target)):
            data = text.encode() if isinstance(text, str) else text
            path = tmp_path / (name + ".gz" * packed)
            path.write_bytes(gzip.compress(data) if packed else data)
            paths.append(path)
        return ParallelCorpus.encode(*paths, Words(), Words(), 5, 4, tmp_path / "out" / "corpus")

    return encode


def lists(sentences):
    return [sentences[row].tolist() for row in range(len(sentences))]


@pytest.mark.parametrize("packed", [False, True])
def test_pairs_are_encoded_filtered_and_counted(encode, tmp_path, packed):
    source = "11 12\n\n13\n 14 15 16 17 18\n11 12 13 14 15 16\n20\n21\n  \n22"
    target = "21\n31\n\n 24 25 26 27 \n28\n21 22 23 24 25\n29\n\n30\n"
    corpus = encode(source, target, packed)
    assert lists(corpus.source) == [[11, 12], [14, 15, 16, 17, 18], [21], [22]]
    assert lists(corpus.target) == [[21], [24, 25, 26, 27], [29], [30]]
    assert (len(corpus), corpus.dropped_empty, corpus.dropped_long) == (4, 3, 2)
    loaded = ParallelCorpus.load(tmp_path / "out" / "corpus")
    assert lists(loaded.source) == lists(corpus.source)
    assert lists(loaded.target) == lists(corpus.target)
    assert (len(loaded), loaded.dropped_empty, loaded.dropped_long) == (4, 3, 2)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["corpus"]


def test_corpus_keeps_the_special_ids_of_its_tokenizers(tmp_path):
    class Other(Words):
        pad_token_id, start_token_id, end_token_id, unknown_token_id = 9, 8, 7, 6

    (tmp_path / "text").write_text("11 12\n13\n")
    paths = [tmp_path / "text"] * 2
    corpus = ParallelCorpus.encode(*paths, Words(), Other(), 5, 5, tmp_path / "corpus")
    for each in (corpus, ParallelCorpus.load(tmp_path / "corpus")):
        assert each.source.special_token_ids == SpecialTokenIds()
        assert each.target.special_token_ids == SpecialTokenIds(pad=9, start=8, end=7, unknown=6)


def test_pairs_of_too_many_characters_are_not_encoded(encode, monkeypatch):
    encoded, encode_words = [], Words.encode
    monkeypatch.setattr(
        Words, "encode", lambda self, texts: encoded.extend(texts) or encode_words(self, texts)
    )
    longest, long_target = "11" + " " * 158, "21" + " " * 127
    corpus = encode(f"{longest}\n{longest} \n13", f"21\n22\n{long_target}")
    assert (lists(corpus.source), corpus.dropped_long) == ([[11]], 2)
    assert encoded == [longest, "21"]


def test_a_corpus_of_one_line_of_too_many_characters_is_refused(encode):
    with pytest.raises(ValueError, match="Expected at least one pair .* and 1 longer pairs"):
        encode("9" * 10_000, "21")


def test_more_pairs_than_a_chunk_stay_in_order(encode, monkeypatch):
    monkeypatch.setattr("keras_attn.text._encode_parallel_files._PAIRS_PER_CHUNK", 7)
    numbers = range(10, 60)
    corpus = encode("\n".join(map(str, numbers)), "\n".join(str(n + 100) for n in numbers))
    assert lists(corpus.source) == [[n] for n in numbers]
    assert lists(corpus.target) == [[n + 100] for n in numbers]


def test_memory_does_not_grow_with_the_files(encode, monkeypatch):
    monkeypatch.setattr("keras_attn.text._encode_parallel_files._PAIRS_PER_CHUNK", 100)
    peaks = []
    for count in (2_000, 20_000):
        text = "11 12 13\n" * count
        tracemalloc.start()
        try:
            corpus = encode(text, text)
            peaks.append(tracemalloc.get_traced_memory()[1] - 2 * len(text))
        finally:
            tracemalloc.stop()
        assert len(corpus) == count
        _remove(corpus)
    # The ids of 18,000 more pairs take 432,000 bytes, and several times that as Python lists.
    assert peaks[1] < peaks[0] + 200_000


def _remove(corpus):
    import shutil
    from pathlib import Path

    shutil.rmtree(Path(corpus.source.ids.base.filename).parent)


@pytest.mark.parametrize("counts", [(3, 5), (5, 3), (0, 2), (2, 0)])
def test_unequal_line_counts_are_both_named(encode, tmp_path, counts):
    with pytest.raises(
        ValueError, match=r"text.en' with {} and .*text.de' with {} ".format(*counts)
    ):
        encode("11\n" * counts[0], "12\n" * counts[1])
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("bad", ["text.en", "text.de"])
def test_invalid_utf8_names_file_and_line(encode, tmp_path, bad):
    good, broken = b"11\n12\n13\n", b"11\n12\n\xe9\n"
    with pytest.raises(ValueError, match=f"{bad}', line 3"):
        encode(*(broken if name == bad else good for name in ("text.en", "text.de")))
    assert list((tmp_path / "out").iterdir()) == []


def test_empty_files_and_files_without_usable_pairs(encode, tmp_path):
    with pytest.raises(ValueError, match="the empty files .*text.en' and .*text.de'"):
        encode("", "")
    with pytest.raises(ValueError, match="with 2 pairs with an empty side and 1 longer pairs"):
        encode("\n11\n11 12 13 14 15 16\n", "12\n\n13\n")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("error", [OSError("No space left on device"), KeyboardInterrupt()])
def test_nothing_half_written_stays_behind(encode, tmp_path, monkeypatch, error):
    def fail(self, texts):
        raise error

    monkeypatch.setattr(Words, "encode", fail)
    with pytest.raises(type(error)):
        encode("11\n", "12\n")
    assert list((tmp_path / "out").iterdir()) == []


def test_what_a_killed_process_left_is_removed(encode, tmp_path):
    left = tmp_path / "out" / ".partial-abcdefgh-corpus"
    (left / "corpus").mkdir(parents=True)
    encode("11\n", "12\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["corpus"]


def test_an_existing_directory_is_not_overwritten(encode):
    first = encode("11\n", "12\n")
    with pytest.raises(FileExistsError, match="does not exist.*corpus.*ParallelCorpus.load"):
        encode("13\n", "14\n")
    assert lists(first.source) == [[11]]


def test_encode_loads_what_the_same_arguments_created(encode, tmp_path):
    lines = [f"{n} {n + 1}" for n in range(11, 31)]
    first = encode("\n".join(["", *lines]), "\n".join(["21", *lines]))
    path = tmp_path / "out" / "corpus" / "source.ids"
    created = path.stat().st_mtime_ns, path.stat().st_ino
    second = encode("\n".join(["", *lines]), "\n".join(["21", *lines]))
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == created
    assert lists(second.source) == lists(first.source) and len(second) == 20
    assert second.dropped_empty == 1


class Larger(Words):
    def encode(self, texts):
        return [[number + 1 for number in row] for row in super().encode(texts)]


class OtherEnd(Words):
    end_token_id = 999


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"source_path": "13\n"}, "source_path with different content"),
        ({"target_path": "12"}, "target_path with different content"),
        ({"max_source_length": 6}, "max_source_length=6, not 5"),
        ({"max_target_length": 6}, "max_target_length=6, not 5"),
        ({"source_tokenizer": Larger()}, "source_tokenizer with different ids"),
        ({"target_tokenizer": OtherEnd()}, "target_tokenizer with different ids"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_encode_names_the_arguments_that_differ(tmp_path, changed, difference):
    arguments = {
        "source_path": "11\n",
        "target_path": "12\n",
        "source_tokenizer": Words(),
        "target_tokenizer": Words(),
        "max_source_length": 5,
        "max_target_length": 5,
    }

    def encode(arguments):
        for name in ("source_path", "target_path"):
            (tmp_path / name).write_text(arguments[name])
        paths = {name: tmp_path / name for name in ("source_path", "target_path")}
        return ParallelCorpus.encode(**{**arguments, **paths}, path=tmp_path / "corpus")

    encode(arguments)
    with pytest.raises(FileExistsError) as error:
        encode({**arguments, **changed})
    assert f"corpus', {difference}. Open it" in str(error.value)


def test_encode_does_not_load_a_corpus_of_an_older_version(encode, tmp_path):
    encode("11\n", "12\n")
    path = tmp_path / "out" / "corpus" / "corpus.json"
    report = json.loads(path.read_text())
    del report["arguments"]
    path.write_text(json.dumps(report))
    assert len(ParallelCorpus.load(path.parent)) == 1
    with pytest.raises(FileExistsError, match="without the arguments that created it"):
        encode("11\n", "12\n")


def test_damaged_corpus_is_refused(encode, tmp_path):
    encode("11 12\n", "12\n")
    path = tmp_path / "out" / "corpus" / "source.ids"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="Expected 8 bytes.*source.ids.*Received: 4 bytes"):
        ParallelCorpus.load(tmp_path / "out" / "corpus")
    with pytest.raises(FileNotFoundError):
        ParallelCorpus.load(tmp_path / "nowhere")


@pytest.fixture
def corpus_directory(encode, tmp_path):
    encode("11 12\n13\n14 15 16\n" * 20, "21\n22 23\n24 25 26\n" * 20)
    return tmp_path / "out" / "corpus"


DAMAGES = {
    "block of zeros": lambda data: data[:64] + bytes(64) + data[128:],
    "other bytes": lambda data: data[:-8] + b"\x09\0\0\0" * 2,
    "one bit": lambda data: bytes([data[0] ^ 4]) + data[1:],
    "reversed": lambda data: data[::-1],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", ["source.ids", "source.offsets", "target.ids", "target.offsets"])
def test_damaged_files_of_the_right_size_are_refused(corpus_directory, name, damage):
    path = corpus_directory / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=f"SHA-256.*{name}.*Remove the damaged directory"):
        ParallelCorpus.load(corpus_directory)


def test_files_of_source_and_target_that_were_swapped_are_refused(corpus_directory):
    for suffix in ("ids", "offsets"):
        source, target = (corpus_directory / f"{side}.{suffix}" for side in ("source", "target"))
        content = source.read_bytes()
        source.write_bytes(target.read_bytes())
        target.write_bytes(content)
    with pytest.raises(ValueError, match="SHA-256.*Remove the damaged directory"):
        ParallelCorpus.load(corpus_directory)


@pytest.mark.parametrize(
    ("name", "start", "content", "message"),
    [
        ("source.offsets", 64, bytes(64), "offsets that do not decrease"),
        ("source.ids", 64, bytes(64), "without the padding id 0"),
        ("target.ids", 4, b"\xff" * 4, "Received: id -1 at position 0 of sentence 1"),
    ],
)
def test_a_corpus_without_checksums_is_loaded_and_checked(
    corpus_directory, name, start, content, message
):
    """Older versions wrote corpora without checksums."""
    report_path = corpus_directory / "corpus.json"
    report = json.loads(report_path.read_text())
    del report["sha256"]
    report_path.write_text(json.dumps(report))
    assert len(ParallelCorpus.load(corpus_directory)) == 60
    data = bytearray((corpus_directory / name).read_bytes())
    data[start : start + len(content)] = content
    (corpus_directory / name).write_bytes(data)
    with pytest.raises(ValueError, match=f"{message}.*{name}.*encode again"):
        ParallelCorpus.load(corpus_directory)


@pytest.mark.parametrize(
    ("line", "id_"), [("0", 0), ("11 0 12", 0), ("2", 2), ("11 2", 2), ("1000", 1000), ("-5", -5)]
)
@pytest.mark.parametrize("side", [0, 1])
def test_special_ids_inside_of_a_line_are_refused(encode, tmp_path, line, id_, side):
    """Such an id would be masked or would end the sentence in training."""
    texts = ["11\n" * 9000] * 2  # more than a chunk
    texts[side] = "11\n" * 8500 + "\n" + line + "\n" + "11\n" * 498
    name = ("text.en", "text.de")[side]
    with pytest.raises(ValueError, match=f"Words.encode .*: id {id_} in line 8502 .*{name}"):
        encode(*texts)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_tokenizer_that_adds_its_end_id_is_refused(encode, monkeypatch):
    encode_words = Words.encode
    monkeypatch.setattr(Words, "encode", lambda *args: [[*x, 2] for x in encode_words(*args)])
    with pytest.raises(ValueError, match="without the padding id 0 and the end id 2.*id 2 in line"):
        encode("11\n", "12\n")


def test_a_tokenizer_that_loses_lines_is_refused(encode, monkeypatch):
    monkeypatch.setattr(Words, "encode", lambda self, texts: [[11]])
    with pytest.raises(ValueError, match="one row of ids per text. Received: 1 rows for 2 texts"):
        encode("11\n12\n", "12\n13\n")


@pytest.mark.parametrize("length", [0, -1, 1.5, None])
def test_maximum_lengths_are_positive_integers(tmp_path, length):
    for lengths, name in [((length, 5), "max_source_length"), ((5, length), "max_target_length")]:
        with pytest.raises(ValueError, match=f"{name} to be a positive integer"):
            ParallelCorpus.encode("a", "b", Words(), Words(), *lengths, tmp_path / "corpus")


@pytest.mark.parametrize("content", ["{}", '{"kept": 1', "[]", "", "null"])
def test_counts_that_were_damaged_are_refused(encode, tmp_path, content):
    encode("11 12\n", "12\n")
    (tmp_path / "out" / "corpus" / "corpus.json").write_text(content)
    with pytest.raises(ValueError, match="corpus.json.*Remove the damaged directory"):
        ParallelCorpus.load(tmp_path / "out" / "corpus")


@pytest.mark.parametrize("name", ["corpus.json", "source.ids", "target.offsets"])
def test_directories_instead_of_files_are_refused(corpus_directory, name):
    (corpus_directory / name).unlink()
    (corpus_directory / name).mkdir()
    with pytest.raises(ValueError, match=f"{name}.*encode again"):
        ParallelCorpus.load(corpus_directory)


@pytest.mark.parametrize(
    ("name", "value"),
    [("kept", -1), ("dropped_long", "1"), ("source_special_token_ids", {"pad": -1}),
     ("target_special_token_ids", {"padding": 0}), ("target_tokens", 1.0)],
)  # fmt: skip
def test_counts_and_ids_of_the_wrong_type_are_refused(corpus_directory, name, value):
    path = corpus_directory / "corpus.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(ValueError, match="corpus.json.*Remove the damaged directory"):
        ParallelCorpus.load(corpus_directory)


def test_sides_of_unequal_length_are_refused():
    two, one = EncodedSentences.from_lists([[4], [5]]), EncodedSentences.from_lists([[4]])
    with pytest.raises(ValueError, match="2 source and 1 target"):
        ParallelCorpus(two, one)
