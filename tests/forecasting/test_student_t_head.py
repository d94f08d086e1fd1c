import math

import numpy as np
import pytest
from scipy.stats import t

from keras_attn.forecasting import StudentTHead
from keras_attn.forecasting._student_t_head import log_gamma_ratio, student_t_quantile
from tests.contracts import assert_close, numpy, tensor

# location, deviation, degrees of freedom, shift, scale
PARAMETERS = np.array([[[0.5, 2.0, 3.5, 10.0, 4.0]], [[-1.0, 0.1, 900.0, 0.0, 1.0]]], "float32")
DEGREES = np.array([2.0, 2.3, 3.0, 4.9, 8.0, 30.0, 1000.0], "float32")


def test_student_t_loss_is_the_negative_log_likelihood():
    targets = np.array([[60.0], [-1.2]], "float32")
    loss = StudentTHead().loss(targets, PARAMETERS)
    expected = t.logpdf([[12.5], [-1.2]], [[3.5], [900]], [[0.5], [-1.0]], [[2.0], [0.1]])
    assert_close(loss, -expected)


def test_student_t_mean_is_the_location():
    assert_close(StudentTHead().mean(PARAMETERS), np.array([[12.0], [-1.0]]))


def test_student_t_degrees_of_freedom_are_above_two():
    raw = np.full((1, 1, 3), -50.0, "float32")
    assert StudentTHead().constrain(raw)[0, 0, 2] >= 2.0


@pytest.mark.parametrize("level", [0.001, 0.05, 0.3, 0.5, 0.9, 0.975, 0.999])
def test_student_t_quantile_equals_scipy(level):
    found = numpy(student_t_quantile(level, tensor(DEGREES)))
    np.testing.assert_allclose(found, t.ppf(level, DEGREES), rtol=2e-3, atol=2e-3)


def test_log_gamma_ratio_equals_the_difference_of_log_gammas():
    values = np.array([1.0, 1.3, 2.0, 7.5, 100.0, 1e4], "float32")
    expected = [math.lgamma(x + 0.5) - math.lgamma(x) for x in map(float, values)]
    np.testing.assert_allclose(
        numpy(log_gamma_ratio(tensor(values))), expected, rtol=1e-6, atol=2e-7
    )
