"""One measurement of our side in `train_rnn.py`: training as a user does it, with `model.fit`.

    python benchmarks/train_rnn_keras.py SETTINGS

SETTINGS is JSON; JSON is printed. Where `measure` is `"losses"`, the first weights are written for
the peer, and the losses of three steps are printed; where it is `"rate"`, the speed after a
warm-up, in target tokens per second.
"""

import keras_side
import numpy as np
from pytorch_weights import weights_for_pytorch

import keras_attn
from keras_attn.training import compile_for_training


def main():
    settings = keras_side.read_settings()
    encoder, decoder = keras_attn.rnn_seq2seq(
        settings["vocabulary_size"],
        settings["vocabulary_size"],
        embedding_dim=settings["embedding_dim"],
        units=settings["units"],
        dropout=settings["dropout"],
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
        np.savez(settings["weights"], **weights_for_pytorch(encoder, decoder))
    keras_side.measure(trainer, settings)


if __name__ == "__main__":
    main()
