import numpy as np
import pytest

from keras_attn.export._passes import gather_integers
from tests.export.small_graphs import FLOAT, INT64, constant, model, node, operators, run, value

INT32 = 6
RNG = np.random.default_rng(0)
INDICES = np.array([[2, 0, 0], [1, 1, 2]])


def gather(type_, shape):
    return model(
        [
            node("Unsqueeze", "indices last", "columns"),
            node("GatherND", "data columns", "chosen", batch_dims=1),
        ],
        [value("data", type_, shape), value("indices", INT64, ["rows", 3])],
        [value("chosen", type_, ["rows", *shape[1:]])],
        [constant("last", [2])],
    )


@pytest.mark.parametrize("type_", [INT32, FLOAT])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (0, 3), (0, 3, 4)])
def test_chooses_the_same_without_a_gather_of_int32(type_, shape):
    data = RNG.integers(-9, 2**30, shape).astype("int32" if type_ == INT32 else "float32")
    indices = INDICES[: shape[0]]
    made = gather(type_, ["rows", *shape[1:]])
    gather_integers(made)
    expected = ["GatherElements"] if len(shape) == 2 else ["GatherND"]
    if type_ == INT32 and len(shape) == 3:
        expected = ["Cast", "GatherND", "Cast"]
    assert operators(made.graph) == ["Unsqueeze", *expected]
    chosen = run(made, data=data, indices=indices)[0]
    axes = (slice(None), slice(None), *[None] * (len(shape) - 2))
    np.testing.assert_array_equal(chosen, np.take_along_axis(data, indices[axes], 1))


def test_indices_of_several_axes_stay():
    made = model(
        [node("GatherND", "data places", "chosen")],
        [value("data", INT32, [2, 3]), value("places", INT64, [4, 2])],
        [value("chosen", INT32, [4])],
    )
    gather_integers(made)
    assert operators(made.graph) == ["Cast", "GatherND", "Cast"]
    data, places = RNG.integers(0, 99, (2, 3)).astype("int32"), np.array([[0, 2], [1, 1]] * 2)
    np.testing.assert_array_equal(run(made, data=data, places=places)[0], data[tuple(places.T)])
