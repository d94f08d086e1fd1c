import numpy as np
import pytest

from keras_attn import GreedyDecoder
from keras_attn.testing import _search_oracles as search_oracles
from tests.contracts import assert_close, assert_found, numpy
from tests.search.table_decoder import TableDecoder, log_probs_of, node_after, random_tables

MAX_LENGTH = 7


def found(tables, **arguments):
    search = GreedyDecoder(TableDecoder(), max_length=MAX_LENGTH, **arguments)
    return numpy(search(tables))


@pytest.mark.parametrize(
    ("settings", "length_penalty"), [({}, 1.0), ({"min_length": 3}, 0.6), ({"min_length": 7}, 0.0)]
)
def test_equals_a_loop_over_each_sentence(settings, length_penalty):
    tables = random_tables(1, batch=8, end_logit=1.0)
    expected = [
        [
            search_oracles.hypothesis(
                *search_oracles.greedy_search(log_probs_of(table), MAX_LENGTH, **settings),
                length_penalty,
            )
        ]
        for table in tables
    ]
    assert_found(found(tables, length_penalty=length_penalty, **settings), expected)


def test_ties_go_to_the_lower_token():
    table = np.zeros((1, 5, 7), "float32")
    table[:, :, 2] = -1.0
    assert (found(table)["token_ids"] == 3).all()


def test_alignments_are_those_of_the_hypothesis():
    tables = random_tables(2, batch=5, end_logit=2.0)
    results = found(tables, return_alignments=True)
    for b, tokens in enumerate(results["token_ids"][:, 0]):
        tokens = tuple(tokens[tokens != 0])
        nodes = [node_after(tokens[:t], tables.shape[1]) for t in range(len(tokens))]
        alignments = results["alignments"][b, 0]
        assert alignments[: len(tokens)].argmax(axis=1).tolist() == nodes
        assert alignments.sum() == len(tokens)


def test_suppressed_tokens_are_never_chosen_and_change_no_probability():
    tables = random_tables(3, batch=8)
    results = found(tables, suppressed_token_ids=[0, 1, 3, 4])
    assert not np.isin(results["token_ids"], [1, 3, 4]).any()
    for table, tokens, log_prob in zip(
        tables, results["token_ids"][:, 0], results["log_probs"][:, 0], strict=True
    ):
        tokens = tuple(tokens[tokens != 0])
        after = log_probs_of(table)
        total = sum(after(tokens[:t])[token] for t, token in enumerate(tokens))
        assert_close(log_prob, total)
