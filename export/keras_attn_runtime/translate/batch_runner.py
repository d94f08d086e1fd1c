from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from keras_attn_runtime.calls.cancellation import Call
from keras_attn_runtime.calls.options import Options
from keras_attn_runtime.calls.worker_pool import WorkerPool
from keras_attn_runtime.errors import BatchError, Cancelled, DeadlineExceeded
from keras_attn_runtime.inputs.source import Source
from keras_attn_runtime.models.exported_model import ExportedModel
from keras_attn_runtime.translate.translation_builder import TranslationBuilder
from keras_attn_runtime.translate.windows import batches_by_length, windows
from keras_attn_runtime.translation import UNFINISHED, Translation, Unfinished

T = TypeVar("T")


class BatchRunner:
    """Runs a model on batches of sentences of similar length.

    Sentences are read in windows of `Options.window_size` sentences. Each window is sorted by
    length and divided into batches. If the engine fails on a batch, the two halves of the batch are
    run separately, down to batches of one sentence.

    Args:
        model: `ExportedModel`.
        num_workers: int, number of batches that run at the same time.
    """

    def __init__(self, model: ExportedModel, num_workers: int) -> None:
        self._model = model
        self._builder = TranslationBuilder(model)
        self._num_workers = num_workers
        # With `num_workers=1`, each calling thread has its own worker thread.
        self._pool = WorkerPool(num_workers if num_workers > 1 else None)

    def run(
        self, sources: Iterable[Source], options: Options, call: Call
    ) -> Iterator[Translation | Unfinished]:
        """Yields the translation of each source.

        If the call ends early, the iterator yields `UNFINISHED` for the untranslated sources of the
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
                translations, error = self._run_window(window, options, call)
                for translation in translations:
                    if isinstance(translation, BatchError):
                        raise BatchError(translation.reason, index) from translation
                    if isinstance(translation, Unfinished) and first_unfinished is None:
                        first_unfinished = index
                    yield translation
                    index += 1
                if error is not None:
                    raise error
        except (Cancelled, DeadlineExceeded) as error:
            found = index if first_unfinished is None else first_unfinished
            raise call.error(found) or error from None
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
        """Waits for the result of a function.

        Raises:
            Cancelled, DeadlineExceeded: if the call ends before the function.
            Exception: the exception that the function raised.
        """
        call.wait(future.done)
        if future.exception() is not None:
            call.check()  # a run that fails because the call was stopped raises the call's error
        return future.result()

    def limits(self, options: Options) -> tuple[int, float]:
        """Returns the maximum length and the length penalty. Their defaults are in the file."""
        settings = self._model.settings
        return (
            settings.max_length if options.max_length is None else options.max_length,
            settings.length_penalty if options.length_penalty is None else options.length_penalty,
        )

    def _run_window(
        self, window: list[Source], options: Options, call: Call
    ) -> tuple[list[Translation | BatchError | Unfinished], Cancelled | DeadlineExceeded | None]:
        """Returns the translations of a window, and the error that ended the call, or `None`."""
        translations: list[Translation | BatchError | Unfinished] = [
            self._builder.build_empty(source, options) for source in window
        ]
        if options.max_length == 0:
            return translations, None
        batch_size = min(options.batch_size, self._model.batch_size or options.batch_size)
        rows = [row for row, source in enumerate(window) if not source.is_empty]
        # Arrays of different shapes cannot be stacked into one batch.
        groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for row in rows:
            groups.setdefault(window[row].shapes, []).append(row)
        batches = [
            [group[position] for position in positions]
            for group in groups.values()
            for positions in batches_by_length([len(window[row].ids) for row in group], batch_size)
        ]
        for row in rows:
            translations[row] = UNFINISHED

        running: dict[Future[list[Translation | BatchError]], list[int]] = {}

        def fill(batch: list[int], results: list[Translation | BatchError]) -> None:
            for row, result in zip(batch, results, strict=True):
                translations[row] = result

        def submit(batch: list[int]) -> None:
            sources = [window[row] for row in batch]
            future = self.submit(lambda: self._run_batch(sources, options, call), call)
            running[future] = batch

        def done() -> list[Future[list[Translation | BatchError]]]:
            return [future for future in running if future.done()]

        try:
            call.check()
            for batch in batches[: self._num_workers]:
                submit(batch)
            for position in range(len(batches)):
                call.wait(lambda: bool(done()))
                future = done()[0]
                fill(running.pop(future), self.result(future, call))
                if position + self._num_workers < len(batches):
                    call.check()
                    submit(batches[position + self._num_workers])
        except (Cancelled, DeadlineExceeded) as error:
            for future in done():
                if future.exception() is None:
                    fill(running[future], future.result())
            return translations, error
        return translations, None

    def _run_batch(
        self, sources: list[Source], options: Options, call: Call
    ) -> list[Translation | BatchError]:
        """Returns one item for each sentence: its `Translation`, or a `BatchError` if it failed."""
        try:
            outputs = self._model.run(
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
            return [each for part in parts for each in self._run_batch(part, options, call)]
        return [
            self._builder.build(outputs, row, source, options) for row, source in enumerate(sources)
        ]
