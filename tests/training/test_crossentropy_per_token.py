import keras
import numpy as np
import pytest

from keras_attn.training import crossentropy_per_token
from tests.backend import gradients_of, requires_tensorflow
from tests.contracts import tensor
from tests.oracles import crossentropy


@pytest.fixture
def batch():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 7, (3, 5)).astype("int32")
    return labels, 3 * generator.normal(size=(3, 5, 7)).astype("float32")


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.6])
def test_equals_the_definition(batch, label_smoothing):
    labels, logits = batch
    losses = keras.ops.convert_to_numpy(crossentropy_per_token(labels, logits, label_smoothing))
    np.testing.assert_allclose(losses, crossentropy(labels, logits, label_smoothing)[0], rtol=1e-5)
    assert losses.dtype == "float32"


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_gradient_equals_the_definition(batch, label_smoothing):
    labels, logits = batch
    weights = np.random.default_rng(1).normal(size=labels.shape).astype("float32")
    _, (gradient,) = gradients_of(
        lambda x: keras.ops.sum(
            tensor(weights) * crossentropy_per_token(labels, x, label_smoothing)
        ),
        logits,
    )
    expected = weights[..., None] * crossentropy(labels, logits, label_smoothing)[1]
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_equals_keras_without_smoothing(batch):
    labels, logits = batch
    expected = keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    np.testing.assert_allclose(crossentropy_per_token(labels, logits), expected, rtol=1e-5)


def test_large_logits_are_finite():
    logits = np.array([[1e4, 0, -1e4]], "float32")
    np.testing.assert_allclose(crossentropy_per_token(np.array([0]), logits, 0.0), [0.0])
    np.testing.assert_allclose(crossentropy_per_token(np.array([2]), logits, 0.0), [2e4])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_logits_are_computed_in_float32(batch, dtype):
    labels, logits = batch
    half = keras.ops.cast(logits, dtype)
    rounded = keras.ops.convert_to_numpy(keras.ops.cast(half, "float32"))
    losses = crossentropy_per_token(labels, half, 0.1)
    assert keras.backend.standardize_dtype(losses.dtype) == "float32"
    np.testing.assert_allclose(losses, crossentropy(labels, rounded, 0.1)[0], rtol=1e-5)


def test_no_sentences_and_no_tokens():
    assert crossentropy_per_token(np.zeros((0, 3), "int32"), np.zeros((0, 3, 4))).shape == (0, 3)
    assert crossentropy_per_token(np.zeros((2, 0), "int32"), np.zeros((2, 0, 4))).shape == (2, 0)


@pytest.mark.parametrize(
    "labels_shape, logits_shape",
    [
        ((2, 3), (2, 3)),
        ((2, 3, 1), (2, 3, 4)),
        ((2, 3), (2, 3, 1)),
        ((2, 1), (2, 3, 4)),
        ((1, 3), (2, 3, 4)),
        ((2, 3), (2, 1, 4)),
    ],
)
def test_wrong_ranks_or_classes(labels_shape, logits_shape):
    with pytest.raises(ValueError, match="Received: .*logits with shape"):
        crossentropy_per_token(np.zeros(labels_shape, "int32"), np.zeros(logits_shape))


@pytest.mark.parametrize("label", [7, 100, -1])
def test_label_outside_the_vocabulary_has_the_loss_nan(batch, label):
    labels, logits = batch
    wrong = labels.copy()
    wrong[1, 2] = label
    losses = keras.ops.convert_to_numpy(crossentropy_per_token(wrong, logits, 0.1))
    assert np.argwhere(np.isnan(losses)).tolist() == [[1, 2]]


def test_label_outside_the_vocabulary_has_the_gradient_nan_if_it_counts(batch):
    labels, logits = batch
    wrong = labels.copy()
    wrong[1, 2] = wrong[0, 4] = -100
    weights = np.ones(labels.shape, "float32")
    weights[0, 4] = 0
    _, (gradient,) = gradients_of(
        lambda x: keras.ops.sum(tensor(weights) * crossentropy_per_token(wrong, x, 0.1)), logits
    )
    assert np.argwhere(np.isnan(gradient).any(axis=-1)).tolist() == [[1, 2]]


@requires_tensorflow("others know all shapes")
@pytest.mark.parametrize("shape", [(2, 1), (1, 3)])
def test_labels_are_not_broadcast_where_shapes_are_unknown(shape):
    import tensorflow as tf

    specs = tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((None, None, 4))
    compiled = tf.function(crossentropy_per_token, input_signature=specs)
    with pytest.raises(tf.errors.InvalidArgumentError):
        compiled(np.zeros(shape, "int32"), np.zeros((2, 3, 4), "float32"))
    assert compiled(np.zeros((2, 3), "int32"), np.zeros((2, 3, 4), "float32")).shape == (2, 3)
