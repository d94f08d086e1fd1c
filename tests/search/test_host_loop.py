"""A search whose loop runs on the host: the functions of a search, one after the other."""

import itertools

import numpy as np
import pytest
from keras import ops

from keras_attn import BeamDecoder, GreedyDecoder, SamplingDecoder
from tests.contracts import assert_close, numpy
from tests.search.table_decoder import TableDecoder, log_probs_of, random_tables
from tests.slow_cases import slow_on_jax

TABLES = random_tables(1, batch=6, end_logit=1.0)


def run_on_the_host(search, tables):
    """The results, what is shown after each step, and which sentences are done then."""
    search.build(tables.shape)
    carry, memory, max_lengths = search.prepare(ops.convert_to_tensor(tables))
    shown, done = [], []
    while not np.all(numpy(carry["done"])):
        carry = search.advance(carry, memory, max_lengths, search.call_settings())
        shown.append(numpy(search.partial(carry))[:, : len(shown) + 1])
        done.append(numpy(carry["done"]))
    return numpy(search.finish(carry["hypotheses"])), shown, done


@slow_on_jax
@pytest.mark.parametrize(
    "make",
    [
        lambda decoder: GreedyDecoder(decoder, max_length=8, return_alignments=True),
        lambda decoder: BeamDecoder(
            decoder, beam_width=3, num_hypotheses=2, max_length=8, return_alignments=True
        ),
        lambda decoder: SamplingDecoder(decoder, num_hypotheses=2, top_k=1, max_length=8),
    ],
)
def test_gives_what_the_loop_in_the_graph_gives(make):
    results, shown, done = run_on_the_host(make(TableDecoder()), TABLES)
    expected = numpy(make(TableDecoder())(TABLES))
    for name in ("token_ids", "lengths", "scores", "log_probs"):
        assert_close(results[name], expected[name])
    assert len(set(results["lengths"][:, 0])) > 1
    assert any(each.any() and not each.all() for each in done)
    for token_ids, is_done in zip(shown, done, strict=True):  # what is done shows its result
        best = results["token_ids"][:, 0, : token_ids.shape[1]]
        np.testing.assert_array_equal(token_ids[is_done], best[is_done])


def test_greedy_search_only_appends():
    _, shown, _ = run_on_the_host(GreedyDecoder(TableDecoder(), max_length=8), TABLES)
    for before, after in itertools.pairwise(shown):
        np.testing.assert_array_equal(before, after[:, :-1])


def test_groups_of_beams_show_the_likeliest_of_all():
    search = BeamDecoder(TableDecoder(), beam_width=4, num_groups=2, max_length=8)
    search.build(TABLES.shape)
    carry, memory, max_lengths = search.prepare(ops.convert_to_tensor(TABLES))
    groups = set()
    while not np.all(numpy(carry["done"])):
        carry = search.advance(carry, memory, max_lengths, search.call_settings())
        rows = np.flatnonzero(~numpy(carry["done"]))
        best = numpy(carry["beams"]["log_probs"])[rows].argmax(axis=1)
        expected = numpy(carry["beams"]["token_ids"])[rows, best]
        np.testing.assert_array_equal(numpy(search.partial(carry))[rows], expected)
        groups |= set(best // 2)
    assert groups == {0, 1}


def test_a_beam_wide_enough_shows_the_likeliest_of_all_prefixes():
    tables = random_tables(2, vocabulary_size=6)
    search = BeamDecoder(
        TableDecoder(), beam_width=27, max_length=4, relative_max_length=None, patience=9.0
    )
    _, shown, _ = run_on_the_host(search, tables)
    for length, token_ids in enumerate(shown[:3], start=1):
        for table, received in zip(tables, token_ids, strict=True):
            log_probs = log_probs_of(table)
            prefixes = itertools.product((3, 4, 5), repeat=length)
            best = max(
                prefixes,
                key=lambda prefix: sum(
                    log_probs(prefix[:position])[token] for position, token in enumerate(prefix)
                ),
            )
            assert received.tolist() == list(best)
