from collections.abc import Mapping, Sequence
from typing import Protocol

from keras_attn_runtime._array_types import Array
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._file_info.tensor_value import TensorValue


class EngineValue(Protocol):
    """A tensor in an engine's memory."""

    def numpy(self) -> Array:
        """Returns the tensor as an array."""
        ...


class EngineSession(Protocol):
    """A model loaded by an engine.

    Attributes:
        engine: string, engine name in messages.
        supports_concurrent_runs: bool, whether several threads may call `run` at the same time.
        inputs, outputs: lists of `TensorValue`. An int in a shape is a fixed size.
    """

    @property
    def engine(self) -> str: ...

    @property
    def supports_concurrent_runs(self) -> bool: ...

    @property
    def inputs(self) -> Sequence[TensorValue]: ...

    @property
    def outputs(self) -> Sequence[TensorValue]: ...

    def run(
        self, output_names: Sequence[str], feeds: Mapping[str, Array], call: Call
    ) -> Sequence[Array]:
        """Runs the model once.

        Args:
            output_names: list of strings.
            feeds: dict from input names to arrays with each input's dtype and fixed sizes.
            call: `Call` to which the run belongs. If it was stopped before the run, this method
                raises an exception. With ONNX Runtime, `Call.stop` also ends a run in progress.

        Returns:
            List of arrays, one for each name.

        Raises:
            Exception: if the run fails. The exception classes differ between the engines.
        """
        ...

    def value_of(self, array: Array) -> EngineValue:
        """Converts an array to a value for `run_values`."""
        ...

    def run_values(
        self, values: Mapping[str, EngineValue], call: Call
    ) -> Mapping[str, EngineValue]:
        """Runs the model once on values that remain in the engine's memory.

        Args:
            values: dict from input names to this engine's values. Other entries are ignored.
            call: `Call` to which the run belongs. If it was stopped before the run, this method
                raises an exception. With ONNX Runtime, `Call.stop` also ends a run in progress.

        Returns:
            Dict with all outputs.

        Raises:
            Exception: if the run fails. The exception classes differ between the engines.
        """
        ...
