import sys

import keras
import numpy as np
import pytest

from keras_attn.training._linear_crossentropy import linear_crossentropy
from tests.backend import gradients_of, requires_tensorflow
from tests.contracts import assert_close, numpy
from tests.oracles import crossentropy
from tests.slow_cases import all_slow_but

MODULE = sys.modules["keras_attn.training._linear_crossentropy"]


@pytest.fixture(params=all_slow_but(3, 4, 100, cases=[1, 3, 4, 15, 100]))
def tokens_per_chunk(request, monkeypatch):
    """Chunk sizes for the 15 tokens of a batch: divisors, other numbers, and all tokens."""
    monkeypatch.setattr(MODULE, "LOGITS_PER_CHUNK", 7 * request.param)
    monkeypatch.setattr(MODULE, "TOKENS_PER_FEATURE", 0)


def batch(features=4):
    """Returns labels and weights `(3, 5)`, features `(3, 5, 4)` and a kernel `(7, 4)`."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 7, (3, 5)).astype("int32")
    weights = generator.uniform(0.5, 2, (3, 5)).astype("float32")
    weights[0, 3:] = 0
    shapes = (3, 5, features), (7, features)
    return (labels, *(generator.normal(size=shape).astype("float32") for shape in shapes), weights)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.6])
def test_loss_and_gradients_equal_the_definition(tokens_per_chunk, label_smoothing):
    labels, features, kernel, weights = batch()
    losses, logit_gradient = crossentropy(labels, features @ kernel.T, label_smoothing)

    def three_times(features, kernel, weights):
        # The gradient includes operations on the loss.
        return 3.0 * linear_crossentropy(labels, features, kernel, weights, label_smoothing)[0]

    value, gradients = gradients_of(three_times, features, kernel, weights)
    logit_gradient *= 3.0 * weights[..., None]
    assert_close(value, 3.0 * (weights * losses).sum())
    assert_close(gradients[0], logit_gradient @ kernel)
    assert_close(gradients[1], np.einsum("btv,btd->vd", logit_gradient, features))
    assert_close(gradients[2], 3.0 * losses)


def test_statistics_are_those_of_the_logits(tokens_per_chunk):
    labels, features, kernel, weights = batch()
    logits = (features @ kernel.T).astype("float64")
    statistics = linear_crossentropy(labels, features, kernel, weights)[1]
    expected = {
        "normalizer": np.log(np.exp(logits).sum(-1)),
        "of_labels": np.take_along_axis(logits, labels[..., None], -1)[..., 0],
        "of_all": logits.sum(-1),
        "largest": logits.max(-1),
    }
    assert statistics.keys() == expected.keys()
    for name, value in expected.items():
        assert_close(numpy(statistics[name]), value)
    best = np.equal(numpy(statistics["largest"]), numpy(statistics["of_labels"]))
    np.testing.assert_array_equal(best, logits.argmax(-1) == labels)  # not affected by rounding


def masked_batch():
    """Returns a batch and a mask that excludes tokens at any position; they have weight 0."""
    labels, features, kernel, weights = batch()
    mask = np.random.default_rng(1).random(labels.shape) < 0.5
    return np.where(mask, labels, -1), features, kernel, weights * mask, mask


def test_what_the_mask_leaves_out_changes_nothing(tokens_per_chunk):
    labels, features, kernel, weights, mask = masked_batch()

    def loss(mask):
        return lambda *arrays: linear_crossentropy(labels, *arrays, weights, 0.1, mask)[0]

    value, gradients = gradients_of(loss(mask), features, kernel)
    expected, others = gradients_of(loss(None), features, kernel)
    assert_close(value, expected)
    for gradient, other in zip(gradients, others, strict=True):
        assert_close(gradient, other)
    counted = linear_crossentropy(labels, features, kernel, weights, 0.1, mask)[1]
    for name, values in linear_crossentropy(labels, features, kernel, weights, 0.1)[1].items():
        assert_close(numpy(counted[name])[mask], numpy(values)[mask])


@requires_tensorflow("what is left out takes no time there")
@pytest.mark.parametrize("jit_compile", [False, True])
def test_only_what_counts_is_multiplied(jit_compile, monkeypatch):
    """XLA, which needs static shapes, multiplies all tokens."""
    import tensorflow as tf

    labels, features, kernel, weights, mask = masked_batch()
    multiplied = []

    def in_chunks(labels, *arrays):
        multiplied.append(labels.shape[0])
        return original(labels, *arrays)

    original = MODULE._in_chunks
    monkeypatch.setattr(MODULE, "_in_chunks", in_chunks)

    @tf.function(jit_compile=jit_compile)
    def found(mask):
        return linear_crossentropy(labels, features, kernel, weights, 0.1, mask)

    loss, statistics = found(mask)
    assert multiplied == [15 if jit_compile else None]
    expected, _ = linear_crossentropy(labels, features, kernel, weights, 0.1)
    assert_close(numpy(loss), numpy(expected))
    if not jit_compile:
        assert not numpy(statistics["normalizer"])[~mask].any()


@pytest.mark.parametrize("dtype, tolerance", [("float16", 2e-3), ("bfloat16", 2e-2)])
def test_multiplies_in_half_precision_and_adds_in_float32(dtype, tolerance):
    labels, features, kernel, weights = batch()
    losses, logit_gradient = crossentropy(labels, features @ kernel.T, 0.1)

    def loss(features, kernel):
        halves = keras.ops.cast(features, dtype), keras.ops.cast(kernel, dtype)
        found, statistics = linear_crossentropy(labels, *halves, weights, 0.1)
        for value in (found, *statistics.values()):
            assert keras.backend.standardize_dtype(value.dtype) == "float32"
        return found

    value, gradients = gradients_of(loss, features, kernel)
    logit_gradient *= weights[..., None]
    np.testing.assert_allclose(value, (weights * losses).sum(), rtol=tolerance)
    expected = logit_gradient @ kernel, np.einsum("btv,btd->vd", logit_gradient, features)
    for gradient, logit_gradient in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, logit_gradient, atol=4 * tolerance)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_what_is_almost_certain_keep_their_digits(dtype):
    """The gradient 1 - p of the label is small; rounding p first would lose it."""
    labels = np.arange(4, dtype="int32")
    kernel = np.eye(4, dtype="float32")
    features = 8 * kernel
    weights = np.ones(4, "float32")
    _, logit_gradient = crossentropy(labels, features, 0.0)
    assert 0 < -logit_gradient[0, 0] < 2e-3

    def loss(features, kernel):
        halves = keras.ops.cast(features, dtype), keras.ops.cast(kernel, dtype)
        return linear_crossentropy(labels, *halves, weights)[0]

    _, (gradient, _) = gradients_of(loss, features, kernel)
    np.testing.assert_allclose(gradient, logit_gradient, rtol=0.02)


def test_what_has_the_weight_0_may_have_any_label():
    labels, features, kernel, weights = batch()
    wrong = np.where(weights == 0, [[-1], [7], [100]], labels)
    found = [
        gradients_of(
            lambda *arrays, labels=labels: linear_crossentropy(labels, *arrays, weights, 0.1)[0],
            features,
            kernel,
        )
        for labels in (labels, wrong)
    ]
    assert_close(found[0][0], found[1][0])
    for right, wrong in zip(found[0][1], found[1][1], strict=True):
        assert_close(right, wrong)


@pytest.mark.parametrize("label", [7, -1])
def test_label_outside_the_vocabulary_has_the_loss_nan(label):
    labels, features, kernel, weights = batch()
    labels[1, 2] = label
    loss, statistics = linear_crossentropy(labels, features, kernel, weights)
    assert np.isnan(float(loss))
    assert np.argwhere(np.isnan(numpy(statistics["of_labels"]))).tolist() == [[1, 2]]
    _, (feature_gradient, kernel_gradient) = gradients_of(
        lambda *arrays: linear_crossentropy(labels, *arrays, weights)[0], features, kernel
    )
    assert np.isnan(feature_gradient[1, 2]).all() and np.isnan(kernel_gradient).any()


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_no_sentences_and_no_tokens(shape):
    arrays = np.zeros((*shape, 4), "float32"), np.ones((7, 4), "float32")
    labels, weights = np.zeros(shape, "int32"), np.zeros(shape, "float32")
    value, gradients = gradients_of(
        lambda *arrays: linear_crossentropy(labels, *arrays, weights)[0], *arrays
    )
    assert value == 0
    assert [gradient.shape for gradient in gradients] == [array.shape for array in arrays]
    assert not any(gradient.any() for gradient in gradients)


def test_large_logits_are_finite():
    kernel = np.array([[1e4], [0], [-1e4]], "float32")
    arrays = np.ones((1, 1), "float32"), kernel, np.ones(1, "float32")
    for label, expected in ((0, 0.0), (2, 2e4)):
        loss, _ = linear_crossentropy(np.array([label]), *arrays)
        assert_close(float(loss), expected)


@pytest.mark.parametrize(
    "labels_shape, features_shape, classes, received",
    [
        ((2, 3), (2, 3), 7, r"features with shape \(2, 3\)"),
        ((2, 1), (2, 3, 4), 7, r"labels with shape \(2, 1\), features with shape \(2, 3, 4\)"),
        ((2, 3), (2, 3, 4), 1, r"kernel with shape \(1, 4\)"),
    ],
)
def test_wrong_ranks_or_classes(labels_shape, features_shape, classes, received):
    arrays = np.zeros(features_shape), np.zeros((classes, 4)), np.ones(labels_shape)
    with pytest.raises(ValueError, match=f"Received: .*{received}"):
        linear_crossentropy(np.zeros(labels_shape, "int32"), *arrays)


def test_linear_crossentropy_does_not_depend_on_floatx():
    labels, *tensors = batch()

    def loss(features, kernel, weights):
        return linear_crossentropy(labels, features, kernel, weights)[0]

    expected = gradients_of(loss, *tensors)
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    try:
        value, gradients = gradients_of(loss, *tensors)
    finally:
        keras.config.set_floatx(before)
    assert_close(value, expected[0])
    assert_close(gradients, expected[1])
