"""Measures a training with PyTorch, for `train_transformer.py`.

    python benchmarks/train_transformer_pytorch.py SETTINGS

Loads the weights that `train_transformer_keras.py` wrote. Reads and prints the same JSON as that
script.
"""

import numpy as np
import torch
import training_side_pytorch
from torch_transformer import TorchTransformer

# Dicts from the layer names in an encoder or decoder block of PyTorch to the names in keras_attn.
LAYERS = {
    "encoder": {"norm1": "attention_norm", "norm2": "feed_forward_norm"},
    "decoder": {
        "norm1": "attention_norm",
        "norm2": "memory_norm",
        "norm3": "feed_forward_norm",
        "multihead_attn": "cross_attention_layer",
    },
}
SHARED_LAYERS = {
    "self_attn": "self_attention",
    "linear1": "feed_forward/expansion",
    "linear2": "feed_forward/contraction",
}


def main():
    settings = training_side_pytorch.read_settings()
    names = ("vocabulary_size", "embedding_dim", "num_layers", "num_heads", "intermediate_dim")
    model = TorchTransformer(*(settings[name] for name in names), settings["dropout"])
    with np.load(settings["weights"]) as arrays:
        state = state_of(arrays, settings["num_layers"])
    model.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    training_side_pytorch.measure(model, settings)


def state_of(weights, num_layers):
    """Converts weights of keras_attn to the state dict of a `TorchTransformer`."""
    state = {"embedding.weight": weights["encoder/stack/target_embedding/embeddings"]}
    for side, own_layers in LAYERS.items():
        state |= under(f"{side}.norm", norm(weights, f"{side}/stack/final_norm"))
        for index in range(num_layers):
            for theirs, ours in {**SHARED_LAYERS, **own_layers}.items():
                path = f"{side}/stack/block_{index}/{ours}"
                convert = attention if "attn" in theirs else norm if "norm" in theirs else dense
                state |= under(f"{side}.layers.{index}.{theirs}", convert(weights, path))
    return state


def under(prefix, weights):
    return {f"{prefix}.{name}": weight for name, weight in weights.items()}


def dense(weights, path):
    return {"weight": weights[f"{path}/kernel"].T, "bias": weights[f"{path}/bias"]}


def norm(weights, path):
    return {"weight": weights[f"{path}/gamma"], "bias": weights[f"{path}/beta"]}


def attention(weights, path):
    """Returns the attention weights with joined projections of queries, keys and values."""
    kernels, biases = (
        [weights[f"{path}/{name}_{kind}"] for name in ("query", "key", "value")]
        for kind in ("kernel", "bias")
    )
    return {
        "in_proj_weight": np.concatenate(kernels, axis=1).T,
        "in_proj_bias": np.concatenate(biases),
        "out_proj.weight": weights[f"{path}/output_kernel"].T,
        "out_proj.bias": weights[f"{path}/output_bias"],
    }


if __name__ == "__main__":
    main()
