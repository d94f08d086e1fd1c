"""Alternatives at a position, against a loop over the tokens in NumPy."""

import math

import numpy as np
import pytest

from keras_attn import AlternativesDecoder, GreedyDecoder
from keras_attn.testing import _search_oracles as search_oracles
from tests.backend import precision, requires_tensorflow
from tests.contracts import assert_close, assert_found, assert_identical, numpy
from tests.search.constrained_oracles import with_prefix, without_repetition
from tests.search.table_decoder import TableDecoder, log_probs_of, node_after, random_tables

LIMIT = 6
TABLES = random_tables(5, batch=6, end_logit=0.5)
PREFIXES = [(), (5,), (4, 4), (6, 3, 5), (3,), ()]
PREFIX_IDS = np.zeros((6, 3), "int32")
for row, prefix in zip(PREFIX_IDS, PREFIXES, strict=True):
    row[: len(prefix)] = prefix


def found(prefix_ids=PREFIX_IDS, call=None, tables=TABLES, **settings):
    settings = {"max_length": LIMIT, "relative_max_length": None, **settings}
    search = AlternativesDecoder(TableDecoder(), **settings)
    return numpy(search(tables, prefix_ids=prefix_ids, **(call or {})))


def alternatives(after, prefix, count, limit=LIMIT, length_penalty=1.0, **rules):
    """Returns the hypotheses of one sentence, which greedy searches continue."""

    def greedy(tokens):
        tokens, log_prob = search_oracles.greedy_search(with_prefix(after, tokens), limit, **rules)
        return search_oracles.hypothesis(tokens, log_prob, length_penalty)

    if len(prefix) >= limit or 2 in prefix:
        return [greedy(prefix)]
    log_probs = after(tuple(prefix))
    allowed = list(search_oracles.allowed_tokens(log_probs, tuple(prefix), **rules))
    ranked = sorted(allowed, key=lambda token: -log_probs[token])[:count]
    return [greedy((*prefix, token)) for token in ranked] or [greedy(prefix)]


def expected(count, prefixes=PREFIXES, logits=None, **rules):
    return [
        alternatives((logits or log_probs_of)(table), prefix, count, **rules)
        for table, prefix in zip(TABLES, prefixes, strict=True)
    ]


@pytest.mark.parametrize(
    "rules",
    [
        {"count": 1},
        {"count": 3, "length_penalty": 0.4},
        {"count": 5},  # all tokens but padding and the start token
        {"count": 4, "min_length": 3},
        {"count": 9, "suppressed": (0, 1, 2)},  # four possible tokens
    ],
    ids=str,
)
def test_hypotheses_have_the_most_probable_tokens_after_the_prefix(rules):
    settings = {"num_hypotheses": rules["count"]}
    settings |= {name: rules[name] for name in ("length_penalty", "min_length") if name in rules}
    if "suppressed" in rules:
        settings["suppressed_token_ids"] = list(rules["suppressed"])
    assert_found(found(**settings), expected(**rules))


def test_end_token_is_an_alternative():
    results = found(num_hypotheses=5)
    for row, prefix in enumerate(PREFIXES):
        is_end = results["token_ids"][row, :, len(prefix)] == 2
        assert is_end.sum() == 1
        assert results["lengths"][row, is_end] == [len(prefix)]


def test_first_hypothesis_is_that_of_greedy_search():
    results = found(num_hypotheses=3)
    greedy = GreedyDecoder(TableDecoder(), max_length=LIMIT, relative_max_length=None)
    greedy = numpy(greedy(TABLES, prefix_ids=PREFIX_IDS))
    for name in ("lengths", "scores"):
        assert_close(results[name][:, :1], greedy[name])


def test_without_prefix_the_first_tokens_differ():
    results = found(None, num_hypotheses=5)
    assert_found(results, expected(5, [()] * 6))
    assert {tuple(sorted(row)) for row in results["token_ids"][:, :, 0]} == {(2, 3, 4, 5, 6)}


def test_forced_prefix_comes_before_the_prefix():
    def logits(table):
        def after(prefix):
            log_probs = np.array(log_probs_of(table)(prefix))
            return np.where(np.arange(7) == 3, 0.0, log_probs) if not prefix else log_probs

        return after

    results = found(num_hypotheses=3, forced_prefix_ids=[3])
    prefixes = [(3, *prefix) for prefix in PREFIXES]
    assert_found(results, expected(3, prefixes, logits))
    assert (results["token_ids"][:, :, 0] == 3).all()


def test_repetition_rules_apply_to_the_alternatives():
    rules = {"no_repeat_ngram_size": 1, "repetition_penalty": 1.4}

    def logits(table):
        return without_repetition(lambda prefix: table[node_after(prefix, len(table))], **rules)

    def after(table, prefix):
        """The prefix is not penalized."""
        plain, ruled = log_probs_of(table), logits(table)
        return lambda tokens: (plain if len(tokens) < len(prefix) else ruled)(tokens)

    pairs = zip(TABLES, PREFIXES, strict=True)
    wanted = [alternatives(after(table, prefix), prefix, 5) for table, prefix in pairs]
    assert {len(row) for row in wanted} == {2, 4, 5}
    assert_found(found(num_hypotheses=5, **rules), wanted)


def test_token_log_probs_are_those_of_the_alternatives():
    results = found(num_hypotheses=4, return_token_log_probs=True, return_alignments=True)
    for row, prefix in enumerate(PREFIXES):
        log_probs = log_probs_of(TABLES[row])(prefix)
        ranked = np.sort(log_probs[2:])[::-1][:4]
        assert_close(results["token_log_probs"][row, :, len(prefix)], ranked.astype("float32"))
        nodes = results["alignments"][row, :, len(prefix)].argmax(axis=-1)
        assert (nodes == node_after(prefix, TABLES.shape[1])).all()
    assert_close(results["token_log_probs"].sum(axis=-1), results["log_probs"], 1e-5)


@pytest.mark.parametrize("force_end_token", [False, True])
def test_prefix_that_leaves_no_room_has_one_hypothesis(force_end_token):
    prefixes = np.array([[3, 4, 5], [3, 2, 0], [3, 4, 0]])
    limit = 3 if not force_end_token else 4
    results = found(
        np.pad(prefixes, ((0, 3), (0, 0))),
        num_hypotheses=3,
        max_length=limit,
        force_end_token=force_end_token,
    )
    missing = results["log_probs"] == np.float32(-1e9)
    assert missing[:3].tolist() == [[False, True, True], [False, True, True], [False] * 3]
    assert results["lengths"][:2].tolist() == [[3, 0, 0], [1, 0, 0]]
    assert not results["token_ids"][missing].any()
    assert (results["scores"][missing] == np.float32(-1e9)).all()
    nothing = found(num_hypotheses=2, max_length=0)
    assert nothing["log_probs"].tolist() == [[0, np.float32(-1e9)]] * 6


def test_dead_end_is_the_first_hypothesis():
    tables = np.full((1, 19, 7), -math.inf, "float32")
    tables[:, node_after((), 19), 3] = 0.0  # no token after 3
    search = AlternativesDecoder(TableDecoder(forbids_tokens=True), num_hypotheses=2, max_length=4)
    results = numpy(search(tables, prefix_ids=np.array([[3]])))
    assert results["lengths"].tolist() == [[1, 0]]
    assert results["log_probs"].tolist() == [[0, np.float32(-1e9)]]


@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_number_of_a_call(count):
    call = {"settings": {"num_hypotheses": count}}
    assert_identical(found(call=call, num_hypotheses=3), found(num_hypotheses=count))


@requires_tensorflow("a number that is not known when the search is traced")
def test_number_of_a_graph():
    import tensorflow as tf

    search = AlternativesDecoder(TableDecoder(), max_length=LIMIT, relative_max_length=None)

    @tf.function(input_signature=[tf.TensorSpec((), tf.int32)])
    def run(count):
        settings = {"num_hypotheses": count}
        return search(TABLES, prefix_ids=PREFIX_IDS, settings=settings)

    for count in (1, 3, 8):
        received = {name: value.numpy() for name, value in run(tf.constant(count)).items()}
        wanted = found(num_hypotheses=count)
        assert received["token_ids"].tolist() == wanted["token_ids"].tolist()
        assert_close(received["scores"], wanted["scores"])


def test_token_bias_and_mixed_precision():
    bias = {"token_bias_ids": np.array([[3, 6]]), "token_bias_values": np.array([[-1e9, 4.0]])}
    with precision("mixed_float16"):
        results = found(None, call=bias, num_hypotheses=4)
    firsts = results["token_ids"][:, :, 0]
    log_probs = np.stack([log_probs_of(table)(()) for table in TABLES])
    log_probs[:, [0, 1, 3]], log_probs[:, 6] = -np.inf, log_probs[:, 6] + 4
    assert firsts.tolist() == np.argsort(-log_probs, axis=1)[:, :4].tolist()


def test_result_does_not_depend_on_the_batch():
    together = found(num_hypotheses=4)
    for row in range(6):
        alone = found(PREFIX_IDS[row : row + 1], tables=TABLES[row : row + 1], num_hypotheses=4)
        assert_close(alone["scores"][0], together["scores"][row])
        time = alone["token_ids"].shape[2]
        assert alone["token_ids"][0].tolist() == together["token_ids"][row, :, :time].tolist()
