"""Tokenizers in a run directory, and their descriptions in `run.json`."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

# `import keras_attn` must not load keras_attn.text, so the functions import it.
if TYPE_CHECKING:
    from keras_attn.text._hugging_face_tokenizer import HuggingFaceTokenizer
    from keras_attn.text._sentencepiece_tokenizer import SentencePieceTokenizer

    RunTokenizer: TypeAlias = SentencePieceTokenizer | HuggingFaceTokenizer

IDS = ("pad_token_id", "start_token_id", "end_token_id")
SIZE, LANGUAGES = "vocabulary_size", "languages"
OPTIONS = ("parse_special_tokens", "added_tokens", "space_token_id", "clean_up_spaces")
"""Arguments of tokenizers that `keras_attn.text._tokenizer.tokenizer_options` returns."""


def describe_tokenizer(tokenizer: "RunTokenizer", file: str) -> dict[str, object]:
    """Returns the description of a tokenizer, which is saved in a file of the run directory."""
    from keras_attn.text._tokenizer import tokenizer_options

    description: dict[str, object] = {"tokenizer": tokenizer.format, "file": file}
    description |= {name: getattr(tokenizer, name) for name in IDS}
    if tokenizer.has_extra_pieces:
        description[SIZE] = tokenizer.vocabulary_size
    if tokenizer.languages:
        languages = tokenizer.languages.items()
        description[LANGUAGES] = {name: language.entries() for name, language in languages}
    return {**description, **tokenizer_options(tokenizer)}


@dataclasses.dataclass(frozen=True)
class TokenizerFile:
    """A saved tokenizer.

    Args:
        name: String, the file name.
        format: String, `"sentencepiece"` or `"tokenizers"`.
        languages: Dict from names to the arguments of `Language`.
        arguments: Dict, the other arguments of the tokenizer.
    """

    name: str
    format: str
    languages: Mapping[str, Mapping[str, Any]]
    arguments: Mapping[str, Any]

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self | None:
        """Reads a description from `run.json`. Without a tokenizer, the result is `None`."""
        kind = description.get("tokenizer", "none")
        if kind == "none":
            return None
        if kind not in ("sentencepiece", "tokenizers"):
            raise ValueError(
                "Expected tokenizer to be one of ('sentencepiece', 'tokenizers', 'none'). "
                f"Received: tokenizer={kind!r}."
            )
        name = description["file"]
        if not isinstance(name, str):
            raise TypeError(f"Expected a string. Received: {name!r}.")
        ids = (*IDS, SIZE) if SIZE in description else IDS
        arguments = {name: int(description[name]) for name in ids}
        arguments |= {name: description[name] for name in OPTIONS if name in description}
        if kind == "tokenizers":  # earlier versions always parsed special tokens
            arguments.setdefault("parse_special_tokens", True)
        return cls(name, kind, description.get(LANGUAGES, {}), arguments)

    def load(self, directory: Path) -> "RunTokenizer":
        """Loads the tokenizer from the run directory."""
        from keras_attn.text._added_tokens import AddedToken
        from keras_attn.text._hugging_face_tokenizer import HuggingFaceTokenizer
        from keras_attn.text._language import Language
        from keras_attn.text._sentencepiece_tokenizer import SentencePieceTokenizer

        arguments = dict(self.arguments)
        if "added_tokens" in arguments:
            arguments["added_tokens"] = [AddedToken(**token) for token in arguments["added_tokens"]]
        arguments[LANGUAGES] = {
            name: Language(**language) for name, language in self.languages.items()
        }
        formats = {"sentencepiece": SentencePieceTokenizer, "tokenizers": HuggingFaceTokenizer}
        return formats[self.format].load(directory / self.name, **arguments)
