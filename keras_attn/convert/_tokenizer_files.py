"""Tokenizer files: class, special tokens, and tokens added by users."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from keras_attn.convert._checkpoint import Checkpoint
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._tokenizer_classes import (
    TOKENIZER_CLASSES,
    TokenizerClass,
    find_tokenizer_class,
)

TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_JSON = "tokenizer.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"
NAMES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
"""Names of special tokens. Further names end with `_token`, too."""

FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


@dataclasses.dataclass(frozen=True)
class Token:
    """A token that is found in texts, with the `AddedToken` arguments in `tokenizers`.

    Args:
        content: String, the token.
        single_word, lstrip, rstrip, normalized, special: Bools.
        id: Int, the id in the files, or `None`.
        is_default: Bool, whether only the class names the token, not the files.
    """

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = True
    id: int | None = None
    is_default: bool = False

    @classmethod
    def read(cls, value: Any, file: str = TOKENIZER_CONFIG, **changed: Any) -> "Token":
        """Returns the token in a JSON file: a string, or `AddedToken` arguments."""
        entries = value if isinstance(value, Mapping) else {"content": value}
        special = bool(entries.get("special", changed.get("special", False)))
        values = {"special": special, "normalized": not special}
        values |= {name: bool(entries[name]) for name in FLAGS if name in entries}
        content = entries.get("content")
        if not isinstance(content, str) or not content:
            raise ConversionError(
                f"Expected tokens in {file} that are strings of at least one character. Received: "
                f"{value!r}. Copy the file again."
            )
        return cls(content, **{**values, **changed})


class TokenizerFiles:
    """Tokenizer files, read as in transformers 5.24.

    Args:
        checkpoint: `Checkpoint`.

    Attributes:
        own_config: Dict, `tokenizer_config.json`.
        config: Dict, `tokenizer_config.json`, with the names and tokens in
            `special_tokens_map.json` if `added_tokens_decoder` is missing.
        json: Dict, `tokenizer.json`, or `None`.
        class_name: String, class name.
        tokenizer_class: `TokenizerClass`. The class for unchanged files if the name is unknown.
        is_legacy: Bool, whether `special_tokens_map.json` and `added_tokens.json` are used.
        named: Dict from names such as `"eos_token"` to `Token`s.
        tokens: List, all `Token`s that are found in texts, in the order of addition.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.own_config = checkpoint.read_json(TOKENIZER_CONFIG) or {}
        self.config = dict(self.own_config)
        self.json = checkpoint.read_json(TOKENIZER_JSON)
        self.class_name = find_tokenizer_class(checkpoint.config, self.config, self.json)
        self.tokenizer_class: TokenizerClass = TOKENIZER_CLASSES.get(
            self.class_name, TOKENIZER_CLASSES["TokenizersBackend"]
        )
        self.is_legacy = "added_tokens_decoder" not in self.config
        if self.is_legacy:
            self.config |= checkpoint.read_json(SPECIAL_TOKENS_MAP) or {}
        extra = self.config.get("extra_special_tokens") or {}
        if isinstance(extra, Mapping):
            self.config |= extra
            extra = []
        extra = extra or self.config.get("additional_special_tokens")
        self._extra = self.tokenizer_class.extra(self.config) if extra is None else extra
        self._extra_is_default = extra is None
        self._added = sorted(self._read_added(checkpoint), key=lambda token: token.id or 0)
        self.named = dict(self._read_named())
        self.tokens = self._merge()

    def content(self, name: str) -> str | None:
        """Returns a special token by its name, such as `"eos_token"`, or `None`."""
        token = self.named.get(name)
        return None if token is None else token.content

    def _read_added(self, checkpoint) -> Iterator[Token]:
        """Yields the tokens with ids."""
        for id_, token in (self.config.get("added_tokens_decoder") or {}).items():
            yield Token.read(token, id=int(id_))
        if not self.is_legacy:
            return
        tokens: dict[str, Token] = {}
        names = {_content(self.config.get(name)) for name in NAMES}
        names |= {_content(token) for token in self._extra}
        for content, id_ in (checkpoint.read_json(ADDED_TOKENS) or {}).items():
            special = content in names
            tokens[content] = Token.read(content, ADDED_TOKENS, special=special, id=id_)
        for token in (self.json or {}).get("added_tokens", []):
            tokens[token.get("content")] = Token.read(token, TOKENIZER_JSON, id=token.get("id"))
        yield from tokens.values()

    def _read_named(self) -> Iterator[tuple[str, Token]]:
        added = {token.content: token for token in self._added}
        defaults = self.tokenizer_class.tokens
        further = [
            name
            for name, value in [*defaults.items(), *self.config.items()]
            if name not in NAMES and is_named_token(name, value)
        ]
        further += [name for name in defaults if name not in (*NAMES, *further)]
        for name in (*NAMES, *dict.fromkeys(further)):
            value = self.config.get(name, defaults.get(name))
            if value is None:
                continue
            default = defaults.get(name)
            if isinstance(value, str) and isinstance(default, Mapping):
                value = {**default, "content": value}
            token = Token.read(value, special=True, is_default=name not in self.config)
            yield name, added.get(token.content, token)

    def _merge(self):
        """Returns all tokens, first those with ids, without repetitions."""
        named = {token.content for token in self.named.values()}
        extra = [
            Token.read(token, special=True, is_default=self._extra_is_default)
            for token in self._extra or []
        ]
        tokens: dict[str, Token] = {}
        for token in [*self._added, *self.named.values(), *extra]:
            tokens.setdefault(token.content, token)
        return [
            dataclasses.replace(token, special=True) if token.content in named else token
            for token in tokens.values()
        ]


def is_named_token(name: str, value: Any) -> bool:
    """Returns whether an entry of `tokenizer_config.json` is a special token with a name."""
    return name.endswith("_token") and isinstance(_content(value), str)


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, Mapping) else token
