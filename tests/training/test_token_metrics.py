import keras
import numpy as np
import pytest

from keras_attn.training import (
    Perplexity,
    TokenAccuracy,
    TokenCrossentropy,
    crossentropy_per_token,
)


@pytest.fixture
def batches():
    """Returns two batches with different numbers of tokens, and all their labels and logits."""
    generator = np.random.default_rng(0)
    batches = []
    for size in (4, 1):
        labels = generator.integers(1, 7, (size, 5)).astype("int32")
        labels[0, 2:] = 0
        batches.append((labels, 2 * generator.normal(size=(size, 5, 7)).astype("float32")))
    real = [labels != 0 for labels, _ in batches]
    labels = np.concatenate([labels[mask] for (labels, _), mask in zip(batches, real, strict=True)])
    logits = np.concatenate([logits[mask] for (_, logits), mask in zip(batches, real, strict=True)])
    return batches, labels, logits


def result_of(metric, batches):
    for batch in batches:
        metric.update_state(*batch)
    return float(metric.result())


def test_accuracy(batches):
    batches, labels, logits = batches
    expected = (logits.argmax(-1) == labels).mean()
    assert 0 < expected < 1
    assert result_of(TokenAccuracy(), batches) == pytest.approx(expected)


def test_a_tie_for_the_highest_logit_is_right():
    logits = np.array([[[0, 3, 3], [0, 3, 2]]], "float32")
    assert result_of(TokenAccuracy(), [(np.array([[1, 2]]), logits)]) == 0.5


def test_perplexity_is_of_unsmoothed_tokens(batches):
    batches, labels, logits = batches
    log_probs = logits - np.log(np.exp(logits.astype("float64")).sum(-1, keepdims=True))
    expected = np.exp(-log_probs[np.arange(len(labels)), labels].mean())
    assert result_of(Perplexity(), batches) == pytest.approx(expected, rel=1e-5)


def test_crossentropy(batches):
    batches, labels, logits = batches
    expected = keras.ops.convert_to_numpy(crossentropy_per_token(labels, logits, 0.1)).mean()
    assert result_of(TokenCrossentropy(0.1), batches) == pytest.approx(expected, rel=1e-5)


def test_another_padding_label(batches):
    batches, labels, _ = batches
    for label in (-1, -100, 1000):  # below and above the vocabulary
        moved = [(np.where(labels == 0, label, labels), logits) for labels, logits in batches]
        for metric in (TokenAccuracy, Perplexity):
            assert result_of(metric(label), moved) == result_of(metric(0), batches)


def test_sample_weight():
    logits = np.eye(4, dtype="float32")[[[1, 2]]]
    metric = TokenAccuracy()
    metric.update_state(np.array([[1, 3]]), logits, sample_weight=np.array([[3.0, 1.0]]))
    assert float(metric.result()) == 0.75
    with pytest.raises(ValueError, match=r"\(batch, 1\).*shape \(1,\)"):
        metric.update_state(np.array([[1, 3]]), logits, sample_weight=np.array([3.0]))


def test_no_tokens():
    padding = np.zeros((2, 3), "int32"), np.ones((2, 3, 5), "float32")
    assert result_of(TokenAccuracy(), [padding]) == 0.0
    assert result_of(TokenCrossentropy(), [padding]) == 0.0
    assert result_of(Perplexity(), [padding]) == 1.0
    nothing = np.zeros((0, 3), "int32"), np.zeros((0, 3, 5), "float32")
    assert result_of(TokenAccuracy(), [nothing]) == 0.0


@pytest.mark.parametrize(
    "metric",
    [
        TokenAccuracy(4, name="a"),
        Perplexity(ignore_class=4),
        TokenCrossentropy(0.1, ignore_class=4),
    ],
)
def test_config_round_trip(metric, batches):
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(metric))
    assert type(copy) is type(metric)
    assert copy.get_config() == metric.get_config()
    assert result_of(copy, batches[0]) == result_of(metric, batches[0])


@pytest.mark.parametrize("kind", [TokenAccuracy, Perplexity, TokenCrossentropy])
def test_sums_have_no_half_precision(kind):
    with pytest.raises(ValueError, match="Received: dtype='float16'"):
        kind(dtype="float16")


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX has no float64 by default")
@pytest.mark.parametrize("kind", [TokenAccuracy, Perplexity, TokenCrossentropy])
def test_more_tokens_than_float32_can_count(kind):
    metric = kind.from_config(kind(dtype="float64").get_config())
    metric.num_tokens.assign(2.0**24)
    metric.update_state(np.array([[1]]), np.array([[[1.0, 0.0]]]))
    assert float(metric.num_tokens) == 2**24 + 1


@pytest.mark.parametrize("shape", [(2, 1), (1, 3)])
def test_labels_are_not_broadcast(shape):
    with pytest.raises(ValueError, match="the shape of the labels"):
        TokenAccuracy().update_state(np.ones(shape, "int32"), np.ones((2, 3, 4), "float32"))


def test_lists_are_logits_too_and_one_class_is_refused():
    assert float(TokenAccuracy()([[1, 2]], [[[0.0, 1, 2], [0, 1, 2]]])) == 0.5
    with pytest.raises(ValueError, match="at least 2. Received: logits with shape"):
        Perplexity()(np.zeros((1, 2), "int32"), np.zeros((1, 2, 1), "float32"))
