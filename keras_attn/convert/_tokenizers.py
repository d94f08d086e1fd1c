"""Checkpoint tokenizers: SentencePiece models, or a `tokenizer.json`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_attn.convert._checkpoint import Checkpoint
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._json_tokenizers import build_json_tokenizer
from keras_attn.convert._language_codes import fairseq_ids, language_codes, m2m_100_ids, plain_name
from keras_attn.convert._piece_comparison import check_same_pieces
from keras_attn.convert._settings import Settings
from keras_attn.convert._tokenizer_files import TOKENIZER_CONFIG, TOKENIZER_JSON, TokenizerFiles
from keras_attn.convert._tokenizer_settings import tokenizer_settings

SENTENCEPIECE = {
    "json": (),
    "m2m_100": ("sentencepiece.bpe.model",),
    "marian": ("source.spm", "target.spm", "vocab.json"),
    "mbart": ("sentencepiece.bpe.model",),
    "pegasus": ("spiece.model",),
    "t5": ("spiece.model",),
}
"""Files needed by each kind of SentencePiece tokenizer."""

SPACE_CLASSES = ("MBart50Tokenizer", "NllbTokenizer", "PegasusTokenizer")
"""Classes that encode the space between a word and an added token as a separate token."""


@dataclasses.dataclass(frozen=True)
class TokenizerIds:
    """Ids that tokenizers must have to fit a model.

    Args:
        source_size: Int, number of source ids.
        target_size: Int, number of target ids.
        pad: Int, padding id.
        start: Int, the decoder's first input.
        end: Int, end token id.
    """

    source_size: int
    target_size: int
    pad: int
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Tokenizers:
    """A checkpoint's tokenizers.

    Args:
        source: `SentencePieceTokenizer` or `HuggingFaceTokenizer`, or `None`.
        target: Target tokenizer. `None` if targets use the source tokenizer, or have no tokenizer.
        languages: Tuple, source and target language, BCP 47 tags or `None`.
        around: Pair, ids before and after a text, ints or `None`. `None` instead of the pair if the
            architecture's ids are used.
        note: String, for the report.
    """

    source: Any = None
    target: Any = None
    languages: tuple[str | None, str | None] = (None, None)
    around: tuple[int | None, int | None] | None = None
    note: str = "none"


class TokenizerReader:
    """Reads a checkpoint's tokenizers.

    Args:
        kind: String, `"marian"`, `"t5"`, `"pegasus"`, `"m2m_100"` (also NLLB) or `"mbart"` (also
            mBART-50), `"json"` for a `tokenizer.json`, or `None` for an architecture whose
            tokenizers cannot be converted. Without their SentencePiece models, all kinds except
            `"marian"` are read from a `tokenizer.json`.
        checkpoint: `Checkpoint`.
        parse_special_tokens: Bool, see `HuggingFaceTokenizer`. Defaults to `False`.

    Attributes:
        settings: Tuple, the files' `Settings`. Empty if there is no tokenizer.
    """

    def __init__(
        self, kind: str | None, checkpoint: Checkpoint, parse_special_tokens: bool = False
    ) -> None:
        self._kind, self._checkpoint = kind, checkpoint
        self._options = {"parse_special_tokens": parse_special_tokens}
        self._needed = SENTENCEPIECE.get(kind or "json", ())
        has_pieces = bool(self._needed) and all(map(self._has, self._needed))
        self._uses_json = not has_pieces and kind != "marian" and self._has(TOKENIZER_JSON)
        self._is_found = kind is not None and (has_pieces or self._uses_json)
        self.settings: tuple[Settings, ...] = ()
        if self._is_found:
            self.settings = tuple(tokenizer_settings(checkpoint, self._uses_json))

    def read(self, ids: TokenizerIds) -> Tokenizers:
        """Returns the `Tokenizers`. Without the files, `source` and `target` are `None`.

        Args:
            ids: `TokenizerIds`.

        Raises:
            ConversionError: If a tokenizer's ids do not fit the model.
            ImportError: If a library needed by the tokenizer is not installed.
        """
        if self._kind is None:
            note = "none, because tokenizers of this architecture cannot be converted"
            return Tokenizers(note=note)
        if not self._is_found:
            *first, last = self._needed or (TOKENIZER_JSON,)
            names = f"{', '.join(first)} and {last}" if first else last
            names += f" or {TOKENIZER_JSON}" if self._kind not in ("json", "marian") else ""
            return Tokenizers(note=f"none, because the folder does not have {names}")
        self._files = TokenizerFiles(self._checkpoint)
        if self._uses_json:
            return self._from_json(ids)
        readers = {
            "m2m_100": self._multilingual,
            "marian": self._marian,
            "mbart": self._multilingual,
            "pegasus": self._single,
            "t5": self._single,
        }
        return readers[self._kind](ids)

    def _has(self, name):
        return (self._checkpoint.path / name).is_file()

    def _model(self, name):
        from keras_attn.convert._renumber_pieces import parse_sentencepiece_model

        content: Any = self._checkpoint.read_bytes(name)  # `read` checked that it exists
        try:
            parse_sentencepiece_model(content)
        except ValueError as error:
            path = str(self._checkpoint.path / name)
            raise ConversionError(f"The file {path!r} cannot be converted. {error}") from error
        return content

    def _marian(self, ids):
        config = self._files.config
        vocabulary = self._checkpoint.read_json("vocab.json") or {}
        target_vocabulary = vocabulary
        if config.get("separate_vocabs"):
            target_vocabulary = self._checkpoint.read_json("target_vocab.json")
            if target_vocabulary is None:
                raise ConversionError(
                    f"Expected target_vocab.json, because {TOKENIZER_CONFIG} has separate_vocabs. "
                    f"Received: {str(self._checkpoint.path)!r} without it. Copy the missing file."
                )
        models = [self._model(f"{side}.spm") for side in ("source", "target")]
        tags = [name for name in vocabulary if name.startswith(">>") and name.endswith("<<")]
        source = self._tokenizer(
            models[0], vocabulary, ids.source_size, ids, user_defined_pieces=tags
        )
        target = self._tokenizer(models[1], target_vocabulary, ids.target_size, ids)
        languages = config.get("source_lang"), config.get("target_lang")
        note = "source.spm and target.spm, with the ids of vocab.json"
        if tags:
            note += f"; begin each source with a target language, such as {tags[0]}"
        return Tokenizers(source, target, languages, note=note)

    def _single(self, ids):
        """Reads a SentencePiece model that sources and targets share."""
        from keras_attn.convert import _checkpoint_vocabularies as checkpoint_vocabularies

        model, config = self._model("spiece.model"), self._files.config
        if self._kind == "t5":
            vocabulary = checkpoint_vocabularies.t5_vocabulary(model, config.get("extra_ids", 100))
        else:
            vocabulary = checkpoint_vocabularies.pegasus_vocabulary(
                model, config.get("offset", 103)
            )
        check_same_pieces(self._files, vocabulary, "spiece.model")
        source = self._tokenizer(model, vocabulary, ids.source_size, ids)
        return Tokenizers(source, note="spiece.model, with the special tokens of transformers")

    def _multilingual(self, ids):
        """Reads a SentencePiece model for all languages, with a code for each language."""
        model = self._model("sentencepiece.bpe.model")
        codes, added = language_codes(self._checkpoint), self._files.tokens
        pieces = self._checkpoint.read_json("vocab.json")  # only M2M100 has it
        if pieces is None and not codes:
            return Tokenizers(note="none, because the folder does not have the language codes")
        if pieces is None:
            vocabulary = fairseq_ids(model, codes, added)
            check_same_pieces(self._files, vocabulary, "sentencepiece.bpe.model")
        else:
            codes, vocabulary = m2m_100_ids(pieces, codes)
        ids_of_codes = {code: vocabulary[code] for code in codes}
        sides = []
        for place in ("source", "target"):
            languages = self._languages(place, ids_of_codes)
            size = ids.source_size if place == "source" else ids.target_size
            options = {"languages": languages, "control_pieces": [*codes]}
            sides.append(self._tokenizer(model, vocabulary, size, ids, **options))
        name = "sentencepiece.bpe.model"
        report = self._language_report(ids_of_codes, name)
        return Tokenizers(source=sides[0], target=sides[1], **report)

    def _languages(self, place, codes):
        """Returns the `Language`s for one side.

        In mBART, and in NLLB with `legacy_behaviour`, the source language's code follows the
        source's end token. The mBART decoder starts with the target language's code.
        """
        from keras_attn.text import Language

        is_mbart = self._kind == "mbart" and self._files.class_name != "MBart50Tokenizer"
        if is_mbart and place == "target":
            return {}
        is_behind = is_mbart or (self._kind == "m2m_100" and self._is_legacy_nllb())
        at = "source_end" if is_behind and place == "source" else f"{place}_start"
        return {plain_name(code): Language(**{at: [id_]}) for code, id_ in codes.items()}

    def _is_legacy_nllb(self):
        is_nllb = self._files.class_name == "NllbTokenizer"
        return is_nllb and bool(self._files.config.get("legacy_behaviour"))

    def _language_report(self, codes, name):
        names = sorted(plain_name(code) for code in codes)
        chosen = [self._files.config.get(key) for key in ("src_lang", "tgt_lang")]
        chosen = [language if language in names else None for language in chosen]
        note = f"{name}, with {len(codes)} languages"
        note += f": {', '.join(names[:4])} ..." if names else ""
        return {"languages": (chosen[0], chosen[1]), "note": note}

    def _from_json(self, ids):
        """Reads a `tokenizer.json` that sources and targets share."""
        from keras_attn.text import HuggingFaceTokenizer

        built = build_json_tokenizer(self._files, ids.source_size)

        def tokenizer(languages=None):
            try:
                return HuggingFaceTokenizer(
                    built.model,
                    pad_token_id=ids.pad,
                    start_token_id=ids.start,
                    end_token_id=ids.end,
                    languages=languages,
                    **self._options,
                )
            except ValueError as error:
                raise ConversionError(f"The tokenizer cannot be converted. {error}") from error

        source = tokenizer()
        if source.vocabulary_size > ids.source_size:
            raise ConversionError(
                f"Expected a vocabulary of at most {ids.source_size} ids, the size of the "
                f"embedding. Received: {source.vocabulary_size} ids. Check that the "
                "tokenizer belongs to the model."
            )
        if self._kind in ("m2m_100", "mbart"):
            codes = {code: built.ids[code] for code in language_codes(self._checkpoint)}
            sides = [tokenizer(self._languages(place, codes)) for place in ("source", "target")]
            report = self._language_report(codes, TOKENIZER_JSON)
            return Tokenizers(source=sides[0], target=sides[1], **report)
        if len(built.start) > 1 or len(built.end) > 1:
            raise ConversionError(
                "Expected a post_processor in tokenizer.json that adds at most one token before a "
                f"text, and one after it. Received: the ids {built.start} before and {built.end} "
                "after a text. The tokenizer cannot be converted."
            )
        around = next(iter(built.start), None), next(iter(built.end), None)
        return Tokenizers(source, around=around, note=TOKENIZER_JSON)

    def _tokenizer(
        self,
        model: bytes,
        vocabulary: Mapping[str, int],
        size: int,
        ids: TokenizerIds,
        languages: Any = None,
        control_pieces: Any = (),
        **pieces: Any,
    ) -> Any:
        """Returns a `SentencePieceTokenizer` with a vocabulary's ids."""
        from keras_attn.convert._renumber_pieces import (
            import_sentencepiece_protobuf,
            renumber_pieces,
        )
        from keras_attn.text._sentencepiece_tokenizer import SPACE, SentencePieceTokenizer

        for name, id_ in (("</s>", ids.end), ("<pad>", ids.pad)):
            if vocabulary.get(name, id_) != id_:
                raise ConversionError(
                    f"Expected the id {id_} of the model for {name} in the vocabulary of the "
                    f"tokenizer. Received: {vocabulary[name]}. Check that the tokenizer belongs to "
                    "the model."
                )
        vocabulary = dict(vocabulary)
        added = _added_tokens(self._files.tokens, vocabulary)
        largest = max(vocabulary.values())
        if largest >= size:
            raise ConversionError(
                f"Expected a vocabulary of at most {size} ids, the size of the embedding. "
                f"Received: the id {largest}. Check that the tokenizer belongs to "
                "the model."
            )
        protobuf = import_sentencepiece_protobuf()
        parsed = protobuf.ModelProto.FromString(model).pieces
        words = {piece.piece for piece in parsed if piece.type == piece.NORMAL}
        special = {token.content for token in added if token.special} - words
        unknown, end, pad = "<unk>", "</s>", "<pad>"
        special -= {unknown, end, pad, "<s>"}
        space = vocabulary.get(SPACE, vocabulary.get(unknown))
        keeps_space = self._files.class_name in SPACE_CLASSES
        try:
            renumbered = renumber_pieces(
                model, vocabulary, size=size, control_pieces={*control_pieces, *special}, **pieces
            )
            return SentencePieceTokenizer(
                renumbered,
                pad_token_id=ids.pad,
                start_token_id=ids.start,
                end_token_id=ids.end,
                vocabulary_size=size,
                languages=languages,
                added_tokens=added,
                space_token_id=space if keeps_space else None,
                clean_up_spaces=bool(self._files.config.get("clean_up_tokenization_spaces")),
                **self._options,
            )
        except ValueError as error:
            raise ConversionError(f"The tokenizer cannot be converted. {error}") from error


def _added_tokens(tokens: Any, vocabulary: dict[str, int]) -> list[Any]:
    """Returns a SentencePiece tokenizer's `AddedToken`s, and adds their ids to a vocabulary.

    Raises:
        ConversionError: If a token has a different id in the vocabulary, or a piece's id.
    """
    from keras_attn.text import AddedToken

    by_id = {id_: name for name, id_ in vocabulary.items()}
    added = []
    for token in tokens:
        id_ = vocabulary.get(token.content, token.id)
        if id_ is None and token.is_default:
            continue
        if id_ is None:
            id_ = max(by_id) + 1
        if token.id not in (None, id_) or by_id.get(id_, token.content) != token.content:
            raise ConversionError(
                f"Expected the id {token.id} for the token {token.content!r}. Received: the id "
                f"{vocabulary.get(token.content)} for it and the piece "
                f"{by_id.get(id_)!r} with the id {id_}. The tokenizer cannot be converted."
            )
        vocabulary[token.content], by_id[id_] = id_, token.content
        flags = (token.special, token.lstrip, token.rstrip, token.single_word)
        added.append(AddedToken(token.content, id_, *flags))
    return added
