"""OpenNMT-tf Transformers: encoder, decoder, and their variable names."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_attn._decoders.transformer_decoder import TransformerDecoder
from keras_attn._encoders.transformer_encoder import TransformerEncoder
from keras_attn._positions.learned_positions import LearnedPositions
from keras_attn._positions.sinusoidal_positions import SinusoidalPositions
from keras_attn._transformer.transformer_decoder_block import TransformerDecoderBlock
from keras_attn._transformer.transformer_encoder_block import TransformerEncoderBlock
from keras_attn.convert._conversion_error import ConversionError, Problems
from keras_attn.convert._opennmt_settings import END, PAD, START
from keras_attn.convert._settings import Settings
from keras_attn.convert._weight_copy import WeightCopy

EPSILON = 1e-3
"""Layer normalization epsilon in OpenNMT-tf, the Keras default."""

FIRST_POSITION = 1
"""Index of the first position in OpenNMT-tf position encodings."""

# In OpenNMT-tf, gelu is the tanh approximation.
ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "swish": "silu", "silu": "silu"}
"""Dict from activation names in OpenNMT-tf to those in keras_attn."""

SHARING = ("NONE", "SOURCE_TARGET_INPUT", "TARGET", "ALL", "AUTO")
"""`share_embeddings` values in the order of their numbers in OpenNMT-tf."""

POSITIONS = ("SinusoidalPositionEncoder", "PositionEmbedder", None)
"""`position_encoder_class` values."""

SOURCE = "model/examples_inputter/features_inputter/embedding"
TARGET = "model/examples_inputter/labels_inputter/embedding"
OUTPUT = "model/decoder/output_layer"


def build_opennmt(
    settings: Settings, controls: Mapping[str, Any], copy: WeightCopy
) -> tuple[TransformerEncoder, TransformerDecoder]:
    """Builds encoder and decoder, and copies the variables.

    Args:
        settings: `Settings` with `opennmt.models.Transformer` arguments that `check_arguments`
            accepted.
        controls: Dict with the optional bools `start` and `end`, whether the sources have a start
            token and an end token.
        copy: `WeightCopy` from the checkpoint.

    Returns:
        Tuple `(encoder, decoder)`.

    Raises:
        ConversionError: If an argument is not supported.
    """
    features, heads = settings["num_units"], settings["num_heads"]
    hidden, num_layers = settings["ffn_inner_dim"], _num_layers(settings)
    share = _sharing(settings, copy)
    source = _embedding(copy, SOURCE, features)
    target = source if share in ("SOURCE_TARGET_INPUT", "ALL") else None
    target = _embedding(copy, TARGET, features) if target is None else target
    has_bias, head = settings["output_layer_bias"], None
    if share not in ("TARGET", "ALL"):
        head = keras.layers.Dense(target.input_dim, use_bias=has_bias, name="head")
    block = {
        "activation": _choose(settings, "ffn_activation", ACTIVATIONS),
        "normalize_first": settings["pre_norm"],
        "dropout": settings["dropout"],
        "attention_dropout": settings["attention_dropout"],
        "activation_dropout": settings["ffn_dropout"],
        "epsilon": EPSILON,
    }
    stack = {"scale_embedding": True, "dropout": settings["dropout"]}
    encoder = TransformerEncoder(
        TransformerEncoderBlock(heads, hidden, **block),
        source,
        num_layers=num_layers[0],
        positions=_positions("encoder", settings, copy),
        pad_token_id=PAD,
        start_token_id=START if controls.get("start") else None,
        end_token_id=END if controls.get("end") else None,
        name="encoder",
        **stack,
    )
    decoder = TransformerDecoder(
        TransformerDecoderBlock(heads, hidden, **block),
        target,
        head=head,
        num_layers=num_layers[1],
        positions=_positions("decoder", settings, copy),
        name="decoder",
        use_output_bias=has_bias and head is None,
        **stack,
    )
    encoder.build((None, None))
    decoder.build((None, None), (None, None, features))
    copy.copy(source.embeddings, SOURCE)
    if target is not source:
        copy.copy(target.embeddings, TARGET)
    if head is not None:
        copy.copy(head.kernel, f"{OUTPUT}/kernel")
    if has_bias:
        copy.copy(decoder.output_bias if head is None else head.bias, f"{OUTPUT}/bias")
    for side, layer in (("encoder", encoder), ("decoder", decoder)):
        _copy_stack(side, layer.stack, settings, copy)
    return encoder, decoder


def check_arguments(settings: Settings) -> None:
    """Checks Transformer arguments.

    Args:
        settings: `Settings` with `opennmt.models.Transformer` arguments.

    Raises:
        ConversionError: If arguments are not supported. The message names all of them.
    """
    problems = Problems()
    sizes = {}
    for name in ("num_units", "num_heads", "ffn_inner_dim"):
        with problems.collect():
            sizes[name] = _positive(settings, name)
    with problems.collect():
        if {"num_units", "num_heads"} <= sizes.keys():
            features, heads = sizes["num_units"], sizes["num_heads"]
            if features % heads:
                raise _error("num_units", features, f"a multiple of num_heads={heads}")
    with problems.collect():
        _num_layers(settings)
    with problems.collect():
        _share_name(settings)
    with problems.collect():
        _choose(settings, "ffn_activation", ACTIVATIONS)
    with problems.collect():
        if settings["position_encoder_class"] not in POSITIONS:
            name = "position_encoder_class"
            raise _error(name, settings[name], f"one of {POSITIONS}")
    problems.raise_all()


def _positive(settings, name):
    value = settings[name]
    if not isinstance(value, int) or value < 1:
        raise _error(name, value, "a positive integer")
    return value


def _num_layers(settings):
    """Returns the number of layers in the encoder and in the decoder."""
    value = settings["num_layers"]
    pair = tuple(value) if isinstance(value, (list, tuple)) else (value, value)
    if len(pair) != 2 or any(not isinstance(number, int) or number < 1 for number in pair):
        raise _error("num_layers", value, "a positive integer or a pair of them")
    return pair


def _share_name(settings):
    """Returns the shared embeddings as a name in `SHARING`."""
    share = settings["share_embeddings"]
    if isinstance(share, int) and 0 <= share < len(SHARING):
        share = SHARING[share]
    if share not in SHARING:
        raise _error("share_embeddings", share, f"one of {SHARING}")
    return share


def _sharing(settings, copy):
    """Returns the shared embeddings. The variables decide what `AUTO` means."""
    share = _share_name(settings)
    if share == "AUTO":  # in OpenNMT-tf, ALL if both sides have the same vocabulary
        share = "TARGET" if TARGET in copy else "ALL"
    return share


def _embedding(copy, name, features):
    # If the variable is missing, `WeightCopy.finish` reports it together with other missing ones.
    rows = (copy.shape(name) or (1,))[0]
    return keras.layers.ReversibleEmbedding(rows, features)


def _positions(side, settings, copy):
    name = settings["position_encoder_class"]
    if name == "PositionEmbedder":
        rows = (copy.shape(f"model/{side}/position_encoder/position_embedding") or (2,))[0]
        return LearnedPositions(rows - FIRST_POSITION, offset=FIRST_POSITION)
    if name == "SinusoidalPositionEncoder":
        return SinusoidalPositions("halves", offset=FIRST_POSITION)
    return None


def _copy_stack(side, stack, settings, copy):
    prefix = f"model/{side}"
    has_bias = settings["mha_bias"]
    place = "input" if settings["pre_norm"] else "output"
    if isinstance(stack.positions, LearnedPositions):
        copy.copy(stack.positions.embeddings, f"{prefix}/position_encoder/position_embedding")
    if stack.final_norm is not None:
        _copy_norm(copy, stack.final_norm, f"{prefix}/layer_norm")
    for index, block in enumerate(stack.blocks):
        parts = [("self_attention", block.attention_norm, block.self_attention)]
        if side == "decoder":
            parts.append(("attention/0", block.memory_norm, block.cross_attention_layer))
        for part, norm, attention in parts:
            name = f"{prefix}/layers/{index}/{part}"
            _copy_norm(copy, norm, f"{name}/{place}_layer_norm")
            _copy_attention(copy, attention, f"{name}/layer", has_bias)
        name = f"{prefix}/layers/{index}/ffn"
        _copy_norm(copy, block.feed_forward_norm, f"{name}/{place}_layer_norm")
        _copy_dense(copy, block.feed_forward.expansion, f"{name}/layer/inner")
        _copy_dense(copy, block.feed_forward.contraction, f"{name}/layer/outer")


def _copy_norm(copy, layer, name):
    copy.copy(layer.gamma, f"{name}/gamma")
    copy.copy(layer.beta, f"{name}/beta")


def _copy_dense(copy, layer, name):
    copy.copy(layer.kernel, f"{name}/kernel")
    copy.copy(layer.bias, f"{name}/bias")


def _copy_attention(copy, layer, name, has_bias):
    parts = {"query": "queries", "key": "keys", "value": "values", "output": "output"}
    for role, part in parts.items():
        copy.copy(getattr(layer, f"{role}_kernel"), f"{name}/linear_{part}/kernel")
        bias = getattr(layer, f"{role}_bias")
        if has_bias:
            copy.copy(bias, f"{name}/linear_{part}/bias")
        else:
            copy.assign(bias, np.zeros(bias.shape, "float32"))


def _choose(settings, name, table):
    value = settings[name]
    if value not in table:
        raise _error(name, value, f"one of {tuple(table)}")
    return table[value]


def _error(name, value, expected):
    return ConversionError(
        f"Expected {name} of the model to be {expected}. Received: {name}={value!r}. Models with "
        "this value cannot be converted."
    )
