import itertools

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn.training import (
    Perplexity,
    SequenceCrossentropy,
    TokenAccuracy,
    TokenCrossentropy,
    compile_for_training,
)
from keras_attn.training import (
    _token_metrics as token_metrics,
)
from tests.backend import precision, requires_tensorflow
from tests.slow_cases import all_slow_but

pytestmark = requires_tensorflow("on other backends the loss is computed from logits")

VOCABULARY_SIZE = 11


def tied():
    return keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8), None


def untied():
    return keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8, tie_weights=False), None


def dense():
    head = keras.layers.Dense(VOCABULARY_SIZE, bias_initializer="random_normal")
    return keras.layers.Embedding(VOCABULARY_SIZE, 8), head


def language_model(make=tied, **kwargs):
    """Token ids to logits."""
    block = keras_attn.TransformerDecoderBlock(2, 16, cross_attention=False)
    embedding, *head = make()
    kwargs |= {"head": head[0]} if head else {}
    decoder = keras_attn.CausalLanguageModel(block, embedding, num_layers=1, **kwargs)
    return keras_attn.TrainingModel(None, decoder)


def masked_model():
    """Vectors to logits, with a bias in addition to the embedding."""
    block = keras_attn.TransformerEncoderBlock(2, 16)
    embedding = keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8)
    encoder = keras_attn.TransformerEncoder(block, embedding, num_layers=1, dropout=0.0)
    return keras_attn.masked_language_model(encoder)


def translator(build):
    def make():
        encoder, decoder = build()
        return keras_attn.TrainingModel(encoder, decoder)

    return make


def model_of_prompts():
    prompts = keras.Input((None,), dtype="int32", name="source_ids")
    return keras_attn.TrainingModel(None, language_model().decoder, inputs=prompts)


MODELS = {
    "tied": language_model,
    "tied with a bias": lambda: language_model(use_output_bias=True),
    "prompts": model_of_prompts,
    "untied": lambda: language_model(untied),
    "dense": lambda: language_model(dense),
    "masked": masked_model,
    "rnn": translator(lambda: keras_attn.rnn_seq2seq(11, 11, embedding_dim=8, units=8)),
    "transformer": translator(
        lambda: keras_attn.transformer_seq2seq(
            11, 11, num_layers=1, num_heads=2, embedding_dim=8, intermediate_dim=16, dropout=0.0
        )
    ),
}


def batch(model):
    generator = np.random.default_rng(0)
    labels = generator.integers(1, VOCABULARY_SIZE, (3, 5)).astype("int32")
    labels[1, 2:] = 0
    ids = generator.integers(1, VOCABULARY_SIZE, (3, 5)).astype("int32")
    inputs = {"source_ids": ids, "target_ids": ids} if isinstance(model.input, dict) else ids
    weights = generator.uniform(0.5, 2, (3, 5)).astype("float32")
    weights[0, 1] = 0  # a metric without weights counts this token
    return inputs, labels, weights


def train(make, steps=3, other_metrics=(), fused=True):
    """Logs and weights after some steps."""
    keras.utils.set_random_seed(0)
    model = make()
    # Adam would make steps of what is rounding alone, where a gradient is 0.
    model.compile(
        keras.optimizers.SGD(0.1),
        SequenceCrossentropy(0.1, fused=fused),
        metrics=[TokenAccuracy(), Perplexity(), *(make() for make in other_metrics)],
        weighted_metrics=[TokenCrossentropy(0.1)],
        jit_compile=False,
    )
    logs = [model.train_on_batch(*batch(model), return_dict=True) for _ in range(steps)]
    return logs, model.get_weights(), model


def of_other_tokens():
    """A metric that counts padding, for which the loss has found nothing."""
    return TokenCrossentropy(ignore_class=4, name="of_other_tokens")


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        *all_slow_but(
            *(("tied", "float32"), ("tied with a bias", "float32")),
            *(("dense", "float32"), ("rnn", "mixed_bfloat16")),
            cases=itertools.product(MODELS, ("float32", "mixed_bfloat16")),
        ),
    ],
)
def test_fused_loss_learns_what_a_loss_of_logits_learns(name, policy):
    tolerance = 1e-5 if policy == "float32" else 0.05
    with precision(policy):
        logs, weights, model = train(MODELS[name], other_metrics=[of_other_tokens])
        assert model.is_loss_fused
        expected_logs, expected_weights, model = train(
            MODELS[name], other_metrics=[of_other_tokens], fused=False
        )
        assert not model.is_loss_fused
    for step, expected in zip(logs, expected_logs, strict=True):
        assert step.keys() == expected.keys()
        for metric, value in expected.items():
            if metric != "token_accuracy" or policy == "float32":  # rounding may turn a token
                np.testing.assert_allclose(step[metric], value, rtol=tolerance)
    for values, expected in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(values, expected, atol=tolerance)


@pytest.mark.parametrize("name", all_slow_but("tied", "rnn", cases=MODELS))
def test_fused_loss_passes_its_statistics_to_the_metrics(name, monkeypatch):
    """So a training step computes no logits, while a validation does."""

    def refuse(labels, logits):
        raise AssertionError("needs the logits")

    monkeypatch.setattr(token_metrics, "token_statistics", refuse)
    model = train(MODELS[name], steps=1)[2]
    with pytest.raises(AssertionError, match="needs the logits"):
        model.test_on_batch(*batch(model))


def is_fused(make, loss=None, **arguments):
    model = make()
    model.compile("sgd", SequenceCrossentropy() if loss is None else loss, **arguments)
    return model.is_loss_fused


@pytest.mark.parametrize(
    "head",
    [
        lambda: keras.layers.Dense(VOCABULARY_SIZE, activation="tanh"),
        lambda: keras.Sequential([keras.layers.Dense(VOCABULARY_SIZE)]),
        # The gradient of half precision can overflow.
        lambda: keras.layers.Dense(VOCABULARY_SIZE, dtype="mixed_float16"),
    ],
)
def test_fused_loss_is_not_used_with_other_heads(head):
    embedding = keras.layers.Embedding(VOCABULARY_SIZE, 8)
    assert is_fused(lambda: language_model(dense))
    assert not is_fused(lambda: language_model(lambda: (embedding, head())))


@pytest.mark.parametrize("change", [{"logit_soft_cap": 5.0}, {"reverse_dtype": "float32"}])
def test_fused_loss_is_not_used_with_other_products_of_an_embedding(change):
    embedding = keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8, **change)
    assert not is_fused(lambda: language_model(lambda: (embedding, None)))


def test_fused_loss_is_an_option_of_the_compilation():
    model = language_model()
    assert not model.is_loss_fused  # not compiled
    assert compile_for_training(model).is_loss_fused
    assert not compile_for_training(model, fused_loss=False).is_loss_fused
    assert not is_fused(language_model, run_eagerly=True)
    assert not is_fused(language_model, loss_weights=[2.0])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    assert not is_fused(language_model, loss)
    assert not SequenceCrossentropy.from_config(
        SequenceCrossentropy(fused=False).get_config()
    ).fused


def test_a_loss_of_its_own_sees_logits():
    class TenTimes(SequenceCrossentropy):
        def call(self, y_true, y_pred):
            return 10 * super().call(y_true, y_pred)

    model = language_model()
    inputs, labels, _ = batch(model)
    losses = []
    for loss in (SequenceCrossentropy(), TenTimes()):
        model.compile(keras.optimizers.SGD(0.0), loss, jit_compile=False)
        losses.append(model.train_on_batch(inputs, labels))
    assert float(losses[1]) == pytest.approx(10 * float(losses[0]))


def test_what_has_the_weight_0_may_have_any_label_in_training_and_validation():
    model = train(language_model, steps=0)[2]
    inputs, labels, weights = batch(model)
    labels[0, 0], weights[0, 0] = 99, 0
    arguments = inputs, labels, weights
    trained = model.train_on_batch(*arguments, return_dict=True)
    assert np.isfinite(trained["loss"]) and np.isfinite(trained["token_crossentropy"])
    model = train(language_model, steps=0)[2]
    tested = model.test_on_batch(*arguments, return_dict=True)
    assert trained["loss"] == pytest.approx(tested["loss"], rel=1e-5)


def test_calls_outside_of_a_training_step_return_logits():
    model = compile_for_training(language_model())
    inputs, labels, _ = batch(model)
    model.train_on_batch(inputs, labels)
    assert model.is_loss_fused
    for training in (True, False):
        assert tuple(model(inputs, training=training).shape) == (3, 5, VOCABULARY_SIZE)


def test_losses_of_layers_are_added_to_a_fused_loss():
    losses = []
    for fused in (True, False):
        keras.utils.set_random_seed(0)
        encoder, decoder = keras_attn.rnn_seq2seq(11, 11, embedding_dim=8, units=8, dropout=0.0)
        decoder.coverage_loss = 1.0
        model = keras_attn.TrainingModel(encoder, decoder)
        model.compile("sgd", SequenceCrossentropy(fused=fused), jit_compile=False)
        losses.append(float(model.train_on_batch(*batch(model)[:2])))
        model.decoder.coverage_loss = 0.0
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_metric_of_keras_sees_logits_of_a_fused_step():
    logs = []
    for fused in (True, False):
        keras.utils.set_random_seed(0)
        model = language_model()
        loss = SequenceCrossentropy(fused=fused)
        model.compile("sgd", loss, metrics=[TokenAccuracy(), "accuracy"], jit_compile=False)
        assert model.is_loss_fused == fused
        logs.append(model.train_on_batch(*batch(model)[:2], return_dict=True))
    assert logs[0] == pytest.approx(logs[1], rel=1e-5)


def test_a_loss_and_metrics_of_keras_see_logits():
    model = language_model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"], jit_compile=False)
    inputs, labels, _ = batch(model)
    logits = np.asarray(model(inputs))
    logs = model.train_on_batch(inputs, labels, return_dict=True)
    expected = keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    np.testing.assert_allclose(logs["loss"], np.mean(expected), rtol=1e-5)
    assert logs["accuracy"] == pytest.approx(np.mean(logits.argmax(-1) == labels))
