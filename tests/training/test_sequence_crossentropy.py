from functools import partial

import keras
import numpy as np
import pytest

from keras_attn.forecasting import ForecastLoss, PointHead
from keras_attn.training import SequenceCrossentropy, crossentropy_per_token
from tests.backend import requires_tensorflow


@pytest.fixture
def batch():
    generator = np.random.default_rng(0)
    labels = generator.integers(1, 7, (3, 5)).astype("int32")
    labels[0, 2:] = 0
    labels[2, 4:] = 0
    return labels, generator.normal(size=(3, 5, 7)).astype("float32")


def test_is_the_mean_over_real_tokens(batch):
    labels, logits = batch
    losses = keras.ops.convert_to_numpy(crossentropy_per_token(labels, logits, 0.1))
    loss = SequenceCrossentropy(label_smoothing=0.1)(labels, logits)
    np.testing.assert_allclose(loss, losses[labels != 0].mean(), rtol=1e-6)


@pytest.mark.parametrize("loss", [SequenceCrossentropy, partial(ForecastLoss, PointHead())])
def test_losses_are_means_in_float32(loss):
    for reduction in ("sum", "mean", "mean_with_sample_weight", "none", None):
        with pytest.raises(ValueError, match=f"Received: reduction={reduction!r}"):
            loss(reduction=reduction)
    for dtype in ("float64", "float16", keras.DTypePolicy("mixed_float16")):
        with pytest.raises(ValueError, match="Received: dtype="):
            loss(dtype=dtype)
    for dtype in (None, "float32", keras.DTypePolicy("float32")):
        kept = loss(reduction="sum_over_batch_size", dtype=dtype)
        again = type(kept).from_config(kept.get_config())
        assert (again.reduction, again.dtype) == ("sum_over_batch_size", "float32")


def test_padding_changes_nothing(batch):
    labels, logits = batch
    wider = np.pad(labels, ((0, 2), (0, 3)))
    padded_logits = np.pad(logits, ((0, 2), (0, 3), (0, 0)), constant_values=9.0)
    loss = SequenceCrossentropy(0.1)
    np.testing.assert_allclose(loss(wider, padded_logits), loss(labels, logits), rtol=1e-6)


@pytest.mark.parametrize("ignore_class", [5, -1, 100])
def test_ignore_class(batch, ignore_class):
    labels, logits = batch
    losses = keras.ops.convert_to_numpy(crossentropy_per_token(labels % 5, logits))
    shifted = np.where(labels == 0, ignore_class, labels % 5)
    loss = SequenceCrossentropy(ignore_class=ignore_class)(shifted, logits)
    np.testing.assert_allclose(loss, losses[labels != 0].mean(), rtol=1e-6)


def test_nothing_but_padding_gives_zero():
    logits = np.random.default_rng(0).normal(size=(2, 3, 5)).astype("float32")
    assert float(SequenceCrossentropy(0.1)(np.zeros((2, 3), "int32"), logits)) == 0.0
    assert float(SequenceCrossentropy(0.1)(np.zeros((0, 3), "int32"), logits[:0])) == 0.0


def test_nothing_but_padding_leaves_the_weights():
    model = keras.Sequential([keras.Input((None, 2)), keras.layers.Dense(4)])
    model.compile(keras.optimizers.SGD(1.0), SequenceCrossentropy(0.1), jit_compile=False)
    before = model.get_weights()
    model.fit(np.ones((2, 3, 2)), np.zeros((2, 3), "int32"), verbose=0)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_sample_weight_scales_the_tokens(batch):
    labels, logits = batch
    losses = keras.ops.convert_to_numpy(crossentropy_per_token(labels, logits))
    weights = np.array([[0.0], [2.0], [1.0]])
    expected = (losses * weights)[labels != 0].sum() / (labels != 0).sum()
    np.testing.assert_allclose(SequenceCrossentropy()(labels, logits, weights), expected, rtol=1e-6)


def test_weights_of_sentences_need_an_axis_of_time(batch):
    with pytest.raises(ValueError, match=r"\(batch, 1\).*shape \(3,\)"):
        SequenceCrossentropy()(*batch, np.ones(3))


@requires_tensorflow("Only its functions do not know the rank of what they are given.")
def test_weights_of_another_rank_than_before_are_refused_as_such(batch):
    labels, logits = batch[:2]
    model = keras.Sequential([keras.layers.Identity()])
    model.compile("sgd", SequenceCrossentropy())
    weights = np.ones(labels.shape, "float32")
    model.evaluate(logits, labels, sample_weight=weights, verbose=0)
    with pytest.raises(ValueError, match="sample_weight of shape .*batch, target"):
        model.evaluate(logits, labels, sample_weight=weights[:, 0], verbose=0)


def test_a_mask_on_the_logits_is_not_used(batch):
    labels, logits = batch
    inputs = keras.Input((None, 7))
    model = keras.Model(inputs, keras.layers.Masking(mask_value=1.0)(inputs))
    model.compile(loss=SequenceCrossentropy(0.1), jit_compile=False)
    logits[1, :2] = 1.0  # masked by the layer, but with valid labels
    loss = model.evaluate(logits, labels, batch_size=3, verbose=0)
    expected = keras.ops.convert_to_numpy(
        crossentropy_per_token(
            labels, np.where((logits == 1.0).all(-1, keepdims=True), 0.0, logits), 0.1
        )
    )
    np.testing.assert_allclose(loss, expected[labels != 0].mean(), rtol=1e-5)


def test_config_round_trip(batch):
    loss = SequenceCrossentropy(0.2, ignore_class=3, name="token_loss")
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert isinstance(copy, SequenceCrossentropy)
    assert copy.get_config() == loss.get_config()
    np.testing.assert_array_equal(copy(*batch), loss(*batch))


@pytest.mark.parametrize("label_smoothing", [-0.1, 1.0])
def test_label_smoothing_out_of_range(label_smoothing):
    with pytest.raises(ValueError, match=f"Received: label_smoothing={label_smoothing}"):
        SequenceCrossentropy(label_smoothing)
