"""Measures examples/translate_corpus.py: one worker against two, one of which is killed.

    for i in $(seq 100); do cat build/demo/run/data/test.source; done > DATES
    python benchmarks/translate_corpus.py build/demo/translator.onnx DATES --name dates

It requires `pip install 'ray[data]'`. A worker is killed after a quarter of the partitions. Writes
`benchmarks/results/translate_corpus-NAME.json`. The exit status is 1 if the outputs differ.
"""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from arguments import argument_parser
from keras_attn_runtime import Translator
from machine import load_average
from results_file import versions, write_results

ROOT = Path(__file__).parents[1]
PATH = os.pathsep.join(map(str, (ROOT / "examples", ROOT, ROOT / "export")))


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("model", type=Path, help="ONNX file of a translator")
    parser.add_argument("corpus", type=Path, help="text file")
    parser.add_argument("--name", required=True, help="name of the results file")
    args = parser.parse_args()
    load = load_average()
    two, found_two, lines = measure(args, workers=2, killed=True)
    one, found_one, _ = measure(args, workers=1, killed=False)
    row = {
        "model": f"{lines:,} {args.name}: two workers of one thread (one was killed)",
        "ours": round(lines / two, 1),
        "peer": "one worker",
        "theirs": round(lines / one, 1),
        "unit": "lines/s",
        "ratio": one / two,
    }
    counts = {"lines": lines, "partitions": len(found_two), "equal_output": found_one == found_two}
    found = versions("ray", "onnxruntime", "numpy", "sentencepiece")
    path = args.out / f"translate_corpus-{args.name}.json"
    write_results(path, [row], found, 1, load_average=load, counts=counts)
    return int(found_one != found_two)


def measure(args, workers, killed):
    """Translates the corpus. Returns seconds, the content of the files, and the lines."""
    import translate_corpus as example

    example.WORKERS = workers
    translator = Translator(args.model.resolve(), num_threads=1, truncate=True)
    partitions = example.find_partitions([args.corpus])
    lines, started = 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows = example.translate(translator, partitions, Path(folder))
        for done, row in enumerate(rows, start=1):
            lines += row["lines"]
            if killed and done == max(1, len(partitions) // 4):
                os.kill(row["worker"], signal.SIGKILL)
        seconds = time.perf_counter() - started
        parts = sorted(Path(folder).glob("part-*.txt"))
        return seconds, [path.read_bytes() for path in parts], lines


if __name__ == "__main__":
    sys.path[0] = str(ROOT / "examples")  # this file and the example have the same name
    os.environ["PYTHONPATH"] = PATH  # of the workers
    sys.exit(main())
