"""Trains on one and on four JAX devices, and searches if asked to; writes the results as JSON.

The number of CPU devices must be set before JAX starts, so the test runs this in a separate
process.
"""

import json
import sys
from pathlib import Path

import jax
import keras
import numpy as np

import keras_attn
from keras_attn.training import compile_for_training, fit, make_layout_map
from tests.training.toy_training import VOCABULARY_SIZE, ToyBatches


def make_parts(kind):
    keras.utils.set_random_seed(1)
    vocabularies = VOCABULARY_SIZE, VOCABULARY_SIZE
    if kind == "rnn":
        return keras_attn.rnn_seq2seq(*vocabularies, units=8, embedding_dim=8, dropout=0.0)
    sizes = {"num_layers": 1, "num_heads": 4, "embedding_dim": 8, "intermediate_dim": 16}
    return keras_attn.transformer_seq2seq(*vocabularies, **sizes, dropout=0.0)


def run(kind, shape, parts=None, search=False):
    """Trains for two epochs. Returns the losses, found ids and the shards of each weight."""
    sizes = (4, 2, 3) if search else (4,)  # each size is compiled
    devices = keras.distribution.list_devices("cpu")[: shape[0] * shape[1]]
    mesh = keras.distribution.DeviceMesh(shape, ("batch", "model"), devices)
    distribution = keras.distribution.ModelParallel(layout_map=make_layout_map(mesh, parts))
    keras.distribution.set_distribution(distribution)
    encoder, decoder = make_parts(kind)
    model = compile_for_training(keras_attn.TrainingModel(encoder, decoder), 0.02)
    losses = fit(model, ToyBatches(sizes), epochs=2, verbose=0).history["loss"]
    token_ids = found_ids(encoder, decoder) if search else None
    shards = {}
    for variable in [*model.variables, *model.optimizer.variables]:
        value = variable.value
        shards[variable.path] = value.size // value.addressable_shards[0].data.size
    return {"losses": losses, "token_ids": token_ids, "shards": shards}


def found_ids(encoder, decoder):
    search = keras_attn.BeamDecoder(decoder, beam_width=2, max_length=6, relative_max_length=None)
    generator = keras_attn.GenerationModel(encoder, search)
    inputs, _ = ToyBatches((4,), seed=1).batch(0)
    found = generator.predict(inputs["source_ids"], verbose=0)["token_ids"]
    return np.asarray(found).tolist()


def main(path, kind):
    if kind == "fast":
        report = {"one": run("transformer", (1, 1)), "four": run("transformer", (1, 4))}
    else:
        shapes = {"one": (1, 1), "four": (1, 4), "two by two": (2, 2)}
        report = {name: run(kind, shape, search=True) for name, shape in shapes.items()}
        if kind == "transformer":
            parts = ["attention", "feed_forward"]
            report["without embedding"] = run(kind, (1, 4), parts, search=True)
    path.write_text(json.dumps(report))


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 4)
    main(Path(sys.argv[1]), sys.argv[2])
