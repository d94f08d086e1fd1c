import keras
import numpy as np
import pytest

from keras_attn import BeamDecoder, GreedyDecoder, rnn_seq2seq
from keras_attn._decoding_state import growing_buffer
from keras_attn.testing import _search_oracles as search_oracles
from tests.contracts import assert_close, assert_found, check_padding_and_batch, numpy
from tests.search.table_decoder import TableDecoder, log_probs_of, node_after, random_tables

MAX_LENGTH = 7


def masks_of_all_lengths(tables):
    """Source lengths from 1 on, so that the sentences have limits of their own."""
    nodes = tables.shape[1]
    return np.arange(nodes) <= np.arange(len(tables))[:, None] * 2


def found(tables, mask=None, call=None, **arguments):
    arguments = {"max_length": MAX_LENGTH, "relative_max_length": None, **arguments}
    search = BeamDecoder(TableDecoder(), **arguments)
    return numpy(search(tables, mask, **(call or {})))


def expected(tables, limits=None, **arguments):
    limits = [MAX_LENGTH] * len(tables) if limits is None else limits
    return [
        search_oracles.beam_search(log_probs_of(table), limit, **arguments)
        for table, limit in zip(tables, limits, strict=True)
    ]


SETTINGS = [
    {"beam_width": 1},
    {"beam_width": 2, "num_hypotheses": 2},
    {"beam_width": 4, "num_hypotheses": 4},
    {"beam_width": 5, "num_hypotheses": 3, "length_penalty": 0.0},
    {"beam_width": 4, "num_hypotheses": 2, "length_penalty": 0.6, "form": "gnmt"},
    {"beam_width": 4, "num_hypotheses": 2, "form": "none"},
    {"beam_width": 4, "num_hypotheses": 4, "patience": 2.0},
    {"beam_width": 4, "num_hypotheses": 2, "patience": 0.5},
    {"beam_width": 4, "num_hypotheses": 2, "patience": 0.3},
    {"beam_width": 4, "patience": 0.1},
    {"beam_width": 3, "num_hypotheses": 2, "min_length": 3},
    {"beam_width": 3, "num_hypotheses": 3, "stop": "exact"},
    {"beam_width": 3, "num_hypotheses": 2, "stop": "exact", "length_penalty": 2.0},
    {"beam_width": 3, "stop": "exact", "length_penalty": -1.0},
    {"beam_width": 4, "stop": "exact", "length_penalty": 1.5, "form": "gnmt", "min_length": 2},
    {"beam_width": 4, "num_hypotheses": 4, "stop": "heuristic", "form": "average_with_end"},
    {"beam_width": 3, "stop": "heuristic", "length_penalty": 2.0},
    {"beam_width": 4, "num_hypotheses": 4, "form": "average_with_end"},
    {"beam_width": 4, "stop": "exact", "length_penalty": 2.0, "form": "average_with_end"},
    {"beam_width": 3, "suppressed": (0, 1, 3, 5)},
    {"beam_width": 3, "suppressed": ()},
    {"beam_width": 2, "suppressed": (0, 1, 5, 5), "min_length": 2},
    {"beam_width": 8, "num_hypotheses": 8},  # more candidates than tokens
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_equals_a_slow_search_of_each_sentence(settings):
    names = {"form": "length_penalty_form", "suppressed": "suppressed_token_ids"}
    arguments = {names.get(name, name): value for name, value in settings.items()}
    tables = np.concatenate(
        [random_tables(seed, batch=4, end_logit=logit) for seed, logit in enumerate((-1, 1, 3))]
    )
    assert_found(found(tables, **arguments), expected(tables, **settings))


def test_half_hypotheses_of_patience_are_rounded_up():
    """Two and a half hypotheses have not ended before the third has."""
    tables = random_tables(5, batch=8, end_logit=2.0)
    settings = {"beam_width": 5, "num_hypotheses": 5, "patience": 0.5}
    assert_found(found(tables, **settings), expected(tables, **settings))


def test_a_wide_beam_that_stops_exactly_finds_the_best_of_all():
    limit, vocabulary_size = 4, 6
    tables = random_tables(3, batch=3, vocabulary_size=vocabulary_size, scale=1.0)
    for form, penalty in (
        ("average", 1.0),
        ("gnmt", 1.5),
        ("none", 1.0),
        ("average_with_end", 3.0),
    ):
        results = found(
            tables,
            beam_width=3**3 * 4,
            num_hypotheses=10,
            stop="exact",
            max_length=limit,
            length_penalty=penalty,
            length_penalty_form=form,
        )
        every = [
            search_oracles.every_hypothesis(log_probs_of(table), limit, penalty, form)
            for table in tables
        ]
        assert_found(results, [hypotheses[:10] for hypotheses in every])


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_one_beam_is_greedy(penalty):
    tables = random_tables(11, batch=8)
    arguments = {"max_length": MAX_LENGTH, "length_penalty": penalty}
    greedy = numpy(GreedyDecoder(TableDecoder(), **arguments)(tables))
    assert_close(numpy(BeamDecoder(TableDecoder(), beam_width=1, **arguments)(tables)), greedy)


def test_one_beam_is_greedy_where_the_score_depends_on_the_end():
    tables = random_tables(11, batch=8, end_logit=0.5)
    mask = masks_of_all_lengths(tables)
    arguments = {
        "max_length": MAX_LENGTH,
        "relative_max_length": (1, 1),
        "length_penalty_form": "average_with_end",
    }
    greedy = numpy(GreedyDecoder(TableDecoder(), **arguments)(tables, mask))
    has_end = (greedy["token_ids"] == 2).any(axis=-1)
    assert has_end.any() and not has_end.all()
    assert_close(
        numpy(BeamDecoder(TableDecoder(), beam_width=1, **arguments)(tables, mask)), greedy
    )


@pytest.mark.parametrize("relative", [(1, 2), (0.5, 1), None])
def test_each_sentence_has_a_limit_of_its_own(relative):
    tables = random_tables(7, end_logit=-2.0)
    mask = masks_of_all_lengths(tables)
    limits = [MAX_LENGTH] * len(tables)
    if relative:
        lengths = mask.sum(axis=1)
        limits = [min(int(relative[0] * n + relative[1]), MAX_LENGTH) for n in lengths]
        assert len(set(limits)) > 2
    settings = {"beam_width": 3, "num_hypotheses": 2}
    results = found(tables, mask, relative_max_length=relative, **settings)
    assert_found(results, expected(tables, limits, **settings))


def test_the_usual_limit_is_twice_the_source_and_ten():
    tables = random_tables(7, batch=2, end_logit=-50.0)
    mask = np.arange(19) < np.array([[1], [4]])
    results = found(tables, mask, relative_max_length=(2, 10), max_length=15, beam_width=2)
    assert results["lengths"].tolist() == [[12], [15]]


def test_what_is_cut_by_its_limit_has_no_end_token():
    tables = random_tables(7, end_logit=-50.0)
    results = found(tables, beam_width=2, max_length=3)
    assert (results["lengths"] == 3).all()
    assert results["token_ids"].shape[2] == 3
    assert (results["token_ids"] > 2).all()


def test_ties_go_to_the_earlier_beam_and_then_to_the_lower_token():
    """Four tokens are equally probable after any prefix: all hypotheses of a length are tied."""
    table = np.full((1, 5, 7), -200.0, "float32")
    table[:, :, [2, 4, 5, 6]] = 0.0
    results = found(table, beam_width=4, num_hypotheses=4, patience=5.0, max_length=3)
    # After one step: end, 4, 5, 6. The open beams are then always (4), (5), (6) and what follows.
    assert_found(results, expected(table, [3], beam_width=4, num_hypotheses=4, patience=5.0), 1e-5)
    results = found(table, beam_width=4, num_hypotheses=4, length_penalty=0.0, max_length=3)
    assert results["token_ids"][0, :2].tolist() == [[2, 0, 0], [4, 2, 0]]


@pytest.mark.parametrize("seed", range(3))
def test_tied_hypotheses_are_those_of_the_slow_search(seed):
    """Tokens are equally probable or impossible, always as many: exact ties everywhere."""
    generator = np.random.default_rng(seed)
    tables = np.full((6, 19, 9), -200.0, "float32")
    for table in tables:
        for logits in table:
            logits[generator.choice(np.arange(2, 9), 4, replace=False)] = 0.0
    settings = {"beam_width": 3, "num_hypotheses": 3, "patience": 2.0}
    assert_found(found(tables, **settings), expected(tables, **settings))


def test_hypotheses_that_do_not_exist_are_marked():
    table = np.full((1, 5, 7), -200.0, "float32")
    table[:, :, 2] = 0.0
    results = found(table, beam_width=4, num_hypotheses=4, suppressed_token_ids=[0, 1, 3, 4, 5, 6])
    assert results["token_ids"][0, :, 0].tolist() == [2, 0, 0, 0]
    assert not results["token_ids"][0, :, 1:].any()
    assert results["lengths"].tolist() == [[0, 0, 0, 0]]
    assert_close(results["log_probs"][0, 0], 0.0)
    assert (results["scores"][0, 1:] == np.float32(-1e9)).all()


def test_alignments_are_those_of_the_hypothesis():
    tables = random_tables(2, batch=5, end_logit=1.0)
    settings = {"beam_width": 4, "num_hypotheses": 4, "patience": 2.0}
    results = found(tables, return_alignments=True, **settings)
    hypotheses = expected(tables, **settings)
    assert_found({name: results[name] for name in results if name != "alignments"}, hypotheses)
    for b, sentence in enumerate(hypotheses):
        for rank, (tokens, *_) in enumerate(sentence):
            nodes = [node_after(tokens[:t], tables.shape[1]) for t in range(len(tokens))]
            alignments = results["alignments"][b, rank]
            assert alignments[: len(tokens)].argmax(axis=1).tolist() == nodes
            assert alignments.sum() == len(tokens)


def test_padding_and_other_sentences_change_nothing():
    tables = random_tables(4, end_logit=1.0)
    for limit in (None, (1, 2)):
        search = BeamDecoder(
            TableDecoder(), beam_width=3, num_hypotheses=2, max_length=9, relative_max_length=limit
        )
        mask = masks_of_all_lengths(tables)
        results = numpy(search(tables, mask))
        order = np.array([3, 1, 5, 0, 2, 4])
        assert_close(
            numpy(search(tables[order], mask[order])),
            {name: values[order] for name, values in results.items()},
        )
        for row in (0, 3):
            alone = numpy(search(tables[row : row + 1], mask[row : row + 1]))
            time = alone["token_ids"].shape[2]
            assert_close(alone["token_ids"][0], results["token_ids"][row, :, :time])
            assert not results["token_ids"][row, :, time:].any()
            assert_close(alone["scores"][0], results["scores"][row])


@pytest.mark.parametrize("max_length", [0, 1, 4, 7])
def test_max_length_is_an_argument_of_the_call(max_length):
    tables = random_tables(6, end_logit=-1.0)
    settings = {"beam_width": 3, "num_hypotheses": 2}
    results = found(tables, call={"max_length": max_length}, **settings)
    assert_found(results, expected(tables, [max_length] * len(tables), **settings))


def test_a_call_may_allow_more_than_the_search():
    if not growing_buffer.supports_growth():
        pytest.skip("needs arrays that grow")
    tables = random_tables(6, end_logit=-50.0)
    results = found(tables, call={"max_length": 12}, beam_width=2)
    assert_found(results, expected(tables, [12] * len(tables), beam_width=2))
    assert (results["lengths"] == 12).all()


@pytest.mark.parametrize("penalty", [0.0, 0.5, 2.0])
def test_length_penalty_is_an_argument_of_the_call(penalty):
    tables = random_tables(6)
    settings = {"beam_width": 4, "num_hypotheses": 2}
    results = found(tables, call={"length_penalty": np.float32(penalty)}, **settings)
    assert_found(results, expected(tables, length_penalty=penalty, **settings))


@pytest.mark.parametrize("penalty", [float("nan"), float("inf"), np.float32("-inf")])
def test_length_penalty_of_the_call_is_finite(penalty):
    for search in (BeamDecoder, GreedyDecoder):
        with pytest.raises(ValueError, match="length_penalty to be a finite number"):
            search(TableDecoder(), max_length=3)(random_tables(0), length_penalty=penalty)


@pytest.mark.parametrize("search", [BeamDecoder, GreedyDecoder])
def test_no_token_allowed_gives_the_empty_hypothesis(search):
    results = numpy(search(TableDecoder(), max_length=0)(random_tables(0)))
    assert (results["lengths"] == 0).all()
    assert (results["scores"] == 0).all() and (results["log_probs"] == 0).all()
    assert not results["token_ids"].any()


@pytest.mark.parametrize("search", [BeamDecoder, GreedyDecoder])
def test_a_negative_limit_is_no_token_allowed(search):
    results = numpy(search(TableDecoder(), max_length=5)(random_tables(0), max_length=-1))
    assert (results["lengths"] == 0).all()
    assert (results["log_probs"] == 0).all()


@pytest.mark.parametrize("search", [BeamDecoder, GreedyDecoder])
def test_other_special_ids(search):
    """Start, end and padding are the arguments, also where sentences of one batch differ."""
    tables = np.roll(random_tables(9, end_logit=-2.0), 3, axis=2)  # end is 5
    mask = masks_of_all_lengths(tables)
    arguments = {"start_token_id": 4, "end_token_id": 5, "pad_token_id": 6}
    search = search(TableDecoder(), max_length=9, relative_max_length=(1, 1), **arguments)
    results = numpy(search(tables, mask))
    limits = np.minimum(mask.sum(axis=1) + 1, 9)
    assert len(set(results["lengths"][:, 0])) > 1
    for row, limit in enumerate(limits):
        log_probs_after = log_probs_of(tables[row], start=4)
        special = {"end": 5, "suppressed": (6, 4)}
        if isinstance(search, BeamDecoder):
            ((tokens, *_),) = search_oracles.beam_search(log_probs_after, limit, 4, **special)
        else:
            tokens, _ = search_oracles.greedy_search(log_probs_after, limit, **special)
        received = results["token_ids"][row, 0]
        assert tuple(received[: len(tokens)]) == tokens
        assert (received[len(tokens) :] == 6).all()


def test_scores_are_float32_whatever_the_float_type_of_keras():
    keras.config.set_floatx("float64")
    try:
        encoder, decoder = rnn_seq2seq(9, 9, embedding_dim=4, units=4)
        results = BeamDecoder(decoder, beam_width=3, max_length=5)(
            **encoder(np.array([[4, 5, 2]], "int32"))
        )
    finally:
        keras.config.set_floatx("float32")
    assert numpy(results["scores"]).dtype == numpy(results["log_probs"]).dtype == "float32"


def test_padding_and_batch_of_the_contract_notice_a_search_that_depends_on_them():
    """The check that decoders are given would fail for a decoder that sees its padding."""
    tables = random_tables(4, batch=3)
    encoded = {"encoder_outputs": tables, "encoder_mask": np.arange(19) < 5 + 0 * tables[:, :, 0]}
    with pytest.raises(AssertionError):  # the table decoder takes its number of nodes from it
        check_padding_and_batch(BeamDecoder(TableDecoder(), beam_width=2, max_length=5), encoded)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beam_width": 0}, r"in \[1, 4096\]. Received: beam_width=0. For more"),
        ({"beam_width": 2.0}, "beam_width to be an integer in .* Received: beam_width=2.0"),
        ({"beam_width": 4097}, "Received: beam_width=4097"),
        ({"num_hypotheses": 5}, "at most beam_width. Received: num_hypotheses=5, beam_wid"),
        ({"num_hypotheses": 0}, "a positive integer. Received: num_hypotheses=0"),
        ({"stop": "early"}, "Expected stop to be one of .* Received: stop='early'"),
        ({"patience": 0.0}, "positive finite number. Received: patience=0.0"),
        ({"patience": float("inf")}, "finite number. Received: patience=inf"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        BeamDecoder(TableDecoder(), **arguments)
