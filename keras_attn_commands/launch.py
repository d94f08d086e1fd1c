"""`keras-attn launch`: starts workers on this machine that train a model together."""

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

HELP = "start several workers that train one model"
STOPPED = "Stopped, with all workers. Run the same command to start them again."
DESCRIPTION = """\
Starts a Python program once for each worker and waits for all workers. Sets the environment
variables that keras_attn.training.make_strategy("multi_worker") reads. If a worker fails, the other
workers are stopped. SIGTERM, SIGHUP and SIGQUIT are passed to the workers and stop them. To use
several machines, run this command on each machine, with the same --addresses on all machines, and
with the numbers of the workers of this machine in --indices.
"""
POLL_SECONDS = 0.1
GRACE_SECONDS = 20
"""Time in seconds after the failure of a worker. Workers that still run then are killed."""
STOP_SECONDS = 5
"""Time in seconds after a signal that ends the command. Workers that still run then are killed."""
STOP_SIGNALS = ("SIGTERM", "SIGHUP", "SIGQUIT")
"""Names of the signals that end the command. Windows has only SIGTERM."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command to its parser."""
    parser.add_argument(
        "--workers",
        type=_positive,
        metavar="N",
        help="number of workers, all on this machine. Default: 2",
    )
    parser.add_argument(
        "--addresses",
        type=_addresses,
        metavar="HOST:PORT,...",
        help="addresses of all workers on all machines. Default: free ports of this machine",
    )
    parser.add_argument(
        "--indices",
        type=_indices,
        metavar="I,...",
        help="numbers of the workers that this machine starts, from 0. Default: all workers",
    )
    parser.add_argument(
        "--restarts",
        type=_integer,
        default=0,
        metavar="N",
        help="number of times to restart all workers after a failure. Default: %(default)s",
    )
    parser.add_argument("program", help="Python program, run by each worker")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="arguments of the program", metavar="..."
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the workers. Returns the exit status of the first worker that failed, or 0."""
    refuse = arguments.parser.error
    if arguments.addresses is not None and arguments.workers is not None:
        refuse("--workers and --addresses both set the number of workers: pass one of them")
    if arguments.restarts < 0:
        refuse(f"expected --restarts of 0 or more, received {arguments.restarts}")
    if not os.path.isfile(arguments.program):
        refuse(f"expected a Python program, received {arguments.program!r}, which is no file")
    if arguments.addresses is None:
        if arguments.indices is not None:
            refuse("--indices needs --addresses, with the same value on all machines")
        addresses = free_addresses(arguments.workers or 2)
    else:
        addresses = arguments.addresses
    indices = range(len(addresses)) if arguments.indices is None else arguments.indices
    unknown = [index for index in indices if not 0 <= index < len(addresses)]
    if unknown:
        refuse(f"expected --indices from 0 to {len(addresses) - 1}, received {unknown}")
    if len(set(indices)) < len(indices):
        refuse(f"expected --indices without repetitions, received {list(indices)}")
    command = [sys.executable, arguments.program, *arguments.arguments]
    status = 0
    with recorded_signals() as received:
        for attempt in range(arguments.restarts + 1):
            status = run_workers(command, addresses, indices, received)
            if status == 0 or received:
                break
            if attempt < arguments.restarts:
                print("Starting all workers again.", file=sys.stderr)
    return status


@contextlib.contextmanager
def recorded_signals() -> Iterator[list[int]]:
    """Context manager that yields a list, to which it appends the signals that would end it.

    A signal that the process ignores, such as SIGHUP under `nohup`, is still ignored.
    """
    received: list[int] = []
    previous = {}
    if threading.current_thread() is threading.main_thread():  # others cannot set handlers
        for name in STOP_SIGNALS:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                previous[number] = signal.signal(number, lambda each, _: received.append(each))
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def free_addresses(num_workers: int) -> list[str]:
    """Returns addresses on this machine with free ports."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(num_workers)]
    addresses = [f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]
    for listener in listeners:
        listener.close()
    return addresses


def worker_environment(addresses: Sequence[str], index: int) -> dict[str, str]:
    """Returns the environment variables that describe the workers.

    Args:
        addresses: Addresses of all workers.
        index: Number of the worker.

    Returns:
        Dict with `TF_CONFIG` for TensorFlow and `KERAS_DISTRIBUTION_*` for JAX.
    """
    task = {"type": "worker", "index": index}
    return {
        "TF_CONFIG": json.dumps({"cluster": {"worker": list(addresses)}, "task": task}),
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": ",".join(addresses),
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(len(addresses)),
        "KERAS_DISTRIBUTION_PROCESS_ID": str(index),
    }


def run_workers(
    command: Sequence[str],
    addresses: Sequence[str],
    indices: Sequence[int],
    received: Sequence[int] = (),
) -> int:
    """Runs the workers until all have ended.

    Args:
        command: Command line of a worker.
        addresses: Addresses of all workers.
        indices: Numbers of the workers to start.
        received: Signals that the command received, see `recorded_signals`. The first one is passed
            to the workers.

    Returns:
        0, or the exit status of the first worker that failed. If a signal ended this worker or the
        command, 128 plus the number of the signal.
    """
    workers: dict[int, subprocess.Popen[bytes]] = {}
    status = 0
    deadline = None
    is_stopping = False
    try:
        for index in indices:
            environment = {**os.environ, **worker_environment(addresses, index)}
            workers[index] = subprocess.Popen(command, env=environment)
        while workers:
            if received and not is_stopping:
                is_stopping, status = True, 128 + received[0]
                deadline = time.monotonic() + STOP_SECONDS
                for process in workers.values():
                    process.send_signal(received[0])
            for index, process in list(workers.items()):
                code = process.poll()
                if code is None:
                    continue
                del workers[index]
                if code != 0 and not is_stopping:
                    print(f"Worker {index} failed: {_reason(code)}.", file=sys.stderr)
                if code != 0 and status == 0:
                    status = code if code > 0 else 128 - code
                    deadline = time.monotonic() + GRACE_SECONDS
            if workers and deadline is not None and time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
    finally:
        for index, process in workers.items():
            # TensorFlow workers catch and ignore SIGTERM.
            process.kill()
            process.wait()
            print(f"Worker {index} was stopped.", file=sys.stderr)
    return status


def _reason(code):
    if code > 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _positive(text):
    number = _integer(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number of 1 or more, received {text}")
    return number


def _indices(text):
    return [_integer(each) for each in text.split(",")]


def _addresses(text):
    addresses = text.split(",")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise argparse.ArgumentTypeError(
                f"expected HOST:PORT with a port from 1 to 65535, received {address!r}"
            )
        if addresses.count(address) > 1:
            raise argparse.ArgumentTypeError(f"expected different addresses, received {text!r}")
    return addresses


def _integer(text):
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a number, received {text!r}") from error
