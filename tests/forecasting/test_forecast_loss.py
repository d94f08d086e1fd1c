import keras
import numpy as np
import pytest

from keras_attn.forecasting import ForecastLoss, PointHead
from tests.contracts import assert_close

NAN = np.nan
TARGETS = np.array([[[1.0], [NAN]], [[4.0], [6.0]]], "float32")  # (B, H, D)
PARAMETERS = np.tile(np.array([0.0, 0.0, 2.0], "float32"), (2, 2, 1, 1))  # errors 0.5, 2, 3


def test_loss_is_the_mean_over_observed_values():
    assert_close(ForecastLoss(PointHead())(TARGETS, PARAMETERS), 5.5 / 3)


def test_loss_of_missing_values_is_zero():
    assert_close(ForecastLoss(PointHead())(np.full_like(TARGETS, NAN), PARAMETERS), 0.0)


@pytest.mark.parametrize("shape", [(2,), (2, 2), (2, 2, 1)])
def test_loss_weights_the_values(shape):
    weights = np.array([0.0, 2.0]).reshape(2, *[1] * (len(shape) - 1)) * np.ones(shape)
    assert_close(ForecastLoss(PointHead())(TARGETS, PARAMETERS, weights), 10.0 / 3)


def test_loss_can_be_saved():
    loss = ForecastLoss(PointHead(error="squared"))
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert copy.head.error == "squared" and copy.name == loss.name


def test_loss_without_a_head_raises_an_error():
    with pytest.raises(ValueError, match="Pass the head of the forecaster"):
        ForecastLoss("gaussian")
