"""Random invalid input gives results or a documented error, and no line is lost."""

import io
import json
import random
from collections import Counter

import numpy as np
import onnx
from keras_attn_runtime import InputError, ModelFileError, Translator
from keras_attn_runtime.__main__ import main

from tests.runtime.damaged_files import CASES, damaged
from tests.runtime.fake_model import (
    SENTENCES,
    build_model,
    metadata,
    with_checksum,
    with_file_checksum,
)

LIMIT = 20  # tokens of a line of the command
INVALID_UTF8 = [b"\xff", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\xed\xa0\xbd"]


def random_characters(generator, length):
    """Returns random code points without surrogates."""
    characters = []
    while len(characters) < length:
        character = generator.randrange(0x110000)
        if not 0xD800 <= character < 0xE000:
            characters.append(chr(character))
    return "".join(characters)


# Python: texts, ids and options.


def random_text(generator):
    kind = generator.randrange(6)
    length = generator.choice([0, 1, 3, 20, 600])
    if kind == 0:
        return random_characters(generator, length)
    if kind == 1:
        return generator.randbytes(length).decode("utf-8", "surrogateescape")
    if kind == 2:
        return "".join(
            generator.choice("\0\n\r\t \u2028\ufeff\u200d\x1b\x7f") for _ in range(length)
        )
    if kind == 3:
        return generator.choice([None, 3, b"x", [], "", float("nan"), "\ud83d", np.str_("a tree")])
    return "some text " * generator.choice([1, 2, length])


def random_ids(generator):
    length = generator.choice([0, 1, 5, 600])
    item = generator.choice([2, 63, 64, -5, 2**31, 2**40, 2**70, True, None, "5", 5.0])
    ids = [generator.randrange(1, 64) for _ in range(length)] + [item] * generator.randrange(2)
    kinds = [ids, ids * 2, [ids], np.array(ids, object), {"ids": ids}, iter(ids), ids[0:1], item]
    if all(type(id) is int and 0 <= id < 64 for id in ids):
        dtypes = ["int8", "uint64", "float16", "bool", "complex64", "U2", "M8[s]"]
        kinds += [np.array(ids, "int64").astype(dtype) for dtype in dtypes]
        kinds += [ids] * len(kinds)
    return generator.choice(kinds)


def random_options(generator):
    bad = [-1, 2**31, 10**400, 1.5, -0.5, float("nan"), float("inf"), "x", b"1", True, [1], None]
    values = {
        "max_length": [None, 0, 1, 7, 2**31 - 1, np.int8(5)],
        "length_penalty": [None, 0, 1.0, 50, 1e9, np.float16(0.5)],
        "num_hypotheses": [1, 2, np.uint8(2)],
        "batch_size": [1, 3, 32, 2**31 - 1],
        "window": [None, 1, 5, 2**31 - 1],
    }
    chosen = generator.sample(sorted(values), generator.randrange(3))
    return {
        name: generator.choice(bad if generator.random() < 0.2 else values[name]) for name in chosen
    }


@CASES
def test_texts_ids_and_options(translator, cases):
    outcomes = Counter()
    for seed in range(cases):
        generator = random.Random(seed)
        make, translate = generator.choice(
            [(random_text, translator.translate), (random_ids, translator.translate_ids)]
        )
        sentences = [make(generator) for _ in range(generator.randrange(3))]
        try:
            results = translate(sentences, **random_options(generator))
        except InputError as error:
            assert error.reason and 0 <= error.index < len(sentences), f"seed {seed}"
            outcomes["sentence refused"] += 1
        except ValueError as error:
            assert "Expected" in str(error) and "Received" in str(error), f"seed {seed}"
            outcomes["option refused"] += 1
        else:
            assert len(results) == len(sentences), f"seed {seed}"
            outcomes["translated"] += 1
    assert min(outcomes[kind] for kind in ("sentence refused", "option refused")) > cases / 20
    assert outcomes["translated"] > cases / 4


# The command: bytes.


def random_line(generator):
    """Returns random bytes without a newline."""
    kind = generator.randrange(10)
    if kind == 0:
        return b""
    if kind == 1:
        return generator.choice([b"some text " * 3000, b"a" * 30_000, b" " * 30_000, bytes(3000)])
    if kind == 2:
        return random_characters(generator, generator.randrange(30)).replace("\n", "").encode()
    if kind == 3:
        return bytes(generator.choice(range(32)) for _ in range(10)).replace(b"\n", b"\0")
    if kind == 4:
        return generator.choice(
            ["\ufeffa tree", "a\u2028b\x85c\x0cd", "\u200d", "e\u0301"]
        ).encode()
    if kind == 5 and generator.random() < 0.3:
        return b"a " + generator.choice(INVALID_UTF8) + b" b"
    if kind == 6 and generator.random() < 0.3:
        return generator.randbytes(generator.randrange(1, 50)).replace(b"\n", b"")
    return generator.choice(SENTENCES).encode()


def random_bytes(generator):
    lines = [random_line(generator) for _ in range(generator.choice([0, 1, 2, 5, 20]))]
    ends = generator.choice([[b"\n"], [b"\r\n"], [b"\n", b"\r\n"]])
    data = b"".join(line + generator.choice(ends) for line in lines)
    return data.removesuffix(b"\n") if generator.random() < 0.3 else data


def random_arguments(generator):
    arguments = ["--max-source-length", str(LIMIT), "--threads", "1"]
    arguments += generator.choice([[], ["--format", "jsonl"]])
    arguments += generator.choice([[], ["--invalid-utf8", "replace"]])
    arguments += generator.choice([[], [], ["--long-lines", "error"]])
    arguments += generator.choice([[], ["--window", generator.choice(["1", "3", "2147483647"])]])
    arguments += generator.choice(
        [[], ["--batch-size", generator.choice(["1", "4", "2147483647"])]]
    )
    if generator.random() < 0.1:
        name = generator.choice(
            ["--window", "--max-length", "--length-penalty", "--threads", "--x"]
        )
        arguments += [
            name,
            generator.choice(["-1", "nan", "inf", "1e400", "x", "", "9" * 30, "\0"]),
        ]
    return arguments


def expected_lines(translator, data, arguments):
    """Returns the output before the command stops, and the number of the line that stops it."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    texts = []
    for number, line in enumerate(lines, start=1):
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            if "replace" not in arguments:
                return texts, number
            text = line.removesuffix(b"\r").decode(errors="replace")
        (result,) = translator.translate([text])
        if result.truncated and "error" in arguments:
            return texts, number
        texts.append(result.text)
    return texts, None


@CASES
def test_bytes_through_the_command(cases, model_path, tmp_path, monkeypatch):
    translator = Translator(model_path, num_threads=1, max_source_length=LIMIT, truncate=True)
    outcomes = Counter()
    for seed in range(cases):
        generator = random.Random(seed)
        data, arguments = random_bytes(generator), random_arguments(generator)
        stdin = io.TextIOWrapper(io.BytesIO(data))
        with open(tmp_path / "out", "w") as stdout, io.StringIO() as stderr:
            monkeypatch.setattr("sys.stdin", stdin)
            monkeypatch.setattr("sys.stdout", stdout)
            monkeypatch.setattr("sys.stderr", stderr)
            try:
                status = main([str(model_path), *arguments])
            except SystemExit as end:
                status = end.code
            messages = stderr.getvalue()
        monkeypatch.undo()
        outcomes[status] += 1
        where = f"seed {seed}: {messages}"
        output = (tmp_path / "out").read_bytes()
        assert output == b"" or output.endswith(b"\n"), where
        if status == 2:  # argparse
            assert output == b"", where
            assert "error: argument --" in messages or "--x" in messages, where
            continue
        texts, stops_at = expected_lines(translator, data, arguments)
        lines = output.decode().split("\n")[:-1]
        if "jsonl" in arguments:
            lines = [json.loads(line)["text"] for line in lines]
        assert lines == texts, where
        assert status == (0 if stops_at is None else 1), where
        if stops_at is not None:
            assert messages.splitlines()[-1].startswith(f"error: line {stops_at}: "), where
    assert min(outcomes.values()) > cases / 40 and sorted(outcomes) == [0, 1, 2]


# Model files.


@CASES
def test_damaged_files(cases, tokenizer_model, tmp_path, model_tester):
    # A file with a checksum of the whole file never crashes and never gives other translations.
    model = build_model(with_checksum(metadata(tokenizer_model)))
    content = with_file_checksum(model.SerializeToString())
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    kind, whole = model_tester.outcome(path)
    assert kind == "translated"
    outcomes = Counter()
    for seed in range(cases):
        path.write_bytes(damaged(content, random.Random(seed)))
        kind, texts = model_tester.outcome(path)
        outcomes[kind] += 1
        assert kind == "refused" or (kind, texts) == ("translated", whole), f"seed {seed}: {kind}"
    assert outcomes["refused"] > 0.9 * cases


@CASES
def test_damaged_files_without_checksum_of_the_file(cases, tokenizer_model, tmp_path, model_tester):
    # The translations may differ, but the process must not crash.
    content = build_model(with_checksum(metadata(tokenizer_model))).SerializeToString()
    path = tmp_path / "model.onnx"
    outcomes = Counter()
    for seed in range(cases):
        path.write_bytes(damaged(content, random.Random(seed)))
        kind, _ = model_tester.outcome(path)
        outcomes[kind] += 1
        assert kind in ("refused", "translated"), f"seed {seed}: {kind}"
    assert outcomes["refused"] > 0.5 * cases


@CASES
def test_wrong_settings(cases, tokenizer_model, tmp_path):
    # A valid checksum: the file is not damaged, but its content is invalid.
    bad = [
        -1,
        0,
        1,
        5,
        63,
        64,
        2**31,
        10**400,
        0.5,
        float("nan"),
        float("inf"),
        "1",
        None,
        True,
        [],
    ]
    names = [name for name in metadata(b"") if name != "keras_attn.source_tokenizer"]
    settings = json.loads(metadata(b"")["keras_attn.settings"])
    settings = [*settings] + [
        f"{part}__{name}" for part in ("source", "target", "search") for name in settings[part]
    ]
    path = tmp_path / "model.onnx"
    outcomes = Counter()
    for seed in range(cases):
        generator = random.Random(seed)
        chosen = generator.sample(sorted(settings, reverse=True), generator.randrange(3))
        properties = metadata(tokenizer_model, **{name: generator.choice(bad) for name in chosen})
        if generator.random() < 0.3:
            text = generator.choice(
                ["", "\0", "1.0", "{}", "null", "[" * 5000, "9" * 5000, "\u2028"]
            )
            properties[generator.choice(names)] = text
        onnx.save(build_model(with_checksum(properties)), path)
        try:
            results = Translator(path, num_threads=1)(["some text", ""])
        except (ModelFileError, InputError) as error:  # padding inside of the text
            assert str(error), f"seed {seed}"
            outcomes["refused"] += 1
        else:
            assert len(results) == 2, f"seed {seed}"
            outcomes["translated"] += 1
    assert min(outcomes.values()) > cases / 10
