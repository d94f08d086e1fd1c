import keras
import numpy as np
import pytest

from keras_attn import RNNCell
from keras_attn._random.uniform_numbers import uniform_numbers
from keras_attn.forecasting import PathSampler, PointHead
from keras_attn.forecasting._path_sampler import path_quantiles
from keras_attn.testing import check_layer
from tests.contracts import assert_close, numpy, randomize, tensor
from tests.forecasting.small_forecaster import FUTURE, HORIZON, PAST, small_forecaster

SEEDS = np.array([5, 6, 7, 5], "int32")


@pytest.fixture(scope="module")
def sampler():
    layer = PathSampler(small_forecaster(), num_paths=3, return_attention_scores=True)
    layer(**PAST, seeds=SEEDS)
    return randomize(layer)


@pytest.fixture(scope="module")
def results(sampler):
    return numpy(sampler(**PAST, seeds=SEEDS))


@pytest.mark.slow
def test_path_sampler_fulfills_the_contract_of_layers():
    check_layer(
        lambda: PathSampler(small_forecaster(), num_paths=2),
        {**PAST, "seeds": SEEDS},
        mixed_dtype="float32",
    )


def test_loop_equals_single_steps_with_the_numbers_of_the_seeds(sampler, results):
    forecaster = sampler.forecaster
    memory = forecaster.prepare_memory(**PAST)
    state = forecaster.initial_state(memory, 3, alignments=True)
    values = np.repeat(numpy(forecaster.first_values(memory)), 3, axis=0)
    uniforms = numpy(uniform_numbers(tensor(SEEDS), HORIZON, 3, 2, 2))  # (B, H, N, D, 2)
    for time in range(HORIZON):
        parameters, state = forecaster.step(values, state, memory)
        draws = uniforms[:, time].reshape(12, 2, 2)
        values = numpy(forecaster.head.sample(parameters, draws))
        assert_close(results["paths"][:, :, time], values.reshape(4, 3, 2), 1e-4)
        means = numpy(forecaster.head.mean(parameters)).reshape(4, 3, 2).mean(axis=1)
        assert_close(results["mean"][:, time], means, 1e-4)
        weights = numpy(state["cell"]["alignments"]).reshape(4, 3, -1).mean(axis=1)
        assert_close(results["attention_scores"][:, time], weights, 1e-4)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="gradients of PyTorch")
def test_forecasts_require_no_gradients(sampler):
    found = sampler(**PAST, seeds=SEEDS)
    assert {name for name, value in found.items() if value.requires_grad} == set()


def test_paths_depend_on_the_seed_of_their_series_only(sampler, results):
    rows = [3, 0]
    part = {name: value[rows] for name, value in PAST.items()}
    found = numpy(sampler(**part, seeds=np.array([5, 9], "int32")))["paths"]
    assert_close(found[0], results["paths"][3], 1e-4)
    assert np.abs(found[1] - results["paths"][0]).max() > 1e-3


def test_paths_differ_from_each_other_and_between_calls(sampler, results):
    paths = results["paths"]
    assert np.abs(paths[:, 0] - paths[:, 1]).min() > 0
    assert np.abs(numpy(sampler(**PAST))["paths"] - numpy(sampler(**PAST))["paths"]).max() > 0


def test_paths_of_degenerate_series_are_finite(sampler):
    past = PAST["past_targets"].copy()
    past[0], past[1], past[2, -1] = 7.0, np.nan, np.nan
    results = numpy(sampler(**{**PAST, "past_targets": past}, seeds=SEEDS))
    assert all(np.isfinite(each).all() for each in results.values())


def test_point_forecast_feeds_back_the_prediction():
    forecaster = small_forecaster(PointHead(2))
    forecaster(future_targets=FUTURE, **PAST)
    randomize(forecaster)
    results = numpy(PathSampler(forecaster, num_paths=1)(**PAST, seeds=SEEDS))
    mean = results["mean"]
    assert_close(results["paths"][:, 0], mean)
    assert_close(results["quantiles"], np.stack([mean] * 3, axis=-1))
    taught = forecaster(future_targets=mean, **PAST)
    assert_close(forecaster.head.mean(taught), mean, 1e-4)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_path_quantiles_equal_numpy(number):
    paths = np.random.default_rng(0).normal(size=(2, number, 3, 2)).astype("float32")
    levels = [0.0, 0.05, 0.5, 0.9, 1.0]
    expected = np.moveaxis(np.quantile(paths, levels, axis=1, method="weibull"), 0, -1)
    assert_close(path_quantiles(paths, levels), expected)


def test_path_sampler_with_wrong_arguments_raises_an_error(sampler):
    with pytest.raises(ValueError, match="num_paths"):
        PathSampler(sampler.forecaster, num_paths=0)
    with pytest.raises(ValueError, match="quantile_levels to be increasing"):
        PathSampler(sampler.forecaster, quantile_levels=(0.9, 0.1))
    with pytest.raises(ValueError, match="forecaster to be an AutoregressiveForecaster"):
        PathSampler(RNNCell(3))
    with pytest.raises(ValueError, match="seeds of an integer dtype"):
        sampler(**PAST, seeds=np.ones(4))


def test_path_sampler_reads_the_former_name_of_quantile_levels(sampler):
    config = sampler.get_config()
    config["quantiles"] = config.pop("quantile_levels")
    assert PathSampler.from_config(config).quantile_levels == sampler.quantile_levels
