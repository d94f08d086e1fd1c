"""Reads exported directories while another process replaces them.

    python tests/export/replace_while_read.py FOLDER [--reads 300] [--reader runtime|tensorflow]

Two exports alternate under one name. Each has two files that identify the export, so that a mixture
of both is detected. Prints counts as JSON: `old_or_new`, `mixed` and `failed`.
"""

import argparse
import collections
import hashlib
import json
import os
import shutil
import signal
import time
from pathlib import Path

from keras_attn._files.atomic_replace import atomic_replace


def make_onnx(directory, number):
    """Writes an export; its score identifies the weights, its settings identify the graph."""
    import onnx
    from onnx import numpy_helper
    from onnx.external_data_helper import set_external_data

    from tests.runtime.fake_model import (
        build_model,
        metadata,
        train_tokenizer,
        with_checksum,
        with_file_checksum,
    )

    model = build_model(with_checksum(metadata(train_tokenizer(), search__max_length=number)))
    weight = next(each for each in model.graph.initializer if each.name == "one")
    # The score is the log probability divided by this number if it exceeds the length.
    content = bytes(numpy_helper.from_array(numpy_helper.to_array(weight) * number).raw_data)
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * number, "one"))
    set_external_data(weight, "model.weights", 0, len(content))
    weight.ClearField("raw_data")
    checksum = hashlib.sha256(content).hexdigest()
    model.metadata_props.add(key="keras_attn.weights_checksum", value=checksum)
    directory.mkdir()
    (directory / "model.weights").write_bytes(content)
    (directory / "model.onnx").write_bytes(with_file_checksum(model.SerializeToString()))
    onnx.load(directory / "model.onnx")


def read_onnx(directory):
    """Returns the numbers that identify the graph and the weights."""
    from keras_attn_runtime import Translator

    translator = Translator(directory, num_threads=1)
    (translation,) = translator.translate(["a"])
    return translator.settings.max_length, round(translation.log_prob / translation.score)


def make_saved_model(directory, number):
    import tensorflow as tf

    module = tf.Module()
    module.weight = tf.Variable(number)
    numbers = lambda: (tf.constant(number), module.weight.read_value())  # noqa: E731
    module.numbers = tf.function(numbers, input_signature=[])
    tf.saved_model.save(module, str(directory))


def read_saved_model(directory):
    import tensorflow as tf

    # Keep a reference to the module, because its functions do not keep its variables.
    loaded = tf.saved_model.load(str(directory))
    return tuple(int(each) for each in loaded.numbers())


READERS = {"runtime": (make_onnx, read_onnx), "tensorflow": (make_saved_model, read_saved_model)}


def replace_for_ever(path, exports, pause):
    turn = 0
    while True:
        turn += 1
        with atomic_replace(path, is_file=False) as partial:
            shutil.copytree(exports[turn % 2], partial)
        time.sleep(pause)


def count(folder, reader, reads, pause):
    """Reads repeatedly and counts the results."""
    make, read = READERS[reader]
    exports = [folder / "first", folder / "second"]
    for number, export in enumerate(exports, start=20):
        make(export, number)
    path = folder / "exports" / "export"
    path.parent.mkdir()
    shutil.copytree(exports[0], path)
    writer = os.fork()
    if writer == 0:
        replace_for_ever(path, exports, pause)
    counts, found = collections.Counter(old_or_new=0, mixed=0, failed=0), set()
    try:
        for _ in range(reads):
            try:
                graph, weights = read(path)
            except Exception as error:  # depends on the reader
                counts["failed"] += 1
                counts[f"failed: {type(error).__name__}"] += 1
            else:
                counts["old_or_new" if graph == weights else "mixed"] += 1
                found.add(graph)
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
    return {"reads": reads, **counts, "both_found": len(found) == 2}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reader", choices=READERS, default="runtime")
    parser.add_argument("--reads", type=int, default=300)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds between replacements")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(json.dumps(count(options.folder, options.reader, options.reads, options.pause)))


if __name__ == "__main__":
    main()
