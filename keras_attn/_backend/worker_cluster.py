"""Worker addresses in distributed training, and waiting for all workers."""

import contextlib
import dataclasses
import json
import os
import socket
import time
from typing import Any, Self

import keras

RETRY_SECONDS = 0.2
ANSWER_SECONDS = 5
"""Number of seconds that a worker waits for worker 0 after the deadline."""


@dataclasses.dataclass(frozen=True)
class WorkerCluster:
    """Workers in distributed training, and the number of the worker in this process.

    Args:
        addresses: Tuple of strings `"host:port"`, one for each worker. On JAX, the address of
            worker 0 is enough.
        index: Int, this worker's number. Worker 0 is the chief, which writes the files.
        num_workers: Int, number of workers.
    """

    addresses: tuple[str, ...]
    index: int
    num_workers: int

    @classmethod
    def from_environment(cls) -> Self | None:
        """Reads the backend's environment variables. Returns `None` if they are not set.

        Raises:
            ValueError: If a variable is not valid.
        """
        if keras.backend.backend() == "tensorflow":
            return cls._from_tf_config()
        return cls._from_keras_variables()

    @classmethod
    def _from_tf_config(cls):
        text = os.environ.get("TF_CONFIG")
        if not text:
            return None
        try:
            config = json.loads(text)
            jobs = config["cluster"]
            addresses = (*jobs.get("chief", ()), *jobs.get("worker", ()))
            task = config["task"]["type"], int(config["task"]["index"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                'Expected TF_CONFIG of the form {"cluster": {"worker": ["host:port", ...]}, '
                f'"task": {{"type": "worker", "index": 0}}}}. Received: TF_CONFIG={text!r}'
            ) from error
        if not set(jobs) <= {"chief", "worker"} or task[0] not in jobs:
            raise ValueError(
                'Expected a TF_CONFIG with the jobs "chief" and "worker" only. Received: '
                f"jobs {sorted(jobs)}, task of type {task[0]!r}."
            )
        index = task[1]
        if task[0] == "worker" and "chief" in jobs:
            index += len(jobs["chief"])
        return cls(addresses, index, len(addresses))._checked()

    @classmethod
    def _from_keras_variables(cls):
        names = "JOB_ADDRESSES", "NUM_PROCESSES", "PROCESS_ID"
        names = [f"KERAS_DISTRIBUTION_{name}" for name in names]
        values = [os.environ.get(name) for name in names]
        if not any(values):
            return None
        try:
            addresses = tuple((values[0] or "").split(","))
            num_workers, index = int(values[1] or ""), int(values[2] or "")
        except ValueError as error:
            received = ", ".join(map("{}={!r}".format, names, values))
            raise ValueError(
                "Expected the addresses of the workers (separated by commas), the number of "
                f"workers, and the number of this worker. Received: {received}"
            ) from error
        return cls(addresses, index, num_workers)._checked()

    def _checked(self):
        for address in self.addresses:
            host, _, port = address.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65536:
                raise ValueError(
                    f'Expected addresses of the form "host:port". Received: {address!r}'
                )
        if len(set(self.addresses)) < len(self.addresses):
            raise ValueError(
                f"Expected a different address for each worker. Received: {list(self.addresses)}"
            )
        if not 0 <= self.index < self.num_workers:
            raise ValueError(
                f"Expected the number of a worker from 0 to {self.num_workers - 1}. Received: "
                f"{self.index}"
            )
        return self

    def wait_for_all(self, timeout: float) -> None:
        """Waits until every worker has called this method.

        The backends wait forever for a worker that does not start. Therefore the workers first
        connect in this method: worker 0 listens on its port, all other workers connect to it, and
        worker 0 answers when all workers are connected. Afterwards the port is free for the
        backend.

        Args:
            timeout: Float, number of seconds.

        Raises:
            TimeoutError: If a worker is missing after `timeout` seconds.
            OSError: If a port is in use.
            RuntimeError: If two workers have the same number, or worker 0 stopped waiting.
        """
        deadline = time.monotonic() + timeout
        if self.index < len(self.addresses):
            listener = self._listen()
            if self.index == 0:
                with listener:
                    self._gather(listener, deadline, timeout)
                return
            listener.close()
        self._join(deadline, timeout)

    def _listen(self):
        address = self.addresses[self.index]
        try:
            # Listen on all network interfaces, like the backends.
            return socket.create_server(("", int(address.rpartition(":")[2])))
        except OSError as error:
            raise OSError(
                f"Expected a free port for worker {self.index}. Received: {address!r}, "
                f"{error.strerror or error}. Set another port for this worker in the variables of "
                "all workers."
            ) from error

    def _gather(self, listener, deadline, timeout):
        joined: dict[int, Any] = {}
        with contextlib.ExitStack() as connections:
            try:
                while len(joined) < self.num_workers - 1:
                    try:
                        listener.settimeout(max(deadline - time.monotonic(), 1e-3))
                        connection = connections.enter_context(listener.accept()[0])
                    except TimeoutError:
                        missing = sorted(set(range(1, self.num_workers)) - set(joined))
                        raise TimeoutError(
                            f"Expected {self.num_workers} workers within {timeout:g} seconds. "
                            f"Received: no connection from worker {missing}. Check that every "
                            f"worker was started and can reach {self.addresses[0]!r}, then start "
                            "all workers again."
                        ) from None
                    received = _receive(connection, deadline)
                    if "worker" not in received:
                        continue  # not a worker, for example a port scanner
                    index = received["worker"]
                    if received != {"worker": index, "num_workers": self.num_workers} or (
                        not 0 < index < self.num_workers or index in joined
                    ):
                        raise RuntimeError(
                            "Expected one worker of each number from 0 to "
                            f"{self.num_workers - 1}. Received: {received} "
                            f"{'twice' if index in joined else ''}".rstrip()
                            + "."
                        )
                    joined[index] = connection
            except (TimeoutError, RuntimeError) as error:
                for connection in joined.values():
                    _send(connection, {"error": str(error)})
                raise
            for connection in joined.values():
                _send(connection, {"workers": self.num_workers})
            for connection in joined.values():
                # Wait until the other side closes the connection, so that the port is free
                # immediately.
                _receive(connection, time.monotonic() + 1)

    def _join(self, deadline, timeout):
        host, _, port = self.addresses[0].rpartition(":")
        answer: dict[str, Any] = {}
        while not answer:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError(
                    f"Expected {self.num_workers} workers within {timeout:g} seconds. Received: no "
                    f"answer from worker 0 at {self.addresses[0]!r}. Check that worker 0 was "
                    "started and can be reached, then start all workers again."
                )
            with contextlib.suppress(OSError):
                with socket.create_connection((host, int(port)), remaining) as connection:
                    _send(connection, {"worker": self.index, "num_workers": self.num_workers})
                    # Worker 0 may stop waiting at the same deadline, and then sends the reason.
                    answer = _receive(connection, deadline + ANSWER_SECONDS)
            if not answer:
                time.sleep(RETRY_SECONDS)
        if "error" in answer:
            raise RuntimeError(f"Worker 0 stopped: {answer['error']}")


def _send(connection, message):
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(message).encode() + b"\n")


def _receive(connection, deadline):
    """Receives a one-line message. Returns an empty dict if no valid message arrives."""
    line = b""
    try:
        while not line.endswith(b"\n"):
            connection.settimeout(max(deadline - time.monotonic(), 1e-3))
            part = connection.recv(1024)
            if not part or len(line) > 4096:
                return {}
            line += part
        message = json.loads(line)
    except (OSError, ValueError):
        return {}
    return message if isinstance(message, dict) else {}
