"""Reads texts as batches of ids, for the classes that run a file on texts."""

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from keras_attn_runtime._calls.argument_checks import require_bool, require_integer
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._calls.reading import read
from keras_attn_runtime._engines.create_session import MOST_THREADS, Providers, default_num_threads
from keras_attn_runtime._engines.pickled_arguments import PickledArguments
from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format import Input, Side
from keras_attn_runtime._file_format.functional_settings import TEXT_INPUTS
from keras_attn_runtime._inputs.sentences import require_sentences
from keras_attn_runtime._inputs.source import Source, SourceReader
from keras_attn_runtime._text.tokenizer import Tokenizer

CHARACTERS_PER_TOKEN = 32
"""Ratio between the default limits of characters and tokens."""


class SourceSettings(Protocol):
    """Settings of a file that may read texts."""

    @property
    def inputs(self) -> Mapping[str, Input]: ...

    @property
    def source(self) -> Side | None: ...


class SourceModel(Protocol):
    """An opened file that may read texts."""

    @property
    def source_length(self) -> int | None: ...

    @property
    def source_tokenizer(self) -> Tokenizer | None: ...

    @property
    def settings(self) -> SourceSettings: ...


M = TypeVar("M", bound=SourceModel)


class TextModel(PickledArguments, Generic[M]):
    """Base class of `Translator` and `Classifier`, which document the arguments."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        providers: Providers | None,
        num_threads: int | None,
        num_workers: int,
        max_source_length: int,
        truncate: bool,
        max_source_characters: int | None,
    ) -> None:
        max_source_length = require_integer("max_source_length", max_source_length, least=1)
        if max_source_characters is not None:
            max_source_characters = require_integer(
                "max_source_characters", max_source_characters, least=1
            )
        num_workers = require_integer("num_workers", num_workers, least=1, most=MOST_THREADS)
        truncate = require_bool("truncate", truncate)
        _require_path(path)
        if num_threads is None:
            num_threads = default_num_threads(num_workers)
        else:
            most = MOST_THREADS // num_workers
            num_threads = require_integer("num_threads", num_threads, least=1, most=most)
        self._model = self._open(path, providers, num_threads, num_workers)
        self._num_workers = num_workers
        self._process = os.getpid()
        source = self._model.settings.source
        limits = [max_source_length]
        if source is not None and source.max_length is not None:
            limits.append(source.max_length)
        if source is not None and self._model.source_length is not None:
            num_special = len(source.start) + len(source.end)
            limits.append(max(1, self._model.source_length - num_special))
        self.max_source_length = min(limits)
        if max_source_characters is None:
            max_source_characters = CHARACTERS_PER_TOKEN * self.max_source_length
        self.max_source_characters = max_source_characters
        self._reader = None
        kinds = {entry.kind for entry in self.inputs.values()}
        if source is not None and "ids" in kinds and kinds <= TEXT_INPUTS:
            self._reader = SourceReader(
                source,
                self.max_source_length,
                self.max_source_characters,
                truncate,
                self._model.source_length,
            )

    @property
    def inputs(self) -> Mapping[str, Input]:
        """Dict from input names to `Input`s."""
        return self._model.settings.inputs

    @abstractmethod
    def _open(
        self,
        path: str | os.PathLike[str],
        providers: Providers | None,
        num_threads: int | None,
        num_sessions: int,
    ) -> M: ...

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:  # a forked process lacks session and worker threads
            raise RuntimeError(
                f"This {type(self).__name__} was created before a fork. Create one in each "
                "process, after the fork."
            )

    def _require_reader(self) -> SourceReader:
        if self._reader is None:
            raise ModelFileError(
                "Expected a file with the input 'source_ids'. Received: inputs="
                f"{list(self.inputs)}. Give arrays to `generate`, or image files to the command "
                "with `--images`."
            )
        return self._reader

    def _read_sources(
        self, texts: Iterable[str], call: Call, with_words: bool = False
    ) -> Iterator[Source]:
        reader = self._require_reader()
        require_tokenizers({"source": self._model.settings.source})
        tokenizer = self._model.source_tokenizer
        assert tokenizer is not None  # checked by require_tokenizers
        texts = read(require_sentences(texts, "texts"), call)
        return reader.read_texts(texts, tokenizer, with_words)


def require_tokenizers(
    sides: Mapping[str, Side | None], remedy: str = "give ids to `translate_ids`"
) -> None:
    """Raises `ModelFileError` that names all tokenizers that the file lacks.

    Args:
        sides: dict from "source" and "target" to `Side`s whose tokenizers are needed.
        remedy: string, what to do instead of an export with the tokenizers.
    """
    kinds = {
        name: None if side is None else side.tokenizer
        for name, side in sides.items()
        if side is None or not side.has_tokenizer
    }
    if kinds:
        expected = " and ".join(f"a {name} tokenizer" for name in kinds)
        received = ", ".join(f"{name} tokenizer={kind!r}" for name, kind in kinds.items())
        arguments = " and ".join(f"{name}_tokenizer=..." for name in kinds)
        raise ModelFileError(
            f"Expected a file with {expected}, because texts are read or written. Received: "
            f"{received}. Export it with {arguments}, or {remedy}."
        )


def _require_path(path: object) -> None:
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(
            f"Expected path to be a string or a path. Received: type={type(path).__name__}."
        )
