"""Copies the results of an example, RUN/results.json, and adds machine, versions and date.

    keras-attn train language-model --data FILE --run-dir RUN
    python benchmarks/record_example.py RUN --name language_model-WHAT --model "what it is" \
        --threads 1 --command "keras-attn train language-model --data FILE --run-dir RUN"

Writes benchmarks/results/NAME.json. Minutes are CPU time, because wall-clock time depends on other
processes of the machine. RUN/tunes.json (see parse_tunes.py) adds two rows: the generated and the
real tunes. RUN/kept/tunes.json (see examples/write_tunes.py) adds the tunes that were kept.
"""

import argparse
import json
from pathlib import Path

from machine import machine
from results_file import FOLDER, versions, write_results

PACKAGES = ("keras", "tensorflow", "onnxruntime", "sentencepiece")


def flat(values, prefix=""):
    """Flattens nested dicts, such as `{"en": {"true": 1.0}}` to `{"en_true": 1.0}`."""
    found = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}_")
        else:
            found[prefix + name] = value
    return found


parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("run_dir", type=Path)
parser.add_argument("--name", required=True, help="name of the results file")
parser.add_argument("--model", help="name of the row, if there is only one")
parser.add_argument("--command", required=True, help="command of the run")
parser.add_argument("--threads", type=int, required=True, help="threads of the run")
args = parser.parse_args()

report = json.loads((args.run_dir / "results.json").read_text())
arguments = report.pop("arguments")
for name in ("run_dir", "out"):  # paths on the user's machine
    arguments.pop(name, None)
report.pop("minutes", None)
names = [name for name in report if name == "onnx" or name.endswith("_onnx")]
onnx = {name: report.pop(name) for name in names} or None
counts = {name: report.pop(name) for name in list(report) if isinstance(report[name], int)}
rows, run = [{"model": args.model, **flat(report)}], {}
if "rows" in report:
    rows, run = report.pop("rows"), {"run": report}  # such as the minutes of all rows together
found = versions(*PACKAGES)
if (args.run_dir / "tunes.json").exists():
    tunes = json.loads((args.run_dir / "tunes.json").read_text())
    found["music21"] = tunes["music21"]
    rows.append({"model": f"{args.model}: tunes it wrote", **tunes["samples"]})
    rows.append({"model": f"{args.model}: real tunes, held out", **tunes["held_out"]})
if (args.run_dir / "kept" / "tunes.json").exists():
    kept = json.loads((args.run_dir / "kept" / "tunes.json").read_text())
    rows.append({"model": f"{args.model}: tunes that were kept", **kept})
write_results(
    FOLDER / f"{args.name}.json",
    rows,
    found,
    arguments["seed"],
    command=args.command,
    training=arguments,
    machine={**machine(), "threads": args.threads},
    counts=counts,
    **run,
    **({"onnx": onnx} if onnx else {}),
)
