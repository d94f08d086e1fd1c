import keras
import numpy as np
import pytest
from keras import ops

from keras_attn._backend.litert_tracing import traced_for_litert
from keras_attn._backend.scan import scan
from keras_attn._backend.sequential_loops import map_sequentially
from tests.contracts import assert_close, numpy

INPUTS = np.random.default_rng(0).normal(size=(5, 2)).astype("float32")


def running_sums(inputs, start):
    """Sums before, and twice the sums after each step; a count that is not collected."""

    def step(carry, inputs):
        total = carry["total"] + inputs["x"]
        return {"total": total, "twice": 2.0 * total, "count": carry["count"] + 1}

    carry = {"total": start, "twice": ops.zeros_like(start), "count": ops.zeros((), "int32")}
    return scan(step, carry, {"x": inputs}, lambda carry: (carry["twice"],))


@pytest.mark.parametrize("num_steps", [0, 1, 5])
def test_keeps_what_is_asked_for(num_steps):
    last, (twice,) = running_sums(INPUTS[:num_steps], np.ones(2, "float32"))
    expected = 1.0 + np.cumsum(INPUTS[:num_steps], axis=0)
    assert int(last["count"]) == num_steps
    assert_close(numpy(last["total"]), expected[-1] if num_steps else np.ones(2))
    assert_close(numpy(twice), 2.0 * expected)


@pytest.mark.parametrize("num_steps", [0, 1, 5])
def test_scan_for_litert_equals_other_scans(num_steps):
    expected = running_sums(INPUTS[:num_steps], np.ones(2, "float32"))
    with traced_for_litert():
        found = running_sums(INPUTS[:num_steps], np.ones(2, "float32"))
    assert_close(numpy(found), numpy(expected))
    assert found[1][0].shape == (num_steps, 2)


def test_map_for_litert_equals_other_maps():
    expected = map_sequentially(ops.square, INPUTS)
    with traced_for_litert():
        assert_close(numpy(map_sequentially(ops.square, ops.convert_to_tensor(INPUTS))), expected)


def test_learns_through_the_loop():
    class Recurrence(keras.layers.Layer):
        def build(self, shape):
            self.factor = self.add_weight(name="factor", shape=(), initializer="ones")

        def call(self, inputs):
            along_time = ops.transpose(inputs)  # (T, B)

            def step(state, x):
                return self.factor * state + x

            last, states = scan(step, ops.zeros_like(along_time[0]), along_time, lambda s: s)
            return ops.transpose(states)

    inputs = keras.Input((None,))
    model = keras.Model(inputs, Recurrence()(inputs))
    model.compile(keras.optimizers.SGD(1.0), "mse")
    x, y = np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 2.0, 5.0]])
    model.fit(x, y, verbose=0)
    # States 1, f + 2, f (f + 2) + 3: the gradient of the mean square at f = 1.
    gradient = (2 / 3) * ((3 - 2) * 1 + (6 - 5) * (2 + 2))
    assert_close(numpy(model.layers[-1].factor), 1 - gradient)
