from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from keras_attn._backend.data_adapters import EpochBatches
from keras_attn._layer.argument_checks import accepts_numpy_numbers, check_positive_integer
from keras_attn_checks.options import NONNEGATIVE_INTEGER

if TYPE_CHECKING:
    import tensorflow as tf

Batch = tuple[np.ndarray, np.ndarray]


class LabelledBatches(EpochBatches):
    """Token ids and class labels in batches, for classifiers such as `sequence_classifier`.

    Each epoch sorts the texts by length, equal lengths in random order, divides them into batches,
    and shuffles the batches. So a batch contains little padding. Every text occurs exactly once per
    epoch. The order depends only on `seed` and the epoch number, so `keras_attn.training.fit` can
    resume. Train with `fit(model, batches)` or `model.fit(batches)`.

    Args:
        rows: List of lists of ids, one per text, such as `tokenizer.encode(texts)`.
        labels: Int array with shape `(texts,)`, the classes.
        batch_size: Positive int, number of texts per batch. The batch with the longest texts can
            be smaller.
        seed: Int >= 0. Defaults to `0`.
        shuffle: Bool, whether to shuffle. If `False`, every epoch contains the same batches, sorted
            by length. Defaults to `True`.
        length_multiple: Positive int. Padded lengths are rounded up to a multiple of this value, to
            limit the number of compiled shapes. Defaults to `1`.
        pad_token_id: Int, id that fills the rows on the right. Defaults to `0`.

    Attributes:
        steps_per_epoch: Int, number of batches in an epoch.

    Raises:
        ValueError: If there are no texts, texts and labels differ in number, or another
            argument is out of range.

    Example:

    >>> from keras_attn.text import LabelledBatches
    >>> batches = LabelledBatches([[5, 6, 7], [8], [9, 4]], [1, 0, 1], batch_size=2, shuffle=False)
    >>> batches.steps_per_epoch
    2
    >>> ids, labels = batches.batch(0)
    >>> ids.tolist(), labels.tolist()
    ([[8, 0], [9, 4]], [0, 1])
    """

    @accepts_numpy_numbers
    def __init__(
        self,
        rows: Sequence[Sequence[int]],
        labels: npt.ArrayLike,
        batch_size: int,
        seed: int = 0,
        *,
        shuffle: bool = True,
        length_multiple: int = 1,
        pad_token_id: int = 0,
    ) -> None:
        check_positive_integer("batch_size", batch_size)
        check_positive_integer("length_multiple", length_multiple)
        NONNEGATIVE_INTEGER.check("seed", seed)
        self._rows = [np.asarray(row, "int32") for row in rows]
        self._labels = np.asarray(labels, "int32")
        if not self._rows or self._labels.shape != (len(self._rows),):
            raise ValueError(
                "Expected texts with a label each. Received: "
                f"{len(self._rows)} rows, labels of shape {self._labels.shape}."
            )
        self.batch_size, self.seed = batch_size, seed
        self.shuffle, self.length_multiple = shuffle, length_multiple
        self.pad_token_id = pad_token_id
        self.steps_per_epoch = -(-len(self._rows) // batch_size)
        self._lengths = np.array([len(row) for row in self._rows])
        self._order: tuple[int, list[np.ndarray]] = (-1, [])

    def __len__(self) -> int:
        return self.steps_per_epoch

    def batch(self, step: int) -> Batch:
        """Returns the batch for a training step.

        Args:
            step: Int >= 0, the step number since the beginning of the training.

        Returns:
            Tuple of ids, int32 `(batch, time)`, and labels, int32 `(batch,)`.
        """
        NONNEGATIVE_INTEGER.check("step", step)
        epoch, index = divmod(step, self.steps_per_epoch)
        if self._order[0] != epoch:
            self._order = epoch, self._divide(epoch)
        chosen = self._order[1][index]
        longest = max(1, self._lengths[chosen].max())
        width = -(-longest // self.length_multiple) * self.length_multiple
        ids = np.full((len(chosen), width), self.pad_token_id, "int32")
        for row, source in zip(ids, chosen, strict=True):
            row[: self._lengths[source]] = self._rows[source]
        return ids, self._labels[chosen]

    def _divide(self, epoch: int) -> list[np.ndarray]:
        """Returns the indices of the texts of each batch in an epoch."""
        starts = range(self.batch_size, len(self._rows), self.batch_size)
        if not self.shuffle:
            return np.split(np.argsort(self._lengths, kind="stable"), starts)
        generator = np.random.default_rng((self.seed, epoch))
        order = np.lexsort((generator.random(len(self._rows)), self._lengths))
        batches = np.split(order, starts)
        generator.shuffle(batches)
        return batches

    def stream(self, start_step: int = 0) -> Iterator[Batch]:
        """Iterates over the batches for all steps from `start_step`, without end."""
        NONNEGATIVE_INTEGER.check("start_step", start_step)
        return map(self.batch, count(start_step))

    def dataset(self, start_step: int = 0) -> "tf.data.Dataset":
        """Returns the batches from `start_step` as an infinite `tf.data.Dataset`."""
        import tensorflow as tf

        specs = tuple(
            tf.TensorSpec([None] * each.ndim, each.dtype) for each in self.batch(start_step)
        )
        dataset = tf.data.Dataset.from_generator(
            lambda: self.stream(start_step), output_signature=specs
        )
        return dataset.prefetch(2)
