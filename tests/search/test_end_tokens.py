"""Searches with several end tokens, against loops and enumeration in NumPy."""

import itertools

import numpy as np
import pytest

from keras_attn import BeamDecoder, GenerationModel, GreedyDecoder, SamplingDecoder, rnn_seq2seq
from tests.contracts import assert_close, numpy
from tests.search.table_decoder import TableDecoder, log_probs_of, random_tables

ENDS = (2, 5)
OTHERS = {"other_end_token_ids": [5]}
SUPPRESSED = (0, 1)


def lists(results, rank=0):
    """The token ids of a rank, with the end token and without padding."""
    ended = results["token_ids"][:, rank].tolist()
    return [row[: row.index(0)] if 0 in row else row for row in ended]


def greedy(table, max_length, min_length=0):
    log_probs, tokens = log_probs_of(table), []
    while len(tokens) < max_length and not set(tokens) & set(ENDS):
        values = log_probs(tokens).copy()
        values[list(SUPPRESSED)] = -np.inf
        if len(tokens) < min_length:
            values[list(ENDS)] = -np.inf
        tokens.append(int(values.argmax()))
    return tokens


@pytest.mark.parametrize("min_length", [0, 3])
@pytest.mark.parametrize(
    ("search_class", "arguments"),
    [(GreedyDecoder, {}), (SamplingDecoder, {"top_k": 1}), (BeamDecoder, {"beam_width": 1})],
)
def test_each_ends_a_hypothesis(search_class, arguments, min_length):
    tables = random_tables(1, batch=30)
    search = search_class(
        TableDecoder(), max_length=7, min_length=min_length, **OTHERS, **arguments
    )
    results = numpy(search(tables))
    expected = [greedy(table, 7, min_length) for table in tables]
    assert lists(results) == expected
    assert {row[-1] for row in expected} > set(ENDS)  # and some reach the limit
    lengths = [len(row) - (row[-1] in ENDS) for row in expected]
    assert results["lengths"][:, 0].tolist() == lengths


def hypotheses(table, max_length):
    """All hypotheses with their log probabilities; after each prefix one end token is possible."""
    log_probs_after = log_probs_of(table)
    found = []
    for length in range(max_length + 1):
        for prefix in itertools.product((3, 4, 6), repeat=length):
            steps = [log_probs_after(prefix[:t])[prefix[t]] for t in range(length)]
            if length == max_length:
                found.append((sum(steps), list(prefix)))
            else:
                values = log_probs_after(prefix)
                end = max(ENDS, key=lambda token, values=values: values[token])
                found.append((sum(steps) + values[end], [*prefix, end]))
    return sorted(found, reverse=True)


def test_a_beam_search_finds_the_best_with_one_end_token_each():
    tables = random_tables(4, batch=5, end_logit=0.5)
    search = BeamDecoder(
        TableDecoder(),
        beam_width=27,
        num_hypotheses=6,
        max_length=4,
        length_penalty_form="none",
        stop="exact",
        **OTHERS,
    )
    results = numpy(search(tables))
    expected = [hypotheses(table, 4)[:6] for table in tables]
    for rank in range(6):
        assert lists(results, rank) == [each[rank][1] for each in expected]
    log_probs = np.array([[each[0] for each in row] for row in expected])
    assert_close(results["log_probs"], log_probs)
    ends = {each[1][-1] for row in expected for each in row}
    assert ends > set(ENDS)


@pytest.mark.parametrize("suppressed", [2, 5])
def test_a_suppressed_end_token_displaces_no_other(suppressed):
    tables = random_tables(1, batch=30)
    arguments = {"max_length": 7, "suppressed_token_ids": [0, 1, suppressed], **OTHERS}
    results = numpy(BeamDecoder(TableDecoder(), beam_width=1, **arguments)(tables))
    assert lists(results) == lists(numpy(GreedyDecoder(TableDecoder(), **arguments)(tables)))
    assert any(row[-1] in ENDS for row in lists(results))


def test_a_prefix_may_have_an_end_token_only_at_the_end():
    encoder, decoder = rnn_seq2seq(20, 12, units=8, embedding_dim=8)
    model = GenerationModel(encoder, GreedyDecoder(decoder, max_length=6, **OTHERS))
    assert model.generate([[4, 2]], target_prefix=[7, 5]) == [[7]]
    with pytest.raises(ValueError, match="other_end_token_ids=5 only at the end.* at position 1"):
        model.generate([[4, 2]], target_prefix=[7, 5, 6])


def test_generate_says_what_has_ended():
    encoder, decoder = rnn_seq2seq(20, 12, units=8, embedding_dim=8)
    sources = [[number, 7, 2] for number in range(4, 20)]
    for pad_token_id, unknown in ((0, False), (5, None)):  # padding may also end a hypothesis
        search = GreedyDecoder(
            decoder, max_length=6, pad_token_id=pad_token_id, other_end_token_ids=[5, 7, 9]
        )
        model = GenerationModel(encoder, search)
        rows = numpy(search(**encoder(np.array(sources))))["token_ids"][:, 0]
        for result, row in zip(model.generate(sources, return_details=True), rows, strict=True):
            after = row[len(result.token_ids) :][:1].tolist()
            if after and after[0] in {2, 5, 7, 9} - {pad_token_id}:
                assert result.ended is True
            else:
                assert result.ended is unknown
            assert not set(result.token_ids) & {2, 5, 7, 9}


def test_the_default_suppresses_no_end_token():
    search = GreedyDecoder(TableDecoder(), pad_token_id=4, other_end_token_ids=[4, 5])
    assert search.suppressed_token_ids == [1]
    repeated = GreedyDecoder(TableDecoder(), other_end_token_ids=[5, 4, 5])
    assert repeated.other_end_token_ids == [5, 4]
    assert search.end_token_ids == [2, 4, 5]
    assert GreedyDecoder.from_config(search.get_config()).other_end_token_ids == [4, 5]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([2], "without end_token_id"),
        ([-1], "Expected other_end_token_ids"),
        (5, "Expected other_e"),
    ],
)
def test_refuses(ids, message):
    with pytest.raises(ValueError, match=message):
        GreedyDecoder(TableDecoder(), other_end_token_ids=ids)
    with pytest.raises(ValueError, match="other_end_token_ids below the size of the vocabulary"):
        search = GreedyDecoder(
            rnn_seq2seq(9, 9, units=4, embedding_dim=4)[1], other_end_token_ids=[9]
        )
        encoder, _ = rnn_seq2seq(9, 9, units=4, embedding_dim=4)
        search(**encoder(np.array([[5, 2]])))
