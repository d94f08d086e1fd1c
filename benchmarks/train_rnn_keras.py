"""Measures a training with `model.fit`, for `train_rnn.py`.

    python benchmarks/train_rnn_keras.py SETTINGS

Reads SETTINGS as JSON and prints JSON. If `measure` is `"losses"`, the script writes the initial
weights for the peer and prints the losses of three steps. If `measure` is `"rate"`, the script
prints the speed after a warm-up, in target tokens per second.
"""

import numpy as np
import training_side_keras
from torch_seq2seq_weights import weights_for_pytorch

import keras_attn


def main():
    settings = training_side_keras.read_settings()
    encoder, decoder = keras_attn.rnn_seq2seq(
        settings["vocabulary_size"],
        settings["vocabulary_size"],
        embedding_dim=settings["embedding_dim"],
        units=settings["units"],
        dropout=settings["dropout"],
        share_embeddings=True,
        seed=settings["seed"],
    )
    model = keras_attn.TrainingModel(encoder, decoder)
    if settings["measure"] == "losses":
        np.savez(settings["weights"], **weights_for_pytorch(encoder, decoder))
    training_side_keras.measure(model, settings)


if __name__ == "__main__":
    main()
