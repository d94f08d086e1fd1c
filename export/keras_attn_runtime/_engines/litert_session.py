"""Creates LiteRT interpreters."""

import importlib.metadata
import operator
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from keras_attn_runtime._array_types import Array
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._calls.options import require_integer
from keras_attn_runtime._engines.create_session import MOST_THREADS, Providers, read_providers
from keras_attn_runtime._engines.engine_session import EngineValue
from keras_attn_runtime._errors import ModelFileError, ProviderError, in_one_line
from keras_attn_runtime._file_info.tensor_value import TensorValue

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Details, SignatureRunner

SIGNATURE = "serving_default"
"""The signature in files with a whole search, or a forecaster."""
STEPS = ("start", "step", "finish")
"""The signatures in `litert-steps` exports."""
DISTRIBUTION = "ai-edge-litert"
OLDEST = (2, 1)
"""The oldest ai-edge-litert release with which the tests pass."""


@dataclass(frozen=True)
class ArrayValue:
    """`EngineValue` for LiteRT, whose interpreter takes and returns arrays.

    Attributes:
        array: array.
    """

    array: Array

    def numpy(self) -> Array:
        """Returns the array."""
        return self.array


class LiteRTSession:
    """`EngineSession` for LiteRT: one signature of an interpreter.

    LiteRT cannot be cancelled from Python: after a call is stopped, its run continues in the worker
    thread until the search ends, and the interpreter is busy until then.

    Args:
        runner: `SignatureRunner` from the interpreter. It allocates memory again only if the shape
            of an input has changed.
        lock: `threading.Lock` shared by an interpreter's sessions, because it runs one signature at
            a time.
        has_loop: bool, whether the signature is a whole search, see `_reads_unwritten_memory`.
    """

    engine = "LiteRT"
    supports_concurrent_runs = False

    def __init__(
        self, runner: "SignatureRunner", lock: threading.Lock, has_loop: bool = True
    ) -> None:
        self._runner = runner
        self._lock = lock
        self._has_loop = has_loop
        self._sizes: list[tuple[int, ...]] = []  # of the largest inputs and outputs so far
        self.inputs = _values(runner.get_input_details())
        self.outputs = _values(runner.get_output_details())

    def run(
        self, output_names: Sequence[str], feeds: Mapping[str, Array], call: Call
    ) -> Sequence[Array]:
        """Runs the model, see `EngineSession.run`."""
        outputs = self._run(feeds, call)
        return [outputs[name] for name in output_names]

    def value_of(self, array: Array) -> EngineValue:
        """Returns the array as a value, see `EngineSession.value_of`."""
        return ArrayValue(array)

    def run_values(
        self, values: Mapping[str, EngineValue], call: Call
    ) -> Mapping[str, EngineValue]:
        """Runs the model, see `EngineSession.run_values`."""
        feeds = {entry.name: values[entry.name].numpy() for entry in self.inputs}
        outputs = self._run(feeds, call)
        return {name: ArrayValue(array) for name, array in outputs.items()}

    def _run(self, feeds: Mapping[str, Array], call: Call) -> Mapping[str, Array]:
        with self._lock:
            if call.is_stopped:
                raise RuntimeError("The call was stopped.")
            outputs = self._runner(**feeds)
            if self._has_loop and self._reads_unwritten_memory(feeds, outputs):
                outputs = self._runner(**feeds)
            return outputs

    def _reads_unwritten_memory(
        self, feeds: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> bool:
        """Returns whether the results of this run may be wrong, so that it must be repeated.

        When an input or an output becomes larger than before, the interpreter allocates more
        memory. With LiteRT 2.3 and XNNPACK, its default, the next run of a recurrent search then
        reads memory that was never written. The run after that is correct, and so is the very first
        run.
        """
        arrays = [
            *(feeds[entry.name] for entry in self.inputs),
            *(outputs[entry.name] for entry in self.outputs),
        ]
        sizes = tuple(size for array in arrays for size in array.shape)
        if any(all(map(operator.le, sizes, earlier)) for earlier in self._sizes):
            return False
        is_first = not self._sizes
        self._sizes.append(sizes)
        return not is_first


def create_litert_sessions(
    path: str,
    model: bytes,
    num_threads: int | None = None,
    signatures: Sequence[str] = (SIGNATURE,),
) -> list[LiteRTSession]:
    """Loads a LiteRT model.

    Args:
        path: string, file path, for messages.
        model: bytes, the model. LiteRT can crash on damaged bytes.
        num_threads: int in [1, 1024], number of threads per operator. Default: all cores.
        signatures: list of strings, the signatures to run. Default: "serving_default", a whole
            search.

    Returns:
        List with a `LiteRTSession` for each signature. The sessions share one interpreter.

    Raises:
        ModelFileError: if LiteRT cannot load the model, or the model lacks a signature.
        ValueError: if `num_threads` is not an integer in this range.
        ImportError: if LiteRT is not installed, or too old.
    """
    if num_threads is not None:
        num_threads = require_integer("num_threads", num_threads, least=1, most=MOST_THREADS)
    require_litert()
    from ai_edge_litert.interpreter import Interpreter

    try:
        interpreter = Interpreter(model_content=model, num_threads=num_threads or os.cpu_count())
        available = list(interpreter.get_signature_list())
        if set(signatures) <= set(available):
            lock = threading.Lock()
            return [
                LiteRTSession(interpreter.get_signature_runner(name), lock, name == SIGNATURE)
                for name in signatures
            ]
    except Exception as error:  # LiteRT does not document which exceptions it raises
        raise ModelFileError(
            f"LiteRT cannot load {path!r}: {in_one_line(error)}. If the file is damaged, export or "
            "copy it again."
        ) from error
    advice = "Export it again."
    if set(STEPS) <= set(available):
        advice = "Run it with StreamingTranslator."
    elif SIGNATURE in available:
        advice = "Use Translator, or export it with `keras-attn export litert-steps`."
    raise ModelFileError(
        f"Expected a LiteRT file with the signatures {list(signatures)}. Received: {path!r} with "
        f"signatures={available}. {advice}"
    )


def require_litert() -> None:
    """Raises ImportError if LiteRT is not installed, or older than the oldest tested release."""
    advice = "`pip install './export[litert]'` in a checkout"
    try:
        import ai_edge_litert.interpreter
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("ai_edge_litert"):
            raise  # LiteRT is installed, but one of its dependencies is missing
        raise ImportError(f"LiteRT is not installed, or incomplete: {advice}.") from error
    assert ai_edge_litert.interpreter
    version = importlib.metadata.version(DISTRIBUTION)
    if tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < OLDEST:
        raise ImportError(
            f"Expected {DISTRIBUTION} {'.'.join(map(str, OLDEST))} or newer. Received: {version}. "
            f"Upgrade it: {advice}."
        )


def require_cpu(providers: Providers | None) -> None:
    """Raises `ProviderError` unless `providers` is the CPU, the only device for LiteRT files."""
    if read_providers("cpu" if providers is None else providers) != [("cpu", {})]:
        raise ProviderError(
            "Expected providers='cpu' without options, because LiteRT files run on the CPU. "
            f"Received: {providers=}. Export an ONNX file for other providers."
        )


def _values(details: "Mapping[str, Details]") -> list[TensorValue]:
    """Returns each tensor's name, dtype and shape; dynamic axes are `None`."""
    values: list[TensorValue] = []
    for name, detail in details.items():
        sizes: list[int] = detail["shape_signature"].tolist()
        shape = tuple(None if size < 0 else size for size in sizes)
        values.append(TensorValue(name, np.dtype(detail["dtype"]).name, shape))
    return values
