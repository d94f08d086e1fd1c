"""Replaces the ids in a SentencePiece model by those in another vocabulary."""

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from keras_attn.text._sentencepiece_tokenizer import SPACE

FAR_BELOW = 10.0
"""Difference between the model's lowest score and the score of added characters."""


def renumber_pieces(
    model: bytes,
    vocabulary: Mapping[str, int],
    *,
    size: int | None = None,
    unknown_piece: str = "<unk>",
    start_piece: str = "<s>",
    end_piece: str = "</s>",
    pad_piece: str = "<pad>",
    control_pieces: Iterable[str] = (),
    user_defined_pieces: Iterable[str] = (),
) -> bytes:
    """Returns a SentencePiece model with the segmentation of `model` and a vocabulary's ids.

    Many checkpoints contain a SentencePiece model and a separate vocabulary: the model segments
    texts, and the vocabulary maps the pieces to ids. For example, Marian uses one model for each
    language, and one `vocab.json` for both languages. This function moves the ids into the model,
    so that `SentencePieceTokenizer`, exported files and `keras_attn_runtime` need no further table:

        new.encode(text) = [vocabulary.get(piece, unknown) for piece in old.encode_as_pieces(text)]

    - Pieces that occur only in the vocabulary can be decoded, but are not used for segmentation.
      Single characters are an exception: the new model uses them where `model` would find an
      unknown character. The segmentation can then differ, because `model` joins adjacent unknown
      characters to one piece.
    - Pieces that occur only in the model get the ids `size`, `size + 1`, and so on. Pass
      `vocabulary_size=size` to `SentencePieceTokenizer`, which replaces these ids by the unknown
      id.
    - The unknown id is decoded to nothing instead of `⁇`.

    Args:
        model: Bytes, a SentencePiece model of type unigram, BPE, word or char.
        vocabulary: Dict from pieces to ids.
        size: Int, number of ids in the neural network, at least the largest id plus 1. Ids without
            a piece are decoded to nothing. Defaults to `None`: the largest id plus 1.
        unknown_piece: String, the piece in the vocabulary for unknown characters. Defaults to
            `"<unk>"`.
        start_piece: String, start token. Defaults to `"<s>"`.
        end_piece: String, end token. Defaults to `"</s>"`.
        pad_piece: String, padding. Defaults to `"<pad>"`. If the vocabulary lacks the start, end or
            padding piece, the new model has no such special id.
        control_pieces: Iterable of further vocabulary pieces that do not occur in text and are
            decoded to nothing, such as language codes. Defaults to `()`.
        user_defined_pieces: Iterable of vocabulary pieces that are always recognized in texts, at
            the beginning or after a space, such as `">>fra<<"`. Defaults to `()`.

    Returns:
        Bytes, the new model.

    Raises:
        ValueError: If the model is damaged, the vocabulary lacks `unknown_piece` or one of
            `control_pieces` and `user_defined_pieces`, an id occurs twice or is negative, or `size`
            is too small.
        ImportError: If sentencepiece or protobuf is not installed.

    Example:

    ```python
    vocabulary = json.loads(Path("opus-mt-en-de/vocab.json").read_text())
    model = renumber_pieces(Path("opus-mt-en-de/source.spm").read_bytes(), vocabulary)
    pad = vocabulary["<pad>"]  # also the start token in Marian
    tokenizer = SentencePieceTokenizer(model, start_token_id=pad, vocabulary_size=len(vocabulary))
    ```
    """
    protobuf = import_sentencepiece_protobuf()
    kinds = protobuf.ModelProto.SentencePiece
    control_pieces, user_defined_pieces = list(control_pieces), list(user_defined_pieces)
    by_id = _pieces_by_id(vocabulary, [unknown_piece, *control_pieces, *user_defined_pieces])
    least = max(by_id) + 1
    size = least if size is None else size
    if size < least:
        raise ValueError(
            f"Expected size to be at least {least}, the largest id of the vocabulary plus 1. "
            f"Received: size={size}. Pass the number of ids of the neural network."
        )
    old = parse_sentencepiece_model(model)
    old_pieces = {piece.piece: piece for piece in old.pieces}
    lowest = min(piece.score for piece in old.pieces)
    special = {start_piece, end_piece, pad_piece, *control_pieces}
    kept_types = (kinds.NORMAL, kinds.USER_DEFINED, kinds.BYTE)
    before_tag = SPACE if old.normalizer_spec.add_dummy_prefix else ""
    new = protobuf.ModelProto.FromString(model)
    del new.pieces[:]
    new.ClearField("self_test_data")  # it contains the old ids
    for id_ in range(size):
        name = by_id.get(id_)
        if name is None:
            new.pieces.add(piece=f"<id_{id_}>", score=0.0, type=kinds.CONTROL)
        elif name == unknown_piece:
            new.pieces.add(piece=name, score=0.0, type=kinds.UNKNOWN)
        elif name in special:
            new.pieces.add(piece=name, score=0.0, type=kinds.CONTROL)
        elif name in user_defined_pieces:
            # The piece includes the space before it, so that the tag does not change the
            # segmentation of the text after it.
            new.pieces.add(piece=before_tag + name, score=0.0, type=kinds.USER_DEFINED)
        elif name in old_pieces and old_pieces[name].type in kept_types:
            piece = old_pieces[name]
            new.pieces.add(piece=name, score=piece.score, type=piece.type)
        elif len(name) == 1:
            new.pieces.add(piece=name, score=lowest - FAR_BELOW, type=kinds.NORMAL)
        else:
            # A score below `lowest` would change the score of unknown characters.
            new.pieces.add(piece=name, score=lowest, type=kinds.UNUSED)
    for piece in old.pieces:
        if piece.piece not in vocabulary and piece.type in kept_types:
            new.pieces.add(piece=piece.piece, score=piece.score, type=piece.type)
    trainer = new.trainer_spec
    trainer.vocab_size = len(new.pieces)
    trainer.unk_id, trainer.unk_piece = vocabulary[unknown_piece], unknown_piece
    trainer.bos_id, trainer.bos_piece = vocabulary.get(start_piece, -1), start_piece
    trainer.eos_id, trainer.eos_piece = vocabulary.get(end_piece, -1), end_piece
    trainer.pad_id, trainer.pad_piece = vocabulary.get(pad_piece, -1), pad_piece
    trainer.unk_surface = ""
    return new.SerializeToString()


def _pieces_by_id(vocabulary, required):
    """Checks the vocabulary and returns a dict from ids to pieces."""
    missing = [piece for piece in required if piece not in vocabulary]
    if missing:
        raise ValueError(
            f"Expected a vocabulary with the pieces {required}. Received: a vocabulary of "
            f"{len(vocabulary)} pieces without {missing}. Pass pieces of the vocabulary."
        )
    by_id: dict[int, str] = {}
    for piece, id_ in vocabulary.items():
        if id_ < 0 or id_ in by_id:
            raise ValueError(
                "Expected a vocabulary with a different id of at least 0 for each piece. Received: "
                f"id {id_} for {piece!r}"
                + (f" and {by_id[id_]!r}." if id_ in by_id else ".")
                + " Use the vocabulary file of the checkpoint unchanged."
            )
        by_id[id_] = piece
    return by_id


def import_sentencepiece_protobuf() -> Any:
    """Returns the module `sentencepiece.sentencepiece_model_pb2`."""
    try:
        return importlib.import_module("sentencepiece.sentencepiece_model_pb2")
    except ImportError as error:
        raise ImportError(
            "Expected sentencepiece and protobuf to change a SentencePiece model: "
            "`pip install '.[text]' protobuf` in a checkout."
        ) from error


def parse_sentencepiece_model(model: bytes) -> Any:
    """Returns a SentencePiece model's `ModelProto`.

    Raises:
        ValueError: If the bytes are not a complete SentencePiece model.
        ImportError: If sentencepiece or protobuf is not installed.
    """
    protobuf = import_sentencepiece_protobuf()
    try:
        parsed = protobuf.ModelProto.FromString(model)
    except Exception as error:  # protobuf raises an error of its own class
        raise ValueError(
            f"Expected a SentencePiece model. Received: {len(model)} bytes that begin with "
            f"{model[:8]!r}. Copy the file again."
        ) from error
    # The settings follow the pieces, so a truncated file contains none.
    if not parsed.pieces or not parsed.HasField("trainer_spec"):
        raise ValueError(
            f"Expected a whole SentencePiece model. Received: {len(model)} bytes with "
            f"{len(parsed.pieces)} pieces and without settings. Copy the file again."
        )
    return parsed
