"""Opens the tokenizer that a file contains."""

from collections.abc import Mapping
from typing import Literal

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format import Side, tokenizer_of
from keras_attn_runtime._text.json_tokenizer import JsonTokenizer
from keras_attn_runtime._text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attn_runtime._text.tokenizer import Tokenizer


def open_tokenizer(
    metadata: Mapping[str, str], name: Literal["source", "target"], side: Side | None
) -> Tokenizer | None:
    """Returns the tokenizer of the source or the target, or `None` if the file has none.

    Args:
        metadata: dict of strings.
        name: "source" or "target".
        side: `Side` with this name, or `None`.

    Raises:
        ImportError: if the package that the tokenizer needs is not installed.
        ModelFileError: if the tokenizer is damaged, or larger than the model's vocabulary.
    """
    if side is None or not side.has_tokenizer:
        return None
    tokenizer: Tokenizer
    if side.tokenizer == "tokenizers":
        tokenizer = JsonTokenizer(tokenizer_of(metadata, name), side)
    else:
        tokenizer = SentencePieceTokenizer(tokenizer_of(metadata, name), side)
    if tokenizer.vocabulary_size > side.vocabulary_size:
        raise ModelFileError(
            f"Expected a {name} tokenizer of at most {side.vocabulary_size} pieces, the size of "
            f"the model's vocabulary. Received: vocabulary_size={tokenizer.vocabulary_size}. "
            "Export the model again."
        )
    return tokenizer
