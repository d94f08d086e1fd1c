"""Our side of `decode.py`: an exported file in ONNX Runtime; it is started by that.

With several workers, as many batches are translated at once, each worker with a session of its own:
threads that share one wait for each other's memory.
"""

import collections
import json
import queue
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import numpy as np
import onnxruntime

MOST_PROFILED = 20
"""Batches of a size: the events of a thousand sentences are hundreds of megabytes."""


def main():
    settings = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps({"rate": measure, "profile": profile}[settings["measure"]](settings)))


def measure(settings):
    """Seconds of each batch size, and what was translated."""
    sessions = queue.SimpleQueue()
    for _ in range(settings["workers"]):
        sessions.put(open_session(settings))

    def search(batch, length):
        session = sessions.get()
        results = translate(session, batch, length, settings)
        sessions.put(session)
        return results

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
    return {"rows": rows, "versions": versions}


def profile(settings):
    """Seconds of each operator, of a few batches of each size, and what these translated."""
    rows = {}
    for size, batches in settings["batches"].items():
        lengths = settings["lengths"].get(size) or [None] * len(batches)
        translated = list(zip(batches, lengths, strict=True))[:: -(-len(batches) // MOST_PROFILED)]
        folder = Path(settings["model"]).parent
        session = open_session(settings, profile_prefix=str(folder / "profile"))
        translate(session, *translated[0], settings)  # the first call allocates
        hypotheses = [translate(session, *batch, settings) for batch in translated]
        events = json.loads(Path(session.end_profiling()).read_text())
        calls = [event for event in events if event["name"] == "model_run"]
        first_call_ended = min(call["ts"] + call["dur"] for call in calls)
        seconds = collections.Counter()
        for event in events:
            operator = event.get("args", {}).get("op_name")
            is_kernel = event["name"].endswith("_kernel_time") and event["ts"] > first_call_ended
            # What is inside of a loop has events of its own.
            if is_kernel and operator not in ("Loop", "If"):
                seconds[operator] += event["dur"] / 1e6
        rows[size] = {"seconds": seconds, "hypotheses": sum(hypotheses, [])}
    return {"rows": rows, "versions": {"onnxruntime": metadata.version("onnxruntime")}}


def open_session(settings, profile_prefix=None):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.set_denormal_as_zero", "1")  # as keras_attn_runtime
    options.log_severity_level = 4
    options.intra_op_num_threads = settings["threads"] // settings["workers"]
    if profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    return onnxruntime.InferenceSession(
        settings["model"], options, providers=["CPUExecutionProvider"]
    )


def translate(session, batch, length, settings):
    """The best hypothesis of each sentence: its ids and its score."""
    source_ids = np.zeros((len(batch), max(map(len, batch))), np.int32)  # (B, S)
    for row, sentence in zip(source_ids, batch, strict=True):
        row[: len(sentence)] = sentence
    token_ids, lengths, scores = session.run(
        ["token_ids", "lengths", "scores"],
        {
            "source_ids": source_ids,
            "max_length": np.array(length or settings["max_length"], np.int32),
            "length_penalty": np.array(settings["length_penalty"], np.float32),
        },
    )
    return [
        (ids[0, : length[0]].tolist(), float(score[0]))
        for ids, length, score in zip(token_ids, lengths, scores, strict=True)
    ]


if __name__ == "__main__":
    main()
