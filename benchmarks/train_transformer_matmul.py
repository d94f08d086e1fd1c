"""Speed of the matrix products of `train_transformer.py` alone, in TensorFlow.

    python benchmarks/train_transformer_matmul.py SETTINGS

Reads the settings of the other measurements. Prints the target tokens per second of a training that
consists only of these matrix products, forward and backward. The time of a product is the fastest
of three runs. The product with the output matrix includes only tokens that have labels, as in the
loss of keras_attn.
"""

import json
import time
from collections import Counter

import numpy as np
import tensorflow as tf
import training_side_keras


def main():
    settings = training_side_keras.read_settings()
    timed = training_side_keras.read_batches(settings["batches"])[settings["warmup_steps"] :]
    seconds = sum(
        seconds_of(product) * count
        for inputs, labels in timed
        for product, count in products(inputs["source_ids"], labels, settings)
    )
    rate = training_side_keras.num_tokens(timed) / seconds
    print(json.dumps({"rate": rate, "versions": training_side_keras.with_ours({})}))


def products(source_ids, labels, settings):
    """Returns products `(matrices, rows, inner, columns)` with their count in a forward pass."""
    batch, source = source_ids.shape
    target, num_labels = labels.shape[1], int(np.count_nonzero(labels))
    dim, inner = settings["embedding_dim"], settings["intermediate_dim"]
    heads, layers = settings["num_heads"], settings["num_layers"]
    found = Counter({(1, num_labels, dim, settings["vocabulary_size"]): 1})

    def add(*product):
        found[product] += layers

    def add_attention(queries, keys):
        add(batch * heads, queries, dim // heads, keys)
        add(batch * heads, queries, keys, dim // heads)
        add(1, batch * queries, dim, dim)  # output

    for length in (source, target):
        add(1, batch * length, dim, 3 * dim)  # queries, keys and values
        add_attention(length, length)
        add(1, batch * length, dim, inner)
        add(1, batch * length, inner, dim)
    add(1, batch * target, dim, dim)  # queries of the cross-attention
    add(1, batch * source, dim, 2 * dim)  # keys and values of the cross-attention
    add_attention(target, source)
    return found.items()


def seconds_of(product, repeats=3):
    """Returns the fastest time of a product and of the two products of its gradient."""
    matrices, rows, inner, columns = product
    left, right, upstream = (
        tf.random.normal(shape if matrices == 1 else (matrices, *shape))
        for shape in ((rows, inner), (inner, columns), (rows, columns))
    )
    fastest = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        tf.matmul(left, right)
        tf.matmul(upstream, right, transpose_b=True)
        tf.matmul(left, upstream, transpose_a=True)
        fastest = min(fastest, time.perf_counter() - started)
    return fastest


if __name__ == "__main__":
    main()
