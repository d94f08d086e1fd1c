"""Runs an ONNX file of strings: `python -P run_text_model.py FILE < batches.json > results.json`.

A process of its own, because ONNX Runtime crashes over the operators of onnxruntime-extensions
where TensorFlow was imported before them. So this imports neither TensorFlow nor keras_attn.
"""

import json
import sys

import numpy as np

STRINGS = ("text", "target_prefix")


def main(path):
    """Reads a list of batches `{"text": [...], "max_length": n}`, writes their translations.

    `max_length` may be missing, and there may be a `target_prefix`, a list.
    """
    import onnxruntime
    import onnxruntime_extensions

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # else it warns that an input has a default
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    results = []
    for batch in json.load(sys.stdin):
        feeds = {name: np.array(batch[name], object) for name in STRINGS if name in batch}
        if "max_length" in batch:
            feeds["max_length"] = np.array(batch["max_length"], np.int32)
        (translations,) = session.run(["translations"], feeds)
        results.append(translations.tolist())
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
