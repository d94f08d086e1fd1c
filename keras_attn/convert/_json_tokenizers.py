"""The `tokenizer.json` that transformers builds from tokenizer files."""

import dataclasses
import importlib
import json
from collections.abc import Sequence
from typing import Any

from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._tokenizer_files import FLAGS, Token, TokenizerFiles
from keras_attn.text._added_tokens import CLEANED

PROBES = ("a", "0", "the", "é")
"""Texts that show which tokens a tokenizer adds around them."""


@dataclasses.dataclass(frozen=True)
class JsonTokenizer:
    """A `tokenizer.json` and the tokens around a text.

    Args:
        model: Bytes, `tokenizer.json`.
        ids: Dict from tokens found in texts to their ids.
        start: Tuple, ids before a text.
        end: Tuple, ids after a text.
    """

    model: bytes
    ids: dict[str, int]
    start: tuple[int, ...]
    end: tuple[int, ...]


def build_json_tokenizer(files: TokenizerFiles, size: int) -> JsonTokenizer:
    """Returns the tokenizer for a folder with `tokenizer.json`, as in transformers 5.24.

    The class in `tokenizer_config.json` replaces parts of `tokenizer.json`, such as the BERT
    normalizer. All special tokens that the files and the class name are added.

    Args:
        files: `TokenizerFiles` with `json`.
        size: Int, number of ids in the model.

    Raises:
        ConversionError: If the file is not a tokenizer, or belongs to a different class.
        ImportError: If the package `tokenizers` is not installed.
    """
    library = _import_tokenizers()
    content = dict(files.json or {})
    try:
        content |= _parts(files, content)
        tokenizer = library.Tokenizer.from_str(json.dumps(content))
    except (ConversionError, ImportError):
        raise
    except Exception as error:  # `tokenizers` raises plain exceptions
        raise ConversionError(
            f"Expected the content of a tokenizer.json of the class {files.class_name}. Received: "
            f"{error!r}. Copy the file again, or correct "
            "tokenizer_class."
        ) from error
    tokens = files.tokens
    if any(token.is_default for token in tokens):
        # The class names tokens that the model may not have, such as <mask>.
        vocabulary = tokenizer.get_vocab()
        free = size - max(vocabulary.values(), default=-1) - 1
        new = [token for token in tokens if token.content not in vocabulary]
        if len(new) > free:
            tokens = [token for token in tokens if token not in new or not token.is_default]
    _add_tokens(tokenizer, tokens, library)
    if files.tokenizer_class.around is not None:
        tokenizer.post_processor = _template(files, tokenizer, library)
    _clean_up(tokenizer, files, library)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    start, end = _around(tokenizer)
    added = tokenizer.get_added_tokens_decoder()
    ids = {token.content: id_ for id_, token in added.items()}
    return JsonTokenizer(tokenizer.to_str().encode(), ids, start, end)


def _parts(files, content):
    """Returns the file parts that its class replaces."""
    if not isinstance(content.get("model"), dict) or "vocab" not in content["model"]:
        raise ConversionError(
            "Expected the content of a tokenizer.json, with a model and its vocabulary. Received: "
            f"keys={sorted(content)}. Copy the file again."
        )
    names = {name: token.content for name, token in files.named.items()}
    parts = files.tokenizer_class.parts(content, files.config, names)
    return {**parts, "added_tokens": []} if parts else {}


def _add_tokens(tokenizer: Any, tokens: Sequence[Token], library: Any) -> None:
    present = {repr(token) for token in tokenizer.get_added_tokens_decoder().values()}
    new = []
    for token in tokens:
        flags = {name: getattr(token, name) for name in FLAGS}
        added = library.AddedToken(token.content, **flags)
        if repr(added) not in present:
            new.append(added)
    tokenizer.add_tokens(new)


def _template(files, tokenizer, library):
    """Returns the post-processor that adds the class's special tokens."""
    before, after = (
        [files.named[name].content for name in names if name in files.named]
        for names in files.tokenizer_class.around
    )
    special = [(token, tokenizer.token_to_id(token)) for token in dict.fromkeys(before + after)]
    # A colon in a token would be read as its segment type.
    pieces = [*before, "$A", *after]
    return library.processors.TemplateProcessing(single=pieces, special_tokens=special)


def _clean_up(tokenizer, files, library):
    """Adds the replacements for `clean_up_tokenization_spaces` to the decoder."""
    decoders = library.decoders
    is_bpe = isinstance(tokenizer.model, library.models.BPE)
    forced = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
    if not files.config.get("clean_up_tokenization_spaces"):
        return
    if is_bpe and not files.config.get(forced):
        return
    replaced = [decoders.Replace(*pair) for pair in CLEANED]
    first = [] if tokenizer.decoder is None else [tokenizer.decoder]
    tokenizer.decoder = decoders.Sequence([*first, decoders.Fuse(), *replaced])


def _around(tokenizer):
    """Returns tuples with the ids before and after a text."""
    encoded = {text: tokenizer.encode(text).ids for text in PROBES}
    for text, whole in encoded.items():
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        for first in range(len(whole) - len(ids) + 1):
            if ids and whole[first : first + len(ids)] == ids:
                return tuple(whole[:first]), tuple(whole[first + len(ids) :])
    raise ConversionError(
        f"Expected a tokenizer that encodes one of the texts {PROBES}. Received: ids={encoded}. "
        "The tokenizer cannot be converted."
    )


def _import_tokenizers() -> Any:
    try:
        return importlib.import_module("tokenizers")
    except ImportError as error:
        raise ImportError(
            "Expected the package tokenizers for tokenizer.json: `pip install "
            "'.[tokenizers]'` in a checkout."
        ) from error
