"""A small forecaster of two targets with covariates, and its inputs."""

import numpy as np

from keras_attn import AttentionRNNCell, BahdanauAttention, RNNCell, RNNEncoder
from keras_attn.forecasting import AutoregressiveForecaster, GaussianHead

HORIZON = 3
GENERATOR = np.random.default_rng(0)
FUTURE = (3 + 2 * GENERATOR.normal(size=(4, HORIZON, 2))).astype("float32")
PAST = {
    "past_targets": (3 + 2 * GENERATOR.normal(size=(4, 6, 2))).astype("float32"),
    "past_covariates": GENERATOR.normal(size=(4, 6, 1)).astype("float32"),
    "future_covariates": GENERATOR.normal(size=(4, HORIZON, 1)).astype("float32"),
}


def small_forecaster(head=None, **arguments):
    """Returns a new forecaster for `PAST`, with attention and a lag."""
    cell = AttentionRNNCell(RNNCell(4), BahdanauAttention(3), attention_units=3)
    encoder = RNNEncoder(RNNCell(3), bidirectional=False)
    settings = {"num_past_covariates": 1, "num_future_covariates": 1, "lags": (4,), **arguments}
    return AutoregressiveForecaster(
        cell, head or GaussianHead(2), encoder=encoder, horizon=HORIZON, **settings
    )
