from typing import Any

import numpy as np

from keras_attn.export.trace.source_characters import max_source_characters

SENTENCES = 200
"""Sentences an export is compared on, at least."""


def parity_sentences(function: Any, tokenizer: Any = None, given: Any = None) -> Any:
    """The source sentences on which an export is compared with Keras.

    Args:
        function: `SearchFunction`.
        tokenizer: tokenizer of the source, needed if texts are given.
        given: optional list of texts, or of lists of ids as the encoder reads them.

    Returns:
        List of at least 200 lists of ids as the encoder reads them: those given, without the texts
        that have no tokens and cut to the default limit of characters, then random ones.

    Raises:
        ValueError: texts without a tokenizer, an empty list of ids, or ids outside the vocabulary.
    """
    source, sentences = function.source, list(given or [])
    texts = [sentence for sentence in sentences if isinstance(sentence, str)]
    if texts:
        if tokenizer is None or len(texts) < len(sentences):
            raise ValueError(
                "Expected sentences that are all lists of ids, or all texts together with a "
                f"source_tokenizer. Received: {len(texts)} texts, "
                f"{len(sentences) - len(texts)} others, source_tokenizer={tokenizer}."
            )
        most = max_source_characters(function)
        encoded = tokenizer.encode([text[:most] for text in texts])
        # The runtime does not run the model without tokens.
        sentences = [source.with_special_ids(ids) for ids in encoded if len(ids)]
    size = source.vocabulary_size
    for ids in sentences:
        if len(ids) == 0 or min(ids) < 0 or max(ids) >= size:
            raise ValueError(
                f"Expected lists of ids from 0 to {size - 1}, the end id included. "
                f"Received: {list(ids)}."
            )
    missing = max(0, SENTENCES - len(sentences))
    random = random_sentences(source, missing)
    return sentences + [source.with_special_ids(ids) for ids in random]


def parity_prefixes(function: Any, count: Any) -> Any:
    """What the translations of `count` sentences begin with when an export is compared.

    Returns:
        List of lists of 0 to 3 random ids, or `None` if the function is given no prefixes.
    """
    if not function.target_prefix:
        return None
    random = random_sentences(function.target, count, seed=1)
    return [ids[: number % 4] for number, ids in enumerate(random)]


def random_sentences(side: Any, count: Any, seed: int | None = 0) -> Any:
    """Sentences of 1 to 16 random ids.

    Args:
        side: `Side`, whose padding and end token are not drawn.
        count: int, number of sentences.
        seed: int, seed of the draw.

    Returns:
        List of lists of ints.
    """
    rng = np.random.default_rng(seed)
    left_out = [id_ for id_ in (side.pad_token_id, side.end_token_id) if id_ is not None]
    ids = np.setdiff1d(np.arange(side.vocabulary_size), left_out)
    return [rng.choice(ids, rng.integers(1, 17)).tolist() for _ in range(count)]
