"""Conversions of TensorFlow operators that tf2onnx lacks or gets wrong.

Each is a function `(graph, node, name, args)` that changes a graph of tf2onnx, as its argument
`custom_op_handlers` wants it.
"""

from keras_attn.export.trace.operators import functions, integers, ordering, selection

HANDLERS = {
    **functions.HANDLERS,
    **integers.HANDLERS,
    **ordering.HANDLERS,
    **selection.HANDLERS,
}
"""Dictionary from the name of a TensorFlow operator to `(function, [])`."""
