"""Batches of pairs of like length, in an order that depends on the seed and the epoch alone."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import count, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keras_attn.text.encoded_sentences import EncodedSentences
from keras_attn.text.parallel_corpus import ParallelCorpus
from keras_attn.text.sentencepiece_tokenizer import SentencePieceTokenizer

if TYPE_CHECKING:
    import tensorflow as tf

# No sentence gets longer by sampling than so many times the longest one.
_MOST_GROWTH = 1.25
# Pairs whose pieces are drawn at a time. More take more memory, fewer have less of the same length.
_PAIRS_PER_CHUNK = 2**15

Batch = tuple[dict[str, np.ndarray], np.ndarray]


class LengthBucketedBatches:
    """Cuts a corpus into batches of about as many tokens, with little padding.

    The pairs are sorted by the padded length of their longer side, then by the difference of their
    lengths, and the line is divided into buckets of a few batches each. Every epoch shuffles the
    pairs inside each bucket, cuts the buckets into batches, and shuffles the batches. All pairs of
    an epoch are used exactly once. Buckets and cuts depend on the lengths alone, so every epoch has
    the same number of steps; and what is in step n follows from `(seed, n)` alone, so that a run
    can be taken up at any step, in the middle of an epoch too. Memory: 8 bytes per pair (about 32
    while the buckets are made, and 16 once an epoch was shuffled); the ids stay in their files.

    With `tokenizers` the lengths are other ones in every epoch. An epoch then goes through the
    corpus in chunks of up to 32,768 pairs, chosen at random: draws their pieces, sorts them, and
    cuts them into as many batches as the first chunk of epoch 0 had, of as many tokens as that
    takes. The pieces of one chunk are in memory.

    Args:
        corpus: `ParallelCorpus`.
        tokens_per_batch: int, most tokens of a batch: pairs times the padded length of the longer
            side, with its end (or start) id. With `tokenizers` about as many.
        seed: int >= 0, seed of the shuffles. Default 0.
        shuffle: bool. False gives every epoch the same batches, shortest first (with `tokenizers`
            the same chunks, shortest first in each). Default True.
        batches_per_bucket: int >= 1. Larger mixes more, smaller pads less; with 1 an epoch shuffles
            only the order of the same batches. Without `shuffle` it is 1. Default 4.
        length_multiple: int >= 1; padded lengths are rounded up to a multiple of it, for hardware
            that likes 8 or a compiler that should see few shapes. Default 1.
        batch_multiple: int >= 1; batches are filled up to a multiple of it with empty pairs, which
            have an end id as source, a start id as target and no label. Set it to the number of
            replicas: no replica is then without rows, and Keras, which averages the first batch
            over the replicas to learn its shape, needs parts of the same size. Default 1.
        tokenizers: pair of `SentencePieceTokenizer`, of the source and of the target, to draw the
            pieces of every sentence anew in every epoch (subword regularization, see their
            `sample`). Default None: the pieces of the corpus.
        sampling_alpha: float, their `alpha`. Sampled pieces are more, and so are the steps of an
            epoch. A sentence that would be more than a quarter longer than the longest of its side,
            or longer than a batch, keeps its own pieces, as one with an unknown id does.
            Default 0.1.

    Attributes:
        steps_per_epoch: int, batches per epoch, the same for every epoch.

    Raises:
        ValueError: an empty corpus, an argument out of its range, or a pair that is longer than
            `tokens_per_batch`.

    Example:

    >>> from keras_attn.text import EncodedSentences
    >>> source = EncodedSentences.from_lists([[5, 6, 7], [8, 9], [4]])
    >>> target = EncodedSentences.from_lists([[15, 16], [17, 18], [14]])
    >>> batches = LengthBucketedBatches(
    ...     ParallelCorpus(source, target), tokens_per_batch=8, shuffle=False
    ... )
    >>> batches.steps_per_epoch
    2
    >>> inputs, labels = batches.batch(0)
    >>> inputs["source_ids"]
    array([[4, 2, 0],
           [8, 9, 2]], dtype=int32)
    >>> inputs["target_ids"]
    array([[ 1, 14,  0],
           [ 1, 17, 18]], dtype=int32)
    >>> labels
    array([[14,  2,  0],
           [17, 18,  2]], dtype=int32)
    """

    def __init__(
        self,
        corpus: ParallelCorpus,
        tokens_per_batch: int,
        seed: int = 0,
        shuffle: bool = True,
        batches_per_bucket: int = 4,
        length_multiple: int = 1,
        batch_multiple: int = 1,
        tokenizers: tuple[SentencePieceTokenizer, SentencePieceTokenizer] | None = None,
        sampling_alpha: float = 0.1,
    ) -> None:
        _check_at_least("batches_per_bucket", batches_per_bucket, 1)
        _check_at_least("length_multiple", length_multiple, 1)
        _check_at_least("batch_multiple", batch_multiple, 1)
        _check_at_least("seed", seed, 0)
        if len(corpus) == 0:
            raise ValueError("Expected a corpus with sentence pairs. Received: an empty corpus.")
        self.corpus = corpus
        self.tokens_per_batch = tokens_per_batch
        self.seed = seed
        self.shuffle = shuffle
        self.batches_per_bucket = batches_per_bucket if shuffle else 1
        self.length_multiple = length_multiple
        self.batch_multiple = batch_multiple
        self.tokenizers = tokenizers
        self.sampling_alpha = sampling_alpha

        widest = self._widths(corpus).max()
        if widest > tokens_per_batch:
            raise ValueError(
                f"Expected tokens_per_batch to hold the longest pair, padded {widest} tokens "
                f"long. Received: tokens_per_batch={tokens_per_batch}. Raise it, or encode the "
                "corpus with a lower max_source_length and max_target_length."
            )
        self._last_chunk = self._last_order = None
        if tokenizers is None:
            self._num_chunks = 1
            self._cut_corpus = self._cut(corpus)
            self._steps_per_chunk = self._cut_corpus.num_batches
        else:
            self._num_chunks = -(-len(corpus) // _PAIRS_PER_CHUNK)
            self._most_pieces = [
                min(_MOST_GROWTH * side.lengths.max(), self._longest_sentence())
                for side in (corpus.source, corpus.target)
            ]
            first, _ = self._drawn_chunk(0, 0)
            least_pairs = len(corpus) // self._num_chunks
            self._steps_per_chunk = min(self._cut(first).num_batches, least_pairs)
        self.steps_per_epoch = self._num_chunks * self._steps_per_chunk

    def rows(self, step: int) -> np.ndarray:
        """Numbers of the corpus' pairs in the batch of a global step: int `(batch,)`."""
        chunk, batch = self._find(step)
        return chunk.rows[batch]

    def batch(self, step: int) -> Batch:
        """The batch of a global step, counted from 0 over all epochs.

        Returns:
            `({"source_ids", "target_ids"}, labels)`: int32 arrays `(batch, source_length)`, pieces
            and the end id; `(batch, target_length)`, the start id and pieces; and
            `(batch, target_length)`, pieces and the end id. Padded on the right. All special ids
            are those of the side, see `EncodedSentences`.
        """
        chunk, batch = self._find(step)
        rows, source, target = chunk.order[batch], chunk.pairs.source, chunk.pairs.target
        source_width = self._width(source, rows)
        target_width = self._width(target, rows)
        of_source, of_target = source.special_token_ids, target.special_token_ids
        source_ids = source.padded(rows, source_width, end_token_id=of_source.end)  # (B, S)
        target_ids = target.padded(rows, target_width, start_token_id=of_target.start)  # (B, T)
        labels = target.padded(rows, target_width, end_token_id=of_target.end)  # (B, T)
        num_empty = -len(rows) % self.batch_multiple
        if num_empty:
            source_ids, target_ids, labels = (
                np.pad(ids, ((0, num_empty), (0, 0)), constant_values=special.pad)
                for ids, special in (
                    (source_ids, of_source),
                    (target_ids, of_target),
                    (labels, of_target),
                )
            )
            # One real id: a row of nothing but padding would cost an RNN its fast GPU kernel.
            source_ids[len(rows) :, 0] = of_source.end
            target_ids[len(rows) :, 0] = of_target.start
        return {"source_ids": source_ids, "target_ids": target_ids}, labels

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yields the batches of one epoch, counted from 0."""
        return islice(self.stream(epoch * self.steps_per_epoch), self.steps_per_epoch)

    def stream(self, start_step: int = 0) -> Iterator[Batch]:
        """Yields batches without end, from any global step on; as quick to start as epoch 0."""
        _check_at_least("start_step", start_step, 0)
        return map(self.batch, count(start_step))

    def dataset(self, start_step: int = 0, num_steps: int | None = None) -> "tf.data.Dataset":
        """The same batches as a prefetched `tf.data.Dataset`.

        The batches are global: under `MirroredStrategy`, `fit` divides each of them among the
        replicas (set `batch_multiple`). The auto-shard policy is DATA: under a strategy with
        several workers, all of them make the same batches and each keeps its part. Call `fit` with
        `shuffle=False`, or Keras warns that it does not shuffle a dataset.

        Args:
            start_step: int, first global step. Default 0.
            num_steps: int, batches until the dataset ends. Default None: it never ends; pass
                `steps_per_epoch` to `fit`, and its epochs go on where the last one stopped. For
                validation data pass `num_steps=batches.steps_per_epoch`.

        Returns:
            Dataset of `({"source_ids", "target_ids"}, labels)`, int32, `(None, None)` each.

        Example:

        ```python
        steps = batches.steps_per_epoch
        trainer.fit(batches.dataset(), steps_per_epoch=steps, epochs=18, shuffle=False)
        ```
        """
        try:
            import tensorflow as tf
        except ImportError as error:
            raise ImportError(
                "A tf.data.Dataset needs tensorflow: `pip install keras-attn[tensorflow]`. Without "
                "it, `stream` and `epoch` give the same batches as NumPy arrays."
            ) from error

        ids = tf.TensorSpec((None, None), tf.int32)
        dataset = tf.data.Dataset.from_generator(
            lambda: islice(self.stream(start_step), num_steps),
            output_signature=({"source_ids": ids, "target_ids": ids}, ids),
        )
        cardinality = tf.data.INFINITE_CARDINALITY if num_steps is None else num_steps
        data_policy = tf.data.experimental.AutoShardPolicy.DATA
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = data_policy
        # There is nothing to tune, and the end of the data would wait for the thread that does it,
        # which sleeps up to as long as it has run: in each validation, and after the last epoch.
        options.autotune.enabled = False
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(cardinality))
        # A buffer of many batches bridges the shuffle between two epochs.
        return dataset.prefetch(64).with_options(options)

    def _find(self, step: int) -> tuple["_Chunk", slice]:
        """The chunk of a global step, and where in its order the batch lies."""
        chunk, index = divmod(step, self._steps_per_chunk)
        chunk = self._chunk(*divmod(chunk, self._num_chunks))
        batch = chunk.batch_order[index]
        return chunk, slice(chunk.batch_starts[batch], chunk.batch_starts[batch + 1])

    def _chunk(self, epoch: int, index: int) -> "_Chunk":
        # Read once: another thread may be at another chunk.
        last = self._last_chunk
        if last is not None and last[0] == (epoch, index):
            return last[1]
        if self.tokenizers is None:
            pairs, rows, cut = self.corpus, None, self._cut_corpus
        else:
            pairs, rows = self._drawn_chunk(epoch, index)
            cut = self._cut(pairs, self._steps_per_chunk)
        order, batch_order = cut.order, np.arange(cut.num_batches)
        if self.shuffle:
            generator = np.random.default_rng((self.seed, epoch, index))
            order = order.copy()
            for bucket in np.split(order, cut.bucket_starts[1:-1]):
                generator.shuffle(bucket)  # a view: shuffles order
            batch_order = generator.permutation(cut.num_batches)
        rows = order if rows is None else rows[order]
        chunk = _Chunk(pairs, order, rows, cut.batch_starts, batch_order)
        self._last_chunk = (epoch, index), chunk
        return chunk

    def _drawn_chunk(self, epoch: int, index: int) -> tuple[ParallelCorpus, np.ndarray]:
        """Pairs in pieces drawn for this epoch, and their rows in the corpus."""
        rows = np.array_split(self._order_of_pairs(epoch), self._num_chunks)[index]
        seeds = np.random.SeedSequence((self.seed, epoch, index)).generate_state(2)
        sides = []
        for sentences, tokenizer, longest, seed in zip(
            (self.corpus.source, self.corpus.target),
            self.tokenizers or (),
            self._most_pieces,
            seeds,
            strict=True,
        ):
            known: list[Any] = [sentences[row] for row in rows]
            special = sentences.special_token_ids
            drawn = tokenizer.sample(tokenizer.decode(known), self.sampling_alpha, int(seed))
            for row, pieces in enumerate(drawn):
                # An unknown id does not tell the text that it stands for.
                if len(pieces) <= longest and special.unknown not in known[row]:
                    known[row] = pieces
            sides.append(EncodedSentences.from_lists(known, special))
        return ParallelCorpus(*sides), rows

    def _order_of_pairs(self, epoch: int) -> np.ndarray:
        """The order in which the pairs of an epoch go into its chunks, so that all are alike."""
        rows = np.arange(len(self.corpus))
        if self._num_chunks == 1:
            return rows
        seed = self.seed, epoch if self.shuffle else 0, self._num_chunks  # that of no chunk
        last = self._last_order  # read once, as in `_chunk`
        if last is None or last[0] != seed:
            last = self._last_order = seed, np.random.default_rng(seed).permutation(rows)
        return last[1]

    def _cut(self, pairs: ParallelCorpus, num_batches: int | None = None) -> "_Cut":
        """Cuts pairs into batches of `tokens_per_batch`, or evenly into `num_batches`."""
        widths = self._widths(pairs)  # (N,)
        differences = pairs.source.lengths - pairs.target.lengths  # (N,)
        # Every other width runs through the differences backwards, so that neighbours are alike.
        differences[widths // self.length_multiple % 2 == 1] *= -1
        order = np.lexsort((differences, widths))  # (N,)
        widths = widths[order].astype("int64")  # which many pairs of a bucket fit into

        def cut(tokens_per_batch):
            pairs_per_batch = tokens_per_batch // widths  # (N,), never rising
            # So that a full batch needs no empty pairs.
            too_many = pairs_per_batch % self.batch_multiple
            pairs_per_batch -= np.where(pairs_per_batch > self.batch_multiple, too_many, 0)
            bucket_starts = _bucket_starts(pairs_per_batch, self.batches_per_bucket)
            return _Cut(order, bucket_starts, _batch_starts(pairs_per_batch, bucket_starts))

        if num_batches is None:
            return cut(self.tokens_per_batch)
        tokens = range(widths[-1], widths[-1] * (len(widths) + self.batch_multiple))
        fewest = bisect_left(tokens, True, key=lambda n: cut(n).num_batches <= num_batches)
        whole = cut(tokens[fewest])
        return whole._replace(batch_starts=_split_largest(whole.batch_starts, num_batches))

    def _widths(self, pairs: ParallelCorpus) -> np.ndarray:
        """Padded length of the longer side of every pair: int `(N,)`."""
        return self._padded_length(np.maximum(pairs.source.lengths, pairs.target.lengths) + 1)

    def _longest_sentence(self) -> int:
        """Most pieces of a sentence that fits into a batch."""
        return self.tokens_per_batch // self.length_multiple * self.length_multiple - 1

    def _width(self, sentences, rows: np.ndarray) -> int:
        lengths = sentences.offsets[rows + 1] - sentences.offsets[rows]  # (B,)
        return int(self._padded_length(lengths.max() + 1))

    def _padded_length(self, length):
        return -(-length // self.length_multiple) * self.length_multiple


class _Cut(NamedTuple):
    """Pairs in order of their lengths, and where the buckets and the batches start and end."""

    order: np.ndarray  # (N,)
    bucket_starts: np.ndarray  # (buckets + 1,)
    batch_starts: np.ndarray  # (batches + 1,)

    @property
    def num_batches(self) -> int:
        return len(self.batch_starts) - 1


class _Chunk(NamedTuple):
    """Pairs of an epoch that are cut and shuffled together."""

    pairs: ParallelCorpus
    order: np.ndarray  # (N,), of the pairs
    rows: np.ndarray  # (N,), their numbers in the corpus, in this order
    batch_starts: np.ndarray  # (batches + 1,), in this order
    batch_order: np.ndarray  # (batches,)


def _bucket_starts(pairs_per_batch: np.ndarray, batches_per_bucket: int) -> np.ndarray:
    """Starts of the buckets, and the end: each takes as many pairs as its batches can hold."""
    starts = [0]
    while starts[-1] < len(pairs_per_batch):
        start = starts[-1]
        most = batches_per_bucket * pairs_per_batch[start]
        # A pair more makes the bucket longer and, where it is a longer pair, the batches smaller.
        room = batches_per_bucket * pairs_per_batch[start : start + most]
        starts.append(start + int(np.count_nonzero(np.arange(1, len(room) + 1) <= room)))
    return np.array(starts)


def _batch_starts(pairs_per_batch: np.ndarray, bucket_starts: np.ndarray) -> np.ndarray:
    """Starts of the batches, and the end: a bucket is cut evenly, small enough for its longest."""
    starts = [np.zeros(1, int)]
    for start, end in pairwise(bucket_starts):
        num_batches = -(-(end - start) // pairs_per_batch[end - 1])
        starts.append(start + (end - start) * np.arange(1, num_batches + 1) // num_batches)
    return np.concatenate(starts)


def _split_largest(starts: np.ndarray, num_batches: int) -> np.ndarray:
    """Halves the batches of most pairs until there are so many."""
    while len(starts) - 1 < num_batches:
        sizes = np.diff(starts)
        largest = sizes.argmax()
        starts = np.insert(starts, largest + 1, starts[largest] + sizes[largest] // 2)
    return starts


def _check_at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"Expected {name} to be at least {least}. Received: {name}={value}")
