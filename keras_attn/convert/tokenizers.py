"""Tokenizers of checkpoints: SentencePiece models, or a `tokenizer.json`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_attn.convert.checkpoint import Checkpoint
from keras_attn.convert.conversion_error import ConversionError
from keras_attn.convert.language_codes import language_codes, plain_name, require_ids

TOKENIZER_CONFIG = "tokenizer_config.json"
MBART_CLASSES = ("MBartTokenizer", "MBartTokenizerFast")
TOKENIZER_FILES = {
    "json": "tokenizer.json",
    "m2m_100": "sentencepiece.bpe.model and the codes of its languages",
    "marian": "source.spm, target.spm and vocab.json",
    "mbart": "sentencepiece.bpe.model and the codes of its languages",
    "pegasus": "spiece.model",
    "t5": "spiece.model",
}
"""Files that the tokenizers of each kind need, for the report."""


@dataclasses.dataclass(frozen=True)
class TokenizerIds:
    """Ids that tokenizers must have to fit a model.

    Args:
        source_size: Int, number of ids of the source.
        target_size: Int, number of ids of the target.
        pad: Int, id of padding.
        start: Int, first input of the decoder.
        end: Int, id of the end token.
    """

    source_size: int
    target_size: int
    pad: int
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Tokenizers:
    """Tokenizers of a checkpoint.

    Args:
        source: `SentencePieceTokenizer`, or `None`.
        target: `SentencePieceTokenizer`. `None` if the target uses the source tokenizer, or has no
            tokenizer.
        languages: Tuple of the languages of source and target, BCP 47 tags or `None`.
        note: String, for the report.
    """

    source: Any = None
    target: Any = None
    languages: tuple[str | None, str | None] = (None, None)
    note: str = "none"


def read_tokenizers(kind: str | None, checkpoint: Checkpoint, ids: TokenizerIds) -> Tokenizers:
    """Reads the tokenizers of a checkpoint.

    Args:
        kind: String, `"marian"`, `"t5"`, `"pegasus"`, `"m2m_100"` (also NLLB) or `"mbart"` (also
            mBART-50), `"json"` for a `tokenizer.json`, or `None` for an architecture whose
            tokenizers cannot be converted.
        checkpoint: `Checkpoint`.
        ids: `TokenizerIds`.

    Returns:
        `Tokenizers`. If the folder does not contain the files, `source` and `target` are `None`.

    Raises:
        ConversionError: If the ids of a tokenizer do not fit the model.
        ImportError: If sentencepiece is not installed.
    """
    readers = {
        "json": _json,
        "m2m_100": _multilingual,
        "marian": _marian,
        "mbart": _multilingual,
        "pegasus": _single,
        "t5": _single,
    }
    if kind is None:
        return Tokenizers(note="none, because tokenizers of this architecture cannot be converted")
    tokenizers = readers[kind](kind, checkpoint, ids)
    if tokenizers.source is None:
        return Tokenizers(note=f"none, because the folder does not have {TOKENIZER_FILES[kind]}")
    return tokenizers


def _marian(kind, checkpoint, ids):
    config = checkpoint.read_json(TOKENIZER_CONFIG) or {}
    vocabulary = checkpoint.read_json("vocab.json")
    models: list[Any] = [_read(checkpoint, f"{side}.spm") for side in ("source", "target")]
    if vocabulary is None or None in models:
        return Tokenizers()
    if config.get("sp_model_kwargs"):
        raise ConversionError(
            f"Expected no sp_model_kwargs in {TOKENIZER_CONFIG}. Received: sp_model_kwargs="
            f"{config['sp_model_kwargs']!r}, such as random segmentations. Remove them."
        )
    target_vocabulary = vocabulary
    if config.get("separate_vocabs"):
        target_vocabulary = checkpoint.read_json("target_vocab.json")
        if target_vocabulary is None:
            raise ConversionError(
                f"Expected target_vocab.json, because {TOKENIZER_CONFIG} has separate_vocabs. "
                f"Received: {str(checkpoint.path)!r} without it. Copy the missing file."
            )
    tags = [name for name in vocabulary if name.startswith(">>") and name.endswith("<<")]
    source = _tokenizer(models[0], vocabulary, ids.source_size, ids, user_defined_pieces=tags)
    target = _tokenizer(models[1], target_vocabulary, ids.target_size, ids)
    languages = config.get("source_lang"), config.get("target_lang")
    note = "source.spm and target.spm, with the ids of vocab.json"
    if tags:
        note += f"; begin each source with a target language, such as {tags[0]}"
    return Tokenizers(source, target, languages, note)


def _single(kind, checkpoint, ids):
    """Reads a SentencePiece model that sources and targets share."""
    from keras_attn.text import checkpoint_vocabularies

    model = _read(checkpoint, "spiece.model")
    if model is None:
        return Tokenizers()
    config = checkpoint.read_json(TOKENIZER_CONFIG) or {}
    if kind == "t5":
        vocabulary = checkpoint_vocabularies.t5_vocabulary(model, config.get("extra_ids", 100))
        added = [name for name in vocabulary if name.startswith("<extra_id_")]
        pieces = {"user_defined_pieces": added}
    else:
        vocabulary = checkpoint_vocabularies.pegasus_vocabulary(model, config.get("offset", 103))
        added = [name for name in vocabulary if name.startswith(("<mask_", "<unk_"))]
        pieces = {"control_pieces": added}
    source = _tokenizer(model, vocabulary, ids.source_size, ids, **pieces)
    return Tokenizers(source, note=f"spiece.model, with {len(added)} added pieces")


def _json(kind, checkpoint, ids):
    """Reads a `tokenizer.json` that sources and targets share."""
    from keras_attn.text import HuggingFaceTokenizer

    model = _read(checkpoint, "tokenizer.json")
    if model is None:
        return Tokenizers()
    try:
        tokenizer = HuggingFaceTokenizer(
            model, pad_token_id=ids.pad, start_token_id=ids.start, end_token_id=ids.end
        )
    except ValueError as error:
        raise ConversionError(f"The tokenizer cannot be converted. {error}") from error
    if tokenizer.vocabulary_size > ids.source_size:
        raise ConversionError(
            f"Expected a vocabulary of at most {ids.source_size} ids, the size of the embedding. "
            f"Received: a tokenizer of {tokenizer.vocabulary_size} ids. Check that the tokenizer "
            "belongs to the model."
        )
    return Tokenizers(tokenizer, note="tokenizer.json")


def _multilingual(kind, checkpoint, ids):
    """Reads a SentencePiece model of all languages, with a code for each language."""
    from keras_attn.text import Language, fairseq_vocabulary

    model, codes = _read(checkpoint, "sentencepiece.bpe.model"), language_codes(checkpoint)
    if model is None or not codes:
        return Tokenizers()
    pieces = checkpoint.read_json("vocab.json")  # only M2M100 has it
    if pieces is None:
        vocabulary, control = fairseq_vocabulary(model, list(codes)), [*codes, "<mask>"]
    else:
        first = max(pieces.values()) + 1
        added = {code: first + index for index, code in enumerate(codes)}
        vocabulary, control = {**pieces, **added}, list(codes)
    require_ids(codes, vocabulary)
    config = checkpoint.read_json(TOKENIZER_CONFIG) or {}
    # In mBART, the code of the source language follows the end token of the source. The decoder
    # starts with the code of the target language.
    is_mbart = kind == "mbart" and config.get("tokenizer_class") in (None, *MBART_CLASSES)
    sides = []
    for place in ("source", "target"):
        languages = {}
        for code in codes:
            at = "source_end" if is_mbart else f"{place}_start"
            languages[plain_name(code)] = Language(**{at: [vocabulary[code]]})
        if is_mbart and place == "target":
            languages = {}
        size = ids.source_size if place == "source" else ids.target_size
        sides.append(_tokenizer(model, vocabulary, size, ids, languages, control_pieces=control))
    selected = [config.get(name) for name in ("src_lang", "tgt_lang")]
    names = {plain_name(code) for code in codes}
    selected = [name if name in names else None for name in selected]
    note = (
        f"sentencepiece.bpe.model, with {len(codes)} languages: {', '.join(sorted(names)[:4])} ..."
    )
    return Tokenizers(*sides, languages=(selected[0], selected[1]), note=note)


def _tokenizer(
    model: bytes,
    vocabulary: Mapping[str, int],
    size: int,
    ids: TokenizerIds,
    languages: Any = None,
    **pieces: Any,
) -> Any:
    """Returns a `SentencePieceTokenizer` with the ids of a vocabulary."""
    from keras_attn.text.renumber_pieces import renumber_pieces
    from keras_attn.text.sentencepiece_tokenizer import SentencePieceTokenizer

    for name, id_ in (("</s>", ids.end), ("<pad>", ids.pad)):
        if vocabulary.get(name, id_) != id_:
            raise ConversionError(
                f"Expected the id {id_} of the model for {name} in the vocabulary of the "
                f"tokenizer. Received: {vocabulary[name]}. Check that the tokenizer belongs to the "
                "model."
            )
    largest = max(vocabulary.values())
    if largest >= size:
        raise ConversionError(
            f"Expected a vocabulary of at most {size} ids, the size of the embedding. Received: a "
            f"tokenizer with the id {largest}. Check that the tokenizer belongs to the model."
        )
    try:
        renumbered = renumber_pieces(model, vocabulary, size=size, **pieces)
        return SentencePieceTokenizer(
            renumbered,
            pad_token_id=ids.pad,
            start_token_id=ids.start,
            end_token_id=ids.end,
            vocabulary_size=size,
            languages=languages,
        )
    except ValueError as error:
        raise ConversionError(f"The tokenizer cannot be converted. {error}") from error


def _read(checkpoint, name):
    content = checkpoint.read_bytes(name)
    if content is not None and name.endswith((".model", ".spm")):
        from keras_attn.text.renumber_pieces import parse_sentencepiece_model

        try:
            parse_sentencepiece_model(content)
        except ValueError as error:
            path = str(checkpoint.path / name)
            raise ConversionError(f"The file {path!r} cannot be converted. {error}") from error
    return content
