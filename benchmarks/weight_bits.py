"""Time of matrix products in ONNX Runtime with weights of 32, 8 and 4 bits, over the rows.

    python benchmarks/weight_bits.py

multiplies by one square matrix after the other, as many as the layers of a decoder amount to, so
that those of the larger size come from memory each time. Rows are the hypotheses of a step: 1 is
greedy search of one text, 4 a beam, 128 a beam in a batch of 32. The files are made as an export
makes them, by `keras_attn.export.passes`. Each precision is measured several times, in turn, each
time in a process of its own; what counts is the median. `error` is that of the result of one
product, relative to its norm.

Writes `benchmarks/results/weight_bits.json`.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from machine import load_average
from own_process import run
from results_file import FOLDER, versions, write_results

PRECISIONS = ("float32", "int8", "int4")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024], help="of a matrix")
    parser.add_argument("--products", type=int, default=84, help="6 layers: 14 each")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 32, 128])
    parser.add_argument("--calls", type=int, default=10, help="of which the first is not timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FOLDER, help="directory")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # one measurement, in its process
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(**json.loads(args.measure))))
        return
    load = load_average()
    names = ("products", "rows", "calls", "threads", "seed")
    settings = {name: getattr(args, name) for name in names}
    rows = [row for size in args.sizes for row in rows_of(size, settings, args.rounds)]
    write_results(
        args.out / "weight_bits.json",
        rows,
        versions("onnxruntime", "onnx", "numpy"),
        settings={**settings, "sizes": args.sizes, "rounds": args.rounds},
        load_average_before=load,
    )


def rows_of(size, settings, rounds):
    """What is recorded of one size: a row for each number of rows, and one of the files."""
    found = {precision: [] for precision in PRECISIONS}
    for index in range(rounds):
        print(f"{size}: round {index + 1} of {rounds}", file=sys.stderr)
        for precision in PRECISIONS:
            measured = {**settings, "size": size, "precision": precision}
            command = [sys.executable, __file__, "--measure", json.dumps(measured)]
            found[precision].append(run(command, settings["threads"]))
    model = f"{settings['products']} products {size} x {size}"
    for index, rows in enumerate(settings["rows"]):
        medians = {
            f"{precision}_ms": round(statistics.median(r["ms"][index] for r in results), 3)
            for precision, results in found.items()
        }
        yield {"model": f"{model}, {rows} rows", **medians}
    sizes = {f"{name}_mebibytes": results[0]["mebibytes"] for name, results in found.items()}
    errors = {f"{name}_error": results[0]["error"] for name, results in found.items()}
    yield {"model": f"{model}, files", **sizes, **errors}


def measure(size, products, precision, rows, calls, threads, seed):
    """Milliseconds of a call for each number of rows, size of the file, error of a product."""
    rng = np.random.default_rng(seed)
    matrices = rng.normal(size=(products, size, size)).astype("float32") / size**0.5
    inputs = rng.normal(size=(max(rows), size)).astype("float32")
    with tempfile.TemporaryDirectory() as directory:
        one = session(matrices[:1], precision, Path(directory) / "one.onnx", threads)
        path = Path(directory) / "all.onnx"
        opened = session(matrices, precision, path, threads)
        mebibytes = path.stat().st_size / 2**20
    expected = inputs @ matrices[0]
    error = np.linalg.norm(one.run(None, {"x0": inputs})[0] - expected) / np.linalg.norm(expected)
    milliseconds = [seconds_of(opened, inputs[:each], calls) * 1000 for each in rows]
    return {"ms": milliseconds, "mebibytes": round(mebibytes, 1), "error": round(float(error), 4)}


def session(matrices, precision, path, threads):
    """A session that multiplies by one matrix after the other."""
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    from keras_attn.export.onnx_file import PRECISIONS as PASSES

    size, last = matrices.shape[-1], f"x{len(matrices)}"
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [f"x{index}", f"weight{index}"], [f"x{index + 1}"])
            for index in range(len(matrices))
        ],
        "products",
        [helper.make_tensor_value_info("x0", onnx.TensorProto.FLOAT, [None, size])],
        [helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, [None, size])],
        [numpy_helper.from_array(each, f"weight{index}") for index, each in enumerate(matrices)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    for change in PASSES[precision]:
        change(model)
    onnx.save(model, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def seconds_of(opened, inputs, calls):
    """Of a call: the median of all but the first."""
    seconds = []
    for _ in range(calls):
        started = time.perf_counter()
        opened.run(None, {"x0": inputs})
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


if __name__ == "__main__":
    main()
