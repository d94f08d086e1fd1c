"""Conversions of TensorFlow operators that tf2onnx lacks or gets wrong, compared with NumPy."""

import math

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_attn.export import ExportError
from keras_attn.export._checks.onnx_operator_check import check_model
from tests.export.conversion_steps import convert
from tests.export.trace.test_conversion import run

SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-8, -1e-8, 1e-3, 0.5, -0.5, 30.0, -30.0]
FLOATS = np.array([*SPECIAL, *np.random.default_rng(0).normal(size=20) * 3], "float32")


def converted(function, *arrays):
    """Converts a function with dynamic sizes. Returns the ONNX Runtime results as a dict."""
    specs = [
        tf.TensorSpec([None] * array.ndim, array.dtype, name=f"x{index}")
        for index, array in enumerate(arrays)
    ]
    model = convert(function, specs, [])
    check_model(model)
    return run(model, *arrays)


def test_functions_of_one_number():
    names = ("erfc", "expm1", "log1p", "signbit", "isnan", "isinf", "isfinite", "nan_to_num")
    found = converted(lambda x: {name: getattr(ops, name)(x) for name in names}, FLOATS)
    with np.errstate(all="ignore"):
        expected = {name: getattr(np, name)(FLOATS) for name in names if name != "erfc"}
    expected["erfc"] = np.array([math.erfc(each) for each in FLOATS])
    for name in names:
        if found[name].dtype == bool:
            np.testing.assert_array_equal(found[name], expected[name], name)
        else:
            np.testing.assert_allclose(found[name], expected[name], 3e-6, 3e-7, err_msg=name)


@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_small_numbers_keep_their_digits(name):
    x = np.array([1e-7, -1e-7, 3e-5, -2e-4, 1e-20], "float32")
    found = converted(lambda x: {"y": getattr(ops, name)(x)}, x)["y"]
    np.testing.assert_allclose(found, getattr(np, name)(x.astype("float64")), rtol=1e-6)


def test_remainders_of_large_and_infinite_floats():
    x, y = (each.ravel() for each in np.meshgrid([1e5, -1e8, 3e38, 2.5, -2.5], [0.63, -0.63]))
    x = np.array([*x, 1.5, 1.5, -1.5, 1.5, np.inf, -0.0], "float32")
    y = np.array([*y, np.inf, -np.inf, np.inf, 0.0, 2.0, -2.0], "float32")
    found = converted(lambda x, y: {"mod": ops.mod(x, y), "fmod": ops.fmod(x, y)}, x, y)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found["mod"], np.mod(x, y), rtol=1e-6)
        np.testing.assert_allclose(found["fmod"][:-6], np.fmod(x, y)[:-6], rtol=1e-6)


def test_crossentropy_of_improbable_labels_is_finite():
    logits = np.array([[0.0, -200.0, 3.0], [-1e19, 1.0, 2.0]], "float32")
    labels = np.array([1, 0], "int32")
    found = converted(
        lambda x, y: {"loss": tf.nn.sparse_softmax_cross_entropy_with_logits(y, x)}, logits, labels
    )
    shifted = logits.astype("float64") - logits.max(axis=-1, keepdims=True)
    expected = np.log(np.exp(shifted).sum(axis=-1)) - shifted[[0, 1], labels]
    np.testing.assert_allclose(found["loss"], expected, rtol=1e-6)


def test_angles_on_the_axes_and_at_infinity():
    y, x = (each.ravel() for each in np.meshgrid(FLOATS, FLOATS))
    found = converted(lambda y, x: {"angle": ops.arctan2(y, x)}, y, x)["angle"]
    np.testing.assert_allclose(found, np.arctan2(y, x), rtol=1e-6, atol=1e-6)


def test_products_and_quotients_that_are_zero_by_definition():
    x = np.array([0, 0, 0, 2, 2, 2], "float32")
    y = np.array([0, math.inf, 3, 0, math.inf, 3], "float32")

    def function(x, y):
        return {
            "xlogy": tf.math.xlogy(x, y),
            "xlog1py": tf.math.xlog1py(x, y - 1),
            "xdivy": tf.math.xdivy(x, y),
            "divide": tf.math.divide_no_nan(x, y),
            "multiply": tf.math.multiply_no_nan(y, x),
        }

    logs = np.array([0, 0, 0, -math.inf, math.inf, 2 * math.log(3)])
    found = converted(function, x, y)
    np.testing.assert_allclose(found["xlogy"], logs, rtol=1e-6)
    np.testing.assert_allclose(found["xlog1py"], logs, rtol=1e-6)
    np.testing.assert_allclose(found["xdivy"], [0, 0, 0, math.inf, 0, 2 / 3])
    np.testing.assert_allclose(found["divide"], [0, 0, 0, 0, 0, 2 / 3])
    np.testing.assert_allclose(found["multiply"], [0, 0, 0, 0, math.inf, 6])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"])
def test_shifts_wrap_and_round_down(dtype):
    info = np.iinfo(dtype)
    values = np.array([info.min, info.max, 0, 1, 2, 77, info.max // 3, info.min // 5], dtype)
    x, y = (each.ravel() for each in np.meshgrid(values, np.arange(info.bits).astype(dtype)))
    function = {"left": tf.bitwise.left_shift, "right": tf.bitwise.right_shift}
    found = converted(lambda x, y: {name: each(x, y) for name, each in function.items()}, x, y)
    np.testing.assert_array_equal(found["left"], np.left_shift(x, y))
    np.testing.assert_array_equal(found["right"], np.right_shift(x, y))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32"])
def test_no_division_of_integers_ends_the_process(dtype):
    """ONNX Runtime itself crashes (SIGFPE) for division by 0 and for the smallest integer by -1."""
    info = np.iinfo(dtype)
    values = [info.min, info.max, 0, 1, 2, 3, 7, info.max // 3, info.min // 5]
    values += [-1, -2, -3, -7] if info.min else []
    x, y = (each.ravel() for each in np.meshgrid(values, np.array(values, object)))

    def function(x, y):
        results = {"floor": x // y, "mod": x % y, "truncate": tf.truncatediv(x, y)}
        if dtype in ("int32", "int64"):
            results["fmod"] = tf.truncatemod(x, y)
        if info.min:
            results["by -1"] = x // tf.constant(-1, dtype)
        return results

    def wrapped(function):
        """Computes with Python integers, which do not overflow; returns 0 for a division by 0."""
        results = [function(int(a), int(b)) if b else 0 for a, b in zip(x, y, strict=True)]
        return [(each - info.min) % 2**info.bits + info.min for each in results]

    expected = {
        "floor": wrapped(lambda a, b: a // b),
        "mod": wrapped(lambda a, b: a % b),
        "truncate": wrapped(lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
        "fmod": wrapped(lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1)),
        "by -1": wrapped(lambda a, _: -a) if info.min else [],
    }
    found = converted(function, x.astype(dtype), y.astype(dtype))
    for name, value in found.items():
        if name == "by -1":
            value = np.where(y.astype(dtype) == 0, 0, value)  # as in `wrapped`
        np.testing.assert_array_equal(value, np.array(expected[name], dtype), name)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int16", "int32", "int64", "uint8", "bool"]
)
def test_selection_of_each_dtype(dtype):
    rng = np.random.default_rng(0)
    mask = rng.integers(0, 2, (4, 3)).astype(bool)
    x, y = (rng.integers(0, 90, (4, 3)).astype(dtype) for _ in range(2))
    found = converted(lambda mask, x, y: {"y": tf.where(mask, x, y)}, mask, x, y)["y"]
    np.testing.assert_array_equal(found, np.where(mask, x, y))


@pytest.mark.parametrize("mode", ["symmetric", "reflect"])
def test_mirrored_padding(mode):
    sizes = ((0, 0), (2, 1), (0, 3))
    for dtype in ("float32", "int32"):
        x = np.arange(24).reshape(2, 3, 4).astype(dtype)
        found = converted(lambda x: {"y": tf.pad(x, sizes, mode)}, x)["y"]
        np.testing.assert_array_equal(found, np.pad(x, sizes, mode))


def test_updates_of_slices_stay_inside():
    x, block = np.zeros((4, 5), "float32"), np.ones((2, 3), "float32")
    for start, corner in (((1, 1), (1, 1)), ((3, 4), (2, 2)), ((-2, 0), (0, 0))):
        expected = x.copy()
        expected[corner[0] : corner[0] + 2, corner[1] : corner[1] + 3] = 1
        start = np.array(start, "int32")

        def function(x, start, block):
            from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice

            return {"y": dynamic_update_slice(x, block, start)}

        np.testing.assert_array_equal(converted(function, x, start, block)["y"], expected)


def test_largest_number_of_a_row_with_ties_and_negative_zeros():
    x = np.array([[1, 3, 3], [-0.0, 0.0, -0.0], [-1, -math.inf, -1], [2, 2, 1]], "float32")
    found = converted(lambda x: {"max": ops.argmax(x, -1), "min": ops.argmin(x, -1)}, x)
    np.testing.assert_array_equal(found["max"], [1, 1, 0, 0])
    np.testing.assert_array_equal(found["min"], ops.argmin(x, -1))


def test_bits_of_a_float_are_refused():
    with pytest.raises(ExportError, match="reinterprets the bits"):
        converted(lambda x: {"y": tf.bitcast(x, tf.int32)}, FLOATS)


def test_positions_in_sorted_numbers():
    bins, x = [-1.0, 0.0, 2.0], np.array([[-3, -1, -0.5], [0, 2, 9]], "float32")
    whole = np.array([[-3, -1, 0], [1, 2, 9]], "int32")

    def function(x, whole):
        results = {"bins": ops.digitize(x, bins), "whole": ops.digitize(whole, bins)}
        for side in ("left", "right"):
            results[side] = ops.searchsorted(tf.constant(bins), ops.reshape(x, (-1,)), side=side)
        return results

    found = converted(function, x, whole)
    np.testing.assert_array_equal(found["bins"], np.digitize(x, bins))
    np.testing.assert_array_equal(found["whole"], np.digitize(whole, bins))
    for side in ("left", "right"):
        np.testing.assert_array_equal(found[side], np.searchsorted(bins, x.ravel(), side))


def test_membership_of_the_largest():
    predictions = np.array([[1, 2, 3], [3, 3, 1], [1, np.nan, 2], [1, 2, 3]], "float32")
    targets = np.array([1, 1, 0, 5], "int32")
    for k, expected in ((1, [0, 1, 0, 0]), (2, [1, 1, 0, 0])):
        found = converted(lambda p, t, k=k: {"y": tf.math.in_top_k(t, p, k)}, predictions, targets)
        np.testing.assert_array_equal(found["y"], np.array(expected, bool))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bool"])
def test_triangles_hold_nothing_from_outside(dtype):
    x = (np.arange(24) % 9).reshape(2, 3, 4).astype(dtype)
    if dtype == "float32":
        x[0, 0, 3], x[1, 2, 0] = math.inf, math.nan

    def function(x):
        return {
            "lower": ops.tril(x),
            "upper": ops.triu(x, -1),
            "band": tf.linalg.band_part(x, 1, 1),
        }

    found = converted(function, x)
    np.testing.assert_array_equal(found["lower"], np.tril(x))
    np.testing.assert_array_equal(found["upper"], np.triu(x, -1))
    np.testing.assert_array_equal(found["band"], np.triu(np.tril(x, 1), -1))


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_segments(dtype, name):
    data = np.random.default_rng(0).integers(-5, 6, (7, 2)).astype(dtype)
    segments = np.array([0, 3, 3, -1, 0, 1, 3], "int32")
    function = getattr(tf.math, f"unsorted_segment_{name}")
    found = converted(lambda x, s: {"y": function(x, s, 5)}, data, segments)["y"]
    for segment in (0, 1, 3):
        expected = getattr(data[segments == segment], name)(0)
        np.testing.assert_array_equal(found[segment], expected)
    np.testing.assert_array_equal(found, function(data, segments, 5))  # including empty segments
    empty = converted(lambda x, s: {"y": function(x, s, 5)}, data[:0], segments[:0])["y"]
    np.testing.assert_array_equal(empty, function(data[:0], segments[:0], 5))


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "float16"])
def test_one_hot_vectors_of_indices_out_of_range_are_zero(dtype):
    indices = np.array([[0, 3, -1], [4, 5, -7]], "int32")

    def function(indices):
        results = {f"axis {axis}": ops.one_hot(indices, 4, axis, dtype) for axis in (-1, 0, 1)}
        return {**results, "scalar": ops.one_hot(indices[0, 1], 4, dtype=dtype)}

    found = converted(function, indices)
    expected = (indices[..., None] == np.arange(4)).astype(dtype)
    for axis in (-1, 0, 1):
        np.testing.assert_array_equal(found[f"axis {axis}"], np.moveaxis(expected, -1, axis))
    np.testing.assert_array_equal(found["scalar"], expected[0, 1])
    assert found["scalar"].dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_scattered_updates_of_one_index_are_added(dtype):
    indices, updates = np.array([[2], [0], [2]], "int32"), np.arange(6).reshape(3, 2).astype(dtype)
    found = converted(lambda i, u: {"y": ops.scatter(i, u, (4, 2))}, indices, updates)["y"]
    np.testing.assert_array_equal(found, [[2, 3], [0, 0], [4, 6], [0, 0]])


def test_broadcast_shapes_and_cross_products():
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=size).astype("float32") for size in ((4, 1, 3), (5, 3)))

    def function(x, y):
        shape = tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(y))
        return {"cross": ops.cross(x, y), "shape": shape, "steps": ops.linspace(x[0], y, 4)}

    shapes = {"x": (None, 1, 3), "y": (None, 3)}
    model = convert(function, [tf.TensorSpec(shape, name=n) for n, shape in shapes.items()], [])
    check_model(model)
    found = run(model, x, y)
    np.testing.assert_allclose(found["cross"], np.cross(x, y), atol=1e-6)
    np.testing.assert_array_equal(found["shape"], [4, 5, 3])
    np.testing.assert_allclose(found["steps"], np.linspace(x[0] + 0 * y, y, 4), atol=1e-6)


def test_a_convolution_in_groups():
    kernel = np.random.default_rng(0).normal(size=(3, 2, 6)).astype("float32")
    x = np.random.default_rng(1).normal(size=(2, 9, 4)).astype("float32")
    spec = tf.TensorSpec((None, None, 4), name="x")
    model = convert(lambda x: {"y": ops.conv(x, kernel)}, [spec], [])
    check_model(model)
    halves = [x[..., :2], x[..., 2:]], [kernel[..., :3], kernel[..., 3:]]
    expected = np.concatenate([ops.conv(a, k) for a, k in zip(*halves, strict=True)], -1)
    np.testing.assert_allclose(run(model, x)["y"], expected, atol=1e-5)


@pytest.mark.parametrize("method", ["nearest", "bilinear", "bicubic"])
def test_images_of_a_constant_size(method):
    image = np.random.default_rng(0).normal(size=(2, 6, 7, 3)).astype("float32")
    # ONNX Runtime cannot downsample images bicubically; the export raises an error.
    for size in ((9, 12),) if method == "bicubic" else ((4, 5), (9, 12)):

        def function(x, size=size):
            return {"y": tf.image.resize(x, size, method)}

        spec = tf.TensorSpec((None, 6, 7, 3), name="x")
        model = convert(function, [spec], [])
        check_model(model)
        found = run(model, image)["y"]
        tolerance = 5e-3 if method == "bicubic" else 1e-5  # TensorFlow uses a table of weights
        np.testing.assert_allclose(found, function(image)["y"], atol=tolerance)


def test_images_averaged_over_areas_are_refused():
    with pytest.raises(ExportError, match="averages over areas"):
        spec = tf.TensorSpec((None, 6, 6, 3), name="x")
        convert(lambda x: {"y": tf.image.resize(x, (4, 4), "area")}, [spec], [])
