"""Keeps what an example found out: RUN/results.json, with the machine, the versions and the date.

    python examples/train_language_model.py --data FILE --run-dir RUN
    python benchmarks/record_example.py RUN --name language_model-WHAT --model "what it is" \
        --threads 1 --command "python examples/train_language_model.py --data FILE --run-dir RUN"

writes benchmarks/results/NAME.json. Its minutes are those of the CPU: those of the clock depend on
what else the machine had to do. The tunes in RUN/tunes.json (see parse_tunes.py) make two rows:
those of the model, and the real ones.
"""

import argparse
import json
from pathlib import Path

from machine import machine
from results_file import FOLDER, versions, write_results

PACKAGES = ("keras", "tensorflow", "onnxruntime", "sentencepiece")

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("run_dir", type=Path)
parser.add_argument("--name", required=True, help="of the results file")
parser.add_argument("--model", help="name of its row, where there is one")
parser.add_argument("--command", required=True, help="how the run was made")
parser.add_argument("--threads", type=int, required=True, help="that it was allowed")
args = parser.parse_args()

report = json.loads((args.run_dir / "results.json").read_text())
arguments = report.pop("arguments")
for name in ("run_dir", "out"):  # a folder of whoever ran it
    arguments.pop(name, None)
report.pop("minutes", None)
names = [name for name in report if name == "onnx" or name.endswith("_onnx")]
onnx = {name: report.pop(name) for name in names} or None
counts = {name: report.pop(name) for name in list(report) if isinstance(report[name], int)}
rows = report.get("rows") or [{"model": args.model, **report}]
found = versions(*PACKAGES)
if (args.run_dir / "tunes.json").exists():
    tunes = json.loads((args.run_dir / "tunes.json").read_text())
    found["music21"] = tunes["music21"]
    rows.append({"model": f"{args.model}: tunes it wrote", **tunes["samples"]})
    rows.append({"model": f"{args.model}: real tunes, held out", **tunes["held_out"]})
write_results(
    FOLDER / f"{args.name}.json",
    rows,
    found,
    arguments["seed"],
    command=args.command,
    training=arguments,
    machine={**machine(), "threads": args.threads},
    counts=counts,
    **({"onnx": onnx} if onnx else {}),
)
