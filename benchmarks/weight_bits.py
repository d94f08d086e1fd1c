"""Time of matrix products in ONNX Runtime with 32-, 8- and 4-bit weights, by number of rows.

    python benchmarks/weight_bits.py

Multiplies inputs by a sequence of square matrices. There are as many matrices as in a decoder, so
the matrices of the larger size do not fit in the cache. The inputs have one row for each hypothesis
of a step: 1 row for a greedy search of one text, 4 rows for a beam, and 128 rows for the beams of
32 texts. `keras_attn.export._passes` quantizes the files, as in an export. The precisions take
turns in several rounds. Each measurement runs in a separate process, and the result is the median.
`error` is the norm of the error of one product, divided by the norm of the exact product.

Writes `benchmarks/results/weight_bits.json`.
"""

import statistics
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from arguments import argument_parser, settings_of
from machine import load_average
from onnx_session import open_session
from own_process import main_or_measurement, measure_in_turn
from results_file import versions, write_results
from time_and_memory import median_seconds

PRECISIONS = ("float32", "int8", "int8-rows", "int4")


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[512, 1024], help="sizes of the square matrices"
    )
    parser.add_argument(
        "--products",
        type=int,
        default=84,
        help="number of matrices; 84 is 14 in each of 6 layers",
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 32, 128])
    parser.add_argument("--calls", type=int, default=10, help="calls; the first is not timed")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    load = load_average()
    rows = [row for size in args.sizes for row in rows_of(size, args)]
    write_results(
        args.out / "weight_bits.json",
        rows,
        versions("onnxruntime", "onnx", "numpy"),
        args.seed,
        settings=settings_of(args),
        load_average_before=load,
    )


def rows_of(size, args):
    """Returns the results of one size: one for each number of rows, and one for the files."""
    found = measure_in_turn(__file__, PRECISIONS, args, size=size)
    model = f"{args.products} products {size} x {size}"
    for index, rows in enumerate(args.rows):
        medians = {
            f"{precision}_ms": round(statistics.median(r["ms"][index] for r in results), 3)
            for precision, results in found.items()
        }
        yield {"model": f"{model}, {rows} rows", **medians}
    sizes = {f"{name}_mebibytes": results[0]["mebibytes"] for name, results in found.items()}
    errors = {f"{name}_error": results[0]["error"] for name, results in found.items()}
    yield {"model": f"{model}, files", **sizes, **errors}


def measure(args, precision, size):
    """Returns the milliseconds of a call by number of rows, the file size and the error."""
    rng = np.random.default_rng(args.seed)
    matrices = rng.normal(size=(args.products, size, size)).astype("float32") / size**0.5
    inputs = rng.normal(size=(max(args.rows), size)).astype("float32")
    with tempfile.TemporaryDirectory() as directory:
        one = products_session(matrices[:1], precision, Path(directory) / "one.onnx", args.threads)
        path = Path(directory) / "all.onnx"
        session = products_session(matrices, precision, path, args.threads)
        mebibytes = path.stat().st_size / 2**20
    expected = inputs @ matrices[0]
    error = np.linalg.norm(one.run(None, {"x0": inputs})[0] - expected) / np.linalg.norm(expected)
    calls = [partial(session.run, None, {"x0": inputs[:rows]}) for rows in args.rows]
    milliseconds = [1000 * median_seconds(call, args.calls) for call in calls]
    return {"ms": milliseconds, "mebibytes": round(mebibytes, 1), "error": round(float(error), 4)}


def products_session(matrices, precision, path, threads):
    """Returns a session that multiplies by a sequence of matrices."""
    import onnx
    from onnx import helper, numpy_helper

    from keras_attn.export._passes.precisions import PRECISIONS as PASSES

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
    return open_session(path, threads)


if __name__ == "__main__":
    main_or_measurement(main, measure)
