import keras
import numpy as np
import pytest

from keras_attn import (
    LinearScoreAttention,
    LocalAttention,
    LuongAttention,
    MonotonicAttention,
    MultiHeadAttention,
    ScaledDotProductAttention,
)
from keras_attn import _masks as masks
from tests.backend import gradients_of
from tests.contracts import assert_close, numpy, tensor
from tests.slow_cases import all_slow_but


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_masked_softmax_is_a_softmax_of_what_is_left(dtype, scale):
    generator = np.random.default_rng(0)
    scores = (generator.normal(size=(2, 3, 6)) * scale).astype(dtype)
    mask = generator.random((2, 1, 6)) < 0.6
    weights = numpy(masks.masked_softmax(scores, mask))
    assert weights.dtype == dtype
    for b in range(2):
        left = mask[b, 0]
        exact = np.exp(scores[b][:, left].astype("float64") - scores[b][:, left].max(1)[:, None])
        assert_close(weights[b][:, left], exact / exact.sum(1)[:, None], 1e-3)
        assert (weights[b][:, ~left] == 0).all()


def test_a_row_of_nothing_gets_no_weight():
    scores = np.random.default_rng(0).normal(size=(1, 2, 4)).astype("float32")
    mask = np.array([[[False] * 4, [True] * 4]])
    weights = numpy(masks.masked_softmax(scores, mask))
    assert (weights[0, 0] == 0).all()
    assert_close(weights[0, 1].sum(), 1.0)


LARGE_FEATURES = {
    "heads": lambda **dtype: MultiHeadAttention(2, 4, **dtype),
    "blockwise": lambda **dtype: MultiHeadAttention(2, 4, flash_attention=True, **dtype),
    "dot": lambda **dtype: LuongAttention("dot", **dtype),
    "scaled dot product": lambda **dtype: ScaledDotProductAttention(**dtype),
    "linear": lambda **dtype: LinearScoreAttention(**dtype),
    "sparsemax": lambda **dtype: LuongAttention("dot", probability_fn="sparsemax", **dtype),
    "hardmax": lambda **dtype: LuongAttention("dot", probability_fn="hardmax", **dtype),
    "local": lambda **dtype: LocalAttention(
        LuongAttention("dot", **dtype), 2, alignment="monotonic", **dtype
    ),
    "monotonic": lambda **dtype: MonotonicAttention(LuongAttention("dot", **dtype), **dtype),
}
SCALES = [("float32", 1e5), ("bfloat16", 1e5), ("float16", 50.0)]


@pytest.mark.parametrize(
    ("dtype", "scale"),
    all_slow_but(*SCALES, cases=SCALES, on_jax=SCALES[1:2]),
)
@pytest.mark.parametrize("name", LARGE_FEATURES)
def test_masked_positions_get_no_weight_for_large_features(name, dtype, scale):
    generator = np.random.default_rng(0)
    query, value, noise = (
        (scale * generator.normal(size=(3, time, 4))).astype("float32") for time in (2, 3, 4)
    )
    layer = LARGE_FEATURES[name](dtype=dtype)
    expected = numpy(keras.ops.cast(layer(query, value), "float32"))
    mask = np.array([[True] * 3 + [False] * 4] * 3)
    padded = np.concatenate([value, noise], axis=1)
    received = numpy(keras.ops.cast(layer(query, padded, attention_mask=mask), "float32"))
    assert np.isfinite(received).all()
    tolerance = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}[dtype]
    assert_close(received / scale, expected / scale, tolerance)
    if name == "heads":
        outputs, weights = layer.attend(query, layer.prepare_memory(padded, attention_mask=mask))
        outputs = numpy(keras.ops.cast(outputs, "float32"))
        assert_close(outputs / scale, expected / scale, tolerance)
        assert not numpy(weights)[..., 3:].any()


def test_masked_positions_get_no_gradient_for_large_features():
    scores = (1e10 * np.random.default_rng(0).normal(size=(2, 3, 5))).astype("float32")
    scores[..., 1] = scores[..., 0]  # two best or none: elsewhere the gradient is 0
    scores[..., :2] += np.float32(1e11)
    scores[..., 3:] = 1e12
    mask, values = np.arange(5) < 3, tensor(np.arange(5, dtype="float32"))

    def loss(scores):
        return keras.ops.sum(masks.masked_softmax(scores, mask[None, None]) * values)

    value, (gradient,) = gradients_of(loss, scores)
    assert_close(value, 6 * 0.5)  # the first two have weights 0.5, values 0 and 1
    assert_close(gradient, np.tile([-0.25, 0.25, 0.0, 0.0, 0.0], (2, 3, 1)))


@pytest.mark.parametrize("bias", [0.0, masks.MASKED_SCORE, np.finfo("float32").min])
def test_sums_of_masked_scores_are_finite(bias):
    """A position can be masked by its beam, by its padding and by a bias."""
    mask = np.array([[[True, True, False, False]]])
    biases = np.where([True, False, True, False], 0.0, bias).astype("float32")
    scores = numpy(masks.scores_of_mask(mask)) + biases
    assert np.isfinite(scores + biases * (bias == masks.MASKED_SCORE)).all()
    weights = numpy(masks.masked_softmax(scores + np.float32(1e10), mask))
    assert_close(weights, np.array([[[0.5, 0.5, 0, 0] if bias == 0 else [1.0, 0, 0, 0]]]))


def test_a_mask_of_rows_that_does_not_fit_the_scores_is_refused():
    """NumPy's rules would repeat the scores for each row of the mask."""
    scores, mask = np.zeros((2, 1, 5), "float32"), np.ones((2, 5), bool)
    with pytest.raises(ValueError, match="can be broadcast to the scores.*attention_mask"):
        masks.masked_softmax(scores, mask)
    assert masks.masked_softmax(scores, mask[:1]).shape == (2, 1, 5)
    for shape in ((3, 2, 5), (3, 4, 2, 5)):
        assert masks.masked_softmax(np.zeros(shape, "float32"), mask).shape == shape
