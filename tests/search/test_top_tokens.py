"""The most probable tokens at each position, against distributions that NumPy sorts."""

import numpy as np
import pytest

from keras_attn import (
    AlternativesDecoder,
    BeamDecoder,
    GreedyDecoder,
    SamplingDecoder,
    rnn_seq2seq,
)
from tests.contracts import assert_close, numpy
from tests.search.constrained_oracles import without_repetition
from tests.search.table_decoder import TableDecoder, log_probs_of, node_after, random_tables
from tests.search.test_host_loop import run_on_the_host
from tests.slow_cases import slow_on_jax

PAD, COUNT, LIMIT = 6, 4, 6
TABLES = random_tables(3, end_logit=1.0)
SEARCHES = {
    "greedy": (GreedyDecoder, {}),
    "one beam": (BeamDecoder, {"beam_width": 1}),
    "beams": (BeamDecoder, {"beam_width": 4, "num_hypotheses": 4, "patience": 2.0}),
    "groups": (BeamDecoder, {"beam_width": 4, "num_hypotheses": 3, "num_groups": 2}),
    "sampling": (SamplingDecoder, {"num_hypotheses": 3, "temperature": 1.5, "top_k": 4, "seed": 1}),
    "alternatives": (AlternativesDecoder, {"num_hypotheses": 4}),
}
REPETITION = {
    "repetition_penalty": 1.3,
    "no_repeat_ngram_size": 2,
    "suppressed_sequences": [[3, 4], [5, 5]],
}
RULES = {**REPETITION, "min_length": 2, "other_end_token_ids": [5], "force_end_token": True}
PREFIX_IDS = np.array([[4, 5], [3, PAD], [PAD, PAD], [5, 2], [4, 4], [0, 1]], "int32")


def make(name, forbids_tokens=False, **settings):
    search_class, own = SEARCHES[name]
    settings = {"max_length": LIMIT, "relative_max_length": None, "pad_token_id": PAD, **settings}
    settings = {"return_top_tokens": COUNT, **own, **settings}
    return search_class(TableDecoder(forbids_tokens=forbids_tokens), **settings)


def log_probs_at(search, table, tokens, prefix=()):
    """The log probabilities after some tokens, minus infinity for impossible ones."""
    if len(tokens) < len(prefix):
        return log_probs_of(table)(tokens)
    settings = {name: getattr(search, name) for name in REPETITION}
    after = without_repetition(lambda prefix: table[node_after(prefix, len(table))], **settings)
    log_probs = np.array(after(tokens))
    log_probs[search.suppressed_token_ids] = -np.inf
    ends = search.end_token_ids
    if isinstance(search, BeamDecoder):  # it considers the most probable end token
        log_probs[[each for each in ends if log_probs[each] < log_probs[ends].max()]] = -np.inf
    if len(tokens) < search.min_length:
        log_probs[ends] = -np.inf
    return log_probs


def assert_top_tokens(search, results, tables, prefixes=None):
    """Compares each position, and returns the lengths and the numbers of possible tokens."""
    lengths, numbers = set(), set()
    for row, table in enumerate(tables):
        prefix = () if prefixes is None else [each for each in prefixes[row] if each != PAD]
        for rank in range(results["token_ids"].shape[1]):
            found = {key: value[row, rank] for key, value in results.items()}
            tokens = tuple(found["token_ids"].tolist())
            after = tokens[found["lengths"] : found["lengths"] + 1]
            tokens = tokens[: found["lengths"] + (after != () and after[0] in search.end_token_ids)]
            for position in range(len(tokens)):
                log_probs = log_probs_at(search, table, tokens[:position], prefix)
                order = np.argsort(-log_probs, kind="stable")[:COUNT]
                values = np.maximum(log_probs[order], -1e9)
                assert_close(found["top_token_log_probs"][position], values, 1e-4)
                number = int((values > -1e9).sum())
                received = found["top_token_ids"][position]
                assert received[:number].tolist() == order[:number].tolist()
                assert len(set(received.tolist())) == COUNT
                numbers.add(number)
            assert (found["top_token_ids"][len(tokens) :] == PAD).all()
            assert (found["top_token_log_probs"][len(tokens) :] == 0).all()
            lengths.add(len(tokens))
    assert results["top_token_ids"].dtype == "int32"
    return lengths, numbers


@pytest.mark.parametrize("name", SEARCHES)
def test_top_tokens_are_the_first_of_the_sorted_distribution(name):
    search = make(name)
    lengths, numbers = assert_top_tokens(search, numpy(search(TABLES)), TABLES)
    assert len(lengths) > 2 and numbers == {COUNT}


@slow_on_jax
@pytest.mark.parametrize("name", SEARCHES)
def test_top_tokens_within_and_after_a_prefix_with_rules(name):
    search = make(name, **RULES)
    results = numpy(search(TABLES, prefix_ids=PREFIX_IDS))
    _, numbers = assert_top_tokens(search, results, TABLES, PREFIX_IDS)
    assert (
        COUNT in numbers and min(numbers) < COUNT - 1
    )  # in a prefix, and where tokens are impossible


@slow_on_jax
@pytest.mark.parametrize("name", ["greedy", "beams", "groups"])
def test_top_tokens_end_before_a_dead_end(name):
    tables = np.where(np.random.default_rng(1).random(TABLES.shape) < 0.6, -np.inf, TABLES)
    search = make(name, forbids_tokens=True)
    results = numpy(search(tables.astype("float32")))
    lengths, numbers = assert_top_tokens(search, results, tables)
    is_end = np.isin(results["token_ids"], search.end_token_ids).any(axis=-1)
    is_dead_end = ~is_end & (results["lengths"] < LIMIT) & (results["log_probs"] > -1e9)
    assert is_dead_end.any() and len(lengths) > 2 and len(numbers) > 2


@pytest.mark.parametrize("name", ["beams", "sampling"])
def test_host_loop_returns_the_same_top_tokens(name):
    results, *_ = run_on_the_host(make(name), TABLES)
    assert_close(results, numpy(make(name)(TABLES)))


def test_top_tokens_change_no_other_result():
    results, plain = numpy(make("beams")(TABLES)), make("beams", return_top_tokens=0)(TABLES)
    assert set(results) - set(plain) == {"top_token_ids", "top_token_log_probs"}
    assert_close({name: results[name] for name in plain}, numpy(plain))


def test_number_of_top_tokens_is_checked():
    for value in (-1, 1.5, "3"):
        with pytest.raises(ValueError, match="return_top_tokens to be an integer of at least 0"):
            make("greedy", return_top_tokens=value)
    message = "at most the size of the vocabulary, 7. Received: return_top_tokens=8"
    with pytest.raises(ValueError, match=message):
        make("greedy", return_top_tokens=8)(TABLES)
    encoder, decoder = rnn_seq2seq(9, 7, units=4, embedding_dim=4)
    with pytest.raises(ValueError, match=message):
        BeamDecoder(decoder, return_top_tokens=8)(**encoder(np.array([[5, 2]])))
