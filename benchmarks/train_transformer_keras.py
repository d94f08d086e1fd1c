"""One measurement of our side in `train_transformer.py`: training with `model.fit`.

    python benchmarks/train_transformer_keras.py [--no-activation-dropout] SETTINGS

takes and prints what `train_rnn_keras.py` does. The weights are written under their paths in the
model.
"""

import sys

import keras_side
import numpy as np

import keras_attn
from keras_attn.training import compile_for_training


def main():
    settings = keras_side.read_settings()
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
    trainer = compile_for_training(
        keras_attn.training_model(encoder, decoder),
        learning_rate=settings["learning_rate"],
        global_clipnorm=settings["global_clipnorm"],
        label_smoothing=settings["label_smoothing"],
        epsilon=settings["epsilon"],
    )
    if settings["measure"] == "losses":
        weights = {weight.path: weight.numpy() for weight in trainer.trainable_weights}
        np.savez(settings["weights"], **weights)
    keras_side.measure(trainer, settings)


if __name__ == "__main__":
    main()
