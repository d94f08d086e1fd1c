import json
import socket

import keras
import pytest

from keras_attn.training import make_strategy
from tests.backend import requires_tensorflow


@pytest.mark.parametrize("name", ["auto", "none"])
def test_one_device(name):
    devices = make_strategy(name)
    with devices.scope():
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    assert devices.num_replicas_in_sync == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(name="all"), "Received: name='all'"),
        (dict(name="multi_worker"), "started as one of several workers"),
        (dict(name="auto", devices=["CPU:0"]), r"Received: name='auto', devices=\['CPU:0'\]"),
    ],
)
def test_bad_arguments(arguments, message, monkeypatch):
    for name in ("TF_CONFIG", "KERAS_DISTRIBUTION_NUM_PROCESSES"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=message):
        make_strategy(**arguments)


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="for the other backends")
def test_mirrored_needs_tensorflow():
    with pytest.raises(ValueError, match="Expected the TensorFlow backend"):
        make_strategy("mirrored")


@requires_tensorflow("devices of TensorFlow")
@pytest.mark.parametrize("devices", [["CPU:7"], ["TPU:0"], ["CPU:0", "/cpu:0"]])
def test_unknown_or_repeated_devices(devices):
    with pytest.raises(ValueError, match="Expected different devices from .*CPU:0"):
        make_strategy("mirrored", devices=devices)


@requires_tensorflow("devices of TensorFlow")
def test_mirrored_without_devices():
    with pytest.raises(ValueError, match="at least one device"):
        make_strategy("mirrored", devices=[])


@requires_tensorflow("TF_CONFIG")
def test_strategy_refuses_a_cluster_whose_workers_never_start(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        addresses = [f"127.0.0.1:{listener.getsockname()[1] + offset}" for offset in (0, 1)]
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    for name in ("auto", "multi_worker"):
        with pytest.raises(TimeoutError, match=r"Expected 2 workers within 0.1 seconds"):
            make_strategy(name, join_timeout=0.1)
    with pytest.raises(ValueError, match="Expected join_timeout > 0. Received: join_timeout=0"):
        make_strategy(join_timeout=0)
