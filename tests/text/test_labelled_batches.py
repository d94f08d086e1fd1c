"""Batches of texts with labels: each text once, little padding, an order by seed and step."""

import keras
import numpy as np
import pytest

from keras_attn.text import LabelledBatches

ROWS = [list(range(5, 5 + length)) for length in range(1, 24)]
LABELS = [length % 3 for length in range(1, 24)]


def read(batches, epoch):
    """Sorted pairs of ids and label in an epoch, and the widths of the batches."""
    rows, widths = [], []
    for step in range(epoch * len(batches), (epoch + 1) * len(batches)):
        ids, labels = batches.batch(step)
        widths.append(ids.shape[1])
        rows += [(row[row != 0].tolist(), label) for row, label in zip(ids, labels, strict=True)]
    return rows, widths


def test_each_text_is_in_one_batch_of_each_epoch():
    batches = LabelledBatches(ROWS, LABELS, batch_size=4, seed=1)
    assert len(batches) == batches.steps_per_epoch == 6
    orders = [read(batches, epoch) for epoch in range(2)]
    for rows, widths in orders:
        assert sorted(rows) == list(zip(ROWS, LABELS, strict=True))
        assert sorted(widths) == [4, 8, 12, 16, 20, 23]  # of 4 texts with similar lengths
    assert orders[0][0] != orders[1][0]


def test_batches_depend_on_the_seed_and_the_step():
    batches = LabelledBatches(ROWS, LABELS, batch_size=4, seed=1)
    ids, labels = next(batches.stream(9))
    again = LabelledBatches(ROWS, LABELS, batch_size=4, seed=1).batch(9)
    np.testing.assert_array_equal(ids, again[0])
    np.testing.assert_array_equal(labels, again[1])
    assert read(LabelledBatches(ROWS, LABELS, 4, seed=2), 0) != read(batches, 0)
    if keras.backend.backend() == "tensorflow":
        ((found, found_labels),) = batches.dataset(9).take(1)
        np.testing.assert_array_equal(found, ids)
        np.testing.assert_array_equal(found_labels, labels)


def test_lengths_are_rounded_up_and_sorted():
    batches = LabelledBatches(
        [[7], [8] * 9, []], [0, 1, 2], 1, shuffle=False, length_multiple=4, pad_token_id=3
    )
    ids, labels = zip(*map(batches.batch, range(3)), strict=True)
    assert [each.tolist() for each in labels] == [[2], [0], [1]]
    assert [each.shape[1] for each in ids] == [4, 4, 12] and ids[1].tolist() == [[7, 3, 3, 3]]


def test_keras_trains_on_the_batches():
    """The class of a text is its only id, which an embedding learns."""
    rows = [[1 + number % 3] * (1 + number % 5) for number in range(60)]
    labels = [number % 3 for number in range(60)]
    model = keras.Sequential(
        [
            keras.layers.Embedding(4, 3),
            keras.layers.GlobalMaxPooling1D(),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.1), loss, metrics=["accuracy"])
    batches = LabelledBatches(rows, labels, 8, length_multiple=5, pad_token_id=1)
    history = model.fit(batches, epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] / 2


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([], [], 4), "0 rows"),
        ((ROWS, [1], 4), "23 rows, labels of shape \\(1,\\)"),
        ((ROWS, LABELS, 0), "batch_size"),
        ((ROWS, LABELS, 4, -1), "seed"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LabelledBatches(*arguments)
