"""Parallel text files, encoded to token ids."""

import os
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from keras_attn._files.working_directory import flush_directory, flush_to_disk, working_directory
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn.text._corpus_report import REPORT_FILE, CorpusReport, checksum
from keras_attn.text._encode_parallel_files import encode_pairs, require_pairs
from keras_attn.text._encoded_sentences import EncodedSentences
from keras_attn.text._tokenizer import Tokenizer

NUM_COMPARED_PAIRS = 1000
"""Number of pairs that `ParallelCorpus.encode` encodes again before it loads a corpus."""


class ParallelCorpus:
    """Sentence pairs as token ids, for example the lines of two parallel text files.

    The text is encoded only once. Training then has random access to the ids, so it can shuffle the
    whole corpus and resume exactly at low cost.

    Args:
        source: `EncodedSentences`, the source side.
        target: `EncodedSentences`, the target side, with the same number of sentences.
        dropped_empty: Int, number of pairs dropped because a side contains no tokens. Defaults to
            `0`.
        dropped_long: Int, number of pairs dropped because a side is too long. Defaults to `0`.

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
    corpus = ParallelCorpus.load("run/corpus")                 # later, without the text files
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
        path: str | PathLike,
    ) -> "ParallelCorpus":
        """Encodes two text files into a new directory, with bounded memory, and loads the result.

        The directory is created atomically when all files are complete. If an error occurs, partial
        files are removed. If the process is killed, the next call removes its partial files.

        If an earlier call with the same arguments created the directory, `encode` loads it. The
        checksums of the text files and the maximum lengths must be equal, and the tokenizers must
        encode the first 1,000 pairs to the same ids.

        Args:
            source_path: Path of a UTF-8 text file, plain or `.gz`, with one sentence per line.
            target_path: Path of the target file. Line i must translate line i in the source file.
            source_tokenizer: `Tokenizer` for the source.
            target_tokenizer: `Tokenizer` for the target. It may be the same object.
            max_source_length: Positive int, maximum number of tokens in a source sentence, without
                start and end ids. Pairs with longer sentences are dropped and counted. Sentences
                with more than `32 * max_source_length` characters are dropped without encoding.
            max_target_length: Positive int, maximum number of tokens in a target sentence, with the
                same rules as `max_source_length`.
            path: Path of the directory to create, or to load if an earlier call created it.

        Returns:
            A `ParallelCorpus`.

        Raises:
            ValueError: If the files contain different numbers of lines, invalid UTF-8 or no lines,
                all pairs are dropped, a maximum length is not a positive integer, or a tokenizer
                returns its padding or end id inside a sentence, or an id outside `[0,
                vocabulary_size)`.
            FileExistsError: If the directory exists and was created with different arguments, by an
                older version, or by something else.
        """
        for name, value in (
            ("max_source_length", max_source_length),
            ("max_target_length", max_target_length),
        ):
            check_positive_integer(name, value)
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        paths = (source_path, target_path)
        tokenizers = (source_tokenizer, target_tokenizer)
        max_lengths = (max_source_length, max_target_length)
        arguments = {
            "source_path": checksum(source_path),
            "target_path": checksum(target_path),
            "max_source_length": max_source_length,
            "max_target_length": max_target_length,
        }
        if path.exists():
            return _load_existing(path, paths, tokenizers, max_lengths, arguments)
        with working_directory(path, os.path.lexists) as temporary:
            encoded = temporary / path.name
            encoded.mkdir()
            report = encode_pairs(paths, tokenizers, max_lengths, encoded)
            require_pairs(report, *paths)
            report.arguments = arguments
            report.write(encoded)
            flush_to_disk(encoded)
            if path.exists():  # another process has created it
                return _load_existing(path, paths, tokenizers, max_lengths, arguments)
            os.rename(encoded, path)
            flush_directory(path.parent)
        return cls.load(path)

    @classmethod
    def load(cls, path: str | PathLike) -> "ParallelCorpus":
        """Loads and verifies a directory created by `encode`.

        All files are read once and compared with their checksums: about 0.1 seconds for 10 million
        tokens. The ids are memory-mapped.

        Args:
            path: Directory path.

        Returns:
            A `ParallelCorpus`.

        Raises:
            ValueError: If a file is damaged or belongs to a different corpus.
        """
        report = CorpusReport.read(path)
        source, target = (report.load(path, side) for side in ("source", "target"))
        return cls(source, target, report.dropped_empty, report.dropped_long)


def _load_existing(path, paths, tokenizers, max_lengths, arguments):
    """Loads a corpus if the arguments of `ParallelCorpus.encode` are those that created it."""
    report = CorpusReport.read(path) if (path / REPORT_FILE).exists() else CorpusReport()
    if report.arguments is None:
        differences = ["without the arguments that created it"]
    else:
        corpus = ParallelCorpus.load(path)
        differences = [
            f"{name} with different content" if "path" in name else f"{name}={value}, not {former}"
            for name, value in arguments.items()
            if (former := report.arguments.get(name)) != value
        ] or _different_tokenizers(corpus, paths, tokenizers, max_lengths)
        if not differences:
            return corpus
    raise FileExistsError(
        f"Expected a directory that does not exist, or that was created with the same arguments. "
        f"Received: path={str(path)!r}, {'; '.join(differences)}. Open it with "
        "ParallelCorpus.load, or remove it to encode again."
    )


def _different_tokenizers(corpus, paths, tokenizers, max_lengths):
    """Returns which tokenizers encode the first pairs to different ids than those in a corpus."""
    with TemporaryDirectory() as directory:
        report = encode_pairs(paths, tokenizers, max_lengths, directory, NUM_COMPARED_PAIRS)
        differences = []
        for side in ("source", "target"):
            stored = getattr(corpus, side)
            special_token_ids = getattr(report, f"{side}_special_token_ids")
            first = EncodedSentences.load(directory, side, special_token_ids)
            if (
                special_token_ids != stored.special_token_ids
                or not np.array_equal(first.offsets, stored.offsets[: report.kept + 1])
                or not np.array_equal(first.ids, stored.ids[: len(first.ids)])
            ):
                differences.append(f"{side}_tokenizer with different ids")
    return differences
