import keras
import numpy as np
import pytest

from keras_attn import (
    BeamDecoder,
    GenerationModel,
    ensemble_model,
    record_attention_scores,
    rnn_seq2seq,
    transformer_seq2seq,
)
from keras_attn.testing import _search_oracles as search_oracles
from tests import oracles
from tests.contracts import assert_close, assert_identical, numpy
from tests.slow_cases import slow_on_jax

SOURCE_IDS = np.array([[5, 6, 7, 2], [9, 2, 0, 0]], "int32")


def recurrent(seed=1, source=10, target=11, **search):
    pair = rnn_seq2seq(source, target, embedding_dim=4, units=5, seed=seed)
    return translator(*pair, seed, **search)


def transformer(seed=2, heads=2, **search):
    pair = transformer_seq2seq(
        10,
        11,
        num_layers=1,
        num_heads=heads,
        embedding_dim=8,
        intermediate_dim=12,
        share_embeddings=False,
        seed=seed,
    )
    return translator(*pair, seed, **search)


def translator(encoder, decoder, seed, **search):
    arguments = {"beam_width": 3, "num_hypotheses": 2, "max_length": 6, **search}
    model = GenerationModel(encoder, BeamDecoder(decoder, **arguments))
    generator = np.random.default_rng(seed)
    model.set_weights([generator.normal(0, 0.7, weight.shape) for weight in model.weights])
    return model


def test_the_ensemble_of_one_is_that_model():
    alone = transformer(repetition_penalty=1.5)
    assert_close(numpy(ensemble_model([alone])(SOURCE_IDS)), numpy(alone(SOURCE_IDS)))


@slow_on_jax
def test_the_models_choose_together():
    """A beam search over the mean of what both models think, on their own and in NumPy."""
    models = [recurrent(), transformer()]
    ensemble = ensemble_model(models, [2, 1])
    results = numpy(ensemble(SOURCE_IDS))
    for row, ids in enumerate(SOURCE_IDS):
        encoded = [(model.decoder, model.encoder(ids[None][:, ids != 0])) for model in models]

        def log_probs(before, encoded=encoded):
            ids = np.array([[1, *before]], "int32")
            both = [numpy(decoder(ids, **each))[0, -1] for decoder, each in encoded]
            one, other = np.exp(oracles.log_softmax(np.stack(both)))
            return np.log((2 * one + other) / 3)

        expected = search_oracles.beam_search(log_probs, 6, beam_width=3, num_hypotheses=2)
        for rank, (tokens, length, score, log_prob) in enumerate(expected):
            assert tuple(results["token_ids"][row, rank][: len(tokens)]) == tokens
            assert results["lengths"][row, rank] == length
            assert_close(results["scores"][row, rank], score, 1e-4)
            assert_close(results["log_probs"][row, rank], log_prob, 1e-4)


def test_it_shares_the_weights_and_can_be_saved(tmp_path):
    models = [recurrent(), transformer(), transformer(3)]
    ensemble = ensemble_model(models, [1, 2, 3], average="geometric")
    own = {id(weight) for model in models for weight in model.weights}
    assert {id(weight) for weight in ensemble.weights} == own
    ensemble.save(tmp_path / "ensemble.keras")
    loaded = keras.models.load_model(tmp_path / "ensemble.keras")
    decoder = loaded.search.decoder
    assert decoder.member_weights == [1, 2, 3] and decoder.average == "geometric"
    expected = numpy(ensemble(SOURCE_IDS))
    assert_close(numpy(loaded(SOURCE_IDS)), expected)
    weights = models[2].encoder.get_weights()
    assert_identical(loaded.encoder.encoders[2].get_weights(), weights)
    models[0].set_weights([0 * weight for weight in models[0].get_weights()])
    assert (numpy(ensemble(SOURCE_IDS))["scores"] != expected["scores"]).any()


@pytest.mark.slow
def test_the_attention_of_each_model_is_recorded_apart(tmp_path):
    models = []
    for seed, heads in ((1, 2), (2, 4)):
        keras.utils.clear_session()  # as in a process of its own
        transformer(seed, heads).save(tmp_path / "model.keras")
        models.append(keras.models.load_model(tmp_path / "model.keras"))
    ensemble = ensemble_model(models)
    with record_attention_scores() as scores:
        ensemble.encoder(SOURCE_IDS)
    (first, second) = scores
    assert second == f"{first}#2"
    assert scores[first].shape == (2, 2, 4, 4) and scores[second].shape == (2, 4, 4, 4)


def test_it_searches_as_the_first_model_does():
    models = [recurrent(beam_width=4, max_length=3, name="first"), transformer()]
    search = ensemble_model(models).search
    assert search.beam_width == 4 and search.max_length == 3


def with_prefix(model):
    """A model that begins what it says in its own way, which an ensemble would lose."""
    ids = keras.Input((None,), dtype="int32")
    found = model.search(**model.encoder(ids), prefix_ids=np.array([[5]], "int32"))
    return keras.Model(ids, found)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: [], "at least one GenerationModel"),
        (
            lambda: [keras.Sequential([keras.layers.Dense(2)])],
            "Received: model=Sequential",
        ),
        (lambda: [recurrent(), with_prefix(recurrent())], "Received: model=Functional"),
        (lambda: [recurrent(), transformer(end_token_id=4)], "same special token ids"),
        (lambda: [recurrent(), recurrent(source=12)], "same vocabulary_size"),
        (lambda: [recurrent(), recurrent(target=12)], r"vocabulary sizes \[11, 12\]"),
    ],
)
def test_models_that_do_not_fit_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        ensemble_model(make())
