"""Runs one exported file with several releases of ONNX Runtime, and compares the results.

    python tests/runtime/try_onnxruntime_releases.py MODEL LINES --folder FOLDER

Creates an environment with the release and the newest compatible NumPy in FOLDER/RELEASE, or reuses
it. Each release translates LINES, as text and as ids, in a separate process, and
runs the file with an empty batch. The results are compared with those of the first release. The
script needs pip's package index and about 200 MB per release. `make test` does not run it.
"""

import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

RELEASES = (
    "1.31.1 1.19.2 1.20.1 1.21.1 1.22.1 1.23.2 1.24.4 1.25.1 1.26.0 1.27.0 1.28.0 1.29.0 1.30.0"
).split()
RUNTIME = Path(__file__).parents[2] / "export"
SENTENCEPIECE = "sentencepiece>=0.2,<0.2.2"

TRANSLATE = """
import json, sys
import numpy, onnxruntime
from keras_attn_runtime import Translator
path, lines = sys.argv[1], json.load(sys.stdin)
translator = Translator(path, num_threads=1)
found = translator.translate(lines)
ids = [translator._model.source_tokenizer.encode(line) for line in lines]
json.dump({
    "versions": f"{onnxruntime.__version__}, NumPy {numpy.__version__}",
    "text": [each.text for each in found],
    "ids": [each.token_ids for each in translator.translate_ids(ids)],
    "scores": [each.score for each in found],
}, sys.stdout)
"""
NO_ROWS = """
import sys
import numpy as np
from keras_attn_runtime._engines.create_session import create_session
session = create_session(sys.argv[1])
sizes = {"batch": 0, "rows": 0}
kinds = {"tensor(int32)": "int32", "tensor(int64)": "int64", "tensor(float)": "float32"}
for length in (5, 0):
    feeds = {}
    for each in session.get_inputs():
        shape = [size if isinstance(size, int) else sizes.get(size, length) for size in each.shape]
        feeds[each.name] = np.ones(shape, kinds[each.type])
    outputs = session.run(None, feeds)
    assert all(0 in value.shape for value in outputs), [value.shape for value in outputs]
print("right", end="")
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="file with a tokenizer, exported as `onnx`")
    parser.add_argument("lines", type=Path, help="source texts")
    parser.add_argument("--folder", type=Path, required=True, help="of the environments")
    parser.add_argument("--most", type=int, default=240, help="lines to read (%(default)s)")
    parser.add_argument("--releases", nargs="+", default=RELEASES, metavar="RELEASE")
    options = parser.parse_args()
    with open(options.lines, encoding="utf-8", newline="\n") as file:
        lines = [line.rstrip("\n") for line in file][: options.most]
    expected, is_equal = None, True
    print("| ONNX Runtime | text | ids | largest difference of a score | no rows |")
    print("|---|---|---|---|---|")
    for release in options.releases:
        try:
            python = environment(options.folder / release, release)
        except subprocess.CalledProcessError:
            print(f"| {release} | not installed: no wheel for this Python | | | |", flush=True)
            continue
        found = json.loads(run(python, TRANSLATE, options.model, json.dumps(lines)).stdout)
        expected = expected or found
        no_rows = run(python, NO_ROWS, options.model, "", check=False)
        outcome = no_rows.stdout if no_rows.returncode == 0 else f"exit {no_rows.returncode}"
        text, ids = (shares(found[name], expected[name]) for name in ("text", "ids"))
        pairs = zip(found["scores"], expected["scores"], strict=True)
        difference = max(abs(ours - theirs) for ours, theirs in pairs)
        cells = [found["versions"], text, ids, f"{difference:.1e}", outcome]
        print(f"| {' | '.join(cells)} |", flush=True)
        is_equal = is_equal and found["ids"] == expected["ids"] and outcome == "right"
    return 0 if is_equal else 1


def environment(path, release):
    """Returns the Python of an environment with a release. Creates the environment if needed."""
    python = path / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (path / "installed").exists():
        venv.create(path, clear=True, with_pip=True)
        command = [python, "-m", "pip", "install", "--quiet", f"onnxruntime=={release}"]
        subprocess.run([*command, "numpy", SENTENCEPIECE], check=True)
        (path / "installed").touch()
    return python


def run(python, program, model, text, check=True):
    variables = {**os.environ, "PYTHONPATH": str(RUNTIME)}
    return subprocess.run(
        [python, "-c", program, str(model)],
        input=text,
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
        check=check,
    )


def shares(found, expected):
    equal = sum(each == other for each, other in zip(found, expected, strict=True))
    return f"{equal} of {len(expected)} equal"


if __name__ == "__main__":
    sys.exit(main())
