"""Conversion of functions to LiteRT models."""

import contextlib
import logging
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import keras

if TYPE_CHECKING:
    import tensorflow as tf

from keras_attn._backend.litert_tracing import traced_for_litert
from keras_attn.export._export_error import ExportError
from keras_attn.export._trace.litert_operators import replace_operators
from keras_attn_checks.export_options import LiteRTPrecision

LIMIT = 2**31 - 1
"""Maximum size of a model in bytes. Offsets in the file are signed 32-bit integers."""

SIGNATURE = "serving_default"
"""Name of the signature of a file with one function."""


Signatures: TypeAlias = (
    "dict[str, tuple[Callable[..., dict[str, tf.Tensor]], Sequence[tf.TensorSpec]]]"
)
"""Dict from the name of each signature of a file to a function and its inputs."""


def with_batch_size(spec: "tf.TensorSpec", batch_size: int) -> "tf.TensorSpec":
    """Returns a `tf.TensorSpec` whose first axis has a fixed size. Scalars are unchanged."""
    import tensorflow as tf

    shape = (batch_size, *spec.shape[1:]) if len(spec.shape) else ()
    return tf.TensorSpec(shape, spec.dtype, spec.name)


def require_small(weights: Iterable[keras.Variable]) -> None:
    """Raises an error for weights that do not fit in a LiteRT file.

    The exporters call this function before they convert a model, because a conversion takes long.

    Args:
        weights: List of `keras.Variable`.

    Raises:
        ExportError: If the weights have more than `LIMIT` bytes in float32. The limit also holds
            for lower precisions, because every model is first converted in float32.
    """
    size = sum(4 * math.prod(weight.shape) for weight in weights)
    if size > LIMIT:
        raise ExportError(
            f"Expected weights of at most {LIMIT:,} bytes in float32, the maximum size of a LiteRT "
            f"file. Received: {size:,} bytes. Export the model with `export_onnx`, which writes "
            "large models to a directory."
        )


def convert_to_litert(
    functions: Signatures,
    weights: Iterable[keras.Variable],
    precision: LiteRTPrecision = "float32",
) -> bytes:
    """Converts functions of tensors to a LiteRT model with one signature for each function.

    Args:
        functions: Dict from the name of a signature to a pair: a function, and a list with a
            `tf.TensorSpec` for each of its inputs. A function takes the tensors in the order of the
            list, and returns a dict from output names to tensors. All functions may read `weights`.
        weights: List of all `keras.Variable`s that the functions read.
        precision: String, see `export_litert`. `"float16"` stores the weights in 16 bits and
            computes in float32. `"int8"` stores the weights of matrix products and embeddings in 8
            bits, and quantizes the inputs of matrix products when the model runs. Defaults to
            `"float32"`.

    Returns:
        Bytes of the model, a flatbuffer.

    Raises:
        ExportError: If TensorFlow cannot trace a function, or LiteRT lacks an operator.
    """
    import tensorflow as tf

    module = tf.Module()
    module.weights = [weight.value for weight in weights]
    signatures = {
        name: tf.function(function, input_signature=list(signature), autograph=False)
        for name, (function, signature) in functions.items()
    }
    module.functions = signatures
    with (
        tempfile.TemporaryDirectory() as directory,
        tf.device("/cpu:0"),
        traced_for_litert(),
        _without_name_warnings(),
    ):
        try:
            tf.saved_model.save(module, directory, signatures=signatures)
            replace_operators(directory)
            converter = tf.lite.TFLiteConverter.from_saved_model(
                directory, signature_keys=list(signatures)
            )
            # Only built-in operators of LiteRT: all others need TensorFlow on the device.
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
            # Otherwise the converter replaces infinite constants by the largest finite number.
            converter.canonicalizing_inf_as_min_max_float = False
            if precision != "float32":
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
            if precision == "float16":
                converter.target_spec.supported_types = [tf.float16]
            return converter.convert()
        except OSError:
            raise
        except Exception as error:  # the converter raises several types, also private ones
            raise ExportError(_reason(error)) from error


@contextlib.contextmanager
def _without_name_warnings() -> Iterator[None]:
    """Hides warnings about input names such as `beams/last`.

    TensorFlow renames the Python arguments. The inputs of a signature keep their names.
    """

    def is_shown(record: logging.LogRecord) -> bool:
        return "is not a valid tf.function parameter name" not in record.getMessage()

    logger = logging.getLogger("absl")
    logger.addFilter(is_shown)
    try:
        yield
    finally:
        logger.removeFilter(is_shown)


def _reason(error: Exception) -> str:
    """Returns the message for an error of the converter, with the operators and their layers."""
    text = str(error)
    operator_pairs = re.findall(r"'(tf\.\w+)' op|operation '(tf\.\w+)'", text)
    operators = sorted({name for pair in operator_pairs for name in pair if name})
    if not operators:
        summary = " ".join(text.split())
        return f"LiteRT's converter failed: {type(error).__name__}: {summary[-400:]}"
    names = re.findall(r'"([\w.]+/[\w./]+)@', text)  # the name of a function follows the @
    layers = list(dict.fromkeys(names))
    places = f" in {layers[:5]}" if layers else ""
    if any(name.startswith("tf.TensorList") for name in operators):
        advice = (
            "A loop over time needs a known number of rows: define the sizes of all axes before "
            "the time axis of recurrent layers"
        )
    else:
        advice = "Replace these operations by other operations of keras.ops"
    return (
        "Expected operators that LiteRT has built in. Received: a model with "
        f"{', '.join(operators)}{places}. {advice}, or export the model with `export_onnx`."
    )
