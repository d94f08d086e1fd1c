import numpy as np

from keras_attn._search.dead_ends import NO_RANK
from keras_attn._search.hypothesis_pool import add_to_pool, new_pool
from tests.contracts import assert_close, numpy, tensor


def test_new_pool_has_the_empty_hypothesis_where_no_token_is_allowed():
    pool = numpy(new_pool(tensor([0, 3]), 2, 3))
    assert_close(pool["ranks"], np.array([[0.0, NO_RANK], [NO_RANK, NO_RANK]]))
    assert_close(pool["log_probs"], np.array([[0.0, -1e9], [-1e9, -1e9]]))
    assert not pool["num_tokens"].any()


def test_add_to_pool_keeps_the_best_hypotheses_and_the_older_of_equals():
    pool = {
        "num_tokens": np.array([[1, 1]], "int32"),
        "ranks": np.array([[-1.0, -3.0]], "float32"),
    }
    found = {
        "num_tokens": np.array([[7, 8]], "int32"),
        "ranks": np.array([[-1.0, -0.5]], "float32"),
    }
    pool = numpy(add_to_pool(pool, found, 0, 1, 2))
    assert pool["ranks"].tolist() == [[-0.5, -1.0]]
    assert pool["num_tokens"].tolist() == [[8, 1]]
