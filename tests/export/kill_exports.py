"""Kills exports of a training run at random times, in each format.

    python tests/export/kill_exports.py RUN FOLDER [--kills 20] [--formats onnx saved-model ...]

RUN is a run directory of a translator, such as `build/demo/run` of `make demo`.
Before each kill, there is a complete export with the final name. After it, there must also be a
complete export, either the old or the new one. A last export must then remove the temporary files
of all killed exports. Prints a line of JSON with counts for each format.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

FORMATS = ("onnx", "onnx --external-data", "onnx-steps", "onnx-text", "saved-model")


def start(form, run, out):
    command = [sys.executable, "-m", "keras_attn.export", *form.split()[:1], run, out]
    command += form.split()[1:]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def export(form, run, out):
    """Exports without a kill and returns the seconds."""
    begin = time.monotonic()
    process = start(form, run, out)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return time.monotonic() - begin


def is_whole(form, out):
    """Returns whether an export is complete and has valid checksums."""
    try:
        if form == "saved-model":
            _read_saved_model(out)
        elif form == "onnx-steps":
            from keras_attn_runtime._models.stepped_model import SteppedModel

            SteppedModel(out)
        elif form == "onnx-text":  # has no checksum, but must contain a whole graph
            import onnx

            onnx.checker.check_model(onnx.load(out))
        else:
            from keras_attn_runtime._models.exported_model import ExportedModel

            ExportedModel(out)
    except Exception as error:  # a damaged file can raise any error
        print(f"{form}: {error}", file=sys.stderr)
        return False
    return True


def _read_saved_model(out):
    import tensorflow as tf
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    SavedModel().ParseFromString((out / "saved_model.pb").read_bytes())
    reader = tf.train.load_checkpoint(str(out / "variables" / "variables"))
    for name in reader.get_variable_to_shape_map():
        reader.get_tensor(name)  # verifies its checksum


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20, help="for each format")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random_numbers = random.Random(options.seed)
    for form in options.formats:
        folder = options.folder / form.replace(" ", "")
        folder.mkdir(parents=True)
        out = folder / "export"
        seconds = export(form, options.run, out)
        counts = {"kills": 0, "ended_before": 0, "broken": 0, "most_left": 0}
        for _ in range(options.kills):
            process = start(form, options.run, out)
            try:
                process.communicate(timeout=random_numbers.uniform(0, seconds))
                counts["ended_before"] += 1
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.communicate()
                counts["kills"] += 1
            counts["broken"] += not is_whole(form, out)
            counts["most_left"] = max(counts["most_left"], len(list(folder.iterdir())) - 1)
        export(form, options.run, out)
        counts["broken"] += not is_whole(form, out)
        counts["left"] = len(list(folder.iterdir())) - 1
        print(json.dumps({"format": form, "seconds": round(seconds, 1), **counts}), flush=True)


if __name__ == "__main__":
    main()
