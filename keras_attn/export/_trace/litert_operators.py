"""Operators that LiteRT lacks or computes wrongly at some values, expressed by other operators.

`tests/export/sweep_special_values.py` finds these values. The operators are replaced in the
SavedModel that TensorFlow's converter reads, so the functions of Keras, of TensorFlow and of custom
layers are all covered, inside of loops too.
"""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from keras_attn._backend.private_names import read_saved_model

if TYPE_CHECKING:
    import tensorflow as tf

SIGN_BIT = -(2**31)


Inputs: TypeAlias = "Sequence[tf.compat.v1.NodeDef | None]"
"""Nodes of the inputs of a node. `None` for an argument of the graph."""

Readers: TypeAlias = "Sequence[tuple[tf.compat.v1.NodeDef, Inputs]]"
"""Nodes that read the result of a node, each with the nodes of its inputs."""


class FunctionDef(Protocol):
    """Protobuf message of a function in a SavedModel."""

    node_def: "Sequence[tf.compat.v1.NodeDef]"
    signature: Any
    ret: dict[str, str]


class Form(NamedTuple):
    """Other operators that express an operator.

    Attributes:
        function: Function of the inputs that returns the result.
        dtypes: Names of the dtypes of the first input for which the operator is replaced.
        applies: Function of `Inputs` and `Readers` that returns whether to replace a node.
    """

    function: "Callable[..., tf.Tensor]"
    dtypes: tuple[str, ...]
    applies: Callable[[Inputs, Readers], bool] = lambda inputs, readers: True


def _softplus(x: "tf.Tensor") -> "tf.Tensor":
    """Computes `log(1 + exp(x))`, where LiteRT's `exp(x)` would be infinite above 88."""
    import tensorflow as tf

    rest = _log1p(tf.exp(-tf.abs(x)))
    return tf.where(tf.math.is_nan(x), x, tf.maximum(x, 0) + rest)


def _log1p(x: "tf.Tensor") -> "tf.Tensor":
    """Computes `log(1 + x)`. LiteRT's own operator rounds `1 + x`, and its `log` is inexact near 1.

    For a small x, log(1 + x) = 2 artanh(s) with s = x / (2 + x), which is a series of odd powers.
    """
    import tensorflow as tf

    ratio = x / (2 + x)
    square = ratio * ratio
    series = 1 + square * (1 / 3 + square * (1 / 5 + square * (1 / 7)))
    return tf.where(tf.abs(x) < 0.25, 2 * ratio * series, tf.math.log(1 + x))


def _expm1(x: "tf.Tensor") -> "tf.Tensor":
    """Computes `exp(x) - 1 = tanh(x / 2) (exp(x) + 1)`, which is also exact for a small `x`."""
    import tensorflow as tf

    return tf.tanh(x / 2) * (tf.exp(x) + 1)


def _rsqrt(x: "tf.Tensor") -> "tf.Tensor":
    """LiteRT's own operator returns NaN for 0; the converter restores it from `1 / sqrt(x)`."""
    import tensorflow as tf

    return tf.sqrt(1 / x)


def _floor_divide(x: "tf.Tensor", y: "tf.Tensor") -> "tf.Tensor":
    """LiteRT's own operator ends the call for a divisor of 0."""
    import tensorflow as tf

    return tf.floor(x / y)


def _modulo(x: "tf.Tensor", y: "tf.Tensor") -> "tf.Tensor":
    """LiteRT's own operator ends the process for the smallest integer modulo -1."""
    import tensorflow as tf

    is_unit = tf.equal(y, -1)
    divisor = tf.where(is_unit, tf.ones_like(y), y)
    return tf.where(is_unit, tf.zeros_like(x), tf.math.floormod(x, divisor))


def _equal(x: "tf.Tensor", y: "tf.Tensor") -> "tf.Tensor":
    """LiteRT's own comparison of bytes ends the process."""
    import tensorflow as tf

    return tf.equal(tf.cast(x, "int32"), tf.cast(y, "int32"))


def _sign_bits(x: "tf.Tensor") -> "tf.Tensor":
    """Returns an integer with the sign bit of a float. The other bits are 0."""
    import tensorflow as tf

    is_below = (x < 0) | (tf.equal(x, 0) & (1 / x < 0))
    return tf.where(is_below, SIGN_BIT, 0)


def _sign_bit_of_integer(x: "tf.Tensor", mask: "tf.Tensor") -> "tf.Tensor":
    """Computes `x & mask` for a mask with the sign bit alone. LiteRT has no `BitwiseAnd`."""
    import tensorflow as tf

    return tf.where(x < 0, SIGN_BIT, 0)


def _constant(node: "tf.compat.v1.NodeDef | None") -> float | None:
    """Returns the value of a node that is a constant of one element, otherwise `None`."""
    import tensorflow as tf

    if node is None or node.op != "Const":
        return None
    value = tf.make_ndarray(node.attr["value"].tensor)
    return value.item() if value.size == 1 else None


def _selects_sign(inputs: Inputs, readers: Readers) -> bool:
    return _constant(inputs[1]) == SIGN_BIT


def _has_sign_read(inputs: Inputs, readers: Readers) -> bool:
    """Returns whether all readers of the bits of a float only read the sign."""
    return bool(readers) and all(
        reader.op == "BitwiseAnd" and _selects_sign(inputs, ()) for reader, inputs in readers
    )


def _may_be_minus_one(inputs: Inputs, readers: Readers) -> bool:
    return _constant(inputs[1]) in (None, -1)


def _may_be_zero(inputs: Inputs, readers: Readers) -> bool:
    """Returns whether the input may be 0, unlike a variance with an epsilon."""
    is_sum = inputs[0] is not None and inputs[0].op in ("Add", "AddV2")
    return not is_sum


FLOATS = ("float16", "float32")
FORMS = {
    "BitwiseAnd": [Form(_sign_bit_of_integer, ("int32",), _selects_sign)],
    "Bitcast": [Form(_sign_bits, ("float32",), _has_sign_read)],
    "Equal": [Form(_equal, ("uint8",))],
    "NotEqual": [Form(lambda x, y: ~_equal(x, y), ("uint8",))],
    "Expm1": [Form(_expm1, FLOATS)],
    "FloorDiv": [Form(_floor_divide, FLOATS)],
    "FloorMod": [Form(_modulo, ("int32", "int64"), _may_be_minus_one)],
    "Log1p": [Form(_log1p, FLOATS)],
    "Rsqrt": [Form(_rsqrt, FLOATS, _may_be_zero)],
    "Softplus": [Form(_softplus, FLOATS)],
}
"""Dict from the name of a TensorFlow operator to its `Form`s for several dtypes."""


def replace_operators(directory: str) -> None:
    """Replaces the operators of a SavedModel that LiteRT lacks or computes wrongly.

    Args:
        directory: Directory of the SavedModel, which is changed in place.
    """
    path = Path(directory) / "saved_model.pb"
    saved_model = read_saved_model(path.read_bytes())
    for meta_graph in saved_model.meta_graphs:
        library = meta_graph.graph_def.library
        added = {}
        for function in library.function:
            _replace_in(function, added)
        library.function.extend(added.values())
    path.write_bytes(saved_model.SerializeToString())


def _replace_in(function: FunctionDef, added: dict[str, FunctionDef]) -> None:
    """Replaces the operators of a `FunctionDef` by calls of functions, which are put in `added`."""
    import tensorflow as tf

    nodes = {node.name: node for node in function.node_def}
    inputs = {
        name: [nodes.get(_source(edge)) for edge in node.input] for name, node in nodes.items()
    }
    replaced = []
    for name, node in nodes.items():
        if node.op not in FORMS or not node.attr["T"].type:
            continue
        dtype = tf.dtypes.as_dtype(node.attr["T"].type)
        readers = [
            (reader, inputs[reader.name])
            for reader in function.node_def
            if any(_source(edge) == name for edge in reader.input)
        ]
        for form in FORMS[node.op]:
            if dtype.name in form.dtypes and form.applies(inputs[name], readers):
                replaced.append((node, form, dtype))
    for node, form, dtype in replaced:
        key = f"keras_attn_{node.op}_{dtype.name}"
        if key not in added:
            added[key] = _definition(key, form.function, [dtype] * len(node.input))
        _call(node, added[key])
        _rename_results(function, node.name)


def _definition(
    name: str, function: "Callable[..., tf.Tensor]", dtypes: "Sequence[tf.DType]"
) -> FunctionDef:
    """Returns the `FunctionDef` of a function of tensors of any shape."""
    import tensorflow as tf

    specs = [tf.TensorSpec(None, dtype) for dtype in dtypes]
    traced = tf.function(function, input_signature=specs, autograph=False)
    definition = traced.get_concrete_function().function_def
    definition.signature.name = name
    return definition


def _call(node: "tf.compat.v1.NodeDef", definition: FunctionDef) -> None:
    """Turns a `NodeDef` into a call of a function, with the same inputs and shapes."""
    shapes = copy.deepcopy(node.attr["_output_shapes"])
    node.op = "PartitionedCall"
    node.attr.clear()
    node.attr["_output_shapes"].CopyFrom(shapes)
    node.attr["f"].func.name = definition.signature.name
    node.attr["Tin"].list.type.extend(item.type for item in definition.signature.input_arg)
    node.attr["Tout"].list.type.extend(item.type for item in definition.signature.output_arg)


def _source(reference: str) -> str:
    """Returns the name of the node of a reference, such as `node:y:0` or `^node`."""
    return reference.lstrip("^").split(":")[0]


def _rename_results(function: FunctionDef, name: str) -> None:
    """Renames the references to the only result of a node that is now a call."""
    called = f"{name}:output:0"
    for node in function.node_def:
        for index, reference in enumerate(node.input):
            if ":" in reference and _source(reference) == name:
                node.input[index] = called
    for key, reference in function.ret.items():
        if _source(reference) == name and ":" in reference:
            function.ret[key] = called
