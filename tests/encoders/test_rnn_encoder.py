import keras
import numpy as np
import pytest
from keras import tree

from keras_attn import RNNCell, RNNEncoder
from keras_attn.testing import check_layer
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, assert_identical, numpy, plain, randomize
from tests.rnn.minimal_cell import MinimalCell
from tests.rnn.numpy_steps import numpy_step
from tests.slow_cases import all_slow_but

GENERATOR = np.random.default_rng(0)
IDS = np.array([[5, 6, 7, 8, 2], [9, 2, 0, 0, 0]], "int32")
MASK = IDS != 0
LENGTHS = MASK.sum(axis=1)
FEATURES = GENERATOR.normal(size=(2, 5, 3)).astype("float32")

CELLS = {
    "lstm": lambda: keras.layers.LSTMCell(4),
    "gru": lambda: keras.layers.GRUCell(4),
    "simple rnn": lambda: keras.layers.SimpleRNNCell(4),
    "rnn cell": lambda: RNNCell(4, output_units=3),
    "written by the user": lambda: MinimalCell(4),
    "stack": lambda: keras.layers.StackedRNNCells(
        [keras.layers.LSTMCell(4), keras.layers.GRUCell(3)]
    ),
}


def make_encoder(cell="lstm", embedding=True, **kwargs):
    embedding = keras.layers.Embedding(10, 3) if embedding else None
    encoder = RNNEncoder(CELLS[cell](), embedding=embedding, **kwargs)
    encoder(FEATURES if embedding is None else IDS)
    return randomize(encoder)


def cells_of(layer):
    """The cells of a recurrent layer of Keras, for each direction."""
    if isinstance(layer, keras.layers.Bidirectional):
        return [layer.forward_layer.cell, layer.backward_layer.cell]
    return [layer.cell]


def run(cell, features):
    """Outputs and last state of one sentence, by the equations."""
    step = numpy_step(cell)
    sizes = cell.state_size if isinstance(cell.state_size, list) else [cell.state_size]
    state = [np.zeros(size) for size in sizes]
    outputs = []
    for x in features:
        output, state = step(x, state)
        outputs.append(output)
    return np.array(outputs), state


def expected_encoding(encoder, features):
    states = []
    for layer in encoder.recurrent_layers:
        forward, *backward = cells_of(layer)
        outputs, state = run(forward, features)
        if backward:
            reversed_outputs, reversed_state = run(backward[0], features[::-1])
            outputs = np.concatenate([outputs, reversed_outputs[::-1]], axis=-1)
            state = [np.concatenate(pair) for pair in zip(state, reversed_state, strict=True)]
        if encoder.residual and outputs.shape == features.shape:
            outputs = outputs + features
        features = outputs
        states.append(state)
    return features, states


SINGLE_CELLS = [name for name in CELLS if name != "stack"]


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    "cell", all_slow_but(*SINGLE_CELLS, cases=SINGLE_CELLS, on_jax=["lstm", "rnn cell"])
)
def test_equals_the_equations(cell, bidirectional, residual):
    encoder = make_encoder(cell, num_layers=2, bidirectional=bidirectional, residual=residual)
    encoded = numpy(encoder(IDS))
    assert_identical(encoded["encoder_mask"], MASK)
    embedded = numpy(encoder.embedding(IDS))
    for b, length in enumerate(LENGTHS):
        outputs, states = expected_encoding(encoder, embedded[b, :length])
        assert_close(encoded["encoder_outputs"][b, :length], outputs)
        own = tree.map_structure(lambda leaf: leaf[b], encoded["encoder_state"])  # noqa: B023
        assert_close(own, states)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_stack_of_cells_is_a_cell(bidirectional):
    encoder = make_encoder("stack", bidirectional=bidirectional)
    encoded = numpy(encoder(IDS))
    assert encoded["encoder_outputs"].shape == (2, 5, 6 if bidirectional else 3)
    times = 2 if bidirectional else 1
    sizes = [leaf.shape[-1] for leaf in tree.flatten(encoded["encoder_state"])]
    assert sizes == [4 * times, 4 * times, 3 * times]


def test_the_configuration_of_a_stack_can_be_used_twice():
    encoder = make_encoder("stack", bidirectional=False)
    for _ in range(2):
        copy = RNNEncoder.from_config(encoder.get_config())
    copy(IDS)
    copy.set_weights(encoder.get_weights())
    assert_close(plain(numpy(copy(IDS))), plain(numpy(encoder(IDS))))


def test_is_a_good_layer_over_ids():
    check_layer(
        lambda: RNNEncoder(
            keras.layers.SimpleRNNCell(2), keras.layers.Embedding(10, 4), residual=True
        ),
        {"inputs": IDS},
    )


def test_is_a_good_layer_over_features():
    check_layer(
        lambda: RNNEncoder(RNNCell(4), bidirectional=False),
        {"inputs": FEATURES, "mask": MASK},
    )


@pytest.mark.parametrize("bidirectional", [False, True])
def test_what_the_mask_hides_changes_no_state_and_no_real_output(bidirectional):
    encoder = make_encoder(embedding=False, bidirectional=bidirectional)
    encoded = numpy(encoder(FEATURES, mask=MASK))
    noisy = np.where(MASK[:, :, None], FEATURES, 100.0)
    changed = numpy(encoder(noisy, mask=MASK))
    assert_identical(changed["encoder_state"], encoded["encoder_state"])
    assert_identical(changed["encoder_outputs"][MASK], encoded["encoder_outputs"][MASK])
    if bidirectional:
        assert not encoded["encoder_outputs"][~MASK].any()
    else:
        assert_identical(
            encoded["encoder_outputs"][1, 2:], encoded["encoder_outputs"][1, [1, 1, 1]]
        )


def test_padding_changes_nothing():
    encoder = make_encoder(num_layers=2)
    encoded = numpy(encoder(IDS))
    wider = numpy(encoder(np.pad(IDS, [(0, 0), (0, 3)])))
    assert_close(wider["encoder_outputs"][:, :5], encoded["encoder_outputs"])
    assert_close(wider["encoder_state"], encoded["encoder_state"])
    assert not wider["encoder_mask"][:, 5:].any()


def test_features_without_a_mask_are_all_real():
    encoded = numpy(make_encoder(embedding=False)(FEATURES))
    assert encoded["encoder_mask"].shape == (2, 5) and encoded["encoder_mask"].all()


def test_an_embedding_of_features_leaves_them_all_real():
    encoder = RNNEncoder(keras.layers.GRUCell(3), embedding=keras.layers.Dense(4))
    assert (
        numpy(encoder(np.zeros((2, 5, 1), "float32")))["encoder_mask"].tolist() == [[True] * 5] * 2
    )


def test_the_implicit_mask_of_features_counts():
    encoder = make_encoder(embedding=False)
    features = np.where(MASK[:, :, None], FEATURES, 0.0)
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, encoder(keras.layers.Masking()(inputs)))
    assert_close(numpy(model(features)), numpy(encoder(features, mask=MASK)))
    assert_identical(numpy(model(features))["encoder_mask"], MASK)


def test_another_padding_id():
    encoder = make_encoder(pad_token_id=7)
    ids = np.array([[7, 5, 7, 7], [5, 6, 0, 0], [5, 7, -1, 7]])
    mask = [[True, True, False, False], [True] * 4, [True, True, False, False]]
    assert_identical(numpy(encoder(ids))["encoder_mask"], np.array(mask))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_source_of_nothing_has_zero_states(bidirectional):
    encoded = numpy(make_encoder(bidirectional=bidirectional)(np.zeros((2, 3), "int32")))
    assert not encoded["encoder_mask"].any()
    assert not any(leaf.any() for leaf in tree.flatten(encoded["encoder_state"]))
    assert np.isfinite(encoded["encoder_outputs"]).all()


@requires_tensorflow("a batch size that is unknown when tracing is a matter of tf.function")
def test_no_sentences_give_empty_results():
    import tensorflow as tf

    # With a batch size that is known to be zero, `keras.ops.add` fails inside of Keras' cells.
    ids = tf.TensorSpec((None, None), "int32")
    encode = tf.function(make_encoder().call, input_signature=[ids])
    encoded = numpy(encode(np.zeros((0, 5), "int32")))
    assert encoded["encoder_outputs"].shape == (0, 5, 8)


def test_dropout_is_for_training_only():
    encoder = make_encoder(dropout=0.5, seed=1)
    inference = numpy(encoder(IDS)["encoder_outputs"])
    assert_identical(numpy(encoder(IDS)["encoder_outputs"]), inference)
    assert len(encoder.dropout_layers) == 2
    for one in encoder.dropout_layers:  # that of the inputs, and that of the layer
        for each in encoder.dropout_layers:
            each.rate = 0.5 * (each is one)
        assert not np.allclose(numpy(encoder(IDS, training=True)["encoder_outputs"]), inference)


def test_no_two_layers_drop_the_same_features():
    dropped = [
        numpy(layer(np.ones((2, 9, 8), "float32"), training=True)) == 0
        for layer in make_encoder(num_layers=3, dropout=0.5, seed=1).dropout_layers
    ]
    for index, one in enumerate(dropped):
        assert all((one != other).any() for other in dropped[:index])


@pytest.mark.parametrize("cell_class", [keras.layers.GRUCell, keras.layers.SimpleRNNCell])
def test_no_two_cells_drop_the_same_features(cell_class, tmp_path):
    cell = cell_class(8, dropout=0.5, seed=3)
    encoder = RNNEncoder(cell, keras.layers.Embedding(10, 8), num_layers=2)
    before = numpy(encoder(IDS)["encoder_outputs"])
    seeds = [each.seed for layer in encoder.recurrent_layers for each in cells_of(layer)]
    assert sorted(seeds) == [3, 4, 5, 6]
    ids = keras.Input((None,), dtype="int32")
    keras.Model(ids, encoder(ids)).save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_identical(numpy(loaded(IDS)["encoder_outputs"]), before)


def test_each_layer_and_direction_has_weights_of_its_own():
    encoder = RNNEncoder(keras.layers.GRUCell(4), keras.layers.Embedding(10, 8), num_layers=2)
    encoder(IDS)
    kernels = [numpy(cell.kernel) for layer in encoder.recurrent_layers for cell in cells_of(layer)]
    assert len(kernels) == 4
    for i, kernel in enumerate(kernels):
        assert all((kernel != other).any() for other in kernels[:i])


@pytest.mark.parametrize("shape", [(5,), (2, 5, 1)])
def test_ids_of_another_rank_are_refused(shape):
    encoder = RNNEncoder(keras.layers.GRUCell(4), keras.layers.Embedding(10, 3))
    with pytest.raises(ValueError, match=r"Expected inputs of shape \(batch, time\)"):
        encoder(np.ones(shape, "int32"))


@pytest.mark.parametrize("shape", [(5,), (2, 5, 1)])
def test_a_built_encoder_refuses_ids_of_another_rank(shape):
    with pytest.raises(ValueError, match="shape|ndim|rank"):
        make_encoder()(np.ones(shape, "int32"))


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 3, 1)])
def test_features_of_another_rank_are_refused(shape):
    with pytest.raises(ValueError, match=r"Expected inputs of shape \(batch, time, features\)"):
        RNNEncoder(keras.layers.GRUCell(4))(np.ones(shape, "float32"))


def test_ids_as_floats_are_taken_as_ids():
    encoder = make_encoder()
    assert_close(numpy(encoder(IDS.astype("float32"))), numpy(encoder(IDS)))


@requires_tensorflow("other backends do not look whether an id is in the table")
def test_ids_outside_the_vocabulary_are_refused():
    with pytest.raises(Exception, match=r"99 is not in \[0, 10\)"):
        make_encoder()(np.array([[5, 99, 2]], "int32"))


@pytest.mark.parametrize("num_layers", [0, -1, 1.5])
def test_the_number_of_layers_is_checked(num_layers):
    with pytest.raises(ValueError, match="num_layers to be a positive integer. Received: num_la"):
        RNNEncoder(keras.layers.GRUCell(4), num_layers=num_layers)


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_the_dropout_is_checked(dropout):
    with pytest.raises(ValueError, match=r"dropout to be in \[0, 1\). Received: dropout="):
        RNNEncoder(keras.layers.GRUCell(4), dropout=dropout)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    "cell", all_slow_but("stack of one size", cases=["lstm", "rnn cell", "stack of one size"])
)
def test_the_layers_of_a_loaded_model_have_cells_of_their_own(cell, bidirectional, tmp_path):
    """Keras would take cells that were made while it loads for those of the first layer."""
    stack = keras.layers.StackedRNNCells([keras.layers.LSTMCell(4), keras.layers.LSTMCell(4)])
    cell = CELLS[cell]() if cell in CELLS else stack
    encoder = RNNEncoder(
        cell, keras.layers.Embedding(10, 4), num_layers=3, bidirectional=bidirectional
    )
    ids = keras.Input((None,), dtype="int32")
    model = randomize(keras.Model(ids, encoder(ids)["encoder_outputs"]))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert len(loaded.weights) == len(model.weights)
    assert_identical(numpy(loaded(IDS)), numpy(model(IDS)))


def test_the_cell_of_a_user_need_not_be_registered():
    class Cell(keras.layers.Layer):
        state_size = output_size = 3

        def call(self, inputs, states):
            return inputs + states[0], [states[0] + 1]

    encoder = RNNEncoder(Cell(), bidirectional=False, num_layers=2)
    assert encoder(FEATURES)["encoder_outputs"].shape == FEATURES.shape


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_precision_of_its_own(bidirectional):
    encoder = RNNEncoder(
        keras.layers.LSTMCell(8),
        keras.layers.Embedding(5000, 8),
        num_layers=2,
        bidirectional=bidirectional,
        residual=True,
        dtype="mixed_float16",
    )
    ids = np.array([[4097, 4099]], "int32")
    outputs = numpy(encoder(ids)["encoder_outputs"])
    assert outputs.dtype == "float16"
    assert_identical(numpy(encoder(ids.astype("float32"))["encoder_outputs"]), outputs)
