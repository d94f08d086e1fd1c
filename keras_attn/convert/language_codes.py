"""Language codes of multilingual checkpoints."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from keras_attn.convert.checkpoint import Checkpoint
from keras_attn.convert.conversion_error import ConversionError
from keras_attn.convert.tokenizer_files import Token

CODE = re.compile(r"__[a-z]{2,3}__|[a-z]{2,3}_[A-Z][A-Za-z]{1,3}")
"""Codes of M2M100, such as `__en__`, of mBART, `en_XX`, and of NLLB, `eng_Latn`."""

M2M_100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu "
    "ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms "
    "my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur "
    "uz vi wo xh yi yo zh zu"
)
"""Languages of M2M100 in the order of their ids ([Fan et al., 2020](
https://arxiv.org/abs/2010.11125)), for files that do not list them."""


def language_codes(checkpoint: Checkpoint) -> dict[str, int | None]:
    """Returns the codes of the languages, in the order of their ids.

    Args:
        checkpoint: `Checkpoint`.

    Returns:
        Dict from codes to ids, or to `None` if the files contain only the order of the codes.
    """
    found = {}
    tokenizer = checkpoint.read_json("tokenizer.json") or {}
    for each in tokenizer.get("added_tokens", []):
        found[each.get("content")] = each.get("id")
    config = checkpoint.read_json("tokenizer_config.json") or {}
    for id_, each in (config.get("added_tokens_decoder") or {}).items():
        found[_content(each)] = int(id_)
    found |= checkpoint.read_json("added_tokens.json") or {}
    codes = {name: id_ for name, id_ in found.items() if CODE.fullmatch(str(name))}
    if codes:
        return dict(sorted(codes.items(), key=lambda item: item[1]))
    special = checkpoint.read_json("special_tokens_map.json") or {}
    for lists in (special, config):
        for key in ("additional_special_tokens", "extra_special_tokens"):
            names = [_content(each) for each in lists.get(key) or []]
            names = [name for name in names if CODE.fullmatch(str(name))]
            if names:
                return dict.fromkeys(names)
    return {}


def fairseq_ids(
    model: bytes, codes: Mapping[str, int | None], tokens: Sequence[Token]
) -> dict[str, int]:
    """Returns the vocabulary of mBART, mBART-50 and NLLB.

    If the files contain the ids of all codes, these are the ids. New languages can have ids behind
    that of `<mask>`. Otherwise the order of the codes determines the ids.

    Args:
        model: Bytes of `sentencepiece.bpe.model`.
        codes: Dict returned by `language_codes`.
        tokens: List of the `Token`s in the files.

    Raises:
        ConversionError: If an id of a code is the id of a piece.
    """
    from keras_attn.text import fairseq_vocabulary

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
    """Returns the codes of M2M100, and its vocabulary. The codes follow the pieces.

    Args:
        pieces: Dict, content of `vocab.json`.
        codes: Dict returned by `language_codes`. If it is empty, the codes are those of M2M100.

    Raises:
        ConversionError: If the files contain a different id of a code.
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
    """Returns the name of a language without the underscores of M2M100."""
    return code.strip("_")


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, dict) else token
