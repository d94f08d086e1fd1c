"""Terminology: how to translate given terms."""

import functools
import os
import re
import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from keras_attn_runtime._text.scripts import is_without_spaces


@dataclass(frozen=True)
class GlossaryEntry:
    """A term and its translations.

    Attributes:
        term: string, words of the source language.
        translations: tuple of strings, the alternatives: a translation must contain one of them.
            The constructor also takes a list.

    Raises:
        ValueError: if the term or a translation is empty, or `translations` is a string.
    """

    term: str
    translations: tuple[str, ...]

    def __post_init__(self) -> None:
        translations = () if isinstance(self.translations, str) else tuple(self.translations)
        if not self.term.strip() or not translations or not all(map(str.strip, translations)):
            raise ValueError(
                "Expected a term and a list of translations that are not empty. Received: "
                f"term={self.term!r}, translations={self.translations!r}. Complete the entry."
            )
        object.__setattr__(self, "translations", translations)


class Glossary:
    """Terms whose translation is required, for the argument `constraints` of a `Translator`.

    An entry applies to a text that contains its term as whole words. A term with a capital letter
    matches only the same capital letters, other terms match any case. Where several terms begin at
    the same word, the longest one applies. A term that occurs several times is required once. In
    scripts without spaces, such as Chinese and Thai, a term applies everywhere.

    Args:
        entries: iterable of `GlossaryEntry`.

    Raises:
        ValueError: if a term is given twice.

    Example:

        glossary = Glossary.read("terms.tsv")
        constraints = [glossary.phrases(text) for text in texts]
        translator.translate(texts, constraints=constraints)
    """

    def __init__(self, entries: Iterable[GlossaryEntry]) -> None:
        by_term: dict[str, GlossaryEntry] = {}
        for entry in entries:
            key = _words(entry.term)
            if key in by_term:
                raise ValueError(
                    f"Expected each term once. Received: {entry.term!r} twice. Put all "
                    "translations of a term in one entry."
                )
            by_term[key] = entry
        longest_first = sorted(by_term, key=len, reverse=True)
        self._entries = [by_term[key] for key in longest_first]
        patterns = [f"({_pattern(term)})" for term in longest_first]
        self._terms = re.compile("|".join(patterns)) if patterns else None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a UTF-8 file with a term, a tab and its translations, separated by tabs, per line.

        Empty lines and lines that begin with # are ignored.

        Args:
            path: string or path.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if lines are not valid. The message has their numbers.
        """
        try:
            with open(path, encoding="utf-8-sig", newline="\n") as file:
                text = file.read()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"Expected a glossary in UTF-8. Received: {os.fspath(path)!r} ({error.reason}). "
                "Convert the file to UTF-8."
            ) from error
        entries: list[GlossaryEntry] = []
        wrong: list[int] = []
        lines: dict[str, int] = {}
        for number, line in enumerate(text.split("\n"), 1):
            line = line.removesuffix("\r")
            if not line.strip() or line.startswith("#"):
                continue
            term, *translations = (each.strip() for each in line.split("\t"))
            is_new = lines.setdefault(_words(term), number) == number
            if term and translations and all(translations) and is_new:
                entries.append(GlossaryEntry(term, tuple(translations)))
            else:
                wrong.append(number)
        if wrong:
            shown = ", ".join(map(str, wrong[:10])) + (" and others" if len(wrong) > 10 else "")
            raise ValueError(
                "Expected lines with a term, which occurs in no other line, a tab and its "
                f"translations, separated by tabs. Received: {os.fspath(path)!r} with other lines: "
                f"{shown}. Correct them."
            )
        return cls(entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[GlossaryEntry]:
        """List of the `GlossaryEntry`s, those with long terms first."""
        return [*self._entries]

    def find(self, text: str) -> list[GlossaryEntry]:
        """Returns the entries whose terms a text contains, in the order of the text.

        Args:
            text: string.
        """
        if self._terms is None:
            return []
        matches = self._terms.finditer(unicodedata.normalize("NFC", text))
        found = (self._entries[(match.lastindex or 1) - 1] for match in matches)
        return [*dict.fromkeys(found)]

    def phrases(self, text: str) -> list[list[str]]:
        """Returns the phrases that the translation of a text must contain.

        Args:
            text: string.

        Returns:
            List with an item for each term in the text: the list of its translations.
        """
        return [[*entry.translations] for entry in self.find(text)]


def _words(term: str) -> str:
    return " ".join(unicodedata.normalize("NFC", term).split())


def _pattern(term: str) -> str:
    """Returns a regular expression for a term as whole words."""
    words = r"\s+".join(map(re.escape, term.split()))
    if term == term.lower():
        words = f"(?i:{words})"
    begin = f"(?<!{_word_character()})" if _needs_boundary(term[0]) else ""
    end = f"(?!{_word_character()})" if _needs_boundary(term[-1]) else ""
    return f"{begin}{words}{end}"


def _needs_boundary(character: str) -> bool:
    is_of_word = re.match(_word_character(), character) is not None
    return is_of_word and not is_without_spaces(character)


@functools.cache
def _word_character() -> str:
    """Returns a character class of letters, digits, `_` and combining marks, which `\\w` lacks."""
    codes = [
        code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M"
    ]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    marks = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
    return rf"[\w{marks}]"
