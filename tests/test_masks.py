import numpy as np
import pytest

from keras_attn import masks
from tests.contracts import assert_close, assert_identical, numpy


def test_padding_mask_marks_what_is_not_the_padding_id():
    token_ids = np.array([[5, 0, 9], [9, 9, 0]])
    assert numpy(masks.padding_mask(token_ids)).tolist() == [
        [True, False, True],
        [True, True, False],
    ]
    assert numpy(masks.padding_mask(token_ids, pad_token_id=9)).tolist() == [
        [True, True, False],
        [False, False, True],
    ]


@pytest.mark.parametrize("shape", [(2, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_attention_mask_has_the_rank_of_scores(shape, dtype):
    mask = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    result = numpy(masks.attention_mask(np.zeros((2, 4, 5), "float32"), mask))
    assert result.dtype == bool
    np.testing.assert_array_equal(result, (mask != 0).reshape(2, -1, 4))


def test_without_a_mask_everything_may_be_attended():
    result = numpy(masks.attention_mask(np.zeros((2, 4, 5), "float32")))
    assert result.shape == (2, 1, 4) and result.all()


@pytest.mark.parametrize("shape", [(4,), (1, 2, 3, 4)])
def test_a_mask_of_another_rank_is_refused(shape):
    with pytest.raises(ValueError, match=r"\(batch, source\) or .* Received: attention_mask with"):
        masks.attention_mask(np.zeros((2, 4, 5), "float32"), np.ones(shape, "bool"))


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


@pytest.mark.parametrize("shape", [(2, 4), (3, 5), (2, 6, 4), (3, 6, 5)])
def test_a_mask_of_another_memory_is_refused(shape):
    with pytest.raises(ValueError, match=r"a memory of shape \(2, 5, 7\)"):
        masks.attention_mask(np.ones((2, 5, 7), "float32"), np.ones(shape, "bool"))


def test_a_mask_of_one_row_is_for_all():
    mask = np.array([[True, True, False]])
    value = np.ones((4, 3, 2), "float32")
    assert_identical(numpy(masks.attention_mask(value, mask)), np.repeat(mask[:, None], 4, axis=0))


def test_a_row_of_nothing_gets_no_weight():
    scores = np.random.default_rng(0).normal(size=(1, 2, 4)).astype("float32")
    mask = np.array([[[False] * 4, [True] * 4]])
    weights = numpy(masks.masked_softmax(scores, mask))
    assert (weights[0, 0] == 0).all()
    assert_close(weights[0, 1].sum(), 1.0)
