"""Measures a training with `model.fit`, for `train_transformer.py`.

    python benchmarks/train_transformer_keras.py [--no-activation-dropout] SETTINGS

Reads and prints the same JSON as `train_rnn_keras.py`. The keys of the written weights are their
paths in the model.
"""

import sys

import numpy as np
import training_side_keras

import keras_attn


def main():
    settings = training_side_keras.read_settings()
    encoder, decoder = keras_attn.transformer_seq2seq(
        settings["vocabulary_size"],
        settings["vocabulary_size"],
        num_layers=settings["num_layers"],
        num_heads=settings["num_heads"],
        embedding_dim=settings["embedding_dim"],
        intermediate_dim=settings["intermediate_dim"],
        dropout=settings["dropout"],
        activation_dropout=0.0 if "--no-activation-dropout" in sys.argv else None,
        share_embeddings=True,
        seed=settings["seed"],
    )
    model = keras_attn.TrainingModel(encoder, decoder)
    if settings["measure"] == "losses":
        weights = {weight.path: weight.numpy() for weight in model.trainable_weights}
        np.savez(settings["weights"], **weights)
    training_side_keras.measure(model, settings)


if __name__ == "__main__":
    main()
