"""Settings of a call give the results of a search that was created with them."""

import keras
import numpy as np
import pytest

from keras_attn import BeamDecoder, GreedyDecoder, SamplingDecoder, rnn_seq2seq
from tests.contracts import assert_close, assert_identical, numpy
from tests.slow_cases import all_slow_but

SOURCES = np.array([[5, 6, 7, 8, 9, 2], [5, 7, 2, 0, 0, 0], [11, 4, 3, 9, 2, 0]], "int32")
SEED = 9
"""With these weights, some hypotheses end early."""
SEEDS = np.array([3, 4, 5], "int32")

SAMPLER = {"num_hypotheses": 2, "top_k": 9, "no_repeat_ngram_size": 3}
BEAM = {"num_hypotheses": 4, "coverage_penalty": 0.2, "no_repeat_ngram_size": 3}
GROUPS = {"num_hypotheses": 4, "num_groups": 2}


@pytest.fixture(scope="module")
def parts():
    encoder, decoder = rnn_seq2seq(20, 26, attention="luong", units=8, embedding_dim=8)
    decoder(SOURCES, **encoder(SOURCES))
    generator = np.random.default_rng(SEED)
    for weight in encoder.weights + decoder.weights:
        weight.assign(generator.normal(0, 0.7, tuple(weight.shape)))
    return decoder, encoder(SOURCES)


def results(parts, search_class, settings=None, **arguments):
    decoder, encoded = parts
    search = search_class(decoder, **{"max_length": 10, **arguments})
    seeds = {"seeds": SEEDS} if search.is_stochastic else {}
    return numpy(search(**encoded, **seeds, settings=settings))


CASES = [
    (GreedyDecoder, {}, {"min_length": 6}),
    (GreedyDecoder, {}, {"repetition_penalty": 3.0}),
    (GreedyDecoder, {"no_repeat_ngram_size": 3}, {"no_repeat_ngram_size": 1}),
    (SamplingDecoder, SAMPLER, {"temperature": 0.2}),
    (SamplingDecoder, SAMPLER, {"top_p": 0.4}),
    (SamplingDecoder, {"num_hypotheses": 2}, {"top_p": 0.4, "temperature": 1.4}),
    (SamplingDecoder, SAMPLER, {"min_p": 0.3, "min_length": 7}),
    (BeamDecoder, BEAM, {"min_length": 6}),
    (BeamDecoder, BEAM, {"patience": 0.25}),
    (BeamDecoder, {**BEAM, "max_length": 4}, {"coverage_penalty": 50.0}),
    (BeamDecoder, BEAM, {"repetition_penalty": 3.0}),
    (BeamDecoder, BEAM, {"no_repeat_ngram_size": 2}),
    (BeamDecoder, BEAM, {"no_repeat_ngram_size": 0}),
    (BeamDecoder, {**GROUPS, "stop": "exact"}, {"diversity_strength": 4.0}),
]


@pytest.mark.parametrize(
    ("search_class", "arguments", "settings"),
    all_slow_but(*CASES, cases=CASES, on_jax=CASES[::3]),
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value),
)
def test_a_call_equals_a_search_with_these_settings(parts, search_class, arguments, settings):
    expected = results(parts, search_class, **{**arguments, **settings})
    other = results(parts, search_class, **arguments)
    assert any(other[name].tolist() != expected[name].tolist() for name in ("token_ids", "scores"))
    received = results(parts, search_class, settings, **arguments)
    length = expected["token_ids"].shape[2]
    assert_identical(received["token_ids"][:, :, :length], expected["token_ids"])
    assert_close(received["scores"], expected["scores"], 1e-5)
    # Values that a graph reads at run time
    tensors = {name: keras.ops.convert_to_tensor(value) for name, value in settings.items()}
    received = results(parts, search_class, tensors, **arguments)
    assert_identical(received["token_ids"][:, :, :length], expected["token_ids"])


def test_a_smaller_top_k_keeps_the_most_probable(parts):
    arguments = {"num_hypotheses": 50, "top_k": 9, "temperature": 5.0}
    expected = results(parts, SamplingDecoder, **{**arguments, "top_k": 2})["token_ids"][:, :, 0]
    received = results(parts, SamplingDecoder, {"top_k": 2}, **arguments)["token_ids"][:, :, 0]
    for row, other in zip(received, expected, strict=True):
        assert set(row.tolist()) == set(other.tolist())
        assert len(set(row.tolist())) == 2


@pytest.mark.parametrize("value", [1.0, 0.999999])
def test_top_p_of_one_keeps_all_tokens(parts, value):
    """With a top_p of 1, rounding errors of the sum must not remove the least probable tokens."""
    arguments = {"num_hypotheses": 20, "temperature": 3.0}
    expected = results(parts, SamplingDecoder, **arguments)
    received = results(parts, SamplingDecoder, {"top_p": value}, **arguments)
    assert received["token_ids"].tolist() == expected["token_ids"].tolist()


@pytest.mark.parametrize(
    ("search_class", "arguments", "settings", "message"),
    [
        (GreedyDecoder, {}, {"temperature": 0.5}, "Expected settings out of .*temperature"),
        (BeamDecoder, {}, {"coverage_penalty": 0.5}, "Expected settings out of"),
        (BeamDecoder, {}, {"diversity_strength": 0.5}, "Expected settings out of"),
        (BeamDecoder, {"stop": "exact"}, {"patience": 2.0}, "Expected settings out of"),
        (GreedyDecoder, {}, {"beam_width": 2}, "Expected settings out of"),
        (SamplingDecoder, {}, {"patience": 2.0}, "Expected settings out of"),
        (SamplingDecoder, {}, {"temperature": 0.0}, "Expected temperature to be"),
        (SamplingDecoder, {}, {"top_p": 1.5}, "Expected top_p to be"),
        (SamplingDecoder, {}, {"top_p": [0.5, 0.6]}, "Expected top_p to be"),
        (SamplingDecoder, {"top_k": 3}, {"top_k": 4}, "Expected top_k of at most 3"),
        (GreedyDecoder, {"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 3}, "at most 2"),
        (GreedyDecoder, {}, {"min_length": 1.5}, "Expected min_length to be"),
    ],
    ids=str,
)
def test_refuses(parts, search_class, arguments, settings, message):
    with pytest.raises(ValueError, match=message):
        results(parts, search_class, settings, **arguments)


def test_a_length_can_be_a_whole_float(parts):
    expected = results(parts, GreedyDecoder, {"min_length": 6})
    assert expected["lengths"].min() >= 6
    received = results(parts, GreedyDecoder, {"min_length": 1.5 * 4})
    assert received["token_ids"].tolist() == expected["token_ids"].tolist()


@pytest.mark.parametrize(
    ("search_class", "name", "value"),
    [
        (GreedyDecoder, "min_length", np.array(2.0)),
        (GreedyDecoder, "min_length", keras.ops.convert_to_tensor(2.0)),
        (GreedyDecoder, "min_length", keras.KerasTensor((), "float32")),
        (BeamDecoder, "beam_width", np.array(2.0, "float32")),
        (SamplingDecoder, "top_k", keras.KerasTensor((), "float32")),
    ],
    ids=str,
)
def test_tensors_for_counts_and_lengths_have_an_integer_dtype(parts, search_class, name, value):
    with pytest.raises(ValueError, match=f"Expected {name} of an integer dtype"):
        search_class(parts[0]).call_settings(settings={name: value})


@pytest.mark.parametrize(
    ("search_class", "name"),
    [(BeamDecoder, "beam_width"), (BeamDecoder, "num_hypotheses"), (SamplingDecoder, "top_k")],
)
def test_counts_are_integers(parts, search_class, name):
    with pytest.raises(ValueError, match=f"Expected {name} to be"):
        search_class(parts[0]).call_settings(settings={name: 2.0})
