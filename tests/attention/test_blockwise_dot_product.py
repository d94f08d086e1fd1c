import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import TransformerEncoder, TransformerEncoderBlock
from keras_attn._attention.blockwise_dot_product import blockwise_dot_product
from keras_attn._attention.scaled_dot_product import scaled_dot_product
from keras_attn._positions.alibi_bias import AlibiBias
from keras_attn._positions.relative_position_bias import RelativePositionBias
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy, randomize
from tests.slow_cases import all_slow_but

GENERATOR = np.random.default_rng(4)
BATCH, HEADS, TARGET, SOURCE, HEAD_DIM, VALUE_DIM = 2, 4, 11, 13, 5, 3
FARTHEST = 40
RAGGED = np.arange(SOURCE) < np.array([6, SOURCE])[:, None, None, None]
TABLE = GENERATOR.normal(size=(2 * FARTHEST, HEADS)).astype("float32")

CASES = {
    "plain": {},
    "ragged": {"mask": RAGGED},
    "mask of each head": {"mask": GENERATOR.random((BATCH, HEADS, 1, SOURCE)) < 0.7},
    "nothing": {"mask": RAGGED & np.array([[[[True]]], [[[False]]]])},
    "causal": {"causal": True},
    "window": {"sliding_window": 3},
    "causal window": {"causal": True, "sliding_window": 3, "mask": RAGGED},
    "later": {"causal": True, "sliding_window": 4, "start_index": 2},
    "bias": {"bias": TABLE},
    "biased, causal, later": {"bias": TABLE, "causal": True, "mask": RAGGED, "start_index": 2},
}


def arrays(groups=HEADS, target=TARGET):
    shapes = (HEADS, target, HEAD_DIM), (groups, SOURCE, HEAD_DIM), (groups, SOURCE, VALUE_DIM)
    return [GENERATOR.normal(size=(BATCH, *shape)).astype("float32") for shape in shapes]


def bias_from(table):
    """A learned bias for each distance and head."""

    def bias(query_positions, key_positions):
        distances = key_positions[:, None, :] - query_positions[:, :, None]  # (1, T, S)
        return ops.transpose(ops.take(table, distances + FARTHEST, axis=0), (0, 3, 1, 2))

    return bias


def blockwise(query, keys, values, bias=None, **settings):
    bias = bias if bias is None or callable(bias) else bias_from(bias)
    return blockwise_dot_product(query, keys, values, bias=bias, **settings)


def plain(
    query, keys, values, bias=None, mask=None, causal=False, sliding_window=None, start_index=0
):
    query_positions = np.arange(query.shape[2], dtype="int32")[None] + start_index
    key_positions = np.arange(keys.shape[2], dtype="int32")[None]
    distances = query_positions[0][:, None] - key_positions[0]
    allowed = np.ones_like(distances, "bool") if mask is None else mask
    allowed = allowed & (distances >= 0) if causal else allowed
    allowed = allowed & (abs(distances) < sliding_window) if sliding_window else allowed
    if bias is not None:
        bias = bias if callable(bias) else bias_from(bias)
        bias = bias(ops.convert_to_tensor(query_positions), ops.convert_to_tensor(key_positions))
    return scaled_dot_product(query, keys, values, allowed, bias)[0]


def gradients(function, inputs):
    """Of a loss that weighs every number of the result differently."""

    def loss(*inputs):
        outputs = function(*inputs)
        return ops.sum(ops.square(outputs) + ops.sin(outputs))

    if keras.backend.backend() == "jax":
        import jax

        return jax.grad(loss, argnums=tuple(range(len(inputs))))(*inputs)
    if keras.backend.backend() == "torch":
        import torch

        inputs = [ops.copy(x).requires_grad_() for x in inputs]
        return torch.autograd.grad(loss(*inputs), inputs)
    import tensorflow as tf

    inputs = [tf.convert_to_tensor(x) for x in inputs]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        value = loss(*inputs)
    return [tf.convert_to_tensor(gradient) for gradient in tape.gradient(value, inputs)]


def split_bias(settings):
    """The arrays that get gradients besides query, keys and values, and the other settings."""
    settings = dict(settings)
    return [settings.pop("bias")] if "bias" in settings else [], settings


@pytest.mark.parametrize("block_size", [4, 512])
@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_equals_the_plain_form(settings, block_size):
    inputs = arrays(groups=2)
    received = blockwise(*inputs, **settings, block_size=block_size)
    assert_close(received, plain(*inputs, **settings))


@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_gradients_equal_those_of_the_plain_form(settings, groups):
    table, settings = split_bias(settings)
    inputs = arrays(groups) + table
    received = gradients(lambda *x: blockwise(*x, **settings, block_size=4), inputs)
    assert all(numpy(gradient).any() for gradient in received)
    assert_close(received, gradients(lambda *x: plain(*x, **settings), inputs))


@pytest.mark.parametrize("block_size, target", [(1, 3), (4, 1), (4, 4), (4, 5), (4, 20)])
def test_any_number_of_queries(block_size, target):
    inputs = arrays(target=target)
    received = blockwise(*inputs, causal=True, block_size=block_size)
    assert received.shape == (BATCH, HEADS, target, VALUE_DIM)
    assert_close(received, plain(*inputs, causal=True))


@pytest.mark.parametrize(
    "bias",
    [AlibiBias(HEADS), RelativePositionBias(HEADS, num_buckets=8, max_distance=10)],
    ids=lambda layer: layer.name,
)
def test_takes_the_biases_by_position(bias):
    positions = ops.convert_to_tensor(np.arange(3, dtype="int32")[None])
    bias(positions, positions)
    randomize(bias)
    inputs = arrays()
    settings = {"bias": bias, "causal": True, "start_index": 1}
    assert_close(blockwise(*inputs, **settings, block_size=3), plain(*inputs, **settings))


def test_half_precision():
    inputs = [x.astype("float16") for x in arrays(groups=2)] + [TABLE]
    context = blockwise(*inputs, causal=True, block_size=4)
    assert context.dtype == ops.convert_to_tensor(inputs[0]).dtype
    assert_close(context, plain(*inputs, causal=True), 1e-2)
    received = gradients(lambda *x: blockwise(*x, causal=True, block_size=4), inputs)
    expected = gradients(lambda *x: plain(*x, causal=True), inputs)
    assert [x.dtype for x in received] == [x.dtype for x in expected]
    assert_close(received, expected, 5e-2)


@requires_tensorflow("sizes that are only known when it runs")
@pytest.mark.parametrize("name", all_slow_but("bias", "causal", cases=CASES))
def test_sizes_may_be_unknown(name):
    settings = CASES[name]
    import tensorflow as tf

    table, settings = split_bias(settings)
    start_index = settings.pop("start_index", 0)
    mask = settings.pop("mask", np.ones((BATCH, 1, 1, SOURCE), "bool"))
    inputs = arrays(groups=2) + table
    unknown = [tf.TensorSpec((None, x.shape[1], None, x.shape[3]), "float32") for x in inputs[:3]]
    unknown += [tf.TensorSpec((None, HEADS), "float32") for _ in table]
    unknown += [tf.TensorSpec((None, None, 1, None), "bool"), tf.TensorSpec((), "int32")]

    @tf.function(input_signature=unknown)
    def compute(*inputs):
        *inputs, mask, start_index = inputs
        late = {"mask": mask, "start_index": start_index, "block_size": 4}
        attend = functools.partial(blockwise, **settings, **late)
        return attend(*inputs), gradients(attend, inputs)

    settings_of_plain = {**settings, "mask": mask, "start_index": start_index}
    expected = gradients(lambda *x: plain(*x, **settings_of_plain), inputs)
    for target in (TARGET, 6):
        received = compute(inputs[0][:, :, :target], *inputs[1:], mask, start_index)
        assert_close(received[0], plain(*inputs, **settings_of_plain)[:, :, :target])
    assert_close(compute(*inputs, mask, start_index)[1], expected)


# In memory: a length for which target * source is much more than anything that grows linearly.
LENGTH, BLOCK = 256, 8
LINEAR = HEAD_DIM * (LENGTH + BLOCK) + 2 * BLOCK * (LENGTH + BLOCK)


def tensor_sizes(function, inputs):
    """The number of elements of every tensor in the graph of a function, its loops included."""
    if keras.backend.backend() == "jax":
        import jax

        return sizes_in_jaxpr(jax.make_jaxpr(function)(*inputs).jaxpr)
    import tensorflow as tf

    concrete = tf.function(function).get_concrete_function(*map(tf.constant, inputs))
    graph = concrete.graph.as_graph_def(add_shapes=True)
    nodes = [*graph.node, *(n for body in graph.library.function for n in body.node_def)]
    sizes = []
    for node in nodes:
        # What a loop keeps of each round for its gradient is hidden in a list.
        assert node.op != "TensorListPushBack"
        for shape in node.attr["_output_shapes"].list.shape:
            sizes.append(int(np.prod([dim.size for dim in shape.dim])))
    return sizes


def sizes_in_jaxpr(jaxpr):
    sizes = []
    for equation in jaxpr.eqns:
        sizes += [int(np.prod(variable.aval.shape)) for variable in equation.outvars]
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                sizes += sizes_in_jaxpr(inner) if hasattr(inner, "eqns") else []
    return sizes


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch runs without a graph that lists its tensors"
)
@pytest.mark.parametrize("form", [plain, blockwise])
@pytest.mark.parametrize("trained", [False, True], ids=["inference", "training"])
def test_no_tensor_is_as_large_as_the_weights(form, trained):
    shapes = [(1, 1, LENGTH, HEAD_DIM)] * 3 + [(2 * LENGTH + 2 * FARTHEST, 1)]
    inputs = [np.ones(shape, "float32") for shape in shapes]
    settings = {"causal": True, "sliding_window": 20}
    if form is blockwise:
        settings["block_size"] = BLOCK

    def forward(*inputs):
        return form(*inputs, **settings)

    function = forward
    if trained:

        def function(*inputs):
            return gradients(forward, inputs)

    largest = max(tensor_sizes(function, inputs))
    if form is blockwise:
        assert BLOCK * LENGTH <= largest <= LINEAR < LENGTH**2 / 8
    else:
        assert largest >= LENGTH**2  # So the sizes are seen.


def test_stack_of_blocks_in_a_model_of_unknown_sizes():
    """JAX infers the shapes with a symbol, of which it does not know whether it is positive."""
    blocks = [TransformerEncoderBlock(2, 16, flash_attention=flash) for flash in (True, False)]
    inputs = keras.Input((None,), dtype="int32")
    models = []
    for block in blocks:
        encoder = TransformerEncoder(block, keras.layers.Embedding(20, 8), num_layers=1)
        models.append(keras.Model(inputs, encoder(inputs)["encoder_outputs"]))
    models[1].set_weights(models[0].get_weights())
    ids = np.array([[3, 4, 5, 0], [6, 7, 0, 0]])
    found, expected = (numpy(model(ids)) for model in models)
    assert_close(found[ids > 0], expected[ids > 0])
