from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from keras_attn_runtime._array_types import Array
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._engines.engine_session import EngineValue
from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_info.tensor_value import TensorValue

if TYPE_CHECKING:
    import onnxruntime

DTYPES = {"float": "float32", "double": "float64"}
"""Dict from type names in ONNX Runtime to those in NumPy, where they differ."""


class OnnxSession:
    """`EngineSession` for ONNX Runtime. A stopped call ends its runs between two operators.

    Args:
        inference: `onnxruntime.InferenceSession`.

    Raises:
        ModelFileError: if an input or output name is not text.
    """

    engine = "ONNX Runtime"
    supports_concurrent_runs = True

    def __init__(self, inference: "onnxruntime.InferenceSession") -> None:
        self.inference = inference
        try:
            self.inputs = [_value(node) for node in inference.get_inputs()]
            self.outputs = [_value(node) for node in inference.get_outputs()]
        except UnicodeDecodeError as error:
            raise ModelFileError(
                f"The names of inputs and outputs are not text ({error}). The file is damaged; "
                "export it again."
            ) from error

    def run(
        self, output_names: Sequence[str], feeds: Mapping[str, Array], call: Call
    ) -> Sequence[Array]:
        """Runs the model, see `EngineSession.run`."""
        with call.run_options() as run_options:
            return self.inference.run(output_names, feeds, run_options)

    def value_of(self, array: Array) -> EngineValue:
        """Returns a value in CPU memory, see `EngineSession.value_of`."""
        import onnxruntime  # if it is not installed, `create_session` has raised an error before

        return onnxruntime.OrtValue.ortvalue_from_numpy(array)

    def run_values(
        self, values: Mapping[str, EngineValue], call: Call
    ) -> Mapping[str, EngineValue]:
        """Runs the model, see `EngineSession.run_values`.

        The outputs remain in the execution provider's memory.
        """
        cuda = self.inference.get_provider_options().get("CUDAExecutionProvider")
        device = ("cpu", 0) if cuda is None else ("cuda", int(cuda["device_id"]))
        binding = self.inference.io_binding()
        for entry in self.inputs:
            value = cast("onnxruntime.OrtValue", values[entry.name])
            binding.bind_ortvalue_input(entry.name, value)
        names = [entry.name for entry in self.outputs]
        for name in names:
            binding.bind_output(name, *device)
        with call.run_options() as run_options:
            self.inference.run_with_iobinding(binding, run_options)
        return dict(zip(names, binding.get_outputs(), strict=True))


def _value(node: "onnxruntime.NodeArg") -> TensorValue:
    name = node.type.removeprefix("tensor(").removesuffix(")")
    return TensorValue(node.name, DTYPES.get(name, name), tuple(node.shape))
