"""Dead ends: the rules of a search, or the model, leave a hypothesis no token."""

import keras
import numpy as np
import pytest

from keras_attn import (
    AttentionRNNCell,
    BahdanauAttention,
    BeamDecoder,
    EnsembleDecoder,
    GreedyDecoder,
    RNNDecoder,
    SamplingDecoder,
)
from keras_attn._search.dead_ends import NO_RANK, ranks_of_dead_ends, ranks_to_scores
from keras_attn.testing import _search_oracles as search_oracles
from tests import oracles
from tests.contracts import assert_close, assert_found, assert_identical, numpy
from tests.search.constrained_oracles import without_repetition
from tests.search.table_decoder import TableDecoder, node_after, random_tables
from tests.search.test_host_loop import run_on_the_host
from tests.slow_cases import all_slow_but, slow_on_jax

pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of the oracles
LIMIT = 6
TABLES = random_tables(3, batch=6, vocabulary_size=6)  # of 6 tokens, 3 are words
NODES = TABLES.shape[1]
NO_REPEAT = {"no_repeat_ngram_size": 1, "min_length": LIMIT}  # every hypothesis is a dead end
SETTINGS = {"max_length": LIMIT, "relative_max_length": None}


def forbid_tokens(tables, share=0.6, seed=0):
    """Tables of a model that itself makes most words impossible, the end token nearly always."""
    rng = np.random.default_rng(seed)
    is_forbidden = rng.random(tables.shape) < share
    is_forbidden[:, :, :2] = False  # suppressed by the search; if all are, they are equally likely
    is_forbidden[:, :, 2] = rng.random(tables.shape[:2]) < 0.9
    return np.where(is_forbidden, np.float32(-1e9), tables)


def with_infinity(tables, share=0.0, seed=0):
    """Tables with minus infinity for impossible tokens, and for all tokens of a share of nodes."""
    is_dead_end = np.random.default_rng(seed).random(tables.shape[:2]) < share
    is_forbidden = (tables < -1e8) | is_dead_end[:, :, None]
    return np.where(is_forbidden, np.float32(-np.inf), tables)


def log_probs_after(table, no_repeat_ngram_size=0):
    logits = with_infinity(table[None])[0]

    def logits_after(prefix):
        return logits[node_after(prefix, len(table))]

    rules = {"no_repeat_ngram_size": no_repeat_ngram_size}
    return without_repetition(logits_after, **rules)


CASES = {
    "no token may repeat, none may end": (TABLES, NO_REPEAT),
    "no token may repeat, the model forbids others": (
        forbid_tokens(TABLES, share=0.3),
        {"no_repeat_ngram_size": 1, "min_length": 1},
    ),
    "no pair of tokens may repeat": (
        random_tables(5, batch=6, vocabulary_size=5),
        {"no_repeat_ngram_size": 2, "min_length": LIMIT},
    ),
    "all tokens are suppressed": (TABLES, {"suppressed_token_ids": range(6)}),
    "all words are suppressed at first": (
        TABLES,
        {"suppressed_token_ids": [0, 1, 3, 4, 5], "min_length": 1},
    ),
    "the model forbids tokens": (forbid_tokens(TABLES), {}),
    "the model forbids more tokens": (forbid_tokens(TABLES, share=0.75), {}),
    "the model forbids tokens by infinity": (with_infinity(forbid_tokens(TABLES)), {}),
    "the model forbids all tokens": (with_infinity(forbid_tokens(TABLES), share=0.4, seed=3), {}),
}


def expected_hypotheses(search, tables, rules, **arguments):
    rules = dict(rules)
    size = rules.pop("no_repeat_ngram_size", 0)
    if "suppressed_token_ids" in rules:
        rules["suppressed"] = rules.pop("suppressed_token_ids")
    return [search(log_probs_after(table, size), LIMIT, **rules, **arguments) for table in tables]


@pytest.mark.parametrize("case", CASES)
def test_dead_ends_of_a_wide_beam_equal_enumeration(case):
    tables, rules = CASES[case]
    search = BeamDecoder(
        TableDecoder(forbids_tokens=True),
        beam_width=81,
        num_hypotheses=12,
        stop="exact",
        **SETTINGS,
        **rules,
    )
    every = expected_hypotheses(search_oracles.every_hypothesis, tables, rules)
    assert any(is_dead_end(hypothesis) for hypotheses in every for hypothesis in hypotheses[:12])
    assert_found(numpy(search(tables)), [hypotheses[:12] for hypotheses in every])


def is_dead_end(hypothesis):
    tokens, length, *_ = hypothesis
    return tokens[-1:] != (2,) and length < LIMIT


def test_dead_ends_come_after_hypotheses_that_have_ended():
    tables, rules = CASES["the model forbids tokens"]
    every = expected_hypotheses(search_oracles.every_hypothesis, tables, rules)
    out_of_order = 0
    for hypotheses in every:
        are_dead_ends = [is_dead_end(hypothesis) for hypothesis in hypotheses]
        assert are_dead_ends == sorted(are_dead_ends)
        scores = [score for *_, score, _ in hypotheses]
        out_of_order += scores != sorted(scores, reverse=True)
    assert out_of_order >= 3  # so the test above sees dead ends with a better score


BEAMS = [
    {"beam_width": 4, "num_hypotheses": 4},
    {"beam_width": 1},
    {"beam_width": 2, "num_hypotheses": 2},
    {"beam_width": 4, "num_hypotheses": 4, "stop": "exact"},
    {"beam_width": 4, "num_hypotheses": 3, "form": "gnmt", "length_penalty": 0.6},
    {"beam_width": 3, "num_hypotheses": 3, "form": "average_with_end"},
    {"beam_width": 4, "num_hypotheses": 4, "num_groups": 2},
    {"beam_width": 6, "num_hypotheses": 6, "num_groups": 3, "patience": 2.0},
]


OF_BEAMS = [(case, BEAMS[0]) for case in CASES]
OF_BEAMS += [("the model forbids tokens", settings) for settings in BEAMS[1:]]


@pytest.mark.parametrize(
    ("case", "settings"),
    all_slow_but(*OF_BEAMS, cases=OF_BEAMS, on_jax=[*OF_BEAMS[:2], *OF_BEAMS[-4:]]),
    ids=str,
)
def test_dead_ends_of_a_beam_equal_a_slow_search(case, settings):
    tables, rules = CASES[case]
    expected = expected_hypotheses(search_oracles.beam_search, tables, rules, **settings)
    names = {"form": "length_penalty_form"}
    arguments = {names.get(name, name): value for name, value in settings.items()}
    search = BeamDecoder(TableDecoder(forbids_tokens=True), **SETTINGS, **rules, **arguments)
    assert_found(numpy(search(tables)), expected)


@pytest.mark.parametrize("case", CASES)
def test_dead_ends_of_greedy_search_equal_a_slow_search(case):
    tables, rules = CASES[case]
    expected = [
        [search_oracles.hypothesis(*found)]
        for found in expected_hypotheses(search_oracles.greedy_search, tables, rules)
    ]
    greedy = numpy(GreedyDecoder(TableDecoder(forbids_tokens=True), **SETTINGS, **rules)(tables))
    assert_found(greedy, expected)
    sampled = numpy(
        SamplingDecoder(
            TableDecoder(forbids_tokens=True), num_hypotheses=1, top_k=1, **SETTINGS, **rules
        )(tables)
    )
    for name in ("token_ids", "lengths", "log_probs"):
        assert_close(sampled[name], greedy[name])


@pytest.mark.parametrize("kept", [{}, {"top_p": 0.9}, {"top_k": 3}, {"min_p": 0.1}], ids=str)
def test_dead_ends_of_samples_are_words_alone(kept):
    settings = {**SETTINGS, **NO_REPEAT, **kept, "return_token_log_probs": True}
    results = numpy(
        SamplingDecoder(TableDecoder(forbids_tokens=True), num_hypotheses=20, seed=1, **settings)(
            TABLES
        )
    )
    assert (results["lengths"] == 3).all()
    assert set(results["token_ids"][:, :, :3].flat) == {3, 4, 5}
    assert not results["token_ids"][:, :, 3:].any()
    assert_close(results["token_log_probs"].sum(axis=-1), results["log_probs"])
    for table, row in zip(TABLES, range(len(TABLES)), strict=True):
        after = log_probs_after(table, 1)
        for tokens, log_prob in zip(
            results["token_ids"][row, :, :3].tolist(), results["log_probs"][row], strict=True
        ):
            expected = sum(after(tuple(tokens[:t]))[tokens[t]] for t in range(3))
            assert_close(log_prob, expected, 1e-4)


SEARCHES = {
    "greedy": GreedyDecoder,
    "beam": lambda *args, **kwargs: BeamDecoder(*args, beam_width=4, num_hypotheses=4, **kwargs),
    "groups": lambda *args, **kwargs: BeamDecoder(
        *args, beam_width=4, num_hypotheses=4, num_groups=2, **kwargs
    ),
    "sampling": lambda *args, **kwargs: SamplingDecoder(*args, num_hypotheses=3, seed=1, **kwargs),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_dead_ends_have_alignments_and_log_probs_of_their_tokens_alone(name):
    tables, rules = CASES["the model forbids tokens"]
    requested = {"return_alignments": True, "return_token_log_probs": True}
    results = numpy(
        SEARCHES[name](TableDecoder(forbids_tokens=True), **SETTINGS, **rules, **requested)(tables)
    )
    num_dead_ends = 0
    for row, table in enumerate(tables):
        after = log_probs_after(table)
        for rank in range(results["lengths"].shape[1]):
            found = {key: value[row, rank] for key, value in results.items()}
            if found["log_probs"] == np.float32(-1e9):
                continue
            has_end = found["token_ids"][found["lengths"] :][:1].tolist() == [2]
            tokens = tuple(found["token_ids"][: found["lengths"] + has_end].tolist())
            num_dead_ends += is_dead_end((tokens, found["lengths"]))
            expected = [after(tokens[:t])[token] for t, token in enumerate(tokens)]
            assert_close(found["token_log_probs"][: len(tokens)], np.array(expected), 1e-4)
            assert not found["token_log_probs"][len(tokens) :].any()
            nodes = [node_after(tokens[:t], len(table)) for t in range(len(tokens))]
            assert found["alignments"][: len(tokens)].argmax(axis=-1).tolist() == nodes
            assert not found["alignments"][len(tokens) :].any()
    assert num_dead_ends > 3


def test_dead_ends_have_the_coverage_of_their_tokens_alone():
    weight = 0.5
    settings = {"beam_width": 6, "num_hypotheses": 6}
    search = BeamDecoder(
        TableDecoder(forbids_tokens=True),
        **SETTINGS,
        **NO_REPEAT,
        **settings,
        coverage_penalty=weight,
    )
    expected = []
    for table in TABLES:

        def penalty(tokens):
            coverage = np.zeros(NODES)
            for t in range(len(tokens)):
                coverage[node_after(tokens[:t], NODES)] += 1
            return weight * np.log(np.minimum(coverage[coverage > 0], 1)).sum()

        after = log_probs_after(table, 1)
        rules = {"min_length": LIMIT, **settings}
        expected.append(search_oracles.beam_search(after, LIMIT, more=penalty, **rules))
    assert_found(numpy(search(TABLES)), expected)


@slow_on_jax
@pytest.mark.parametrize("name", SEARCHES)
def test_dead_ends_in_the_loop_of_a_host_show_the_tokens_so_far(name):
    tables, rules = CASES["no token may repeat, none may end"]
    results, shown, done = run_on_the_host(
        SEARCHES[name](TableDecoder(forbids_tokens=True), **SETTINGS, **rules), tables
    )
    expected = numpy(SEARCHES[name](TableDecoder(forbids_tokens=True), **SETTINGS, **rules)(tables))
    for key in ("token_ids", "lengths", "scores", "log_probs"):
        assert_close(results[key], expected[key])
    assert done[-1].all() and not done[-2].any()
    best = results["token_ids"][:, 0, : shown[-1].shape[1]]
    np.testing.assert_array_equal(shown[-1], best)


@pytest.mark.parametrize("name", SEARCHES)
def test_dead_ends_after_a_prefix_keep_the_prefix(name):
    """The rules hold after a prefix; a prefix may have what they forbid."""
    prefixes = [(3, 3, 4), (5,), (), (4, 3, 5), (5, 5, 5, 5), (3, 4)]
    prefix_ids = np.zeros((6, 4), "int32")
    for row, prefix in zip(prefix_ids, prefixes, strict=True):
        row[: len(prefix)] = prefix
    search = SEARCHES[name](TableDecoder(forbids_tokens=True), **SETTINGS, **NO_REPEAT)
    results = numpy(search(TABLES, prefix_ids=prefix_ids))
    for row, prefix in enumerate(prefixes):
        tokens = results["token_ids"][row, 0].tolist()
        length = results["lengths"][row, 0]
        assert tuple(tokens[: len(prefix)]) == prefix
        missing = {3, 4, 5} - set(prefix)
        assert length == min(LIMIT, len(prefix) + len(missing))
        assert set(tokens[len(prefix) : length]) <= missing
        assert not any(tokens[length:])
        assert results["log_probs"][row, 0] > -1e3


@pytest.mark.parametrize("name", ["sampling", "groups"])
def test_dead_ends_do_not_depend_on_other_sentences(name):
    tables, rules = CASES["the model forbids tokens"]
    given = {"seeds": np.arange(6, dtype="int32")} if name == "sampling" else {}
    search = SEARCHES[name](TableDecoder(forbids_tokens=True), **SETTINGS, **rules)
    results = numpy(search(tables, **given))
    for row in (0, 4):
        own = {key: value[row : row + 1] for key, value in given.items()}
        alone = numpy(search(tables[row : row + 1], **own))
        time = alone["token_ids"].shape[2]
        assert not results["token_ids"][row, :, time:].any()
        assert_close(alone["token_ids"], results["token_ids"][row : row + 1, :, :time])
        for key in ("lengths", "scores", "log_probs"):
            assert_close(alone[key], results[key][row : row + 1])


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("other", ["start_token_id", "pad_token_id"])
def test_dead_ends_where_the_end_is_the_start_or_padding_too(name, other):
    search = SEARCHES[name](
        TableDecoder(forbids_tokens=True), **SETTINGS, **NO_REPEAT, **{other: 2}
    )
    results = numpy(search(TABLES))
    pad = search.pad_token_id
    # Without a token of its own for the start or padding, one more is a word.
    words = {3, 4, 5} | ({0} if other == "pad_token_id" else {1})
    assert (results["lengths"][:, 0] == len(words)).all()
    for tokens in results["token_ids"][:, 0]:
        assert set(tokens[: len(words)].tolist()) == words
        assert (tokens[len(words) :] == pad).all()
    assert_close(results["scores"][:, 0], scores_of(results, len(words), name)[:, 0], 1e-5)


def scores_of(results, length, name):
    return results["log_probs"] / (1 if name == "sampling" else length)


def test_dead_ends_of_an_ensemble():
    members = []
    for _ in range(2):
        cell = AttentionRNNCell(keras.layers.GRUCell(4), BahdanauAttention(4))
        members.append(RNNDecoder(cell, keras.layers.Embedding(6, 4), head=keras.layers.Dense(6)))
    outputs = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    ensemble = EnsembleDecoder(members)
    results = numpy(GreedyDecoder(ensemble, **SETTINGS, **NO_REPEAT)(outputs))
    tokens = results["token_ids"][:, 0, :3]
    assert (results["lengths"] == 3).all() and (np.sort(tokens) == [3, 4, 5]).all()
    assert_close(
        numpy(BeamDecoder(ensemble, beam_width=1, **SETTINGS, **NO_REPEAT)(outputs)), results
    )
    inputs = np.concatenate([np.ones((3, 1), "int32"), tokens[:, :2]], axis=1)
    log_probs = oracles.log_softmax(numpy(ensemble(inputs, outputs)))  # (3, 3, 6)
    own = np.take_along_axis(log_probs, tokens[..., None], axis=2).sum(axis=(1, 2))
    assert_close(results["log_probs"][:, 0], own, 1e-4)


def test_ranks_sort_dead_ends_last_and_keep_scores():
    rng = np.random.default_rng(0)
    magnitudes = np.exp(rng.uniform(-20, 18, 400))
    scores = np.concatenate([-magnitudes, [0.0, 1e-6, -1e-6, -4e8]]).astype("float32")
    ranks = numpy(ranks_of_dead_ends(scores))
    assert ranks.max() < -1e9 and ranks.min() > NO_RANK  # all others are below and above
    sorted_scores = scores[np.argsort(-ranks, kind="stable")]
    assert (np.diff(sorted_scores) <= 1e-9).all()
    np.testing.assert_allclose(numpy(ranks_to_scores(ranks)), scores, rtol=2e-7, atol=1e-9)
    assert_identical(numpy(ranks_to_scores(scores)), scores)  # of hypotheses that have ended
    assert ranks_to_scores(np.float32(NO_RANK)) == np.float32(-1e9)


def test_a_search_without_such_rules_does_not_look_for_dead_ends():
    def may_reach_dead_end(forbids_tokens=False, **rules):
        search = BeamDecoder(TableDecoder(forbids_tokens), **rules)
        return search.may_reach_dead_end(6, search.call_settings())

    assert not may_reach_dead_end() and not may_reach_dead_end(min_length=5)
    assert not may_reach_dead_end(suppressed_token_ids=[0, 1, 3, 4], min_length=1)
    assert may_reach_dead_end(no_repeat_ngram_size=4) and may_reach_dead_end(True)
    assert may_reach_dead_end(suppressed_token_ids=[0, 1, 3, 4, 5], min_length=1)
