import keras
import numpy as np
import pytest
from keras import tree

from keras_attn import (
    AttentionRNN,
    AttentionRNNCell,
    BahdanauAttention,
    LuongAttention,
    MultiHeadAttention,
    RNNCell,
    record_attention_scores,
)
from keras_attn.testing import check_layer
from tests import oracles
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, assert_identical, numpy, plain, randomize
from tests.rnn.minimal_cell import MinimalCell
from tests.rnn.numpy_steps import numpy_step, top
from tests.slow_cases import all_slow_but

GENERATOR = np.random.default_rng(0)
INPUTS = GENERATOR.normal(size=(2, 4, 3)).astype("float32")
MEMORY = GENERATOR.normal(size=(2, 6, 7)).astype("float32")
MASK = np.array([[True] * 4 + [False] * 2, [True, False, True, True, True, True]])
TARGET_MASK = np.array([[True, True, True, False], [True, False, True, True]])

CELLS = {
    "lstm": lambda: keras.layers.LSTMCell(5),
    "gru": lambda: keras.layers.GRUCell(5),
    "simple rnn": lambda: keras.layers.SimpleRNNCell(5),
    "rnn cell": lambda: RNNCell(5),
    "rnn cell with outputs": lambda: RNNCell(4, output_units=5),
    "list": lambda: [keras.layers.LSTMCell(4), keras.layers.GRUCell(5)],
    "stack": lambda: keras.layers.StackedRNNCells(
        [keras.layers.GRUCell(6), keras.layers.SimpleRNNCell(4), keras.layers.LSTMCell(5)]
    ),
    "written by the user": lambda: MinimalCell(5),
    "stack of one": lambda: [keras.layers.LSTMCell(5)],
}
ORDERS = [
    (query, input_feeding)
    for query in ("cell_output", "previous_state")
    for input_feeding in (False, True)
]


def make_layer(cell="gru", attention=None, return_state=False, **kwargs):
    attention = BahdanauAttention(6) if attention is None else attention
    cell = AttentionRNNCell(CELLS[cell](), attention, **kwargs)
    layer = AttentionRNN(cell, return_state=return_state)
    layer(INPUTS, MEMORY)
    return randomize(layer)


def random_state(layer):
    def random(cell):
        sizes = [cell.state_size] if isinstance(cell.state_size, int) else cell.state_size
        return [GENERATOR.normal(size=(2, size)).astype("float32") for size in sizes]

    cell = layer.cell.cell
    if isinstance(cell, keras.layers.StackedRNNCells):
        return [random(each) for each in cell.cells]
    return random(cell)


def expected_run(layer, b, initial_state, vector_layer=None):
    """Outputs, weights and last state of sentence b, by the oracle."""
    attention = layer.cell.attention
    kernels = numpy([attention.query_kernel, attention.key_kernel, attention.vector])

    def attend(query):
        scores = oracles.bahdanau_scores(
            query[None], MEMORY[b], kernels[0], kernels[1], kernels[2][:, 0]
        )
        context, weights = oracles.attend(scores, MEMORY[b], MASK[b])
        return context[0], weights[0]

    return oracles.attention_rnn(
        INPUTS[b],
        plain(tree.map_structure(lambda leaf: leaf[b], initial_state)),
        numpy_step(layer.cell.cell),
        top,
        attend,
        MEMORY.shape[-1],
        layer.cell.query_from,
        layer.cell.input_feeding,
        vector_layer,
    )


@pytest.mark.parametrize(("query", "input_feeding"), ORDERS)
@pytest.mark.parametrize(
    "cell", all_slow_but(*CELLS, cases=CELLS, on_jax=["lstm", "rnn cell with outputs", "stack"])
)
def test_equals_the_equations_for_any_cell(cell, query, input_feeding):
    layer = make_layer(cell, query_from=query, input_feeding=input_feeding, return_state=True)
    state = random_state(layer)
    outputs, weights, last = numpy(
        layer(
            INPUTS,
            MEMORY,
            encoder_mask=MASK,
            initial_state=state,
            return_attention_scores=True,
        )
    )
    tree.assert_same_structure(plain(last), plain(state))
    for b in range(2):
        expected = expected_run(layer, b, state)
        assert_close((outputs[b], weights[b]), expected[:2])
        own = tree.map_structure(lambda leaf: leaf[b], last)  # noqa: B023
        assert_close(own, expected[2])


@pytest.mark.parametrize("activation", ["tanh", "linear"])
@pytest.mark.parametrize(("query", "input_feeding"), ORDERS)
def test_equals_the_equations_with_an_attention_vector(query, input_feeding, activation):
    layer = make_layer(
        query_from=query,
        input_feeding=input_feeding,
        attention_units=8,
        attention_activation=activation,
    )
    kernel = numpy(layer.cell.attention_layer.kernel)
    nonlinearity = np.tanh if activation == "tanh" else np.array
    outputs, weights = numpy(layer(INPUTS, MEMORY, MASK, return_attention_scores=True))
    assert outputs.shape == (2, 4, 8)
    for b in range(2):
        expected = expected_run(
            layer, b, [np.zeros((2, 5))], lambda joined: nonlinearity(joined @ kernel)
        )
        assert_close((outputs[b], weights[b]), expected[:2])


@pytest.mark.parametrize(
    ("cell", "query", "input_feeding"),
    [
        ("list", "cell_output", False),
        ("rnn cell with outputs", "previous_state", True),
    ],
)
def test_is_a_good_layer(cell, query, input_feeding):
    check_layer(
        lambda: AttentionRNN(
            AttentionRNNCell(
                CELLS[cell](),
                LuongAttention("concat", units=6),
                query_from=query,
                input_feeding=input_feeding,
                attention_units=4,
            )
        ),
        {"inputs": INPUTS, "encoder_outputs": MEMORY, "encoder_mask": MASK},
        masked={"encoder_outputs": "encoder_mask"},
    )


def loop_over_steps(layer, state):
    """All outputs, by calling the cell once a step."""
    cell = layer.cell
    memory = cell.prepare_memory(MEMORY, MASK)
    state = cell.get_initial_state(2, state, memory, alignments=True)
    outputs, weights = [], []
    for t in range(INPUTS.shape[1]):
        output, state = cell(INPUTS[:, t], state, memory)
        outputs.append(numpy(output))
        weights.append(numpy(state["alignments"]))
    return np.stack(outputs, axis=1), np.stack(weights, axis=1), numpy(state["cell"])


@pytest.mark.parametrize("cell", CELLS)
def test_all_positions_at_once_give_what_single_steps_give(cell):
    layer = make_layer(cell, input_feeding=False, attention_units=4, return_state=True)
    assert not layer.cell.requires_time_loop
    state = random_state(layer)
    outputs, weights, last = loop_over_steps(layer, state)
    received = numpy(layer(INPUTS, MEMORY, MASK, state, return_attention_scores=True))
    assert_close(received[:2], (outputs, weights))
    assert_close(received[2], last)


@pytest.mark.parametrize(
    ("cell", "kind"),
    [("lstm", keras.layers.LSTM), ("gru", keras.layers.GRU), ("list", keras.layers.RNN)],
)
def test_a_cell_with_a_fused_kernel_runs_in_it(cell, kind):
    assert type(AttentionRNN(CELLS[cell]()).rnn) is kind


def test_only_what_needs_the_step_before_is_a_loop():
    requires_time_loop = {
        order: AttentionRNNCell(
            keras.layers.GRUCell(5),
            BahdanauAttention(6),
            query_from=order[0],
            input_feeding=order[1],
        ).requires_time_loop
        for order in ORDERS
    }
    assert requires_time_loop == {order: order != ("cell_output", False) for order in ORDERS}
    assert not AttentionRNNCell(keras.layers.GRUCell(5)).requires_time_loop


@pytest.mark.parametrize("input_feeding", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "list"])
def test_masked_steps_leave_the_state_as_it_is(cell, input_feeding):
    layer = make_layer(cell, input_feeding=input_feeding, return_state=True)
    outputs, state = numpy(layer(INPUTS, MEMORY, MASK, mask=TARGET_MASK))
    for b in range(2):
        real = TARGET_MASK[b]
        short = numpy(layer(INPUTS[b : b + 1, real], MEMORY[b : b + 1], MASK[b : b + 1]))
        assert_close(outputs[b : b + 1, real], short[0])
        assert_close(tree.map_structure(lambda leaf: leaf[b : b + 1], state), short[1])  # noqa: B023


def test_returns_what_is_asked_for():
    layer = make_layer(attention_units=4)
    assert tuple(layer(INPUTS, MEMORY).shape) == (2, 4, 4)
    outputs, weights = layer(INPUTS, MEMORY, return_attention_scores=True)
    assert (tuple(outputs.shape), tuple(weights.shape)) == ((2, 4, 4), (2, 4, 6))
    layer = make_layer(attention_units=4, return_state=True)
    outputs, weights, state = layer(INPUTS, MEMORY, return_attention_scores=True)
    assert [tuple(leaf.shape) for leaf in tree.flatten(state)] == [(2, 5)]


@pytest.mark.parametrize("input_feeding", [False, True])
def test_a_memory_of_nothing_gives_zero_weights_and_contexts(input_feeding):
    layer = make_layer("lstm", input_feeding=input_feeding)
    nothing = np.array([[False] * 6, [True] * 6])
    outputs, weights = numpy(layer(INPUTS, MEMORY, nothing, return_attention_scores=True))
    assert (weights[0] == 0).all() and (outputs[0, :, 5:] == 0).all()
    assert_close(weights[1].sum(axis=-1), np.ones(4))


@pytest.mark.parametrize("cell", ["lstm", "list"])
def test_without_attention_it_is_the_recurrent_layer_of_keras(cell):
    layer = AttentionRNN(CELLS[cell](), return_state=True)
    layer(INPUTS)
    randomize(layer)
    plain = keras.layers.RNN(CELLS[cell](), return_sequences=True)
    plain(INPUTS)
    plain.set_weights(layer.get_weights())
    outputs, _ = layer(INPUTS)
    assert_close(numpy(outputs), numpy(plain(INPUTS)))


# What the query is made of.

FEATURES = GENERATOR.normal(size=(2, 2)).astype("float32")
COMPOSED = {
    "all after the cell": ("inputs", "cell_output", "context", "previous_state", "features"),
    "all before the cell": ("previous_state", "context", "features", "inputs"),
    "state and output": ("cell_output", "previous_state"),
    "no step before": ("cell_output", "inputs", "features"),
}


def composed_layer(names, **kwargs):
    cell = AttentionRNNCell(
        keras.layers.GRUCell(5), BahdanauAttention(6), query_from=COMPOSED[names], **kwargs
    )
    layer = AttentionRNN(cell)
    layer(INPUTS, MEMORY, query_features=FEATURES)
    return randomize(layer)


@pytest.mark.parametrize("names", COMPOSED)
def test_a_query_of_several_parts(names):
    layer = composed_layer(names, input_feeding=False)
    cell, attention = layer.cell.cell, layer.cell.attention
    assert layer.cell.requires_time_loop == (names != "no step before")
    received = numpy(
        layer(INPUTS, MEMORY, MASK, return_attention_scores=True, query_features=FEATURES)
    )
    step = numpy_step(cell)
    for b in range(2):
        state, context = [np.zeros(5)], np.zeros(7)
        for t, x in enumerate(INPUTS[b]):
            parts = {"inputs": x, "context": context, "features": FEATURES[b]}
            parts["previous_state"] = top(state)
            if names == "all before the cell":
                context, weights = composed_attend(attention, parts, names, b)
                hidden, state = step(np.concatenate([x, context]), state)
            else:
                hidden, state = step(x, state)
                parts["cell_output"] = hidden
                context, weights = composed_attend(attention, parts, names, b)
            assert_close(received[0][b, t], np.concatenate([hidden, context]))
            assert_close(received[1][b, t], weights)


def composed_attend(attention, parts, names, b):
    query = np.concatenate([parts[name] for name in COMPOSED[names]])
    kernels = numpy([attention.query_kernel, attention.key_kernel, attention.vector])
    scores = oracles.bahdanau_scores(query[None], MEMORY[b], *kernels[:2], kernels[2][:, 0])
    return [each[0] for each in oracles.attend(scores, MEMORY[b], MASK[b])]


def test_the_beams_of_a_sentence_share_its_features():
    layer = composed_layer("all after the cell")
    cell = layer.cell
    memory = cell.prepare_memory(MEMORY, MASK, FEATURES)
    together, _ = cell(np.repeat(INPUTS[:, 0], 3, axis=0), cell.get_initial_state(6), memory)
    alone, _ = cell(INPUTS[:, 0], cell.get_initial_state(2), memory)
    assert_close(numpy(together), np.repeat(numpy(alone), 3, axis=0))


def test_a_composed_query_is_a_good_layer():
    check_layer(
        lambda: AttentionRNN(
            AttentionRNNCell(
                keras.layers.LSTMCell(5),
                LuongAttention("concat", units=6),
                query_from=["cell_output", "context", "features"],
            )
        ),
        {
            "inputs": INPUTS,
            "encoder_outputs": MEMORY,
            "encoder_mask": MASK,
            "query_features": FEATURES,
        },
    )


def test_a_layer_from_a_config_leaves_the_config_as_it_is():
    layer = make_layer()
    for each in (layer, layer.cell):
        config = each.get_config()
        names = set(config)
        for _ in range(2):
            type(each).from_config(config)
        assert isinstance(config["cell"], dict) and set(config) == names


def test_a_layer_that_is_none_of_the_attentions_is_refused():
    with pytest.raises(ValueError, match="attention to be an attention layer of keras_attn"):
        AttentionRNNCell(keras.layers.GRUCell(5), keras.layers.AdditiveAttention())


def test_features_must_be_given_to_a_built_layer_too():
    with pytest.raises(ValueError, match="Expected query_features .*query_features=None"):
        composed_layer("no step before")(INPUTS, MEMORY)


def test_features_must_be_given():
    cell = AttentionRNNCell(
        keras.layers.GRUCell(5), BahdanauAttention(6), query_from=("cell_output", "features")
    )
    with pytest.raises(ValueError, match="Expected query_features .*query_features=None"):
        AttentionRNN(cell)(INPUTS, MEMORY)


def test_a_context_in_the_query_must_have_a_size_of_its_own():
    def make(**kwargs):
        attention = MultiHeadAttention(2, 3, **kwargs)
        cell = AttentionRNNCell(
            keras.layers.GRUCell(5), attention, query_from=("cell_output", "context")
        )
        return AttentionRNN(cell)

    assert tuple(make(output_shape=4)(INPUTS, MEMORY).shape) == (2, 4, 9)
    with pytest.raises(ValueError, match="Pass output_shape to the attention"):
        make()(INPUTS, MEMORY)


# Dropout of the cells: one pattern for a sequence, another for the next, none in inference.

DROPOUT_CELLS = {
    "lstm": lambda: keras.layers.LSTMCell(5, dropout=0.3, recurrent_dropout=0.3, seed=1),
    "stack": lambda: [
        keras.layers.GRUCell(5, dropout=0.5, seed=1),
        keras.layers.SimpleRNNCell(5, recurrent_dropout=0.5, seed=2),
    ],
}


@pytest.mark.parametrize(
    ("cell", "query", "input_feeding"),
    [
        ("lstm", "cell_output", False),
        ("stack", "previous_state", True),
    ],
)
def test_cells_with_dropout_are_trained_in_the_graph(cell, query, input_feeding):
    cell = AttentionRNNCell(
        DROPOUT_CELLS[cell](), BahdanauAttention(6), query_from=query, input_feeding=input_feeding
    )
    inputs = [keras.Input((None, 3)), keras.Input((None, 7))]
    model = keras.Model(inputs, AttentionRNN(cell)(*inputs))
    model.compile("sgd", "mse")
    data = [INPUTS, MEMORY]
    history = model.fit(data, np.zeros((2, 4, 12)), epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    trained, inference = numpy(model(data, training=True)), numpy(model(data))
    assert not np.allclose(trained, inference)
    assert_identical(numpy(model(data)), inference)


@requires_tensorflow("other backends trace the steps of a loop, which have no values to record")
def test_a_cell_with_dropout_records_its_steps_only():
    attention = BahdanauAttention(6)
    layer = AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(5, dropout=0.5), attention))
    with record_attention_scores() as scores:
        _, weights = layer(INPUTS, MEMORY, return_attention_scores=True)
    assert_identical(list(scores.values()), [numpy(weights)])


@pytest.mark.parametrize("input_feeding", [False, True])
def test_the_dropout_of_a_cell_is_the_same_at_all_steps_of_a_sequence(input_feeding):
    units = 64
    cell = keras.layers.SimpleRNNCell(
        units,
        activation="linear",
        kernel_initializer="identity",
        recurrent_initializer="zeros",
        dropout=0.5,
        seed=3,
    )
    layer = AttentionRNN(
        AttentionRNNCell(cell, LuongAttention("general"), input_feeding=input_feeding)
    )
    inputs, memory = np.ones((2, 3, units), "float32"), np.zeros((2, 2, 1), "float32")

    def patterns():
        return numpy(layer(inputs, memory, training=True))[:, :, :units]

    first, second = patterns(), patterns()
    assert set(np.unique(first)) == {0.0, 2.0}
    assert_identical(first[:, 1:], first[:, :-1])
    assert (first[0] != first[1]).any()
    assert (first != second).any()


# Arguments and inputs that make no sense.


def test_a_cell_with_attention_needs_something_to_attend_to():
    layer = AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(5), BahdanauAttention(6)))
    with pytest.raises(ValueError, match="Received: encoder_outputs"):
        layer(INPUTS)


def test_a_built_cell_with_attention_needs_something_to_attend_to():
    with pytest.raises(ValueError, match="Received: encoder_outputs=None"):
        make_layer()(INPUTS)


@pytest.mark.parametrize("shape", [(2, 3), (2, 4, 3, 1)])
def test_inputs_of_another_rank_are_refused(shape):
    layer = AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(5), BahdanauAttention(6)))
    with pytest.raises(ValueError, match=r"Expected inputs of shape \(batch, time, features\)"):
        layer(np.ones(shape, "float32"), MEMORY)


def test_attention_scores_need_attention():
    layer = AttentionRNN(keras.layers.GRUCell(5))
    with pytest.raises(ValueError, match="=False for a cell without attention"):
        layer(INPUTS, return_attention_scores=True)


def test_the_order_of_the_query_is_checked():
    with pytest.raises(ValueError, match="query_from to be one or .* Received: query_from='state'"):
        AttentionRNNCell(keras.layers.GRUCell(5), BahdanauAttention(6), query_from="state")


@pytest.mark.parametrize("query", [(), ("cell_output", "cell_output"), ("inputs", "state")])
def test_the_parts_of_the_query_are_checked(query):
    with pytest.raises(ValueError, match="query_from to be one or several of"):
        AttentionRNNCell(keras.layers.GRUCell(5), BahdanauAttention(6), query_from=query)


@pytest.mark.parametrize("units", [0, -1, 2.0])
def test_the_size_of_the_attention_vector_is_checked(units):
    with pytest.raises(ValueError, match="attention_units to be .* Received: attention_units="):
        AttentionRNNCell(keras.layers.GRUCell(5), BahdanauAttention(6), attention_units=units)


def test_the_implicit_mask_of_the_memory_counts():
    cell = AttentionRNNCell(keras.layers.GRUCell(4), BahdanauAttention(3))
    embed = keras.layers.Embedding(9, 5, mask_zero=True)
    inputs = np.ones((2, 3, 2), "float32")
    source_ids = np.array([[4, 5, 6, 0], [7, 0, 0, 0]])
    outputs, weights = AttentionRNN(cell)(inputs, embed(source_ids), return_attention_scores=True)
    assert outputs.shape == (2, 3, 9)
    assert (numpy(weights)[np.repeat(source_ids[:, None] == 0, 3, axis=1)] == 0).all()
    assert (numpy(weights)[np.repeat(source_ids[:, None] != 0, 3, axis=1)] > 0).all()


@pytest.mark.parametrize("input_feeding", [False, True])
def test_weights_of_several_heads_are_averaged(input_feeding):
    attention = MultiHeadAttention(2, 3, name="attention")
    cell = AttentionRNNCell(keras.layers.GRUCell(5), attention, input_feeding=input_feeding)
    layer = AttentionRNN(cell)
    outputs, weights = layer(INPUTS, MEMORY, MASK, return_attention_scores=True)
    hidden, context = numpy(outputs)[..., :5], numpy(outputs)[..., 5:]
    expected, scores = attention(
        hidden, MEMORY, attention_mask=MASK[:, None], return_attention_scores=True
    )
    assert_close(context, numpy(expected))
    assert_close(numpy(weights), numpy(scores).mean(axis=1))


@pytest.mark.parametrize("input_feeding", [False, True])
def test_the_implicit_mask_of_the_inputs_goes_on(input_feeding):
    layer = make_layer(input_feeding=input_feeding, return_state=True)
    embedding = keras.layers.Embedding(9, INPUTS.shape[2], mask_zero=True)
    outputs, *_ = layer(embedding(TARGET_MASK.astype("int32")), MEMORY, MASK)
    summary = keras.layers.GRU(3)
    expected = summary(numpy(outputs), mask=TARGET_MASK)
    assert_close(numpy(summary(outputs)), numpy(expected))


@pytest.mark.parametrize("input_feeding", [False, True])
def test_the_implicit_mask_of_the_inputs_counts(input_feeding):
    layer = make_layer(input_feeding=input_feeding, return_state=True)
    embedded = keras.layers.Embedding(9, INPUTS.shape[2], mask_zero=True)(
        TARGET_MASK.astype("int32")
    )
    expected = layer(numpy(embedded), MEMORY, MASK, mask=TARGET_MASK)
    assert_close(numpy(layer(embedded, MEMORY, MASK)), numpy(expected))


def test_cell_and_attention_have_one_precision():
    with pytest.raises(
        ValueError, match="'float32', attention=BahdanauAttention with compute_dtype='float16'"
    ):
        AttentionRNNCell(keras.layers.GRUCell(4), BahdanauAttention(3, dtype="float16"))


def test_a_step_needs_what_the_cell_attends_to():
    cell = AttentionRNNCell(keras.layers.GRUCell(4), BahdanauAttention(3))
    cell.build((2, 5), (2, 7, 6))
    with pytest.raises(ValueError, match="Received: memory=None"):
        cell(np.ones((2, 5), "float32"), cell.get_initial_state(2))


@requires_tensorflow("is about TensorFlow")
def test_tensorflow_still_cannot_compile_its_training_for_any_batch_size():
    """Why Keras is told not to. If this fails, it was fixed: `supports_jit` need not be there."""
    import tensorflow as tf

    layer = AttentionRNN(AttentionRNNCell(keras.layers.LSTMCell(3), BahdanauAttention(2)))
    assert not layer.supports_jit
    layer.supports_jit = True
    inputs, memory = keras.Input((None, 2)), keras.Input((None, 2))
    model = keras.Model([inputs, memory], layer(inputs, memory))
    model.compile("sgd", "mse", jit_compile=True)
    ones = np.ones((3, 4, 2), "float32")
    with pytest.raises(tf.errors.InvalidArgumentError, match="compile-time constant"):
        model.fit([ones, ones], np.ones((3, 4, model.output_shape[-1])), batch_size=2, verbose=0)


def test_what_needs_no_loop_of_its_own_may_be_compiled():
    cell = AttentionRNNCell(keras.layers.LSTMCell(3), BahdanauAttention(2), input_feeding=False)
    assert AttentionRNN(cell).supports_jit


def test_attention_drops_inside_of_a_loop_where_the_backend_can_draw_there():
    attention = MultiHeadAttention(2, 4, dropout=0.5)
    layer = AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(5), attention))
    targets, memory = np.ones((2, 3, 4), "float32"), np.eye(6, dtype="float32")[None].repeat(2, 0)
    kept = numpy(layer(targets, memory))
    if keras.backend.backend() == "jax":
        with pytest.raises(ValueError, match="dropout=0.5. Set dropout=0"):
            layer(targets, memory, training=True)
    else:
        assert (numpy(layer(targets, memory, training=True)) != kept).any()
