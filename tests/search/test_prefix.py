import keras
import numpy as np
import pytest

from keras_attn import BeamDecoder, GreedyDecoder, SamplingDecoder, rnn_seq2seq
from keras_attn.testing import _search_oracles as search_oracles
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, assert_found, assert_identical, numpy
from tests.search.constrained_oracles import with_prefix, without_repetition
from tests.search.table_decoder import TableDecoder, log_probs_of, node_after, random_tables
from tests.slow_cases import all_slow_but

LIMIT = 7
TABLES = random_tables(9, batch=6, end_logit=0.5)
PREFIXES = [(), (5,), (4, 4), (6, 3, 5), (3,), ()]
PREFIX_IDS = np.zeros((6, 3), "int32")
for row, prefix in zip(PREFIX_IDS, PREFIXES, strict=True):
    row[: len(prefix)] = prefix


def found(search, *arguments, prefix_ids=PREFIX_IDS, **settings):
    settings = {"max_length": LIMIT, "relative_max_length": None, **settings}
    return numpy(search(TableDecoder(), *arguments, **settings)(TABLES, prefix_ids=prefix_ids))


def after_each_prefix():
    return [
        with_prefix(log_probs_of(table), prefix)
        for table, prefix in zip(TABLES, PREFIXES, strict=True)
    ]


def test_greedy_search_equals_a_loop_over_each_sentence():
    expected = [
        [search_oracles.hypothesis(*search_oracles.greedy_search(after, LIMIT))]
        for after in after_each_prefix()
    ]
    assert_found(found(GreedyDecoder), expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"beam_width": 1},
        {"beam_width": 3, "num_hypotheses": 3},
        {"beam_width": 3, "num_hypotheses": 2, "stop": "exact"},
        {"beam_width": 4, "num_hypotheses": 2, "min_length": 3, "length_penalty": 0.5},
    ],
    ids=str,
)
def test_beam_search_equals_a_slow_search_of_each_sentence(settings):
    expected = [
        search_oracles.beam_search(after, LIMIT, **settings) for after in after_each_prefix()
    ]
    assert_found(found(BeamDecoder, **settings), expected)


def with_forced_tokens(table, prefix=(), limit=None, end=2):
    """As `log_probs_of`, but prefix tokens and an end token at the limit are certain."""
    after = log_probs_of(table)

    def certain(tokens):
        forced = prefix[len(tokens)] if len(tokens) < len(prefix) else None
        if limit is not None and len(tokens) == limit - 1:
            forced = end
        log_probs = np.array(after(tokens))
        if forced is not None:
            log_probs[:], log_probs[forced] = -np.inf, 0.0
        return log_probs

    return certain


FORCED = [
    {"score_prefix": False},
    {"forced_prefix_ids": [6]},
    {"force_end_token": True},
    {"forced_prefix_ids": [6, 3], "force_end_token": True, "score_prefix": False},
]


def expected_tables(forced):
    """Returns a function `log_probs_after` for each table, where all prefixes count 0."""
    first = tuple(forced.get("forced_prefix_ids", ()))
    limit = LIMIT if forced.get("force_end_token") else None
    own = PREFIXES if not forced.get("score_prefix", True) else [()] * len(PREFIXES)
    return [
        with_forced_tokens(table, (*first, *prefix), limit)
        for table, prefix in zip(TABLES, own, strict=True)
    ]


FORCED_BEAMS = [
    {"beam_width": 1},
    {"beam_width": 3, "num_hypotheses": 3},
    {"beam_width": 4, "num_hypotheses": 2, "num_groups": 2, "stop": "exact"},
]


@pytest.mark.parametrize("forced", FORCED, ids=str)
@pytest.mark.parametrize(
    "settings", all_slow_but(*FORCED_BEAMS, cases=FORCED_BEAMS, on_jax=FORCED_BEAMS[1:2]), ids=str
)
def test_forced_tokens_have_probability_one_in_a_beam_search(forced, settings):
    expected = [
        search_oracles.beam_search(after, LIMIT, **settings) for after in expected_tables(forced)
    ]
    prefix_ids = PREFIX_IDS if "score_prefix" in forced else None
    results = found(
        BeamDecoder, prefix_ids=prefix_ids, return_token_log_probs=True, **settings, **forced
    )
    assert_found(results, expected)
    real = results["log_probs"] > -1e8
    assert_close(results["token_log_probs"].sum(axis=2)[real], results["log_probs"][real], 1e-4)


@pytest.mark.parametrize("forced", FORCED, ids=str)
def test_forced_tokens_have_probability_one_in_a_greedy_search(forced):
    expected = [
        [search_oracles.hypothesis(*search_oracles.greedy_search(after, LIMIT))]
        for after in expected_tables(forced)
    ]
    prefix_ids = PREFIX_IDS if "score_prefix" in forced else None
    assert_found(found(GreedyDecoder, prefix_ids=prefix_ids, **forced), expected)


def test_a_forced_prefix_precedes_a_scored_prefix():
    results = found(BeamDecoder, forced_prefix_ids=[6, 3], return_token_log_probs=True)
    assert results["token_ids"][3, 0, :5].tolist() == [6, 3, 6, 3, 5]
    after = log_probs_of(TABLES[3])
    expected = [0, 0, after((6, 3))[6], after((6, 3, 6))[3], after((6, 3, 6, 3))[5]]
    assert_close(results["token_log_probs"][3, 0, :5], np.array(expected), 1e-4)


@pytest.mark.parametrize("search", [GreedyDecoder, BeamDecoder, SamplingDecoder])
def test_a_forced_end_overrides_the_other_settings(search):
    settings = {"min_length": 3, "no_repeat_ngram_size": 1, "suppressed_token_ids": [0, 1, 2]}
    results = found(search, force_end_token=True, max_length=3, **settings)
    assert (results["token_ids"][:, 0, 2] == 2).all() and (results["lengths"] == 2).all()
    only_end = found(search, force_end_token=True, max_length=1)
    assert (only_end["token_ids"][:, 0, 0] == 2).all() and not only_end["log_probs"].any()


@pytest.mark.parametrize(
    ("forced", "message"),
    [
        ({"forced_prefix_ids": [4, 0]}, "forced_prefix_ids without padding.*pad_token_id=0"),
        ({"forced_prefix_ids": 4}, "forced_prefix_ids"),
        ({"forced_prefix_ids": [4.5]}, "forced_prefix_ids"),
        ({"score_prefix": 2}, "score_prefix to be True or False"),
        ({"force_end_token": "yes"}, "force_end_token to be True or False"),
    ],
    ids=str,
)
def test_wrong_forced_tokens_are_refused(forced, message):
    with pytest.raises(ValueError, match=message):
        BeamDecoder(TableDecoder(), **forced)


def test_a_forced_prefix_outside_of_the_vocabulary_is_refused():
    encoder, decoder = rnn_seq2seq(10, 11, embedding_dim=4, units=4, seed=0)
    with pytest.raises(ValueError, match="vocabulary, 11. Received: forced_prefix_ids=.11."):
        BeamDecoder(decoder, forced_prefix_ids=[11])(**encoder(np.array([[5, 2]])))


def after_without_repetition(table, prefix, **settings):
    """The prefix with the probabilities of the model, then what repeats nothing of it."""
    of_model = with_prefix(log_probs_of(table), prefix)
    behind = without_repetition(lambda tokens: table[node_after(tokens, len(table))], **settings)
    return lambda tokens: (of_model if len(tokens) < len(prefix) else behind)(tokens)


def test_a_prefix_may_repeat_itself_and_what_follows_it_may_not():
    settings = {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2}
    beams = {"beam_width": 3, "num_hypotheses": 2}
    prefixes = [(5, 5, 5, 4), (4, 3, 4, 3)] * 3
    expected = [
        search_oracles.beam_search(after_without_repetition(*pair, **settings), LIMIT, **beams)
        for pair in zip(TABLES, prefixes, strict=True)
    ]
    prefix_ids = np.array(prefixes, "int32")
    assert_found(found(BeamDecoder, prefix_ids=prefix_ids, **beams, **settings), expected)


@pytest.mark.parametrize("search", [GreedyDecoder, BeamDecoder, SamplingDecoder])
def test_a_limit_may_cut_the_prefix(search):
    results = found(search, max_length=2)
    assert results["token_ids"][3, 0].tolist() == [6, 3]
    after = log_probs_of(TABLES[3])
    assert_close(results["log_probs"][3, 0], after(())[6] + after((6,))[3], 1e-4)


def test_samples_count_the_prefix():
    results = found(SamplingDecoder, num_hypotheses=5, max_length=3, seed=2)
    after = log_probs_of(TABLES[3])
    expected = after(())[6] + after((6,))[3] + after((6, 3))[5]
    assert_close(results["log_probs"][3], np.full(5, expected, "float32"), 1e-4)


def test_samples_begin_with_the_prefix_and_differ_behind_it():
    results = found(SamplingDecoder, num_hypotheses=40, seed=2)
    for tokens, prefix in zip(results["token_ids"], PREFIXES, strict=True):
        assert {tuple(row[: len(prefix)].tolist()) for row in tokens} == {prefix}
    assert len(np.unique(results["token_ids"][3], axis=0)) > 5


@pytest.mark.parametrize("search", [GreedyDecoder, BeamDecoder])
def test_no_prefix_changes_nothing(search):
    without = found(search, prefix_ids=None)
    for columns in (0, 1, 4):
        padding = np.zeros((len(TABLES), columns), "int32")
        assert_identical(found(search, prefix_ids=padding), without)


@pytest.mark.parametrize("search", [GreedyDecoder, BeamDecoder])
def test_a_prefix_may_hold_what_may_not_be_chosen(search):
    prefix_ids = np.array([[5, 5, 1]] * len(TABLES), "int32")  # the start token is suppressed
    results = found(search, prefix_ids=prefix_ids, no_repeat_ngram_size=1)
    for tokens in results["token_ids"][:, 0]:
        assert tokens[:3].tolist() == [5, 5, 1]
        rest = tokens[3:][tokens[3:] != 0].tolist()
        assert len(set(rest)) == len(rest) and not {1, 5} & set(rest)


def test_a_prefix_that_ends_ends_the_hypothesis():
    prefix_ids = np.array([[4, 2, 5]] * len(TABLES), "int32")
    results = found(BeamDecoder, beam_width=3, prefix_ids=prefix_ids)
    assert (results["token_ids"][:, 0, :2] == [4, 2]).all()
    assert (results["lengths"] == 1).all()


def test_a_model_with_a_prefix_as_input_survives_saving(tmp_path):
    encoder, decoder = rnn_seq2seq(10, 11, embedding_dim=4, units=4, seed=0)
    source_ids, prefix_ids = (
        keras.Input((None,), dtype="int32"),
        keras.Input((None,), dtype="int32"),
    )
    search = BeamDecoder(decoder, beam_width=3, max_length=8)
    model = keras.Model(
        [source_ids, prefix_ids], search(**encoder(source_ids), prefix_ids=prefix_ids)
    )
    ids = np.array([[5, 6, 2], [7, 2, 0]], "int32"), np.array([[4, 9], [8, 0]], "int32")
    results = model.predict(ids, verbose=0)
    assert results["token_ids"][0, 0, :2].tolist() == [4, 9]
    assert results["token_ids"][1, 0, 0] == 8
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_identical(loaded.predict(ids, verbose=0), results)


@pytest.mark.parametrize("search", [GreedyDecoder, BeamDecoder])
def test_one_row_is_for_all(search):
    every = found(search, prefix_ids=np.array([[4, 3]] * len(TABLES), "int32"))
    for one in ([[4, 3]], np.array([[4, 3]])):
        assert_identical(found(search, prefix_ids=one), every)


on_tensorflow = requires_tensorflow("what is unknown has a size there, which no known one fits")
MIXED = [
    pytest.param(sizes, marks=[on_tensorflow, pytest.mark.slow]) for sizes in ((None, 2), (2, None))
]


@pytest.mark.parametrize("sizes", [(None, None), *MIXED])
def test_batches_of_known_and_unknown_size(sizes):
    encoder, decoder = rnn_seq2seq(10, 11, embedding_dim=4, units=4, seed=0)
    inputs = [keras.Input((None,), batch_size=size, dtype="int32") for size in sizes]
    search = BeamDecoder(decoder, beam_width=3, max_length=8)
    model = keras.Model(inputs, search(**encoder(inputs[0]), prefix_ids=inputs[1]))
    ids = np.array([[5, 6, 2], [7, 2, 0]], "int32"), np.array([[4, 9], [8, 0]], "int32")
    results = model.predict(ids, batch_size=2, verbose=0)
    assert_close(results, numpy(search(**encoder(ids[0]), prefix_ids=ids[1])))


@pytest.mark.parametrize("prefix_ids", [PREFIX_IDS[:, 0], PREFIX_IDS[:4], [5]])
def test_refuses_a_prefix_of_another_shape(prefix_ids):
    with pytest.raises(ValueError, match=r"Expected prefix_ids of shape .* batch=6"):
        found(BeamDecoder, prefix_ids=prefix_ids)


@pytest.mark.parametrize("search", [GreedyDecoder, BeamDecoder, SamplingDecoder])
@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ([99], "at least 0 and below 11. Received: prefix_ids with 99"),
        ([5, 11], "Received: prefix_ids with 11"),
        ([-3, 4], "Received: prefix_ids with -3"),
        ([3.7], "prefix_ids of an integer dtype. Received: prefix_ids with dtype='float"),
    ],
    ids=str,
)
def test_refuses_a_prefix_of_wrong_ids(search, prefix, message):
    encoder, decoder = rnn_seq2seq(10, 11, embedding_dim=4, units=4, seed=0)
    with pytest.raises(ValueError, match=message):
        search(decoder, max_length=4)(**encoder(np.array([[5, 2]])), prefix_ids=np.array([prefix]))


def test_refuses_a_symbolic_prefix_of_floats():
    encoder, decoder = rnn_seq2seq(10, 11, embedding_dim=4, units=4, seed=0)
    source, prefix = keras.Input((None,), dtype="int32"), keras.Input((None,))
    with pytest.raises(ValueError, match="prefix_ids of an integer dtype.*keras.Input"):
        GreedyDecoder(decoder)(**encoder(source), prefix_ids=prefix)


def test_prefix_of_no_ids_may_have_any_dtype():
    results = found(GreedyDecoder, prefix_ids=np.zeros((6, 0)))
    assert_close(results, found(GreedyDecoder, prefix_ids=None))


@pytest.mark.parametrize("search", [GreedyDecoder, BeamDecoder, SamplingDecoder])
def test_a_prefix_that_ends_is_a_whole_hypothesis_and_its_probability(search):
    wholes = [(5, 2), (4, 4, 2), (6, 3, 5, 2), (2,), (3, 3, 3, 3, 3, 2), (4, 6, 2)]
    prefix_ids = np.zeros((6, 6), "int32")
    for row, whole in zip(prefix_ids, wholes, strict=True):
        row[: len(whole)] = whole
    # What would be forbidden, or less probable, is neither.
    settings = {"min_length": 2, "repetition_penalty": 1.5, "no_repeat_ngram_size": 1}
    results = found(search, prefix_ids=prefix_ids, **settings)
    for row, (table, whole) in enumerate(zip(TABLES, wholes, strict=True)):
        after = log_probs_of(table)
        expected = sum(after(whole[:step])[token] for step, token in enumerate(whole))
        assert results["token_ids"][row, 0][: len(whole)].tolist() == list(whole)
        assert not results["token_ids"][row, 0][len(whole) :].any()
        assert results["lengths"][row, 0] == len(whole) - 1
        assert_close(results["log_probs"][row, 0], expected, 1e-4)
