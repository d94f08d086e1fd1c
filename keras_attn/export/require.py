import importlib

import keras

_WHERE = {
    "tensorflow": "pip install keras-attn[tensorflow]",
    "tensorflow_text": "pip install keras-attn[tensorflow]",
    "tf2onnx": "pip install keras-attn[export]",
    "onnx": "pip install keras-attn[export]",
    "onnxruntime": "pip install onnxruntime (for CPUs) or onnxruntime-gpu (for CUDA), not both",
    "onnxruntime_extensions": "pip install keras-attn[strings]",
}


def require(*modules):
    """Checks that everything an export needs is there, before the slow part starts.

    Args:
        modules: names of modules: `"tensorflow"`, `"tensorflow_text"`, `"tf2onnx"`, `"onnx"`,
            `"onnxruntime"` or `"onnxruntime_extensions"`.

    Raises:
        ImportError: a module is missing; the message says how to install it.
        RuntimeError: Keras runs on another backend than TensorFlow.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ImportError(
                f"The export needs the module `{module}`, which could not be imported "
                f"({error}). Install it: {_WHERE[module]}."
            ) from error
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "The export traces the model with TensorFlow. "
            f"Received: keras backend={keras.backend.backend()!r}. "
            "Load the saved `.keras` file in a process with KERAS_BACKEND=tensorflow."
        )
