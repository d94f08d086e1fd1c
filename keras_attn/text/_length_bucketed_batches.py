"""Batches of sentence pairs with similar lengths, in an order that depends on seed and epoch."""

import numbers
from bisect import bisect_left
from collections.abc import Iterator
from itertools import count, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keras_attn._backend.data_adapters import EpochBatches
from keras_attn._layer.argument_checks import (
    accepts_numpy_numbers,
    check_number,
    check_positive_integer,
)
from keras_attn.text._encoded_sentences import EncodedSentences
from keras_attn.text._parallel_corpus import ParallelCorpus
from keras_attn.text._sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attn.text._tokenizer import SpecialTokenIds

if TYPE_CHECKING:
    import tensorflow as tf

# Maximum length of a sampled segmentation, relative to the longest sentence in the corpus.
_MOST_GROWTH = 1.25
# Number of pairs to sample at a time. A larger number needs more memory, and a smaller number
# results in more padding.
_PAIRS_PER_CHUNK = 2**15

Batch = tuple[dict[str, np.ndarray], np.ndarray]


class LengthBucketedBatches(EpochBatches):
    """Groups sentence pairs with similar lengths into batches with about the same number of tokens.

    The pairs are sorted by the padded length of the longer sentence, then by the difference between
    the lengths, and divided into buckets of `batches_per_bucket` batches. Each epoch shuffles the
    pairs in each bucket, divides the buckets into batches, and shuffles the batches. Every pair
    occurs exactly once per epoch. Buckets and batch sizes only depend on the lengths, so all epochs
    have the same number of steps. The content of step n only depends on the seed and n, so training
    can resume at any step, even in the middle of an epoch. The object needs 8 bytes of memory per
    pair (about 32 bytes while it creates the buckets, and 16 bytes after it has shuffled an epoch).
    The ids remain in the corpus files. Train with `keras_attn.training.fit(model, batches)` or
    `model.fit(batches)`.

    With `tokenizers`, the lengths differ in each epoch. Each epoch processes the corpus in chunks
    of up to 32,768 randomly selected pairs. In each chunk, segmentations are sampled, and the pairs
    are sorted and divided into batches. All chunks contain the same number of batches as the first
    chunk in epoch 0. Only one chunk's ids are in memory.

    Args:
        corpus: `ParallelCorpus`.
        tokens_per_batch: Positive int, maximum number of tokens in a batch: the number of pairs
            times the padded length of the longer side, including the end or start id. With
            `tokenizers`, the limit is approximate.
        seed: Int >= 0, seed for the random order. Defaults to `0`.
        shuffle: Bool, whether to shuffle. If `False`, every epoch contains the same batches, sorted
            by length (with `tokenizers`: the same chunks). Defaults to `True`.
        batches_per_bucket: Int >= 1. A larger value shuffles the pairs more, and a smaller value
            results in less padding. With `1`, only the batch order is shuffled. Ignored if
            `shuffle=False`. Defaults to `4`.
        length_multiple: Int >= 1. Padded lengths are rounded up to a multiple of this value, for
            example because multiples of 8 are faster, or to limit the number of compiled shapes.
            Defaults to `1`.
        batch_multiple: Int >= 1. Empty pairs are added to a batch until its number of pairs is a
            multiple of this value. An empty pair has an end id as source, a start id as target, and
            padding as labels. Set `batch_multiple` to the number of replicas, because Keras
            requires that all replicas get the same number of rows in the first batch. Defaults to
            `1`.
        tokenizers: Pair of `SentencePieceTokenizer`s for source and target. With tokenizers, each
            epoch samples a new segmentation of each sentence (subword regularization, see
            `SentencePieceTokenizer.sample`). Defaults to `None`: the ids in the corpus.
        sampling_alpha: Float, argument `alpha` of `SentencePieceTokenizer.sample`. Sampled
            segmentations are longer, so an epoch takes more steps. A sentence keeps its ids in the
            corpus if it or the sampled segmentation contains an unknown id, or if the sampled
            segmentation does not fit into a batch or is longer than 1.25 times the longest sentence
            on the same side. Defaults to `0.1`.
        add_source_start: Bool, whether sources begin with the start id, for an encoder with a
            `start_token_id`. Defaults to `False`.
        ignore_class: Int, padding label, see `compile_for_training`. It may be outside the
            vocabulary. Required if the target pads with its end id, whose labels must not be
            ignored. Defaults to `None`: the target's padding id.

    Attributes:
        steps_per_epoch: Int, number of batches per epoch, the same for all epochs.

    Raises:
        ValueError: If the corpus is empty, an argument is out of range, a pair is longer than
            `tokens_per_batch`, special ids differ between tokenizer and corpus, or the padding
            label is the end id.

    Example:

    >>> from keras_attn.text import EncodedSentences, LengthBucketedBatches, ParallelCorpus
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

    @accepts_numpy_numbers
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
        add_source_start: bool = False,
        ignore_class: int | None = None,
    ) -> None:
        check_positive_integer("tokens_per_batch", tokens_per_batch)
        check_positive_integer("batches_per_bucket", batches_per_bucket)
        check_positive_integer("length_multiple", length_multiple)
        check_positive_integer("batch_multiple", batch_multiple)
        _check_not_negative("seed", seed)
        check_number(
            "sampling_alpha", sampling_alpha, lambda alpha: 0 <= alpha <= 1, "in [0, 1]", "Use 0.1."
        )
        _check_tokenizers(tokenizers, corpus)
        if len(corpus) == 0:
            raise ValueError("Expected a corpus with sentence pairs. Received: 0 pairs.")
        self.corpus = corpus
        self.tokens_per_batch = tokens_per_batch
        self.seed = seed
        self.shuffle = shuffle
        self.batches_per_bucket = batches_per_bucket if shuffle else 1
        self.length_multiple = length_multiple
        self.batch_multiple = batch_multiple
        self.tokenizers = tokenizers
        self.sampling_alpha = sampling_alpha
        self.add_source_start = add_source_start
        special = corpus.target.special_token_ids
        self.ignore_class = special.pad if ignore_class is None else ignore_class
        if self.ignore_class == special.end:
            raise ValueError(
                "Expected a label of padding that is not the end id, because a loss ignores it and "
                f"the model would not learn to end. Received: ignore_class={ignore_class}, target "
                f"with pad={special.pad}, end={special.end}. Pass ignore_class=-100 here and to "
                "compile_for_training."
            )
        # Number of special ids in a source and in a target sentence.
        self._num_special = (2 if add_source_start else 1), 1

        widest = self._widths(corpus).max()
        if widest > tokens_per_batch:
            raise ValueError(
                f"Expected tokens_per_batch of at least {widest}, the padded length of the longest "
                f"pair. Received: tokens_per_batch={tokens_per_batch}. Increase it, or encode the "
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
                min(_MOST_GROWTH * side.lengths.max(), self._longest_sentence(num_special))
                for side, num_special in zip(
                    (corpus.source, corpus.target), self._num_special, strict=True
                )
            ]
            first, _ = self._drawn_chunk(0, 0)
            least_pairs = len(corpus) // self._num_chunks
            self._steps_per_chunk = min(self._cut(first).num_batches, least_pairs)
        self.steps_per_epoch = self._num_chunks * self._steps_per_chunk

    def rows(self, step: int) -> np.ndarray:
        """Returns the corpus indices `(batch,)` of the pairs in a global step >= 0."""
        chunk, batch = self._find(step)
        return chunk.rows[batch]

    def batch(self, step: int) -> Batch:
        """Returns the batch for a global step.

        Args:
            step: Int >= 0, global step, counted over all epochs.

        Returns:
            Tuple `({"source_ids", "target_ids"}, labels)` of int32 arrays, padded on the right.
            `source_ids` `(batch, source_length)` ends with the end id. It begins with the start id
            if `add_source_start` is `True`. `target_ids` `(batch, target_length)` begins with the
            start id. `labels` `(batch, target_length)` ends with the end id. Source and target can
            use different special ids, see `EncodedSentences`.
        """
        chunk, batch = self._find(step)
        rows, source, target = chunk.order[batch], chunk.pairs.source, chunk.pairs.target
        source_width, target_width = (
            self._width(side, rows, num_special)
            for side, num_special in zip((source, target), self._num_special, strict=True)
        )
        source_special, target_special = source.special_token_ids, target.special_token_ids
        start = source_special.start if self.add_source_start else None
        source_ids = source.padded(rows, source_width, start, source_special.end)  # (B, S)
        target_ids = target.padded(rows, target_width, target_special.start)  # (B, T)
        labels = target.padded(rows, target_width, end_token_id=target_special.end)  # (B, T)
        # The padding id may be a token, so the padding is known from the lengths.
        lengths = target.offsets[rows + 1] - target.offsets[rows]  # (B,)
        is_padding = np.arange(target_width) > lengths[:, None]
        labels = np.where(is_padding, np.int32(self.ignore_class), labels)
        num_empty = -len(rows) % self.batch_multiple
        if num_empty:
            source_ids, target_ids, labels = (
                np.pad(ids, ((0, num_empty), (0, 0)), constant_values=padding)
                for ids, padding in (
                    (source_ids, source_special.pad),
                    (target_ids, target_special.pad),
                    (labels, self.ignore_class),
                )
            )
            # Insert one id, because a row that contains only padding would disable an RNN's fused
            # GPU kernel.
            source_ids[len(rows) :, 0] = source_special.end
            target_ids[len(rows) :, 0] = target_special.start
        return {"source_ids": source_ids, "target_ids": target_ids}, labels

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yields the batches of one epoch. The first epoch is 0."""
        _check_not_negative("epoch", epoch)
        return islice(self.stream(int(epoch) * self.steps_per_epoch), self.steps_per_epoch)

    def stream(self, start_step: int = 0) -> Iterator[Batch]:
        """Yields an infinite sequence of batches, beginning at a global step."""
        _check_not_negative("start_step", start_step)
        return map(self.batch, count(int(start_step)))

    def dataset(self, start_step: int = 0, num_steps: int | None = None) -> "tf.data.Dataset":
        """Returns the batches as a prefetched `tf.data.Dataset`.

        The batches are global: with `MirroredStrategy`, `fit` divides each batch among the replicas
        (set `batch_multiple`). The auto-shard policy is DATA: with several workers, each worker
        creates all batches and keeps its rows. Call `model.fit` with `shuffle=False`, otherwise
        Keras warns that it does not shuffle a dataset.

        Args:
            start_step: Int >= 0, first global step. Defaults to `0`.
            num_steps: Int >= 0, number of batches. For validation data, pass
                `num_steps=batches.steps_per_epoch`. Defaults to `None`: an infinite dataset. In
                this case, pass `steps_per_epoch` to `fit`; each epoch continues where the previous
                one ended.

        Returns:
            Dataset of `({"source_ids", "target_ids"}, labels)`, int32 tensors with shape `(None,
            None)`.

        Raises:
            ValueError: If `start_step` or `num_steps` is negative.
            ImportError: If TensorFlow is not installed.

        Example:

        ```python
        steps = batches.steps_per_epoch
        trainer.fit(batches.dataset(), steps_per_epoch=steps, epochs=18, shuffle=False)
        ```
        """
        _check_not_negative("start_step", start_step)
        if num_steps is not None:
            _check_not_negative("num_steps", num_steps)
        try:
            import tensorflow as tf
        except ImportError as error:
            raise ImportError(
                "Expected tensorflow for a tf.data.Dataset: `pip install '.[tensorflow]'` in a "
                "checkout. "
                "Without TensorFlow, use `stream` or `epoch`, which yield the same batches as "
                "NumPy arrays."
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
        # Speed: disable autotune. There is nothing to tune, and at the end of each validation, the
        # dataset would wait for the sleeping autotune thread.
        options.autotune.enabled = False
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(cardinality))
        # Speed: shuffling between two epochs takes time, so use a large buffer.
        return dataset.prefetch(64).with_options(options)

    def _find(self, step: int) -> tuple["_Chunk", slice]:
        """Returns the chunk for a global step, and the slice of `chunk.order` with its batch."""
        _check_not_negative("step", step)
        chunk, index = divmod(int(step), self._steps_per_chunk)
        chunk = self._chunk(*divmod(chunk, self._num_chunks))
        batch = chunk.batch_order[index]
        return chunk, slice(chunk.batch_starts[batch], chunk.batch_starts[batch + 1])

    def _chunk(self, epoch: int, index: int) -> "_Chunk":
        # Read the attribute only once, because another thread may replace it.
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
                generator.shuffle(bucket)  # a view of `order`
            batch_order = generator.permutation(cut.num_batches)
        rows = order if rows is None else rows[order]
        chunk = _Chunk(pairs, order, rows, cut.batch_starts, batch_order)
        self._last_chunk = (epoch, index), chunk
        return chunk

    def _drawn_chunk(self, epoch: int, index: int) -> tuple[ParallelCorpus, np.ndarray]:
        """Returns a chunk's pairs with sampled segmentations, and their corpus indices."""
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
            chunk_ids: list[Any] = [sentences[row] for row in rows]
            special = sentences.special_token_ids
            drawn = tokenizer.sample(tokenizer.decode(chunk_ids), self.sampling_alpha, int(seed))
            for row, pieces in enumerate(drawn):
                # Unknown ids cannot be decoded, so do not sample sentences that contain them.
                if (
                    0 < len(pieces) <= longest
                    and special.unknown not in chunk_ids[row]
                    and special.unknown not in pieces
                ):
                    chunk_ids[row] = pieces
            sides.append(EncodedSentences.from_lists(chunk_ids, special))
        return ParallelCorpus(*sides), rows

    def _order_of_pairs(self, epoch: int) -> np.ndarray:
        """Returns the random pair order, which assigns pairs to an epoch's chunks."""
        rows = np.arange(len(self.corpus))
        if self._num_chunks == 1:
            return rows
        seed = self.seed, epoch if self.shuffle else 0, self._num_chunks  # not a chunk's seed
        last = self._last_order  # read only once, see `_chunk`
        if last is None or last[0] != seed:
            last = self._last_order = seed, np.random.default_rng(seed).permutation(rows)
        return last[1]

    def _cut(self, pairs: ParallelCorpus, num_batches: int | None = None) -> "_Cut":
        """Divides pairs into batches of `tokens_per_batch`, or evenly into `num_batches`."""
        widths = self._widths(pairs)  # (N,)
        differences = pairs.source.lengths - pairs.target.lengths  # (N,)
        # Reverse the order of differences for every second width, so that adjacent pairs at the
        # boundary between two widths are similar.
        differences[widths // self.length_multiple % 2 == 1] *= -1
        order = np.lexsort((differences, widths))  # (N,)
        widths = widths[order].astype("int64")  # avoid overflows

        def cut(tokens_per_batch):
            pairs_per_batch = tokens_per_batch // widths  # (N,), not increasing
            # Round down to a multiple, so that a full batch needs no empty pairs.
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
        """Returns the padded length `(N,)` of the longer side of every pair."""
        source_special, target_special = self._num_special
        source_lengths = pairs.source.lengths + source_special
        return self._padded_length(
            np.maximum(source_lengths, pairs.target.lengths + target_special)
        )

    def _longest_sentence(self, num_special: int) -> int:
        """Returns the maximum number of ids in a sentence that fits into a batch."""
        return self.tokens_per_batch // self.length_multiple * self.length_multiple - num_special

    def _width(self, sentences, rows: np.ndarray, num_special: int) -> int:
        lengths = sentences.offsets[rows + 1] - sentences.offsets[rows]  # (B,)
        return int(self._padded_length(lengths.max() + num_special))

    def _padded_length(self, length):
        return -(-length // self.length_multiple) * self.length_multiple


class _Cut(NamedTuple):
    """Sorted pair order, and the boundaries between buckets and batches."""

    order: np.ndarray  # (N,)
    bucket_starts: np.ndarray  # (buckets + 1,)
    batch_starts: np.ndarray  # (batches + 1,)

    @property
    def num_batches(self) -> int:
        return len(self.batch_starts) - 1


class _Chunk(NamedTuple):
    """Pairs in an epoch that are divided into batches and shuffled together."""

    pairs: ParallelCorpus
    order: np.ndarray  # (N,), indices into `pairs`
    rows: np.ndarray  # (N,), indices into the corpus, in the same order
    batch_starts: np.ndarray  # (batches + 1,), indices into `order`
    batch_order: np.ndarray  # (batches,)


def _bucket_starts(pairs_per_batch: np.ndarray, batches_per_bucket: int) -> np.ndarray:
    """Returns the start indices of all buckets, followed by the end index."""
    starts = [0]
    while starts[-1] < len(pairs_per_batch):
        start = starts[-1]
        most = batches_per_bucket * pairs_per_batch[start]
        # Add pairs while they fit. A longer pair reduces the number of pairs per batch.
        room = batches_per_bucket * pairs_per_batch[start : start + most]
        starts.append(start + int(np.count_nonzero(np.arange(1, len(room) + 1) <= room)))
    return np.array(starts)


def _batch_starts(pairs_per_batch: np.ndarray, bucket_starts: np.ndarray) -> np.ndarray:
    """Divides each bucket evenly. Returns the start indices of all batches and the end index."""
    starts = [np.zeros(1, int)]
    for start, end in pairwise(bucket_starts):
        num_batches = -(-(end - start) // pairs_per_batch[end - 1])
        starts.append(start + (end - start) * np.arange(1, num_batches + 1) // num_batches)
    return np.concatenate(starts)


def _split_largest(starts: np.ndarray, num_batches: int) -> np.ndarray:
    """Divides the largest batches into halves until there are `num_batches` batches."""
    while len(starts) - 1 < num_batches:
        sizes = np.diff(starts)
        largest = sizes.argmax()
        starts = np.insert(starts, largest + 1, starts[largest] + sizes[largest] // 2)
    return starts


def _check_not_negative(name: str, value: object) -> None:
    if not isinstance(value, numbers.Integral) or value < 0:
        raise ValueError(f"Expected {name} to be an integer >= 0. Received: {name}={value!r}.")


def _check_tokenizers(tokenizers: Any, corpus: ParallelCorpus) -> None:
    if tokenizers is None:
        return
    if len(tokenizers) != 2 or not all(hasattr(tokenizer, "sample") for tokenizer in tokenizers):
        raise ValueError(
            "Expected tokenizers to be two SentencePieceTokenizers, for source and target. "
            f"Received: tokenizers={tokenizers!r}."
        )
    for name, tokenizer, side in zip(
        ("source", "target"), tokenizers, (corpus.source, corpus.target), strict=True
    ):
        if SpecialTokenIds.of(tokenizer) != side.special_token_ids:
            raise ValueError(
                f"Expected a tokenizer with the special ids of the {name}, "
                f"{side.special_token_ids}. Received: a tokenizer with "
                f"{SpecialTokenIds.of(tokenizer)}. Pass the tokenizers that encoded the corpus."
            )
