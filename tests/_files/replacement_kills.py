"""Kills processes that replace an exported directory, while another process reads it.

    python tests/_files/replacement_kills.py FOLDER --kills 1000  at random times
    python tests/_files/replacement_kills.py FOLDER --each-call  before each system call, once
    python tests/_files/replacement_kills.py FOLDER --two-steps ...  as without an atomic exchange
    python tests/_files/replacement_kills.py FOLDER --no-sync ...  without waiting for the disk

Prints counts as JSON. The directory has two files with the same content. The script imports only
the modules that replace it, so it starts quickly and can fork.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
import types
from pathlib import Path

# A package without the imports of its __init__, which need a backend.
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
package = types.ModuleType("keras_attn")
package.__path__ = [str(ROOT / "keras_attn")]
sys.modules["keras_attn"] = package

from keras_attn._files import exchange_paths as exchange_module  # noqa: E402
from keras_attn._files.atomic_replace import atomic_replace  # noqa: E402

FILES = ("model.onnx", "model.weights")


def write(path, content):
    """Replaces the directory by a directory with two files of this content."""
    with atomic_replace(path, is_file=False) as partial:
        partial.mkdir()
        for name in FILES:
            (partial / name).write_text(content)


def read(path):
    """Returns the contents of the two files, through one descriptor of their directory."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        contents = []
        for name in FILES:
            file = os.open(name, os.O_RDONLY, dir_fd=directory)
            contents.append(os.read(file, 100).decode())
            os.close(file)
        return contents
    finally:
        os.close(directory)


def fork(function):
    """Runs a function in a forked process; returns its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
        finally:
            os._exit(1)
    return pid


def poll(path, pipe, stop):
    """Reads until the file `stop` exists, and sends the counts."""
    counts = dict.fromkeys(["reads", "missing", "removed_while_read", "mixed"], 0)
    while not stop.exists():
        for _ in range(100):
            counts["reads"] += 1
            try:
                first, second = read(path)
                counts["mixed"] += first != second
            except FileNotFoundError:
                # Its directory was found, and removed before its files were.
                counts["removed_while_read" if os.path.exists(path) else "missing"] += 1
            try:
                os.stat(path)
            except FileNotFoundError:
                counts["missing"] += 1
    os.write(pipe, json.dumps(counts).encode())
    os._exit(0)


def kill_at_random_times(path, kills, seed, longest):
    """Returns the number of kills after which the path is not a complete directory."""
    random_numbers, broken = random.Random(seed), 0
    for number in range(kills):
        ready, begin = os.pipe()

        def replace_for_ever(number=number, begin=begin):
            os.write(begin, b"1")
            for turn in range(10**6):
                write(path, f"{number}-{turn}")

        pid = fork(replace_for_ever)
        os.read(ready, 1)
        os.close(ready)
        os.close(begin)
        time.sleep(random_numbers.uniform(0, longest))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        broken += not is_whole(path)
    return {"kills": kills, "broken": broken}


def kill_at_each_call(path):
    """Kills one replacement before its first system call, one before its second, and so on."""
    number, broken, unrepaired = 0, 0, 0
    while True:

        def replace_once(number=number):
            left = [number]

            def count(event, arguments):
                if event.split(".")[0] in ("os", "open", "shutil", "tempfile", "fcntl", "ctypes"):
                    left[0] -= 1
                    if left[0] < 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count)
            write(path, f"of {number}")
            os._exit(0)

        _, status = os.waitpid(fork(replace_once), 0)
        if status == 0:
            return {"kills": number, "broken": broken, "unrepaired": unrepaired}
        broken += not is_whole(path)
        try:  # An export that fails repairs what the kill left, and changes nothing else.
            with atomic_replace(path, is_file=False):
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            unrepaired += not is_whole(path) or len(os.listdir(path.parent)) != 1
        number += 1


def is_whole(path):
    try:
        first, second = read(path)
    except FileNotFoundError:
        return False
    return first == second


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--longest", type=float, default=0.02, help="seconds before a kill")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each-call", action="store_true")
    parser.add_argument("--two-steps", action="store_true")
    parser.add_argument("--no-sync", action="store_true", help="more replacements in a second")
    options = parser.parse_args()
    if options.no_sync:
        os.fsync = lambda descriptor: None
    if options.two_steps:
        exchange_module._system_call = lambda: None
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / "exports" / "export"
    path.parent.mkdir()
    stop = options.folder / "stop"
    write(path, "first")
    if options.each_call:
        print(json.dumps(kill_at_each_call(path)))
        return
    receive, send = os.pipe()
    fork(lambda: poll(path, send, stop))
    counts = kill_at_random_times(path, options.kills, options.seed, options.longest)
    stop.touch()
    counts |= json.loads(os.read(receive, 10_000))
    counts["left_before_the_next_write"] = len(os.listdir(path.parent)) - 1
    write(path, "last")
    counts["left_after_it"] = len(os.listdir(path.parent)) - 1
    counts["last"] = read(path) == ["last"] * 2
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
