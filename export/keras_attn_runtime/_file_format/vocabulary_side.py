"""Model vocabularies: special ids, added tokens and languages."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from keras_attn_runtime._file_format.settings_reader import SettingsReader


@dataclass(frozen=True)
class AddedToken:
    """A string that is one id wherever a text contains it.

    Attributes:
        content: string, the token.
        id: int, its id.
        special: bool, whether the token is removed when ids are decoded.
        lstrip, rstrip: bools, whether the token includes white space before and after it.
        single_word: bool, whether the token is only found as a whole word.
    """

    content: str
    id: int
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


@dataclass(frozen=True)
class Language:
    """Ids that select a language.

    Attributes:
        source_start: list of ids inserted before a text in this language, after the start token.
        source_end: list of ids appended to a text in this language, after the end token.
        target_start: list of ids with which a translation into this language begins.
        source_tag: list of ids inserted before a text to translate into this language.
    """

    source_start: list[int]
    source_end: list[int]
    target_start: list[int]
    source_tag: list[int]


@dataclass(frozen=True)
class Side:
    """A model's source or target vocabulary.

    Attributes:
        vocabulary_size: int, number of ids in the model.
        pad_token_id: int, id that pads short rows on the right.
        start_token_id, end_token_id: ints, or `None` without such a token.
        add_start, add_end: bools, whether the start token is put before, and the end token after, a
            text's ids.
        max_length: int, maximum number of ids in a text, without start and end token. Models with
            learned positions have such a limit. `None` for no limit.
        tokenizer: string, tokenizer format in the file: "sentencepiece", "tokenizers" (a Hugging
            Face `tokenizer.json`), or "none".
        language: string, a BCP 47 tag, or `None`.
        tokenizer_vocabulary_size: int, number of pieces that the model reads if the tokenizer
            contains more. Ids from this number on are replaced by the unknown id. `None` if the
            model reads all pieces.
        masks_only_trailing_padding: bool, whether a model masks only padding on the right of
            sources. If True, a text may contain the padding id, and the id -1 ends a row whose last
            token is the padding id.
        is_prompt: bool, whether the sources are language model prompts, which may end with any
            token, even with the padding id.
        languages: dict from names to `Language`s, for a model with several languages on this side.
        parse_special_tokens: bool, whether special tokens typed in a text, such as "</s>", become
            their ids.
        added_tokens: tuple, the `AddedToken`s that a "sentencepiece" tokenizer finds in texts.
        space_token_id: int, id between white space and an added token after it, or `None`.
        clean_up_spaces: bool, whether a "sentencepiece" tokenizer removes spaces before punctuation
            when it decodes.
    """

    vocabulary_size: int
    pad_token_id: int
    start_token_id: int | None = None
    end_token_id: int | None = None
    add_start: bool = False
    add_end: bool = False
    max_length: int | None = None
    tokenizer: str = "none"
    language: str | None = None
    tokenizer_vocabulary_size: int | None = None
    masks_only_trailing_padding: bool = False
    is_prompt: bool = False
    languages: dict[str, Language] = field(default_factory=dict)
    parse_special_tokens: bool = False
    added_tokens: tuple[AddedToken, ...] = ()
    space_token_id: int | None = None
    clean_up_spaces: bool = False

    @property
    def has_tokenizer(self) -> bool:
        """bool, `True` if the file contains a tokenizer in a known format."""
        return self.tokenizer in ("sentencepiece", "tokenizers")

    @property
    def start(self) -> list[int]:
        """List of ids to put before a text's ids: the start token, or empty."""
        return [] if self.start_token_id is None or not self.add_start else [self.start_token_id]

    @property
    def end(self) -> list[int]:
        """List of ids to put after a text's ids: the end token, or empty."""
        return [] if self.end_token_id is None or not self.add_end else [self.end_token_id]

    def needs_end_of_row(self, ids: Sequence[int]) -> bool:
        """Returns whether the last token of a source would be masked as padding."""
        if not self.masks_only_trailing_padding or self.end == [self.pad_token_id]:
            return False  # a model that pads with its end token was trained with masked end tokens
        return len(ids) > 0 and ids[-1] == self.pad_token_id


def read_side(reader: SettingsReader, number: int) -> Side:
    size = reader.integer("vocabulary_size", least=1)
    optional = (int, type(None))
    values: dict[str, Any] = {
        "vocabulary_size": size,
        "pad_token_id": reader.integer("pad_token_id", 0, size - 1),
    }
    for name in ("start_token_id", "end_token_id"):
        if reader.get(name, optional, None) is not None:
            values[name] = reader.integer(name, 0, size - 1)
    if reader.get("max_length", optional, None) is not None:
        values["max_length"] = reader.integer("max_length", least=1)
    name = "tokenizer_vocabulary_size"
    if reader.get(name, optional, None) is not None:
        values[name] = reader.integer(name, 1, size)
    if reader.get("space_token_id", optional, None) is not None:
        values["space_token_id"] = reader.integer("space_token_id", 0, size - 1)
    values["clean_up_spaces"] = reader.get("clean_up_spaces", bool, False)
    for name in ("add_start", "add_end", "masks_only_trailing_padding", "is_prompt"):
        values[name] = reader.get(name, bool, False)
    values["tokenizer"] = reader.get("tokenizer", str, "none")
    values["language"] = reader.get("language", (str, type(None)), None)
    languages = reader.part("languages") if "languages" in reader.entries else None
    if languages is not None:
        values["languages"] = {name: _language(languages.part(name)) for name in languages.entries}
    # Before format 3, a `tokenizer.json` found all special tokens in texts.
    is_old = number < 3 and values["tokenizer"] == "tokenizers"
    values["parse_special_tokens"] = reader.get("parse_special_tokens", bool, is_old)
    values["added_tokens"] = tuple(
        _added_token(part, size) for part in reader.parts("added_tokens")
    )
    for part in ("start", "end"):
        if values[f"add_{part}"] and f"{part}_token_id" not in values:
            reader.refuse(f"{part}_token_id", f"that is an id, because of add_{part}")
    return Side(**values)


def _language(reader: SettingsReader) -> Language:
    return Language(**{entry.name: reader.ids(entry.name) for entry in fields(Language)})


def _added_token(reader: SettingsReader, size: int) -> AddedToken:
    flags = {
        name: reader.get(name, bool, False)
        for name in ("special", "lstrip", "rstrip", "single_word")
    }
    return AddedToken(reader.get("content", str), reader.integer("id", 0, size - 1), **flags)
