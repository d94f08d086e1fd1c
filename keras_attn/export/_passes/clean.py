from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from keras_attn.export._passes import PASSES, name_dimensions
from keras_attn.export._types import Dimensions, Metadata

if TYPE_CHECKING:
    import onnx

OPSET = 18
"""The newest opset that tf2onnx writes, and the newest for which ONNX Runtime has CUDA kernels of
Loop, TopK and LSTM."""


def clean(
    model: "onnx.ModelProto",
    dimensions: Dimensions,
    metadata: Metadata,
    passes: "Sequence[Callable[[onnx.ModelProto], None]]" = PASSES,
) -> None:
    """Runs the passes over a converted model, and sets its dimensions, opset and metadata.

    Args:
        model: `onnx.ModelProto`; changed in place.
        dimensions: Names of the dynamic dimensions, see `name_dimensions`.
        metadata: Dict of strings.
        passes: Passes without further arguments. Defaults to `PASSES`.
    """
    from onnx import helper

    for change in passes:
        change(model)
    name_dimensions(model, dimensions)
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", OPSET))
    helper.set_model_props(model, metadata)
