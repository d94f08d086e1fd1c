"""A translator with random weights that is exported within seconds."""

import keras

from keras_attn import BeamDecoder, GenerationModel, rnn_seq2seq

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
    import onnxruntime

    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
