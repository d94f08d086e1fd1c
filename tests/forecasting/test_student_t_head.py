import numpy as np
from scipy.stats import t

from keras_attn.forecasting import StudentTHead
from tests.contracts import assert_close

# location, deviation, degrees of freedom, shift, scale
PARAMETERS = np.array([[[0.5, 2.0, 3.5, 10.0, 4.0]], [[-1.0, 0.1, 900.0, 0.0, 1.0]]], "float32")


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
