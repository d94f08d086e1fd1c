"""Converts the weights of a `keras_attn.rnn_seq2seq` model to the same model in PyTorch."""

import numpy as np


def weights_for_pytorch(encoder, decoder):
    """Returns the state dict of a `TorchSeq2Seq`; its matrices are transposed."""
    bidirectional = encoder.recurrent_layers[0]
    h_bridge, c_bridge = decoder.state_bridge.dense_layers
    attention = decoder.cell.attention
    matrices = {
        "bridge.0.weight": h_bridge.kernel,
        "bridge.1.weight": c_bridge.kernel,
        "key_layer.weight": attention.key_kernel,
        "attention_layer.weight": decoder.cell.attention_layer.kernel,
    }
    weights = {
        "embedding.weight": encoder.embedding.embeddings.numpy(),
        "bridge.0.bias": h_bridge.bias.numpy(),
        "bridge.1.bias": c_bridge.bias.numpy(),
    }
    if hasattr(attention, "query_kernel"):  # Bahdanau attention, not Luong attention
        matrices["query_layer.weight"] = attention.query_kernel
        weights["score_vector"] = attention.vector[:, 0].numpy()
    for cell, name, suffix in (
        (bidirectional.forward_layer.cell, "encoder", "_l0"),
        (bidirectional.backward_layer.cell, "encoder", "_l0_reverse"),
        (decoder.cell.cell, "cell", ""),
    ):
        matrices[f"{name}.weight_ih{suffix}"] = cell.kernel
        matrices[f"{name}.weight_hh{suffix}"] = cell.recurrent_kernel
        weights[f"{name}.bias_ih{suffix}"] = cell.bias.numpy()
        # PyTorch has a second bias, which Keras does not have. It is not trained.
        weights[f"{name}.bias_hh{suffix}"] = np.zeros_like(cell.bias)
    return {**weights, **{name: matrix.numpy().T for name, matrix in matrices.items()}}
