"""T5 and its successors: T5 1.1, Flan-T5, mT5 and ByT5."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_attn._decoders.transformer_decoder import TransformerDecoder
from keras_attn._encoders.transformer_encoder import TransformerEncoder
from keras_attn._positions.relative_position_bias import RelativePositionBias
from keras_attn._transformer.transformer_decoder_block import TransformerDecoderBlock
from keras_attn._transformer.transformer_encoder_block import TransformerEncoderBlock
from keras_attn.convert._activations import activation, check_activation
from keras_attn.convert._architecture import Architecture
from keras_attn.convert._config_settings import (
    CLASSIFIER,
    COMMON,
    ENCODER_DECODER,
    TRAINING,
    equals,
    rate,
    source_id,
)
from keras_attn.convert._settings import Setting, Settings, irrelevant, mapped, refused_unless
from keras_attn.convert._weight_mapping import WeightMapping

SHARED, OUTPUT = "shared.weight", "lm_head.weight"
PARTS = ("q", "k", "v", "o")


def activation_name(settings: Mapping[str, Any]) -> tuple[str, bool]:
    """Returns the activation's name in transformers, and whether it belongs to a gate."""
    name, is_gated = settings["feed_forward_proj"], False
    if name.startswith("gated-"):
        name, is_gated = name.removeprefix("gated-"), True
    # In transformers, the activation "gated-gelu" uses the tanh approximation.
    return ("gelu_new" if is_gated and name == "gelu" else name), is_gated


SETTINGS: dict[str, Setting] = {
    **COMMON,
    **ENCODER_DECODER,
    "vocab_size": mapped("size of the embedding", 32128),
    "d_model": mapped("size of the vectors", 512),
    "d_kv": mapped("key_dim", 64),
    "d_ff": mapped("intermediate_dim", 2048),
    "num_layers": mapped("num_layers of the encoder", 6),
    "num_decoder_layers": mapped("num_layers of the decoder", kind=int),
    "num_heads": mapped("num_heads", 8),
    "feed_forward_proj": mapped(
        "activation",
        "relu",
        lambda settings: check_activation(
            settings, "feed_forward_proj", *activation_name(settings)
        ),
    ),
    "layer_norm_epsilon": mapped("epsilon", 1e-6),
    "relative_attention_num_buckets": mapped("num_buckets of the position bias", 32),
    "relative_attention_max_distance": mapped("max_distance of the position bias", 128),
    "pad_token_id": source_id("pad_token_id", "pad_token_id of the sources", 0),
    "eos_token_id": source_id("eos_token_id", "end_token_id of the sources", 1),
    "dropout_rate": rate("dropout, for training", 0.1),
    "classifier_dropout": CLASSIFIER,
    "initializer_factor": TRAINING,
    "dense_act_fn": refused_unless(
        "must match feed_forward_proj",
        lambda value, settings: value in (None, activation_name(settings)[0]),
    ),
    "is_gated_act": refused_unless(
        "must match feed_forward_proj",
        lambda value, settings: value in (None, activation_name(settings)[1]),
    ),
    "n_positions": irrelevant("relative positions have no limit"),
    "num_hidden_layers": equals("num_layers"),
    "num_attention_heads": equals("num_heads"),
    "hidden_size": equals("d_model"),
    "head_dim": equals("d_kv"),
}


def build(architecture: Architecture, settings: Settings, copy: WeightMapping) -> tuple[Any, Any]:
    """Builds encoder and decoder. See `Architecture`."""
    features, size, heads = settings["d_model"], settings["vocab_size"], settings["num_heads"]
    name, is_gated = activation_name(settings)
    dropout = settings["dropout_rate"]
    block = {
        "num_heads": heads,
        "intermediate_dim": settings["d_ff"],
        "key_dim": settings["d_kv"],
        "activation": activation(name, is_gated),
        "normalization": "rms",
        "use_bias": False,
        "epsilon": settings["layer_norm_epsilon"],
        "dropout": dropout,
    }
    buckets = {
        "num_heads": heads,
        "num_buckets": settings["relative_attention_num_buckets"],
        "max_distance": settings["relative_attention_max_distance"],
    }
    embedding = keras.layers.ReversibleEmbedding(size, features)
    # T5 1.1 has a separate output matrix, even if tie_word_embeddings is true: newer transformers
    # releases always write true.
    is_tied = OUTPUT not in copy or copy.are_equal(OUTPUT, SHARED)
    head = None if is_tied else keras.layers.Dense(size, use_bias=False, name="head")
    encoder = TransformerEncoder(
        TransformerEncoderBlock(**block),
        embedding,
        num_layers=settings["num_layers"],
        position_bias=RelativePositionBias(**buckets, bidirectional=True),
        dropout=dropout,
        pad_token_id=settings["pad_token_id"],
        end_token_id=settings["eos_token_id"],
        name="encoder",
    )
    decoder_layers = settings["num_decoder_layers"]
    decoder = TransformerDecoder(
        TransformerDecoderBlock(**block),
        embedding,
        head=head,
        num_layers=settings["num_layers"] if decoder_layers is None else decoder_layers,
        position_bias=RelativePositionBias(**buckets, bidirectional=False),
        dropout=dropout,
        name="decoder",
    )
    return encoder, decoder


def copy_weights(
    architecture: Architecture,
    settings: Settings,
    impossible_token_ids: Sequence[int],
    layers: tuple[Any, Any],
    copy: WeightMapping,
) -> None:
    """Maps the variables to weights. See `Architecture`."""
    encoder, decoder = layers
    embedding = encoder.embedding.embeddings
    copy.copy(embedding, SHARED)
    if decoder.embedding is not encoder.embedding:
        copy.copy(decoder.embedding.embeddings, SHARED)
    for name in (f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")):
        copy.check_tied(name, SHARED)
    if decoder.head is not None:
        copy.copy(decoder.head.kernel, OUTPUT, transpose=True)
    elif settings["tie_word_embeddings"]:
        copy.check_tied(OUTPUT, SHARED)
    else:
        copy.duplicate(embedding, OUTPUT)
    # Some checkpoints contain a cross-attention position bias, which transformers ignores.
    copy.ignore(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight")
    # T5 does not divide attention scores by sqrt(d_kv), but `MultiHeadAttention` does. Multiply the
    # query projection by this number.
    scale = settings["d_kv"] ** 0.5
    is_gated = activation_name(settings)[1]
    for side, layer in (("encoder", encoder), ("decoder", decoder)):
        scales = side == "decoder" and _scales_outputs(architecture, settings)
        output_scale = settings["d_model"] ** -0.5 if scales else 1.0
        _copy_stack(side, layer.stack, copy, scale, output_scale, is_gated)


def _scales_outputs(architecture, settings):
    """Returns whether decoder outputs are multiplied by 1/sqrt(d_model), as in T5 1.0."""
    if not architecture.options["can_scale_outputs"]:
        return False
    scales = settings["scale_decoder_outputs"]
    return bool(settings["tie_word_embeddings"] if scales is None else scales)


def _copy_stack(side, stack, copy, scale, output_scale, is_gated):
    first = f"{side}.block.0.layer.0.SelfAttention"
    copy.copy(stack.position_bias.embeddings, f"{first}.relative_attention_bias.weight")
    copy.norm(stack.final_norm, f"{side}.final_layer_norm", scale=output_scale)
    for index, block in enumerate(stack.blocks):
        name = f"{side}.block.{index}.layer"
        copy.attention(block.self_attention, f"{name}.0.SelfAttention", PARTS, scale)
        copy.norm(block.attention_norm, f"{name}.0.layer_norm")
        last = f"{name}.1"
        if side == "decoder":
            attention = block.cross_attention_layer
            copy.attention(attention, f"{name}.1.EncDecAttention", PARTS, scale)
            copy.norm(block.memory_norm, f"{name}.1.layer_norm")
            last = f"{name}.2"
        layers = ("wi_0", "wi_1") if is_gated else ("wi",)
        names = [f"{last}.DenseReluDense.{layer}.weight" for layer in layers]
        copy.joined(block.feed_forward.expansion.kernel, names)
        output = block.feed_forward.contraction.kernel
        copy.copy(output, f"{last}.DenseReluDense.wo.weight", transpose=True)
        copy.norm(block.feed_forward_norm, f"{last}.layer_norm")


T5 = Architecture(
    "t5",
    {
        **SETTINGS,
        "scale_decoder_outputs": mapped(
            "scale of the last normalization of the decoder", kind=bool
        ),
    },
    build,
    copy_weights,
    tokenizer="t5",
    options={"can_scale_outputs": True},
)
MT5 = Architecture(
    "mt5",
    {
        **SETTINGS,
        "vocab_size": mapped("size of the embedding", 250112),
        "d_ff": mapped("intermediate_dim", 1024),
        "num_layers": mapped("num_layers of the encoder", 8),
        "num_heads": mapped("num_heads", 6),
        "feed_forward_proj": dataclasses.replace(
            SETTINGS["feed_forward_proj"], default="gated-gelu"
        ),
    },
    build,
    copy_weights,
    tokenizer="t5",
    options={"can_scale_outputs": False},
)
