"""ONNX Runtime side of `decode.py` and `decode_rnn.py`, which start this script.

Several workers translate several batches at the same time. Each worker has its own session, because
threads that share a session wait for the memory pool of this session.
"""

import collections
import json
import queue
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import numpy as np
from onnx_session import call_settings, open_session
from translation_side import best_hypotheses, pad, read_settings

MOST_PROFILED = 20
"""Maximum number of batches in a profile. The profile of 1,000 sentences has hundreds of MB."""


def main():
    settings = read_settings()
    print(json.dumps({"rate": measure, "profile": profile}[settings["measure"]](settings)))


def measure(settings):
    """Returns the seconds and the hypotheses of each batch size."""
    sessions = queue.SimpleQueue()
    for _ in range(settings["workers"]):
        sessions.put(open_session(settings["model"], settings["threads"] // settings["workers"]))

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
    """Returns the seconds of each operator and the hypotheses, for a few batches of each size."""
    rows = {}
    for size, batches in settings["batches"].items():
        lengths = settings["lengths"].get(size) or [None] * len(batches)
        translated = list(zip(batches, lengths, strict=True))[:: -(-len(batches) // MOST_PROFILED)]
        prefix = str(Path(settings["model"]).parent / "profile")
        session = open_session(settings["model"], settings["threads"], profile_prefix=prefix)
        translate(session, *translated[0], settings)  # warm-up
        hypotheses = [translate(session, *batch, settings) for batch in translated]
        events = json.loads(Path(session.end_profiling()).read_text())
        calls = [event for event in events if event["name"] == "model_run"]
        first_call_ended = min(call["ts"] + call["dur"] for call in calls)
        seconds = collections.Counter()
        for event in events:
            operator = event.get("args", {}).get("op_name")
            is_kernel = event["name"].endswith("_kernel_time") and event["ts"] > first_call_ended
            # The event of a loop includes the time of the operators inside the loop, and these have
            # events of their own.
            if is_kernel and operator not in ("Loop", "If"):
                seconds[operator] += event["dur"] / 1e6
        rows[size] = {"seconds": seconds, "hypotheses": sum(hypotheses, [])}
    return {"rows": rows, "versions": {"onnxruntime": metadata.version("onnxruntime")}}


def translate(session, batch, length, settings):
    """Returns the ids and the score of the best hypothesis of each sentence."""
    outputs = session.run(
        ["token_ids", "lengths", "scores"],
        {
            **call_settings(session),
            "source_ids": pad(batch),
            "max_length": np.array(length or settings["max_length"], np.int32),
            "length_penalty": np.array(settings["length_penalty"], np.float32),
        },
    )
    return best_hypotheses(*outputs)


if __name__ == "__main__":
    main()
