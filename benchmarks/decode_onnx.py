"""Our side of `decode.py`: an exported file in ONNX Runtime; it is started by that.

With several workers, as many batches are translated at once, each worker with a session of its own:
threads that share one wait for each other's memory.
"""

import json
import queue
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import numpy as np
import onnxruntime


def main():
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))


def measure(settings):
    """Seconds of each batch size, and what was translated."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = settings["threads"] // settings["workers"]
    begin = time.perf_counter()
    sessions = queue.SimpleQueue()
    for _ in range(settings["workers"]):
        sessions.put(
            onnxruntime.InferenceSession(
                settings["model"], options, providers=["CPUExecutionProvider"]
            )
        )
    load_seconds = time.perf_counter() - begin

    def search(batch, length):
        source_ids = np.zeros((len(batch), max(map(len, batch))), np.int32)  # (B, S)
        for row, sentence in zip(source_ids, batch, strict=True):
            row[: len(sentence)] = sentence
        session = sessions.get()
        token_ids, lengths, scores = session.run(
            ["token_ids", "lengths", "scores"],
            {
                "source_ids": source_ids,
                "max_length": np.array(length or settings["max_length"], np.int32),
                "length_penalty": np.array(settings["length_penalty"], np.float32),
            },
        )
        sessions.put(session)
        return [
            (ids[0, : length[0]].tolist(), float(score[0]))
            for ids, length, score in zip(token_ids, lengths, scores, strict=True)
        ]

    rows = {}
    with ThreadPoolExecutor(settings["workers"]) as pool:
        for size, batches in settings["batches"].items():
            lengths = settings["lengths"].get(size) or [None] * len(batches)
            list(pool.map(search, batches[:2], lengths[:2]))
            begin = time.perf_counter()
            results = list(pool.map(search, batches, lengths))
            seconds = time.perf_counter() - begin
            rows[size] = {"seconds": seconds, "hypotheses": sum(results, [])}
    versions = {"onnxruntime": metadata.version("onnxruntime")}
    return {"rows": rows, "load_seconds": load_seconds, "versions": versions}


if __name__ == "__main__":
    main()
