"""Runs a file of `export_onnx_text`: `python -P run_text_model.py FILE < batches > results`.

The program runs in a separate process without TensorFlow and keras_attn, because the operators of
onnxruntime-extensions crash if TensorFlow was imported first.
"""

import json
import os
import sys
from os import PathLike

import numpy as np

KINDS = {"text": object, "target_prefix": object, "seeds": np.int32}
NUMBERS = {int: np.int32, float: np.float32}


def main(path: str | PathLike[str]) -> None:
    """Reads batches as JSON from standard input, and writes their translations as JSON.

    The input is a list of batches such as `{"text": [...], "max_length": 5}`. The numbers, such as
    `max_length`, and the lists `target_prefix` and `seeds` are optional. The output is a list of
    the translations of each batch, written to standard output.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime
    import onnxruntime_extensions

    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    results = []
    for batch in json.load(sys.stdin):
        kinds = {name: KINDS.get(name) or NUMBERS[type(value)] for name, value in batch.items()}
        feeds = {name: np.array(value, kinds[name]) for name, value in batch.items()}
        (translations,) = session.run(["translations"], feeds)
        results.append(translations.tolist())
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
