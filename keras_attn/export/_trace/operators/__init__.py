"""Conversions of TensorFlow operators that tf2onnx lacks or converts wrongly.

Each conversion is a function `(graph, node, name, args)` that replaces a node of a tf2onnx graph.
See the argument `custom_op_handlers` of tf2onnx.
"""

from keras_attn.export._trace.operators import integers, math_functions, ordering, selection

HANDLERS = {
    **math_functions.HANDLERS,
    **integers.HANDLERS,
    **ordering.HANDLERS,
    **selection.HANDLERS,
}
"""Dictionary from the name of a TensorFlow operator to `(function, [])`."""
