"""Writes the small LiteRT files for the tests of the runtime.

    python tests/runtime/litert_files/make.py

writes the `.tflite` files to the directory of this script. They have the interface of an exported
translator and the behaviour of `tests.runtime.fake_model`: the best hypothesis is a copy of prefix
and source, cut to `max_length` tokens, and the second is empty. They have no metadata, which
`tests.runtime.fake_litert` appends.

A source with `SLOW_ID` is translated for about a second, one with `ENDLESS_ID` for ever.
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

HERE = Path(__file__).parent
SLOW_ID, ENDLESS_ID, ENDLESS = 62, 63, 2**31 - 1
SLOW_STEPS = 2_000_000
SOURCE_LENGTH, TARGET_LENGTH = 8, 12
"""Sizes of `copy-fixed-sizes.tflite`, whose inputs and outputs have fixed sizes."""


def copy(source_ids, max_length, length_penalty, prefix_ids=None, seeds=None):
    """Returns the outputs of the model."""
    said = _delayed(source_ids)
    if seeds is not None:
        said = tf.concat([8 + tf.expand_dims(seeds, 1) % 50, said], axis=1)
    if prefix_ids is not None:
        said = tf.concat([prefix_ids, said], axis=1)
    best = said[:, :max_length]  # (B, T)
    empty = tf.concat([best[:, :1] * 0 + 2, best[:, 1:] * 0], axis=1)  # (B, T)
    token_ids = tf.stack([best, empty], axis=1)  # (B, 2, T)
    lengths = tf.reduce_sum(tf.cast(token_ids > 2, tf.int32), axis=2)  # (B, 2)
    costs = tf.cast(lengths, tf.float32)
    columns = tf.range(tf.shape(source_ids)[1])  # (S,)
    rows = tf.math.cumsum(token_ids * 0 + 1, axis=2, exclusive=True)
    rows = tf.expand_dims(rows, 3)  # (B, 2, T, 1)
    return {
        "token_ids": token_ids,
        "lengths": lengths,
        "log_probs": -costs,
        "scores": -costs / tf.maximum(costs, 1.0) ** length_penalty,
        "alignments": tf.cast(tf.equal(rows, columns), tf.float32),  # (B, 2, T, S)
    }


def copy_with_fixed_sizes(source_ids, max_length, length_penalty):
    """Returns the outputs, except the alignments, padded to `TARGET_LENGTH` ids."""
    padding = tf.zeros((1, TARGET_LENGTH - SOURCE_LENGTH), tf.int32)
    is_inside = tf.cast(tf.range(TARGET_LENGTH) < max_length, tf.int32)
    best = tf.concat([_delayed(source_ids), padding], axis=1) * is_inside  # (1, T)
    token_ids = tf.stack([best, tf.constant([[2] + [0] * (TARGET_LENGTH - 1)])], axis=1)
    lengths = tf.reduce_sum(tf.cast(token_ids > 2, tf.int32), axis=2)  # (1, 2)
    costs = tf.cast(lengths, tf.float32)
    scores = -costs / tf.maximum(costs, 1.0) ** length_penalty
    return {"token_ids": token_ids, "lengths": lengths, "log_probs": -costs, "scores": scores}


def _delayed(source_ids):
    """Returns the ids after a loop whose number of steps depends on them."""
    is_slow = tf.reduce_any(source_ids == SLOW_ID)
    is_endless = tf.reduce_any(source_ids == ENDLESS_ID)
    steps = tf.cast(is_slow, tf.int32) * SLOW_STEPS
    limit = tf.where(is_endless, ENDLESS, steps)
    # Subtracting the step and adding it again keeps the count of an endless loop at 0.
    step = 1 - tf.cast(is_endless, tf.int32)
    count = tf.while_loop(
        lambda count: count < limit, lambda count: (count + step,), (tf.constant(0),)
    )
    return source_ids + tf.minimum(count[0], 0)


def write(name, function, batch, further=(), source_length=None):
    """Writes one file."""
    specifications = {
        "source_ids": tf.TensorSpec((batch, source_length), tf.int32, "source_ids"),
        "max_length": tf.TensorSpec((), tf.int32, "max_length"),
        "length_penalty": tf.TensorSpec((), tf.float32, "length_penalty"),
        "prefix_ids": tf.TensorSpec((batch, None), tf.int32, "prefix_ids"),
        "seeds": tf.TensorSpec((batch,), tf.int32, "seeds"),
    }
    names = ["source_ids", "max_length", "length_penalty", *further]
    module = tf.Module()
    module.run = tf.function(function)
    traced = module.run.get_concrete_function(**{each: specifications[each] for each in names})
    with tempfile.TemporaryDirectory() as directory:
        tf.saved_model.save(module, directory, signatures={"serving_default": traced})
        content = tf.lite.TFLiteConverter.from_saved_model(directory).convert()
    path = HERE / f"{name}.tflite"
    path.write_bytes(content)
    print(f"{path.name}: {len(content)} bytes")


if __name__ == "__main__":
    write("copy", copy, 1)
    write("copy-batch-4", copy, 4, ("prefix_ids", "seeds"))
    write("copy-any-batch", copy, None, ("prefix_ids",))
    write("copy-fixed-sizes", copy_with_fixed_sizes, 1, source_length=SOURCE_LENGTH)
