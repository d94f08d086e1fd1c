import re

import numpy as np
import pytest

from keras_attn import BeamDecoder, GreedyDecoder, SamplingDecoder, rnn_seq2seq
from keras_attn.testing import _search_oracles as search_oracles
from tests.contracts import assert_close, assert_found, assert_identical, numpy, tensor
from tests.search.table_decoder import TableDecoder, log_probs_of, random_tables

LIMIT = 7
TABLES = random_tables(11, batch=6, vocabulary_size=7, end_logit=0.5)
BIASES = [{3: -1e9}, {4: 2.0, 5: -1.5}, {}, {2: -3.0}, {3: 1.0}, {6: -1e9, 5: -1e9}]


def arrays(biases):
    ids, values = np.full((len(biases), 2), -1), np.full((len(biases), 2), 7.0, "float32")
    for row, bias in enumerate(biases):
        ids[row, : len(bias)], values[row, : len(bias)] = [*bias], [*bias.values()]
    return {"token_bias_ids": tensor(ids), "token_bias_values": tensor(values)}


def found(search, biases=BIASES, **settings):
    call = {name: settings.pop(name) for name in ("prefix_ids", "seeds") if name in settings}
    settings = {"max_length": LIMIT, "relative_max_length": None, **settings}
    biases = {} if biases is None else arrays(biases)
    return numpy(search(TableDecoder(), **settings)(TABLES, **biases, **call))


def biased(table, bias):
    log_probs_after = log_probs_of(table)

    def with_bias(prefix):
        log_probs = np.array(log_probs_after(prefix), "float64")
        for token, value in bias.items():
            log_probs[token] += value if value > -1e9 else -np.inf
        return log_probs

    return with_bias


@pytest.mark.parametrize("width", [1, 3])
def test_beam_search_equals_a_search_of_each_sentence(width):
    options = {"beam_width": width, "num_hypotheses": width}
    expected = [
        search_oracles.beam_search(biased(table, bias), LIMIT, **options)
        for table, bias in zip(TABLES, BIASES, strict=True)
    ]
    assert_found(found(BeamDecoder, **options), expected)


def test_greedy_search_equals_a_search_of_each_sentence():
    expected = [
        [search_oracles.hypothesis(*search_oracles.greedy_search(biased(table, bias), LIMIT))]
        for table, bias in zip(TABLES, BIASES, strict=True)
    ]
    assert_found(found(GreedyDecoder), expected)


def test_samples_contain_no_forbidden_token_and_prefer_others():
    options = {"num_hypotheses": 200, "seeds": tensor([3] * 6)}
    without, results = found(SamplingDecoder, None, **options), found(SamplingDecoder, **options)
    counts = [(each["token_ids"][:, :, 0] == 4).sum(1) for each in (without, results)]
    assert not (results["token_ids"][0] == 3).any() and (without["token_ids"][0] == 3).any()
    assert counts[1][1] > counts[0][1]
    assert_identical(results["token_ids"][2], without["token_ids"][2])


def test_biases_do_not_change_the_score_of_a_prefix():
    prefix = tensor([[3]] * 6)
    options = {"prefix_ids": prefix, "return_token_log_probs": True, "beam_width": 2}
    without, results = found(BeamDecoder, None, **options), found(BeamDecoder, **options)
    first = [each["token_log_probs"][:, 0, 0] for each in (without, results)]
    assert_close(*first, 1e-6)


def test_a_row_is_for_all():
    one = found(BeamDecoder, [BIASES[1]])
    assert_identical(one, found(BeamDecoder, [BIASES[1]] * 6))


@pytest.mark.parametrize(
    "ids, values, message",
    [
        ([[8]], [[1.0]], "below 8"),
        ([[-2]], [[1.0]], "padded with -1"),
        ([[3]], [[np.nan]], "without NaN"),
        ([[3.0]], [[1.0]], "integer dtype"),
        ([3], [[1.0]], "(batch, biases)"),
        ([[3]], [1.0], "(batch, biases)"),
        ([[3]], None, "only one of them"),
    ],
    ids=str,
)
def test_wrong_biases_are_errors(ids, values, message):
    encoder, decoder = rnn_seq2seq(20, 8, units=4, embedding_dim=4)
    encoded = encoder(np.array([[5, 6, 2]]))
    values = None if values is None else tensor(np.array(values, "float32"))
    with pytest.raises(ValueError, match=re.escape(message)):
        BeamDecoder(decoder)(
            **encoded, token_bias_ids=tensor(np.array(ids)), token_bias_values=values
        )
