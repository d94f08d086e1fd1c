from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from typing import TypeAlias, TypeVar

from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._calls.options import Options
from keras_attn_runtime._calls.worker_pool import WorkerPool
from keras_attn_runtime._errors import BatchError, Cancelled, DeadlineExceeded
from keras_attn_runtime._generation_result import UNFINISHED, GenerationResult, Unfinished
from keras_attn_runtime._inputs.source import Source
from keras_attn_runtime._models.exported_model import ExportedModel
from keras_attn_runtime._translate.translation_builder import TranslationBuilder
from keras_attn_runtime._translate.windows import batches_by_length, windows

T = TypeVar("T")
BatchResults: TypeAlias = list[GenerationResult | BatchError]


class BatchRunner:
    """Runs a model on batches of sentences with similar lengths.

    Sentences are read in windows of `Options.window_size` sentences. Each window is sorted by
    length and divided into batches. If the engine fails on a batch, its two halves are run
    separately, down to batches of one sentence.

    Args:
        model: `ExportedModel`.
        num_workers: int, number of batches to run at the same time.
    """

    def __init__(self, model: ExportedModel, num_workers: int) -> None:
        self.model = model
        self.builder = TranslationBuilder(model)
        self._num_workers = num_workers
        # With `num_workers=1`, each calling thread gets its own worker thread.
        self._pool = WorkerPool(num_workers if num_workers > 1 else None)

    def run(
        self, sources: Iterable[Source], options: Options, call: Call
    ) -> Iterator[GenerationResult | Unfinished]:
        """Yields each source's translation.

        If the call ends early, the iterator yields `UNFINISHED` for untranslated sources in the
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
                for translation in results.translations:
                    if isinstance(translation, BatchError):
                        raise BatchError(translation.reason, index) from translation
                    if isinstance(translation, Unfinished) and first_unfinished is None:
                        first_unfinished = index
                    yield translation
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

    def limits(self, options: Options) -> tuple[int, float]:
        """Returns the maximum length and the length penalty. Their defaults are in the file."""
        settings = self.model.settings
        return (
            settings.max_length if options.max_length is None else options.max_length,
            settings.length_penalty if options.length_penalty is None else options.length_penalty,
        )

    def run_batch(self, sources: list[Source], options: Options, call: Call) -> BatchResults:
        """Returns one item for each sentence: its `GenerationResult`, or its `BatchError`."""
        try:
            outputs = self.model.run(
                [source.content for source in sources],
                *self.limits(options),
                [source.prefix for source in sources],
                [source.seed for source in sources],
                call,
            )
        except BatchError as error:
            if call.is_stopped:
                raise
            if len(sources) == 1:
                return [error]
            half = len(sources) // 2
            parts = sources[:half], sources[half:]
            return [result for part in parts for result in self.run_batch(part, options, call)]
        return [
            self.builder.build(outputs, row, source, options) for row, source in enumerate(sources)
        ]


class _Window:
    """Translations of a window of sentences.

    Args:
        sources: list of `Source`.
        runner: `BatchRunner`.
        options: `Options`.
        call: `Call`.

    Attributes:
        translations: list with an item for each source: its `GenerationResult`, the engine's
            `BatchError`, or `UNFINISHED`.
        error: the error that ended the call early, or `None`.
    """

    def __init__(
        self, sources: list[Source], runner: BatchRunner, options: Options, call: Call
    ) -> None:
        self.translations: list[GenerationResult | BatchError | Unfinished] = [
            runner.builder.build_empty(source, options) for source in sources
        ]
        self.error: Cancelled | DeadlineExceeded | None = None
        self._sources, self._runner, self._options, self._call = sources, runner, options, call
        self._running: dict[Future[BatchResults], list[int]] = {}

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
        """Returns each batch's rows, and marks their translations as unfinished."""
        # Arrays with different shapes cannot be stacked into one batch.
        groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for row, source in enumerate(self._sources):
            if not source.is_empty:
                groups.setdefault(source.shapes, []).append(row)
                self.translations[row] = UNFINISHED
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

    def _done(self) -> list[Future[BatchResults]]:
        return [future for future in self._running if future.done()]

    def _collect(self, future: Future[BatchResults]) -> None:
        rows, results = self._running.pop(future), self._runner.result(future, self._call)
        for row, result in zip(rows, results, strict=True):
            self.translations[row] = result
