from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from typing import Generic, Protocol, TypeVar

from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._calls.options import Options
from keras_attn_runtime._calls.worker_pool import WorkerPool
from keras_attn_runtime._errors import BatchError, Cancelled, DeadlineExceeded
from keras_attn_runtime._generation_result import UNFINISHED, Unfinished
from keras_attn_runtime._inputs.source import Source
from keras_attn_runtime._translate.windows import batches_by_length, windows

T = TypeVar("T")
R = TypeVar("R")


class BatchModel(Protocol[R]):
    """Interface of models that a `BatchRunner` runs. `R` is the result for one source."""

    @property
    def batch_size(self) -> int | None:
        """int, the file's fixed batch size, or `None`."""
        ...

    def group_of(self, source: Source) -> Hashable:
        """Returns a key. Only sources with equal keys can be in the same batch."""
        ...

    def result_of_nothing(self, source: Source, options: Options) -> R:
        """Returns the result for a source that is not passed to the model."""
        ...

    def results(self, sources: list[Source], options: Options, call: Call) -> list[R]:
        """Runs a batch, and returns the result for each source."""
        ...


class BatchRunner(Generic[R]):
    """Runs a model on batches of sentences with similar lengths.

    Sentences are read in windows of `Options.window_size` sentences. Each window is sorted by
    length and divided into batches. If the engine fails on a batch, its two halves are run
    separately, down to batches of one sentence.

    Args:
        model: `BatchModel`.
        num_workers: int, number of batches to run at the same time.
    """

    def __init__(self, model: BatchModel[R], num_workers: int) -> None:
        self.model = model
        self._num_workers = num_workers
        # With `num_workers=1`, each calling thread gets its own worker thread.
        self._pool = WorkerPool(num_workers if num_workers > 1 else None)

    def run(
        self, sources: Iterable[Source], options: Options, call: Call
    ) -> Iterator[R | Unfinished]:
        """Yields each source's result.

        If the call ends early, the iterator yields `UNFINISHED` for unfinished sources in the
        current window, and then raises `Cancelled` or `DeadlineExceeded`.

        Args:
            sources: iterable of `Source`.
            options: `Options`.
            call: `Call`.
        """
        index = 0
        first_unfinished: int | None = None
        try:
            for window in windows(sources, options.window_size):
                results = _Window(window, self, options, call)
                results.run(self._num_workers)
                for result in results.results:
                    if isinstance(result, BatchError):
                        raise BatchError(result.reason, index) from result
                    if isinstance(result, Unfinished) and first_unfinished is None:
                        first_unfinished = index
                    yield result
                    index += 1
                if results.error is not None:
                    raise results.error
        except (Cancelled, DeadlineExceeded) as error:
            first = index if first_unfinished is None else first_unfinished
            raise call.error(first) or error from None
        finally:
            call.stop()  # if the caller stops iterating, other batches may still be running

    def submit(self, function: Callable[[], T], call: Call) -> Future[T]:
        """Runs a function in a worker thread, and returns its future.

        When the function is done, the worker thread notifies `call`.
        """
        future: Future[T] = Future()

        def job() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # `result` raises it in the calling thread
                future.set_exception(error)
            call.notify()

        self._pool.submit(job)
        return future

    def result(self, future: Future[T], call: Call) -> T:
        """Waits for a function's result.

        Raises:
            Cancelled, DeadlineExceeded: if the call ends before the function.
            Exception: the exception raised by the function.
        """
        call.wait(future.done)
        if future.exception() is not None:
            call.check()  # a run that fails because the call was stopped raises the call's error
        return future.result()

    def run_batch(
        self, sources: list[Source], options: Options, call: Call
    ) -> list[R | BatchError]:
        """Returns one item for each sentence: its result, or its `BatchError`."""
        try:
            return [*self.model.results(sources, options, call)]
        except BatchError as error:
            if call.is_stopped:
                raise
            if len(sources) == 1:
                return [error]
            half = len(sources) // 2
            parts = sources[:half], sources[half:]
            return [result for part in parts for result in self.run_batch(part, options, call)]


class _Window(Generic[R]):
    """Results of a window of sentences.

    Args:
        sources: list of `Source`.
        runner: `BatchRunner`.
        options: `Options`.
        call: `Call`.

    Attributes:
        results: list with an item for each source: its result, the engine's `BatchError`, or
            `UNFINISHED`.
        error: the error that ended the call early, or `None`.
    """

    def __init__(
        self, sources: list[Source], runner: BatchRunner[R], options: Options, call: Call
    ) -> None:
        self.results: list[R | BatchError | Unfinished] = [
            runner.model.result_of_nothing(source, options) for source in sources
        ]
        self.error: Cancelled | DeadlineExceeded | None = None
        self._sources, self._runner, self._options, self._call = sources, runner, options, call
        self._running: dict[Future[list[R | BatchError]], list[int]] = {}

    def run(self, num_workers: int) -> None:
        """Runs the model on all batches, on up to `num_workers` batches at the same time."""
        if self._options.max_length == 0:
            return
        batches = iter(self._batches())
        try:
            self._call.check()
            for batch in islice(batches, num_workers):
                self._submit(batch)
            while self._running:
                self._call.wait(lambda: bool(self._done()))
                self._collect(self._done()[0])
                for batch in islice(batches, 1):
                    self._call.check()
                    self._submit(batch)
        except (Cancelled, DeadlineExceeded) as error:
            for future in self._done():
                if future.exception() is None:
                    self._collect(future)
            self.error = error

    def _batches(self) -> list[list[int]]:
        """Returns each batch's rows, and marks their results as unfinished."""
        groups: dict[Hashable, list[int]] = {}
        for row, source in enumerate(self._sources):
            if not source.is_empty:
                groups.setdefault(self._runner.model.group_of(source), []).append(row)
                self.results[row] = UNFINISHED
        size = self._options.batch_size
        size = min(size, self._runner.model.batch_size or size)
        return [
            [group[position] for position in positions]
            for group in groups.values()
            for positions in batches_by_length([len(self._sources[row].ids) for row in group], size)
        ]

    def _submit(self, rows: list[int]) -> None:
        sources = [self._sources[row] for row in rows]
        future = self._runner.submit(
            lambda: self._runner.run_batch(sources, self._options, self._call), self._call
        )
        self._running[future] = rows

    def _done(self) -> list[Future[list[R | BatchError]]]:
        return [future for future in self._running if future.done()]

    def _collect(self, future: Future[list[R | BatchError]]) -> None:
        rows, results = self._running.pop(future), self._runner.result(future, self._call)
        for row, result in zip(rows, results, strict=True):
            self.results[row] = result
