"""Comparison of a `tokenizer.json` with the SentencePiece model beside it."""

from collections.abc import Mapping
from typing import Any

from keras_attn.convert.conversion_error import ConversionError
from keras_attn.convert.tokenizer_files import TOKENIZER_JSON, TokenizerFiles

PYTHON_CLASSES = ("M2M100Tokenizer", "MarianTokenizer")
"""Classes of transformers that do not read `tokenizer.json`."""


def check_same_pieces(files: TokenizerFiles, vocabulary: Mapping[str, int], name: str) -> None:
    """Checks that `tokenizer.json`, which transformers reads, has the pieces of the model.

    Special tokens and added tokens are not compared, because one of the files can lack them.

    Args:
        files: `TokenizerFiles`.
        vocabulary: Dict from the pieces of the SentencePiece model to their ids.
        name: String, file of the SentencePiece model.

    Raises:
        ConversionError: If a piece has a different id in the two files, or is in one of them only.
    """
    content = files.json or {}
    found = (content.get("model") or {}).get("vocab")
    if not found or files.class_name in PYTHON_CLASSES:
        return
    theirs = (
        found if isinstance(found, Mapping) else {each[0]: id_ for id_, each in enumerate(found)}
    )
    added = {token.content for token in files.tokens}
    added |= {each.get("content") for each in content.get("added_tokens", [])}
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
