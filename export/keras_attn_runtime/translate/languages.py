"""Languages of a multilingual model: the ids that select them, and their choice in a call."""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from keras_attn_runtime.file_format.side import Language, Side
from keras_attn_runtime.inputs.source import Source

NO_LANGUAGE = Language([], [], [], [])


@dataclass(frozen=True)
class LanguageIds:
    """The ids that a pair of languages adds to a source and to the prefix of its translation.

    Attributes:
        num_start: int, number of start tokens of a source, before which no id is inserted.
        source_start: list of ids that are inserted after the start tokens of a source.
        source_end: list of ids that are appended to a source.
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
            source: `Side` of the source, or `None`.
            target: `Side` of the target.
            source_language: string, or `None` for the default of the file.
            target_language: string, or `None` for the default of the file.

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
        for each in sources:
            if each.ids:
                first, rest = each.ids[:number], each.ids[number:]
                each = dataclasses.replace(
                    each,
                    ids=[*first, *self.source_start, *rest, *self.source_end],
                    prefix=[*self.target_start, *each.prefix],
                )
            yield each


def _language(argument: str, name: str | None, side: Side | None) -> Language:
    languages = {} if side is None else side.languages
    if name is None and (not languages or side is None):
        return NO_LANGUAGE
    if name is None and side is not None:
        name = side.language if side.language in languages else None
        name = next(iter(languages)) if len(languages) == 1 else name
    if name not in languages:
        known = ", ".join(sorted(languages)) or "none, because the model has one pair of languages"
        raise ValueError(
            f"Expected {argument} to be a language of the file: {known}. Received: "
            f"{argument}={name!r}."
        )
    return languages[name]
