from collections.abc import Callable
from typing import TYPE_CHECKING

from keras_attn.export._passes import (
    emulate_float16,
    half_precision,
    int4_weights,
    int8_weights,
    int8_weights_of_rows,
)
from keras_attn.export._passes.graph import copy_of
from keras_attn.export._passes.weights_size import LIMIT, weights_size
from keras_attn_checks.export_options import OnnxPrecision

if TYPE_CHECKING:
    import onnx

PRECISIONS: dict[OnnxPrecision, tuple[Callable[["onnx.ModelProto"], None], ...]] = {
    "float32": (),
    "float16": (half_precision, emulate_float16),
    "int8": (int8_weights,),
    "int8-rows": (int8_weights_of_rows,),
    "int4": (int4_weights,),
}
"""Maps a precision to its passes. The first pass converts the model. The second pass, if any,
emulates the precision on a CPU."""


def lower_precisions(model: "onnx.ModelProto", precision: OnnxPrecision) -> "list[onnx.ModelProto]":
    """Converts a float32 model to another precision.

    Args:
        model: `onnx.ModelProto`; not changed.
        precision: String, a key of `PRECISIONS`.

    Returns:
        List of `onnx.ModelProto`, empty for float32. The first model is the one to write. The
        second model, if any, emulates the precision on a CPU.
    """
    forms = [model]
    for change in PRECISIONS[precision]:
        form = copy_of(forms[-1])
        change(form)
        forms.append(_without_garbage(form))
    return forms[1:]


def _without_garbage(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Returns the same model in new memory, because protobuf keeps the memory of deleted tensors.

    A model that is too large for one message is returned unchanged.
    """
    if weights_size(model) > LIMIT:
        return model
    return type(model).FromString(model.SerializeToString())
