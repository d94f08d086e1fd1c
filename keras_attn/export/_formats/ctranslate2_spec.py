"""Specification of a CTranslate2 model for a Transformer with encoder and decoder.

CTranslate2 stores the query, key and value projections of self-attention as one matrix. All
matrices have the shape `(outputs, inputs)`, while Keras stores kernels as `(inputs, outputs)`.
"""

import importlib
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from keras_attn._attention.multi_head_attention import MultiHeadAttention
from keras_attn._decoders.transformer_decoder import TransformerDecoder
from keras_attn._encoders.transformer_encoder import TransformerEncoder
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._positions.learned_positions import LearnedPositions
from keras_attn._positions.relative_position_bias import RelativePositionBias
from keras_attn._positions.sinusoidal_positions import SinusoidalPositions
from keras_attn._transformer.feed_forward import FeedForward, get_activation
from keras_attn._transformer.transformer_encoder_block import TransformerEncoderBlock
from keras_attn._transformer.transformer_stack import TransformerStack
from keras_attn.convert._weight_writer import WeightWriter
from keras_attn.export._export_error import ExportError

ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "silu": "SWISH",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
}
"""Maps the names of activations in this library to the names in CTranslate2."""

GATES = {"swiglu": "SWISH", "geglu": "GELUTanh", "reglu": "RELU"}
"""Maps the names of gated feed-forward networks to the activations of their gates."""


def check_model(
    encoder: keras.layers.Layer | None, decoder: keras.layers.Layer
) -> tuple[TransformerEncoder, TransformerDecoder]:
    """Returns the layers of a model; raises an error if CTranslate2 cannot represent them.

    Args:
        encoder: Encoder of the model, or `None`.
        decoder: Decoder of the model.

    Raises:
        ExportError: If CTranslate2 cannot represent the model. The message names all reasons.
    """
    reasons = []
    for layer, kind in ((encoder, TransformerEncoder), (decoder, TransformerDecoder)):
        if isinstance(layer, kind) and type(layer) is kind:
            reasons += [f"{layer.name}: {each}" for each in _reasons(layer)]
        else:
            reasons.append(f"{type(layer).__name__} instead of {kind.__name__}")
    is_encoder = isinstance(encoder, TransformerEncoder)
    is_decoder = isinstance(decoder, TransformerDecoder)
    if not reasons and is_encoder and is_decoder:
        own, other = encoder.stack.blocks[0].epsilon, decoder.stack.blocks[0].epsilon
        if own == other:
            return encoder, decoder
        reasons.append(f"epsilon={own} in the encoder and {other} in the decoder")
    raise ExportError(
        "Expected a TransformerEncoder and a TransformerDecoder that CTranslate2 can compute. "
        f"Received: {'; '.join(reasons)}. Export this model with `export_onnx`."
    )


def _reasons(layer: TransformerEncoder | TransformerDecoder) -> Iterator[str]:
    stack, block = layer.stack, layer.stack.blocks[0]
    embeddings = (keras.layers.Embedding, keras.layers.ReversibleEmbedding)
    if type(layer.embedding) not in embeddings:
        yield f"embedding={type(layer.embedding).__name__}"
    if getattr(layer, "token_types", None) is not None:
        yield "token_types"
    if not isinstance(block, TransformerEncoderBlock):
        yield f"block={type(block).__name__}"
        return
    if block.num_key_value_heads not in (None, block.num_heads):
        yield f"num_key_value_heads={block.num_key_value_heads} with num_heads={block.num_heads}"
    for name in ("sliding_window", "rotary"):
        if getattr(block, name) is not None:
            yield f"{name} in the blocks"
    positions, bias = stack.positions, stack.position_bias
    if positions is None and bias is None and block.rotary is None:
        yield "no positions"
    if positions is not None and type(positions) not in (SinusoidalPositions, LearnedPositions):
        yield f"positions={type(positions).__name__}"
    if bias is not None and type(bias) is not RelativePositionBias:
        yield f"position_bias={type(bias).__name__}"
    if bias is not None and positions is not None:
        yield "both positions and position_bias"
    if _activation(block) is None:
        yield f"activation={block.feed_forward.get_config()['activation']!r}"
    head = getattr(layer, "head", None)
    if head is not None and type(head) is not keras.layers.Dense:
        yield f"head={type(head).__name__}"
    elif head is not None and head.activation is not keras.activations.linear:
        yield "a head with an activation"
    table = layer.embedding if head is None else None
    if getattr(table, "logit_soft_cap", None) is not None or not getattr(
        table, "tie_weights", True
    ):
        yield "an embedding with logit_soft_cap or without tie_weights"


def _activation(block: TransformerEncoderBlock) -> str | None:
    """Returns the name of a block's activation in CTranslate2, or `None` if there is none."""
    network = block.feed_forward
    if network.is_gated:
        return GATES.get(network.activation)
    names = (name for own, name in ACTIVATIONS.items() if network.activation is get_activation(own))
    return next(names, None)


def model_spec(encoder: TransformerEncoder, decoder: TransformerDecoder, num_positions: int) -> Any:
    """Returns a `ctranslate2.specs.TransformerSpec` with the weights of a model.

    The vocabularies are not set. Of the configuration, only the epsilon of the normalizations is
    set.

    Args:
        encoder: `TransformerEncoder`, see `check_model`.
        decoder: `TransformerDecoder`, see `check_model`.
        num_positions: Int, number of rows of the table of sinusoids.
    """
    specs: Any = importlib.import_module("ctranslate2.specs")
    transformer = specs.transformer_spec
    value = WeightWriter([encoder, decoder], is_output_tied=decoder.head is None).value
    sides = []
    for layer, kind in (
        (encoder, transformer.TransformerEncoderSpec),
        (decoder, transformer.TransformerDecoderSpec),
    ):
        side = kind(layer.stack.num_layers, **_sizes(layer, specs))
        _set_stack(side, layer, value, num_positions)
        sides.append(side)
    spec = transformer.TransformerSpec(*sides)
    projection, head = spec.decoder.projection, decoder.head
    if head is None:
        projection.weight = spec.decoder.embeddings.weight
        bias = decoder.output_bias
    else:
        projection.weight = _rows(value(head.kernel))
        bias = head.bias
    if bias is not None:
        projection.bias = value(bias)
    spec.config.layer_norm_epsilon = float(encoder.stack.blocks[0].epsilon)
    return spec


def _sizes(
    layer: TransformerEncoder | TransformerDecoder, specs: types.ModuleType
) -> dict[str, object]:
    stack, block = layer.stack, layer.stack.blocks[0]
    has_own_size = block.self_attention.key_dim * block.num_heads != stack.output_dim
    return {
        "num_heads": block.num_heads,
        "pre_norm": block.normalize_first,
        "activation": getattr(specs.Activation, str(_activation(block))),
        "layernorm_embedding": stack.embedding_norm is not None,
        "relative_attention_bias": stack.position_bias is not None,
        "ffn_glu": block.feed_forward.is_gated,
        "rms_norm": block.normalization == "rms",
        "head_dim": block.self_attention.key_dim if has_own_size else None,
    }


def _set_stack(
    side: Any,
    layer: TransformerEncoder | TransformerDecoder,
    value: Callable[[keras.Variable], np.ndarray],
    num_positions: int,
) -> None:
    stack = layer.stack
    embedding = side.embeddings
    embedding = embedding[0] if isinstance(embedding, list) else embedding
    if layer.embedding is not None:
        embedding.weight = value(layer.embedding.embeddings)
    side.scale_embeddings = bool(stack.scale_embedding)
    if stack.positions is not None:
        side.position_encodings.encodings = _position_table(stack, value, num_positions)
    for own, theirs in (
        (stack.embedding_norm, "layernorm_embedding"),
        (stack.final_norm, "layer_norm"),
    ):
        if own is not None:
            _set_norm(getattr(side, theirs), own, value)
    for block, spec in zip(stack.blocks, side.layer, strict=True):
        attention = spec.self_attention
        _set_norm(attention.layer_norm, block.attention_norm, value)
        _set_attention(attention, block.self_attention, ("query key value", "output"), value)
        if stack.position_bias is not None:
            attention.relative_attention_bias = value(stack.position_bias.embeddings)
            distance = np.dtype("int32").type(stack.position_bias.max_distance)
            attention.relative_attention_max_distance = distance
        if getattr(block, "cross_attention", False):
            parts = ("query", "key value", "output")
            _set_norm(spec.attention.layer_norm, block.memory_norm, value)
            _set_attention(spec.attention, block.cross_attention_layer, parts, value)
        _set_norm(spec.ffn.layer_norm, block.feed_forward_norm, value)
        _set_feed_forward(spec.ffn, block.feed_forward, value)


def _position_table(
    stack: TransformerStack, value: Callable[[keras.Variable], np.ndarray], num_positions: int
) -> np.ndarray:
    positions = stack.positions
    if isinstance(positions, LearnedPositions):
        return value(positions.embeddings)[positions.offset :]
    zeros = np.zeros((1, num_positions, stack.output_dim), "float32")
    return np.asarray(keras.ops.convert_to_numpy(positions(zeros))[0], "float32")


def _set_attention(
    spec: Any,
    layer: MultiHeadAttention,
    groups: Sequence[str],
    value: Callable[[keras.Variable], np.ndarray],
) -> None:
    for linear, group in zip(spec.linear, groups, strict=True):
        kernels = [value(getattr(layer, f"{part}_kernel")) for part in group.split()]
        linear.weight = _rows(np.concatenate(kernels, axis=1))
        if layer.use_bias:
            biases = [value(getattr(layer, f"{part}_bias")) for part in group.split()]
            linear.bias = np.concatenate(biases)


def _set_feed_forward(
    spec: Any, network: FeedForward, value: Callable[[keras.Variable], np.ndarray]
) -> None:
    linear = [spec.linear_0, spec.linear_0_noact] if network.is_gated else [spec.linear_0]
    kernels = np.split(value(network.expansion.kernel), len(linear), axis=1)
    for each, kernel in zip(linear, kernels, strict=True):
        each.weight = _rows(kernel)
    if network.expansion.bias is not None:
        biases = np.split(value(network.expansion.bias), len(linear))
        for each, bias in zip(linear, biases, strict=True):
            each.bias = bias
    spec.linear_1.weight = _rows(value(network.contraction.kernel))
    if network.contraction.bias is not None:
        spec.linear_1.bias = value(network.contraction.bias)


def _set_norm(
    spec: Any, layer: keras.layers.Layer, value: Callable[[keras.Variable], np.ndarray]
) -> None:
    spec.gamma = value(layer.gamma if hasattr(layer, "gamma") else layer.scale)
    if getattr(layer, "beta", None) is not None:
        spec.beta = value(layer.beta)


def _rows(kernel: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(kernel.T)


def vocabulary_sizes(encoder: keras.layers.Layer, decoder: keras.layers.Layer) -> tuple[int, int]:
    """Returns the vocabulary sizes of the source and the target."""
    return int(encoder.embedding.input_dim), get_vocabulary_size(decoder) or 0
