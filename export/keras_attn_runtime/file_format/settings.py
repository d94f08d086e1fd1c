"""The settings of files of the kind "generation", which contain a search."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.file_format.inputs import Input, read_input
from keras_attn_runtime.file_format.metadata_entries import KIND, SERIES, read_entries
from keras_attn_runtime.file_format.settings_reader import SettingsReader
from keras_attn_runtime.text.added_tokens import AddedToken
from keras_attn_runtime.translate.languages import Language


@dataclass(frozen=True)
class Side:
    """The vocabulary of the source or of the target of a model.

    Attributes:
        vocabulary_size: int, number of ids of the model.
        pad_token_id: int, id that pads short rows on the right.
        start_token_id, end_token_id: ints, or `None` if the vocabulary has no such token.
        add_start, add_end: bools, whether the start token is put before, and the end token after,
            the ids of a text.
        max_length: int, maximum number of ids of a text, start and end token not counted. A model
            with learned positions has such a limit. `None` for no limit.
        tokenizer: string, the format of the tokenizer in the file: "sentencepiece", "tokenizers" (a
            `tokenizer.json` of Hugging Face), or "none".
        language: string, a BCP 47 tag, or `None`.
        tokenizer_vocabulary_size: int, for a tokenizer with more pieces than the model: the number
            of pieces that the model reads. Ids from this number on are replaced by the unknown id.
            `None` if the model reads all pieces.
        masks_only_trailing_padding: bool, whether the model of a source masks only the padding on
            the right. If True, a text may contain the padding id, and the id -1 ends a row whose
            last token is the padding id.
        is_prompt: bool, whether the sources are prompts of a language model, which may end with any
            token, also with the padding id.
        languages: dict from names to `Language`s, for a model with several languages on this side.
        parse_special_tokens: bool, whether special tokens that are typed in a text, such as "</s>",
            become their ids.
        added_tokens: tuple of `AddedToken`s that a "sentencepiece" tokenizer finds in texts.
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
    def start(self) -> list[int]:
        """List of the ids to put before the ids of a text: the start token, or empty."""
        return [] if self.start_token_id is None or not self.add_start else [self.start_token_id]

    @property
    def end(self) -> list[int]:
        """List of the ids to put after the ids of a text: the end token, or empty."""
        return [] if self.end_token_id is None or not self.add_end else [self.end_token_id]

    def needs_end_of_row(self, ids: Sequence[int]) -> bool:
        """Returns whether the last token of a source would be masked as padding."""
        if not self.masks_only_trailing_padding or self.end == [self.pad_token_id]:
            return False  # a model that pads with its end token was trained with masked end tokens
        return len(ids) > 0 and ids[-1] == self.pad_token_id


@dataclass(frozen=True)
class Settings:
    """The metadata of an exported file.

    Attributes:
        format: int, the format of the file.
        inputs: dict from the name of each input of the encoder to its `Input`.
        source: `Side`, or `None` for a model whose inputs are not ids.
        target: `Side`.
        search: dict, the settings of the search. Its entries include the following four attributes,
            "class", and "inputs", the list of the inputs of the file that belong to the search.
        beam_width: int, number of open hypotheses of the search.
        num_hypotheses: int, number of hypotheses that the file returns for a sentence.
        max_length: int, default limit of output tokens, including the end token.
        length_penalty: float, default exponent of the length penalty.
        versions: dict, versions of the libraries that wrote the file.
        card: dict, information about the model: "license", "data", "recipe", "parity".
    """

    format: int
    inputs: dict[str, Input]
    source: Side | None
    target: Side
    search: dict[str, Any]
    beam_width: int
    num_hypotheses: int
    max_length: int
    length_penalty: float
    versions: dict[str, Any] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)

    @property
    def search_inputs(self) -> list[str]:
        """List of the names of the inputs that belong to the search."""
        return self.search["inputs"]

    @property
    def forced_prefix_ids(self) -> list[int]:
        """List of the ids with which every hypothesis begins, before any prefix of a call."""
        return self.search.get("forced_prefix_ids", [])

    @property
    def scores_prefix(self) -> bool:
        """bool, whether the log probabilities of a prefix are part of the score."""
        return self.search.get("score_prefix", True)

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[str, str], input_names: Iterable[str] = ()
    ) -> "Settings":
        """Reads the metadata of a file.

        Args:
            metadata: dict of strings, the `metadata_props` of an ONNX file.
            input_names: names of the inputs of the file, for metadata of format 1, which do not
                contain the names.

        Returns:
            `Settings`.

        Raises:
            ModelFileError: if the metadata is missing, of an unknown format, or malformed.
        """
        return _settings(*read_entries(metadata, input_names))


def _settings(number: int, entries: dict[str, Any], card: dict[str, Any]) -> Settings:
    """Converts a dict of format 2 to `Settings`; ignores unknown keys."""
    root = SettingsReader("", entries)
    kind = root.get("kind", str)
    if kind != KIND:
        advice = "a Forecaster" if kind == SERIES else "ONNX Runtime directly"
        raise ModelFileError(
            f"Expected a file of the kind {KIND!r}, with a search inside. Received: kind={kind!r}. "
            f"Run it with {advice}."
        )
    inputs = root.part("inputs")
    search = root.part("search")
    names = search.get("inputs", list)
    if not all(isinstance(name, str) for name in names):
        search.refuse("inputs", "that is a list of strings")
    has_source = root.get("source", (dict, type(None)), None) is not None
    return Settings(
        format=number,
        inputs={name: read_input(inputs.part(name)) for name in inputs.entries},
        source=_side(root.part("source"), number) if has_source else None,
        target=_side(root.part("target"), number),
        search=search.entries,
        beam_width=search.integer("beam_width", least=1),
        num_hypotheses=search.integer("num_hypotheses", least=1),
        max_length=search.integer("max_length", least=0),
        length_penalty=search.number("length_penalty"),
        versions=root.get("versions", dict, {}),
        card=card,
    )


def _side(reader: SettingsReader, number: int) -> Side:
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
        _added_token(each, size) for each in reader.parts("added_tokens")
    )
    for part in ("start", "end"):
        if values[f"add_{part}"] and f"{part}_token_id" not in values:
            reader.refuse(f"{part}_token_id", f"that is an id, because of add_{part}")
    return Side(**values)


def _language(reader: SettingsReader) -> Language:
    return Language(**{each.name: reader.ids(each.name) for each in fields(Language)})


def _added_token(reader: SettingsReader, size: int) -> AddedToken:
    flags = {
        name: reader.get(name, bool, False)
        for name in ("special", "lstrip", "rstrip", "single_word")
    }
    return AddedToken(reader.get("content", str), reader.integer("id", 0, size - 1), **flags)
