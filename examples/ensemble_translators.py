"""Combines several translators into an ensemble that averages their predictions.

    keras-attn train translation --data DIR --seed 1 --run-dir build/seed1
    keras-attn train translation --data DIR --seed 2 --run-dir build/seed2
    python examples/ensemble_translators.py build/seed1 build/seed2 --run-dir build/ensemble

The arguments are run directories of `keras-attn train` with equal tokenizers, for example
trained with several seeds, or an RNN and a Transformer. The result is also a run directory, which
`keras-attn export` and `attention_map.py` can read. The ensemble uses the search settings of the
first run.
"""

import argparse
import json
import shutil
from pathlib import Path

import keras_attn
from keras_attn.files import atomic_replace, separate_paths_problem
from keras_attn.training import RunDirectory

TEST_SET = ("data/test.source", "data/test.target")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="run directory")
    parser.add_argument("--run-dir", type=Path, required=True, help="output directory")
    args = parser.parse_args()
    runs = check_runs(args.runs, args.run_dir)

    # The mean of the probabilities. member_weights=[...] and average="geometric" are alternatives.
    ensemble = keras_attn.ensemble_model([run.load_model() for run in runs])
    first = runs[0]
    tokenizers = first.source_tokenizer, first.target_tokenizer
    for name in (*TEST_SET, "history.json"):
        (args.run_dir / name).unlink(missing_ok=True)  # from an earlier ensemble
    run = RunDirectory.create(args.run_dir, "generation", *tokenizers, model_card=first.model_card)
    run.save_model(ensemble)
    for name in TEST_SET:
        if (first.path / name).exists():
            (args.run_dir / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(first.path / name, args.run_dir / name)
    report = history(args.runs, beam_width=ensemble.search.beam_width)
    with atomic_replace(args.run_dir / "history.json") as partial:
        partial.write_text(json.dumps(report, indent=2))
    print(f"Wrote {run.model_path}, with {ensemble.count_params():,} weights")


def check_runs(runs, run_dir):
    """Loads the runs. Exits if the runs cannot be combined, before any file is written."""
    if (run_dir / "settings.toml").exists():
        raise SystemExit(f"{run_dir} contains a training. Choose a different --run-dir.")
    opened = []
    for path in runs:
        if problem := separate_paths_problem({"--run-dir": run_dir}, {"RUN": path}):
            raise SystemExit(problem)
        try:
            run = RunDirectory(path)
        except (OSError, ValueError) as error:
            raise SystemExit(str(error)) from error
        opened.append(run)
        for side in ("source_tokenizer", "target_tokenizer"):
            if getattr(run, side).model != getattr(opened[0], side).model:
                raise SystemExit(
                    f"Expected runs with the same tokenizers. Received: {path} and {runs[0]}, "
                    f"whose {side}s differ. Train all on the same text with the same tokenizer."
                )
    return opened


def history(runs, beam_width):
    """Returns the content of `history.json` for the ensemble: sums over all runs."""
    paths = [run / "history.json" for run in runs]
    members = [json.loads(path.read_text()) for path in paths if path.exists()]
    minutes = [each["minutes"] for each in members]
    arguments = [each.get("arguments", {}) for each in members]  # only `keras-attn train` has them
    return {
        "minutes": sum(minutes),
        "member_minutes": minutes,
        "cpu_minutes": sum(each["cpu_minutes"] for each in members),
        "arguments": {
            "beam_width": beam_width,
            "seed": [each.get("seed") for each in arguments],
            "members": arguments,
        },
    }


if __name__ == "__main__":
    try:
        main()
    except OSError as error:  # for example a full disk
        raise SystemExit(f"Stopped: {' '.join(str(error).split())}") from error
