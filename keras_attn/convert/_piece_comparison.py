"""Compares a `tokenizer.json` with the SentencePiece model beside it."""

from collections.abc import Mapping
from typing import Any

from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._tokenizer_files import TOKENIZER_JSON, TokenizerFiles

PYTHON_CLASSES = ("M2M100Tokenizer", "MarianTokenizer")
"""Classes in transformers that do not read `tokenizer.json`."""


def check_same_pieces(files: TokenizerFiles, vocabulary: Mapping[str, int], name: str) -> None:
    """Checks that `tokenizer.json`, which transformers reads, contains the model's pieces.

    Special tokens and added tokens are not compared, because one of the files can lack them.

    Args:
        files: `TokenizerFiles`.
        vocabulary: Dict from the SentencePiece model's pieces to their ids.
        name: String, the SentencePiece model's file.

    Raises:
        ConversionError: If a piece has different ids in the two files, or is in one of them only.
    """
    content = files.json or {}
    theirs = (content.get("model") or {}).get("vocab")
    if not theirs or files.class_name in PYTHON_CLASSES:
        return
    if not isinstance(theirs, Mapping):
        theirs = {piece: id_ for id_, (piece, *_) in enumerate(theirs)}
    added = {token.content for token in files.tokens}
    added |= {token.get("content") for token in content.get("added_tokens", [])}
    pieces: list[Any] = [piece for piece in {**theirs, **vocabulary} if piece not in added]
    different = [piece for piece in pieces if theirs.get(piece) != vocabulary.get(piece)]
    if different:
        piece = different[0]
        raise ConversionError(
            f"Expected the pieces of {name} in {TOKENIZER_JSON}. Received: {len(different)} of "
            f"{len(pieces)} pieces with different ids, such as {piece!r} with the id "
            f"{theirs.get(piece)} in {TOKENIZER_JSON} and {vocabulary.get(piece)} in {name}. "
            "Transformers reads only the former. Delete the file that does not belong to the "
            "model."
        )
