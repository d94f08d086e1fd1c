import numpy as np
import pytest

from keras_attn.forecasting import PointHead
from tests.contracts import assert_close

PARAMETERS = np.array([[[0.5, 10.0, 4.0]]], "float32")  # prediction, shift, scale


@pytest.mark.parametrize("error, expected", [("absolute", 1.5), ("squared", 2.25)])
def test_point_loss_is_the_error_in_units_of_the_scale(error, expected):
    loss = PointHead(error=error).loss(np.array([[18.0]]), PARAMETERS)
    assert_close(loss, np.array([[expected]]))


def test_point_samples_and_quantiles_are_the_prediction():
    head = PointHead()
    assert_close(head.sample(PARAMETERS, np.full((1, 1, 2), 0.3, "float32")), np.array([[12.0]]))
    assert_close(head.quantiles(PARAMETERS, [0.1, 0.9]), np.array([[[12.0, 12.0]]]))
