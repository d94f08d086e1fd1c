"""Language codes of multilingual checkpoints."""

import re
from typing import Any

from keras_attn.convert.checkpoint import Checkpoint
from keras_attn.convert.conversion_error import ConversionError

CODE = re.compile(r"__[a-z]{2,3}__|[a-z]{2,3}_[A-Z][A-Za-z]{1,3}")
"""Codes of M2M100, such as `__en__`, of mBART, `en_XX`, and of NLLB, `eng_Latn`."""


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


def require_ids(codes: dict[str, int | None], vocabulary: dict[str, int]) -> None:
    """Checks that language codes have the same ids in a vocabulary as in the checkpoint's files.

    Args:
        codes: Dict returned by `language_codes`.
        vocabulary: Dict from pieces to ids.

    Raises:
        ConversionError: If an id differs.
    """
    for code, id_ in codes.items():
        if id_ is not None and vocabulary.get(code) != id_:
            raise ConversionError(
                f"Expected the id {id_} for the language {code}. Received: {vocabulary.get(code)} "
                "from the SentencePiece model and the order of the languages. The tokenizer cannot "
                "be converted."
            )


def plain_name(code: str) -> str:
    """Returns the name of a language without the underscores of M2M100."""
    return code.strip("_")


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, dict) else token
