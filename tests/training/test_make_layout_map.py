"""Weights divided among JAX devices: the same numbers as on one device."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn.training import make_layout_map
from keras_attn.training._make_layout_map import LAYOUTS

HERE = Path(__file__).parent
on_jax = pytest.mark.skipif(keras.backend.backend() != "jax", reason="ModelParallel is for JAX")


def one_device(axes=("batch", "model")):
    devices = keras.distribution.list_devices("cpu")[:1]
    return keras.distribution.DeviceMesh((1,) * len(axes), axes, devices)


def run(folder, kind):
    """Returns the results of `model_parallel_training.py` in a process with four devices."""
    path = folder / "report.json"
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parents[1]}", "JAX_PLATFORMS": "cpu"}
    process = subprocess.run(
        [sys.executable, HERE / "model_parallel_training.py", path, kind],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(path.read_text())


@on_jax
def test_layout_map_trains_as_on_one_device_with_divided_weights(tmp_path):
    report = run(tmp_path, "fast")
    np.testing.assert_allclose(report["four"]["losses"], report["one"]["losses"], rtol=1e-5)
    shards = report["four"]["shards"]
    for name, count in {
        "source_embedding/embeddings": 4,
        "self_attention/query_kernel": 4,
        "cross_attention_layer/output_kernel": 4,
        "cross_attention_layer/output_bias": 1,
        "feed_forward/expansion/bias": 4,
        "feed_forward/contraction/kernel": 4,
        "final_norm/gamma": 1,
    }.items():
        weights = [path for path in shards if path.endswith(name)]
        moments = [path for path in shards if name.replace("/", "_") in path]
        assert weights and len(moments) == 2 * len(weights)
        assert {shards[path] for path in weights + moments} == {count}, name
    assert set(report["one"]["shards"].values()) == {1}


@on_jax
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_layout_map_searches_as_on_one_device(kind, tmp_path):
    one, *others = run(tmp_path, kind).values()
    for other in others:
        np.testing.assert_allclose(other["losses"], one["losses"], rtol=1e-5)
        assert other["token_ids"] == one["token_ids"]
    four, two_by_two, *rest = (each["shards"] for each in others)
    assert set(two_by_two.values()) == {1, 2}
    if kind == "rnn":
        kernels = [path for path in four if path.endswith("recurrent_kernel")]
        assert len(kernels) >= 3 and {four[path] for path in kernels} == {4}
    for without_embedding in rest:
        assert all(each == 1 for path, each in without_embedding.items() if "embeddings" in path)
        assert 4 in without_embedding.values()


@on_jax
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_each_path_matches_one_layout_of_its_rank(cell):
    """`LayoutMap` raises an error if two patterns match a path."""
    layouts = make_layout_map(one_device())
    block = keras_attn.TransformerDecoderBlock(2, 16, cross_attention=False, activation="swiglu")
    embedding = keras.layers.ReversibleEmbedding(12, 8, tie_weights=False)
    language_model = keras_attn.CausalLanguageModel(block, embedding, num_layers=1)
    models = [
        keras_attn.TrainingModel(*keras_attn.rnn_seq2seq(12, 12, cell=cell, units=8)),
        keras_attn.TrainingModel(
            *keras_attn.transformer_seq2seq(
                12,
                12,
                num_layers=1,
                num_heads=2,
                embedding_dim=8,
                intermediate_dim=8,
                positions="learned",
            )
        ),
        keras_attn.TrainingModel(None, language_model),
    ]
    found = {
        variable.path: layouts[variable.path] for model in models for variable in model.variables
    }
    for model in models:
        for variable in model.variables:
            layout = found[variable.path]
            assert layout is None or len(layout.axes) == len(variable.shape), variable.path
    divided = {path.rpartition("/")[2] for path, layout in found.items() if layout is not None}
    assert divided >= {
        *("embeddings", "reverse_embeddings", "recurrent_kernel", "output_kernel", "query_bias"),
        *("kernel", "bias", "key_kernel"),
    }
    positions = [path for path in found if "positions" in path]
    assert positions and all(found[path] is None for path in positions)


@on_jax
@pytest.mark.parametrize("part", ["embedding", "attention", "feed_forward", "recurrent"])
def test_layout_map_of_one_part(part):
    assert list(make_layout_map(one_device(), [part])) == list(LAYOUTS[part])


@on_jax
def test_layout_map_refuses_unknown_parts_and_axes():
    with pytest.raises(ValueError, match="Expected parts out of .*Received: parts with .'decoder'"):
        make_layout_map(one_device(), ["decoder", "attention"])
    with pytest.raises(ValueError, match="Expected an axis out of .'batch', 'model'.*axis='heads'"):
        make_layout_map(one_device(), axis="heads")
    layouts = make_layout_map(one_device(("batch", "heads")), ["feed_forward"], axis="heads")
    assert list(layouts) == list(LAYOUTS["feed_forward"])
    assert layouts["block_0/feed_forward/expansion/kernel"].axes == (None, "heads")


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX is supported")
def test_layout_map_refuses_other_backends():
    with pytest.raises(ValueError, match="Expected the JAX backend. Received: .* use place_parts"):
        make_layout_map(None)
