"""A configuration holds what a layer was made with, also what shows in training alone."""

import keras
import pytest

import keras_attn
from keras_attn._transformer.transformer_stack import TransformerStack
from keras_attn.training import InverseSquareRootSchedule


def lstm_cell():
    return keras.layers.LSTMCell(4)


def attention_cell():
    return keras_attn.AttentionRNNCell(lstm_cell(), keras_attn.CoverageAttention(4))


def block(**arguments):
    return keras_attn.TransformerDecoderBlock(2, 8, **arguments)


def embedding():
    return keras.layers.ReversibleEmbedding(9, 4)


LAYERS = [
    (keras_attn.MultiHeadAttention, {"num_heads": 2, "key_dim": 3, "dropout": 0.3, "seed": 5}),
    (keras_attn.FeedForward, {"intermediate_dim": 8, "dropout": 0.3, "seed": 5}),
    (
        keras_attn.TransformerEncoderBlock,
        {
            **{"num_heads": 2, "intermediate_dim": 8, "dropout": 0.3, "seed": 5},
            **{"attention_dropout": 0.2, "activation_dropout": 0.1},
        },
    ),
    (
        keras_attn.RNNEncoder,
        {"cell": lstm_cell, "num_layers": 2, "residual": True, "dropout": 0.3, "seed": 5},
    ),
    (
        keras_attn.RNNDecoder,
        {
            **{"cell": attention_cell, "embedding": embedding, "bridge": "zero"},
            **{"dropout": 0.3, "seed": 5, "coverage_loss": 0.7},
        },
    ),
    (
        keras_attn.TransformerEncoder,
        {
            **{"block": lambda: keras_attn.TransformerEncoderBlock(2, 8), "num_layers": 2},
            **{"embedding": embedding, "dropout": 0.3, "seed": 5, "scale_embedding": True},
        },
    ),
    (
        keras_attn.TransformerDecoder,
        {
            **{"block": block, "embedding": embedding, "num_layers": 2, "dropout": 0.3, "seed": 5},
            **{"scale_embedding": True, "growing_cache": False, "cache_block_size": 3},
        },
    ),
    (
        keras_attn.CausalLanguageModel,
        {
            **{"block": lambda: block(cross_attention=False), "embedding": embedding},
            **{"num_layers": 2, "dropout": 0.3, "seed": 5, "growing_cache": False},
        },
    ),
    (
        keras_attn.MonotonicAttention,
        {
            **{"mechanism": lambda: keras_attn.BahdanauAttention(4), "mode": "parallel"},
            **{"sigmoid_noise": 0.7, "score_bias": -1.0},
        },
    ),
]


@pytest.mark.parametrize(("kind", "arguments"), LAYERS, ids=[kind.__name__ for kind, _ in LAYERS])
def test_a_layer_is_made_again_with_its_arguments(kind, arguments):
    made = {name: value() if callable(value) else value for name, value in arguments.items()}
    layer = kind(**made)
    plain = {name: value for name, value in arguments.items() if not callable(value)}
    for each in (layer, kind.from_config(layer.get_config())):
        config = each.get_config()
        assert {name: config[name] for name in plain} == plain


def test_the_dropout_of_a_stack_is_that_of_its_configuration():
    stack = TransformerStack(
        block(),
        embedding(),
        num_layers=1,
        positions=None,
        position_bias=None,
        scale_embedding=False,
        dropout=0.3,
        seed=5,
    )
    arguments = stack.serialize_arguments()
    assert (arguments["dropout"], arguments["seed"]) == (0.3, 5)
    assert stack.input_dropout.rate == 0.3


def test_a_schedule_is_made_again_with_its_arguments():
    arguments = {"warmup_steps": 11, "total_steps": 50, "decay_steps": 20, "name": "rate"}
    schedule = InverseSquareRootSchedule(0.5, **arguments)
    copy = InverseSquareRootSchedule.from_config(schedule.get_config())
    assert copy.name == "rate"
    for step in (0, 5, 11, 30, 45, 50):
        assert float(copy(step)) == float(schedule(step))
