import keras
import numpy as np
import pytest

from keras_attn import BeamDecoder, GreedyDecoder, SamplingDecoder
from keras_attn._search.repetition import forbid_repeated_ngrams, penalize_repetition
from keras_attn.testing import _search_oracles as search_oracles
from tests.contracts import assert_close, assert_found, assert_identical, numpy, tensor
from tests.search.constrained_oracles import without_repetition
from tests.search.table_decoder import TableDecoder, node_after, random_tables
from tests.slow_cases import slow_on_jax

LIMIT = 12
# Few tokens and rare ends: what is not kept from it repeats itself.
TABLES = random_tables(7, batch=8, vocabulary_size=6, end_logit=-2.0)
SETTINGS = [
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3},
    {"no_repeat_ngram_size": LIMIT + 1},
    {"repetition_penalty": 1.7},
    {"repetition_penalty": 0.6},
    {"repetition_penalty": 3.0, "no_repeat_ngram_size": 2},
]


def found(search, *arguments, **settings):
    settings = {"max_length": LIMIT, "relative_max_length": None, **settings}
    return numpy(search(TableDecoder(), *arguments, **settings)(TABLES))


def log_probs_of(table, settings):
    logits_after = lambda prefix: table[node_after(prefix, len(table))]  # noqa: E731
    return without_repetition(logits_after, **settings)


def ngrams(tokens, size):
    return [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]


def has_repetition(tokens, length, size):
    """For each row of tokens, whether it has an n-gram twice."""
    rows = [ngrams(row[:n], size) for row, n in zip(tokens, length, strict=True)]
    return np.array([len(set(row)) < len(row) for row in rows])


def test_what_is_tested_here_would_repeat_itself():
    results = found(GreedyDecoder)
    assert has_repetition(results["token_ids"][:, 0], results["lengths"][:, 0], 3).sum() > 4


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_greedy_search_equals_a_loop_over_each_sentence(settings):
    expected = [
        [
            search_oracles.hypothesis(
                *search_oracles.greedy_search(log_probs_of(table, settings), LIMIT)
            )
        ]
        for table in TABLES
    ]
    assert_found(found(GreedyDecoder, **settings), expected)


@slow_on_jax
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("more", [{}, {"stop": "exact"}, {"min_length": 4}], ids=str)
def test_beam_search_equals_a_slow_search_of_each_sentence(settings, more):
    more = {"beam_width": 3, "num_hypotheses": 2, **more}
    expected = [
        search_oracles.beam_search(log_probs_of(table, settings), LIMIT, **more) for table in TABLES
    ]
    assert_found(found(BeamDecoder, **settings, **more), expected)


def test_samples_have_no_ngram_twice():
    results = found(SamplingDecoder, num_hypotheses=50, no_repeat_ngram_size=2, seed=1)
    tokens = results["token_ids"].reshape(-1, results["token_ids"].shape[-1])
    assert not has_repetition(tokens, results["lengths"].ravel(), 2).any()
    assert has_repetition(tokens, results["lengths"].ravel(), 1).any()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_most_probable_sample_is_that_of_greedy_search(settings):
    samples = found(SamplingDecoder, num_hypotheses=1, top_k=1, **settings)
    greedy = found(GreedyDecoder, **settings)
    assert_identical(samples["token_ids"], greedy["token_ids"])
    assert_close(samples["log_probs"], greedy["log_probs"])


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_what_stands_behind_the_tokens_does_not_count(steps):
    """A history with columns for all steps gives what one does that grows."""
    rng = np.random.default_rng(steps)
    logits = rng.normal(size=(6, 5)).astype("float32")
    history = rng.integers(0, 5, (2, 3, 5)).astype("int32")
    for function, argument in (
        (penalize_repetition, 1.5),
        (forbid_repeated_ngrams, 1),
        (forbid_repeated_ngrams, 2),
        (forbid_repeated_ngrams, 4),
    ):
        arguments = tensor(steps), argument
        with_all_columns = function(tensor(logits), tensor(history), *arguments)
        grown = function(tensor(logits), tensor(history[:, :, :steps]), *arguments)
        assert_close(numpy(with_all_columns), numpy(grown))


def test_only_what_repeats_is_changed():
    logits = np.array([[1.0, -1.0, 2.0, 0.5]], "float32")
    history, step = tensor([[[3, 1, 3, 3]]]), tensor(4)
    penalized = numpy(penalize_repetition(tensor(logits), history, step, 2.0))
    assert_close(penalized, np.array([[1.0, -2.0, 2.0, 0.25]]))
    forbidden = numpy(forbid_repeated_ngrams(tensor(logits), history, step, 2))
    assert_identical(forbidden < -1e8, np.array([[False, True, False, True]]))  # 3 1, 3 3
    assert_close(forbidden[:, [0, 2]], logits[:, [0, 2]])


@pytest.mark.parametrize("steps", [0, 4])
def test_repetition_penalty_keeps_infinite_logits(steps):
    logits = np.array([[1.0, -np.inf, 2.0, -1.0, np.inf]], "float32")
    history = tensor([[[1, 2, 2, 4]]])
    penalized = numpy(penalize_repetition(tensor(logits), history, tensor(steps), 2.0))
    expected = logits if steps == 0 else np.array([[1.0, -np.inf, 1.0, -1.0, np.inf]], "float32")
    assert_identical(penalized, expected)


@pytest.mark.parametrize("search", [GreedyDecoder, BeamDecoder])
def test_search_with_repetition_penalty_treats_infinite_logits_as_impossible(search):
    is_forbidden = np.random.default_rng(1).random(TABLES.shape) < 0.3
    is_forbidden[:, :, 0] = True
    is_forbidden[:, :, 2] = False  # the end token, so that there are no dead ends
    settings = {"max_length": LIMIT, "relative_max_length": None, "repetition_penalty": 1.3}
    infinite, finite = (
        numpy(search(TableDecoder(), **settings)(np.where(is_forbidden, np.float32(value), TABLES)))
        for value in (-np.inf, -1e9)
    )
    assert_identical(infinite["token_ids"], finite["token_ids"])
    assert_identical(infinite["lengths"], finite["lengths"])
    assert_close(infinite["scores"], finite["scores"])


@pytest.mark.parametrize("search", [GreedyDecoder, BeamDecoder, SamplingDecoder])
def test_settings_survive_saving(search):
    layer = search(TableDecoder(), repetition_penalty=1.2, no_repeat_ngram_size=3)
    config = keras.saving.serialize_keras_object(layer)
    restored = keras.saving.deserialize_keras_object(config)
    assert (restored.repetition_penalty, restored.no_repeat_ngram_size) == (1.2, 3)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("repetition_penalty", 0),
        ("repetition_penalty", -1.5),
        ("repetition_penalty", float("inf")),
        ("repetition_penalty", float("nan")),
        ("repetition_penalty", "1.2"),
        ("no_repeat_ngram_size", -1),
        ("no_repeat_ngram_size", 2.5),
    ],
)
def test_refuses_values_out_of_range(argument, value):
    with pytest.raises(ValueError, match=argument):
        GreedyDecoder(TableDecoder(), **{argument: value})
