import numpy as np

from keras_attn._backend import gather
from tests.contracts import assert_identical, numpy, tensor


def test_beams_are_gathered_within_their_sentence():
    values = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    beams = np.array([[2, 0], [1, 1]], "int32")
    received = numpy(gather.gather_beams(tensor(values), tensor(beams)))
    assert_identical(received, np.stack([values[0, [2, 0]], values[1, [1, 1]]]))
    flat = values.reshape(6, 4)
    rows = gather.flat_rows(tensor(beams), 2, 3)
    assert_identical(numpy(gather.gather_rows(tensor(flat), rows)), received.reshape(4, 4))
