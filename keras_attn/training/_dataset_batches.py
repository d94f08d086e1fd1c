"""Batches of a `keras.utils.PyDataset`, whose `on_epoch_*` calls a resumed training repeats."""

import contextlib
import random
import warnings
from collections.abc import Iterator
from itertools import count
from typing import Literal, TypeAlias

import keras
import numpy as np

from keras_attn._backend.random_state import draw_loader_seeds
from keras_attn._types import TensorDict
from keras_attn.training._array_batches import class_weights
from keras_attn.training._nested_arrays import checksum_of_batch
from keras_attn.training._step_batches import OnMismatch, Shuffle, StepBatches

_NOTHING: TensorDict = {"calls": "", "checksum": None}
"""State of an unread dataset."""


class DatasetBatches:
    """Reads a `keras.utils.PyDataset` so that a training can resume at any step.

    Keras calls `on_epoch_begin` and `on_epoch_end` of the dataset, which may change its batches.
    The state contains these calls. When the training resumes, they are repeated. The two methods
    may use the global random generators of NumPy and Python, which are seeded for each call.
    Between two calls, a batch must depend only on its index.

    Args:
        dataset: `keras.utils.PyDataset`.
        shuffle: Bool, whether to shuffle the batches in each epoch.
        class_weight: Dict from classes to weights, or `None`.
        steps_per_epoch: Positive int or `None`. An endless dataset needs it. Otherwise it must be
            the dataset's number of batches.
        seed: Int >= 0, seed for the batch order and the calls.
        on_mismatch: String, `"error"` or `"warn"`: what happens if the resumed training reads a
            different batch.

    Raises:
        ValueError: If `steps_per_epoch` does not match the dataset, or if an endless dataset
            overrides one of the two methods: Keras prefetches its batches before these calls.
    """

    loader_seeds = 1
    """Number of seeds that Keras draws to read an epoch on PyTorch."""

    def __init__(
        self,
        dataset: keras.utils.PyDataset,
        shuffle: Shuffle = False,
        class_weight: dict[int, float] | None = None,
        steps_per_epoch: int | None = None,
        seed: int = 0,
        on_mismatch: OnMismatch = "error",
    ) -> None:
        self.dataset = dataset
        self.shuffle = bool(shuffle) and dataset.num_batches is not None
        self.seed = seed
        self.steps_per_epoch = _checked_steps(dataset, steps_per_epoch)
        self._class_weight = class_weight
        self._on_mismatch = on_mismatch
        self._calls = ""  # "B" and "E": on_epoch_begin and on_epoch_end
        self._saved = _NOTHING

    def get_state(self) -> TensorDict:
        """Returns the seed, the calls so far and a checksum, for `TrainingCheckpoint`."""
        return {"seed": self.seed, "calls": self._calls, "checksum": self._checksum()}

    def set_state(self, state: TensorDict) -> None:
        """Stores the state that `reader` restores."""
        self.seed = state["seed"]
        self._saved = state

    def fingerprint(self) -> dict[str, object]:
        """Returns a description for JSON, without the data, whose checksum is in the state."""
        return {"steps_per_epoch": self.steps_per_epoch, "shuffle": self.shuffle}

    def check_repeatable(self) -> None:
        """Raises a `ValueError` if the batches cannot be repeated when the training resumes."""
        kind = type(self.dataset).__name__
        if self._checksum() != self._checksum():
            raise ValueError(
                "Expected a PyDataset that returns equal batches for equal indices, because a "
                f"training that resumes reads them again. Received: {kind}, whose batch 0 differs "
                "when it is read again. Derive random numbers from the index, such as "
                "np.random.default_rng((seed, epoch, index)), and count the epochs in on_epoch_end."
            )
        workers, processes = self.dataset.workers, self.dataset.use_multiprocessing
        if (workers > 1 or workers and processes) and _overrides(self.dataset, "on_epoch_begin"):
            raise ValueError(
                "Expected a PyDataset with workers=1 or without on_epoch_begin, because the "
                f"workers of Keras do not wait for on_epoch_begin. Received: {kind} with "
                f"workers={workers}, use_multiprocessing={processes}. Use on_epoch_end."
            )

    def reader(self, start_step: int = 0) -> keras.utils.PyDataset:
        """Returns a dataset for one call of `model.fit`, beginning at a step."""
        within_epoch = start_step % self.steps_per_epoch > 0
        self._restore(within_epoch)
        return _Reader(self, start_step, not self._calls, within_epoch)

    def validation_reader(self) -> keras.utils.PyDataset:
        """Returns a dataset for the validations in one call of `model.fit`."""
        self._restore(False)
        return _Reader(self, 0, True, False)

    def _restore(self, within_epoch: bool) -> None:
        saved, self._saved = self._saved, _NOTHING
        # At the beginning of an epoch, Keras itself calls on_epoch_begin ("B").
        calls = saved["calls"] if within_epoch else saved["calls"].rstrip("B")
        for call in calls:
            self.call(call)
        if calls == saved["calls"] and saved["checksum"] not in (None, self._checksum()):
            self._report_mismatch()

    def call(self, name: Literal["B", "E"]) -> None:
        """Calls the dataset's `on_epoch_begin` (`"B"`) or `on_epoch_end` (`"E"`)."""
        with _seeded((self.seed, len(self._calls))):
            self.dataset.on_epoch_begin() if name == "B" else self.dataset.on_epoch_end()
        self._calls += name

    def batch(self, index: int) -> object:
        """Returns a batch as `model.fit` trains on it, with sample weights from `class_weight`."""
        batch = self.dataset[index]
        batch = tuple(batch) if isinstance(batch, list) else batch
        if self._class_weight is not None and isinstance(batch, tuple):
            if len(batch) == 3:
                raise ValueError(
                    "Expected batches without sample weights, because of class_weight. Received: "
                    "batches of 3 parts. Multiply the sample weights by the weights of the classes."
                )
            if len(batch) == 2:
                labels = keras.ops.convert_to_numpy(batch[1])
                batch = (*batch, class_weights(labels, self._class_weight))
        return batch

    def stream(self, start_step: int = 0) -> Iterator[object]:
        """Yields batches in index order, to read their shapes."""
        return map(self.batch, count(start_step))

    def _checksum(self) -> str:
        return checksum_of_batch(self.dataset[0])

    def _report_mismatch(self) -> None:
        message = (
            "Expected a PyDataset that returns the batches of the interrupted training. Received: "
            f"{type(self.dataset).__name__}, whose batch 0 differs. Create the dataset anew with "
            "the same data and seeds. Batches that depend on the trained model cannot be repeated. "
        )
        if self._on_mismatch == "error":
            raise ValueError(f'{message}Or accept the change with on_mismatch="warn".')
        warnings.warn(
            f'{message}The training continues because of on_mismatch="warn".', stacklevel=5
        )


Batches: TypeAlias = StepBatches | DatasetBatches
"""Data that `fit` reads from any step."""


class _Reader(keras.utils.PyDataset):
    """The dataset that Keras reads in one call of `model.fit`.

    Before the first epoch, Keras calls `on_epoch_end`, and sometimes `on_epoch_begin`, too. Only
    the first reader of a training passes these calls on.
    """

    def __init__(
        self, batches: DatasetBatches, start_step: int, passes_first_calls: bool, has_begun: bool
    ) -> None:
        dataset = batches.dataset
        super().__init__(dataset.workers, dataset.use_multiprocessing, dataset.max_queue_size)
        self._batches = batches
        self._passes_first_calls = passes_first_calls
        self._is_first = True  # before the call of on_epoch_end that precedes the first epoch
        self._has_begun = has_begun  # whether on_epoch_begin of the first epoch was called
        self._start_epoch(start_step)

    def _start_epoch(self, start_step: int) -> None:
        self._start_step = start_step
        steps = self._batches.steps_per_epoch
        self._epoch, self._offset = divmod(start_step, steps)
        self._order: np.ndarray | None = None
        if self._batches.shuffle:
            order = np.random.default_rng((self._batches.seed, self._epoch))
            self._order = order.permutation(steps)

    @property
    def num_batches(self) -> int:
        return self._batches.dataset.num_batches

    def on_epoch_begin(self) -> None:
        if self._is_first:
            if self._passes_first_calls:
                self._batches.call("B")
        elif self._has_begun:
            self._has_begun = False
        else:
            self._batches.call("B")

    def on_epoch_end(self) -> None:
        if self._is_first:
            self._is_first = False
            if self._passes_first_calls:
                self._batches.call("E")
        else:
            if self._offset and self.num_batches is not None:
                draw_loader_seeds(1)  # Keras draws it only after a whole epoch
            self._batches.call("E")
            if self.num_batches is not None:
                self._start_epoch((self._epoch + 1) * self._batches.steps_per_epoch)

    def __getitem__(self, index: int) -> object:
        if self._is_first:  # Keras reads the shapes of two batches
            return self._batches.batch(index)
        if self.num_batches is None:
            return self._batches.batch(self._start_step + index)
        # Keras may read batches after the end of an epoch that was resumed.
        index = (self._offset + index) % self.num_batches
        return self._batches.batch(index if self._order is None else int(self._order[index]))


def _checked_steps(dataset: keras.utils.PyDataset, steps_per_epoch: int | None) -> int:
    num_batches = dataset.num_batches
    if num_batches is None:
        hooks = [name for name in ("on_epoch_begin", "on_epoch_end") if _overrides(dataset, name)]
        if steps_per_epoch is None or hooks:
            raise ValueError(
                "Expected steps_per_epoch and a PyDataset without on_epoch_begin and on_epoch_end "
                f"if num_batches is None. Received: {type(dataset).__name__} with "
                f"steps_per_epoch={steps_per_epoch} and the methods {hooks}. Or let num_batches "
                "return the number of batches."
            )
    elif not num_batches:
        raise ValueError(
            f"Expected a PyDataset with batches. Received: {type(dataset).__name__} with "
            f"num_batches={num_batches}."
        )
    elif steps_per_epoch not in (None, num_batches):
        raise ValueError(
            f"Expected steps_per_epoch to be the number of batches of the PyDataset, {num_batches},"
            f" or None. Received: steps_per_epoch={steps_per_epoch}."
        )
    return steps_per_epoch or num_batches


def _overrides(dataset: keras.utils.PyDataset, method: str) -> bool:
    return getattr(type(dataset), method) is not getattr(keras.utils.PyDataset, method)


@contextlib.contextmanager
def _seeded(seed: tuple[int, int]) -> Iterator[None]:
    """Context with seeded global random generators of NumPy and Python."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    first, second = np.random.SeedSequence(seed).generate_state(2)
    np.random.seed(first)
    random.seed(int(second))
    try:
        yield
    finally:
        np.random.set_state(numpy_state)
        random.setstate(python_state)
