import keras
import numpy as np
import pytest

from keras_attn.training import ClippedAdam, SequenceCrossentropy
from tests.training.toy_training import ToyBatches, toy_model


def moments_after_one_step(optimizer):
    """Returns first and second moments of all weights. Tokens are repeated in the batch."""
    model = toy_model()
    model.compile(optimizer, SequenceCrossentropy(), jit_compile=False)
    model.train_on_batch(*ToyBatches().batch(0))
    variables = {
        kind: [
            keras.ops.convert_to_numpy(variable)
            for variable in model.optimizer.variables
            if variable.path.endswith(kind)
        ]
        for kind in ("_momentum", "_velocity")
    }
    assert len(variables["_momentum"]) == len(model.trainable_weights)
    return variables["_momentum"], variables["_velocity"]


def test_global_norm_is_clipped():
    moments, _ = moments_after_one_step(ClippedAdam(global_clipnorm=0.001))
    gradients = [moment / (1 - 0.9) for moment in moments]
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
    assert norm == pytest.approx(0.001, rel=1e-5)


@pytest.mark.parametrize("arguments", [{}, {"clipnorm": 0.01}, {"clipvalue": 1e-6}])
def test_second_moments_are_of_the_whole_gradient(arguments):
    moments, velocities = moments_after_one_step(ClippedAdam(**arguments))
    atol = 0 if "clipvalue" in arguments else 1e-12
    for moment, velocity in zip(moments, velocities, strict=True):
        gradient = moment / (1 - 0.9)
        np.testing.assert_allclose(velocity, (1 - 0.999) * gradient**2, rtol=1e-3, atol=atol)
        if "clipnorm" in arguments:
            assert np.linalg.norm(gradient) <= 0.01 * (1 + 1e-5)
        if "clipvalue" in arguments:
            assert np.abs(gradient).max() == pytest.approx(1e-6, rel=1e-5)


def test_is_registered():
    optimizer = ClippedAdam(0.01, global_clipnorm=2.0)
    copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(copy, ClippedAdam)
    assert copy.get_config() == optimizer.get_config()


@pytest.mark.parametrize("amsgrad", [False, True])
def test_updates_are_those_of_the_paper(amsgrad):
    random = np.random.default_rng(0)
    weight, gradients = random.normal(size=(3, 2)), random.normal(size=(4, 3, 2))
    rate, beta_1, beta_2, epsilon = 0.1, 0.8, 0.9, 1e-3
    variable = keras.Variable(weight, dtype="float32")
    optimizer = ClippedAdam(
        rate, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, amsgrad=amsgrad, global_clipnorm=100.0
    )
    first, second, largest = np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((3, 2))
    for step, gradient in enumerate(gradients, start=1):
        optimizer.apply([keras.ops.cast(gradient, "float32")], [variable])
        # Kingma and Ba, 2015, with the order of computation and the epsilon of section 2, end.
        first = beta_1 * first + (1 - beta_1) * gradient
        second = beta_2 * second + (1 - beta_2) * gradient**2
        largest = np.maximum(largest, second)  # Reddi et al., 2018, algorithm 2
        corrected = rate * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        weight -= corrected * first / (np.sqrt(largest if amsgrad else second) + epsilon)
        np.testing.assert_allclose(keras.ops.convert_to_numpy(variable), weight, atol=1e-5)
