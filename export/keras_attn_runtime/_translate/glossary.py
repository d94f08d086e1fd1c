"""Terminology: how to translate given terms."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class GlossaryEntry:
    """A term and its translations.

    Attributes:
        term: string, words of the source language.
        translations: tuple of strings, of which one must occur in a translation.
    """

    term: str
    translations: tuple[str, ...]


class Glossary:
    """Terms whose translation is required, for the argument `constraints` of a `Translator`.

    An entry applies to a text that contains its term as whole words. A term with a capital letter
    matches only words of this case, a term without one matches any case. Where several terms begin
    at the same word, the longest one applies. A term that occurs several times is required once.

    Args:
        entries: iterable of `GlossaryEntry`.

    Raises:
        ValueError: if a term is given twice, or a term or a translation is empty.

    Example:

        glossary = Glossary.read("terms.tsv")
        constraints = [glossary.phrases(text) for text in texts]
        translator.translate(texts, constraints=constraints)
    """

    def __init__(self, entries: Iterable[GlossaryEntry]) -> None:
        self._entries: dict[str, GlossaryEntry] = {}
        for entry in entries:
            if not entry.term.strip() or not all(map(str.strip, entry.translations or ("",))):
                raise ValueError(
                    "Expected entries with a term and translations that are not empty. Received: "
                    f"{entry}."
                )
            key = _words(entry.term)
            if key in self._entries:
                raise ValueError(
                    f"Expected each term once. Received: {entry.term!r} twice. Put all "
                    "translations of a term in one entry."
                )
            self._entries[key] = entry
        longest_first = sorted(self._entries, key=len, reverse=True)
        patterns = [_pattern(term) for term in longest_first]
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
            text = Path(path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"Expected a glossary in UTF-8. Received: {os.fspath(path)!r} ({error.reason})."
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
                f"{shown}."
            )
        return cls(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, text: str) -> list[GlossaryEntry]:
        """Returns the entries whose terms a text contains, in the order of the text.

        Args:
            text: string.
        """
        if self._terms is None:
            return []
        found = (self._entry(match[0]) for match in self._terms.finditer(text))
        return [*dict.fromkeys(found)]

    def phrases(self, text: str) -> list[list[str]]:
        """Returns the phrases that the translation of a text must contain.

        Args:
            text: string.

        Returns:
            List with an item for each term in the text: the list of its translations.
        """
        return [[*entry.translations] for entry in self.find(text)]

    def _entry(self, words: str) -> GlossaryEntry:
        words = " ".join(words.split())
        return self._entries.get(words) or self._entries[words.lower()]


def _words(term: str) -> str:
    return " ".join(term.split())


def _pattern(term: str) -> str:
    """Returns a regular expression for a term as whole words."""
    words = r"\s+".join(map(re.escape, term.split()))
    if term == term.lower():
        words = f"(?i:{words})"
    begin = r"(?<!\w)" if re.match(r"\w", term) else ""
    end = r"(?!\w)" if re.search(r"\w$", term) else ""
    return f"{begin}{words}{end}"
