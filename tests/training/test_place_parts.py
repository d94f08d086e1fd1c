import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn.training import place_parts
from tests.backend import requires_tensorflow

HERE = Path(__file__).parent


def parts():
    return keras_attn.rnn_seq2seq(9, 9, embedding_dim=4, units=4)


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="for the other backends")
def test_place_parts_needs_tensorflow():
    with pytest.raises(ValueError, match="Expected the TensorFlow backend"):
        place_parts(*parts(), {"encoder": "CPU:0"})


@requires_tensorflow("devices of TensorFlow")
@pytest.mark.parametrize(
    "devices, message",
    [
        ({"encoder": "CPU:7"}, r"Expected devices out of \['CPU:0'.*\]. Received: 'CPU:7'"),
        ({"encoder": 0}, r"Expected devices out of \['CPU:0'.*\]. Received: 0"),
        ({"search": "CPU:0"}, r"Expected parts out of \['encoder', 'attention', 'decoder'\]"),
    ],
)
def test_place_parts_refuses_unknown_devices_and_parts(devices, message):
    with pytest.raises(ValueError, match=message):
        place_parts(*parts(), devices)


@requires_tensorflow("devices of TensorFlow")
def test_place_parts_refuses_layers_that_it_cannot_place():
    encoder, decoder = parts()
    with pytest.raises(ValueError, match="Expected a layer of keras_attn for 'encoder'"):
        place_parts(keras.layers.Dense(1), decoder, {"encoder": "CPU:0"})
    with pytest.raises(ValueError, match="with the part 'encoder'"):
        place_parts(None, decoder, {"encoder": "CPU:0"})
    encoder(np.ones((1, 2), "int32"))
    with pytest.raises(ValueError, match="not built yet.* Received: 'encoder'"):
        place_parts(encoder, decoder, {"encoder": "CPU:0"})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("placed")
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), "TF_NUM_INTRAOP_THREADS": "1"}
    process = subprocess.run(
        [sys.executable, HERE / "placed_training.py", directory],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    return directory, json.loads((directory / "report.json").read_text())


@requires_tensorflow("devices of TensorFlow")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["rnn", "transformer"])
def test_placed_parts_train_and_search_as_on_one_device(run, name):
    one, three = (run[1][name][each] for each in ("one", "three"))
    assert len(one["loss"]) == 4 and one["loss"][-1] < one["loss"][0]
    np.testing.assert_allclose(three["loss"], one["loss"], rtol=1e-6)
    assert three["ids"] == one["ids"]


@requires_tensorflow("devices of TensorFlow")
@pytest.mark.slow
def test_placed_parts_have_their_weights_and_operations_on_their_devices(run):
    report = run[1]["rnn"]["three"]
    assert report["weights"] == {"encoder": ["CPU:1"], "attention": ["CPU:2"], "decoder": ["CPU:0"]}
    for counts in report["report"].values():
        assert counts["bytes"] > 0 and counts["operations"] > 0
    (one,) = run[1]["rnn"]["one"]["report"].values()
    assert sum(counts["bytes"] for counts in report["report"].values()) == one["bytes"]
    report = run[1]["transformer"]["three"]
    assert (report["weights"]["encoder"], report["weights"]["decoder"]) == (["CPU:1"], ["CPU:2"])


@requires_tensorflow("devices of TensorFlow")
@pytest.mark.slow
def test_model_of_placed_parts_loads_without_devices(run):
    model = keras.models.load_model(run[0] / "placed.keras")
    assert type(model.encoder) is keras_attn.TransformerEncoder
    assert model.predict(np.array([[3, 4, 2]]), verbose=0) is not None
