import numpy as np

from keras_attn._decoders import log_probs
from tests.contracts import assert_close, numpy


def test_log_softmax_of_infinite_logits():
    inf = np.inf
    rows = [[1.0, -inf, 1.0], [-inf, -inf, -inf], [inf, 0.0, inf], [-inf, 5.0, -inf]]
    found = numpy(log_probs.log_softmax_of_infinite(np.array(rows, "float32")))
    half = np.log(0.5)
    expected = [[half, 1, half], [1, 1, 1], [half, 1, half], [1, 0, 1]]
    found = np.where(found > log_probs.IMPOSSIBLE / 2, found, 1.0)
    assert_close(found, np.array(expected, "float32"))


def test_log_softmax_of_nan_is_nan():
    row = np.array([[np.nan, -np.inf, 1.0]], "float32")
    assert np.isnan(numpy(log_probs.log_softmax_of_infinite(row))).all()
