"""Searches with stop sequences, against loops over each sentence and enumeration in NumPy."""

import numpy as np
import pytest

from keras_attn import BeamDecoder, GenerationModel, GreedyDecoder, SamplingDecoder, rnn_seq2seq
from tests.contracts import assert_close, assert_found, assert_identical, numpy
from tests.search import stop_oracles
from tests.search.table_decoder import TableDecoder, log_probs_of, random_tables
from tests.slow_cases import slow_on_jax

LIMIT = 8
TABLES = random_tables(13, batch=24, end_logit=-2.0, nodes=23)
CASES = [[[5]], [[3, 4], [6, 6, 3]], [[4], [3, 4], [5, 6], [3, 3, 6]]]


def found(search_class, sequences, *arguments, tables=TABLES, **settings):
    settings = {"max_length": LIMIT, "relative_max_length": None, **settings}
    search = search_class(TableDecoder(), stop_sequences=sequences, **settings)
    return numpy(search(tables, *arguments))


def ended_by(results, sequences):
    """Which sequences end a hypothesis, by the tokens after its length."""
    rows = [
        (*tokens[length:],)
        for tokens, length in zip(
            results["token_ids"].reshape(-1, results["token_ids"].shape[-1]).tolist(),
            results["lengths"].ravel().tolist(),
            strict=True,
        )
    ]
    return {(*each,) for each in sequences if any(row[: len(each)] == (*each,) for row in rows)}


@pytest.mark.parametrize("min_length", [0, 3])
@pytest.mark.parametrize("sequences", CASES, ids=str)
def test_greedy_search_equals_a_loop_over_each_sentence(sequences, min_length):
    expected = [
        [stop_oracles.greedy_search(log_probs_of(table), LIMIT, sequences, min_length)]
        for table in TABLES
    ]
    results = found(GreedyDecoder, sequences, min_length=min_length)
    assert_found(results, expected)
    assert len(ended_by(results, sequences)) >= len(sequences) / 2
    for search_class, settings in (
        (SamplingDecoder, {"top_k": 1}),
        (BeamDecoder, {"beam_width": 1}),
    ):
        same = found(search_class, sequences, min_length=min_length, **settings)
        assert_identical(same["token_ids"], results["token_ids"])
        assert_identical(same["lengths"], results["lengths"])


@slow_on_jax
@pytest.mark.parametrize(
    ("sequences", "form", "settings"),
    [
        (CASES[0], "average", {}),
        (CASES[1], "average", {"min_length": 3}),
        (CASES[2], "gnmt", {}),
        (CASES[2], "average_with_end", {"min_length": 2}),
    ],
)
def test_beam_search_equals_a_slow_search_of_each_sentence(sequences, form, settings):
    expected = [
        stop_oracles.beam_search(log_probs_of(table), LIMIT, sequences, 3, 2, form, **settings)
        for table in TABLES
    ]
    results = found(
        BeamDecoder,
        sequences,
        beam_width=3,
        num_hypotheses=2,
        length_penalty_form=form,
        return_token_log_probs=True,
        **settings,
    )
    assert_close(results["token_log_probs"].sum(-1), results["log_probs"])
    del results["token_log_probs"]
    assert_found(results, expected)
    assert len(ended_by(results, sequences)) >= len(sequences) / 2


@slow_on_jax
@pytest.mark.parametrize(
    ("form", "length_penalty"), [("average", 1.0), ("gnmt", -1.5), ("average_with_end", 0.5)]
)
def test_an_exact_beam_search_finds_the_best_of_all(form, length_penalty):
    tables = random_tables(8, batch=6, vocabulary_size=6, end_logit=-2.0)
    sequences = [[3, 3, 4], [5, 4], [4, 5, 3]]
    results = found(
        BeamDecoder,
        sequences,
        tables=tables,
        max_length=5,
        beam_width=81,
        num_hypotheses=6,
        stop="exact",
        length_penalty_form=form,
        length_penalty=length_penalty,
    )
    expected = [
        stop_oracles.every_hypothesis(log_probs_of(table), 5, sequences, form, length_penalty)[:6]
        for table in tables
    ]
    assert_found(results, expected)
    assert ended_by(results, sequences)


@pytest.mark.parametrize(
    ("ids", "settings"),
    [
        ([5, 6], {"beam_width": 3, "num_hypotheses": 3, "min_length": 2}),
        ([5, 6], {"beam_width": 4, "num_hypotheses": 2, "num_groups": 2, "stop": "heuristic"}),
        ([5], {"beam_width": 2, "stop": "exact", "force_end_token": True, "min_length": 1}),
        ([3, 4, 5, 6], {"beam_width": 2, "min_length": 1}),  # dead ends
    ],
)
def test_a_sequence_of_one_token_is_an_end_token(ids, settings):
    settings = {"return_token_log_probs": True, "return_alignments": True, **settings}
    as_sequences = found(BeamDecoder, [[each] for each in ids], **settings)
    as_ends = found(BeamDecoder, [], other_end_token_ids=ids, **settings)
    assert {*as_sequences} == {*as_ends}
    for name, values in as_ends.items():
        assert_identical(as_sequences[name], values)


@slow_on_jax
def test_a_stop_sequence_closes_the_word_before():
    call = {"constraint_ids": np.array([[[[4]]]], "int32"), "word_starts": np.arange(7) == 3}
    settings = {"beam_width": 1, "max_length": LIMIT, "relative_max_length": None}
    results = numpy(
        BeamDecoder(TableDecoder(), stop_sequences=[[6], [5, 5]], **settings)(TABLES, **call)
    )
    num_closed = 0
    for row, table in enumerate(TABLES):
        tokens = [token for token in results["token_ids"][row, 0].tolist() if token]
        if 4 not in tokens[:-1] or tokens.index(4) == LIMIT - 1:
            continue
        # The most probable token that begins a word, ends the hypothesis or repeats the phrase
        log_probs = log_probs_of(table)(tokens[: tokens.index(4) + 1])
        best = max((2, 3, 4, 6), key=lambda token: log_probs[token])
        assert tokens[tokens.index(4) + 1] == best
        num_closed += best == 6 and results["constraints_met"][row, 0, 0]
    assert num_closed > 2


def test_samples_are_those_without_sequences_until_the_first():
    settings = {"num_hypotheses": 20, "length_penalty_form": "none"}
    seeds = np.arange(len(TABLES), dtype="int32")
    whole, cut = (
        numpy(
            SamplingDecoder(TableDecoder(), max_length=LIMIT, stop_sequences=each, **settings)(
                TABLES, seeds=seeds
            )
        )
        for each in ([], CASES[2])
    )
    rows = [each["token_ids"].reshape(-1, each["token_ids"].shape[-1]) for each in (whole, cut)]
    for before, after, length in zip(*rows, cut["lengths"].ravel(), strict=True):
        tokens = (*before[before != 0].tolist(),)
        ends = [
            end
            for end in range(len(tokens) + 1)
            if stop_oracles.num_end_tokens(tokens[:end], CASES[2])
        ]
        expected = tokens[: min(ends, default=len(tokens))]
        assert after[after != 0].tolist() == [*expected]
        assert length == len(expected) - stop_oracles.num_end_tokens(expected, CASES[2])
    assert len(ended_by(cut, CASES[2])) == 4


@pytest.mark.parametrize("given", [(3, 4), (5, 3), (4, 6, 6)])
@pytest.mark.parametrize(
    "settings", [{}, {"score_prefix": True, "forced": 1}], ids=["call", "forced"]
)
def test_tokens_of_a_prefix_do_not_count(given, settings):
    sequences = [[3, 4], [6, 6, 3], [4]]
    expected = [
        [stop_oracles.greedy_search(log_probs_of(table), LIMIT, sequences, given=given)]
        for table in TABLES
    ]
    num_forced = settings.get("forced", 0)
    prefix_ids = np.array([given[num_forced:]] * len(TABLES), "int32")
    search = GreedyDecoder(
        TableDecoder(),
        max_length=LIMIT,
        relative_max_length=None,
        stop_sequences=sequences,
        forced_prefix_ids=given[:num_forced],
    )
    results = numpy(search(TABLES, prefix_ids=prefix_ids))
    if num_forced:  # their log probability is 0
        del results["scores"], results["log_probs"]
        for row, ((tokens, length, *_),) in enumerate(expected):
            assert results["token_ids"][row, 0][: len(tokens)].tolist() == [*tokens]
            assert results["lengths"][row, 0] == length
    else:
        assert_found(results, expected)
    assert (results["lengths"] >= len(given)).all()


def test_prefixes_of_different_lengths():
    prefixes = [(3,), (3, 4, 4), (6, 6)] * 8
    sequences = CASES[2]
    expected = [
        [stop_oracles.greedy_search(log_probs_of(table), LIMIT, sequences, given=given)]
        for table, given in zip(TABLES, prefixes, strict=True)
    ]
    prefix_ids = np.array([[*each, 0, 0][:3] for each in prefixes], "int32")
    search = GreedyDecoder(
        TableDecoder(), max_length=LIMIT, relative_max_length=None, stop_sequences=sequences
    )
    assert_found(numpy(search(TABLES, prefix_ids=prefix_ids)), expected)


def test_phrases_precede_a_stop_sequence():
    sequences, phrase = [[3, 4], [6]], [4, 5]
    search = BeamDecoder(
        TableDecoder(),
        beam_width=4,
        num_hypotheses=2,
        max_length=LIMIT,
        relative_max_length=None,
        stop_sequences=sequences,
    )
    results = numpy(search(TABLES, constraint_ids=np.array([[[phrase]]], "int32")))
    assert len(ended_by(results, sequences)) == 2
    for tokens, length in zip(
        results["token_ids"].reshape(-1, results["token_ids"].shape[-1]).tolist(),
        results["lengths"].ravel().tolist(),
        strict=True,
    ):
        tokens = tuple(token for token in tokens if token)
        ends = [n for n in range(len(tokens)) if stop_oracles.num_end_tokens(tokens[:n], sequences)]
        assert not ends  # nothing ended it before its last token
        starts = [n for n in range(len(tokens)) if tokens[n : n + 2] == tuple(phrase)]
        number = stop_oracles.num_end_tokens(tokens, sequences)
        assert length == len(tokens) - number
        assert not number or (starts and starts[0] + 2 < len(tokens))
    with pytest.raises(ValueError, match=r"stop_sequences. Received: a phrase \[5, 3, 4\]"):
        search(TABLES, constraint_ids=np.array([[[[5, 3, 4]]]], "int32"))


@slow_on_jax
def test_a_search_steps_in_a_loop_of_the_host():
    search = BeamDecoder(TableDecoder(), beam_width=3, max_length=LIMIT, stop_sequences=CASES[1])
    carry, memory, limits = search.prepare(TABLES)
    while not numpy(carry["done"]).all():
        carry = search.advance(carry, memory, limits, search.call_settings())
    results, whole = numpy(search.finish(carry["hypotheses"])), numpy(search(TABLES))
    width = whole["token_ids"].shape[-1]
    assert_identical(results["token_ids"][..., :width], whole["token_ids"])
    assert_identical(numpy(search.partial(carry))[:, :width], whole["token_ids"][:, 0])
    assert_identical(results["lengths"], whole["lengths"])


def test_generate_leaves_the_sequence_out():
    encoder, decoder = rnn_seq2seq(20, 9, units=8, embedding_dim=8)
    sources = [[number, 7, 2] for number in range(4, 20)]
    ids = GenerationModel(encoder, GreedyDecoder(decoder, max_length=6)).generate(sources)
    sequence = next(row[2:4] for row in ids if len(row) > 4)
    settings = {"stop_sequences": [sequence], "return_token_log_probs": True}
    model = GenerationModel(encoder, GreedyDecoder(decoder, max_length=6, **settings))
    results = model.generate(sources, return_details=True)
    num_stopped = 0
    for row, result in zip(ids, results, strict=True):
        ends = [n for n in range(2, len(row) + 1) if row[n - 2 : n] == sequence]
        if not ends:
            assert result.token_ids == row
            continue
        num_stopped += 1
        assert result.token_ids == row[: ends[0] - 2]
        assert result.ended is True
        assert len(result.token_log_probs) == ends[0]
        assert_close(sum(result.token_log_probs), result.log_prob)
    assert num_stopped


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ([[3, 2]], r"without end tokens.* with \[3, 2\], which contains 2"),
        ([[4], [5]], r"which contains 5"),
        ([[3, 0]], r"padding.* which contains 0"),
        ([[1, 3]], r"suppressed_token_ids.* which contains 1"),
        ([[4, 3, 4, 6]], r"which contains \[3, 4\]"),
        ([[3] * 9], r"at most max_length=8 ids.* which has 9 ids"),
        ([[]], r"stop_sequences to be a list of lists with at least one id.*Use \[\]"),
        ([3], r"Expected stop_sequences"),
        ("ab", r"Expected stop_sequences"),
        ([[-3]], r"Expected stop_sequences"),
    ],
)
def test_wrong_sequences_are_errors(sequences, message):
    with pytest.raises(ValueError, match=message):
        GreedyDecoder(
            TableDecoder(),
            max_length=8,
            stop_sequences=sequences,
            other_end_token_ids=[5],
            suppressed_sequences=[[3, 4]],
        )


def test_configuration_and_vocabulary():
    search = GreedyDecoder(TableDecoder(), stop_sequences=((3, 4), [np.int64(5)]))
    assert search.get_config()["stop_sequences"] == [[3, 4], [5]]
    assert GreedyDecoder.from_config(search.get_config()).stop_sequences == [[3, 4], [5]]
    assert GreedyDecoder(TableDecoder()).stop_sequences == []
    encoder, decoder = rnn_seq2seq(9, 9, units=4, embedding_dim=4)
    with pytest.raises(ValueError, match="stop_sequences below the size of the vocabulary, 9"):
        GreedyDecoder(decoder, stop_sequences=[[9]])(**encoder(np.array([[5, 2]])))
