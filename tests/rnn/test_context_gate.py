"""The gate of the context of an `AttentionRNNCell`."""

import keras
import numpy as np
import pytest

from keras_attn import AttentionRNN, AttentionRNNCell, BahdanauAttention
from tests.contracts import assert_close, numpy, randomize

GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.normal(size=(2, 4, 3)).astype("float32")
MEMORY = GENERATOR.normal(size=(2, 5, 6)).astype("float32")


def make_layer(context_gate, **options):
    cell = AttentionRNNCell(
        keras.layers.GRUCell(4), BahdanauAttention(5), context_gate=context_gate, **options
    )
    return AttentionRNN(cell)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def gated_and_plain(**options):
    gated, plain = make_layer(True, **options), make_layer(False, **options)
    gated(INPUTS, MEMORY), plain(INPUTS, MEMORY)
    randomize(gated)
    gate = gated.cell.gate_layer
    others = [each for each in gated.weights if all(each is not one for one in gate.weights)]
    plain.set_weights([numpy(each) for each in others])
    return gated, plain, *map(numpy, gate.weights)


@pytest.mark.parametrize("all_at_once", [True, False])
def test_context_gate_multiplies_the_context_by_a_function_of_the_query(all_at_once):
    options = {"input_feeding": False}
    gated, plain, kernel, bias = gated_and_plain(**options)
    outputs, expected = numpy(gated(INPUTS, MEMORY)), numpy(plain(INPUTS, MEMORY))
    if not all_at_once:  # step by step
        memory = gated.cell.prepare_memory(MEMORY)
        state = gated.cell.get_initial_state(2, memory=memory)
        steps = []
        for t in range(4):
            output, state = gated.cell(INPUTS[:, t], state, memory)
            steps.append(numpy(output))
        outputs = np.stack(steps, axis=1)
    hidden, context = expected[..., :4], expected[..., 4:]
    gate = sigmoid(hidden @ kernel + bias)
    assert_close(outputs, np.concatenate([hidden, gate * context], axis=-1))


def test_context_gate_sees_the_previous_state_as_in_xu_et_al():
    gated, plain, kernel, bias = gated_and_plain(query_from="previous_state", input_feeding=False)
    memory = gated.cell.prepare_memory(MEMORY)
    previous = GENERATOR.normal(size=(2, 4)).astype("float32")
    state = gated.cell.get_initial_state(2, previous, memory)
    output, _ = gated.cell(INPUTS[:, 0], state, memory)
    context, _, _ = gated.cell.attention.attend_step(previous, memory, {})
    context = sigmoid(previous @ kernel + bias) * numpy(context)
    inner = np.concatenate([INPUTS[:, 0], context], axis=-1)
    hidden, _ = gated.cell.cell(inner, [previous])
    assert_close(numpy(output), np.concatenate([numpy(hidden), context], axis=-1))


def test_context_gate_is_saved_and_needs_attention():
    cell = make_layer(True).cell
    assert AttentionRNNCell.from_config(cell.get_config()).context_gate is True
    with pytest.raises(ValueError, match="context_gate=False for a cell without attention"):
        AttentionRNNCell(keras.layers.GRUCell(4), context_gate=True)
