from collections.abc import Iterable

import numpy as np

from keras_attn.text._tokenizer import Tokenizer

_BLOCK = 2**20
"""Characters that are encoded at once, so that the lists of ids need little memory."""


def encode_documents(
    documents: Iterable[str], tokenizer: Tokenizer, *, separated: bool = False
) -> np.ndarray:
    """Encodes documents as one sequence of ids, for the training of a language model.

    Args:
        documents: Strings, such as those of `read_documents`.
        tokenizer: Tokenizer. A language model needs one that keeps spaces and line breaks, such as
            `SentencePieceTokenizer.train(..., normalizer="identity")`.
        separated: Bool, whether each document begins with the tokenizer's start token and ends with
            its end token. Defaults to `False`.

    Returns:
        One-dimensional int32 array, for `keras_attn.training.RandomWindows`.

    Example:

    ```python
    training, validation = read_documents("tunes.abc", separated=True)
    ids = encode_documents(training, tokenizer, separated=True)
    windows = RandomWindows(ids, 128, 16, start_token_id=tokenizer.start_token_id)
    ```
    """
    start, end = ([tokenizer.start_token_id], [tokenizer.end_token_id]) if separated else ([], [])
    parts: list[list[int] | np.ndarray] = [[]]
    for text in documents:
        blocks = [text[begin : begin + _BLOCK] for begin in range(0, len(text), _BLOCK)]
        parts.append(start)
        parts += [np.array(tokenizer.encode([block])[0], "int32") for block in blocks]
        parts.append(end)
    return np.concatenate(parts).astype("int32")
