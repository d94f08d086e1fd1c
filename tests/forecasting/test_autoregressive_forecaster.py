import keras
import numpy as np
import pytest

from keras_attn import (
    AttentionRNNCell,
    BahdanauAttention,
    RNNCell,
    RNNEncoder,
    SinusoidalPositions,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from keras_attn.forecasting import AutoregressiveForecaster, GaussianHead
from keras_attn.testing import check_layer
from tests.contracts import assert_close, assert_identical, numpy, randomize
from tests.forecasting.small_forecaster import FUTURE, HORIZON, PAST, small_forecaster

INPUTS = {"future_targets": FUTURE, **PAST}


@pytest.fixture(scope="module")
def forecaster():
    layer = small_forecaster()
    layer(**INPUTS)
    return randomize(layer)


@pytest.fixture(scope="module")
def parameters(forecaster):
    return numpy(forecaster(**INPUTS))


@pytest.mark.slow
def test_forecaster_fulfills_the_contract_of_layers():
    check_layer(small_forecaster, INPUTS, mixed_dtype="float32")


def test_steps_equal_teacher_forcing(forecaster, parameters):
    memory = forecaster.prepare_memory(**PAST)
    state = forecaster.initial_state(memory, num_paths=2, alignments=True)
    _, weights = forecaster(**INPUTS, return_attention_scores=True)
    values = numpy(forecaster.first_values(memory))
    for time in range(HORIZON):
        found, state = forecaster.step(np.repeat(values, 2, axis=0), state, memory)
        for path in range(2):
            assert_close(numpy(found)[path::2], parameters[:, time])
            alignments = numpy(state["cell"]["alignments"])[path::2]
            assert_close(alignments, numpy(weights)[:, time])
        values = FUTURE[:, time]


def test_series_in_other_units_have_the_same_distribution_in_these_units(forecaster, parameters):
    changed = {**INPUTS, "past_targets": 50 * PAST["past_targets"] + 100}
    changed["future_targets"] = 50 * FUTURE + 100
    found = numpy(forecaster(**changed))
    assert_close(found[..., :-2], parameters[..., :-2], 1e-4)
    assert_close(
        forecaster.head.mean(found), 50 * numpy(forecaster.head.mean(parameters)) + 100, 1e-3
    )


def test_nan_and_mask_both_mark_missing_values(forecaster, parameters):
    missing = np.zeros((4, 6, 2), bool)
    missing[0, 2, 1] = missing[1, -1] = missing[2] = missing[3, :3] = True
    with_nan = np.where(missing, np.nan, PAST["past_targets"])
    with_noise = np.where(missing, 1e6, PAST["past_targets"])
    found = numpy(forecaster(**{**INPUTS, "past_targets": with_nan}))
    masked = forecaster(**{**INPUTS, "past_targets": with_noise}, past_mask=~missing)
    assert np.isfinite(found).all()
    assert_close(masked, found)
    of_steps = ~missing.all(axis=-1)
    of_steps[0, 2] = True
    found = forecaster(**INPUTS, past_mask=of_steps)
    masked = forecaster(**INPUTS, past_mask=np.stack([of_steps] * 2, axis=-1))
    assert_identical(numpy(found), numpy(masked))


def test_attention_ignores_steps_without_values(forecaster):
    past = PAST["past_targets"].copy()
    past[:, 1] = np.nan
    past[0] = np.nan
    _, weights = forecaster(**{**INPUTS, "past_targets": past}, return_attention_scores=True)
    weights = numpy(weights)
    assert not weights[:, :, 1].any() and not weights[0].any()
    assert_close(weights[1:].sum(axis=-1), np.ones((3, HORIZON)))


def test_missing_future_values_are_read_as_missing(forecaster, parameters):
    future = FUTURE.copy()
    future[0, 0, 1] = np.nan
    found = numpy(forecaster(**{**INPUTS, "future_targets": future}))
    assert np.isfinite(found).all()
    assert_close(found[:, 0], parameters[:, 0])  # a step does not read its own value
    assert np.abs(found[0, 1] - parameters[0, 1]).max() > 1e-3
    assert_close(found[1:], parameters[1:])


def test_lag_is_the_value_of_this_many_steps_before(forecaster):
    memory = forecaster.prepare_memory(**PAST)
    inputs = numpy(memory["inputs"])  # position, two lagged values, two indicators, covariate
    shift, scale = (numpy(memory[name])[:, None] for name in ("shift", "scale"))
    assert_close(inputs[..., 1:3], (PAST["past_targets"][:, 2:5] - shift) / scale)
    assert_close(inputs[..., 0], np.tile([1 / 3, 2 / 3, 1], (4, 1)))
    assert_identical(inputs[..., 5:], PAST["future_covariates"])


@pytest.mark.parametrize("probability", [1.0, lambda step: 1.0])
def test_scheduled_sampling_replaces_values_in_training(probability):
    layer = small_forecaster(sampling_probability=probability, seed=1)
    layer(**INPUTS)
    randomize(layer) if not callable(probability) else None
    plain, trained = numpy(layer(**INPUTS)), numpy(layer(**INPUTS, training=True))
    assert_close(trained[:, 0], plain[:, 0])  # the first step reads the past
    assert np.abs(trained[:, 1:] - plain[:, 1:]).max() > 1e-4
    if callable(probability):
        assert int(numpy(layer.num_steps)) == 1


def test_forecaster_without_attention_and_covariates():
    encoder = RNNEncoder(keras.layers.GRUCell(3))
    layer = AutoregressiveForecaster(
        keras.layers.LSTMCell(4),
        GaussianHead(2),
        encoder=encoder,
        horizon=HORIZON,
        scaling="mean_abs",
    )
    assert tuple(layer(PAST["past_targets"], FUTURE).shape) == (4, HORIZON, 2, 4)


def test_forecaster_with_a_transformer_encoder():
    block, positions = TransformerEncoderBlock(2, 8), SinusoidalPositions()
    encoder = TransformerEncoder(block, keras.layers.Dense(4), num_layers=1, positions=positions)
    cell = AttentionRNNCell(RNNCell(4), BahdanauAttention(3))
    layer = AutoregressiveForecaster(cell, GaussianHead(2), encoder=encoder, horizon=HORIZON)
    past = PAST["past_targets"].copy()
    past[0, 2] = np.nan
    parameters, weights = layer(past, FUTURE, return_attention_scores=True)
    assert np.isfinite(numpy(parameters)).all() and not numpy(weights)[0, :, 2].any()


def test_forecaster_with_wrong_arguments_raises_an_error():
    wrong = {
        "lags to be integers of at least horizon=3": {"lags": (2,)},
        "scaling to be one of": {"scaling": "max"},
        "head to be a DistributionHead": {"head": keras.layers.Dense(2)},
        "sampling_probability to be in": {"sampling_probability": 2.0},
        "num_past_covariates": {"num_past_covariates": -1},
    }
    for message, arguments in wrong.items():
        with pytest.raises(ValueError, match=message):
            small_forecaster(**arguments)


def test_forecaster_with_wrong_inputs_raises_an_error(forecaster):
    wrong = {
        r"past_targets of shape \(batch, time, 2\)": {"past_targets": np.ones((4, 6, 3))},
        "at least 4 time steps, the largest lag": {"past_targets": np.ones((4, 3, 2))},
        r"future_covariates of shape \(batch, 3, 1\)": {"future_covariates": np.ones((4, 2, 1))},
        "Pass future_targets. To predict": {"future_targets": None},
        "Pass past_covariates": {"past_covariates": None},
    }
    for message, arguments in wrong.items():
        with pytest.raises(ValueError, match=message):
            forecaster(**{**INPUTS, **arguments})


def test_covariates_are_scaled_by_given_numbers(forecaster, parameters):
    scaled = small_forecaster(
        past_covariate_scaling=([10.0], [4.0]), future_covariate_scaling=([-3.0], [0.5])
    )
    scaled(**INPUTS)
    scaled.set_weights(forecaster.get_weights())
    given = {
        **INPUTS,
        "past_covariates": 4 * PAST["past_covariates"] + 10,
        "future_covariates": 0.5 * PAST["future_covariates"] - 3,
    }
    assert_close(numpy(scaled(**given)), parameters, 1e-4)
    copy = AutoregressiveForecaster.from_config(scaled.get_config())
    assert copy.past_covariate_scaling == [[10.0], [4.0]]
    assert copy.future_covariate_scaling == [[-3.0], [0.5]]


@pytest.mark.parametrize("scaling", ["std", ([1.0],), ([1.0], [0.0]), ([1.0, 2.0], [1.0, 1.0])])
@pytest.mark.parametrize("name", ["past_covariate_scaling", "future_covariate_scaling"])
def test_wrong_scaling_of_covariates_raises_an_error(name, scaling):
    with pytest.raises(ValueError, match=f"Expected {name} to be a tuple of shifts"):
        small_forecaster(**{name: scaling})
