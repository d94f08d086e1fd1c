from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree

from keras_attn._backend.litert_tracing import is_traced_for_litert


def supports_jit() -> bool:
    """Returns whether XLA can compile a training step that contains a `scan`.

    On TensorFlow, XLA cannot compute the gradient of matrix products with more than two axes in a
    loop if the batch size is unknown. Keras enables XLA on GPUs by default, unless a layer has
    `supports_jit=False`.
    """
    return keras.backend.backend() != "tensorflow"


def carried_variables(layer: keras.layers.Layer) -> list[Any]:
    """Returns the variables that a loop must carry because its steps update them.

    On JAX, these are all variables that are not trainable, such as the states of random number
    generators. All other backends update variables in a loop.
    """
    return layer.non_trainable_variables if keras.backend.backend() == "jax" else []


def scan(
    step: Callable[[Any, Any], Any],
    carry: Any,
    inputs: Any,
    collect: Callable[[Any], Any],
    parallel_iterations: int = 10,
) -> tuple[Any, Any]:
    """Runs a loop over time steps like `ops.scan`.

    On TensorFlow, `ops.scan` stores the carry of every step, and the loop cannot be converted to
    ONNX. This function stores only the values that `collect` returns, and the loop can be converted
    to ONNX. For a conversion to LiteRT, trace the loop in the context `traced_for_litert`.

    Args:
        step: Function `(carry, inputs of one step) -> carry`.
        carry: Nested tensors.
        inputs: Nested structure of at least one tensor of shape `(time, ...)`.
        collect: Function `carry -> nested tensors` that selects the values to store at each step.
        parallel_iterations: Positive int, maximum number of steps that TensorFlow runs at the same
            time. Memory grows with this number. Defaults to `10`.

    Returns:
        Tuple of the last carry and the collected tensors of shape `(time, ...)`.
    """
    if keras.backend.backend() == "tensorflow":
        if is_traced_for_litert():
            return _scan_without_lists(step, carry, inputs, collect)
        return _tensorflow_scan(step, carry, inputs, collect, parallel_iterations)

    if keras.backend.backend() == "torch" and not tree.flatten(inputs)[0].shape[0]:
        # `ops.scan` needs at least one step on PyTorch.
        carry = tree.map_structure(ops.convert_to_tensor, carry)
        return carry, tree.map_structure(
            lambda leaf: ops.zeros((0, *leaf.shape), dtype=leaf.dtype), collect(carry)
        )

    def step_and_collect(carry, step_inputs):
        carry = step(carry, step_inputs)
        return carry, collect(carry)

    return ops.scan(step_and_collect, carry, inputs)


def _tensorflow_scan(step, carry, inputs, collect, parallel_iterations):
    import tensorflow as tf

    inputs = tree.map_structure(tf.convert_to_tensor, inputs)
    carry = tree.map_structure(tf.convert_to_tensor, carry)
    first = tree.flatten(inputs)[0]
    num_steps = tf.shape(first)[0]
    # `keras.tree` does not support TensorArrays, so use flat lists.
    read = [
        tf.TensorArray(leaf.dtype, num_steps, element_shape=leaf.shape[1:]).unstack(leaf)
        for leaf in tree.flatten(inputs)
    ]
    written = [
        tf.TensorArray(leaf.dtype, num_steps, element_shape=leaf.shape)
        for leaf in tree.flatten(collect(carry))
    ]

    def body(time, leaves, written):
        old = tree.pack_sequence_as(carry, leaves)
        new = step(old, tree.pack_sequence_as(inputs, [array.read(time) for array in read]))
        tree.assert_same_structure(new, carry)
        collected = tree.flatten(collect(new))
        written = [array.write(time, leaf) for array, leaf in zip(written, collected, strict=True)]
        if not tf.executing_eagerly():
            for leaf, old_leaf in zip(tree.flatten(new), leaves, strict=True):
                leaf.set_shape(old_leaf.shape)  # a step must keep static shapes
        return time + 1, tree.flatten(new), written

    _, leaves, written = tf.while_loop(
        lambda time, *_: time < num_steps,
        body,
        (tf.constant(0), tree.flatten(carry), written),
        maximum_iterations=num_steps,
        parallel_iterations=parallel_iterations,
    )
    collected = [array.stack() for array in written]
    for leaf in collected:
        # The static number of steps is lost in the loop.
        leaf.set_shape([first.shape[0], *leaf.shape[1:]])
    return (
        tree.pack_sequence_as(carry, leaves),
        tree.pack_sequence_as(collect(carry), collected),
    )


def _scan_without_lists(step, carry, inputs, collect):
    """Like `_tensorflow_scan`, but without `TensorArray`.

    The shapes in the loop are constant, because LiteRT allocates all tensors of a loop again after
    a shape changes.
    """
    import tensorflow as tf

    inputs = tree.map_structure(tf.convert_to_tensor, inputs)
    carry = tree.map_structure(tf.convert_to_tensor, carry)
    first = tree.flatten(inputs)[0]
    num_steps = tf.shape(first)[0]
    leaves = tree.flatten(carry)
    collected = [
        tf.zeros([num_steps, *ops.shape(leaf)], leaf.dtype) for leaf in tree.flatten(collect(carry))
    ]

    def body(time, leaves, collected):
        old = tree.pack_sequence_as(carry, leaves)
        new = step(old, tree.map_structure(lambda leaf: tf.gather(leaf, time), inputs))
        tree.assert_same_structure(new, carry)
        collected = [
            ops.slice_update(
                all_steps,
                tf.stack([time, *[0] * len(leaf.shape)]),
                tf.expand_dims(leaf, 0),
            )
            for all_steps, leaf in zip(collected, tree.flatten(collect(new)), strict=True)
        ]
        for leaf, old_leaf in zip(tree.flatten(new), leaves, strict=True):
            leaf.set_shape(old_leaf.shape)  # a step must keep shapes
        return time + 1, tree.flatten(new), collected

    _, leaves, collected = tf.while_loop(
        lambda time, *_: time < num_steps,
        body,
        (tf.constant(0), leaves, collected),
        shape_invariants=(
            tf.TensorShape([]),
            [leaf.shape for leaf in leaves],
            [leaf.shape for leaf in collected],
        ),
    )
    for leaf in collected:
        leaf.set_shape([first.shape[0], *leaf.shape[1:]])
    return (
        tree.pack_sequence_as(carry, leaves),
        tree.pack_sequence_as(collect(carry), collected),
    )
