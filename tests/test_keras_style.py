"""What a user of Keras tries with a layer works, or the error says what would."""

import functools

import keras
import numpy as np
import pytest
from keras import ops, tree

from keras_attn import (
    AttentionRNN,
    AttentionRNNCell,
    BahdanauAttention,
    BeamDecoder,
    CombinedAttention,
    EnsembleDecoder,
    EnsembleEncoder,
    FeedForward,
    GreedyDecoder,
    IntraDecoderAttention,
    LocalAttention,
    LuongAttention,
    MonotonicAttention,
    MultiHeadAttention,
    RNNCell,
    RNNEncoder,
    SoftAlignment,
    StateBridge,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
    TransformerEncoderBlock,
    rnn_seq2seq,
    transformer_seq2seq,
)
from tests.contracts import assert_identical, numpy, plain
from tests.public_layers import LAYERS, layer_and_inputs
from tests.slow_cases import slow_on_jax

X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")


def cell():
    return AttentionRNNCell(keras.layers.GRUCell(8), BahdanauAttention(6))


STYLES = {
    "[query, value]": (
        lambda: BahdanauAttention(6)([X, X]),
        "separate arguments of BahdanauAttention: query, value, key.*Received: query=list of 2",
    ),
    "[query, value, key] in a tuple": (
        lambda: MultiHeadAttention(2, 4)((X, X, X)),
        "Received: query=tuple of 3",
    ),
    "list of symbolic tensors": (
        lambda: MultiHeadAttention(2, 4)([keras.Input((None, 8))] * 2),
        "separate arguments of MultiHeadAttention",
    ),
    "keras.layers.RNN of an AttentionRNNCell": (
        lambda: keras.layers.RNN(cell()),
        r"also needs encoder outputs. Use AttentionRNN\(cell\)",
    ),
    "RNNEncoder of an AttentionRNNCell": (lambda: RNNEncoder(cell()), "AttentionRNN"),
    "Bidirectional": (
        lambda: keras.layers.Bidirectional(AttentionRNN(cell())),
        "Received: go_backwards=True.*bidirectional=True",
    ),
    "dropout of a mechanism": (
        lambda: BahdanauAttention(6, dropout=0.1),
        "arguments of BahdanauAttention: units, .*Received: dropout=0.1.*MultiHeadAttention",
    ),
    "use_scale": (lambda: LuongAttention(use_scale=True), r"LuongAttention\(..., scale=True\)"),
    "score_mode": (lambda: LuongAttention(score_mode="concat"), 'LuongAttention\\("concat"'),
    "return_sequences": (
        lambda: AttentionRNN(cell(), return_sequences=True),
        "outputs of all steps",
    ),
    "misspelt": (lambda: FeedForward(8, activations="relu"), "intermediate_dim, activation, "),
}


@pytest.mark.parametrize("name", STYLES)
def test_error_says_what_works_instead(name):
    make, message = STYLES[name]
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_explains_lists_and_unknown_arguments(name):
    layer, inputs = layer_and_inputs(name)
    with pytest.raises(ValueError, match=f"separate arguments of {name}: {next(iter(inputs))}"):
        layer([X, X], *([{}] if name == "AttentionRNNCell" else []))
    with pytest.raises(ValueError, match=f"arguments of {name}.*Received: unheard_of=1"):
        layer_and_inputs(name, unheard_of=1)


UNBUILT = {
    "BahdanauAttention": lambda: BahdanauAttention(4).prepare_memory(X),
    "LuongAttention": lambda: LuongAttention().prepare_memory(X),
    "MonotonicAttention": lambda: MonotonicAttention(LuongAttention()).prepare_memory(X),
    "LocalAttention": lambda: LocalAttention(LuongAttention()).prepare_memory(X),
    "MultiHeadAttention": lambda: MultiHeadAttention(2, 4).prepare_memory(X),
    "CombinedAttention": lambda: CombinedAttention({"a": LuongAttention()}).prepare_memory(X),
    "IntraDecoderAttention": lambda: IntraDecoderAttention(LuongAttention()).initial_state(
        {}, 2, max_steps=3
    ),
    "AttentionRNNCell": lambda: cell().prepare_memory(X),
    "TransformerDecoderBlock": lambda: TransformerDecoderBlock(2, 8).prepare_memory(X),
    "TransformerDecoder": lambda: TransformerDecoder(
        TransformerDecoderBlock(2, 8), keras.layers.ReversibleEmbedding(9, 8), num_layers=1
    ).prepare_memory(X),
}


@pytest.mark.parametrize("name", UNBUILT)
def test_method_that_needs_weights_says_that_the_layer_is_not_built(name):
    with pytest.raises(AttributeError, match="is built.*built=False"):
        UNBUILT[name]()


def test_attention_without_weights_need_not_be_built():
    assert LuongAttention("dot").prepare_memory(X)["values"].shape == X.shape


def test_attribute_of_a_built_layer_that_does_not_exist():
    layer = FeedForward(8)
    assert not hasattr(layer, "no_such_attribute")
    layer(X)
    with pytest.raises(AttributeError, match="'FeedForward' object has no attribute 'kernel'.$"):
        layer.kernel  # noqa: B018


# NumPy numbers


def with_numpy_numbers(arguments):
    kinds = {bool: np.bool_, int: np.int64, float: np.float64}

    def convert(value):
        if type(value) in (list, tuple):
            return type(value)(convert(each) for each in value)
        return kinds[type(value)](value) if type(value) in kinds else value

    return {name: convert(value) for name, value in arguments.items()}


@slow_on_jax
@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_takes_numbers_of_numpy(name):
    """All numbers of its configuration may be NumPy's."""
    layer, inputs = layer_and_inputs(name)
    config = layer.get_config()
    numbers = (bool, int, float, list, tuple)
    changed = {key: value for key, value in config.items() if type(value) in numbers}
    changed = {key: value for key, value in changed.items() if key not in ("trainable", "cells")}
    changed = {key: value for key, value in changed.items() if key not in ("decoders", "encoders")}
    copy = type(layer).from_config({**config, **with_numpy_numbers(changed)})
    for each in tree.flatten(plain(copy.get_config())):
        assert not isinstance(each, np.generic)
    own = {key: value for key, value in plain(copy.get_config()).items() if key in changed}
    assert own == {key: plain(config[key]) for key in changed}
    copy(**(LAYERS[name][1](copy) if name == "AttentionRNNCell" else inputs))


TWO = np.int64(2)
SIZES = {
    "MultiHeadAttention": lambda: MultiHeadAttention(TWO, TWO, attention_axes=np.int64(1)),
    "LuongAttention": lambda: LuongAttention("concat", units=TWO),
    "FeedForward": lambda: FeedForward(TWO, dropout=np.float32(0.5)),
    "TransformerEncoderBlock": lambda: TransformerEncoderBlock(TWO, np.int32(2)),
    "AttentionRNNCell": lambda: AttentionRNNCell(
        keras.layers.GRUCell(4), BahdanauAttention(4), attention_units=TWO
    ),
    "StateBridge": lambda: StateBridge([TWO, [TWO]]),
    "rnn_seq2seq": lambda: rnn_seq2seq(np.int64(9), np.int64(9), units=TWO, embedding_dim=TWO)[1],
    "transformer_seq2seq": lambda: transformer_seq2seq(
        *np.array([9, 9]), num_layers=TWO, num_heads=TWO, embedding_dim=TWO, intermediate_dim=TWO
    )[1],
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_of_numpy_are_saved_as_those_of_python(name):
    layer = SIZES[name]()
    config = keras.saving.serialize_keras_object(layer)
    for each in tree.flatten(plain(config)):
        assert not isinstance(each, np.generic)


# Functions that are not registered


def squared_relu(x):
    return ops.square(ops.relu(x))


def square_of(x, activation):
    return ops.square(activation(x))


class SquaredRelu:
    def __call__(self, x):
        return squared_relu(x)


@keras.saving.register_keras_serializable(package="tests")
def registered_relu(x):
    return squared_relu(x)


def small_values(shape, dtype=None):
    return ops.ones(shape, dtype) * 0.01


class SmallValues(keras.initializers.Initializer):
    def __call__(self, shape, dtype=None):
        return small_values(shape, dtype)


FUNCTIONS = {
    "function": {"activation": squared_relu},
    "lambda": {"activation": lambda x: ops.square(ops.relu(x))},
    "initializer": {"kernel_initializer": small_values},
    "initializer class": {"kernel_initializer": SmallValues()},
    "partial": {"activation": functools.partial(square_of, activation=ops.relu)},
    "partial initializer": {"kernel_initializer": functools.partial(small_values)},
    "callable object": {"activation": SquaredRelu()},
    "bound method": {"activation": SquaredRelu().__call__},
    "both": {"activation": squared_relu, "kernel_initializer": small_values},
}
IDS = np.array([[5, 6, 2]], "int32")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_stack_of_a_block_with_a_function_that_is_not_registered(name):
    functions = FUNCTIONS[name]

    def encoder(**arguments):
        block = TransformerEncoderBlock(2, 16, **arguments)
        return TransformerEncoder(block, keras.layers.Embedding(9, 8), num_layers=2)

    made = encoder(**functions)
    outputs = numpy(made(IDS)["encoder_outputs"])
    # A registered function of the same values gives the same results.
    registered = {"activation": registered_relu} if "activation" in functions else {}
    expected = encoder(**{**functions, **registered})
    expected(IDS)
    expected.set_weights(made.get_weights())
    np.testing.assert_allclose(numpy(expected(IDS)["encoder_outputs"]), outputs, rtol=1e-6)
    if "kernel_initializer" in functions:
        kernel = made.stack.blocks[1].feed_forward.expansion.kernel
        np.testing.assert_allclose(numpy(kernel), 0.01)


def test_decoder_and_rnn_of_functions_that_are_not_registered():
    block = TransformerDecoderBlock(2, 16, activation=squared_relu)
    decoder = TransformerDecoder(block, keras.layers.ReversibleEmbedding(9, 8), num_layers=2)
    assert decoder(IDS, encoder_outputs=X[:1]).shape == (1, 3, 9)
    cells = keras.layers.GRUCell(4, activation=squared_relu)
    assert RNNEncoder(cells)(X)["encoder_outputs"].shape == (2, 3, 8)
    stacked = keras.layers.StackedRNNCells([cells, keras.layers.GRUCell(4, seed=1)])
    encoder = RNNEncoder(stacked, bidirectional=False, num_layers=2)
    assert encoder(X)["encoder_outputs"].shape == (2, 3, 4)


def test_model_with_a_function_is_loaded_with_custom_objects(tmp_path):
    block = TransformerEncoderBlock(2, 16, activation=squared_relu)
    encoder = TransformerEncoder(block, keras.layers.Embedding(9, 8), num_layers=2)
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, encoder(inputs)["encoder_outputs"])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"squared_relu": squared_relu}
    )
    assert_identical(numpy(loaded(IDS)), numpy(model(IDS)))


def test_partial_is_never_loaded_as_the_function_inside(tmp_path):
    gelu = functools.partial(keras.activations.gelu, approximate=True)
    model = keras.Sequential([keras.Input((None, 8)), FeedForward(16, activation=gelu)])
    model.save(tmp_path / "model.keras")
    with pytest.raises(TypeError, match="partial_of_gelu"):
        keras.models.load_model(tmp_path / "model.keras")
    loaded = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"partial_of_gelu": gelu}
    )
    assert_identical(numpy(loaded(X)), numpy(model(X)))


def test_keras_cell_with_a_partial_is_refused():
    cells = keras.layers.GRUCell(4, activation=functools.partial(square_of, activation=ops.relu))
    with pytest.raises(
        ValueError, match=r"Received: GRUCell, .* Pass a function \(def or lambda\)"
    ):
        RNNEncoder(cells)


# Wrong calls

EMBEDDING = keras.layers.ReversibleEmbedding(9, 8)
WRONG_PARTS = {
    "block class": (lambda: TransformerEncoder(TransformerEncoderBlock), "block=the class Trans"),
    "block number": (lambda: TransformerEncoder(6), "Transformer block.*Received: block=6"),
    "block Dense": (lambda: TransformerEncoder(keras.layers.Dense(8)), "Received: block=<Dense"),
    "decoder block class": (
        lambda: TransformerDecoder(TransformerDecoderBlock, EMBEDDING),
        "Received: block=the class TransformerDecoderBlock",
    ),
    "embedding class": (
        lambda: TransformerEncoder(TransformerEncoderBlock(2, 4), keras.layers.Embedding),
        "embedding to be a Keras layer or None. Received: embedding=the class Embedding",
    ),
    "embedding number": (lambda: RNNEncoder(keras.layers.GRUCell(3), 10), "embedding=10"),
    "head number": (
        lambda: TransformerDecoder(TransformerDecoderBlock(2, 4), EMBEDDING, head=10),
        "head to be a Keras layer or None. Received: head=10",
    ),
    "cell class": (lambda: AttentionRNN(AttentionRNNCell), "cell=the class AttentionRNNCell"),
    "decoders": (lambda: EnsembleDecoder(RNNEncoder(keras.layers.GRUCell(3))), "list of at least"),
    "encoders": (lambda: EnsembleEncoder([RNNEncoder]), r"Received: encoders=\['RNNEncoder'\]"),
    "transform": (lambda: SoftAlignment(keras.layers.Dense), "transform=the class Dense"),
    "dropout": (lambda: FeedForward(4, dropout="0.1"), "Received: dropout='0.1'"),
}


@pytest.mark.parametrize("name", WRONG_PARTS)
def test_wrong_parts_are_refused(name):
    make, message = WRONG_PARTS[name]
    with pytest.raises(ValueError, match=message):
        make()


TWO_INPUTS = {
    "additive": lambda: BahdanauAttention(6),
    "local": lambda: LocalAttention(LuongAttention(), window=2),
    "monotonic": lambda: MonotonicAttention(BahdanauAttention(6)),
    "heads": lambda: MultiHeadAttention(2, 4),
    "blockwise": lambda: MultiHeadAttention(2, 4, flash_attention=True),
    "soft alignment": lambda: SoftAlignment(keras.layers.Dense(4)),
    "loop": lambda: AttentionRNN(cell()),
    "block": lambda: TransformerDecoderBlock(2, 4),
}


@pytest.mark.parametrize("name", TWO_INPUTS)
def test_inputs_of_different_batch_sizes_are_refused(name):
    others = np.ones((3, 4, 8), "float32")
    message = r"same batch size. Received: \w+ with shape \(2, 3, 8\), \w+ with shape \(3, 4, 8\)"
    with pytest.raises(ValueError, match=message):
        TWO_INPUTS[name]()(X, others)


def test_decoders_refuse_a_memory_of_another_batch_size():
    for pair in (rnn_seq2seq, transformer_seq2seq):
        options = {"num_layers": 1, "num_heads": 2, "intermediate_dim": 4}
        encoder, decoder = pair(9, 9, embedding_dim=4, **(options if "trans" in str(pair) else {}))
        with pytest.raises(ValueError, match="same batch size. Received: token_ids with shape"):
            decoder(np.ones((2, 3), "int32"), **encoder(np.ones((3, 4), "int32")))


def test_keys_and_values_of_different_lengths_are_refused():
    for layer in (BahdanauAttention(6), MultiHeadAttention(2, 4)):
        with pytest.raises(
            ValueError, match=r"value and key of the same length.*value with shape \(2, 3, 8\)"
        ):
            layer(X, X, np.ones((2, 5, 8), "float32"))


# Activations that are layers


def prelu():
    return keras.layers.PReLU(alpha_initializer="uniform", shared_axes=[1])


WITH_ACTIVATIONS = {
    "FeedForward": lambda: FeedForward(16, activation=prelu()),
    "TransformerEncoderBlock": lambda: TransformerEncoderBlock(2, 16, activation=prelu()),
    "TransformerDecoderBlock": lambda: TransformerDecoderBlock(
        2, 16, cross_attention=False, activation=prelu()
    ),
    "TransformerEncoder": lambda: TransformerEncoder(
        TransformerEncoderBlock(2, 16, activation=prelu()), num_layers=2
    ),
    "RNNCell": lambda: keras.layers.RNN(RNNCell(4, activation=keras.layers.PReLU())),
    "AttentionRNNCell": lambda: AttentionRNN(
        AttentionRNNCell(
            keras.layers.GRUCell(4),
            IntraDecoderAttention(LuongAttention()),
            attention_units=4,
            attention_activation=keras.layers.PReLU(),
        )
    ),
    "RNNEncoder": lambda: RNNEncoder(
        keras.layers.SimpleRNNCell(4, activation=keras.layers.PReLU()), num_layers=2
    ),
}


@pytest.mark.parametrize("name", WITH_ACTIVATIONS)
def test_activation_with_weights_is_saved_and_loaded(name, tmp_path):
    inputs = keras.Input((None, 8))
    arguments = (inputs, inputs) if name == "AttentionRNNCell" else (inputs,)
    outputs = WITH_ACTIVATIONS[name]()(*arguments)
    model = keras.Model(inputs, outputs["encoder_outputs"] if "Encoder" == name[-7:] else outputs)
    generator = np.random.default_rng(0)
    model.set_weights([generator.normal(size=each.shape) for each in model.get_weights()])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert any("alpha" in each.path for each in loaded.weights)
    assert_identical(numpy(loaded(X)), numpy(model(X)))


# stateless_call


@pytest.mark.parametrize("name", sorted(set(LAYERS) - {"AttentionRNNCell", "SamplingDecoder"}))
def test_stateless_call_equals_the_call(name):
    layer, inputs = layer_and_inputs(name)
    expected = numpy(layer(**inputs))
    trainable = [each.value * 1 for each in layer.trainable_variables]
    others = [each.value * 1 for each in layer.non_trainable_variables]
    for each in layer.trainable_variables:
        each.assign(ops.zeros_like(each.value))
    for training in ({}, {"training": False}, {"training": True}):
        outputs, new = layer.stateless_call(trainable, others, **inputs, **training)
        for one, other in zip(tree.flatten(outputs), tree.flatten(expected), strict=True):
            if one is not None:
                np.testing.assert_allclose(numpy(one), other, rtol=1e-5, atol=1e-6)
        assert len(new) == len(others)


DROPOUT = {
    "FeedForward": lambda: FeedForward(16, dropout=0.5),
    "MultiHeadAttention": lambda: MultiHeadAttention(2, 4, dropout=0.5),
    "TransformerEncoderBlock": lambda: TransformerEncoderBlock(2, 16, dropout=0.5),
    "TransformerDecoderBlock": lambda: TransformerDecoderBlock(
        2, 16, dropout=0.5, cross_attention=False
    ),
    "TransformerEncoder": lambda: TransformerEncoder(
        TransformerEncoderBlock(2, 16), num_layers=1, dropout=0.5
    ),
    "RNNEncoder": lambda: RNNEncoder(keras.layers.GRUCell(4), dropout=0.5),
    "MonotonicAttention": lambda: MonotonicAttention(LuongAttention(), sigmoid_noise=3.0),
}


@pytest.mark.parametrize("name", DROPOUT)
def test_stateless_call_in_training_draws_and_returns_the_new_seed(name):
    layer, arguments = DROPOUT[name](), (X, X) if "Monotonic" in name else (X,)
    layer(*arguments)
    values = [
        [each.value for each in variables]
        for variables in (layer.trainable_variables, layer.non_trainable_variables)
    ]

    def outputs(values, **training):
        found, new = layer.stateless_call(*values, *arguments, **training)
        return numpy(found["encoder_outputs"] if isinstance(found, dict) else found), new

    inference, unchanged = outputs(values, training=False)
    default, _ = outputs(values)
    np.testing.assert_array_equal(default, inference)
    for new, old in zip(unchanged, values[1], strict=True):
        np.testing.assert_array_equal(numpy(new), numpy(old))
    training, new = outputs(values, training=True)
    assert np.abs(training - inference).max() > 1e-3
    assert any((numpy(one) != numpy(old)).any() for one, old in zip(new, values[1], strict=True))


def test_stateless_call_refuses_too_few_values():
    layer = FeedForward(16)
    with pytest.raises(ValueError, match="Received: built=False"):
        layer.stateless_call([], [], X)
    layer(X)
    with pytest.raises(ValueError, match="4 trainable.*Received: built=True, 0 trainable"):
        layer.stateless_call([], [], X)


# Sizes that no machine can hold


def decoder():
    block = TransformerDecoderBlock(2, 8)
    return TransformerDecoder(block, keras.layers.ReversibleEmbedding(9, 8), num_layers=1)


def test_absurd_sizes_of_a_search_are_refused():
    with pytest.raises(ValueError, match=r"in \[1, 4096\].*beam_width=1000000"):
        BeamDecoder(decoder(), beam_width=1_000_000)
    with pytest.raises(ValueError, match=r"in \[0, 2\*\*31\).*max_length=10000000000"):
        GreedyDecoder(decoder(), max_length=10**10)
    assert BeamDecoder(decoder(), beam_width=4096).beam_width == 4096
