"""OpenNMT-tf vocabularies as tokenizers: SentencePiece models, or words between spaces."""

import collections
import dataclasses
import importlib.util
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._opennmt_settings import END, PAD, START, read_yaml
from keras_attn.convert._settings import Setting, Settings, irrelevant, mapped, refused

SPECIAL = ("<blank>", "<s>", "</s>")
"""The first tokens in each vocabulary, with the ids 0, 1 and 2."""

LEAST_MATCH = 0.9
"""Minimum fraction of a vocabulary's tokens that its SentencePiece model must contain."""

_TRAINING = irrelevant("random segmentations, only in training")
_NO_WORDS = irrelevant("not used in the mode 'none'")
_OTHER_PIECES = "other pieces than those of the SentencePiece model"

TOKENIZATIONS: dict[str, dict[str, Setting]] = {
    "SentencePieceTokenizer": {
        "model": mapped("SentencePiece model"),
        "nbest_size": _TRAINING,
        "alpha": _TRAINING,
    },
    "OpenNMTTokenizer": {
        "sp_model_path": mapped("SentencePiece model"),
        "mode": refused("splits texts into words before SentencePiece does", "none"),
        "sp_nbest_size": _TRAINING,
        "sp_alpha": _TRAINING,
        "bpe_dropout": _TRAINING,
        "case_markup": refused("lower case with tokens for capital letters", None, False),
        "case_feature": refused("lower case with a second input", None, False),
        "soft_case_regions": irrelevant("only used with case_markup"),
        "joiner_annotate": refused(_OTHER_PIECES, None, False),
        "joiner_new": refused(_OTHER_PIECES, None, False),
        "spacer_annotate": irrelevant("the pieces contain the spaces"),
        "spacer_new": refused(_OTHER_PIECES, None, False),
        "with_separators": refused("keeps spaces as tokens", None, False),
        "support_prior_joiners": refused("joiners in the text", None, False),
        "bpe_model_path": refused(_OTHER_PIECES, None),
        "vocabulary_path": refused("splits pieces outside of a vocabulary", None),
        "vocabulary_threshold": irrelevant("only used with vocabulary_path"),
        **dict.fromkeys(
            (
                "allow_isolated_marks",
                "joiner",
                "lang",
                "no_substitution",
                "preserve_placeholders",
                "preserve_segmented_tokens",
                "segment_alphabet",
                "segment_alphabet_change",
                "segment_case",
                "segment_numbers",
            ),
            _NO_WORDS,
        ),
    },
}
"""Parameters of OpenNMT-tf tokenizations with a SentencePiece model, by type.

The effects were tried with pyonmttok 1.38. Its tokens are the SentencePiece model's pieces only in
the mode `"none"`.
"""

_FILLER = r"averyunlikelytoken\d+"
"""Tokens that OpenNMT-tf adds to vocabularies to make their sizes multiples of 8."""


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Source or target vocabulary. All unknown tokens get the id after the last token.

    Args:
        path: `Path`, the file.
        tokens: Tuple of strings, the lines.
    """

    path: Path
    tokens: tuple[str, ...]

    @property
    def unknown(self) -> str:
        """String, the unknown token's name, which differs from all tokens."""
        return "<unk>" if "<unk>" not in self.tokens else "<unknown>"

    def ids(self) -> dict[str, int]:
        """Returns a dict from tokens to ids."""
        tokens = (*self.tokens, self.unknown)
        return {token: id_ for id_, token in enumerate(tokens)}


def read_vocabulary(path: Path, size: int) -> Vocabulary:
    """Reads a vocabulary, a text file with one token per line.

    Args:
        path: `Path`, the file.
        size: Int, number of rows in the embedding.

    Raises:
        ConversionError: If the file is not a vocabulary of this size.
    """
    try:
        # Split only at line feeds, as OpenNMT-tf does: a token can be a different line separator,
        # such as U+2028.
        lines = path.read_bytes().decode("utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise ConversionError(
            f"Expected a vocabulary in {str(path)!r}. Received: {error}. Check the path, or copy "
            "the file again."
        ) from error
    lines = [line.rstrip("\r") for line in (lines[:-1] if not lines[-1] else lines)]
    if tuple(lines[: len(SPECIAL)]) != SPECIAL:
        raise ConversionError(
            f"Expected a vocabulary of OpenNMT-tf that begins with {SPECIAL} in {str(path)!r}. "
            f"Received: {lines[:3]}. Pass the file that onmt-build-vocab wrote."
        )
    if len(lines) + 1 != size:
        raise ConversionError(
            f"Expected a vocabulary of {size - 1} tokens, because the embedding has {size} rows "
            f"and the last row is for unknown tokens. Received: {len(lines)} tokens in "
            f"{str(path)!r}. Check that the vocabulary belongs to the model."
        )
    if len(set(lines)) != len(lines):
        double = collections.Counter(lines).most_common(1)[0][0]
        raise ConversionError(
            f"Expected a different token in each line of {str(path)!r}. Received: {double!r} "
            "twice. Use the vocabulary of the training unchanged."
        )
    return Vocabulary(path, tuple(lines))


def opennmt_tokenizer(
    vocabulary: Vocabulary | None, tokenization: Any, folders: Sequence[Path]
) -> tuple[Any, str]:
    """Returns the source or target tokenizer, and a note for the report.

    Args:
        vocabulary: `Vocabulary`, or `None` if it is unknown.
        tokenization: The tokenization in the configuration: a mapping, a YAML file path, or `None`.
        folders: List of `Path`s, folders to search for files.

    Raises:
        ConversionError: If the SentencePiece model in the configuration is missing, or does not
            contain the vocabulary's tokens.
        ImportError: If sentencepiece is not installed.
    """
    if vocabulary is None:
        return None, "none, because no vocabulary is known; use ids, or pass the vocabularies"
    configured = _sentencepiece_path(tokenization, folders)
    if configured is not None:
        return _sentencepiece(vocabulary, configured), configured.name
    if tokenization:
        kind = tokenization.get("type", "OpenNMTTokenizer") if _is_mapping(tokenization) else None
        return None, f"none, because {kind or tokenization} is not a SentencePiece model; use ids"
    reasons = []
    for path in _models(vocabulary, folders):
        missing = _missing_pieces(vocabulary, path)
        if not missing:
            return _sentencepiece(vocabulary, path), path.name
        reasons.append(f"{path.name} does not have tokens such as {missing[0]!r}")
    note = "; ".join(["words between spaces, because no tokenization is known", *reasons])
    if importlib.util.find_spec("tokenizers") is None:
        return None, "none, because words need `pip install '.[tokenizers]'` (a checkout); use ids"
    return _words(vocabulary), note


def find_file(name: str, folders: Iterable[Path]) -> Path | None:
    """Returns the path of a file named in a configuration, or `None` if there is none.

    Args:
        name: String, a path relative to one of the folders or to the working directory. If there is
            no such path, a file with the same name directly in one of the folders is found.
        folders: Iterable of `Path`s.
    """
    folders = list(folders)
    candidates = [folder / name for folder in folders]
    candidates += [folder / Path(name).name for folder in folders] + [Path(name)]
    return next((path for path in candidates if path.is_file()), None)


def tokenization_settings(configuration: Settings, folders: Sequence[Path]) -> list[Settings]:
    """Returns the `Settings` for tokenizations with a SentencePiece model.

    Args:
        configuration: `Settings` from the configuration.
        folders: List of `Path`s, folders to search for files.

    Raises:
        ConversionError: If a tokenization's file is missing.
    """
    settings = {}
    for side in ("source", "target"):
        keys = (f"data/{side}_tokenization", "data/tokenization")
        key = next((key for key in keys if configuration[key]), None)
        if key is None:
            continue
        kind, params, _ = _read_tokenization(configuration[key], folders)
        if _model_name(params) is None:
            continue
        if kind == "OpenNMTTokenizer":
            params = {"mode": "conservative", **params}  # its default
        table = {f"{key}/{name}": setting for name, setting in TOKENIZATIONS[str(kind)].items()}
        values = {f"{key}/{name}": value for name, value in params.items()}
        settings[key] = Settings(configuration.file, values, table)
    return list(settings.values())


def _read_tokenization(tokenization, folders):
    """Returns a tokenization's type, its parameters, and its folders."""
    if isinstance(tokenization, str):
        path = find_file(tokenization, folders)
        if path is None:
            raise ConversionError(
                f"Expected the file of a tokenization. Received: {tokenization!r}, which does not "
                "exist. Copy it to the folder of the checkpoint."
            )
        return _read_tokenization(read_yaml(path), [path.parent, *folders])
    if not _is_mapping(tokenization):
        return None, {}, folders
    kind = tokenization.get("type", "OpenNMTTokenizer")
    params = tokenization.get("params") or {} if "type" in tokenization else tokenization
    return kind, (params if kind in TOKENIZATIONS else {}), folders


def _model_name(params):
    return params.get("model") or params.get("sp_model_path")


def _sentencepiece_path(tokenization, folders):
    """Returns the path of a tokenization's SentencePiece model, or `None`."""
    _, params, folders = _read_tokenization(tokenization, folders)
    name = _model_name(params)
    if name is None:
        return None
    path = find_file(str(name), folders)
    if path is None:
        raise ConversionError(
            f"Expected the SentencePiece model of the tokenization. Received: {str(name)!r}, which "
            "does not exist. Copy it to the folder of the checkpoint."
        )
    return path


def _is_mapping(value):
    return isinstance(value, Mapping)


def _models(vocabulary, folders):
    """Returns the paths of possible SentencePiece models."""
    places = dict.fromkeys([*folders, vocabulary.path.parent])
    return [
        path
        for folder in places
        for suffix in ("model", "spm")
        for path in sorted(folder.glob(f"*.{suffix}"))
    ]


def _missing_pieces(vocabulary, path):
    """Returns the tokens that a SentencePiece model lacks, or `[]` if these are few."""
    from keras_attn.convert._renumber_pieces import import_sentencepiece_protobuf

    protobuf = import_sentencepiece_protobuf()
    try:
        pieces = protobuf.ModelProto.FromString(path.read_bytes()).pieces
    except Exception:  # protobuf raises an error of its own class
        return ["any, because it is no SentencePiece model"]
    names = {piece.piece for piece in pieces}
    tokens = [token for token in vocabulary.tokens[3:] if not re.fullmatch(_FILLER, token)]
    missing = [token for token in tokens if token not in names]
    return missing if len(missing) > (1 - LEAST_MATCH) * len(tokens) else []


def _sentencepiece(vocabulary, path):
    """Returns a `SentencePieceTokenizer` with a vocabulary's ids."""
    from keras_attn.convert._renumber_pieces import renumber_pieces
    from keras_attn.text._sentencepiece_tokenizer import SentencePieceTokenizer

    missing = _missing_pieces(vocabulary, path)
    if missing:
        raise ConversionError(
            f"Expected a SentencePiece model with the tokens of {vocabulary.path.name}. Received: "
            f"{str(path)!r} without {missing[:3]}. Check that it belongs to the vocabulary."
        )
    pieces = dict(zip(("pad_piece", "start_piece", "end_piece"), SPECIAL, strict=True))
    ids = vocabulary.ids()
    try:
        model = renumber_pieces(path.read_bytes(), ids, unknown_piece=vocabulary.unknown, **pieces)
        return SentencePieceTokenizer(
            model,
            pad_token_id=PAD,
            start_token_id=START,
            end_token_id=END,
            vocabulary_size=len(ids),
        )
    except ValueError as error:
        raise ConversionError(f"The tokenizer cannot be converted. {error}") from error


def _words(vocabulary):
    """Returns a `HuggingFaceTokenizer` for words between spaces."""
    from keras_attn.text._hugging_face_tokenizer import HuggingFaceTokenizer

    content = {
        "version": "1.0",
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {
            "type": "WordLevel",
            "vocab": vocabulary.ids(),
            "unk_token": vocabulary.unknown,
        },
    }
    return HuggingFaceTokenizer(
        json.dumps(content).encode(), pad_token_id=PAD, start_token_id=START, end_token_id=END
    )
