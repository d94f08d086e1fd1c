"""A translator with random weights that is exported within seconds."""

import json

import keras
import numpy as np

from keras_attn import BeamDecoder, GenerationModel, rnn_seq2seq
from keras_attn._search.search import COUNTS
from keras_attn_checks.search_options import (
    BeamOptions,
    SamplingOptions,
    runtime_settings,
    usual_inputs,
)

SOURCE = ["the cat sleeps", "a dog eats the bone", "two birds sing in a tree", "the dog sleeps"]
TARGET = ["die katze schläft", "ein hund frisst den knochen", "zwei vögel singen", "ein baum"]


def make_translator(attention="bahdanau", cell="lstm", vocabulary_sizes=(45, 46), **search):
    """Returns a search model with random weights. Some of its hypotheses end early."""
    encoder, decoder = rnn_seq2seq(
        *vocabulary_sizes, attention=attention, cell=cell, embedding_dim=8, units=8, seed=7
    )
    arguments = {"beam_width": 3, "num_hypotheses": 2, "max_length": 30, **search}
    model = GenerationModel(encoder, BeamDecoder(decoder, **arguments))
    keras.utils.set_random_seed(4)
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.7))
    return model


def session(path):
    """Opens an ONNX file. Calls may omit settings of the search, such as `beam_width`."""
    import onnxruntime

    class Session(onnxruntime.InferenceSession):
        def run(self, output_names, input_feed, run_options=None):
            return super().run(output_names, {**settings_of(self), **input_feed}, run_options)

    return Session(str(path), providers=["CPUExecutionProvider"])


def settings_of(opened):
    """Returns the inputs of an open ONNX file for settings of the search, such as `beam_width`."""
    inputs = [each.name for each in opened.get_inputs()]
    metadata = opened.get_modelmeta().custom_metadata_map.get("keras_attn.settings", "{}")
    settings = _defaults(json.loads(metadata).get("search", {}))
    return {name: value for name, value in settings.items() if name in inputs}


def litert_settings(search):
    """Returns the inputs of a LiteRT file for the usual settings of a search."""
    return _defaults(
        {
            name: search.setting_value(name)
            for name in usual_inputs(type(search))
            if name in search.runtime_settings and name not in COUNTS
        }
    )


def _defaults(settings):
    """Returns arrays for the settings of a search with the values of a file."""
    dtypes = {**runtime_settings(BeamOptions), **runtime_settings(SamplingOptions)}
    return {
        name: np.array(settings[name], dtype)
        for name, dtype in dtypes.items()
        if settings.get(name) is not None
    }
