"""Language codes in multilingual checkpoints."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from keras_attn.convert._checkpoint import Checkpoint
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._tokenizer_files import Token

CODE = re.compile(r"__[a-z]{2,3}__|[a-z]{2,3}_[A-Z][A-Za-z]{1,3}")
"""Codes in M2M100, such as `__en__`, in mBART, `en_XX`, and in NLLB, `eng_Latn`."""

M2M_100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu "
    "ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms "
    "my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur "
    "uz vi wo xh yi yo zh zu"
)
"""M2M100 languages in id order ([Fan et al., 2020](https://arxiv.org/abs/2010.11125)), for files
that do not list them."""


def language_codes(checkpoint: Checkpoint) -> dict[str, int | None]:
    """Returns the language codes in id order.

    Args:
        checkpoint: `Checkpoint`.

    Returns:
        Dict from codes to ids, or to `None` if the files contain only their order.
    """
    ids = {}
    tokenizer = checkpoint.read_json("tokenizer.json") or {}
    for token in tokenizer.get("added_tokens", []):
        ids[token.get("content")] = token.get("id")
    config = checkpoint.read_json("tokenizer_config.json") or {}
    for id_, token in (config.get("added_tokens_decoder") or {}).items():
        ids[_content(token)] = int(id_)
    ids |= checkpoint.read_json("added_tokens.json") or {}
    codes = {name: id_ for name, id_ in ids.items() if CODE.fullmatch(str(name))}
    if codes:
        return dict(sorted(codes.items(), key=lambda item: item[1]))
    special = checkpoint.read_json("special_tokens_map.json") or {}
    for lists in (special, config):
        for key in ("additional_special_tokens", "extra_special_tokens"):
            names = [_content(token) for token in lists.get(key) or []]
            names = [name for name in names if CODE.fullmatch(str(name))]
            if names:
                return dict.fromkeys(names)
    return {}


def fairseq_ids(
    model: bytes, codes: Mapping[str, int | None], tokens: Sequence[Token]
) -> dict[str, int]:
    """Returns the vocabulary for mBART, mBART-50 and NLLB.

    If the files contain ids for all codes, these are used, including ids after `<mask>` of
    languages that were added later. If a code lacks an id, all codes are numbered in order.

    Args:
        model: Bytes, `sentencepiece.bpe.model`.
        codes: Dict from `language_codes`.
        tokens: List, the `Token`s in the files.

    Raises:
        ConversionError: If a code and a piece have the same id.
    """
    from keras_attn.convert._checkpoint_vocabularies import fairseq_vocabulary

    if None in codes.values():
        return fairseq_vocabulary(model, list(codes))
    vocabulary = fairseq_vocabulary(model)
    mask = vocabulary.pop("<mask>")
    added = {name: id_ for name, id_ in codes.items() if id_ is not None}
    added |= {token.content: token.id for token in tokens if token.id is not None}
    by_id = {id_: name for name, id_ in vocabulary.items()}
    for name, id_ in added.items():
        if by_id.setdefault(id_, name) != name or vocabulary.get(name, id_) != id_:
            raise ConversionError(
                f"Expected the id of a language or an added token behind the {mask} pieces of the "
                f"SentencePiece model. Received: the id {id_} for {name}, which is the id of "
                f"{by_id[id_]!r}. The tokenizer cannot be converted."
            )
    return {**vocabulary, **added}


def m2m_100_ids(
    pieces: Mapping[str, int], codes: Mapping[str, int | None]
) -> tuple[list[str], dict[str, int]]:
    """Returns the M2M100 codes and vocabulary. The codes follow the pieces.

    Args:
        pieces: Dict, `vocab.json`.
        codes: Dict from `language_codes`. If it is empty, all M2M100 languages are used.

    Raises:
        ConversionError: If the files contain a different id for a code.
    """
    names = list(codes) or [f"__{code}__" for code in M2M_100.split()]
    first = max(pieces.values()) + 1
    vocabulary = {**pieces, **{name: first + index for index, name in enumerate(names)}}
    for name, id_ in codes.items():
        if id_ not in (None, vocabulary[name]):
            raise ConversionError(
                f"Expected the id {id_} for the language {name}. Received: {vocabulary[name]} from "
                "vocab.json and the order of the languages. The tokenizer cannot be converted."
            )
    return names, vocabulary


def plain_name(code: str) -> str:
    """Returns a language's name without M2M100's underscores."""
    return code.strip("_")


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, dict) else token
