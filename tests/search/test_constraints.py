import re

import keras
import numpy as np
import pytest

from keras_attn import BeamDecoder, GreedyDecoder, SamplingDecoder, rnn_seq2seq
from tests.contracts import assert_close, assert_identical, numpy, tensor
from tests.search.constrained_oracles import without_repetition
from tests.search.phrase_oracles import (
    constrained_beam_search,
    constrained_enumeration,
    contained_phrases,
)
from tests.search.table_decoder import TableDecoder, log_probs_of, node_after, random_tables
from tests.slow_cases import all_slow_but, slow_on_jax

LIMIT, SIZE, BATCH = 8, 8, 6
TABLES = random_tables(3, batch=BATCH, nodes=97, vocabulary_size=SIZE, end_logit=1.0)
NEVER = [0, 1]  # padding and start token
A, B, C, D = 3, 4, 5, 6
PHRASES = {
    "one token": [[(A,)]],
    "repeated": [[(A, A, B)]],
    "alternatives": [[(A, B, A), (C,)], [(B, B), (C, A)]],
    "prefix": [[(A,), (A, B)], [(D, C)]],
    "three": [[(A,)], [(B,), (C, C)], [(A, D)]],
    "too long": [[(A, B, C, D, A)], [(C, B, C, B)]],
}
WORD_STARTS = np.isin(np.arange(SIZE), [2, A, C, 7])


def padded(phrases, alternatives=2, tokens=5):
    """Returns phrases as an array `(P, A, T)`."""
    ids = np.full((len(phrases), alternatives, tokens), -1, "int32")
    for row, phrase in zip(ids, phrases, strict=True):
        for place, alternative in zip(row, phrase, strict=False):
            place[: len(alternative)] = alternative
    return ids


def batched(rows):
    """Returns the phrases of several batch entries as an array `(batch, P, A, T)`."""
    count = max(1, *map(len, rows))
    arrays = np.full((len(rows), count, 2, 5), -1, "int32")
    for array, phrases in zip(arrays, rows, strict=True):
        array[: len(phrases)] = padded(phrases)
    return arrays


def search(phrases, tables=TABLES, **options):
    call = {name: options.pop(name) for name in CALL if name in options}
    settings = {"max_length": LIMIT, "relative_max_length": None, "num_hypotheses": 3, **options}
    decoder = BeamDecoder(TableDecoder(), **settings)
    ids = phrases if isinstance(phrases, np.ndarray) else padded(phrases)[None]
    return numpy(decoder(tables, constraint_ids=tensor(ids), **call))


CALL = ("constraints_in_order", "word_starts", "prefix_ids", "length_penalty", "settings")


def allowed(log_probs_after):
    def without_never(prefix):
        log_probs = np.array(log_probs_after(prefix), "float64")
        log_probs[NEVER] = -np.inf
        return log_probs

    return without_never


ORDERS = [(False, None), (True, None), (False, WORD_STARTS), (True, WORD_STARTS)]
IDS = ["any order", "in order", "words", "words in order"]


def assert_equals_oracle(results, row, expected):
    """Compares one batch entry with hypotheses of an oracle."""
    for place, (tokens, length, score, log_prob, done) in enumerate(expected):
        ids = results["token_ids"][row][place]
        assert tuple(ids[: len(tokens)]) == tokens and not ids[len(tokens) :].any()
        assert results["lengths"][row][place] == length
        assert_close(results["scores"][row][place], score, 1e-4)
        assert_close(results["log_probs"][row][place], log_prob, 1e-4)
        assert tuple(results["constraints_met"][row][place][: len(done)]) == done


def assert_search_equals_oracle(
    phrases, log_probs_after, in_order, word_starts, width, required=None, force=(), **options
):
    """Compares a batch that shares phrases with a search of each sentence."""
    results = search(
        phrases,
        beam_width=width,
        num_hypotheses=min(width, 3),
        constraints_in_order=in_order,
        word_starts=word_starts,
        **options,
    )
    for row, table in enumerate(TABLES):
        expected = constrained_beam_search(
            allowed(log_probs_after(table)),
            LIMIT,
            phrases,
            in_order=in_order,
            word_starts=word_starts,
            beam_width=width,
            num_hypotheses=min(width, 3),
            required_log_probs_after=allowed((required or log_probs_after)(table)),
            force=force,
        )
        assert expected
        assert_equals_oracle(results, row, expected)
    return results


@pytest.mark.parametrize("in_order, word_starts", ORDERS, ids=IDS)
@pytest.mark.parametrize("width", all_slow_but(4, cases=[1, 2, 3, 4, 6]))
@pytest.mark.parametrize(
    "phrases",
    all_slow_but(*PHRASES.values(), cases=PHRASES.values(), on_jax=[PHRASES["alternatives"]]),
    ids=PHRASES,
)
def test_search_equals_a_search_of_each_sentence(phrases, width, in_order, word_starts):
    assert_search_equals_oracle(phrases, log_probs_of, in_order, word_starts, width)


@slow_on_jax
@pytest.mark.parametrize("in_order, word_starts", ORDERS, ids=IDS)
def test_wide_search_equals_enumeration(in_order, word_starts):
    tables, limit, width = random_tables(5, batch=3, vocabulary_size=6), 4, 64
    phrases = [[(A, B), (C,)], [(B,)]]
    starts = None if word_starts is None else word_starts[:6]
    results = search(
        phrases,
        tables,
        beam_width=width,
        max_length=limit,
        num_hypotheses=8,
        constraints_in_order=in_order,
        word_starts=starts,
    )
    for row, table in enumerate(tables):
        rules = {"in_order": in_order, "word_starts": starts, "num_hypotheses": 8}
        expected = constrained_enumeration(allowed(log_probs_of(table)), limit, phrases, **rules)
        assert_equals_oracle(results, row, expected)


def test_each_sentence_has_its_own_phrases():
    rows = [*PHRASES.values()]
    results = search(batched(rows), beam_width=4)
    for row, (phrases, table) in enumerate(zip(rows, TABLES, strict=True)):
        expected = constrained_beam_search(
            allowed(log_probs_of(table)), LIMIT, phrases, beam_width=4, num_hypotheses=3
        )
        assert_equals_oracle(results, row, expected)
        assert results["constraints_met"][row, :, len(phrases) :].all()


def test_no_phrases_change_nothing():
    options = {"max_length": LIMIT, "num_hypotheses": 3, "relative_max_length": None}
    without = numpy(BeamDecoder(TableDecoder(), **options)(TABLES))
    results = search(np.full((1, 1, 1, 1), -1, "int32"))
    assert results.pop("constraints_met").all()
    assert_identical(results, without)


def test_ngram_blocking_yields_to_a_required_token():
    def blocked(table):
        return without_repetition(
            lambda prefix: table[node_after(prefix, len(table))], no_repeat_ngram_size=2
        )

    results = assert_search_equals_oracle(
        [[(A, A, A)], [(B, A)]],
        blocked,
        False,
        None,
        4,
        required=log_probs_of,
        return_token_log_probs=True,
        no_repeat_ngram_size=2,
    )
    assert results["constraints_met"][:, 0].all()
    assert_close(results["token_log_probs"].sum(-1), results["log_probs"], 1e-4)


def test_tokens_of_a_prefix_count():
    phrases, prefix = [[(A, B)], [(D,)]], (C, A)
    results = assert_search_equals_oracle(
        phrases, log_probs_of, False, None, 4, prefix_ids=tensor([prefix]), force=prefix
    )
    assert (results["token_ids"][:, :, :2] == prefix).all()


def test_partial_result_is_the_most_probable_open_beam():
    search = BeamDecoder(TableDecoder(), beam_width=4, max_length=LIMIT, relative_max_length=None)
    ids = tensor(padded(PHRASES["three"])[None])
    carry, memory, limits = search.prepare(tensor(TABLES), constraint_ids=ids)
    for _ in range(3):
        carry = search.advance(carry, memory, limits, search.call_settings())
    best = numpy(carry["beams"]["log_probs"]).argmax(1)
    tokens = numpy(carry["beams"]["token_ids"])[range(BATCH), best]
    is_open = ~numpy(carry["done"])
    assert is_open.any() and (best > 0).any()
    assert_identical(numpy(search.partial(carry))[is_open], tokens[is_open])


def test_hypotheses_contain_the_phrases_that_are_met():
    phrases = PHRASES["three"]
    results = search(phrases, beam_width=4, num_hypotheses=4)
    for hypotheses, met in zip(results["token_ids"], results["constraints_met"], strict=True):
        for tokens, flags in zip(hypotheses.tolist(), met, strict=True):
            assert contained_phrases(tuple(tokens), phrases) == tuple(flags)


@pytest.mark.parametrize(
    "options",
    [
        {"stop": "exact"},
        {"stop": "heuristic"},
        {"force_end_token": True},
        {"other_end_token_ids": [7]},
        {"return_alignments": True, "coverage_penalty": 0.2},
        {"settings": {"beam_width": 2}, "num_hypotheses": 2},
    ],
    ids=str,
)
def test_other_settings_keep_the_phrases(options):
    phrases = [[(A, B)], [(C,)]]
    results = search(phrases, **{"beam_width": 4, "num_hypotheses": 1, **options})
    tokens = results["token_ids"][:, 0].tolist()
    assert [contained_phrases(tuple(each), phrases) for each in tokens] == [(True, True)] * BATCH


def test_model_with_phrases_as_input_is_saved_and_loaded(tmp_path):
    encoder, decoder = rnn_seq2seq(20, SIZE, units=4, embedding_dim=4, seed=1)
    ids, source = keras.Input((2, 1, 2), dtype="int32"), keras.Input((None,), dtype="int32")
    found = BeamDecoder(decoder, max_length=9)(**encoder(source), constraint_ids=ids)
    model = keras.Model([source, ids], found)
    model.save(tmp_path / "model.keras")
    rows = np.array([[[[A, B]], [[C, -1]]], [[[D, -1]], [[-1, -1]]]], "int32")
    for each in (model, keras.models.load_model(tmp_path / "model.keras")):
        results = each.predict_on_batch([np.array([[5, 6, 2], [7, 8, 2]]), rows])
        assert results["constraints_met"].all()
        tokens = [tuple(each) for each in results["token_ids"][:, 0].tolist()]
        assert contained_phrases(tokens[0], [[(A, B)], [(C,)]]) == (True, True)
        assert D in tokens[1]


@pytest.mark.parametrize(
    "ids, message",
    [
        ([[[3]]], "of shape (batch, phrases, alternatives, tokens)"),
        ([[[[-2]]]], "padded with -1"),
        ([[[[-1, 3]]]], "on the right"),
        ([[[[3, 2]]]], "with 2. Remove"),
        ([[[[3, 1]]]], "with 1. Remove"),
        ([[[[4, 5, 6]]]], "with [5, 6]. Remove"),
        ([[[[3.5]]]], "integer dtype"),
        (np.zeros((1, 0, 1, 1), "int32"), "at least one"),
    ],
    ids=str,
)
def test_wrong_phrases_are_errors(ids, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        search(np.array(ids), suppressed_sequences=[[5, 6]])


def test_phrases_outside_of_the_vocabulary_are_an_error():
    encoder, decoder = rnn_seq2seq(20, SIZE, units=4, embedding_dim=4)
    encoded = encoder(np.array([[5, 6, 2]]))
    with pytest.raises(ValueError, match=r"Expected constraint_ids below 8.*between 3 and 8"):
        BeamDecoder(decoder)(**encoded, constraint_ids=tensor([[[[3, 8]]]]))


@pytest.mark.parametrize(
    "search_class, options",
    [(GreedyDecoder, {}), (SamplingDecoder, {}), (BeamDecoder, {"num_groups": 2})],
)
def test_other_searches_reject_phrases(search_class, options):
    with pytest.raises(ValueError, match="only for a BeamDecoder with num_groups=1"):
        search_class(TableDecoder(), **options)(TABLES, constraint_ids=tensor([[[[3]]]]))
