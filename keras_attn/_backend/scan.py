from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree


def supports_jit() -> bool:
    """Whether XLA can compile a training through a `scan`.

    On TensorFlow it cannot, unless the size of the batch is known: it lacks the gradient of
    products of more than two axes in a loop. Keras asks the layers before it chooses XLA, which it
    does by itself on a GPU.
    """
    return keras.backend.backend() != "tensorflow"


def scan(
    step: Callable[[Any, Any], Any], carry: Any, inputs: Any, collect: Callable[[Any], Any]
) -> tuple[Any, Any]:
    """Loops over time: what `ops.scan` does, with outputs that need not look like the carry.

    Under TensorFlow `ops.scan` keeps all that the carry ever was, and its loop cannot be converted
    to ONNX. This one keeps what is asked for, in a loop that can.

    Args:
        step: function `(carry, inputs of one step) -> carry`.
        carry: nested tensors.
        inputs: nested tensors with leaves `(time, ...)`, at least one.
        collect: function `carry -> nested tensors`, the part of a carry that is kept of each step.

    Returns:
        Tuple of the last carry and what was collected, with leaves `(time, ...)`.
    """
    if keras.backend.backend() == "tensorflow":
        return _tensorflow_scan(step, carry, inputs, collect)

    def step_and_collect(carry, step_inputs):
        carry = step(carry, step_inputs)
        return carry, collect(carry)

    return ops.scan(step_and_collect, carry, inputs)


def _tensorflow_scan(step, carry, inputs, collect):
    import tensorflow as tf

    inputs = tree.map_structure(tf.convert_to_tensor, inputs)
    carry = tree.map_structure(tf.convert_to_tensor, carry)
    first = tree.flatten(inputs)[0]
    num_steps = tf.shape(first)[0]
    # TensorArrays cannot be leaves of a tree, so all is kept flat.
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
        for leaf, old_leaf in zip(tree.flatten(new), leaves, strict=True):
            leaf.set_shape(old_leaf.shape)  # a step keeps shapes
        return time + 1, tree.flatten(new), written

    _, leaves, written = tf.while_loop(
        lambda time, *_: time < num_steps,
        body,
        (tf.constant(0), tree.flatten(carry), written),
        maximum_iterations=num_steps,
    )
    collected = [array.stack() for array in written]
    for leaf in collected:
        leaf.set_shape([first.shape[0], *leaf.shape[1:]])  # the loop does not know the time
    return (
        tree.pack_sequence_as(carry, leaves),
        tree.pack_sequence_as(collect(carry), collected),
    )
