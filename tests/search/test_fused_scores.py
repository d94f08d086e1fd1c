"""All searches with a `FusedDecoder`, whose scores must not be normalized."""

import numpy as np
import pytest

from keras_attn import (
    AlternativesDecoder,
    BeamDecoder,
    EnsembleDecoder,
    FusedDecoder,
    GreedyDecoder,
    SamplingDecoder,
)
from keras_attn.testing import _search_oracles as search_oracles
from tests import oracles
from tests.contracts import assert_close, assert_found, numpy
from tests.search.constrained_oracles import with_prefix
from tests.search.table_decoder import TableDecoder, node_after, random_tables
from tests.search.table_language_model import TableLanguageModel
from tests.slow_cases import slow_on_jax

LIMIT = 4
TABLES = random_tables(3, batch=4, vocabulary_size=6, end_logit=1.0)
MODEL_TABLE = random_tables(4, batch=1, nodes=7, vocabulary_size=6)[0]
WEIGHT = 0.7
BEAM = {"beam_width": 3, "num_hypotheses": 2, "max_length": LIMIT, "relative_max_length": None}
GREEDY = {"max_length": LIMIT, "relative_max_length": None}


def fused_scores(table, model_table=MODEL_TABLE, weight=WEIGHT, repetition_penalty=1.0):
    """Returns the function `log_probs_after` of the oracles, for one row of `TABLES`."""

    def log_softmax(logits):  # of a row whose logits are all impossible, they remain impossible
        return oracles.log_softmax(logits) if logits.max() > -np.inf else logits

    def scores_after(prefix):
        scores = log_softmax(table[node_after(prefix, len(table))])
        scores = scores + weight * log_softmax(model_table[node_after(prefix, len(model_table))])
        for token in set(prefix):
            scores[token] *= repetition_penalty
        return scores

    return scores_after


def decoder(model_table=MODEL_TABLE, weight=WEIGHT, forbids_tokens=False):
    model = TableLanguageModel(model_table, forbids_tokens)
    return FusedDecoder(TableDecoder(forbids_tokens), model, weight)


def no_hypotheses_are_equal():
    """Whether the language model and the missing normalization change the best hypotheses."""
    found = [
        [search_oracles.every_hypothesis(after, LIMIT)[0] for after in each]
        for each in (
            [fused_scores(table) for table in TABLES],
            [fused_scores(table, weight=0.0) for table in TABLES],
            [_normalized(fused_scores(table)) for table in TABLES],
        )
    ]
    first, *others = found
    return all([each[0] for each in first] != [each[0] for each in other] for other in others)


def _normalized(scores_after):
    return lambda prefix: oracles.log_softmax(scores_after(prefix))


@pytest.mark.parametrize("repetition_penalty", [1.0, 1.5])
def test_a_wide_beam_search_finds_the_best_of_all_hypotheses(repetition_penalty):
    assert no_hypotheses_are_equal()
    search = BeamDecoder(
        decoder(),
        **{**BEAM, "beam_width": 300, "num_hypotheses": 6, "stop": "exact"},
        repetition_penalty=repetition_penalty,
    )
    expected = [
        search_oracles.every_hypothesis(
            fused_scores(table, repetition_penalty=repetition_penalty), LIMIT
        )[:6]
        for table in TABLES
    ]
    assert_found(numpy(search(TABLES)), expected)


@slow_on_jax
@pytest.mark.parametrize("stop", ["collected", "heuristic", "exact"])
def test_a_beam_search_compares_the_scores(stop):
    results = numpy(BeamDecoder(decoder(), **BEAM, stop=stop, return_token_log_probs=True)(TABLES))
    expected = [
        search_oracles.beam_search(fused_scores(table), LIMIT, 3, 2, stop=stop) for table in TABLES
    ]
    sums = results.pop("token_log_probs").sum(axis=2)
    assert_found(results, expected)
    assert_close(sums, results["log_probs"], 1e-5)


@pytest.mark.parametrize("score_prefix", [True, False])
def test_prefixes_are_scored_with_both_models(score_prefix):
    prefix, options = [4, 3], {**GREEDY, "score_prefix": score_prefix}
    results = numpy(GreedyDecoder(decoder(), **options)(TABLES, prefix_ids=np.array([prefix])))
    for row, table in enumerate(TABLES):
        after = fused_scores(table)
        tokens, score = search_oracles.greedy_search(with_prefix(after, prefix), LIMIT)
        if not score_prefix:
            score -= sum(after(tuple(prefix[:n]))[prefix[n]] for n in range(2))
        assert results["token_ids"][row, 0, : len(tokens)].tolist() == list(tokens)
        assert_close(results["log_probs"][row, 0], np.float32(score))


def test_alternatives_are_ranked_by_the_scores():
    results = numpy(AlternativesDecoder(decoder(), num_hypotheses=3, **GREEDY)(TABLES))
    for row, table in enumerate(TABLES):
        after = fused_scores(table)
        first = 2 + np.argsort(-after(())[2:])[:3]
        for rank, token in enumerate(first):
            tokens, score = search_oracles.greedy_search(with_prefix(after, [token]), LIMIT)
            assert results["token_ids"][row, rank, : len(tokens)].tolist() == list(tokens)
            assert_close(results["log_probs"][row, rank], np.float32(score))


@slow_on_jax
def test_samples_are_drawn_in_proportion_to_the_scores():
    settings = {"num_hypotheses": 4000, "temperature": 1.5, "seed": 1, "max_length": 1}
    results = numpy(SamplingDecoder(decoder(), **settings, relative_max_length=None)(TABLES[:1]))
    tokens = results["token_ids"][0, :, 0]
    scores = fused_scores(TABLES[0])(())
    assert_close(results["log_probs"][0], scores[tokens].astype("float32"), 1e-5)
    expected = np.exp(oracles.log_softmax(scores[2:] / 1.5))
    received = np.bincount(tokens, minlength=6)[2:] / len(tokens)
    assert abs(expected - received).max() < 4 * np.sqrt(0.25 / len(tokens))


def forbidding(tables, generator):
    """Returns tables in which most tokens, and in some nodes all tokens, are impossible."""
    tables = np.where(generator.random(tables.shape) < 0.5, -np.inf, tables)
    tables[generator.random(tables.shape[:-1]) < 0.2] = -np.inf
    return tables.astype("float32")


@pytest.mark.parametrize("weight", [0.0, 0.01, 3.0])
@pytest.mark.parametrize("repetition_penalty", [0.3, 1.0])
def test_a_token_that_one_model_forbids_is_impossible(weight, repetition_penalty):
    generator = np.random.default_rng(5)
    tables, model_table = forbidding(TABLES, generator), forbidding(MODEL_TABLE, generator)
    if not weight:  # 0 * log(0) = 0
        tables = forbidding(tables, generator)
    arguments = {"weight": weight, "repetition_penalty": repetition_penalty}
    of_rows = [
        fused_scores(table, MODEL_TABLE if not weight else model_table, **arguments)
        for table in tables
    ]
    fused = decoder(model_table, weight, forbids_tokens=True)
    rules = {"repetition_penalty": repetition_penalty}
    expected = [search_oracles.beam_search(after, LIMIT, 3, 2) for after in of_rows]
    found = [each[0] for row in expected for each in row]
    assert any(len(tokens) < LIMIT and tokens[-1:] != (2,) for tokens in found)  # dead ends
    assert_found(numpy(BeamDecoder(fused, **BEAM, **rules)(tables)), expected)
    results = numpy(GreedyDecoder(fused, **GREEDY, **rules)(tables))
    for row, after in enumerate(of_rows):
        tokens, score = search_oracles.greedy_search(after, LIMIT)
        assert (
            results["token_ids"][row, 0].tolist()
            == [*tokens, *[0] * (LIMIT - len(tokens))][: results["token_ids"].shape[2]]
        )
        assert_close(results["log_probs"][row, 0], np.float32(score))


def test_infinite_logits_of_a_model_without_weight_change_nothing():
    model_table = np.where(MODEL_TABLE > 0, -np.inf, MODEL_TABLE)
    fused = decoder(model_table, weight=0.0)
    assert_close(numpy(GreedyDecoder(fused, **GREEDY)(TABLES)), numpy(alone(TABLES)))


def alone(tables):
    return GreedyDecoder(TableDecoder(), **GREEDY)(tables)


@pytest.mark.parametrize("average", ["arithmetic", "geometric"])
def test_an_ensemble_normalizes_the_scores_of_a_member(average):
    ensemble = EnsembleDecoder([decoder(), TableDecoder()], average=average)
    results = numpy(GreedyDecoder(ensemble, **GREEDY)(TABLES))
    for row, table in enumerate(TABLES):

        def after(prefix, table=table):
            each = np.stack(
                [
                    oracles.log_softmax(fused_scores(table)(prefix)),
                    fused_scores(table, weight=0.0)(prefix),
                ]
            )
            mean = np.log(np.exp(each).mean(axis=0)) if average == "arithmetic" else each.mean(0)
            return oracles.log_softmax(mean)

        tokens, score = search_oracles.greedy_search(after, LIMIT)
        assert results["token_ids"][row, 0, : len(tokens)].tolist() == list(tokens)
        assert_close(results["log_probs"][row, 0], np.float32(score))


@slow_on_jax
def test_nested_decoders_add_all_language_models():
    other = random_tables(8, batch=1, nodes=5, vocabulary_size=6)[0]
    nested = FusedDecoder(decoder(), TableLanguageModel(other), 0.4)
    ensemble = EnsembleDecoder([TableDecoder(), TableDecoder()])
    of_ensemble = FusedDecoder(
        FusedDecoder(ensemble, TableLanguageModel(MODEL_TABLE), WEIGHT),
        TableLanguageModel(other),
        0.4,
    )
    for fused in (nested, of_ensemble):
        results = numpy(BeamDecoder(fused, **BEAM)(TABLES))
        expected = []
        for table in TABLES:
            first, second = fused_scores(table), fused_scores(other, other, 0.0)

            def after(prefix, first=first, second=second):
                return first(prefix) + 0.4 * second(prefix)

            expected.append(search_oracles.beam_search(after, LIMIT, 3, 2))
        assert_found(results, expected)
