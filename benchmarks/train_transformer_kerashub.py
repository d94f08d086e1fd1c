"""Measures a training with KerasHub, for `train_transformer.py`.

    python benchmarks/train_transformer_kerashub.py SETTINGS

Loads the weights that `train_transformer_keras.py` wrote. Reads and prints the same JSON as that
script. The model consists of KerasHub layers. It uses the loss, optimizer and metrics of
keras_attn, so that only the layers differ. KerasHub's blocks have no dropout inside the
feed-forward network, so keras_attn is also measured without this dropout. All other dropout is
equal.
"""

import keras
import keras_hub
import numpy as np
import training_side_keras
from keras_hub.layers import (
    ReversibleEmbedding,
    SinePositionEncoding,
    TransformerDecoder,
    TransformerEncoder,
)

# Dict from the layer names in a block of KerasHub to the names in a block of keras_attn.
LAYERS = {
    "self_attention_layer": "self_attention",  # in an encoder
    "self_attention": "self_attention",  # in a decoder
    "self_attention_layer_norm": "attention_norm",
    "cross_attention": "cross_attention_layer",
    "cross_attention_layer_norm": "memory_norm",
    "feedforward_intermediate_dense": "feed_forward/expansion",
    "feedforward_output_dense": "feed_forward/contraction",
    "feedforward_layer_norm": "feed_forward_norm",
}


def main():
    settings = training_side_keras.read_settings()
    keras.utils.set_random_seed(settings["seed"])
    model = kerashub_transformer(settings)
    with np.load(settings["weights"]) as arrays:
        for weight in model.trainable_weights:
            weight.assign(arrays[our_path(weight.path)].reshape(weight.shape))
    training_side_keras.measure(model, settings, keras_hub=keras_hub.__version__)


def kerashub_transformer(settings):
    """Returns a model that maps `source_ids` and `target_ids` to logits."""
    dim = settings["embedding_dim"]
    embedding = ReversibleEmbedding(settings["vocabulary_size"], dim, name="target_embedding")
    positions = SinePositionEncoding()
    block = {
        "intermediate_dim": settings["intermediate_dim"],
        "num_heads": settings["num_heads"],
        "dropout": settings["dropout"],
        "normalize_first": True,
    }

    def embed(ids):
        vectors = embedding(ids) * dim**0.5  # (B, T, D)
        return keras.layers.Dropout(settings["dropout"])(vectors + positions(vectors))

    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    mask = keras.ops.not_equal(source_ids, 0)  # (B, S)
    memory = embed(source_ids)  # (B, S, D)
    for index in range(settings["num_layers"]):
        layer = TransformerEncoder(**block, name=f"encoder-{index}")
        memory = layer(memory, padding_mask=mask)
    memory = final_norm("encoder")(memory)
    outputs = embed(target_ids)  # (B, T, D)
    for index in range(settings["num_layers"]):
        layer = TransformerDecoder(**block, name=f"decoder-{index}")
        outputs = layer(outputs, memory, encoder_padding_mask=mask)
    logits = embedding(final_norm("decoder")(outputs), reverse=True)  # (B, T, V)
    return keras.Model({"source_ids": source_ids, "target_ids": target_ids}, logits)


def final_norm(side):
    return keras.layers.LayerNormalization(epsilon=1e-5, name=f"{side}-final_norm")


def our_path(path):
    """Converts a KerasHub path, `encoder-0/self_attention_layer/query/kernel`, to our path."""
    first, *rest = path.split("/")
    if first == "target_embedding":
        return "encoder/stack/target_embedding/embeddings"
    side, index = first.split("-")
    if index == "final_norm":
        return f"{side}/stack/final_norm/{rest[0]}"
    name, *projection, kind = rest
    weight = "_".join([*projection, kind]).replace("attention_output", "output")
    return f"{side}/stack/block_{index}/{LAYERS[name]}/{weight}"


if __name__ == "__main__":
    main()
