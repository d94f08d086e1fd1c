import numpy as np

from keras_attn.forecasting import QuantileHead
from tests.contracts import assert_close, numpy

LEVELS = (0.1, 0.5, 0.8)
# three quantiles, shift, scale
PARAMETERS = np.array([[[-1.0, 2.0, 3.0, 10.0, 4.0]]], "float32")


def quantile_function(level):
    """Quantiles of z: linear between the levels and beyond them."""
    return np.where(level < 0.5, -1.0 + 3.0 * (level - 0.1) / 0.4, 2.0 + (level - 0.5) / 0.3)


def test_quantile_loss_is_the_pinball_loss():
    for z in (-4.0, 1.0, 2.5, 7.0):
        loss = QuantileHead(quantile_levels=LEVELS).loss(
            np.array([[10 + 4 * z]], "float32"), PARAMETERS
        )
        errors = z - np.array([-1.0, 2.0, 3.0])
        levels = np.array(LEVELS)
        pinball = np.where(errors > 0, levels * errors, (1 - levels) * -errors)
        assert_close(loss, np.array([[2 * pinball.mean()]]))


def test_quantiles_are_interpolated_and_continued():
    levels = [0.02, 0.1, 0.3, 0.6, 0.8, 0.99]
    found = QuantileHead(quantile_levels=LEVELS).quantiles(PARAMETERS, levels)
    assert_close(found, 10 + 4 * quantile_function(np.array(levels))[None, None])


def test_quantile_samples_are_values_of_the_quantile_function():
    uniform = np.array([0.0, 0.05, 0.1, 0.4, 0.5, 0.7, 0.8, 0.999], "float32")
    uniforms = np.stack([uniform, np.zeros_like(uniform)], axis=-1)[:, None]  # (N, 1, 2)
    parameters = np.repeat(PARAMETERS[0][None], len(uniform), axis=0)
    found = QuantileHead(quantile_levels=LEVELS).sample(parameters, uniforms)
    assert_close(found, 10 + 4 * quantile_function(uniform)[:, None])


def test_quantile_mean_is_the_integral_of_the_quantile_function():
    middle = (np.arange(10_000) + 0.5) / 10_000
    expected = 10 + 4 * quantile_function(middle).mean()
    assert_close(QuantileHead(quantile_levels=LEVELS).mean(PARAMETERS), np.array([[expected]]))


def test_quantiles_do_not_cross():
    raw = np.random.default_rng(0).normal(size=(5, 1, 3)).astype("float32")
    assert np.all(np.diff(numpy(QuantileHead(quantile_levels=LEVELS).constrain(raw)), axis=-1) > 0)


def test_quantile_head_reads_the_former_name_of_quantile_levels():
    config = QuantileHead(quantile_levels=LEVELS).get_config()
    config["levels"] = config.pop("quantile_levels")
    assert QuantileHead.from_config(config).quantile_levels == list(LEVELS)
