"""Parallel text files, encoded to token ids."""

import os
from os import PathLike
from pathlib import Path

from keras_attn._files.working_directory import flush_directory, flush_to_disk, working_directory
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn.text._corpus_report import CorpusReport
from keras_attn.text._encode_pairs import encode_pairs
from keras_attn.text._encoded_sentences import EncodedSentences
from keras_attn.text._tokenizer import Tokenizer


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
        path: str | PathLike,
    ) -> "ParallelCorpus":
        """Encodes two text files into a new directory, with bounded memory, and loads the result.

        The directory is created atomically when all files are complete. If an error occurs, partial
        files are removed. If the process is killed, the next call removes its partial files.

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
            path: Path of the directory to create.

        Returns:
            A `ParallelCorpus`.

        Raises:
            ValueError: If the files contain different numbers of lines, invalid UTF-8 or no lines,
                all pairs are dropped, a maximum length is not a positive integer, or a tokenizer
                returns its padding or end id inside a sentence, or an id outside `[0,
                vocabulary_size)`.
            FileExistsError: If the directory exists.
        """
        for name, value in (
            ("max_source_length", max_source_length),
            ("max_target_length", max_target_length),
        ):
            check_positive_integer(name, value)
        path = Path(path)
        _refuse_existing(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with working_directory(path, os.path.lexists) as temporary:
            encoded = temporary / path.name
            encoded.mkdir()
            report = encode_pairs(
                (source_path, target_path),
                (source_tokenizer, target_tokenizer),
                (max_source_length, max_target_length),
                encoded,
            )
            report.write(encoded)
            flush_to_disk(encoded)
            _refuse_existing(path)  # another process may have created it
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


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise FileExistsError(
            f"Expected a directory that does not exist. Received: path={str(path)!r}. "
            "Open it with ParallelCorpus.load, or remove it to encode again."
        )
