import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class RequestLanguages:
    """Ids that `generate` adds to sources and results for their languages.

    Args:
        source_start: Tuple of ids between the start token and the text.
        source_end: Tuple of ids after the end token.
        target_start: Tuple of ids at the beginning of the results.
    """

    source_start: tuple[int, ...] = ()
    source_end: tuple[int, ...] = ()
    target_start: tuple[int, ...] = ()

    @property
    def num_source_ids(self) -> int:
        """Number of ids that are added to a source."""
        return len(self.source_start) + len(self.source_end)

    def add_to(self, ids: Sequence[int], num_start: int) -> list[int]:
        """Adds the language ids to a source's ids.

        Args:
            ids: Ids with start and end token. An empty source stays empty.
            num_start: Int, number of start tokens.
        """
        if not ids:
            return []
        return [*ids[:num_start], *self.source_start, *ids[num_start:], *self.source_end]


def request_languages(
    source_tokenizer: object,
    target_tokenizer: object,
    source_language: str | None,
    target_language: str | None,
    is_text: bool,
) -> RequestLanguages:
    """Returns the ids that the languages add to sources and results.

    Args:
        source_tokenizer: Tokenizer with `languages`, a dict from names to objects with the
            attributes of `keras_attn.text.Language`, or a tokenizer without languages, or `None`.
        target_tokenizer: Target tokenizer, with the same valid types.
        source_language: String, or `None`.
        target_language: String, or `None`.
        is_text: Bool, whether the sources are texts. Sources that are ids must already include the
            language ids.

    Raises:
        ValueError: If a language is unknown, a required language is missing, or a language is
            passed with sources that are ids.
    """
    names = {"source_language": source_language, "target_language": target_language}
    if not is_text:
        for name, value in names.items():
            if value is not None:
                raise ValueError(
                    f"Expected texts with {name}. Received: {name}={value!r} and sources that are "
                    "not texts. Pass ids that include the ids of the languages, and target_prefix."
                )
        return RequestLanguages()
    first = _find("source_language", source_language, source_tokenizer)
    second = _find("target_language", target_language, target_tokenizer)
    return RequestLanguages(
        (*getattr(second, "source_tag", ()), *getattr(first, "source_start", ())),
        tuple(getattr(first, "source_end", ())),
        tuple(getattr(second, "target_start", ())),
    )


def _find(argument: str, name: str | None, tokenizer: object) -> object:
    """Returns the `Language` with a name, or `None` if the tokenizer has no languages."""
    languages = getattr(tokenizer, "languages", None) or {}
    if name is None and len(languages) <= 1:
        return next(iter(languages.values()), None)
    if name not in languages:
        names = ", ".join(sorted(languages)) or "none"
        raise ValueError(
            f"Expected {argument} to be a language of the tokenizer: {names}. Received: "
            f"{argument}={name!r}. Pass one of these languages."
        )
    return languages[name]
