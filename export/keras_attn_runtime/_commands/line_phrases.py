"""Phrases that the translations of lines must contain, from a glossary or a file."""

import itertools
import queue
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import BinaryIO, TypeVar

from keras_attn_runtime._commands.lines import read_lines
from keras_attn_runtime._errors import InputError
from keras_attn_runtime._translate.glossary import Glossary
from keras_attn_runtime._translate.translator import Translator

T = TypeVar("T")


def add_phrase_arguments(parser: ArgumentParser) -> None:
    """Adds `--glossary`, `--constraints` and `--constraints-in-order`."""
    phrases = parser.add_argument_group(
        "required phrases",
        "They need a file that was exported with --accept-constraints. With --format jsonl, "
        "constraints_met tells which phrases each translation contains",
    )
    phrases.add_argument(
        "--glossary",
        metavar="FILE",
        help="file with a term, a tab and its translations, separated by tabs, in each line. The "
        "translation of a line with the term as words contains one of them. Default: none",
    )
    phrases.add_argument(
        "--constraints",
        metavar="FILE",
        help="file with the phrases of each input line, separated by tabs. The translation "
        "contains all of them; of a phrase like big|large, one alternative. Default: none",
    )
    phrases.add_argument(
        "--constraints-in-order",
        action="store_true",
        help="the phrases occur in their order",
    )


class LinePhrases:
    """Reads the phrases of each line.

    Args:
        arguments: namespace with the arguments from `add_phrase_arguments`.
        stack: `ExitStack` that closes the file.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if the glossary is not valid.
    """

    def __init__(self, arguments: Namespace, stack: ExitStack) -> None:
        self._glossary = None
        if arguments.glossary is not None:
            self._glossary = Glossary.read(arguments.glossary)
            self._glossary_path = arguments.glossary
        self._path = arguments.constraints
        # Opened once, because a named pipe cannot be opened again.
        self._stream = None
        if self._path is not None:
            self._stream = stack.enter_context(open(self._path, "rb"))
        # The texts and the phrases may be read in different threads.
        self._found: queue.SimpleQueue[list[list[str]] | None] = queue.SimpleQueue()

    @property
    def is_empty(self) -> bool:
        """bool, `True` without a glossary and without a file of phrases."""
        return self._glossary is None and self._path is None

    def check(self, translator: Translator) -> None:
        """Raises an error if the file's vocabulary lacks a translation of the glossary."""
        for entry in [] if self._glossary is None else self._glossary.entries:
            try:
                translator.check_phrase([*entry.translations])
            except ValueError as error:
                raise ValueError(
                    f"Glossary {self._glossary_path!r}, term {entry.term!r}: {error}"
                ) from error

    def of_items(self, items: Iterable[T]) -> Iterator[T]:
        """Yields lines or images unchanged, and finds the phrases of lines for `phrases`."""
        try:
            for item in items:
                self._found.put([] if self._glossary is None else self._glossary.phrases(str(item)))
                yield item
        finally:
            self._found.put(None)

    def phrases(self) -> Iterator[list[list[str]]]:
        """Yields the phrases of each line."""
        found = iter(self._found.get, None)
        if self._stream is None:
            yield from found
            return
        for of_glossary, of_file in itertools.zip_longest(found, self._lines(self._stream)):
            if of_glossary is None or of_file is None:
                more = "fewer" if of_file is None else "more"
                raise ValueError(
                    f"Expected a line of {self._path!r} for each input line. Received: {more} "
                    "lines. Add or remove lines."
                )
            yield of_glossary + of_file

    def _lines(self, stream: BinaryIO) -> Iterator[list[list[str]]]:
        try:
            for line in read_lines(stream):
                yield _split(line)
        except InputError as error:
            raise ValueError(
                f"{self._path!r}, line {(error.index or 0) + 1}: {error.reason}"
            ) from error


def _split(line: str) -> list[list[str]]:
    phrases = (phrase.split("|") for phrase in line.split("\t"))
    kept = ([each for each in phrase if each.strip()] for phrase in phrases)
    return [phrase for phrase in kept if phrase]
