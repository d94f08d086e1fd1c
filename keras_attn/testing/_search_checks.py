import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from keras import tree

from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._search.beam_decoder import BeamDecoder
from keras_attn._search.greedy_decoder import GreedyDecoder
from keras_attn._search.histories import HISTORIES
from keras_attn._search.search import Search
from keras_attn.testing import _search_oracles as search_oracles
from keras_attn.testing._arrays import (
    assert_close,
    pad_source,
    randomize,
    require,
    to_numpy,
    to_tensors,
)

PAD, START, END = 0, 1, 2

Found = TypeVar("Found")


def check_search(
    make_decoder: Callable[[], StepDecoder],
    encoded: Mapping[str, np.ndarray],
    vocabulary_size: int = 5,
    max_length: int = 4,
) -> None:
    """Checks that searches with a decoder find the best hypotheses and score them correctly.

    The function computes the probabilities of all sequences of a small vocabulary with `call`, runs
    reference searches in NumPy, and checks that:

    - A `BeamDecoder` with a sufficiently large beam finds the best of all hypotheses.
    - `GreedyDecoder` and a `BeamDecoder` with one beam find the greedy hypothesis.
    - A `BeamDecoder` with three beams finds the same hypotheses as the reference.
    - Scores and log probabilities match the generated tokens. Alignments, if any, are equal to the
      alignments of steps with these tokens.
    - Padding of the source and other sentences of the batch do not change the results.

    Args:
        make_decoder: Function without arguments that returns a new `StepDecoder` with
            `vocabulary_size` tokens: 0 is padding, 1 the start token and 2 the end token.
        encoded: Dict of NumPy arrays, see `check_decoder`.
        vocabulary_size: Int, number of tokens. It must be small, because the function enumerates
            all sequences. Defaults to `5`.
        max_length: Int, maximum number of tokens of a hypothesis. Defaults to `4`.

    Raises:
        AssertionError: If a requirement is not satisfied. The message names the requirement.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import RNNDecoder
    >>> from keras_attn.testing import check_search
    >>> def make_decoder():
    ...     return RNNDecoder(
    ...         keras.layers.GRUCell(6), keras.layers.Embedding(5, 4), head=keras.layers.Dense(5)
    ...     )
    >>> encoded = {
    ...     "encoder_outputs": np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32"),
    ...     "encoder_mask": np.arange(4) < np.array([[3], [4]]),
    ... }
    >>> check_search(make_decoder, encoded, max_length=3)
    """
    decoder = make_decoder()
    logits = decoder(np.full((len(encoded["encoder_mask"]), 1), START, "int32"), **encoded)
    require(
        logits.shape[-1] == vocabulary_size,
        f"Expected `call` to return logits of {vocabulary_size} tokens. Received: logits with "
        f"shape {tuple(logits.shape)}.",
    )
    randomize(decoder, scale=1.0)
    tables = _teacher_forced(decoder, encoded, vocabulary_size, max_length)
    widest = (vocabulary_size - 3) ** (max_length - 1) * (vocabulary_size - 2)

    def expected(search: Callable[..., Found], **arguments: object) -> list[Found]:
        return [search(table.__getitem__, max_length, **arguments) for table in tables]

    exact = BeamDecoder(
        decoder, beam_width=widest, num_hypotheses=3, stop="exact", max_length=max_length
    )
    every = [hypotheses[:3] for hypotheses in expected(search_oracles.every_hypothesis)]
    assert_found(to_numpy(exact(**encoded)), every, search="a BeamDecoder with all hypotheses open")

    greedy = [
        [search_oracles.hypothesis(*tokens_and_log_prob, length_penalty=0.7)]
        for tokens_and_log_prob in expected(search_oracles.greedy_search)
    ]
    arguments: dict[str, Any] = {"max_length": max_length, "length_penalty": 0.7}
    for name, search in (
        ("a GreedyDecoder", GreedyDecoder(decoder, **arguments)),
        ("a BeamDecoder with one beam", BeamDecoder(decoder, beam_width=1, **arguments)),
    ):
        assert_found(to_numpy(search(**encoded)), greedy, search=name)

    memory = decoder.prepare_memory(**to_tensors(encoded))
    state = decoder.initial_state(memory, alignments=True, max_length=max_length)
    has_alignments = "alignments" in state
    sizes: dict[str, Any] = {"beam_width": 3, "num_hypotheses": 2}
    beam = BeamDecoder(decoder, **sizes, max_length=max_length, return_alignments=has_alignments)
    results = to_numpy(beam(**encoded))
    expected_hypotheses = expected(search_oracles.beam_search, **sizes)
    assert_found(results, expected_hypotheses, search="a BeamDecoder with three beams")
    if has_alignments:
        _check_alignments(decoder, encoded, results)
    check_padding_and_batch(beam, encoded)


def check_padding_and_batch(search: Search, encoded: Mapping[str, np.ndarray]) -> None:
    """Checks that results do not depend on padding or on other sentences of the batch."""
    results = to_numpy(search(**encoded))
    columns = 3
    padded = to_numpy(search(**pad_source(encoded, columns)))
    if "alignments" in padded:
        require(
            not padded["alignments"][..., -columns:].any(),
            "Expected alignments of 0 at padding of the source.",
        )
        padded["alignments"] = padded["alignments"][..., :-columns]
    message = "Expected results of a search that do not depend on padding of the source."
    assert_close(padded, results, message=message)
    message = "Expected results of a search that do not depend on the other sentences of a batch."
    for row in range(len(encoded["encoder_mask"])):
        alone = tree.map_structure(lambda leaf: leaf[row : row + 1], encoded)  # noqa: B023
        alone = to_numpy(search(**alone))
        time = alone["token_ids"].shape[2]
        for name, values in results.items():
            same = values[row : row + 1]
            if name in HISTORIES:
                require(not same[:, :, time:].any(), message)  # other sentences may need more steps
                same = same[:, :, :time]
            assert_close(alone[name], same, message=message)


def assert_found(
    results: Mapping[str, np.ndarray],
    expected: Sequence[Sequence[search_oracles.Hypothesis]],
    tolerance: float = 1e-4,
    search: str = "a search",
) -> None:
    """Compares the results of a search with expected hypotheses.

    Args:
        results: Dict of NumPy arrays, the results of a search.
        expected: List with one list of hypotheses per sentence, best first. A hypothesis is a tuple
            of tokens, length, score and log probability. If a list has fewer hypotheses than the
            results, the remaining results must be marked as missing.
        tolerance: Float. Defaults to `1e-4`.
        search: String, name of the search in error messages.

    Raises:
        AssertionError: If hypotheses or scores differ.
    """
    count = results["token_ids"].shape[1]
    require(
        len(expected) == len(results["token_ids"]) and max(map(len, expected)) <= count,
        f"Expected {search} to return at least {max(map(len, expected))} hypotheses for each of "
        f"{len(expected)} sentences. Received: {results['token_ids'].shape[:2]}.",
    )
    for row, hypotheses in enumerate(expected):
        for rank in range(count):
            entry = {name: values[row, rank] for name, values in results.items()}
            place = f"hypothesis {rank} of sentence {row}"
            if rank >= len(hypotheses):
                is_missing = (
                    entry["scores"] == entry["log_probs"] == np.float32(-1e9)
                    and entry["lengths"] == 0
                    and not entry["token_ids"].any()
                )
                require(is_missing, f"Expected {search} to find no {place}. Received: {entry}.")
                continue
            tokens, length, score, log_prob = hypotheses[rank]
            tokens = [int(token) for token in tokens]
            padded = entry["token_ids"].tolist()
            require(
                padded[: len(tokens)] == tokens and not any(padded[len(tokens) :]),
                f"Expected {search} to find the tokens {tokens} as {place}. Received: {padded}.",
            )
            require(
                entry["lengths"] == length,
                f"Expected {search} to return the length {length} for {place}. Received: "
                f"{entry['lengths']}.",
            )
            for name, value in (("scores", score), ("log_probs", log_prob)):
                message = f"Expected {search} to return the {name} of the tokens for {place}."
                assert_close(entry[name], value, tolerance, message)


def _teacher_forced(
    decoder: StepDecoder, encoded: Mapping[str, np.ndarray], vocabulary_size: int, max_length: int
) -> list[dict[search_oracles.Tokens, np.ndarray]]:
    """Returns a dict from prefixes to log probabilities `(V,)` for each sentence."""
    inner = range(END + 1, vocabulary_size)
    sequences = list(itertools.product(inner, repeat=max_length - 1))
    token_ids = np.array([(START, *sequence) for sequence in sequences], "int32")
    tables = []
    for row in range(len(encoded["encoder_mask"])):
        copies = np.full(len(sequences), row)
        encoded_copies = tree.map_structure(lambda leaf: leaf[copies], encoded)  # noqa: B023
        logits = decoder(token_ids, **encoded_copies)
        log_probs = to_numpy(decoder.compute_log_probs(logits))
        tables.append(
            {
                sequence[:length]: following[length]
                for sequence, following in zip(sequences, log_probs, strict=True)
                for length in range(max_length)
            }
        )
    return tables


def _check_alignments(
    decoder: StepDecoder, encoded: Mapping[str, np.ndarray], results: Mapping[str, np.ndarray]
) -> None:
    """Checks that alignments equal the alignments of steps with the tokens of a hypothesis."""
    alignments = results["alignments"]
    for rank in range(alignments.shape[1]):
        token_ids = results["token_ids"][:, rank]
        memory = decoder.prepare_memory(**to_tensors(encoded))
        steps = token_ids.shape[1]
        state = decoder.initial_state(memory, alignments=True, max_length=steps)
        last = np.full(len(token_ids), START, "int32")
        for t in range(steps):
            _, state = decoder.step(last, state, memory)
            last = token_ids[:, t]
            expected = np.where((last != PAD)[:, None], to_numpy(state["alignments"]), 0)
            message = (
                f"Expected the alignments of hypothesis {rank} at position {t} to equal the "
                "alignments of decoder steps with its tokens."
            )
            assert_close(alignments[:, rank, t], expected, message=message)
