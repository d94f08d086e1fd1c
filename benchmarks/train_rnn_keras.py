"""One measurement of our side in `train_rnn.py`: training as a user does it, with `model.fit`.

    python benchmarks/train_rnn_keras.py SETTINGS

SETTINGS is JSON; JSON is printed. Where `measure` is `"losses"`, the first weights are written for
the peer, and the losses of three steps are printed; where it is `"rate"`, the speed after a
warm-up, in target tokens per second.
"""

import keras_side
import numpy as np

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


def weights_for_pytorch(encoder, decoder):
    """All weights, as the state of a `TorchSeq2Seq`, whose matrices are transposed."""
    bidirectional = encoder.recurrent_layers[0]
    h_bridge, c_bridge = decoder.state_bridge.dense_layers
    attention = decoder.cell.attention
    matrices = {
        "bridge.0.weight": h_bridge.kernel,
        "bridge.1.weight": c_bridge.kernel,
        "key_layer.weight": attention.key_kernel,
        "query_layer.weight": attention.query_kernel,
        "attention_layer.weight": decoder.cell.attention_layer.kernel,
    }
    weights = {
        "embedding.weight": encoder.embedding.embeddings.numpy(),
        "bridge.0.bias": h_bridge.bias.numpy(),
        "bridge.1.bias": c_bridge.bias.numpy(),
        "score_vector": attention.vector[:, 0].numpy(),
    }
    for cell, name, suffix in (
        (bidirectional.forward_layer.cell, "encoder", "_l0"),
        (bidirectional.backward_layer.cell, "encoder", "_l0_reverse"),
        (decoder.cell.cell, "cell", ""),
    ):
        matrices[f"{name}.weight_ih{suffix}"] = cell.kernel
        matrices[f"{name}.weight_hh{suffix}"] = cell.recurrent_kernel
        weights[f"{name}.bias_ih{suffix}"] = cell.bias.numpy()
        # A second bias, which Keras does not have and the peer does not train.
        weights[f"{name}.bias_hh{suffix}"] = np.zeros_like(cell.bias)
    return {**weights, **{name: matrix.numpy().T for name, matrix in matrices.items()}}


if __name__ == "__main__":
    main()
