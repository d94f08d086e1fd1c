"""Profile of a search in a LiteRT file: where the time of a step goes.

    python benchmarks/profile_litert.py
    python benchmarks/profile_litert.py model.tflite

Runs a file on one thread in `perf record`, which must be installed, and assigns each sample to the
innermost function of its call stack that has a kind. The library of ai-edge-litert contains the
names of its functions. Without a file, the script exports the float32 models of `decode_litert.py`.
If a model of your own can generate the end token, a sentence has fewer than `--length` steps, and
the microseconds are too low. The shares are correct.

Prints a table: the kind of work, microseconds of processor time per step, and the share. The time
outside of the loop, such as that of the encoder, is divided by the number of steps too.
"""

import argparse
import collections
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PREPARATION = "allocation and preparation of tensors"
KINDS = (
    (PREPARATION, r"ArenaPlanner|SimpleMemoryArena|::\w*Prepare"),
    ("matrix products", r"xnn_\w*gemm_\w*ukernel"),
    ("packing of matrices that are not weights", r"xnn_\w*packw"),
    ("other operators of XNNPACK", r"xnnpack::.*SubgraphInvoke"),
    ("copies of the variables of loops", r"builtin::while_kernel::"),
)
"""Pairs of a kind of work and a pattern of the names of its functions. The first match counts."""

OPERATOR = re.compile(r"builtin::(\w+)::")
ALLOCATION = re.compile(r"Subgraph::(?!Invoke)\w+")
INVOCATION = re.compile(r"Subgraph::Invoke")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path, nargs="?", help="LiteRT file of a search")
    parser.add_argument("--length", type=int, default=24, help="tokens of each hypothesis")
    parser.add_argument("--source", type=int, default=12, help="ids of the source")
    parser.add_argument("--sentences", type=int, default=150)
    parser.add_argument("--run", action="store_true", help="only run the file, without a profile")
    args = parser.parse_args()
    if args.run:
        print(run(args))
    elif args.file:
        profile(args.file)
    else:
        from decode_litert import models

        from keras_attn.export import export_litert

        for name, translator in models(seed=1).items():
            with tempfile.TemporaryDirectory() as folder:
                export_litert(translator, Path(folder) / "model.tflite", runtime_settings=[])
                print(f"\n{name}:", end=" ")
                profile(Path(folder) / "model.tflite")


def profile(file):
    """Prints the table of a file."""
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "perf.data"
        options = ["-e", "cpu-clock", "-F", "700", "--call-graph", "dwarf,24576", "-o", samples]
        command = [sys.executable, *sys.argv, "--run"]
        command += [] if str(file) in sys.argv else [file]
        recorded = output_of("perf", "record", *options, "--", *command)
        found = output_of("perf", "script", "-i", samples, "--no-inline", "-F", "comm,ip,sym")
    microseconds = float(recorded.split()[0])
    kinds = collections.Counter(kind_of(stack) for stack in stacks(found))
    del kinds[None]
    total = kinds.total()
    print(f"{microseconds:.0f} µs a step\n\n| | µs | share |\n|---|---|---|")
    for kind, count in kinds.most_common():
        if count >= total / 200:
            print(f"| {kind} | {microseconds * count / total:.0f} | {count / total:.1%} |")


def output_of(*command):
    """Returns the standard output of a command as a string."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed: {done.stderr[-2000:]}")
    return done.stdout


def run(args):
    """Runs a file, and returns the microseconds of processor time per step."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(str(args.file), num_threads=1).get_signature_runner()
    inputs = {
        "source_ids": np.arange(4, 4 + args.source, dtype="int32")[None],
        "max_length": np.array(args.length, "int32"),
        "length_penalty": np.array(1.0, "float32"),
    }
    runner(**inputs)
    begin = time.process_time()
    for _ in range(args.sentences):
        runner(**inputs)
    return 1e6 * (time.process_time() - begin) / args.sentences / args.length


def stacks(text):
    """Yields a list of function names for each sample, innermost first."""
    for sample in text.split("\n\n"):
        yield [frame.strip().partition(" ")[2] for frame in sample.strip().split("\n")[1:]]


def kind_of(stack):
    """Returns the kind of work of a sample, or `None` for a sample outside of LiteRT's runs."""
    if not any(INVOCATION.search(name) for name in stack):
        return None
    for name in stack:
        for kind, pattern in KINDS:
            if re.search(pattern, name):
                return kind
        if operator := OPERATOR.search(name):
            return f"operator `{operator[1]}`"
        if ALLOCATION.search(name):
            return PREPARATION
        if INVOCATION.search(name):
            break
    return "calls of operators"


if __name__ == "__main__":
    main()
