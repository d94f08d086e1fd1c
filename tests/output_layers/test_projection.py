import keras
import numpy as np
import pytest

import keras_attn
from keras_attn.output_layers import projection
from keras_attn.training import (
    Perplexity,
    SequenceCrossentropy,
    TokenAccuracy,
    TokenCrossentropy,
    token_metric,
)
from tests.backend import precision, requires_tensorflow
from tests.slow_cases import all_slow_but

pytestmark = requires_tensorflow("on other backends nothing is noted on tensors")

VOCABULARY_SIZE = 11


def tied():
    return keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8), None


def untied():
    return keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8, tie_weights=False), None


def dense():
    head = keras.layers.Dense(VOCABULARY_SIZE, bias_initializer="random_normal")
    return keras.layers.Embedding(VOCABULARY_SIZE, 8), head


def language_model(make=tied):
    """Token ids to logits."""
    block = keras_attn.TransformerDecoderBlock(2, 16, cross_attention=False)
    decoder = keras_attn.CausalLanguageModel(block, *make(), num_layers=1)
    token_ids = keras.Input((None,), dtype="int32")
    return keras.Model(token_ids, decoder(token_ids))


def masked_model():
    """Vectors to logits, with a bias beside the embedding."""
    embedding = keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8)
    token_ids = keras.Input((None,), dtype="int32")
    return keras.Model(token_ids, keras_attn.TiedMLMHead(embedding)(embedding(token_ids)))


def translator(build):
    def make():
        encoder, decoder = build()
        return keras_attn.TrainingModel(encoder, decoder)

    return make


def model_of_prompts():
    prompts = keras.Input((None,), dtype="int32", name="source_ids")
    return keras_attn.TrainingModel(None, language_model().layers[-1], inputs=prompts)


MODELS = {
    "tied": language_model,
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


def train(make, steps=3, other_metrics=()):
    """Logs and weights after some steps."""
    keras.utils.set_random_seed(0)
    model = make()
    # Adam would make steps of what is rounding alone, where a gradient is 0.
    model.compile(
        keras.optimizers.SGD(0.1),
        SequenceCrossentropy(0.1),
        metrics=[TokenAccuracy(), Perplexity(), *(make() for make in other_metrics)],
        weighted_metrics=[TokenCrossentropy(0.1)],
        jit_compile=False,
    )
    logs = [model.train_on_batch(*batch(model), return_dict=True) for _ in range(steps)]
    return logs, model.get_weights(), model


def is_known(model):
    """Whether a loss would know what the logits are a product of, in a training."""
    import tensorflow as tf

    found = []

    @tf.function
    def call(inputs):
        logits = model(inputs, training=True)
        found.append(projection.projection_of(logits) is not None)
        return logits

    call(batch(model)[0])
    return found == [True]


@pytest.mark.parametrize("outer", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("inner", ["mixed_bfloat16", "mixed_float16"])
def test_a_step_has_the_precision_of_the_teacher_forced_pass(inner, outer):
    """That of the decoder, whatever the global one is, and whether Keras calls or a search."""
    with precision(outer):
        encoder, decoder = keras_attn.transformer_tiny(11, 11, dtype=inner)
        encoded = encoder(np.array([[5, 6, 2]], "int32"))
        at_once = decoder(np.array([[1, 4]], "int32"), **encoded)[:, 0]
        memory = decoder.prepare_memory(**encoded)
        step, _ = decoder.step(np.array([1], "int32"), decoder.initial_state(memory), memory)
    at_once, step = (keras.ops.convert_to_numpy(logits) for logits in (at_once, step))
    for logits in (at_once, step):
        rounded = keras.ops.cast(keras.ops.cast(logits, inner[6:]), "float32")
        np.testing.assert_array_equal(logits, rounded)
    np.testing.assert_allclose(step, at_once, atol=0.1)


def of_other_tokens():
    """A metric that counts padding, for which the loss has found nothing."""
    return TokenCrossentropy(ignore_class=4, name="of_other_tokens")


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        *((name, "float32") for name in MODELS),
        *all_slow_but(
            ("rnn", "mixed_bfloat16"), cases=((name, "mixed_bfloat16") for name in MODELS)
        ),
    ],
)
def test_learns_what_it_learns_from_logits(name, policy, monkeypatch):
    tolerance = 1e-5 if policy == "float32" else 0.05
    with precision(policy):
        logs, weights, model = train(MODELS[name], other_metrics=[of_other_tokens])
        assert is_known(model)
        monkeypatch.setattr(projection, "is_projection", lambda layer: False)
        expected_logs, expected_weights, model = train(
            MODELS[name], other_metrics=[of_other_tokens]
        )
        assert not is_known(model)
    for step, expected in zip(logs, expected_logs, strict=True):
        assert step.keys() == expected.keys()
        for metric, value in expected.items():
            if metric != "token_accuracy" or policy == "float32":  # rounding may turn a token
                np.testing.assert_allclose(step[metric], value, rtol=tolerance)
    for values, expected in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(values, expected, atol=tolerance)


@pytest.mark.parametrize("name", MODELS)
def test_metrics_take_what_the_loss_has_found(name, monkeypatch):
    """So no logits are computed in a training, and those of a validation as ever."""

    def refuse(labels, logits):
        raise AssertionError("needs the logits")

    monkeypatch.setattr(token_metric, "token_statistics", refuse)
    model = train(MODELS[name], steps=1)[2]
    with pytest.raises(AssertionError, match="needs the logits"):
        model.test_on_batch(*batch(model))


@pytest.mark.parametrize(
    "head",
    [
        lambda: keras.layers.Dense(VOCABULARY_SIZE, activation="tanh"),
        lambda: keras.Sequential([keras.layers.Dense(VOCABULARY_SIZE)]),
    ],
)
def test_other_heads_are_left_alone(head):
    model = language_model(lambda: (keras.layers.Embedding(VOCABULARY_SIZE, 8), head()))
    assert not is_known(model)


@pytest.mark.parametrize("change", [{"logit_soft_cap": 5.0}, {"reverse_dtype": "float32"}])
def test_other_products_of_an_embedding_are_left_alone(change):
    embedding = keras.layers.ReversibleEmbedding(VOCABULARY_SIZE, 8, **change)
    assert not is_known(language_model(lambda: (embedding, None)))


def test_half_precision_that_can_overflow_is_left_alone():
    assert is_known(language_model(dense))
    with_halves = keras.layers.Dense(VOCABULARY_SIZE, dtype="mixed_float16")
    embedding = keras.layers.Embedding(VOCABULARY_SIZE, 8)
    assert not is_known(language_model(lambda: (embedding, with_halves)))


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


def test_nothing_is_noted_without_a_graph_or_a_training():
    import tensorflow as tf

    model = language_model()
    inputs = batch(model)[0]
    assert projection.projection_of(model(inputs, training=True)) is None

    @tf.function
    def call(inputs):
        assert projection.projection_of(model(inputs, training=False)) is None
        # What is made of logits is not the product any more.
        assert projection.projection_of(2.0 * model(inputs, training=True)) is None
        return inputs

    call(inputs)


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
