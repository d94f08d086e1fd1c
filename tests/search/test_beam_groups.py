import keras
import numpy as np
import pytest

from keras_attn import BeamDecoder
from keras_attn.testing import _search_oracles as search_oracles
from tests.contracts import assert_close, assert_found, numpy
from tests.search.constrained_oracles import with_prefix
from tests.search.table_decoder import TableDecoder, log_probs_of, random_tables

LIMIT = 6
TABLES = np.concatenate(
    [random_tables(seed, batch=4, end_logit=logit) for seed, logit in enumerate((-1, 1, 3))]
)
BY_LANGUAGE = np.array([[4, 6], [5, 0]] * 6, "int32")


def make_search(**settings):
    return BeamDecoder(
        TableDecoder(), **{"max_length": LIMIT, "relative_max_length": None, **settings}
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"beam_width": 4, "num_groups": 2, "num_hypotheses": 4},
        {"beam_width": 4, "num_groups": 4, "num_hypotheses": 4, "diversity_strength": 2.0},
        {"beam_width": 6, "num_groups": 3, "num_hypotheses": 3, "diversity_strength": 0.2},
        {"beam_width": 6, "num_groups": 2, "num_hypotheses": 4, "stop": "exact"},
        {"beam_width": 4, "num_groups": 2, "num_hypotheses": 3, "min_length": 3},
        {"beam_width": 4, "num_groups": 2, "num_hypotheses": 4, "patience": 2.0},
        {"beam_width": 10, "num_groups": 5, "num_hypotheses": 10},  # more than there are tokens
    ],
    ids=str,
)
def test_equals_a_slow_search_of_each_sentence(settings):
    expected = [
        search_oracles.beam_search(log_probs_of(table), LIMIT, **settings) for table in TABLES
    ]
    assert_found(numpy(make_search(**settings)(TABLES)), expected)


def test_prefixes_are_followed_by_every_group():
    settings = {"beam_width": 4, "num_groups": 2, "num_hypotheses": 4}
    results = numpy(make_search(**settings)(TABLES, prefix_ids=BY_LANGUAGE))
    expected = [
        search_oracles.beam_search(
            with_prefix(log_probs_of(table), prefix[prefix != 0]), LIMIT, **settings
        )
        for table, prefix in zip(TABLES, BY_LANGUAGE, strict=True)
    ]
    assert_found(results, expected)


def test_groups_make_hypotheses_differ():
    settings = {"beam_width": 4, "num_hypotheses": 4, "min_length": LIMIT}
    plain = numpy(make_search(**settings)(TABLES))["token_ids"][:, :, 0]
    grouped = make_search(**settings, num_groups=4, diversity_strength=20.0)(TABLES)
    grouped = numpy(grouped)["token_ids"][:, :, 0]
    assert all(len(set(first_tokens)) == 4 for first_tokens in grouped)
    assert not all(len(set(first_tokens)) == 4 for first_tokens in plain)


def test_each_group_is_a_search_of_its_own_where_they_hardly_differ():
    """So they find what a narrower search does, and each hypothesis counts once."""
    settings = {"num_hypotheses": 2, "patience": 9.0}
    narrow = numpy(make_search(beam_width=2, **settings)(TABLES))
    grouped = make_search(beam_width=4, num_groups=2, diversity_strength=1e-7, **settings)
    assert_close(numpy(grouped(TABLES)), narrow)


def test_no_hypothesis_is_there_twice():
    """Where one token is far more probable than all others, all groups choose it."""
    tables = TABLES.copy()
    tables[:, :, 2] = 3.0
    tables[:, :, 5] = 12.0
    settings = {"beam_width": 4, "num_groups": 4, "num_hypotheses": 4, "min_length": 3}
    results = numpy(make_search(**settings)(tables))
    expected = [
        search_oracles.beam_search(log_probs_of(table), LIMIT, **settings) for table in tables
    ]
    assert_found(results, expected)
    found = [
        [tuple(tokens) for tokens, log_prob in zip(*sentence, strict=True) if log_prob > -1e8]
        for sentence in zip(results["token_ids"], results["log_probs"], strict=True)
    ]
    assert all(len(set(hypotheses)) == len(hypotheses) for hypotheses in found)


@pytest.mark.parametrize("call", [{}, {"prefix_ids": BY_LANGUAGE}], ids=["", "prefix"])
def test_token_log_probs_sum_to_those_of_the_hypotheses(call):
    search = make_search(
        beam_width=4, num_groups=2, num_hypotheses=4, return_token_log_probs=True, patience=9.0
    )
    results = numpy(search(TABLES, **call))
    exists = results["log_probs"] > -1e8
    assert exists.sum() > 30
    sums = results["token_log_probs"].sum(axis=-1)
    assert_close(sums[exists], results["log_probs"][exists], 1e-5)


def test_padding_and_batch_change_nothing():
    mask = np.arange(TABLES.shape[1]) <= np.arange(len(TABLES))[:, None]
    search = BeamDecoder(
        TableDecoder(),
        beam_width=4,
        num_hypotheses=4,
        num_groups=2,
        relative_max_length=(1, 0),
        max_length=9,
    )
    encoded = {"encoder_outputs": TABLES, "encoder_mask": mask}
    alone = [
        {name: values[row : row + 1] for name, values in encoded.items()}
        for row in range(len(TABLES))
    ]
    results = numpy(search(**encoded))
    for row, sentence in enumerate(alone):
        own = numpy(search(**sentence))
        time = own["token_ids"].shape[2]
        assert_close(own["token_ids"], results["token_ids"][row : row + 1, :, :time])
        assert_close(own["scores"], results["scores"][row : row + 1])


def test_settings_survive_saving():
    layer = make_search(beam_width=6, num_groups=3, diversity_strength=0.7)
    layer = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert (layer.num_groups, layer.diversity_strength) == (3, 0.7)


@pytest.mark.parametrize("num_groups", [0, 3, 2.0, None])
def test_groups_must_divide_the_beams(num_groups):
    with pytest.raises(ValueError, match="num_groups"):
        BeamDecoder(TableDecoder(), beam_width=4, num_groups=num_groups)


@pytest.mark.parametrize("strength", [0.0, -1.0, float("inf"), float("nan"), None])
def test_refuses_a_strength_out_of_range(strength):
    with pytest.raises(ValueError, match="diversity_strength"):
        BeamDecoder(TableDecoder(), beam_width=4, num_groups=2, diversity_strength=strength)
