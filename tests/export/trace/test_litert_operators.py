"""Operators that LiteRT computes wrongly at some values, compared with NumPy."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_attn.export._checks.litert_runner import litert_runner
from keras_attn.export._trace.litert_conversion import SIGNATURE, convert_to_litert

pytest.importorskip("ai_edge_litert.interpreter", reason="needs keras-attn[litert]")
LARGEST = float(np.finfo("float32").max)
FLOATS = np.array(
    [0, -0.0, 1e-30, 1e-8, -1e-4, 0.2, -0.2, 0.5, 1.5, -1.5, 12, -12, 88, 89, -104, 1e8]
    + [2.0**24, LARGEST, -LARGEST, math.inf, -math.inf, math.nan],
    "float32",
)
SMALLEST = -(2**31)
INTEGERS = np.array([SMALLEST, SMALLEST, 7, -7, 2**31 - 1, 0], "int32")
DIVISORS = np.array([-1, 3, -1, 2, -1, -1], "int32")
BYTES = np.array([0, 255, 7, 128], "uint8")
BOOLEANS = ("isinf", "isposinf", "isneginf", "isnan", "isfinite", "signbit")


@pytest.fixture(scope="module")
def found():
    """Results of one LiteRT model with all operators."""

    def function(floats, integers, divisors, numbers):
        def loop(index, value):
            return index + 1, value + ops.softplus(floats)

        _, looped = tf.while_loop(lambda index, _: index < 2, loop, (0, tf.zeros_like(floats)))
        results = {name: getattr(ops, name)(floats) for name in (*BOOLEANS, "expm1", "log1p")}
        return results | {
            "nan_to_num": ops.nan_to_num(floats),
            "selected": ops.where(floats > 1, -np.inf, floats),
            "softplus": ops.softplus(floats),
            "log_sigmoid": keras.activations.log_sigmoid(floats),
            "raw": tf.nn.softplus(floats),
            "looped": looped,
            "root": ops.rsqrt(ops.abs(floats)),
            "floor_divide": ops.floor_divide(1.5, floats),
            "remainder": ops.mod(integers, divisors),
            "largest": ops.argmax(ops.reshape(floats[:20], (2, 10)), axis=-1),
            "least": ops.argmin(ops.reshape(floats[:20], (2, 10)), axis=-1),
            "equal": ops.equal(numbers, numbers[::-1]),
            "not_equal": ops.not_equal(numbers, numbers[::-1]),
        }

    arrays = {"floats": FLOATS, "integers": INTEGERS, "divisors": DIVISORS, "numbers": BYTES}
    specs = [tf.TensorSpec(each.shape, each.dtype, name) for name, each in arrays.items()]
    return litert_runner(convert_to_litert({SIGNATURE: (function, specs)}, []))(**arrays)


@pytest.mark.parametrize("name", [*BOOLEANS, "nan_to_num"])
def test_litert_classifies_floats(found, name):
    np.testing.assert_array_equal(found[name], getattr(np, name)(FLOATS))


@pytest.mark.parametrize("name", ["expm1", "log1p", "softplus", "log_sigmoid", "raw", "looped"])
def test_litert_keeps_large_and_small_results(found, name):
    wide = FLOATS.astype("float64")
    with np.errstate(all="ignore"):
        expected = {
            "expm1": np.expm1(wide),
            "log1p": np.log1p(wide),
            "log_sigmoid": -np.logaddexp(0, -wide),
            "looped": 2 * np.logaddexp(0, wide),
        }.get(name, np.logaddexp(0, wide))
        is_known = np.isfinite(wide) & (wide < 1e38)  # LiteRT's log of larger numbers is infinite
        is_known &= np.abs(expected) < LARGEST
    is_denormal = np.abs(expected) < 1e-30
    np.testing.assert_allclose(
        found[name][is_known & ~is_denormal], expected[is_known & ~is_denormal], rtol=3e-6
    )


def test_litert_keeps_infinite_constants(found):
    np.testing.assert_array_equal(found["selected"], np.where(FLOATS > 1, -np.inf, FLOATS))


def test_litert_divides_by_zero(found):
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found["floor_divide"][:2], np.floor(1.5 / FLOATS[:2]))
        np.testing.assert_allclose(found["root"][:16], np.abs(FLOATS[:16]) ** -0.5, rtol=1e-6)


def test_litert_remainder_of_the_smallest_integer(found):
    """LiteRT's own operator ends the process."""
    np.testing.assert_array_equal(found["remainder"], [0, 1, 0, 1, 0, 0])


def test_litert_argmax_and_argmin_as_outputs(found):
    rows = FLOATS[:20].reshape(2, 10)
    np.testing.assert_array_equal(found["largest"], rows.argmax(axis=-1))
    np.testing.assert_array_equal(found["least"][1], rows.argmin(axis=-1)[1])


def test_litert_compares_bytes(found):
    """LiteRT's own operator ends the process."""
    np.testing.assert_array_equal(found["equal"], BYTES == BYTES[::-1])
    np.testing.assert_array_equal(found["not_equal"], BYTES != BYTES[::-1])
