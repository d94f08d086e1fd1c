"""A layer computes in the dtype that it is given, or refuses parts of another dtype."""

import keras
import numpy as np
import pytest
from keras import tree

from keras_attn import (
    AttentionRNN,
    AttentionRNNCell,
    BahdanauAttention,
    CombinedAttention,
    IntraDecoderAttention,
    LocalAttention,
    LuongAttention,
    MonotonicAttention,
    MultiHeadAttention,
    RNNDecoder,
    RNNEncoder,
    SoftAlignment,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from tests.backend import precision, requires_tensorflow
from tests.contracts import assert_close, numpy
from tests.public_layers import LAYERS, layer_and_inputs, public_layers
from tests.slow_cases import all_slow_but

FLOAT32_OUTPUTS = {
    *("AlibiBias", "TiedMLMHead"),
    *("CausalLanguageModel", "EnsembleDecoder", "FusedDecoder"),
    *("RNNDecoder", "TransformerDecoder"),
    *("AlternativesDecoder", "BeamDecoder", "GreedyDecoder", "SamplingDecoder"),
}
"""Layers that document float32 outputs: logits, scores, distances."""
OWN_DTYPES = {"EnsembleEncoder"}
"""Layers whose members have dtypes of their own."""


def test_every_public_layer_is_tested():
    assert set(LAYERS) == set(public_layers())


def floats(nested):
    leaves = [each for each in tree.flatten(nested) if each is not None]
    dtypes = [keras.backend.standardize_dtype(each.dtype) for each in leaves]
    return [(each, dtype) for each, dtype in zip(leaves, dtypes, strict=True) if "float" in dtype]


def symbolic(nested):
    return tree.map_structure(
        lambda each: keras.KerasTensor(
            tuple(each.shape), keras.backend.standardize_dtype(each.dtype)
        ),
        nested,
    )


def check_outputs(name, layer, inputs):
    """The dtypes of symbolic and computed outputs are equal, and that of the layer."""
    computed, expected = layer(**inputs), layer(**symbolic(inputs))
    dtypes = [dtype for _, dtype in floats(computed)]
    assert dtypes == [dtype for _, dtype in floats(expected)]
    if name in FLOAT32_OUTPUTS:
        assert set(dtypes) <= {"float32"}
    elif name not in OWN_DTYPES:
        assert set(dtypes) <= {layer.compute_dtype}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_computes_in_its_dtype_or_refuses_its_parts(name):
    try:
        layer, inputs = layer_and_inputs(name, dtype="mixed_bfloat16")
    except ValueError as error:
        assert "bfloat16" in str(error) and "float32" in str(error) and name in str(error)
    else:
        check_outputs(name, layer, inputs)


@pytest.mark.parametrize("name", LAYERS)
def test_layer_computes_in_the_global_dtype(name):
    with precision("mixed_bfloat16"):
        layer, inputs = layer_and_inputs(name)
        check_outputs(name, layer, inputs)


def luong(**arguments):
    return LuongAttention("general", **arguments)


def gru(**arguments):
    return keras.layers.GRUCell(4, **arguments)


HALF = {"dtype": "mixed_bfloat16"}
OTHER_PARTS = {
    "MonotonicAttention.mechanism": lambda: MonotonicAttention(luong(), **HALF),
    "LocalAttention.mechanism": lambda: LocalAttention(luong(), **HALF),
    "IntraDecoderAttention.mechanism": lambda: IntraDecoderAttention(luong(), **HALF),
    "CombinedAttention.attentions": lambda: CombinedAttention({"a": luong()}, **HALF),
    "CombinedAttention.one of several": lambda: CombinedAttention(
        {"a": luong(**HALF), "b": luong()}, **HALF
    ),
    "AttentionRNNCell.attention": lambda: AttentionRNNCell(gru(), luong(**HALF)),
    "AttentionRNNCell.cell": lambda: AttentionRNNCell(gru(), luong(**HALF), **HALF),
    "AttentionRNNCell.cells": lambda: AttentionRNNCell([gru(**HALF), gru()], **HALF),
    "AttentionRNN.cell": lambda: AttentionRNN(AttentionRNNCell(gru(), luong()), **HALF),
    "AttentionRNN.plain cell": lambda: AttentionRNN(gru(), **HALF),
    "RNNDecoder.cell": lambda: RNNDecoder(
        AttentionRNNCell(gru(), luong()), keras.layers.ReversibleEmbedding(9, 4), **HALF
    ),
    "RNNEncoder.cell": lambda: RNNEncoder(gru(**HALF)),
    "RNNEncoder.stack of cells": lambda: RNNEncoder(
        keras.layers.StackedRNNCells([gru(), gru()], **HALF)
    ),
    "TransformerEncoder.block": lambda: TransformerEncoder(TransformerEncoderBlock(2, 8, **HALF)),
}


@pytest.mark.parametrize("name", OTHER_PARTS)
def test_part_of_another_dtype_is_refused(name):
    with pytest.raises(ValueError, match="compute_dtype='(bfloat16|float32)'.*same dtype") as error:
        OTHER_PARTS[name]()
    assert "'bfloat16'" in str(error.value) and "'float32'" in str(error.value)


@pytest.mark.parametrize("name", ["stack", "rnn", "stacked cells"])
def test_copies_of_a_pattern_have_the_dtype_of_the_encoder(name, tmp_path):
    if name == "stack":
        encoder = TransformerEncoder(TransformerEncoderBlock(2, 8), num_layers=1, **HALF)
    elif name == "rnn":
        encoder = RNNEncoder(gru(), **HALF)
    else:
        encoder = RNNEncoder(keras.layers.StackedRNNCells([gru(), gru()]), **HALF)
    inputs = keras.Input((None, 4))
    model = keras.Model(inputs, encoder(inputs)["encoder_outputs"])
    for layer in model._flatten_layers():
        if layer is not model and not isinstance(layer, keras.layers.InputLayer):
            assert layer.compute_dtype == "bfloat16", layer.path
    model.save(tmp_path / "model.keras")
    with precision("mixed_float16"):
        loaded = keras.models.load_model(tmp_path / "model.keras")
    x = np.ones((2, 3, 4), "float32")
    assert keras.backend.standardize_dtype(loaded(x).dtype) == "bfloat16"
    np.testing.assert_array_equal(
        numpy(loaded(x)).astype("float32"), numpy(model(x)).astype("float32")
    )


def test_transform_of_another_dtype_is_cast():
    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    layer = SoftAlignment(keras.layers.Dense(6), **HALF)
    full = SoftAlignment(keras.layers.Dense(6))
    full(x, x)
    results = layer(x, x)
    layer.set_weights(full.get_weights())
    results = layer(x, x)
    assert {dtype for _, dtype in floats(results)} == {"bfloat16"}
    for half, expected in zip(results, full(x, x), strict=True):
        np.testing.assert_allclose(numpy(half).astype("float32"), numpy(expected), atol=0.05)


def _directions(arrays, generator):
    return [
        generator.normal(size=each.shape) if np.asarray(each).dtype.kind == "f" else None
        for each in arrays
    ]


def _moved(arrays, directions, step):
    return [
        each if direction is None else np.asarray(each, "float64") + step * direction
        for each, direction in zip(arrays, directions, strict=True)
    ]


FLOAT64_LAYERS = sorted(set(LAYERS) - FLOAT32_OUTPUTS) + ["AlibiBias"]
if keras.backend.backend() == "jax":  # the GRU cell of Keras has a tanh in float32
    FLOAT64_LAYERS = sorted(
        set(FLOAT64_LAYERS) - {"AttentionRNN", "AttentionRNNCell", "RNNEncoder"}
    )
# Layers with functions that lose precision on JAX.
FLOAT64_ON_JAX = [
    *("BahdanauAttention", "CombinedAttention", "CoverageAttention", "LocalAttention", "RNNCell"),
    *("RotaryPositions", "SinusoidalPositions", "StateBridge"),
]


@pytest.fixture
def allow_float64():
    """JAX has float64 only where a global setting allows it."""
    if keras.backend.backend() != "jax":
        yield
        return
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


needs_float64 = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="`ops.matmul` computes in float32 on PyTorch"
)


@needs_float64
@pytest.mark.usefixtures("allow_float64")
@pytest.mark.parametrize(
    "name", all_slow_but(*FLOAT64_LAYERS, cases=FLOAT64_LAYERS, on_jax=FLOAT64_ON_JAX)
)
def test_float64_layer_has_the_precision_of_float64(name):
    """Finite differences of two step sizes agree: rounding to float32 would make them noise."""
    with precision("float64"):
        layer, inputs = layer_and_inputs(name)
        layer(**inputs)
    generator = np.random.default_rng(0)
    start = [generator.normal(0, 0.5, each.shape) for each in layer.get_weights()]
    leaves = [numpy(each) for each in tree.flatten(inputs)]
    weights_direction, inputs_direction = _directions(start, generator), None
    inputs_direction = _directions(leaves, generator)

    def outputs(step):
        layer.set_weights(_moved(start, weights_direction, step))
        moved = tree.pack_sequence_as(inputs, _moved(leaves, inputs_direction, step))
        results = floats(layer(**moved))
        assert results and all(dtype == "float64" for _, dtype in results)
        return np.concatenate([numpy(each).reshape(-1) for each, _ in results])

    def slope(step):
        return (outputs(step) - outputs(-step)) / (2 * step)

    np.testing.assert_allclose(slope(1e-6), slope(2e-6), rtol=0, atol=1e-6)


@needs_float64
@pytest.mark.usefixtures("allow_float64")
def test_float64_decoder_has_float64_states():
    with precision("float64"):
        decoder, inputs = layer_and_inputs("RNNDecoder")
        assert {dtype for _, dtype in floats(decoder(**inputs))} == {"float32"}
        memory = decoder.prepare_memory(inputs["encoder_outputs"], inputs["encoder_mask"])
        state = decoder.initial_state(memory)
        _, next_state = decoder.step(inputs["token_ids"][:, 0], state, memory)
    for each in (memory, state, next_state):
        assert {dtype for _, dtype in floats(each)} <= {"float64"}


@requires_tensorflow("Keras' layer computes in float32 on JAX")
@pytest.mark.parametrize("flash", [None, True])
def test_float64_multi_head_attention_equals_keras(flash):
    x = np.random.default_rng(0).normal(size=(2, 5, 8))
    theirs = keras.layers.MultiHeadAttention(2, 4, dtype="float64")
    ours = MultiHeadAttention(2, 4, flash_attention=flash, dtype="float64")
    ours(x)
    expected = numpy(theirs(x, x))
    weights = zip(theirs.get_weights(), ours.get_weights(), strict=True)
    ours.set_weights([weight.reshape(own.shape) for weight, own in weights])
    assert_close(numpy(ours(x)), expected, 1e-14)


@requires_tensorflow("a GradientTape")
def test_float64_additive_attention_in_chunks_has_float64_gradients():
    import tensorflow as tf

    x = tf.constant(np.random.default_rng(0).normal(size=(2, 5, 8)))
    whole, chunked = (BahdanauAttention(4, chunk_size=each, dtype="float64") for each in (None, 2))
    whole(x, x), chunked(x, x)
    chunked.set_weights(whole.get_weights())
    gradients = []
    for layer in (whole, chunked):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(layer(x, x)))
        gradients.append([each.numpy() for each in tape.gradient(loss, layer.trainable_weights)])
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-14)
