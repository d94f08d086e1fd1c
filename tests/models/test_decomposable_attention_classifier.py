"""Against NumPy, written from Parikh et al. 2016: one pair of sentences and one word at a time."""

import keras
import numpy as np
import pytest

from keras_attn import (
    IntraSentenceAttention,
    SoftAlignment,
    decomposable_attention_classifier,
    record_attention_scores,
)
from keras_attn.testing import check_layer
from tests import oracles
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy, randomize
from tests.slow_cases import all_slow_but

FIRST_IDS = np.array([[3, 5, 6, 7, 2], [3, 9, 4, 0, 0], [3, 0, 0, 0, 0]], "int32")
SECOND_IDS = np.array([[3, 6, 0, 0], [3, 8, 4, 9], [3, 5, 0, 0]], "int32")
IDS = [FIRST_IDS, SECOND_IDS]
GENERATOR = np.random.default_rng(1)
PAIR = {
    "first": GENERATOR.normal(size=(3, 5, 6)).astype("float32"),
    "second": GENERATOR.normal(size=(3, 4, 6)).astype("float32"),
    "first_mask": FIRST_IDS != 0,
    "second_mask": SECOND_IDS != 0,
}
MAX_DISTANCE = [None, 2]


def make_model(max_distance=None):
    embedding = keras.layers.Embedding(10, 4)
    return decomposable_attention_classifier(embedding, 3, units=5, max_distance=max_distance)


def random_model(max_distance=None):
    return randomize(make_model(max_distance))


def feed_forward(layer, x):
    dense = [each for each in layer.layers if isinstance(each, keras.layers.Dense)]
    for each in dense:
        x = np.maximum(x @ numpy(each.kernel) + numpy(each.bias), 0)
    return x


def align(transform, a, b):
    """Equations 1 and 2."""
    e = oracles.luong_dot_scores(transform(a), transform(b))
    beta, over_b = oracles.attend(e, b)
    alpha, over_a = oracles.attend(e.T, a)
    return beta, alpha, over_b, over_a


def intra(transform, distance_bias, max_distance, a):
    """Equations 7 and 8; the first bias is that of all far words."""
    f = oracles.luong_dot_scores(transform(a), transform(a))
    for i in range(len(a)):
        for j in range(len(a)):
            is_far = abs(i - j) > max_distance
            f[i, j] += distance_bias[0 if is_far else 1 + i - j + max_distance]
    return oracles.attend(f, a)


def logits_of(model, max_distance, first_ids, second_ids):
    """Logits of one pair without padding, and the weights of `align`."""
    layers = {layer.name: layer for layer in model.layers}
    embedding = next(each for each in model.layers if isinstance(each, keras.layers.Embedding))
    words = numpy(embedding.embeddings).astype("float64") @ numpy(layers["project"].kernel)
    a, b = words[first_ids], words[second_ids]
    if max_distance is not None:
        layer = layers["intra"]
        bias = numpy(layer.distance_bias)
        a, b = (
            np.concatenate(
                [x, intra(lambda x: feed_forward(layer.transform, x), bias, max_distance, x)[0]], 1
            )
            for x in (a, b)
        )
    transform = layers["align"].transform
    beta, alpha, *weights = align(lambda x: feed_forward(transform, x), a, b)
    v1 = feed_forward(layers["compare"], np.concatenate([a, beta], axis=1)).sum(axis=0)
    v2 = feed_forward(layers["compare"], np.concatenate([b, alpha], axis=1)).sum(axis=0)
    hidden = feed_forward(layers["aggregate"], np.concatenate([v1, v2]))
    return hidden @ numpy(layers["logits"].kernel) + numpy(layers["logits"].bias), weights


@pytest.mark.parametrize("max_distance", MAX_DISTANCE)
def test_equals_the_equations(max_distance):
    model = random_model(max_distance)
    with record_attention_scores() as scores:
        received = numpy(model(IDS))
    assert received.dtype == "float32"
    for row in range(3):
        first, second = (ids[row][ids[row] != 0] for ids in IDS)
        expected, (over_second, over_first) = logits_of(model, max_distance, first, second)
        assert_close(received[row], expected)
        assert_close(scores["align/first"][row, : len(first), : len(second)], over_second)
        assert_close(scores["align/second"][row, : len(second), : len(first)], over_first)
    for side, other in (("first", SECOND_IDS), ("second", FIRST_IDS)):
        weights = scores[f"align/{side}"]
        assert not weights[np.broadcast_to(other[:, None] == 0, weights.shape)].any()


def test_words_near_and_far_are_attended_to_as_their_distance_says():
    layer = IntraSentenceAttention(keras.layers.Dense(4, "relu", name="f"), 2, name="intra")
    layer(**PAIR)
    randomize(layer, scale=1.0)
    with record_attention_scores() as scores:
        received = numpy(layer(**PAIR))
    kernel, bias = numpy(layer.transform.kernel), numpy(layer.transform.bias)
    for side, found in zip(("first", "second"), received, strict=True):
        for row, mask in enumerate(PAIR[f"{side}_mask"]):
            expected, weights = intra(
                lambda x: np.maximum(x @ kernel + bias, 0),
                numpy(layer.distance_bias),
                2,
                PAIR[side][row][mask].astype("float64"),
            )
            assert_close(found[row][mask], expected)
            assert_close(scores[f"intra/{side}"][row][mask][:, mask], weights)


@pytest.mark.parametrize("make", [SoftAlignment, IntraSentenceAttention])
def test_is_a_good_layer(make):
    check_layer(lambda: make(keras.layers.Dense(4, "tanh")), PAIR)


def test_a_sentence_without_words_is_aligned_with_zeros():
    layer = SoftAlignment(keras.layers.Dense(4))
    nothing = np.zeros_like(PAIR["second_mask"])
    results = layer(**{**PAIR, "second_mask": nothing}, return_attention_scores=True)
    beta, _, over_second, over_first = numpy(results)
    assert not beta.any() and not over_second.any()
    assert_close(over_first.sum(axis=2), np.ones((3, 4)))


@pytest.mark.parametrize(
    "make_layer",
    [
        lambda: SoftAlignment(keras.layers.Dense(3)),
        lambda: IntraSentenceAttention(keras.layers.Dense(3)),
    ],
)
def test_masks_that_come_with_the_sentences_go_on_with_the_results(make_layer):
    embedding = keras.layers.Embedding(10, 6, mask_zero=True)
    results = make_layer()(embedding(FIRST_IDS), embedding(SECOND_IDS))
    for result, ids in zip(results, (FIRST_IDS, SECOND_IDS), strict=True):
        mean = keras.layers.GlobalAveragePooling1D()(result)
        real = (ids != 0)[:, :, None]
        expected = (numpy(result) * real).sum(axis=1) / real.sum(axis=1)
        assert_close(numpy(mean), expected)


def test_masks_that_come_with_the_sentences_are_used():
    layer = SoftAlignment(keras.layers.Dense(4))
    embedding = keras.layers.Embedding(10, 6, mask_zero=True)
    first, second = (embedding(ids) for ids in IDS)
    explicit = layer(numpy(first), numpy(second), FIRST_IDS != 0, SECOND_IDS != 0)
    assert_close(numpy(layer(first, second)), numpy(explicit))


@pytest.mark.parametrize("max_distance", MAX_DISTANCE)
def test_padding_changes_nothing(max_distance):
    model = random_model(max_distance)
    wider = [np.pad(FIRST_IDS, [(0, 0), (0, 3)]), np.pad(SECOND_IDS, [(0, 0), (0, 4)])]
    assert_close(numpy(model(wider)), numpy(model(IDS)))


def test_order_counts_with_intra_sentence_attention_alone():
    other = [FIRST_IDS[:1, ::-1], SECOND_IDS[:1]]
    for max_distance in MAX_DISTANCE:
        model = random_model(max_distance)
        difference = np.abs(numpy(model(other)) - numpy(model([ids[:1] for ids in IDS]))).max()
        assert difference < 1e-5 if max_distance is None else difference > 1e-3


@pytest.mark.parametrize("max_distance", all_slow_but(2, cases=MAX_DISTANCE))
def test_every_weight_learns(max_distance):
    model = random_model(max_distance)
    before = {weight.path: numpy(weight) for weight in model.trainable_weights}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    model.fit(IDS, np.array([0, 1, 2]), batch_size=3, verbose=0)
    for weight in model.trainable_weights:
        assert np.any(numpy(weight) != before[weight.path]), f"{weight.path} got no gradient"


@pytest.mark.parametrize("max_distance", all_slow_but(2, cases=MAX_DISTANCE))
def test_saved_and_loaded(max_distance, tmp_path):
    model = random_model(max_distance)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(numpy(loaded(IDS)), numpy(model(IDS)), 1e-6)


@requires_tensorflow("an export starts from a TensorFlow graph")
@pytest.mark.parametrize("max_distance", all_slow_but(2, cases=MAX_DISTANCE))
def test_exported_with_its_attention(max_distance, tmp_path):
    from keras_attn.export import export_functional_onnx
    from tests.export.small_translator import session

    model = random_model(max_distance)
    _, _, over_second, over_first = model.get_layer("align").output
    outputs = {"logits": model.output, "over_second": over_second, "over_first": over_first}
    seen, path = keras.Model(model.inputs, outputs), tmp_path / "model.onnx"
    assert export_functional_onnx(seen, path, IDS).largest_difference <= 1e-5
    longer = {"first_ids": np.tile(FIRST_IDS, (2, 3)), "second_ids": np.tile(SECOND_IDS, (2, 2))}
    opened = session(path)
    names = [output.name for output in opened.get_outputs()]
    received = dict(zip(names, opened.run(names, longer), strict=True))
    assert_close(received, numpy(seen(list(longer.values()))))


def test_a_distance_that_is_none_is_refused():
    with pytest.raises(ValueError, match="max_distance to be a positive integer. Received: max"):
        make_model(max_distance=0)


def test_dropout_is_for_training_only():
    model = decomposable_attention_classifier(
        keras.layers.Embedding(10, 4), 3, units=5, dropout=0.5
    )
    randomize(model)
    inference = numpy(model(IDS))
    assert_close(numpy(model(IDS)), inference)
    assert np.abs(numpy(model(IDS, training=True)) - inference).max() > 1e-3
