"""Each name in the tables of docs/migration.md exists, and each call in them works."""

import re

import keras
import numpy as np

import keras_attn
import keras_attn.convert
import keras_attn.training
from tests.test_documentation import ROOT, run_blocks

CODE = re.compile(r"`([^`]+)`")


def rows():
    """Yields the cells of our side."""
    for line in (ROOT / "docs/migration.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 2 and not cells[1].startswith(("-", "keras-attn")):
            yield cells[1]


def values():
    """New values of the names that the tables use."""
    cell, cells = keras.layers.GRUCell(8), [keras.layers.GRUCell(8), keras.layers.GRUCell(8)]
    a, b, attention = (keras_attn.BahdanauAttention(8) for _ in range(3))
    encoder, decoder = keras_attn.rnn_seq2seq(9, 9, units=8, embedding_dim=8)
    return {
        **{name: getattr(keras_attn, name) for name in keras_attn.__all__},
        **dict.fromkeys(("units", "n", "V", "num_units", "key_dim", "intermediate_dim"), 8),
        **{"cell": cell, "cells": cells, "a": a, "b": b, "attention": attention},
        **{"embedding": keras.layers.ReversibleEmbedding(9, 8), "decoder": decoder},
        **{"keras_attn": keras_attn, "Dense": keras.layers.Dense, "np": np, "num_heads": 2},
        **{"time": 3, "lengths": np.array([3, 2]), "probability": 0.2, "prompts": [[3, 4, 2]]},
        "model": keras_attn.GenerationModel(encoder, keras_attn.GreedyDecoder(decoder)),
    }


def test_calls_in_the_tables_work():
    names = values()
    called = 0
    for cell in rows():
        for code in CODE.findall(cell):
            name = code.split("(")[0].removeprefix("keras_attn.").split(".")[-1]
            if "(" in code and "..." not in code and (name in names or "training." in code):
                eval(code, names)
                called += 1
    assert called > 35


def test_class_names_in_the_tables_exist():
    modules = (keras_attn, keras_attn.training, keras_attn.convert)
    listed = [code for cell in rows() for code in CODE.findall(cell)]
    classes = [name for name in listed if re.fullmatch(r"[A-Z]\w+[a-z]\w*", name)]
    assert len(classes) > 10
    for name in set(classes):
        assert any(hasattr(module, name) for module in modules), name


def test_attention_wrapper_of_tensorflow_addons():
    """The outputs are those that the page describes: `attention_layer` has no bias."""
    outputs = run_blocks("docs/migration.md", {})["outputs"]
    assert outputs.shape == (2, 5, 32)
    inputs, memory = np.random.default_rng(1).normal(size=(2, 2, 5, 6)).astype("float32")
    inner, attention = keras.layers.GRUCell(8), keras_attn.BahdanauAttention(8)
    plain = keras_attn.AttentionRNNCell(inner, attention, input_feeding=False)
    outputs = keras.ops.convert_to_numpy(keras_attn.AttentionRNN(plain)(inputs, memory))
    cell_outputs = keras.ops.convert_to_numpy(keras.layers.RNN(inner, True)(inputs))
    np.testing.assert_allclose(outputs[..., :8], cell_outputs, atol=1e-6)
    linear = keras_attn.AttentionRNNCell(
        inner, attention, input_feeding=False, attention_units=3, attention_activation="linear"
    )
    projected = keras.ops.convert_to_numpy(keras_attn.AttentionRNN(linear)(inputs, memory))
    (kernel,) = (each for each in linear.weights if each.shape == (14, 3))
    expected = outputs @ keras.ops.convert_to_numpy(kernel)
    np.testing.assert_allclose(projected, expected, atol=1e-6)
