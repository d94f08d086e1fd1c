import json
import socket
import threading

import keras
import pytest

from keras_attn._backend.worker_cluster import WorkerCluster

TENSORFLOW = keras.backend.backend() == "tensorflow"
ADDRESSES = "10.0.0.1:2222", "10.0.0.2:2222"


def set_environment(monkeypatch, addresses, index):
    task = {"type": "worker", "index": index}
    config = {"cluster": {"worker": list(addresses)}, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    monkeypatch.setenv("KERAS_DISTRIBUTION_JOB_ADDRESSES", ",".join(addresses))
    monkeypatch.setenv("KERAS_DISTRIBUTION_NUM_PROCESSES", str(len(addresses)))
    monkeypatch.setenv("KERAS_DISTRIBUTION_PROCESS_ID", str(index))


def test_worker_cluster_is_read_from_the_environment(monkeypatch):
    set_environment(monkeypatch, ADDRESSES, 1)
    assert WorkerCluster.from_environment() == WorkerCluster(ADDRESSES, 1, 2)
    for name in ("TF_CONFIG", "KERAS_DISTRIBUTION_JOB_ADDRESSES"):
        monkeypatch.delenv(name)
    for name in ("NUM_PROCESSES", "PROCESS_ID"):
        monkeypatch.delenv(f"KERAS_DISTRIBUTION_{name}")
    assert WorkerCluster.from_environment() is None


@pytest.mark.skipif(not TENSORFLOW, reason="TF_CONFIG is for TensorFlow")
def test_worker_cluster_counts_workers_after_the_chief(monkeypatch):
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    for task, index in [(("chief", 0), 0), (("worker", 0), 1), (("worker", 1), 2)]:
        config = {"cluster": cluster, "task": {"type": task[0], "index": task[1]}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        expected = WorkerCluster(("a:1", "b:1", "c:1"), index, 3)
        assert WorkerCluster.from_environment() == expected


@pytest.mark.skipif(not TENSORFLOW, reason="TF_CONFIG is for TensorFlow")
@pytest.mark.parametrize("text", ["{", '{"cluster": {"worker": ["a:1"]}}', "[]"])
def test_worker_cluster_refuses_another_tf_config(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="Expected TF_CONFIG of the form .* Received: TF_CONFIG="):
        WorkerCluster.from_environment()


@pytest.mark.parametrize(
    "addresses, index, message",
    [
        (["localhost", "localhost:2"], 0, "form \"host:port\". Received: 'localhost'"),
        (["localhost:1", "localhost:1"], 0, "a different address for each worker"),
        (["localhost:1", "localhost:2"], 2, "a worker from 0 to 1. Received: 2"),
    ],
)
def test_worker_cluster_refuses_wrong_addresses_and_numbers(monkeypatch, addresses, index, message):
    set_environment(monkeypatch, addresses, index)
    with pytest.raises(ValueError, match=message):
        WorkerCluster.from_environment()


@pytest.fixture
def addresses():
    """Two addresses whose ports are free."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return tuple(f"127.0.0.1:{port}" for port in ports)


def wait_in_threads(clusters, timeout):
    """Calls `wait_for_all` of several workers; returns what each raised, or None."""
    errors = [None] * len(clusters)

    def wait(number, cluster):
        try:
            cluster.wait_for_all(timeout)
        except Exception as error:
            errors[number] = error

    threads = [threading.Thread(target=wait, args=each) for each in enumerate(clusters)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return errors


def test_workers_meet_and_leave_their_ports_free(addresses):
    clusters = [WorkerCluster(addresses[:1], index, 3) for index in (2, 0, 1)]
    assert wait_in_threads(clusters, 30) == [None, None, None]
    for address in addresses:
        socket.create_server(("127.0.0.1", int(address.split(":")[1]))).close()


def test_missing_worker_is_named_in_all_others(addresses):
    clusters = [WorkerCluster(addresses[:1], index, 3) for index in (0, 2)]
    chief, other = wait_in_threads(clusters, 1.5)
    assert isinstance(chief, TimeoutError) and isinstance(other, RuntimeError)
    expected = r"Expected 3 workers within 1.5 seconds. Received: no connection from worker \[1\]"
    for error in (chief, other):
        with pytest.raises(type(error), match=expected):
            raise error


def test_missing_chief_is_named(addresses):
    with pytest.raises(TimeoutError, match="no answer from worker 0 at '127.0.0.1:"):
        WorkerCluster(addresses, 1, 2).wait_for_all(0.3)


def test_port_in_use_is_named(addresses):
    with socket.create_server(("", int(addresses[1].split(":")[1]))):
        with pytest.raises(OSError, match=f"free port for worker 1. Received: '{addresses[1]}'"):
            WorkerCluster(addresses, 1, 2).wait_for_all(1)


def test_two_workers_with_one_number_are_refused(addresses):
    clusters = [WorkerCluster(addresses[:1], index, 4) for index in (0, 1, 1)]
    errors = wait_in_threads(clusters, 2)
    with pytest.raises(RuntimeError, match="Expected one worker of each number from 0 to 3"):
        raise errors[0]
    assert any(isinstance(error, RuntimeError) for error in errors[1:])


def test_other_connections_to_the_port_are_ignored(addresses):
    def knock():
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as connection:
                    connection.sendall(b"GET / HTTP/1.1\n")
                return
            except OSError:
                continue

    port = int(addresses[0].split(":")[1])
    stranger = threading.Thread(target=knock)
    chief = WorkerCluster(addresses[:1], 0, 2)
    found = []
    waiting = threading.Thread(target=lambda: found.append(wait_in_threads([chief], 20)))
    waiting.start()
    stranger.start()
    stranger.join(30)
    WorkerCluster(addresses[:1], 1, 2).wait_for_all(20)
    waiting.join(30)
    assert found == [[None]]
