"""Languages in a multilingual model: the ids that select them, and their choice in a call."""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from keras_attn_runtime._file_format.vocabulary_side import Language, Side
from keras_attn_runtime._inputs.source import Source
from keras_attn_runtime._text.source_words import SourceWord

NO_LANGUAGE = Language([], [], [], [])


@dataclass(frozen=True)
class LanguageIds:
    """Ids that a pair of languages adds to a source and to its translation's prefix.

    Attributes:
        num_start: int, number of start tokens in a source, before which no id is inserted.
        source_start: list of ids inserted after a source's start tokens.
        source_end: list of ids appended to a source.
        target_start: list of ids with which a translation begins.
    """

    num_start: int
    source_start: list[int]
    source_end: list[int]
    target_start: list[int]

    @classmethod
    def of(
        cls,
        source: Side | None,
        target: Side,
        source_language: str | None,
        target_language: str | None,
    ) -> "LanguageIds":
        """Returns the ids for a pair of languages.

        Args:
            source: `Side`, the source, or `None`.
            target: `Side`, the target.
            source_language: string, or `None` for the file's default.
            target_language: string, or `None` for the file's default.

        Raises:
            ValueError: if a language is unknown, or required and missing.
        """
        first = _language("source_language", source_language, source)
        second = _language("target_language", target_language, target)
        return cls(
            num_start=0 if source is None else len(source.start),
            source_start=[*second.source_tag, *first.source_start],
            source_end=first.source_end,
            target_start=second.target_start,
        )

    def add_to(self, sources: Iterable[Source]) -> Iterator[Source]:
        """Yields copies of the sources with these ids; sources without ids stay empty."""
        number = self.num_start
        for source in sources:
            if source.ids:
                first, rest = source.ids[:number], source.ids[number:]
                source = dataclasses.replace(
                    source,
                    ids=[*first, *self.source_start, *rest, *self.source_end],
                    prefix=[*self.target_start, *source.prefix],
                    words=self._with_language_positions(source.words),
                )
            yield source

    def _with_language_positions(
        self, words: tuple[SourceWord | None, ...]
    ) -> tuple[SourceWord | None, ...]:
        first, rest = words[: self.num_start], words[self.num_start :]
        return (*first, *[None] * len(self.source_start), *rest)


def _language(argument: str, name: str | None, side: Side | None) -> Language:
    languages = {} if side is None else side.languages
    if name is None and (not languages or side is None):
        return NO_LANGUAGE
    if name is None and side is not None:
        name = side.language if side.language in languages else None
        name = next(iter(languages)) if len(languages) == 1 else name
    if name not in languages:
        names = ", ".join(sorted(languages)) or "none, because the model has one pair of languages"
        raise ValueError(
            f"Expected {argument} to be a language of the file: {names}. Received: "
            f"{argument}={name!r}."
        )
    return languages[name]
