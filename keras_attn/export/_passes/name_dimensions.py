from typing import TYPE_CHECKING

from keras_attn.export._passes.graph import nested_graphs
from keras_attn.export._types import Dimensions

if TYPE_CHECKING:
    import onnx


def name_dimensions(model: "onnx.ModelProto", dimensions: Dimensions) -> None:
    """Names the dynamic dimensions of inputs and outputs.

    tf2onnx names every unknown dimension `unk__` with a number. This pass gives the dimensions of
    inputs and outputs their documented names, and removes the names of all other dimensions.

    Args:
        model: `onnx.ModelProto`; changed in place.
        dimensions: Dict from the names of inputs and outputs to tuples with one entry for each
            axis: the name of a dynamic dimension, or an int.

    Raises:
        ValueError: If an input or output is not in `dimensions`, or has another number of axes.
    """

    for graph in nested_graphs(model.graph):
        del graph.value_info[:]
        if graph is model.graph:
            continue
        for value in [*graph.input, *graph.output]:
            for dimension in value.type.tensor_type.shape.dim:
                if dimension.dim_param:
                    dimension.Clear()
    for value in [*model.graph.input, *model.graph.output]:
        axes = dimensions.get(value.name)
        shape = value.type.tensor_type.shape
        rank = len(shape.dim) if value.type.tensor_type.HasField("shape") else None
        if axes is None or rank not in (len(axes), None):
            raise ValueError(
                f"Expected the dimensions of {value.name!r}, which has {rank} axes. "
                f"Received: dimensions={dimensions}."
            )
        del shape.dim[:]
        # Declares a shape without axes for a scalar, which otherwise would have no shape.
        value.type.tensor_type.shape.SetInParent()
        for axis in axes:
            dimension = shape.dim.add()
            if isinstance(axis, str):
                dimension.dim_param = axis
            else:
                dimension.dim_value = axis
