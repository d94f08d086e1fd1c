"""A small instance of each public layer with its inputs, for tests of all layers."""

import keras
import numpy as np

import keras_attn
from keras_attn import (
    AttentionRNNCell,
    BahdanauAttention,
    LuongAttention,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
)

ABSTRACT = {"AttentionMechanism", "LogitsRule", "StepDecoder", "StatefulAttention", "Search"}
"""Public base classes, which compute nothing by themselves."""


def public_layers():
    """Dict from a name to a class, for each public layer that computes something."""
    public = {name: getattr(keras_attn, name) for name in keras_attn.__all__}
    return {
        name: each
        for name, each in public.items()
        if isinstance(each, type)
        and issubclass(each, keras.Layer)
        and not issubclass(each, keras.Model)
        and name not in ABSTRACT
    }


def _floats(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


IDS = np.array([[5, 6, 7, 2], [5, 2, 0, 0]], "int32")
TARGET_IDS = np.array([[1, 4, 5], [1, 6, 0]], "int32")
QUERY_AND_VALUE = {"query": _floats(2, 3, 8), "value": _floats(2, 5, 8)}
TWO_SENTENCES = {"first": _floats(2, 3, 8), "second": _floats(2, 5, 8)}
ENCODED = {
    "encoder_outputs": _floats(2, 4, 8),
    "encoder_mask": np.array([[True] * 4, [True, True, False, False]]),
}
POSITIONS = {"query_positions": np.array([[0, 1]]), "key_positions": np.array([[0, 1, 2]])}
TRAINED = {"token_ids": TARGET_IDS, **ENCODED}


def _cell(**arguments):
    return AttentionRNNCell(keras.layers.GRUCell(8), BahdanauAttention(4), **arguments)


def _embedding():
    return keras.layers.ReversibleEmbedding(9, 8)


def _language_model(**arguments):
    return language_model(9, **arguments)


def language_model(vocabulary_size, **arguments):
    """Returns a language model with one block of size 8."""
    block = TransformerDecoderBlock(2, 12, cross_attention=False)
    embedding = keras.layers.ReversibleEmbedding(vocabulary_size, 8)
    return keras_attn.CausalLanguageModel(block, embedding, num_layers=1, **arguments)


def _decoder(**arguments):
    block = TransformerDecoderBlock(2, 12)
    return keras_attn.TransformerDecoder(block, _embedding(), num_layers=1, **arguments)


def _encoder(**arguments):
    block = TransformerEncoderBlock(2, 12)
    return keras_attn.TransformerEncoder(block, _embedding(), num_layers=2, **arguments)


def _search(kind, **settings):
    return lambda **arguments: getattr(keras_attn, kind)(
        _decoder(), max_length=4, **settings, **arguments
    )


def _plain(kind, *positional, **settings):
    return lambda **arguments: getattr(keras_attn, kind)(*positional, **settings, **arguments)


def _with_cell(**arguments):
    return keras_attn.AttentionRNN(_cell(), **arguments)


def cell_inputs(cell):
    """Inputs of one step of an `AttentionRNNCell`."""
    if not cell.built:
        cell.build((2, 8), (2, 5, 8))
    memory = cell.prepare_memory(QUERY_AND_VALUE["value"])
    return {
        "inputs": _floats(2, 8),
        "state": cell.get_initial_state(2, memory=memory),
        "memory": memory,
    }


LAYERS = {
    "AlibiBias": (_plain("AlibiBias", 3), POSITIONS),
    "AttentionPooling": (_plain("AttentionPooling", 4), {"inputs": _floats(2, 5, 8)}),
    "AttentionRNN": (
        _with_cell,
        {"inputs": _floats(2, 3, 8), "encoder_outputs": _floats(2, 5, 8)},
    ),
    "AttentionRNNCell": (_cell, cell_inputs),
    "BahdanauAttention": (_plain("BahdanauAttention", 4), QUERY_AND_VALUE),
    "BeamDecoder": (_search("BeamDecoder", beam_width=2), ENCODED),
    "CausalLanguageModel": (_language_model, {"token_ids": TARGET_IDS}),
    "CosineAttention": (_plain("CosineAttention"), QUERY_AND_VALUE),
    "CoverageAttention": (_plain("CoverageAttention", 4), QUERY_AND_VALUE),
    "EnsembleDecoder": (
        lambda **arguments: keras_attn.EnsembleDecoder([_decoder(), _decoder()], **arguments),
        TRAINED,
    ),
    "EnsembleEncoder": (
        lambda **arguments: keras_attn.EnsembleEncoder([_encoder(), _encoder()], **arguments),
        {"inputs": IDS},
    ),
    "FeedForward": (_plain("FeedForward", 12), {"inputs": _floats(2, 3, 8)}),
    "FusedDecoder": (
        lambda **arguments: keras_attn.FusedDecoder(
            _decoder(), _language_model(), 0.5, **arguments
        ),
        TRAINED,
    ),
    "GreedyDecoder": (_search("GreedyDecoder"), ENCODED),
    "IntraDecoderAttention": (
        lambda **arguments: keras_attn.IntraDecoderAttention(LuongAttention(), **arguments),
        {"query": _floats(2, 3, 8)},
    ),
    "IntraSentenceAttention": (
        lambda **arguments: keras_attn.IntraSentenceAttention(keras.layers.Dense(6), **arguments),
        TWO_SENTENCES,
    ),
    "LearnedPositions": (_plain("LearnedPositions", 6), {"inputs": _floats(2, 3, 8)}),
    "LinearScoreAttention": (_plain("LinearScoreAttention"), QUERY_AND_VALUE),
    "LocalAttention": (
        lambda **arguments: keras_attn.LocalAttention(LuongAttention(), window=2, **arguments),
        QUERY_AND_VALUE,
    ),
    "LocationAttention": (_plain("LocationAttention", 6), QUERY_AND_VALUE),
    "LocationSensitiveAttention": (
        _plain("LocationSensitiveAttention", 4, filters=3, kernel_size=3),
        QUERY_AND_VALUE,
    ),
    "LuongAttention": (_plain("LuongAttention", "concat", units=4), QUERY_AND_VALUE),
    "MonotonicAttention": (
        lambda **arguments: keras_attn.MonotonicAttention(LuongAttention(), **arguments),
        QUERY_AND_VALUE,
    ),
    "MultiHeadAttention": (_plain("MultiHeadAttention", 2, 4), QUERY_AND_VALUE),
    "CombinedAttention": (
        lambda **arguments: keras_attn.CombinedAttention(
            {"a": LuongAttention(), "b": BahdanauAttention(4)}, "gate", units=4, **arguments
        ),
        QUERY_AND_VALUE,
    ),
    "PatchEmbedding": (_plain("PatchEmbedding", 2, 8), {"images": _floats(2, 4, 4, 3)}),
    "RNNCell": (
        _plain("RNNCell", 4, output_units=3),
        {"inputs": _floats(2, 8), "states": [_floats(2, 4)]},
    ),
    "RNNDecoder": (
        lambda **arguments: keras_attn.RNNDecoder(
            _cell(attention_units=8), _embedding(), **arguments
        ),
        TRAINED,
    ),
    "RNNEncoder": (
        lambda **arguments: keras_attn.RNNEncoder(
            keras.layers.GRUCell(4), _embedding(), **arguments
        ),
        {"inputs": IDS},
    ),
    "RelativePositionBias": (_plain("RelativePositionBias", 2, 8), POSITIONS),
    "RotaryPositions": (_plain("RotaryPositions"), {"heads": _floats(2, 2, 3, 4)}),
    "AlternativesDecoder": (_search("AlternativesDecoder"), ENCODED),
    "SamplingDecoder": (_search("SamplingDecoder"), {**ENCODED, "seeds": np.array([1, 2])}),
    "ScaledDotProductAttention": (_plain("ScaledDotProductAttention"), QUERY_AND_VALUE),
    "SequencePooling": (_plain("SequencePooling"), ENCODED),
    "SinusoidalPositions": (_plain("SinusoidalPositions"), {"inputs": _floats(2, 3, 8)}),
    "SoftAlignment": (
        lambda **arguments: keras_attn.SoftAlignment(keras.layers.Dense(6), **arguments),
        TWO_SENTENCES,
    ),
    "StateBridge": (_plain("StateBridge", [4, 4]), ENCODED),
    "TiedMLMHead": (
        lambda **arguments: keras_attn.TiedMLMHead(_embedding(), **arguments),
        {"inputs": _floats(2, 3, 8)},
    ),
    "TransformerDecoder": (_decoder, TRAINED),
    "TransformerDecoderBlock": (
        _plain("TransformerDecoderBlock", 2, 12),
        {"inputs": _floats(2, 3, 8), "encoder_outputs": _floats(2, 5, 8)},
    ),
    "TransformerEncoder": (_encoder, {"inputs": IDS}),
    "TransformerEncoderBlock": (
        _plain("TransformerEncoderBlock", 2, 12),
        {"inputs": _floats(2, 3, 8)},
    ),
}


def layer_and_inputs(layer_name, /, **arguments):
    """Returns a new layer, with optional further arguments, and a dict of its call arguments."""
    make, inputs = LAYERS[layer_name]
    layer = make(**arguments)
    return layer, inputs(layer) if callable(inputs) else inputs
