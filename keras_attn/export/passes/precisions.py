from typing import TYPE_CHECKING, Any

from keras_attn.export.passes import (
    emulate_float16,
    half_precision,
    int4_weights,
    int8_weights,
    int8_weights_of_rows,
)
from keras_attn.export.passes.graph import copy_of

if TYPE_CHECKING:
    import onnx

PRECISIONS = {
    "float32": (),
    "float16": (half_precision, emulate_float16),
    "int8": (int8_weights,),
    "int8-rows": (int8_weights_of_rows,),
    "int4": (int4_weights,),
}
"""Maps a precision to its passes. The first pass converts the model. The second pass, if any,
emulates the precision on a CPU."""


def lower_precisions(model: "onnx.ModelProto", precision: Any) -> Any:
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
        forms.append(copy_of(forms[-1]))
        change(forms[-1])
    return forms[1:]
