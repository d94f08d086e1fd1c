import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import BeamDecoder, rnn_seq2seq
from keras_attn._search.coverage_penalty import coverage_penalty
from keras_attn.testing import _search_oracles as search_oracles
from tests.contracts import assert_close, assert_found, numpy
from tests.search.table_decoder import TableDecoder, log_probs_of, node_after, random_tables

LIMIT, NODES = 6, 5
TABLES = random_tables(3, batch=6, nodes=NODES, end_logit=0.5, scale=1.0)


class BlurredTableDecoder(TableDecoder):
    """Attends to its node with 0.4, to the one before with 0.6: to some of them hardly at all."""

    def step(self, token_ids, state, memory):
        logits, state = super().step(token_ids, state, memory)
        if "alignments" in state:
            sharp = state["alignments"]
            state["alignments"] = 0.4 * sharp + 0.6 * ops.roll(sharp, -1, axis=1)
        return logits, state


def of_tokens(tokens, weight):
    """GNMT's penalty, summed over the nodes that have been attended to at all."""
    coverage = np.zeros(NODES)
    for step in range(len(tokens)):
        node = node_after(tokens[:step], NODES)
        coverage[node] += 0.4
        coverage[node - 1] += 0.6
    return weight * sum(np.log(min(each, 1)) for each in coverage if each > 0)


def found(weight, **settings):
    settings = {"max_length": LIMIT, "relative_max_length": None, **settings}
    search = BeamDecoder(BlurredTableDecoder(), coverage_penalty=weight, **settings)
    return numpy(search(TABLES))


@pytest.mark.parametrize("weight", [0.2, 1.5])
@pytest.mark.parametrize(
    "settings",
    [
        {"beam_width": 1},
        {"beam_width": 4, "num_hypotheses": 4},
        {"beam_width": 4, "num_hypotheses": 2, "stop": "exact"},
        {"beam_width": 3, "num_hypotheses": 2, "min_length": 2, "length_penalty": 0.5},
    ],
    ids=str,
)
def test_equals_a_slow_search_of_each_sentence(settings, weight):
    expected = [
        search_oracles.beam_search(
            log_probs_of(table), LIMIT, more=lambda tokens: of_tokens(tokens, weight), **settings
        )
        for table in TABLES
    ]
    assert_found(found(weight, **settings), expected)


def test_it_changes_what_is_best():
    settings = {"beam_width": 4, "num_hypotheses": 4}
    without, with_it = found(0.0, **settings), found(3.0, **settings)
    assert (without["token_ids"][:, 0] != with_it["token_ids"][:, 0]).any(axis=-1).sum() > 1


@pytest.mark.parametrize("return_alignments", [False, True])
def test_alignments_are_returned_only_on_request(return_alignments):
    settings = {"beam_width": 3, "return_alignments": return_alignments}
    results = found(0.7, **settings)
    assert ("alignments" in results) == return_alignments
    if return_alignments:
        lengths = results["token_ids"][:, 0] != 0
        covered = (results["alignments"][:, 0] * lengths[:, :, None]).sum(axis=1)  # (B, S)
        log_probs, scores = results["log_probs"][:, 0], results["scores"][:, 0]
        expected = log_probs / np.maximum(results["lengths"][:, 0], 1)
        assert_close(scores - expected, numpy(coverage_penalty(covered, 0.7)), 1e-4)


def test_positions_without_attention_do_not_count():
    coverage = np.array([[0.0, 0.5, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0]], "float32")
    assert_close(numpy(coverage_penalty(coverage, 2.0)), np.array([2 * np.log(0.5), 0.0]), 1e-6)


def test_padding_of_the_source_does_not_count():
    encoder, decoder = rnn_seq2seq(10, 11, embedding_dim=4, units=4, seed=0)
    search = BeamDecoder(
        decoder, beam_width=3, max_length=8, coverage_penalty=0.8, relative_max_length=None
    )
    short, padded = np.array([[5, 6, 2]], "int32"), np.array([[5, 6, 2, 0, 0]], "int32")
    alone, beside = (numpy(search(**encoder(ids))) for ids in (short, padded))
    assert_close(beside, alone)


def test_settings_survive_saving():
    layer = BeamDecoder(TableDecoder(), coverage_penalty=0.3)
    config = keras.saving.serialize_keras_object(layer)
    assert keras.saving.deserialize_keras_object(config).coverage_penalty == 0.3


@pytest.mark.parametrize("value", [-0.1, float("inf"), float("nan"), None])
def test_refuses_values_out_of_range(value):
    with pytest.raises(ValueError, match="coverage_penalty"):
        BeamDecoder(TableDecoder(), coverage_penalty=value)


def test_a_decoder_without_attention_is_refused():
    encoder, decoder = rnn_seq2seq(10, 11, attention=None, embedding_dim=4, units=4)
    search = BeamDecoder(decoder, coverage_penalty=0.3)
    with pytest.raises(ValueError, match="Expected a decoder with attention .* coverage_penalty"):
        search(**encoder(np.array([[5, 2]], "int32")))
