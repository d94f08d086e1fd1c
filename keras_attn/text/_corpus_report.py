"""Description of corpus files: counts, special ids and checksums."""

import dataclasses
import hashlib
import json
from os import PathLike
from pathlib import Path
from typing import Any

from keras_attn.text._encoded_sentences import EncodedSentences, file_paths
from keras_attn.text._tokenizer import SpecialTokenIds

REPORT_FILE = "corpus.json"
_SIDES = ("source", "target")


@dataclasses.dataclass
class CorpusReport:
    """Content of `corpus.json`, used to check corpus files when they are loaded.

    Args:
        kept: Int, number of sentence pairs.
        dropped_empty: Int, number of pairs dropped because a side contains no tokens.
        dropped_long: Int, number of pairs dropped because a side is too long.
        source_tokens: Int, number of ids in all source sentences.
        target_tokens: Int, number of ids in all target sentences.
        source_special_token_ids: `SpecialTokenIds` for the source.
        target_special_token_ids: `SpecialTokenIds` for the target.
        sha256: Dict from file names to checksums. Defaults to `None`: unknown, as for a corpus
            written by an older version.
        arguments: Dict from argument names of `ParallelCorpus.encode` to maximum lengths and to
            checksums of the text files. Defaults to `None`: unknown.
    """

    kept: int = 0
    dropped_empty: int = 0
    dropped_long: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    source_special_token_ids: SpecialTokenIds = SpecialTokenIds()
    target_special_token_ids: SpecialTokenIds = SpecialTokenIds()
    sha256: dict[str, str] | None = None
    arguments: dict[str, int | str] | None = None

    def write(self, directory: str | PathLike) -> None:
        """Computes checksums of the corpus files, and writes `corpus.json`."""
        paths = [path for side in _SIDES for path in file_paths(directory, side)]
        self.sha256 = {path.name: checksum(path) for path in paths}
        entries = dataclasses.asdict(self)
        for side in _SIDES:
            name = f"{side}_special_token_ids"
            entries[name] = getattr(self, name)._asdict()
        Path(directory, REPORT_FILE).write_text(json.dumps(entries, indent=2) + "\n")

    @classmethod
    def read(cls, directory: str | PathLike) -> "CorpusReport":
        """Reads `corpus.json`.

        Raises:
            ValueError: If the file is damaged, or a directory.
            FileNotFoundError: If the file does not exist.
        """
        path = Path(directory, REPORT_FILE)
        names = {field.name for field in dataclasses.fields(cls)}
        try:
            entries = {k: v for k, v in json.loads(path.read_text()).items() if k in names}
            for side in _SIDES:
                name = f"{side}_special_token_ids"
                entries[name] = SpecialTokenIds(**entries[name])
                _require_counts(**entries[name]._asdict())
            counts = ("kept", "dropped_empty", "dropped_long", "source_tokens", "target_tokens")
            _require_counts(**{name: entries[name] for name in counts})
            return cls(**entries)
        except (ValueError, KeyError, TypeError, AttributeError, IsADirectoryError) as error:
            raise ValueError(
                f"Expected the counts of a corpus in {str(path)!r}. Received: {error!r}. Remove "
                "the damaged directory and encode again."
            ) from error

    def load(self, directory: str | PathLike, side: str) -> EncodedSentences:
        """Loads and checks one side's sentences.

        Raises:
            ValueError: If a file's size, checksum or content is wrong.
        """
        num_tokens, special_token_ids = (
            getattr(self, f"{side}_{name}") for name in ("tokens", "special_token_ids")
        )
        paths = file_paths(directory, side)
        for path, size in zip(paths, (4 * num_tokens, 8 * (self.kept + 1)), strict=True):
            actual = path.stat().st_size
            if actual != size:
                raise _damaged(path, f"{size} bytes", f"{actual} bytes")
            expected = (self.sha256 or {}).get(path.name)
            if expected is not None and checksum(path) != expected:
                raise _damaged(path, f"a file with the SHA-256 {expected}", checksum(path))
        try:
            return EncodedSentences.load(directory, side, special_token_ids)
        except ValueError as error:
            raise ValueError(
                f"{error} The files are {str(paths[0])!r} and {str(paths[1])!r}. Remove the "
                "directory and encode again."
            ) from error


def checksum(path: str | PathLike) -> str:
    """Returns the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _require_counts(**counts: Any) -> None:
    for name, value in counts.items():
        if not isinstance(value, int) or value < 0:
            raise ValueError(f"{name}={value!r}")


def _damaged(path: Path, expected: str, received: str) -> ValueError:
    return ValueError(
        f"Expected {expected} in {str(path)!r}. Received: {received}. Remove the damaged directory "
        "and encode again."
    )
