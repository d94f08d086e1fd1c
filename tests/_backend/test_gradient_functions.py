"""First and second derivatives of functions with their own gradient, in all transformations.

The truth is a central difference: of the function for the first derivative, and of the first
derivative for the second derivative. The cross-entropies compute in float32, and so does the test.
"""

import functools
import sys

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import MultiHeadAttention
from keras_attn._attention.additive_score import additive_score
from keras_attn._attention.blockwise_dot_product import blockwise_dot_product
from keras_attn._backend.custom_gradient import custom_gradient
from keras_attn._drop_ins import layer_normalization
from keras_attn.training import SequenceCrossentropy, crossentropy_per_token
from keras_attn.training._linear_crossentropy import linear_crossentropy
from tests.contracts import numpy

BACKEND = keras.backend.backend()
GENERATOR = np.random.default_rng(5)
LABELS = np.array([[1, 3, 2], [4, 0, 1]], "int32")
MASK = np.array([[True, True, True, False], [True] * 4])[:, None, None]  # (B, 1, 1, S)
INTEGERS = LABELS, MASK


def floats(*shape):
    return GENERATOR.normal(size=shape).astype("float32")


def linear(features, kernel, weights, labels, mask):
    counted = ops.convert_to_tensor(LABELS > 0)
    weights = ops.where(counted, weights, 0.0)
    return linear_crossentropy(labels, features, kernel, weights, 0.1, counted)[0]


def attention(query, keys, values, table, labels, mask):
    def bias(query_positions, key_positions):
        distances = key_positions[:, None, :] - query_positions[:, :, None]  # (1, T, S)
        return ops.transpose(ops.take(table, distances + 8, axis=0), (0, 3, 1, 2))

    return blockwise_dot_product(
        query, keys, values, mask, True, bias=bias, start_index=labels[0, 0], block_size=2
    )


def normalization(x, gamma, beta, labels, mask):
    normalize = functools.partial(layer_normalization._normalize, epsilon=0.5)
    function = custom_gradient(normalize, layer_normalization._gradients)
    return function(x=x, gamma=gamma, beta=beta)[0]


EQUAL_LOGITS = np.ones((2, 1, 5), "float32")
CASES = {
    "crossentropy": (
        lambda logits, labels, mask: crossentropy_per_token(labels, logits, 0.1),
        [np.concatenate([floats(2, 2, 5), EQUAL_LOGITS], axis=1)],
    ),
    "mean crossentropy": (
        lambda logits, labels, mask: SequenceCrossentropy()(labels, logits),
        [floats(2, 3, 5)],
    ),
    "linear crossentropy": (linear, [floats(2, 3, 4), floats(5, 4), 1 + abs(floats(2, 3))]),
    "attention": (
        attention,
        [floats(2, 2, 3, 3), floats(2, 1, 4, 3), floats(2, 1, 4, 2), floats(16, 2)],
    ),
    "additive score": (
        lambda query, keys, vector, labels, mask: additive_score(query, keys, vector, chunk_size=2),
        [floats(2, 3, 4), floats(2, 3, 4), floats(4)],
    ),
    "normalization": (normalization, [floats(2, 4, 3), floats(3), floats(3)]),
}
if BACKEND != "tensorflow":
    del CASES["normalization"]  # Keras' own layer
sizes = {name: sum(array.size for array in arrays) for name, (_, arrays) in CASES.items()}
START = {name: np.concatenate([x.reshape(-1) for x in CASES[name][1]]) for name in CASES}
DIRECTION = {name: floats(size) for name, size in sizes.items()}
WEIGHTS = floats(400)
# Forward-mode derivatives of PyTorch itself warn.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    module = sys.modules["keras_attn.training._linear_crossentropy"]
    monkeypatch.setattr(module, "LOGITS_PER_CHUNK", 10)
    monkeypatch.setattr(module, "TOKENS_PER_FEATURE", 0)


def loss_of(name):
    """Returns a scalar function of a vector of all float inputs, labels and mask."""
    function, arrays = CASES[name]

    def loss(vector, labels, mask):
        inputs, first = [], 0
        for array in arrays:
            part = vector[first : first + array.size]
            inputs.append(ops.reshape(part, array.shape))
            first += array.size
        outputs = ops.reshape(function(*inputs, labels, mask), (-1,))
        return ops.sum(ops.convert_to_tensor(WEIGHTS[: outputs.shape[0]]) * ops.sin(outputs))

    return loss


def central_difference(function, start, direction, step=0.03):
    """Returns the derivative of a function in a direction, with an error of order `step**4`."""
    near, far = (
        np.asarray(function(start + k * step * direction), "float64")
        - np.asarray(function(start - k * step * direction), "float64")
        for k in (1, 2)
    )
    return (8 * near - far) / (12 * step)


def jax_transformations():
    import jax

    def scanned(loss):
        def total(vector, *integers):
            def add(carry, each):
                return carry + loss(vector, *each), None

            return jax.lax.scan(add, 0.0, [each[None] for each in integers])[0]

        return total

    def mapped(function):
        def first(*args):
            return jax.vmap(function)(*(each[None] for each in args))[0]

        return first

    def product(gradient, along=jax.grad):
        def along_direction(vector, direction, *integers):
            return along(lambda x: ops.sum(gradient(x, *integers) * direction))(vector)

        return along_direction

    def forward_over_reverse(loss):
        def along_direction(vector, direction, *integers):
            gradient = jax.grad(jax.jit(loss))
            return jax.jvp(lambda x: gradient(x, *integers), (vector,), (direction,))[1]

        return along_direction

    first = {
        "grad": jax.grad,
        "jit(grad)": lambda loss: jax.jit(jax.grad(loss)),
        "grad(jit)": lambda loss: jax.grad(jax.jit(loss)),
        "grad(checkpoint)": lambda loss: jax.jit(jax.grad(jax.checkpoint(loss))),
        "grad(scan)": lambda loss: jax.jit(jax.grad(scanned(loss))),
        "vmap(grad)": lambda loss: jax.jit(mapped(jax.grad(loss))),
        "jacrev": lambda loss: jax.jit(jax.jacrev(loss)),
    }
    second = {
        "grad(grad)": lambda loss: jax.jit(product(jax.grad(loss))),
        "grad(grad(jit))": lambda loss: product(jax.grad(jax.jit(loss))),
        "grad(grad(checkpoint))": lambda loss: jax.jit(product(jax.grad(jax.checkpoint(loss)))),
        "grad(grad(scan))": lambda loss: jax.jit(product(jax.grad(scanned(loss)))),
        "vmap(grad(grad))": lambda loss: jax.jit(mapped(product(jax.grad(loss)))),
        "jacrev(grad)": lambda loss: jax.jit(product(jax.grad(loss), jax.jacrev)),
        "jvp(grad)": forward_over_reverse,
        "hessian": lambda loss: jax.jit(lambda x, v, *i: jax.hessian(loss)(x, *i) @ v),
    }
    return first, second


def torch_transformations():
    import torch
    from torch.utils.checkpoint import checkpoint

    func, autograd = torch.func, torch.autograd

    def gradient(loss):
        def of_vector(vector, *integers):
            vector = vector.detach().requires_grad_()
            return autograd.grad(loss(vector, *integers), vector)[0]

        return of_vector

    def product(loss):
        def along_direction(vector, direction, *integers):
            vector = vector.detach().requires_grad_()
            slope = autograd.grad(loss(vector, *integers), vector, create_graph=True)[0]
            return autograd.grad(slope @ direction, vector)[0]

        return along_direction

    def recomputed(loss):
        return lambda *args: checkpoint(loss, *args, use_reentrant=False)

    def mapped(function):
        return lambda *args: func.vmap(function)(*(each[None] for each in args))[0]

    def dual_gradient(loss):
        def along_direction(vector, direction, *integers):
            with autograd.forward_ad.dual_level():
                dual = autograd.forward_ad.make_dual(vector.requires_grad_(), direction)
                slope = autograd.grad(loss(dual, *integers), dual)[0]
                return autograd.forward_ad.unpack_dual(slope).tangent

        return along_direction

    def functional(loss, **settings):
        def along_direction(vector, direction, *integers):
            hessian = autograd.functional.hessian(lambda x: loss(x, *integers), vector, **settings)
            return hessian @ direction

        return along_direction

    first = {
        "autograd.grad": gradient,
        "checkpoint": lambda loss: gradient(recomputed(loss)),
        "func.grad": func.grad,
        "func.vmap(func.grad)": lambda loss: mapped(func.grad(loss)),
        "func.jacrev": func.jacrev,
        "func.jacfwd": func.jacfwd,
    }
    second = {
        "autograd.grad twice": product,
        "checkpoint": lambda loss: product(recomputed(loss)),
        "forward over reverse": dual_gradient,
        "functional.hessian": functional,
        "functional.hessian, vectorized": functools.partial(functional, vectorize=True),
        "func.hessian": lambda loss: lambda x, v, *i: func.hessian(loss)(x, *i) @ v,
        "func.jacfwd twice": lambda loss: (
            lambda x, v, *i: func.jacfwd(func.jacfwd(loss))(x, *i) @ v
        ),
        "func.jacrev(func.jacfwd)": lambda loss: (
            lambda x, v, *i: func.jacrev(func.jacfwd(loss))(x, *i) @ v
        ),
    }
    return first, second


def tensorflow_transformations():
    import tensorflow as tf

    def gradient(loss):
        def of_vector(vector, *integers):
            with tf.GradientTape() as tape:
                tape.watch(vector)
                value = loss(vector, *integers)
            return tape.gradient(value, vector)

        return of_vector

    def product(loss):
        def along_direction(vector, direction, *integers):
            with tf.GradientTape() as tape:
                tape.watch(vector)
                slope = gradient(loss)(vector, *integers)
            return tape.gradient(slope, vector, output_gradients=direction)

        return along_direction

    def recomputed(loss):
        def of_vector(vector, *integers):
            return tf.recompute_grad(lambda x: loss(x, *integers))(vector)

        return of_vector

    def xla(function):
        return tf.function(function, jit_compile=True)

    first = {
        "eager": gradient,
        "graph": lambda loss: tf.function(gradient(loss)),
        "recompute_grad": lambda loss: tf.function(gradient(recomputed(loss))),
        "XLA": lambda loss: xla(gradient(loss)),
    }
    second = {
        "eager": product,
        "graph": lambda loss: tf.function(product(loss)),
        "XLA": lambda loss: xla(product(loss)),
    }
    return first, second


FIRST, SECOND = globals()[f"{BACKEND}_transformations"]()
COMPILED = {"jax": "jit(grad)", "tensorflow": "graph", "torch": "autograd.grad"}[BACKEND]
FAST = {
    "jax": [
        ("attention", "grad(checkpoint)"),
        ("additive score", "grad(checkpoint)"),
        ("linear crossentropy", "grad(scan)"),
        ("crossentropy", "grad(scan)"),
        ("crossentropy", "hessian"),
        ("attention", "grad(grad(scan))"),
        ("additive score", "jacrev(grad)"),
    ],
    "tensorflow": [(name, how) for name in CASES for how in ("graph", "recompute_grad")],
    "torch": [
        (name, how)
        for name in CASES
        for how in (*FIRST, *SECOND)
        if not (name == "attention" and how.startswith("functional"))
    ],
}[BACKEND]
UNSUPPORTED = [("attention", "functional.hessian, vectorized")]  # by `ops.slice` of Keras


def cases(transformations):
    """Returns pairs of a function and a transformation."""
    pairs = [(name, how) for name in CASES for how in transformations]
    slow = pytest.mark.slow
    return [
        pair if pair in FAST else pytest.param(*pair, marks=slow)
        for pair in pairs
        if pair not in UNSUPPORTED
    ]


@functools.cache
def true_derivatives(name):
    """Returns the slope in the test direction, and the product of the Hessian with it."""
    loss, start, direction = loss_of(name), START[name], DIRECTION[name]
    gradient = FIRST[COMPILED](loss)
    if BACKEND == "jax":
        import jax

        loss = jax.jit(loss)

    def at(function):
        return lambda vector: numpy(function(*map(ops.convert_to_tensor, (vector, *INTEGERS))))

    return (
        central_difference(at(loss), start, direction),
        central_difference(at(gradient), start, direction),
    )


@pytest.mark.parametrize("name, how", cases(FIRST))
def test_first_derivative(name, how):
    arguments = map(ops.convert_to_tensor, (START[name], *INTEGERS))
    gradient = numpy(FIRST[how](loss_of(name))(*arguments))
    slope, _ = true_derivatives(name)
    np.testing.assert_allclose(gradient @ DIRECTION[name], slope, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name, how", cases(SECOND))
def test_second_derivative(name, how):
    arguments = map(ops.convert_to_tensor, (START[name], DIRECTION[name], *INTEGERS))
    product = numpy(SECOND[how](loss_of(name))(*arguments))
    _, expected = true_derivatives(name)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(product / scale, expected / scale, atol=2e-3)


@pytest.mark.skipif(BACKEND != "jax", reason="other backends support it, or have no such function")
def test_forward_mode_is_refused():
    import jax

    loss = loss_of("crossentropy")
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jacfwd(loss)(ops.convert_to_tensor(START["crossentropy"]), *INTEGERS)


def test_layer_in_a_remat_scope_has_the_gradients_of_a_plain_layer():
    """Flash attention with a mask, in a checkpoint."""
    inputs, mask, gradients = floats(2, 4, 6), np.array([[True, True, True, False]] * 2), []
    for mode in ("full", None):
        with keras.RematScope(mode):
            layer = MultiHeadAttention(2, 3, flash_attention=True)
        layer.build(inputs.shape)
        layer.set_weights([np.cos(np.arange(w.size)).reshape(w.shape) for w in layer.get_weights()])

        def loss(x, mask, layer=layer):
            return ops.sum(ops.sin(layer(x, attention_mask=mask, training=True)))

        compute = FIRST[COMPILED](loss)
        gradients.append(numpy(compute(*map(ops.convert_to_tensor, (inputs, mask)))))
    assert np.abs(gradients[0]).max() > 0.1
    np.testing.assert_allclose(*gradients, rtol=1e-5, atol=1e-5)
