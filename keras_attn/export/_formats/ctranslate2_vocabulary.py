"""Vocabularies of a CTranslate2 model, which reads and returns tokens as strings, not as ids."""

from collections.abc import Mapping

from keras_attn.export._export_error import ExportError
from keras_attn.export._types import ExportTokenizer

UNKNOWN = "<unk>"


def special_tokens(
    tokenizer: ExportTokenizer | None, ids: Mapping[str, int | None]
) -> dict[str, str]:
    """Returns the tokens of special ids.

    Args:
        tokenizer: Tokenizer, or `None`.
        ids: Dict from the default names of tokens, such as `"</s>"`, to ids or `None`. If two names
            have the same id, both become the token of the first name.

    Returns:
        Dict from the default names to tokens.
    """
    names: dict[int, str] = {}
    for name, id_ in ids.items():
        if id_ is not None and id_ not in names:
            names[id_] = name if tokenizer is None else tokenizer.pieces([id_])[0]
    return {name: names[id_] for name, id_ in ids.items() if id_ is not None}


def vocabulary(
    tokenizer: ExportTokenizer | None, size: int, special: Mapping[int, str]
) -> list[str]:
    """Returns the token of each id.

    Without a tokenizer, the token of an id is the id as a decimal number, unless the id is special.

    Args:
        tokenizer: Tokenizer with a method `pieces`, or `None`.
        size: Int, number of ids of the model.
        special: Dict from special ids to their tokens.

    Returns:
        List of `size` different strings.

    Raises:
        ExportError: If two ids have the same token.
    """
    known = size if tokenizer is None else min(size, tokenizer.vocabulary_size)
    tokens = [str(id_) for id_ in range(known)]
    if tokenizer is not None:
        tokens = list(tokenizer.pieces(range(known)))
    # Ids of the model for which the tokenizer has no piece.
    tokens += [f"<unused_{id_}>" for id_ in range(known, size)]
    tokens = [token or f"<unused_{id_}>" for id_, token in enumerate(tokens)]
    for id_, token in special.items():
        tokens[id_] = token
    repeated = {token: id_ for id_, token in enumerate(tokens)}
    if len(repeated) < size:
        first = next(token for id_, token in enumerate(tokens) if repeated[token] != id_)
        raise ExportError(
            "Expected a vocabulary of different tokens, because CTranslate2 reads and returns "
            f"tokens. Received: a tokenizer with several ids for {first!r}. Export without "
            "tokenizers, so that the tokens are the ids as decimal numbers."
        )
    return tokens
