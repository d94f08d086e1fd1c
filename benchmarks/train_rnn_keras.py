"""One measurement of our side in `train_rnn.py`: training as a user does it, with `model.fit`.

    python benchmarks/train_rnn_keras.py SETTINGS

SETTINGS is JSON; JSON is printed. Where `measure` is `"losses"`, the first weights are written for
the peer, and the losses of three steps are printed; where it is `"rate"`, the speed after a
warm-up, in target tokens per second.
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
