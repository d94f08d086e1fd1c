"""Parallel text files, encoded to token ids."""

import json
import os
from collections.abc import Iterator
from itertools import islice, zip_longest
from os import PathLike
from pathlib import Path
from typing import Any

from keras_attn._files.lines import read_lines
from keras_attn._files.working_directory import flush_directory, flush_to_disk, working_directory
from keras_attn.text.encoded_sentences import EncodedSentences, file_paths
from keras_attn.text.encoded_sentences_writer import EncodedSentencesWriter
from keras_attn.text.tokenizer import SpecialTokenIds, Tokenizer

_PAIRS_PER_CHUNK = 8192
_CHARACTERS_PER_TOKEN = 32  # the runtime has the same limit
_REPORT = "corpus.json"


class ParallelCorpus:
    """Sentence pairs as token ids, for example the lines of two parallel text files.

    The text is encoded only once. Training then has random access to the ids, so it can shuffle the
    whole corpus and resume exactly at low cost.

    Args:
        source: `EncodedSentences` of the source side.
        target: `EncodedSentences` of the target side, with the same number of sentences.
        dropped_empty: Int, number of pairs that were dropped because a side has no tokens. Defaults
            to `0`.
        dropped_long: Int, number of pairs that were dropped because a side is too long. Defaults to
            `0`.

    Raises:
        ValueError: If the numbers of source and target sentences differ.

    Example:

    >>> from keras_attn.text import EncodedSentences, ParallelCorpus
    >>> source = EncodedSentences.from_lists([[5, 6, 7], [8, 9]])
    >>> target = EncodedSentences.from_lists([[15, 16], [17, 18]])
    >>> len(ParallelCorpus(source, target))
    2

    Text files are encoded with `ParallelCorpus.encode`:

    ```python
    corpus = ParallelCorpus.encode(
        "train.en.gz", "train.de.gz", tokenizer, tokenizer, 100, 100, "run/corpus"
    )
    len(corpus), corpus.dropped_empty, corpus.dropped_long     # (29000, 0, 0)
    corpus = ParallelCorpus.load("run/corpus")                 # later, without encoding
    ```
    """

    def __init__(
        self,
        source: EncodedSentences,
        target: EncodedSentences,
        dropped_empty: int = 0,
        dropped_long: int = 0,
    ) -> None:
        if len(source) != len(target):
            raise ValueError(
                "Expected the same number of source and target sentences. Received: "
                f"{len(source)} source and {len(target)} target sentences."
            )
        self.source = source
        self.target = target
        self.dropped_empty = dropped_empty
        self.dropped_long = dropped_long

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def encode(
        cls,
        source_path: str | PathLike,
        target_path: str | PathLike,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        max_source_length: int,
        max_target_length: int,
        directory: str | PathLike,
    ) -> "ParallelCorpus":
        """Encodes two text files into a new directory, with bounded memory, and loads the result.

        The directory is created atomically when all files are complete. If an error occurs, partial
        files are removed. If the process is killed, the next call removes its partial files.

        Args:
            source_path: Path of a UTF-8 text file, plain or `.gz`, with one sentence per line.
            target_path: Path of the target file. Line i must be the translation of line i of the
                source file.
            source_tokenizer: `Tokenizer` of the source.
            target_tokenizer: `Tokenizer` of the target. It may be the same object.
            max_source_length: Positive int, maximum number of tokens of a source sentence, without
                start and end ids. Pairs with longer sentences are dropped and counted. Sentences
                with more than `32 * max_source_length` characters are dropped without encoding.
            max_target_length: Positive int, maximum number of tokens of a target sentence. The
                rules of `max_source_length` apply.
            directory: Path of the directory to create.

        Returns:
            A `ParallelCorpus`.

        Raises:
            ValueError: If the files have different numbers of lines, invalid UTF-8 or no lines, or
                all pairs are dropped.
            FileExistsError: If the directory exists.
        """
        directory = Path(directory)
        _refuse_existing(directory)

        def is_too_long(source, target):
            return (
                len(source) > _CHARACTERS_PER_TOKEN * max_source_length
                or len(target) > _CHARACTERS_PER_TOKEN * max_target_length
            )

        directory.parent.mkdir(parents=True, exist_ok=True)
        with working_directory(directory, os.path.lexists) as temporary:
            encoded = temporary / directory.name
            encoded.mkdir()
            report: dict[str, Any] = {"kept": 0, "dropped_empty": 0, "dropped_long": 0}
            with (
                EncodedSentencesWriter(encoded, "source") as source_writer,
                EncodedSentencesWriter(encoded, "target") as target_writer,
            ):
                pairs = _read_pairs(source_path, target_path)
                while chunk := list(islice(pairs, _PAIRS_PER_CHUNK)):
                    # SentencePiece needs quadratic time for some long lines.
                    short = [pair for pair in chunk if not is_too_long(*pair)]
                    report["dropped_long"] += len(chunk) - len(short)
                    sources, targets = zip(*short, strict=True) if short else ((), ())
                    sources = source_tokenizer.encode(sources)
                    targets = target_tokenizer.encode(targets)
                    kept = []
                    for source, target in zip(sources, targets, strict=True):
                        if not source or not target:
                            report["dropped_empty"] += 1
                        elif len(source) > max_source_length or len(target) > max_target_length:
                            report["dropped_long"] += 1
                        else:
                            kept.append((source, target))
                    report["kept"] += len(kept)
                    source_writer.append([source for source, _ in kept])
                    target_writer.append([target for _, target in kept])
            _check_report(report, source_path, target_path)
            report["source_tokens"] = source_writer.num_tokens
            report["target_tokens"] = target_writer.num_tokens
            for side, tokenizer in (("source", source_tokenizer), ("target", target_tokenizer)):
                report[f"{side}_special_token_ids"] = SpecialTokenIds.of(tokenizer)._asdict()
            Path(encoded, _REPORT).write_text(json.dumps(report, indent=2) + "\n")
            flush_to_disk(encoded)
            _refuse_existing(directory)  # another process may have created it
            os.rename(encoded, directory)
            flush_directory(directory.parent)
        return cls.load(directory)

    @classmethod
    def load(cls, directory: str | PathLike) -> "ParallelCorpus":
        """Loads a directory that `encode` created.

        Args:
            directory: Path of the directory.

        Returns:
            A `ParallelCorpus`.

        Raises:
            ValueError: If a file is damaged.
        """
        try:
            report = json.loads(Path(directory, _REPORT).read_text())
            counts = {side: report[f"{side}_tokens"] for side in ("source", "target")}
            special = [SpecialTokenIds(**report[f"{side}_special_token_ids"]) for side in counts]
            kept, dropped = report["kept"], (report["dropped_empty"], report["dropped_long"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"Expected the counts of a corpus in {str(Path(directory, _REPORT))!r}. Received: "
                f"{error!r}. Remove the damaged directory and encode again."
            ) from error
        for side, num_tokens in counts.items():
            sizes = (4 * num_tokens, 8 * (kept + 1))
            for path, size in zip(file_paths(directory, side), sizes, strict=True):
                if path.stat().st_size != size:
                    raise ValueError(
                        f"Expected {size} bytes in {str(path)!r}. Received: {path.stat().st_size} "
                        "bytes. Remove the damaged directory and encode again."
                    )
        return cls(
            EncodedSentences.load(directory, "source", special[0]),
            EncodedSentences.load(directory, "target", special[1]),
            *dropped,
        )


def _refuse_existing(directory: Path) -> None:
    if directory.exists():
        raise FileExistsError(
            f"Expected a directory that does not exist. Received: directory={str(directory)!r}. "
            "Open it with ParallelCorpus.load, or remove it to encode again."
        )


def _read_pairs(source_path, target_path) -> Iterator[tuple[str, str]]:
    """Yields pairs of lines. Raises a `ValueError` if the files have different numbers of lines."""
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


def _check_report(report: dict, source_path, target_path) -> None:
    if report["kept"] == 0:
        raise ValueError(
            "Expected at least one pair within the maximum lengths. Received: "
            f"{str(source_path)!r} and {str(target_path)!r}, with {report['dropped_empty']} pairs "
            f"with an empty side and {report['dropped_long']} longer pairs. Increase "
            "max_source_length or max_target_length."
        )
