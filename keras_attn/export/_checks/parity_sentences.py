from collections.abc import Sequence

import numpy as np

from keras_attn._models.vocabulary_side import Side
from keras_attn._search.constraints import NO_TOKEN
from keras_attn.export._trace.search_function import (
    TOKEN_BIAS_IDS,
    TOKEN_BIAS_VALUES,
    SearchFunction,
)
from keras_attn.export._trace.source_characters import max_source_characters
from keras_attn.export._types import Arrays, ExportTokenizer
from keras_attn_checks.export_options import Sentences

SENTENCES, FEW_SENTENCES = 200, 80
"""Minimum number of sentences for the comparison of an export, and the number for a large model."""

FEW_TOKENS = 40_000
"""Number of tokens of a `TokenBudget` below which `FEW_SENTENCES` are compared."""

USUAL_LENGTHS = (1, 16)
"""Smallest and largest number of tokens of random sentences."""

LONGEST = 64
"""Number of tokens of the last random sentence."""


def parity_sentences(
    source: Side,
    tokenizer: ExportTokenizer | None = None,
    given: Sentences | None = None,
    count: int = SENTENCES,
) -> list[Sequence[int]]:
    """Returns the source sentences for the comparison of an export with Keras.

    Args:
        source: `Side` of the source.
        tokenizer: Tokenizer of the source, required for texts.
        given: List of texts, or of lists of ids as the encoder reads them, or `None`.
        count: Int, minimum number of sentences. Defaults to `200`.

    Returns:
        List of lists of ids as the encoder reads them: first the given sentences, then random ones.
        The last random sentence has 64 tokens. Given texts are truncated to the default limit of
        characters and to the learned positions. Texts without tokens are left out.

    Raises:
        ValueError: If `given` is a single string, or there are texts without a tokenizer, an empty
            list of ids, ids outside of the vocabulary, or more ids than learned positions.
    """
    if isinstance(given, str):
        raise ValueError(
            f"Expected a list of sentences. Received: parity_sentences={given!r}. Read a file with "
            "keras_attn.files.read_lines."
        )
    sentences = list(given or [])
    texts = [sentence for sentence in sentences if isinstance(sentence, str)]
    rows = [sentence for sentence in sentences if not isinstance(sentence, str)]
    if texts:
        if tokenizer is None or rows:
            raise ValueError(
                "Expected sentences that are all lists of ids, or all texts together with a "
                f"source_tokenizer. Received: {len(texts)} texts, "
                f"{len(rows)} others, source_tokenizer={tokenizer}."
            )
        most = max_source_characters(source)
        encoded = tokenizer.encode([text[:most] for text in texts])
        # The runtime does not run the model on sentences without tokens.
        rows = [source.with_special_ids(ids[: source.max_length]) for ids in encoded if len(ids)]
    size = source.vocabulary_size or 0
    for ids in rows:
        if len(ids) == 0 or min(ids) < 0 or max(ids) >= size:
            raise ValueError(
                f"Expected lists of ids from 0 to {size - 1}, the end id included. "
                f"Received: {list(ids)}."
            )
        if source.max_row_length is not None and len(ids) > source.max_row_length:
            raise ValueError(
                f"Expected lists of at most {source.max_row_length} ids, the number of learned "
                f"positions. Received: a list of {len(ids)} ids. Shorten it."
            )
    missing = max(0, count - len(rows))
    random = random_sentences(source, missing)
    if random:
        longest = random_sentences(source, 1, seed=2, lengths=(LONGEST, LONGEST))
        random[-1:] = longest
    return rows + [source.with_special_ids(ids) for ids in random]


def parity_prefixes(function: SearchFunction, count: int) -> list[list[int]] | None:
    """Returns the target prefixes of `count` sentences for the comparison of an export with Keras.

    Returns:
        List of lists of 0 to 3 random ids, or `None` if prefixes are not an input of the function.
    """
    if not function.accept_target_prefix:
        return None
    random = random_sentences(function.target, count, seed=1)
    return [ids[: number % 4] for number, ids in enumerate(random)]


def parity_constraints(function: SearchFunction, count: int) -> np.ndarray | None:
    """Returns the phrases of `count` sentences for the comparison of an export with Keras.

    Returns:
        Int32 array of shape `(count, 2, 2, 2)`: random phrases in three of four sentences, with
        alternatives of one and two tokens. `None` if constraints are not an input of the
        function.
    """
    if not function.accept_constraints:
        return None
    search, rng = function.search, np.random.default_rng(4)
    never = [*search.end_token_ids, *search.suppressed_token_ids, search.pad_token_id]
    ids = np.setdiff1d(np.arange(function.target.vocabulary_size or 0), never)
    constraints = np.full((count, 2, 2, 2), NO_TOKEN, "int32")
    if ids.size:
        constraints[:, 0, 0] = rng.choice(ids, (count, 2))
        constraints[:, 1, :, 0] = rng.choice(ids, (count, 2))
        constraints[1::4, 0, 1, 0] = rng.choice(ids, constraints[1::4].shape[0])
    constraints[3::4] = NO_TOKEN
    return constraints


def parity_token_bias(function: SearchFunction, count: int) -> Arrays | None:
    """Returns random token biases for the comparison of an export with Keras.

    Returns:
        Dict of `token_bias_ids` and `token_bias_values`, arrays of shape `(count, 3)`; every fourth
        sentence has no biases, and one in six values forbids its token. `None` if they are not
        inputs of the function.
    """
    if not function.accept_token_bias:
        return None
    rng = np.random.default_rng(5)
    ids = rng.integers(0, function.target.vocabulary_size or 1, (count, 3)).astype("int32")
    ids[3::4] = NO_TOKEN
    values = rng.uniform(-5, 2, (count, 3)).astype("float32")
    values[::2, 1] = -1e9
    return {TOKEN_BIAS_IDS: ids, TOKEN_BIAS_VALUES: values}


def parity_rule_inputs(function: SearchFunction, count: int) -> Arrays:
    """Returns test values for the `rule_inputs` of a search, to compare an export with Keras.

    Returns:
        Dict of arrays: a row for each of `count` sentences, or a scalar. Floats differ randomly
        from the default. Integers are the default, because other integers could be invalid.
    """
    values = {}
    for name, each in function.rule_inputs.items():
        default = each.default_array
        if each.shape != "scalar":
            default = np.repeat(default, count, axis=0)
        if each.dtype == "float32":
            rng = np.random.default_rng(6)
            default = default * rng.uniform(0.5, 1.5, default.shape) + rng.uniform(0, 0.5)
        values[name] = np.array(default, each.dtype)  # an array, not a NumPy number
    return values


def random_sentences(
    side: Side, count: int, seed: int | None = 0, lengths: tuple[int, int] = USUAL_LENGTHS
) -> list[list[int]]:
    """Returns sentences of random ids.

    Args:
        side: `Side` with the vocabulary size and the maximum length. The padding id and the end id
            are never drawn.
        count: Int, number of sentences.
        seed: Int, random seed.
        lengths: Tuple of the smallest and the largest number of ids. Defaults to `(1, 16)`.

    Returns:
        List of lists of ints.
    """
    rng = np.random.default_rng(seed)
    left_out = [id_ for id_ in (side.pad_token_id, side.end_token_id) if id_ is not None]
    ids = np.setdiff1d(np.arange(side.vocabulary_size or 0), left_out)
    shortest, longest = lengths
    sentences = [rng.choice(ids, rng.integers(shortest, longest + 1)) for _ in range(count)]
    return [sentence[: side.max_length].tolist() for sentence in sentences]
