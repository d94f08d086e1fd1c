import numpy as np
import pytest

from keras_attn._attention.head_projections import merge_heads, project_heads, split_heads
from tests.contracts import assert_close, assert_identical, numpy

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(2, 3, 4)).astype("float32")
KERNELS = [GENERATOR.normal(size=(4, size)).astype("float32") for size in (6, 2)]
BIASES = [GENERATOR.normal(size=size).astype("float32") for size in (6, 2)]


@pytest.mark.parametrize("biases", [None, BIASES], ids=["no bias", "bias"])
def test_project_equals_a_product_for_each_kernel(biases):
    added = [0, 0] if biases is None else biases
    expected = [X @ kernel + bias for kernel, bias in zip(KERNELS, added, strict=True)]
    assert_close(numpy(project_heads(X, KERNELS, biases)), np.concatenate(expected, axis=-1))


@pytest.mark.parametrize("head_dims", [[2, 2], [2, 1]], ids=["one size", "two sizes"])
def test_split_heads_gives_each_head_its_features(head_dims):
    counts, size = [3, 2], 3 * head_dims[0] + 2 * head_dims[1]
    projected = GENERATOR.normal(size=(2, 4, size)).astype("float32")
    found = numpy(split_heads(projected, (2, 4), counts, head_dims))
    start = 0
    for heads, count, head_dim in zip(found, counts, head_dims, strict=True):
        for head in range(count):
            assert_identical(heads[:, head], projected[:, :, start : start + head_dim])
            start += head_dim


def test_split_heads_moves_beams_behind_the_heads_and_merge_heads_back():
    batch, beams, heads, head_dim = 2, 3, 2, 5
    rows = GENERATOR.normal(size=(batch * beams, heads * head_dim)).astype("float32")
    (found,) = split_heads(rows, (batch * beams,), [heads], [head_dim], beams)
    assert numpy(found).shape == (batch, heads, beams, head_dim)
    assert_identical(numpy(found)[1, 1, 2], rows[1 * beams + 2, head_dim:])
    assert_identical(numpy(merge_heads(found, (batch * beams,), heads * head_dim)), rows)
