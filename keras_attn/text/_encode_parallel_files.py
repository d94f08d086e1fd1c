"""Encodes the lines of two parallel text files."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice, zip_longest
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from keras_attn._files.lines import read_lines
from keras_attn.text._corpus_report import CorpusReport
from keras_attn.text._encoded_sentences import file_paths
from keras_attn.text._tokenizer import SpecialTokenIds, Tokenizer

_PAIRS_PER_CHUNK = 8192
_CHARACTERS_PER_TOKEN = 32  # the same limit as in the runtime

TextPath = str | PathLike


def encode_pairs(
    paths: tuple[TextPath, TextPath],
    tokenizers: tuple[Tokenizer, Tokenizer],
    max_lengths: tuple[int, int],
    directory: TextPath,
    max_pairs: int | None = None,
) -> CorpusReport:
    """Encodes two text files into corpus files.

    See `ParallelCorpus.encode`. Each tuple contains the values for source and target. `max_pairs`
    is the number of pairs to read, by default all.

    Returns:
        A `CorpusReport` without checksums.
    """
    report = CorpusReport()
    with ExitStack() as stack:
        writers = [
            stack.enter_context(EncodedSentencesWriter(directory, side))
            for side in ("source", "target")
        ]
        pairs = islice(enumerate(_read_pairs(*paths), start=1), max_pairs)
        while chunk := list(islice(pairs, _PAIRS_PER_CHUNK)):
            # SentencePiece needs quadratic time for some long lines.
            short = [
                (line, pair)
                for line, pair in chunk
                if all(
                    len(text) <= _CHARACTERS_PER_TOKEN * most
                    for text, most in zip(pair, max_lengths, strict=True)
                )
            ]
            report.dropped_long += len(chunk) - len(short)
            lines = [line for line, _ in short]
            sides = [
                _encode(tokenizer, [pair[side] for _, pair in short], lines, paths[side])
                for side, tokenizer in enumerate(tokenizers)
            ]
            kept = []
            for pair in zip(*sides, strict=True):
                if any(len(ids) == 0 for ids in pair):
                    report.dropped_empty += 1
                elif any(len(ids) > most for ids, most in zip(pair, max_lengths, strict=True)):
                    report.dropped_long += 1
                else:
                    kept.append(pair)
            report.kept += len(kept)
            for side, writer in enumerate(writers):
                writer.append([pair[side] for pair in kept])
    report.source_tokens, report.target_tokens = (writer.num_tokens for writer in writers)
    report.source_special_token_ids, report.target_special_token_ids = map(
        SpecialTokenIds.of, tokenizers
    )
    return report


def _read_pairs(source_path: TextPath, target_path: TextPath) -> Iterator[tuple[str, str]]:
    """Yields pairs of lines. Raises a `ValueError` if the numbers of lines differ."""
    count = 0
    lines = zip_longest(read_lines(source_path), read_lines(target_path))
    for count, (source, target) in enumerate(lines, start=1):
        if source is None or target is None:
            num_long = count + sum(1 for _ in lines)
            num_source, num_target = num_long, count - 1
            if source is None:
                num_source, num_target = num_target, num_source
            raise ValueError(
                "Expected two files with the same number of lines. Received: "
                f"{str(source_path)!r} with {num_source} and {str(target_path)!r} with "
                f"{num_target} lines. Line i of the target must translate line i of the source."
            )
        yield source, target
    if count == 0:
        raise ValueError(
            "Expected sentence pairs, one sentence per line. Received: the empty files "
            f"{str(source_path)!r} and {str(target_path)!r}."
        )


def _encode(
    tokenizer: Tokenizer, texts: list[str], lines: list[int], path: TextPath
) -> Sequence[Sequence[int]]:
    """Encodes texts, and checks the ids.

    Args:
        tokenizer: `Tokenizer`.
        texts: List of strings.
        lines: List, each text's line number.
        path: Text file path, for the error message.
    """
    rows = tokenizer.encode(texts)
    if len(rows) != len(texts):
        raise ValueError(
            f"Expected {type(tokenizer).__name__}.encode to return one row of ids per text. "
            f"Received: {len(rows)} rows for {len(texts)} texts."
        )
    pad, _, end, _ = SpecialTokenIds.of(tokenizer)
    ends = np.cumsum([len(row) for row in rows])  # (N,)
    ids = np.concatenate([np.zeros(0, "int64"), *(row for row in rows if len(row))])
    is_outside = (ids < 0) | (ids >= tokenizer.vocabulary_size)
    is_wrong = is_outside | (ids == pad) | (ids == end)
    if is_wrong.any():
        position = int(is_wrong.argmax())
        row = int(np.searchsorted(ends, position, side="right"))
        advice = (
            "The vocabulary_size of the tokenizer must be larger than its ids."
            if is_outside[position]
            else "A model would ignore or end the sentence there. Use a tokenizer that encodes "
            "special tokens in a text as ordinary text, or remove them from the file."
        )
        raise ValueError(
            f"Expected {type(tokenizer).__name__}.encode to return ids from 0 to "
            f"{tokenizer.vocabulary_size - 1} without the padding id {pad} and the end id {end}. "
            f"Received: id {ids[position]} in line {lines[row]} of {str(Path(path))!r}. {advice}"
        )
    return rows


def require_pairs(report: CorpusReport, source_path: TextPath, target_path: TextPath) -> None:
    """Raises a `ValueError` if all pairs were dropped."""
    if report.kept == 0:
        raise ValueError(
            "Expected at least one pair within the maximum lengths. Received: "
            f"{str(source_path)!r} and {str(target_path)!r}, with {report.dropped_empty} pairs "
            f"with an empty side and {report.dropped_long} longer pairs. Increase "
            "max_source_length or max_target_length."
        )


class EncodedSentencesWriter:
    """Appends sentences of ids to the two files that `EncodedSentences.load` reads.

    Args:
        directory: Path of an existing directory.
        name: String, name of the sentences, such as `"source"`. The file names contain it.
    """

    def __init__(self, directory: str | PathLike, name: str) -> None:
        self.num_tokens = 0
        ids_path, offsets_path = file_paths(directory, name)
        self._ids_file = open(ids_path, "wb")
        self._offsets_file = open(offsets_path, "wb")
        self._offsets_file.write(np.zeros(1, "<i8").tobytes())

    def append(self, sentences: Sequence[Sequence[int]]) -> None:
        lengths = np.fromiter(map(len, sentences), "<i8", len(sentences))
        ids = np.fromiter(chain.from_iterable(sentences), "<i4", lengths.sum())
        self._ids_file.write(ids.tobytes())
        self._offsets_file.write((self.num_tokens + np.cumsum(lengths)).astype("<i8").tobytes())
        self.num_tokens += len(ids)

    def __enter__(self) -> "EncodedSentencesWriter":
        return self

    def __exit__(self, *exception: Any) -> None:
        self._ids_file.close()
        self._offsets_file.close()
