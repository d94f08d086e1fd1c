import numpy as np
import pytest

from keras_attn.forecasting import (
    DistributionHead,
    ForecastLoss,
    GaussianHead,
    PointHead,
    QuantileHead,
    StudentTHead,
)
from keras_attn.testing import check_layer
from tests.backend import gradients_of, precision
from tests.contracts import assert_close, numpy, randomize

GENERATOR = np.random.default_rng(0)
INPUTS = {
    "inputs": GENERATOR.normal(size=(2, 3, 4)).astype("float32"),
    "shift": GENERATOR.normal(size=(2, 1, 2)).astype("float32"),
    "scale": np.exp(GENERATOR.normal(size=(2, 1, 2))).astype("float32"),
}
HEADS = {
    "point": lambda: PointHead(2),
    "gaussian": lambda: GaussianHead(2),
    "student": lambda: StudentTHead(2),
    "quantile": lambda: QuantileHead(2, quantile_levels=(0.1, 0.5, 0.6, 0.9)),
}
heads = pytest.mark.parametrize("name", HEADS)


def head_and_parameters(name):
    head = HEADS[name]()
    head(**INPUTS)
    randomize(head)
    return head, head(**INPUTS)


@heads
def test_heads_fulfill_the_contract_of_layers(name):
    check_layer(HEADS[name], INPUTS, mixed_dtype="float32")


@heads
def test_heads_scale_and_shift_the_distribution(name):
    head, parameters = head_and_parameters(name)
    targets = GENERATOR.normal(size=(2, 3, 2)).astype("float32")
    uniforms = GENERATOR.uniform(size=(2, 3, 2, 2)).astype("float32")
    shift, scale = INPUTS["shift"], INPUTS["scale"]
    plain = head(INPUTS["inputs"], np.zeros_like(shift), np.ones_like(scale))
    assert_close(head.mean(parameters), shift + scale * numpy(head.mean(plain)))
    assert_close(
        head.quantiles(parameters, [0.2, 0.9]),
        shift[..., None] + scale[..., None] * numpy(head.quantiles(plain, [0.2, 0.9])),
    )
    assert_close(
        head.sample(parameters, uniforms), shift + scale * numpy(head.sample(plain, uniforms))
    )
    assert_close(head.loss(targets, parameters), head.loss((targets - shift) / scale, plain), 1e-4)


@pytest.mark.parametrize("name", ["gaussian", "student", "quantile"])
def test_samples_have_the_quantiles_and_the_mean_of_the_distribution(name):
    head, parameters = head_and_parameters(name)
    parameters = numpy(parameters)[:1, :1]  # (1, 1, 2, P)
    first, second = np.meshgrid(*[(np.arange(400) + 0.5) / 400] * 2)
    uniforms = np.stack([first, second], axis=-1).reshape(-1, 1, 1, 2).astype("float32")
    many = np.broadcast_to(parameters, (len(uniforms), *parameters.shape[1:]))
    samples = numpy(head.sample(many, np.repeat(uniforms, 2, axis=2)))  # (N, 1, 2)
    levels = [0.05, 0.3, 0.5, 0.8, 0.97]
    expected = np.moveaxis(np.quantile(samples, levels, axis=0), 0, -1)  # (1, 2, Q)
    spread = expected[..., -1:] - expected[..., :1]
    found = numpy(head.quantiles(parameters, levels))[0]
    assert_close(found / spread, expected / spread, 0.01)
    mean, spread = numpy(head.mean(parameters))[0], spread[..., 0]
    assert_close(mean / spread, samples.mean(0) / spread, 0.02)


@heads
def test_gradient_of_the_loss_equals_finite_differences(name):
    head, parameters = head_and_parameters(name)
    parameters = numpy(parameters)
    targets = 5 * GENERATOR.normal(size=(2, 3, 2)).astype("float32")
    targets[0, 1, 0] = np.nan
    loss = ForecastLoss(head)
    _, (gradient,) = gradients_of(lambda each: loss(targets, each), parameters)
    step = 1e-2
    for place in [(0, 0, 0, 0), (1, 2, 1, 0), (0, 2, 1, head.num_parameters - 1)]:
        values = []
        for sign in (1, -1):
            changed = parameters.copy()
            changed[place] += sign * step
            values.append(float(numpy(loss(targets, changed))))
        difference = (values[0] - values[1]) / (2 * step)
        np.testing.assert_allclose(gradient[place], difference, rtol=0.05, atol=2e-4)
    assert not gradient[0, 1, 0].any()  # the missing value


def test_half_precision_does_not_round_shift_and_scale():
    shift = np.array([[123_456.0, 7.125]], "float32")
    with precision("mixed_float16"):
        parameters = numpy(GaussianHead(2)(INPUTS["inputs"], shift, 3 * shift))
    assert_close(parameters[..., -2], np.broadcast_to(shift, (2, 3, 2)), 1e-7)
    assert_close(parameters[..., -1], np.broadcast_to(3 * shift, (2, 3, 2)), 1e-7)


def test_head_with_wrong_arguments_raises_an_error():
    with pytest.raises(ValueError, match="num_targets"):
        GaussianHead(0)
    with pytest.raises(ValueError, match="increasing numbers"):
        QuantileHead(quantile_levels=(0.5, 0.1))
    with pytest.raises(ValueError, match="at least two quantile_levels"):
        QuantileHead(quantile_levels=(0.5,))
    with pytest.raises(ValueError, match="absolute"):
        PointHead(error="huber")
    with pytest.raises(NotImplementedError, match="standard_mean"):
        DistributionHead().mean(np.ones((1, 1, 3), "float32"))
