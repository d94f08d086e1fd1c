"""Wrong arguments of public classes and functions are refused at once, by the types they document.

The wrong values of an argument follow from its docstring, see `tests/argument_sweep.py`. Nothing is
called with tensors and nothing is traced.
"""

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn import forecasting, training
from keras_attn.training._training_checkpoint import TrainingCheckpoint
from tests.argument_sweep import accepted_values
from tests.public_layers import LAYERS, layer_and_inputs

SIZES = {"source_vocabulary_size": 9, "target_vocabulary_size": 9}


def small_decoder():
    return keras_attn.rnn_seq2seq(9, 9, units=4, embedding_dim=4)[1]


def forecaster(**arguments):
    cell = keras_attn.AttentionRNNCell(keras.layers.GRUCell(4), None)
    parts = {"cell": cell, "head": forecasting.GaussianHead(), "encoder": None, "horizon": 2}
    return forecasting.AutoregressiveForecaster(**{**parts, **arguments})


ARRAYS = {
    "actual": [1.0, 2.0],
    "predicted": [1.5, 2.5],
    "history": np.arange(40.0),
}
CALLS = {
    keras_attn.decomposable_attention_classifier: {
        "embedding": keras.layers.Embedding(9, 4),
        "num_classes": 2,
        "units": 4,
    },
    keras_attn.rnn_seq2seq: {**SIZES, "units": 4, "embedding_dim": 4},
    keras_attn.transformer_seq2seq: {
        **SIZES,
        "num_layers": 1,
        "num_heads": 1,
        "embedding_dim": 4,
        "intermediate_dim": 4,
    },
    forecasting.GaussianHead: {},
    forecasting.PointHead: {},
    forecasting.StudentTHead: {},
    forecasting.QuantileHead: {},
    forecasting.forecast_windows: {"targets": np.ones((9, 1)), "window": 4, "horizon": 2},
    forecasting.mean_absolute_scaled_error: ARRAYS,
    training.AverageWeights: {"path": "average"},
    training.ClippedAdam: {},
    training.ConsecutiveWindows: {"ids": np.arange(1, 100), "window": 4, "batch_size": 2},
    training.InverseSquareRootSchedule: {"peak_learning_rate": 0.1, "warmup_steps": 4},
    training.LossScaleOptimizer: {"inner_optimizer": keras.optimizers.SGD()},
    training.Perplexity: {},
    training.RandomWindows: {"ids": np.arange(1, 100), "window": 4, "batch_size": 2},
    training.SequenceCrossentropy: {},
    training.TokenAccuracy: {},
    training.TokenCrossentropy: {},
    training.overlapping_windows: {"ids": np.arange(1, 100), "window": 4},
    TrainingCheckpoint: {"directory": "state", "steps_per_epoch": 10, "epochs": 2},
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_refuse_wrong_arguments(name):
    layer, _ = layer_and_inputs(name)
    config = layer.get_config()
    accepted = accepted_values(
        type(layer),
        lambda argument, value: type(layer).from_config({**config, argument: value}),
        known=config,
    )
    assert accepted == []


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_functions_refuse_wrong_arguments(function):
    function(**CALLS[function])
    accepted = accepted_values(
        function, lambda name, value: function(**{**CALLS[function], name: value})
    )
    assert accepted == []


def test_forecasters_refuse_wrong_arguments():
    def call(name, value):
        forecaster(**{name: value})

    assert accepted_values(forecasting.AutoregressiveForecaster, call) == []
    sampled = forecaster()

    def sample(name, value):
        forecasting.PathSampler(sampled, **{name: value})

    assert accepted_values(forecasting.PathSampler, sample) == []


def test_scheduled_sampling_refuses_wrong_arguments():
    decoder = small_decoder()

    def call(name, value):
        training.ScheduledSampling(decoder, **{"probability": 0.5, name: value})

    assert accepted_values(training.ScheduledSampling, call) == []


def test_infinite_targets_and_repeated_names_are_refused():
    targets = np.ones((9, 1))
    targets[2] = np.inf
    with pytest.raises(ValueError, match="Expected targets that are finite.*inf at time step 2"):
        forecasting.forecast_windows(targets, 4, 2)
    with pytest.raises(ValueError, match="Expected targets with different names"):
        training.SeriesColumns(["sales", "sales"])
