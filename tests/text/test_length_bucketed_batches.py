import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from keras_attn.text import (
    EncodedSentences,
    LengthBucketedBatches,
    ParallelCorpus,
    SentencePieceTokenizer,
    SpecialTokenIds,
)
from keras_attn.text import (
    _length_bucketed_batches as length_bucketed_batches,
)
from tests.text.corpus_text import ENGLISH, GERMAN, sentences

REPOSITORY = Path(__file__).resolve().parents[2]


def random_corpus(num_pairs=500, longest=20, seed=0):
    """Returns pairs of sentences. Their first ids are the index of the pair plus 10."""
    generator = np.random.default_rng(seed)

    def side():
        lengths = generator.integers(1, longest + 1, num_pairs)
        return [[10 + row, *generator.integers(4, 10, n - 1)] for row, n in enumerate(lengths)]

    source, target = side(), side()
    corpus = ParallelCorpus(
        EncodedSentences.from_lists(source), EncodedSentences.from_lists(target)
    )
    return corpus, source, target


@pytest.mark.parametrize("kind", [np.int8, np.uint64])
def test_numpy_integers_are_accepted(kind):
    corpus, _, _ = random_corpus(200, longest=5)
    names = ("tokens_per_batch", "seed", "batches_per_bucket", "length_multiple", "batch_multiple")
    sizes = dict(zip(names, (100, 3, 2, 2, 2), strict=True))
    expected = LengthBucketedBatches(corpus, **sizes)
    batches = LengthBucketedBatches(corpus, **{name: kind(size) for name, size in sizes.items()})
    for step in (1, 100):
        assert_equal_batches([batches.batch(kind(step))], [expected.batch(step)])
        assert_equal_batches(
            islice(batches.stream(kind(step)), 2), islice(expected.stream(step), 2)
        )
    np.testing.assert_array_equal(batches.rows(kind(2)), expected.rows(2))
    assert_equal_batches(islice(batches.epoch(kind(20)), 2), islice(expected.epoch(20), 2))


def assert_equal_batches(batches, others):
    for (inputs, labels), (other_inputs, other_labels) in zip(batches, others, strict=True):
        np.testing.assert_array_equal(inputs["source_ids"], other_inputs["source_ids"])
        np.testing.assert_array_equal(inputs["target_ids"], other_inputs["target_ids"])
        np.testing.assert_array_equal(labels, other_labels)


def test_batches_have_the_special_ids_of_each_side():
    source = EncodedSentences.from_lists([[15, 16], [14]], SpecialTokenIds(pad=1, start=3, end=2))
    target = EncodedSentences.from_lists([[25], [24, 26]], SpecialTokenIds(pad=0, start=2, end=3))
    batches = LengthBucketedBatches(
        ParallelCorpus(source, target), 20, shuffle=False, batch_multiple=3
    )
    inputs, labels = batches.batch(0)
    order = np.argsort(-inputs["source_ids"][:2, 0]).tolist() + [2]
    assert inputs["source_ids"][order].tolist() == [[15, 16, 2], [14, 2, 1], [2, 1, 1]]
    assert inputs["target_ids"][order].tolist() == [[2, 25, 0], [2, 24, 26], [2, 0, 0]]
    assert labels[order].tolist() == [[25, 3, 0], [24, 26, 3], [0, 0, 0]]


def test_padding_that_is_the_end_token_has_another_label():
    special = SpecialTokenIds(pad=2, start=1, end=2)
    source = EncodedSentences.from_lists([[15, 16], [14], [13, 12]])
    target = EncodedSentences.from_lists([[25], [24, 26], [27, 28]], special)
    corpus = ParallelCorpus(source, target)
    with pytest.raises(ValueError, match="not the end id.* Received: ignore_class=None.*pad=2"):
        LengthBucketedBatches(corpus, 100)
    batches = LengthBucketedBatches(corpus, 100, shuffle=False, batch_multiple=4, ignore_class=-100)
    inputs, labels = batches.batch(0)
    order = batches.rows(0).tolist()
    expected = {0: [25, 2, -100], 1: [24, 26, 2], 2: [27, 28, 2]}
    assert labels.tolist() == [*(expected[row] for row in order), [-100] * 3]
    assert labels.dtype == "int32"
    assert inputs["target_ids"][order.index(0)].tolist() == [1, 25, 2]


def test_batches_begin_sources_with_the_start_id_on_request():
    source = EncodedSentences.from_lists([[15, 16], [14]], SpecialTokenIds(pad=1, start=3, end=2))
    target = EncodedSentences.from_lists([[25], [24, 26]])
    corpus = ParallelCorpus(source, target)
    batches = LengthBucketedBatches(corpus, 8, shuffle=False, add_source_start=True)
    inputs, _ = batches.batch(0)
    assert sorted(inputs["source_ids"].tolist()) == [[3, 14, 2, 1], [3, 15, 16, 2]]
    assert inputs["target_ids"].shape == (2, 3)
    with pytest.raises(ValueError, match="tokens_per_batch of at least 4, the padded length"):
        LengthBucketedBatches(corpus, 3, add_source_start=True)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("length_multiple", [1, 8])
def test_an_epoch_holds_every_pair_once_as_the_model_wants_it(shuffle, length_multiple):
    corpus, source, target = random_corpus()
    batches = LengthBucketedBatches(corpus, 200, shuffle=shuffle, length_multiple=length_multiple)
    for epoch in (0, 3):
        seen = []
        epoch_batches = list(batches.epoch(epoch))
        assert len(epoch_batches) == batches.steps_per_epoch
        for inputs, labels in epoch_batches:
            source_ids, target_ids = inputs["source_ids"], inputs["target_ids"]
            rows = source_ids[:, 0] - 10
            seen += rows.tolist()
            assert source_ids.dtype == target_ids.dtype == labels.dtype == np.int32
            longest_source = max(len(source[row]) for row in rows) + 1
            longest_target = max(len(target[row]) for row in rows) + 1
            assert source_ids.shape[1] == -(-longest_source // length_multiple) * length_multiple
            assert labels.shape[1] == -(-longest_target // length_multiple) * length_multiple
            assert target_ids.shape == labels.shape
            # The budget limits the longer side.
            assert len(rows) * max(source_ids.shape[1], labels.shape[1]) <= 200
            for i, row in enumerate(rows):
                assert source_ids[i].tolist() == _padded([*source[row], 2], source_ids.shape[1])
                assert target_ids[i].tolist() == _padded([1, *target[row]], labels.shape[1])
                assert labels[i].tolist() == _padded([*target[row], 2], labels.shape[1])
        assert sorted(seen) == list(range(500))


def _padded(row, width):
    return row + [0] * (width - len(row))


def test_rows_tell_which_pairs_are_in_a_batch():
    corpus, _, _ = random_corpus()
    batches = LengthBucketedBatches(corpus, 200)
    for step in (0, 5, 3 * batches.steps_per_epoch + 1):
        inputs, _ = batches.batch(step)
        np.testing.assert_array_equal(inputs["source_ids"][:, 0] - 10, batches.rows(step))


def test_number_of_steps_is_the_same_in_every_epoch_and_close_to_the_least_possible():
    corpus, _, _ = random_corpus(3000)
    batches = LengthBucketedBatches(corpus, 400)
    longest = np.maximum(corpus.source.lengths, corpus.target.lengths) + 1
    assert longest.sum() / 400 <= batches.steps_per_epoch <= 1.08 * longest.sum() / 400
    for epoch in range(5):
        rows = [
            row
            for step in range(batches.steps_per_epoch)
            for row in batches.rows(epoch * batches.steps_per_epoch + step)
        ]
        assert sorted(rows) == list(range(3000))


def test_buckets_leave_little_padding():
    corpus, _, _ = random_corpus(3000)

    def padding(batches):
        sizes = [(x["source_ids"], labels) for x, labels in batches]
        cells = sum(ids.size + labels.size for ids, labels in sizes)
        real = sum((ids != 0).sum() + (labels != 0).sum() for ids, labels in sizes)
        return 1 - real / cells

    assert padding(LengthBucketedBatches(corpus, 200, batches_per_bucket=1).epoch(0)) < 0.05
    assert padding(LengthBucketedBatches(corpus, 200).epoch(0)) < 0.12
    # A single bucket: the padding is random.
    assert padding(LengthBucketedBatches(corpus, 200, batches_per_bucket=1000).epoch(0)) > 0.3


def test_order_and_membership_follow_from_seed_and_epoch():
    corpus, _, _ = random_corpus()

    def batch_sets(seed, epoch):
        batches = LengthBucketedBatches(corpus, 200, seed=seed)
        steps = range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch)
        return [frozenset(batches.rows(step).tolist()) for step in steps]

    first = batch_sets(0, 0)
    assert first == batch_sets(0, 0)
    for other in (batch_sets(0, 1), batch_sets(1, 0)):
        assert len(other) == len(first)
        assert other != first
        # The batches contain different pairs, not only a different order.
        assert len(set(other) & set(first)) < len(first) / 10


def test_batch_order_is_shuffled_too():
    corpus, _, _ = random_corpus()
    widths = [labels.shape[1] for _, labels in LengthBucketedBatches(corpus, 200).epoch(0)]
    assert abs(np.corrcoef(widths, np.arange(len(widths)))[0, 1]) < 0.5


def test_without_shuffling_every_epoch_is_the_same_shortest_first():
    corpus, _, _ = random_corpus()
    batches = LengthBucketedBatches(corpus, 200, shuffle=False)
    assert_equal_batches(batches.epoch(0), batches.epoch(4))
    widths = [max(x["source_ids"].shape[1], y.shape[1]) for x, y in batches.epoch(0)]
    assert widths == sorted(widths)


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_stream_can_start_anywhere(shuffle):
    corpus, _, _ = random_corpus()
    batches = LengthBucketedBatches(corpus, 200, seed=3, shuffle=shuffle)
    num_steps = batches.steps_per_epoch
    whole = list(islice(batches.stream(), 3 * num_steps))
    epochs = [batch for epoch in range(3) for batch in batches.epoch(epoch)]
    assert_equal_batches(whole, epochs)
    for start in (1, num_steps - 1, num_steps, 2 * num_steps + 2):
        fresh = LengthBucketedBatches(corpus, 200, seed=3, shuffle=shuffle)
        assert_equal_batches(islice(fresh.stream(start), 3 * num_steps - start), whole[start:])


def test_two_streams_do_not_disturb_each_other():
    corpus, _, _ = random_corpus()
    batches = LengthBucketedBatches(corpus, 200)
    start = 2 * batches.steps_per_epoch
    expected = [list(islice(batches.stream(step), 5)) for step in (0, start)]
    mixed = list(islice(zip(batches.stream(), batches.stream(start), strict=True), 5))
    assert_equal_batches([first for first, _ in mixed], expected[0])
    assert_equal_batches([second for _, second in mixed], expected[1])


def test_batches_are_filled_up_with_empty_pairs():
    corpus, _, target = random_corpus(61, longest=9)
    batches = LengthBucketedBatches(corpus, 45, batch_multiple=4)
    seen, num_empty = [], 0
    for step, (inputs, labels) in enumerate(batches.epoch(0)):
        rows = batches.rows(step)
        seen += rows.tolist()
        source_ids, target_ids = inputs["source_ids"], inputs["target_ids"]
        assert len(source_ids) == len(target_ids) == len(labels) == -(-len(rows) // 4) * 4
        assert source_ids.size <= 45 and labels.size <= 45
        np.testing.assert_array_equal(source_ids[: len(rows), 0] - 10, rows)
        assert [row[0] for row in labels[: len(rows)]] == [target[row][0] for row in rows]
        for row in range(len(rows), len(labels)):
            num_empty += 1
            assert source_ids[row].tolist() == _padded([2], source_ids.shape[1])
            assert target_ids[row].tolist() == _padded([1], labels.shape[1])
            assert not labels[row].any()
    assert sorted(seen) == list(range(61))
    assert num_empty > 0


def test_one_pair_and_a_budget_that_just_fits():
    corpus = ParallelCorpus(
        EncodedSentences.from_lists([[5, 6, 7]]), EncodedSentences.from_lists([[8]])
    )
    batches = LengthBucketedBatches(corpus, 4)
    assert batches.steps_per_epoch == 1
    inputs, labels = batches.batch(10**6)
    assert inputs["source_ids"].tolist() == [[5, 6, 7, 2]]
    assert labels.tolist() == [[8, 2]]
    with pytest.raises(ValueError, match="at least 4, .* pair. Received: tokens_per_batch=3"):
        LengthBucketedBatches(corpus, 3)


def test_bad_arguments_are_refused():
    corpus, _, _ = random_corpus(10)
    empty = ParallelCorpus(EncodedSentences.from_lists([]), EncodedSentences.from_lists([]))
    with pytest.raises(ValueError, match="Received: 0 pairs"):
        LengthBucketedBatches(empty, 100)
    for name in ("tokens_per_batch", "batches_per_bucket", "length_multiple", "batch_multiple"):
        for value in (0, -1, 1.5, float("nan"), None):
            with pytest.raises(ValueError, match=f"{name} to be a positive.*{name}={value}"):
                LengthBucketedBatches(corpus, **{"tokens_per_batch": 100, name: value})
    for value in (-1, 0.5, None):
        with pytest.raises(ValueError, match=f"integer >= 0. Received: seed={value}"):
            LengthBucketedBatches(corpus, 100, seed=value)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("step", [-1, -(10**6), 1.0, None, np.int64(-2)])
def test_steps_are_integers_from_zero(shuffle, step):
    batches = LengthBucketedBatches(random_corpus(10)[0], 100, shuffle=shuffle)
    for function, name in [
        (batches.batch, "step"),
        (batches.rows, "step"),
        (batches.epoch, "epoch"),
        (batches.stream, "start_step"),
    ]:
        with pytest.raises(ValueError, match=f"{name} to be an integer >= 0. Received: {name}="):
            function(step)
    rows = batches.rows(np.int64(2**33))
    np.testing.assert_array_equal(rows, batches.rows(2**33))


def test_dataset_checks_its_steps():
    batches = LengthBucketedBatches(random_corpus(10)[0], 100)
    with pytest.raises(ValueError, match="Received: start_step=-1"):
        batches.dataset(-1)
    with pytest.raises(ValueError, match="Received: num_steps=-1"):
        batches.dataset(num_steps=-1)


@pytest.fixture(scope="module")
def divided_text(tmp_path_factory):
    """Returns a corpus with an unknown id in its first source sentence, and its tokenizer."""
    pytest.importorskip("sentencepiece")
    directory = tmp_path_factory.mktemp("text")
    texts = [
        [*lines, " ".join(lines[:3])] for lines in (sentences(ENGLISH, 999), sentences(GERMAN, 999))
    ]
    for name, lines in zip(("en", "de"), texts, strict=True):
        (directory / name).write_text("\n".join(lines) + "\n")
    tokenizer = SentencePieceTokenizer.train([directory / "en", directory / "de"], 90, "bpe")
    ids = [tokenizer.encode(lines) for lines in texts]
    ids[0][0] = [3, *ids[0][0]]  # the text of the unknown id cannot be segmented again
    return ParallelCorpus(*map(EncodedSentences.from_lists, ids)), tokenizer


def sampled_batches(divided_text, tokens_per_batch=500, sampling_alpha=0.2, **options):
    corpus, tokenizer = divided_text
    return LengthBucketedBatches(
        corpus,
        tokens_per_batch,
        tokenizers=(tokenizer, tokenizer),
        sampling_alpha=sampling_alpha,
        **options,
    )


@pytest.mark.parametrize("pairs_per_chunk", [1000, 334])
@pytest.mark.parametrize("shuffle", [True, False])
def test_sampled_batches_hold_every_text_once_in_new_pieces_each_epoch(
    divided_text, pairs_per_chunk, shuffle, monkeypatch
):
    monkeypatch.setattr(length_bucketed_batches, "_PAIRS_PER_CHUNK", pairs_per_chunk)
    corpus, tokenizer = divided_text
    batches = sampled_batches(divided_text, seed=3, shuffle=shuffle)
    drawn = {}
    for epoch in range(3):
        rows = []
        for step in range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch):
            inputs, labels = batches.batch(step)
            source_ids, target_ids = inputs["source_ids"], inputs["target_ids"]
            rows += batches.rows(step).tolist()
            own = rows[-len(labels) :]
            for ids, side in ((source_ids, corpus.source), (labels, corpus.target)):
                assert tokenizer.decode(ids) == tokenizer.decode([side[row] for row in own])
                assert ids.shape[1] - 1 <= 1.25 * side.lengths.max()
            np.testing.assert_array_equal(
                target_ids[:, 1:], np.where(labels[:, :-1] == 2, 0, labels[:, :-1])
            )
            for row, pieces in zip(own, source_ids, strict=True):
                drawn.setdefault(row, []).append(tuple(pieces[pieces != 0]))
        assert sorted(rows) == list(range(1000))
    assert set(drawn[0]) == {(*corpus.source[0], 2)}
    assert sum(len(set(pieces)) == 3 for pieces in drawn.values()) > 700


def test_sampled_batches_follow_from_seed_and_step(divided_text, monkeypatch):
    monkeypatch.setattr(length_bucketed_batches, "_PAIRS_PER_CHUNK", 334)
    batches = sampled_batches(divided_text, seed=3)
    num_steps = 2 * batches.steps_per_epoch
    whole = list(islice(batches.stream(), num_steps))
    for start in (0, 1, num_steps // 2 + 3):
        fresh = sampled_batches(divided_text, seed=3)
        assert_equal_batches(islice(fresh.stream(start), num_steps - start), whole[start:])
    other = sampled_batches(divided_text, seed=4).batch(0)
    assert other[1].shape != whole[0][1].shape or np.any(other[1] != whole[0][1])


def test_sentences_are_drawn_however_many_pieces_they_then_have(divided_text):
    corpus, tokenizer = divided_text
    batches = sampled_batches(divided_text, sampling_alpha=0.1)
    num_steps = 5 * batches.steps_per_epoch
    drawn = sum(
        (labels != 0).sum() - len(labels) for _, labels in islice(batches.stream(), num_steps)
    )
    texts = tokenizer.decode(list(corpus.target))
    expected = sum(len(pieces) for i in range(5) for pieces in tokenizer.sample(texts, 0.1, i))
    assert abs(drawn / expected - 1) < 0.01


def test_sampled_batches_are_as_large_and_as_full_as_others(divided_text):
    plain = LengthBucketedBatches(divided_text[0], 500)
    batches = sampled_batches(divided_text, sampling_alpha=0.1)
    # More pieces give more steps, not larger batches.
    assert batches.steps_per_epoch > plain.steps_per_epoch

    def largest_and_padding(batches, epoch):
        pairs = [(x["source_ids"], labels) for x, labels in batches.epoch(epoch)]
        cells = [labels.shape[0] * max(ids.shape[1], labels.shape[1]) for ids, labels in pairs]
        real = sum(np.maximum((ids != 0).sum(1), (y != 0).sum(1)).sum() for ids, y in pairs)
        return max(cells), 1 - real / sum(cells)

    _, expected = largest_and_padding(plain, 0)
    for epoch in range(4):
        largest, padding = largest_and_padding(batches, epoch)
        assert largest <= 1.1 * 500
        assert padding < expected + 0.02


@pytest.mark.parametrize("shuffle", [True, False])
def test_chunks_are_alike_where_the_corpus_is_not(divided_text, shuffle, monkeypatch):
    monkeypatch.setattr(length_bucketed_batches, "_PAIRS_PER_CHUNK", 250)
    corpus, tokenizer = divided_text
    order = np.argsort(corpus.source.lengths)
    sides = ([side[row] for row in order] for side in (corpus.source, corpus.target))
    by_length = ParallelCorpus(*map(EncodedSentences.from_lists, sides)), tokenizer
    batches = sampled_batches(by_length, sampling_alpha=0.1, shuffle=shuffle)
    sizes = [max(x["source_ids"].size, labels.size) for x, labels in batches.epoch(0)]
    assert max(sizes) <= 1.2 * 500


@pytest.mark.parametrize("sampled", [False, True])
def test_a_bucket_may_be_larger_than_the_corpus(divided_text, sampled):
    options = {"batches_per_bucket": 10**7}
    if sampled:
        batches = sampled_batches(divided_text, **options)
    else:
        batches = LengthBucketedBatches(divided_text[0], 500, **options)
    rows = [row for step in range(batches.steps_per_epoch) for row in batches.rows(step)]
    assert sorted(rows) == list(range(1000))


def test_sampled_batches_of_an_exact_number_of_rows(divided_text):
    batches = sampled_batches(divided_text, batch_multiple=4, length_multiple=8)
    for step, (inputs, labels) in enumerate(batches.epoch(1)):
        rows = batches.rows(batches.steps_per_epoch + step)
        assert len(labels) == -(-len(rows) // 4) * 4
        assert inputs["source_ids"].shape[1] % 8 == labels.shape[1] % 8 == 0


def test_a_sentence_that_fills_a_batch_keeps_its_pieces(divided_text):
    corpus, tokenizer = divided_text
    longest = max(corpus.source.lengths.max(), corpus.target.lengths.max()) + 1
    batches = sampled_batches(divided_text, tokens_per_batch=longest, sampling_alpha=1.0)
    for step, (inputs, labels) in enumerate(batches.epoch(0)):
        assert max(inputs["source_ids"].shape[1], labels.shape[1]) <= longest
        rows = batches.rows(step)
        for ids, side in ((inputs["source_ids"], corpus.source), (labels, corpus.target)):
            assert tokenizer.decode(ids) == tokenizer.decode([side[row] for row in rows])


def test_dataset_gives_the_same_batches():
    tf = pytest.importorskip("tensorflow")
    corpus, _, _ = random_corpus()
    batches = LengthBucketedBatches(corpus, 200)
    spec = tf.TensorSpec((None, None), tf.int32)
    dataset = batches.dataset(start_step=7, num_steps=20)
    assert dataset.element_spec == ({"source_ids": spec, "target_ids": spec}, spec)
    assert dataset.cardinality() == 20
    expected = list(islice(batches.stream(7), 20))
    assert_equal_batches(dataset.as_numpy_iterator(), expected)
    assert_equal_batches(dataset.as_numpy_iterator(), expected)  # validation data is read again
    endless = batches.dataset()
    assert endless.cardinality() == tf.data.INFINITE_CARDINALITY
    num_batches = 2 * batches.steps_per_epoch + 3
    assert_equal_batches(
        endless.take(num_batches).as_numpy_iterator(), islice(batches.stream(), num_batches)
    )


def run_python(script: str, **environment) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


UNDER_STRATEGY = """
import keras
import numpy as np
import tensorflow as tf

from tests.text.test_length_bucketed_batches import LengthBucketedBatches, random_corpus

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
corpus, _, _ = random_corpus(41, longest=6)


class CountPairs(keras.layers.Layer):
    def build(self, input_shape):
        self.counts = self.add_weight(shape=(41,), initializer="zeros", trainable=False)
        self.scale = self.add_weight(shape=(), initializer="ones")

    def call(self, source_ids):
        seen = tf.reduce_sum(tf.one_hot(source_ids[:, 0] - 10, 41), axis=0)
        replica = tf.distribute.get_replica_context()
        if replica is not None:  # Keras passes None to infer the shapes
            seen = replica.all_reduce("sum", seen)
        self.counts.assign(self.counts + seen)
        return self.scale * tf.cast(source_ids[:, :1], tf.float32)


def fit(batches):
    with strategy.scope():
        source_ids = keras.Input((None,), dtype="int32", name="source_ids")
        target_ids = keras.Input((None,), dtype="int32", name="target_ids")
        layer = CountPairs()
        inputs = {"source_ids": source_ids, "target_ids": target_ids}
        model = keras.Model(inputs, layer(source_ids))
        model.compile(optimizer="sgd", loss=lambda labels, outputs: 0.0 * tf.reduce_sum(outputs))
    steps = batches.steps_per_epoch
    model.fit(batches.dataset(), steps_per_epoch=steps, epochs=2, shuffle=False, verbose=0)
    print(np.unique(layer.counts.numpy()))


# Long pairs are alone in their batch, which gives odd batches and replicas without rows.
uneven = LengthBucketedBatches(corpus, 13, seed=6)
sizes = [len(uneven.rows(step)) for step in range(uneven.steps_per_epoch)]
assert sizes[0] == 2 and {1, 3} <= set(sizes), sizes
fit(uneven)
filled = LengthBucketedBatches(corpus, 13, seed=1, batch_multiple=2)
sizes = [len(filled.rows(step)) for step in range(filled.steps_per_epoch)]
assert sizes[0] == 1, sizes
fit(filled)
"""


@pytest.mark.slow
def test_fit_under_a_strategy_sees_every_pair_once_per_epoch():
    pytest.importorskip("tensorflow")
    lines = run_python(UNDER_STRATEGY, KERAS_BACKEND="tensorflow").splitlines()
    assert lines[-2:] == ["[2.]", "[2.]"]


WITHOUT_TENSORFLOW = """
import sys

sys.modules["tensorflow"] = sys.modules["tensorflow_text"] = None  # importing them fails
from tests.text.test_length_bucketed_batches import LengthBucketedBatches, random_corpus

batches = LengthBucketedBatches(random_corpus()[0], 200)
print(sum(len(labels) for _, labels in batches.epoch(0)))
try:
    batches.dataset()
except ImportError as error:
    print(error)
"""


def test_batches_need_no_tensorflow():
    count, error = run_python(WITHOUT_TENSORFLOW, KERAS_BACKEND="numpy").splitlines()[-2:]
    assert count == "500"
    assert "pip install '.[tensorflow]'" in error
