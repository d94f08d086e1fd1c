"""Cases for `sweep_keras_operations`: every public name of `keras.ops` and `keras.layers`.

A case is a function of tensors or a layer, with its inputs. `None` in the shape of an input is a
dynamic axis. `NOT_IN_A_MODEL` gives the reason for each name without a case.
"""

from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops


@dataclass(frozen=True)
class Values:
    """Shape, dtype and distribution of an input."""

    shape: tuple
    dtype: str = "float32"
    draw: str = "normal"


@dataclass(frozen=True)
class Case:
    """One way to use an operation.

    Args:
        function: callable from tensors to a structure of tensors.
        inputs: `Values` of its arguments.
        label: name of the case among the cases of the operation.
        hard: whether to test NaN, infinities, ties and extreme integers.
        is_joined: whether `function` takes the inputs of a functional model and creates its layers.
    """

    function: Callable
    inputs: tuple
    label: str = ""
    hard: bool = True
    is_joined: bool = False


SEQUENCE = (None, None, 4)
MATRIX = (None, 4)


def x(dtype="float32", draw="normal", shape=SEQUENCE):
    return Values(shape, dtype, draw)


def number(dtype, draw="normal", shape=SEQUENCE):
    """Returns an input of any dtype."""
    if dtype == "bool":
        return x(dtype, "bool", shape)
    if "int" in dtype:
        kind = {"normal": "integer", "nonzero": "nonzero"}.get(draw, "natural")
        return x(dtype, "natural" if dtype.startswith("u") and kind == "integer" else kind, shape)
    return x(dtype, draw, shape)


FLOATS = ("float32", "float16", "float64")
NUMBERS = ("float32", "int32", "int64", "uint8", "float16")
EVERY = (*NUMBERS, "bool", "float64", "int8", "uint32")
INTEGERS = ("int32", "int64", "uint8", "int8", "int16", "uint16", "uint32")

CASES = {}
"""Dictionary from the name of an operation, such as `ops.exp`, to the list of its cases."""


def add(name, function, *inputs, label="", hard=True):
    CASES.setdefault(name, []).append(Case(function, inputs, label, hard))


def of(name):
    return getattr(ops, name)


def each(names, dtypes, draw="normal"):
    for name in names.split():
        for dtype in dtypes:
            add(f"ops.{name}", of(name), number(dtype, draw), label=dtype)


def each_pair(names, dtypes, first="normal", second="normal"):
    for name in names.split():
        for dtype in dtypes:
            pair = number(dtype, first), number(dtype, second)
            add(f"ops.{name}", of(name), *pair, label=dtype)


# Element by element

each("abs absolute fabs ceil floor negative square sign signbit trunc round", NUMBERS)
each("cos sin tan cosh sinh tanh arctan arcsinh exp exp2 expm1 sinc deg2rad rad2deg", FLOATS)
each("cbrt erf erfc i0 angle conj conjugate real imag", ("float32", "float64"))
each("exp tanh sqrt log mean", ("int32", "bool"), "positive")
each("sqrt rsqrt log log10 log1p log2", FLOATS, "positive")
each("log1p", ("int32",), "positive")
each("reciprocal", ("float32", "float16"))
each("arccos arcsin arctanh erfinv", ("float32", "float64"), "unit")
each("arccosh", ("float32", "float64"), "above one")
each("isfinite isinf isnan isneginf isposinf isreal", ("float32", "float64", "float16", "int32"))
each("logical_not", ("bool", "float32", "int32"))
each("bitwise_invert bitwise_not", INTEGERS)
each("copy stop_gradient nan_to_num ones_like zeros_like ravel ptp", ("float32", "int32", "uint8"))
each("empty_like", ("float32",))
each(
    "celu elu gelu hard_shrink hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid "
    "relu6 selu sigmoid silu swish soft_shrink softplus softsign sparse_plus sparse_sigmoid "
    "squareplus tanh_shrink sparsemax softmax log_softmax glu",
    ("float32",),
)
each("relu", ("float32", "int32", "float16"))
each("gelu silu softmax log_softmax sigmoid", ("float16",))
add("ops.gelu", lambda a: ops.gelu(a, approximate=False), x(), label="exact")
add("ops.threshold", lambda a: ops.threshold(a, 0.5, 7.0), x())
add("ops.leaky_relu", lambda a: ops.leaky_relu(a, 0.3), x(), label="slope")
add("ops.softmax", lambda a: ops.softmax(a, axis=1), x(), label="axis=1")
add("ops.log_softmax", lambda a: ops.log_softmax(a, axis=1), x(), label="axis=1")
add("ops.softmax", lambda a: ops.softmax(a, axis=(1, 2)), x(), label="two axes")
add("ops.sparsemax", lambda a: ops.sparsemax(a, axis=1), x(), label="axis=1")
add("ops.glu", lambda a: ops.glu(a, axis=-1), x(), label="axis=-1")
for dtype in NUMBERS:
    add("ops.clip", lambda a: ops.clip(a, 1, 3), number(dtype), label=dtype)
for dtype in ("int32", "int64", "uint8", "bool", "float16", "float64", "int8"):
    draw = "positive" if dtype == "uint8" else "normal"  # out of range is undefined behavior in C++
    add("ops.cast", lambda a, to=dtype: ops.cast(a, to), x(draw=draw), label=f"float32 to {dtype}")
    add("ops.cast", lambda a: ops.cast(a, "float32"), number(dtype), label=f"{dtype} to float32")
add("ops.cast", lambda a: ops.cast(a, "uint8"), number("int32"), label="int32 to uint8")
for to in ("uint8", "int8", "int32"):
    add("ops.saturate_cast", lambda a, to=to: ops.saturate_cast(a, to), x(), label=to)
for decimals in (1, -1):
    for dtype in ("float32", "int32"):
        add(
            "ops.round",
            lambda a, d=decimals: ops.round(a, d),
            number(dtype),
            label=f"{dtype}, decimals={decimals}",
        )
add("ops.nan_to_num", lambda a: ops.nan_to_num(a, 1.0, 2.0, 3.0), x(), label="values")
add("ops.full_like", lambda a: ops.full_like(a, 3), x())
add("ops.view", lambda a: ops.view(a, "int32"), x())
add("ops.view", lambda a: ops.view(a, "float32"), x(), label="same dtype")

# Pairs

each_pair(
    "add subtract multiply maximum minimum equal not_equal less less_equal greater greater_equal",
    (*NUMBERS, "int8", "float64", "uint32"),
)
each_pair("equal not_equal logical_and logical_or logical_xor multiply add", ("bool",))
each_pair("logical_and logical_or logical_xor", ("float32", "int32"))
each_pair("divide true_divide floor_divide mod", (*NUMBERS, "int8", "uint32"), second="nonzero")
each_pair("fmod", ("float32", "int32"), second="nonzero")
each_pair("divide_no_nan", ("float32", "int32"))
each_pair("fmax fmin heaviside isclose nextafter arctan2 hypot", ("float32", "int32"))
each_pair("logaddexp logaddexp2", ("float32", "float16"))
each_pair("bitwise_and bitwise_or bitwise_xor", INTEGERS)
each_pair("bitwise_left_shift bitwise_right_shift left_shift right_shift", INTEGERS, second="shift")
each_pair("gcd lcm", ("int32", "int64"))
each_pair("power", ("float32", "float16"), first="positive")
add("ops.power", ops.power, number("int32"), number("int32", "natural"), label="int32", hard=False)
add("ops.power", lambda a: ops.power(a, 2), number("int32"), label="square of int32")
add("ops.power", lambda a: ops.power(a, 3.0), x(), label="cube")
add("ops.power", lambda a: ops.power(a, 0.5), x(draw="positive"), label="root")
add("ops.ldexp", ops.ldexp, x(), number("int32"), hard=False)
add("ops.add", ops.add, number("int32"), x(), label="int32 and float32")
add("ops.add", ops.add, number("int32"), number("int64"), label="int32 and int64")
add("ops.add", ops.add, number("uint8"), number("int32"), label="uint8 and int32")
add("ops.multiply", lambda a: a * np.array([1, 2, 3, 4], "float32"), x(), label="array")
add(
    "ops.convert_to_tensor",
    lambda a: a * ops.convert_to_tensor(np.arange(4, dtype="float32")),
    x(),
    label="constant",
)
_TABLE = keras.ops.convert_to_tensor(np.arange(400, dtype="float32").reshape(100, 4))
add("ops.convert_to_tensor", lambda a: a * _TABLE[3], x(), label="captured constant")
add("ops.allclose", ops.allclose, x(), x())
add("ops.cross", ops.cross, x(shape=(None, 3)), x(shape=(None, 3)))
for dtype in (*NUMBERS, "bool", "int8", "float64"):
    add(
        "ops.where",
        ops.where,
        x("bool", "bool"),
        number(dtype),
        number(dtype),
        label=dtype,
    )
add("ops.where", lambda c, a: ops.where(c, a, -np.inf), x("bool", "bool"), x(), label="infinity")
add("ops.where", lambda c: ops.where(c), x("bool", "bool"), label="condition alone")
add("ops.nonzero", ops.nonzero, number("int32"))
add(
    "ops.select",
    lambda a: ops.select([a > 0.5, a < -0.5], [a, a * 2.0], default=7.0),
    x(),
)
for dtype in ("float32", "int32"):
    add(
        "ops.isin",
        lambda a: ops.isin(a, ops.cast(ops.convert_to_tensor([1, 2, 5]), a.dtype)),
        number(dtype),
        label=dtype,
    )
add("ops.einsum", lambda a, b: ops.einsum("btd,bsd->bts", a, b), x(), x())
add("ops.einsum", lambda a: ops.einsum("btd->bdt", a), x(), label="transpose")

# Reductions

for name in (
    "max min amax amin sum mean prod all any std var count_nonzero "
    "argmax argmin nanmax nanmin nansum nanmean nanprod nanstd nanvar nanargmax nanargmin "
    "logsumexp median nanmedian"
).split():
    function = of(name)
    kinds = ("bool", "float32", "int32") if name in ("all", "any") else ("float32", "int32")
    if name in ("max", "min", "sum", "argmax", "argmin", "mean", "prod"):
        kinds = (*NUMBERS, "float64", "int8")
    if name in ("logsumexp", "std", "var"):
        kinds = ("float32", "float16")
    for dtype in kinds:
        small = number(dtype, "unit")
        add(f"ops.{name}", lambda a, f=function: f(a, axis=-1), small, label=dtype)
    if name != "count_nonzero":  # has no argument `keepdims`
        add(f"ops.{name}", lambda a, f=function: f(a, axis=1, keepdims=True), x(), label="keepdims")
    if name not in ("argmax", "argmin", "nanargmax", "nanargmin", "median", "nanmedian"):
        add(f"ops.{name}", lambda a, f=function: f(a, axis=(1, 2)), x(), label="two axes")
    add(f"ops.{name}", function, x(), label="all axes")
add("ops.ptp", lambda a: ops.ptp(a, axis=1), x(), label="axis=1")
add("ops.average", lambda a: ops.average(a, axis=1), x())
add("ops.average", lambda a, w: ops.average(a, axis=1, weights=w), x(), x(), label="weights")
add("ops.moments", lambda a: ops.moments(a, axes=[1]), x())
add("ops.norm", lambda a: ops.norm(a, axis=-1), x())
for order in (1, 2, np.inf, 0, 3):
    add("ops.norm", lambda a, o=order: ops.norm(a, ord=o, axis=-1), x(), label=f"ord={order}")
for order in ("fro", "nuc", 1, 2):
    add("ops.norm", lambda a, o=order: ops.norm(a, ord=o, axis=(1, 2)), x(), label=f"{order} norm")
add("ops.normalize", lambda a: ops.normalize(a, axis=-1), x())
for name in ("quantile", "nanquantile"):
    function = of(name)
    for method in ("linear", "lower", "nearest"):
        add(
            f"ops.{name}",
            lambda a, f=function, m=method: f(a, 0.3, axis=1, method=m),
            x(),
            label=method,
        )
for name in ("percentile", "nanpercentile"):
    function = of(name)
    add(f"ops.{name}", lambda a, f=function: f(a, [25.0, 50.0], axis=-1), x())
for name in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
    function = of(name)
    for dtype in ("float32", "int32", "int64"):
        add(
            f"ops.{name}",
            lambda a, f=function: f(a, axis=1),
            number(dtype, "unit"),
            label=dtype,
        )
    add(f"ops.{name}", lambda a, f=function: f(a), x(draw="unit"), label="flat")
for name in ("segment_sum", "segment_max", "segment_min", "segment_prod"):
    function = of(name)
    for dtype in ("float32", "int32"):
        add(
            f"ops.{name}",
            lambda a, i, f=function: f(a, i, num_segments=5),
            number(dtype, shape=MATRIX),
            x("int32", "5 ids", (None,)),
            label=dtype,
        )
for dtype in ("int32", "int64"):
    add(
        "ops.bincount",
        lambda a: ops.bincount(a, minlength=5),
        x(dtype, "5 ids", MATRIX),
        label=dtype,
    )
add(
    "ops.bincount",
    lambda a, w: ops.bincount(a, weights=w, minlength=5),
    x("int32", "5 ids", MATRIX),
    x(shape=MATRIX),
    label="weights",
)
add("ops.histogram", lambda a: ops.histogram(a, bins=4, range=(-3, 3)), x(shape=(None,)))
add("ops.trapezoid", lambda a: ops.trapezoid(a, axis=1), x())
add("ops.corrcoef", ops.corrcoef, x(shape=(3, None)))
add("ops.correlate", lambda a, b: ops.correlate(a, b, mode="full"), x(shape=(None,)), x(shape=(3,)))
add("ops.psnr", lambda a, b: ops.psnr(a, b, max_val=1.0), x(draw="unit"), x(draw="unit"))

# Order

for dtype in NUMBERS:
    add("ops.sort", lambda a: ops.sort(a, axis=1), number(dtype), label=dtype)
    add("ops.argsort", lambda a: ops.argsort(a, axis=1), number(dtype), label=dtype)
    add("ops.top_k", lambda a: ops.top_k(a, 2), number(dtype), label=dtype)
add("ops.sort", lambda a: ops.sort(a), x("bool", "bool"), label="bool")
add("ops.argsort", ops.argsort, x("bool", "bool"), label="bool")
add("ops.argpartition", lambda a: ops.argpartition(a, 1), x(shape=(None,)))
add("ops.unique", lambda a: ops.unique(a), number("int32", shape=(None,)), label="dynamic size")
add("ops.unique", lambda a: ops.unique(a, size=6), number("int32", shape=(None,)), label="size")
add("ops.unique", lambda a: ops.unique(a, size=9), number("int32", shape=MATRIX), label="matrix")
add(
    "ops.in_top_k",
    lambda t, p: ops.in_top_k(t, p, 2),
    x("int32", "4 ids", (None,)),
    x(shape=MATRIX),
)
for side in ("left", "right"):
    add(
        "ops.searchsorted",
        lambda a, s=side: ops.searchsorted(ops.convert_to_tensor([-1.0, 0.0, 2.0]), a, side=s),
        x(shape=(None,)),
        label=side,
    )
for dtype in ("float32", "int32"):
    add(
        "ops.digitize",
        lambda a: ops.digitize(a, np.array([-1.0, 0.0, 2.0])),
        number(dtype),
        label=dtype,
    )
add("ops.unravel_index", lambda i: ops.unravel_index(i, (5, 4)), x("int32", "20 ids", MATRIX))

# Shapes

add("ops.append", lambda a, b: ops.append(a, b, axis=-1), x(), x())
add("ops.append", ops.append, x(), x(), label="flat")
add("ops.concatenate", lambda a, b: ops.concatenate([a, b], axis=1), x(), x())
add("ops.concatenate", lambda a, b: ops.concatenate([a, b], 1), number("int32"), x(), label="mixed")
add("ops.stack", lambda a, b: ops.stack([a, b], axis=1), x(), x())
for name in ("hstack", "vstack", "dstack"):
    function = of(name)
    add(f"ops.{name}", lambda a, b, f=function: f([a, b]), x(shape=MATRIX), x(shape=MATRIX))
add("ops.array_split", lambda a: ops.array_split(a, 3, axis=-1), x())
add("ops.split", lambda a: ops.split(a, 2, axis=-1), x())
add("ops.split", lambda a: ops.split(a, [1, 3], axis=-1), x(), label="indices")
add("ops.split", lambda a: ops.split(a, [2], axis=1), x(), label="dynamic axis")
add("ops.hsplit", lambda a: ops.hsplit(a, [1]), x())
add("ops.vsplit", lambda a: ops.vsplit(a, [1]), x())
add("ops.dsplit", lambda a: ops.dsplit(a, 2), x())
add("ops.unstack", lambda a: ops.unstack(a, axis=-1), x())
add("ops.broadcast_to", lambda a: ops.broadcast_to(a, (5, 3, 4)), x(shape=(3, 4)))
add("ops.expand_dims", lambda a: ops.expand_dims(a, 1), x())
add("ops.squeeze", lambda a: ops.squeeze(a, 1), x(shape=(None, 1, 4)))
add("ops.reshape", lambda a: ops.reshape(a, (-1, 2, 2)), x())
add("ops.reshape", lambda a: ops.reshape(a, (ops.shape(a)[0], -1)), x(), label="dynamic")
add("ops.transpose", lambda a: ops.transpose(a, (2, 0, 1)), x())
add("ops.transpose", ops.transpose, x("bool", "bool"), label="bool")
add("ops.swapaxes", lambda a: ops.swapaxes(a, 1, 2), x())
add("ops.moveaxis", lambda a: ops.moveaxis(a, 1, 2), x())
add("ops.rearrange", lambda a: ops.rearrange(a, "b t (h d) -> b h t d", h=2), x())
for name in ("flip", "fliplr", "flipud"):
    add(f"ops.{name}", of(name), x())
add("ops.flip", lambda a: ops.flip(a, axis=1), number("int32"), label="axis of int32")
add("ops.rot90", lambda a: ops.rot90(a, k=1), x())
add("ops.rot90", lambda a: ops.rot90(a, k=2, axes=(1, 2)), x(), label="axes")
for shift in (2, -1):
    add("ops.roll", lambda a, s=shift: ops.roll(a, s, axis=1), x(), label=f"shift={shift}")
add("ops.roll", lambda a: ops.roll(a, 3), x(), label="flat")
add("ops.repeat", lambda a: ops.repeat(a, 3, axis=1), x())
add("ops.repeat", lambda a: ops.repeat(a, [1, 2, 0, 3], axis=-1), x(), label="counts")
add("ops.tile", lambda a: ops.tile(a, (1, 2, 3)), x())
for mode in ("constant", "reflect", "symmetric", "edge"):
    if mode != "edge":
        add("ops.pad", lambda a, m=mode: ops.pad(a, ((0, 0), (1, 1), (2, 1)), m), x(), label=mode)
add("ops.pad", lambda a: ops.pad(a, ((0, 0), (1, 2), (0, 0))), number("int32"), label="int32")
add(
    "ops.pad",
    lambda a: ops.pad(a, ((0, 0), (0, 0), (4, 4)), "symmetric"),
    x(),
    label="symmetric, widest",
)
add(
    "ops.pad",
    lambda a: ops.pad(a, ((0, 0), (2, 1), (0, 1)), "symmetric"),
    number("int32"),
    label="symmetric int32",
)
add("ops.tril", ops.tril, x())
add("ops.triu", lambda a: ops.triu(a, 1), x())
add("ops.tril", lambda a: ops.tril(a, -1), number("int32"), label="int32")
add("ops.diag", ops.diag, x(shape=(4,)))
add("ops.diag", ops.diag, x(shape=(None,)), label="dynamic")
add("ops.diag", ops.diag, x(shape=(4, 4)), label="of a matrix")
add("ops.diagflat", ops.diagflat, x(shape=(3, 2)))
add("ops.diagonal", lambda a: ops.diagonal(a, axis1=1, axis2=2), x(shape=(None, 4, 4)))
add("ops.diagonal", lambda a: ops.diagonal(a, 1, 1, 2), x(shape=(None, 4, 5)), label="offset")
add("ops.trace", lambda a: ops.trace(a, axis1=1, axis2=2), x(shape=(None, 4, 4)))
add("ops.diff", lambda a: ops.diff(a, axis=1), x())
add("ops.meshgrid", ops.meshgrid, x(shape=(None,)), x(shape=(3,)))
add("ops.slice", lambda a: ops.slice(a, (0, 1, 1), (1, 2, 3)), x())
add("ops.get_item", lambda a: ops.get_item(a, (slice(None), -1)), x())
add("ops.get_item", lambda a: a[:, ::2, ::-1], x(), label="steps")
add("ops.slice_update", lambda a, u: ops.slice_update(a, (0, 1, 1), u), x(), x(shape=(1, 1, 2)))
add(
    "ops.slice_update",
    lambda a, u: ops.slice_update(a, (0, ops.shape(a)[1] - 1, 0), u),
    x(),
    x(shape=(1, 1, 4)),
    label="dynamic",
)
for axis in (None, 1):
    add(
        "ops.take",
        lambda a, i, n=axis: ops.take(a, i, axis=n),
        x(),
        x("int32", "2 ids", MATRIX),
        label=f"axis={axis}",
    )
add("ops.take", lambda a: ops.take(a, [-1, 0], axis=1), x(), label="negative")
add(
    "ops.take",
    lambda a, i: ops.take(a, i, axis=1),
    number("int32"),
    x("int64", "2 ids", (3,)),
    label="int64 indices",
)
add(
    "ops.take_along_axis",
    lambda a, i: ops.take_along_axis(a, i, axis=-1),
    x(),
    x("int32", "4 ids"),
)
add(
    "ops.take_along_axis",
    lambda a: ops.take_along_axis(a, ops.argsort(a, 1), 1),
    number("int32"),
    label="int32",
)
add(
    "ops.scatter",
    lambda i, v: ops.scatter(i, v, (6, 4)),
    x("int32", "distinct", (3, 1)),
    x(shape=(3, 4)),
)
add(
    "ops.scatter",
    lambda i, v: ops.scatter(i, v, (6, 4)),
    x("int32", "5 ids", (3, 1)),
    x(shape=(3, 4)),
    label="repeated",
)
for reduction in (None, "add", "max", "min", "mul"):
    add(
        "ops.scatter_update",
        lambda a, i, u, r=reduction: ops.scatter_update(a, i, u, reduction=r),
        x(shape=(6, 4)),
        x("int32", "distinct" if reduction is None else "5 ids", (3, 1)),
        x(shape=(3, 4)),
        label=f"reduction={reduction}",
    )
for dtype in ("int32", "int64", "uint8"):
    add("ops.one_hot", lambda i: ops.one_hot(i, 5), x(dtype, "7 ids", MATRIX), label=dtype)
add(
    "ops.one_hot",
    lambda i: ops.one_hot(i - 1, 5),
    x("int32", "7 ids", MATRIX),
    label="negative ids",
)
add("ops.one_hot", lambda i: ops.one_hot(i, 5, axis=1), x("int32", "5 ids", MATRIX), label="axis=1")
add(
    "ops.one_hot",
    lambda i: ops.one_hot(i, 5, dtype="int32"),
    x("int32", "5 ids", MATRIX),
    label="to int32",
)
add("ops.multi_hot", lambda i: ops.multi_hot(i, 5), x("int32", "5 ids", MATRIX))
add("ops.extract_sequences", lambda a: ops.extract_sequences(a, 3, 2), x(shape=(None, 9)))
image = (None, 6, 6, 4)
add("ops.depth_to_space", lambda a: ops.depth_to_space(a, 2), x(shape=image))
add("ops.space_to_depth", lambda a: ops.space_to_depth(a, 2), x(shape=image))
add("ops.unfold", lambda a: ops.unfold(a, 2), x(shape=(None, 3, 6, 6)))
add("ops.fold", lambda a: ops.fold(a, (5, 5), 2, stride=1), x(shape=(None, 12, 16)))
for name in ("shape", "size"):
    function = of(name)
    add(
        f"ops.{name}",
        lambda a, f=function: ops.zeros_like(a) + ops.cast(ops.sum(f(a)), a.dtype),
        x(),
    )
add("ops.ndim", lambda a: a * float(ops.ndim(a)), x())

# Creation

add("ops.arange", lambda a: a + ops.arange(4, dtype="float32"), x())
add("ops.arange", lambda a: ops.arange(ops.shape(a)[1]), x(), label="dynamic")
add("ops.arange", lambda a: ops.arange(0, ops.shape(a)[1], 2), x(), label="dynamic step")
add("ops.array", lambda a: a + ops.array([1.0, 2.0, 3.0, 4.0]), x())
for name in ("zeros", "ones", "empty"):
    function = of(name)
    add(f"ops.{name}", lambda a, f=function: a + 0 * ops.nan_to_num(f((4,))), x())
add("ops.zeros", lambda a: ops.zeros((ops.shape(a)[0], 3)), x(), label="dynamic")
add("ops.ones", lambda a: ops.ones((ops.shape(a)[0], 3), "int32"), x(), label="dynamic int32")
add("ops.full", lambda a: ops.full((ops.shape(a)[1], 2), 7), x())
add("ops.eye", lambda a: a + ops.eye(4)[1], x())
add("ops.eye", lambda a: ops.eye(ops.shape(a)[1]), x(), label="dynamic")
add("ops.identity", lambda a: a + ops.identity(4)[1], x())
add("ops.tri", lambda a: a + ops.tri(4)[1], x())
add("ops.tri", lambda a: ops.tri(ops.shape(a)[1]), x(), label="dynamic")
add("ops.linspace", lambda a: a + ops.linspace(0.0, 1.0, 4), x())
add("ops.linspace", lambda a: ops.linspace(a, a + 1.0, 5, axis=-1), x(), label="of tensors")
add("ops.logspace", lambda a: a + ops.logspace(0.0, 1.0, 4), x())
add("ops.logspace", lambda a: ops.logspace(a, a + 1.0, 5), x(draw="unit"), label="of tensors")
add("ops.geomspace", lambda a: a + ops.geomspace(1.0, 8.0, 4), x())
add("ops.geomspace", lambda a: ops.geomspace(a, a + 1.0, 5), x(draw="positive"), label="of tensors")
for name in ("bartlett", "blackman", "hamming", "hanning"):
    function = of(name)
    add(f"ops.{name}", lambda a, f=function: a + ops.cast(f(4), "float32"), x())
add("ops.kaiser", lambda a: a + ops.cast(ops.kaiser(4, 2.0), "float32"), x())
add("ops.vander", lambda a: ops.vander(a, 3), x(shape=(None,)))

# Products and linear algebra

for dtype in ("float32", "int32", "float16"):
    pair = number(dtype), number(dtype, shape=(None, 4, None))
    add("ops.matmul", ops.matmul, *pair, label=dtype)
add(
    "ops.matmul", ops.matmul, number("uint8"), number("uint8", shape=(None, 4, None)), label="uint8"
)
add("ops.matmul", ops.matmul, number("int8"), number("int8", shape=(None, 4, None)), label="int8")
add("ops.dot", ops.dot, x(), x(shape=(4, 3)))
add("ops.inner", ops.inner, x(), x(shape=(3, 4)))
add("ops.outer", ops.outer, x(shape=(None,)), x(shape=(3,)))
add("ops.kron", ops.kron, x(shape=(2, 3)), x(shape=(3, 2)))
add("ops.tensordot", lambda a, b: ops.tensordot(a, b, axes=[[2], [0]]), x(), x(shape=(4, 3)))
add("ops.vdot", ops.vdot, x(shape=(5,)), x(shape=(5,)))
add("ops.cdist", ops.cdist, x(shape=MATRIX), x(shape=(3, 4)))
SQUARE = (None, 3, 3)


def definite(a):
    return ops.matmul(a, ops.swapaxes(a, -1, -2)) + 4 * ops.eye(3)


for name in (
    "cholesky",
    "det",
    "inv",
    "eigh",
    "slogdet",
    "logdet",
    "lu_factor",
    "pinv",
    "cholesky_inverse",
    "matrix_rank",
):
    function = of(name)
    add(f"ops.{name}", lambda a, f=function: f(definite(a)), x(shape=SQUARE), hard=False)
for name in ("eig", "qr", "svd"):
    add(f"ops.{name}", of(name), x(shape=SQUARE), hard=False)
add(
    "ops.solve",
    lambda a, b: ops.solve(definite(a), b),
    x(shape=SQUARE),
    x(shape=(None, 3, 2)),
    hard=False,
)
add("ops.lstsq", ops.lstsq, x(shape=(5, 3)), x(shape=(5, 2)), hard=False)
add(
    "ops.solve_triangular",
    lambda a, b: ops.solve_triangular(definite(a), b, lower=True),
    x(shape=SQUARE),
    x(shape=(None, 3, 2)),
    hard=False,
)

# Neural networks

for name in ("average_pool", "max_pool"):
    function = of(name)
    for padding in ("valid", "same"):
        add(
            f"ops.{name}",
            lambda a, f=function, p=padding: f(a, 3, 2, p),
            x(shape=image),
            label=padding,
        )
for name in ("adaptive_average_pool", "adaptive_max_pool"):
    function = of(name)
    for size in (3, 4):
        add(
            f"ops.{name}",
            lambda a, f=function, s=size: f(a, s),
            x(shape=image),
            label=f"{size} of 6",
        )


def kernel(*shape):
    return np.random.default_rng(1).normal(size=shape).astype("float32")


for padding in ("valid", "same"):
    add(
        "ops.conv",
        lambda a, p=padding: ops.conv(a, kernel(3, 3, 4, 5), 2, p),
        x(shape=image),
        label=padding,
        hard=False,
    )
    add(
        "ops.conv",
        lambda a, p=padding: ops.conv(a, kernel(3, 4, 5), 1, p, dilation_rate=2),
        x(shape=(None, 9, 4)),
        label=f"{padding}, dilated",
        hard=False,
    )
    add(
        "ops.conv_transpose",
        lambda a, p=padding: ops.conv_transpose(a, kernel(3, 3, 5, 4), 2, p),
        x(shape=image),
        label=padding,
        hard=False,
    )
    add(
        "ops.depthwise_conv",
        lambda a, p=padding: ops.depthwise_conv(a, kernel(3, 3, 4, 2), 1, p),
        x(shape=image),
        label=padding,
        hard=False,
    )
    add(
        "ops.separable_conv",
        lambda a, p=padding: ops.separable_conv(a, kernel(3, 3, 4, 2), kernel(1, 1, 8, 3), 1, p),
        x(shape=image),
        label=padding,
        hard=False,
    )
add(
    "ops.conv",
    lambda a: ops.conv(a, kernel(3, 2, 6)),
    x(shape=SEQUENCE),
    label="groups, dynamic",
    hard=False,
)
add(
    "ops.batch_normalization",
    lambda a: ops.batch_normalization(a, np.ones(4, "f"), np.full(4, 2, "f"), -1),
    x(),
)
add(
    "ops.layer_normalization",
    lambda a: ops.layer_normalization(a, np.ones(4, "f"), np.ones(4, "f")),
    x(),
)
add("ops.rms_normalization", lambda a: ops.rms_normalization(a, np.ones(4, "f")), x())
add(
    "ops.binary_crossentropy",
    lambda a, b: ops.binary_crossentropy(ops.sigmoid(a), ops.sigmoid(b)),
    x(),
    x(),
)
add(
    "ops.binary_crossentropy",
    lambda a, b: ops.binary_crossentropy(ops.sigmoid(a), b, from_logits=True),
    x(),
    x(),
    label="logits",
)
for logits in (False, True):
    add(
        "ops.categorical_crossentropy",
        lambda a, b, g=logits: ops.categorical_crossentropy(
            ops.softmax(a), b if g else ops.softmax(b), from_logits=g
        ),
        x(),
        x(),
        label="logits" if logits else "",
    )
    add(
        "ops.sparse_categorical_crossentropy",
        lambda a, b, g=logits: ops.sparse_categorical_crossentropy(
            a, b if g else ops.softmax(b), from_logits=g
        ),
        x("int32", "4 ids", (None,)),
        x(shape=MATRIX),
        label="logits" if logits else "",
    )
heads = (None, None, 2, 4)
for causal in (False, True):
    add(
        "ops.dot_product_attention",
        lambda a, b, c=causal: ops.dot_product_attention(a, b, b, is_causal=c),
        x(shape=heads),
        x(shape=heads),
        label="causal" if causal else "",
        hard=False,
    )
add(
    "ops.ctc_decode",
    lambda a: ops.ctc_decode(a, ops.full((ops.shape(a)[0],), ops.shape(a)[1]))[0],
    x(),
    hard=False,
)
add(
    "ops.ctc_decode",
    lambda a: ops.ctc_decode(a, ops.full((ops.shape(a)[0],), ops.shape(a)[1]), mask_index=3)[0],
    x(),
    label="last class",
    hard=False,
)
add(
    "ops.ctc_loss",
    lambda a, t: ops.ctc_loss(
        t,
        ops.pad(a, ((0, 0), (4, 0), (0, 0))),
        ops.full((ops.shape(a)[0],), 2),
        ops.full((ops.shape(a)[0],), 4),
        mask_index=0,
    ),
    x(),
    x("int32", "3 ids", (None, 2)),
    hard=False,
)

# Signals

add("ops.fft", lambda a: ops.fft((a, ops.zeros_like(a))), x(), hard=False)
add("ops.fft2", lambda a: ops.fft2((a, ops.zeros_like(a))), x(), hard=False)
add("ops.ifft2", lambda a: ops.ifft2((a, ops.zeros_like(a))), x(), hard=False)
add("ops.rfft", ops.rfft, x(), hard=False)
add("ops.rfft", lambda a: ops.rfft(a, fft_length=8), x(shape=(None, 8)), label="length", hard=False)
add("ops.irfft", lambda a: ops.irfft((a, ops.zeros_like(a))), x(), hard=False)
add("ops.stft", lambda a: ops.stft(a, 4, 2, 4), x(shape=(None, 12)), hard=False)
add(
    "ops.istft", lambda a: ops.istft(ops.stft(a, 4, 2, 4), 4, 2, 4), x(shape=(None, 12)), hard=False
)
add("ops.view_as_complex", lambda a: ops.real(ops.view_as_complex(a)), x(shape=(None, 3, 2)))
add("ops.view_as_real", lambda a: ops.view_as_real(ops.view_as_complex(a)), x(shape=(None, 3, 2)))
add("ops.polar", lambda a, b: ops.real(ops.polar(a, b)), x(draw="positive"), x())

# Control flow

add("ops.cond", lambda a: ops.cond(ops.sum(a) > 0, lambda: a * 2.0, lambda: a - 1.0), x())
add(
    "ops.switch",
    lambda a: ops.switch(ops.shape(a)[1] % 3, [lambda v: v, lambda v: v * 2.0, lambda v: -v], a),
    x(),
)
add(
    "ops.while_loop",
    lambda a: ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2.0), (0, a))[1],
    x(),
)
add(
    "ops.while_loop",
    lambda a: ops.while_loop(
        lambda v: ops.sum(ops.abs(v)) < 1e3, lambda v: (v * 2.0,), (a,), maximum_iterations=30
    )[0],
    x(),
    label="by value",
    hard=False,
)
add("ops.fori_loop", lambda a: ops.fori_loop(0, 3, lambda i, v: v + 1.0, a), x())
add(
    "ops.fori_loop",
    lambda a: ops.fori_loop(0, ops.shape(a)[1], lambda i, v: v + 1.0, a),
    x(),
    label="dynamic",
)
add("ops.map", lambda a: ops.map(lambda row: row * 2.0, a), x())
add("ops.vectorized_map", lambda a: ops.vectorized_map(lambda row: row * 2.0, a), x())
add("ops.vectorize", lambda a: ops.vectorize(lambda row: row * 2.0)(a), x())
add("ops.scan", lambda a: ops.scan(lambda c, v: (c + v, c), ops.zeros((4,)), a), x(shape=(5, 4)))
add(
    "ops.scan",
    lambda a: ops.scan(lambda c, v: (c + v, c), ops.zeros((4,)), a),
    x(shape=MATRIX),
    label="dynamic",
)
add(
    "ops.associative_scan",
    lambda a: ops.associative_scan(ops.add, a, axis=1),
    x(shape=(None, 5, 4)),
)
add(
    "ops.custom_gradient",
    lambda a: ops.custom_gradient(lambda v: (v * 2.0, lambda *_, upstream: upstream))(a),
    x(),
)
add("ops.jvp", lambda a: ops.jvp(ops.sin, (a,), (a,))[0], x())

NOT_IN_A_MODEL = {
    "ops.convert_to_numpy": "returns a NumPy array, outside of the graph",
    "ops.dtype": "a string",
    "ops.is_tensor": "a Python bool",
    "layers.FlaxLayer": "JAX only",
    "layers.JaxLayer": "JAX only",
    "layers.TorchModuleWrapper": "PyTorch only",
    "layers.TFSMLayer": "needs a SavedModel; its function is the graph that is exported",
    "layers.Layer": "base class",
    "layers.Wrapper": "base class",
    "layers.InputLayer": "created by `keras.Input`",
    "layers.InputSpec": "not a layer",
    "layers.GRUCell": "inside `RNN`",
    "layers.LSTMCell": "inside `RNN`",
    "layers.SimpleRNNCell": "inside `RNN`",
    "layers.StackedRNNCells": "inside `RNN`",
}
