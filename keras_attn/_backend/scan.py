from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree


def supports_jit() -> bool:
    """Returns whether XLA can compile training through a `scan`.

    On TensorFlow, it cannot if the batch size is unknown: XLA lacks the gradient of products of
    more than two axes in a loop. Keras asks the layers before it enables XLA, which is the default
    on GPUs.
    """
    return keras.backend.backend() != "tensorflow"


def scan(
    step: Callable[[Any, Any], Any], carry: Any, inputs: Any, collect: Callable[[Any], Any]
) -> tuple[Any, Any]:
    """Loops over time like `ops.scan`, with outputs that may differ from the carry.

    On TensorFlow, `ops.scan` stores all values of the carry, and its loop cannot be converted to
    ONNX. This function stores only what `collect` returns, in a loop that can be converted.

    Args:
        step: Function `(carry, inputs of one step) -> carry`.
        carry: Nested tensors.
        inputs: Nested tensors with leaves of shape `(time, ...)`, at least one.
        collect: Function `carry -> nested tensors` that selects what is stored of each step.

    Returns:
        Tuple of the last carry and the collected tensors, with leaves of shape `(time, ...)`.
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
    # TensorArrays cannot be leaves of a tree, so the lists are flat.
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
        leaf.set_shape([first.shape[0], *leaf.shape[1:]])  # the loop loses the static time size
    return (
        tree.pack_sequence_as(carry, leaves),
        tree.pack_sequence_as(collect(carry), collected),
    )
