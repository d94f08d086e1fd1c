import numpy as np
from scipy.stats import norm

from keras_attn.forecasting import GaussianHead
from tests.contracts import assert_close

# mean, deviation, shift, scale
PARAMETERS = np.array([[[0.5, 2.0, 10.0, 4.0]], [[-1.0, 0.1, 0.0, 1.0]]], "float32")


def test_gaussian_loss_is_the_negative_log_likelihood():
    targets = np.array([[30.0], [-1.2]], "float32")
    loss = GaussianHead().loss(targets, PARAMETERS)
    assert_close(loss, -norm.logpdf([[5.0], [-1.2]], [[0.5], [-1.0]], [[2.0], [0.1]]))


def test_gaussian_mean_and_quantiles():
    head = GaussianHead()
    assert_close(head.mean(PARAMETERS), np.array([[12.0], [-1.0]]))
    levels = [0.001, 0.3, 0.5, 0.95]
    first, second = norm.ppf(levels, 12.0, 8.0), norm.ppf(levels, -1.0, 0.1)
    assert_close(head.quantiles(PARAMETERS, levels), np.array([[first], [second]]))
