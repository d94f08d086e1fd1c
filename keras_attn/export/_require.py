import importlib
import importlib.util
import os
from collections.abc import Collection, Iterator, Sequence
from os import PathLike

import keras

_EXTRAS = {
    "ai_edge_litert": "litert",
    "onnxruntime_extensions": "strings",
    "tf2onnx": "export",
    "onnx": "export",
    "tensorflow_text": "tensorflow",
    "tensorflow": "tensorflow",
}
"""Maps each module to the extra of setup.cfg that installs it. `require` recommends the first entry
whose module an export needs, so an extra with more dependencies comes first."""


def require_tensorflow() -> None:
    """Checks that TensorFlow is installed, without importing it.

    Raises:
        ImportError: If TensorFlow is not installed.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise ImportError(
            "Expected TensorFlow, which traces every exported model. Received: `tensorflow`, which "
            "is not installed. Install it in a checkout: `pip install '.[export]'` (ONNX files) "
            "or `pip install '.[tensorflow]'` (SavedModels). A `.keras` file that was saved with "
            "another backend can be loaded and exported with KERAS_BACKEND=tensorflow."
        )


def require(*modules: str) -> None:
    """Imports the modules of an export. Every export calls this function first.

    Before, it switches off the telemetry of ONNX Runtime.

    Args:
        modules: Names of modules: `"tensorflow"`, `"tensorflow_text"`, `"tf2onnx"`, `"onnx"`,
            `"onnxruntime"`, `"onnxruntime_extensions"` or `"ai_edge_litert"`.

    Raises:
        ImportError: If modules are missing. The message names the missing modules and the command
            that installs them.
        RuntimeError: If the backend of Keras is not TensorFlow.
    """
    disable_telemetry()
    errors = {}
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            errors[module] = error
    if errors:
        reasons = ", ".join(f"`{module}` ({error})" for module, error in errors.items())
        raise ImportError(
            f"Expected the modules that this export needs. Received: {reasons} could not be "
            f"imported. Install {' and '.join(_advice(modules, errors))}."
        ) from next(iter(errors.values()))
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "Expected the TensorFlow backend, because the export traces models with TensorFlow. "
            f"Received: keras backend={keras.backend.backend()!r}. "
            "Load the saved `.keras` file in a process with KERAS_BACKEND=tensorflow."
        )


def require_utf8(path: str | PathLike[str]) -> None:
    """Raises an error for a path that TensorFlow and ONNX Runtime cannot open.

    Raises:
        ValueError: If the path has bytes that are not UTF-8.
    """
    try:
        os.fsdecode(path).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            "Expected a path of valid UTF-8, as TensorFlow and ONNX Runtime require. "
            f"Received: path={ascii(os.fsdecode(path))}. Rename the file or the directory."
        ) from error


def _advice(modules: Sequence[str], missing: Collection[str]) -> Iterator[str]:
    """Yields the parts of the installation advice: an extra of keras-attn, and ONNX Runtime."""
    if set(missing) - {"onnxruntime"}:
        extra = next(extra for module, extra in _EXTRAS.items() if module in modules)
        yield f"them: `pip install '.[{extra}]'` in a checkout"
    if "onnxruntime" in missing:
        yield "ONNX Runtime: `pip install onnxruntime` (CPU) or `onnxruntime-gpu` (CUDA), not both"


def disable_telemetry() -> None:
    """Prevents ONNX Runtime 1.30 and newer from writing to the user's home directory.

    On import, ONNX Runtime writes an id and a database of events there, unless the environment
    variable `ORT_DISABLE_TELEMETRY` is 1. This function sets the variable unless the user has set
    it. Call the function before each import of onnxruntime.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
