from keras_attn_runtime.errors import BatchError, Cancelled, DeadlineExceeded
from keras_attn_runtime.translation import UNFINISHED
from keras_attn_runtime.translation_builder import TranslationBuilder
from keras_attn_runtime.windows import batches_by_length, windows
from keras_attn_runtime.worker_pool import WorkerPool


class BatchRunner:
    """Runs a model on sentences: in windows, sorted by length, in batches, by workers.

    A batch that ONNX Runtime cannot run is halved until it can.

    Args:
        model: `ExportedModel`.
        num_workers: int, batches that run at once.
    """

    def __init__(self, model, num_workers):
        self._model = model
        self._builder = TranslationBuilder(model)
        self._num_workers = num_workers
        # With one worker, each thread that calls has one of its own.
        self._pool = WorkerPool(num_workers if num_workers > 1 else None)

    def run(self, sources, options, call):
        """Yields the translation of each source, or `UNFINISHED` before an error that ends it.

        Args:
            sources: iterable of `Source`.
            options: `Options`.
            call: `Call`.
        """
        index, first_unfinished = 0, None
        try:
            for window in windows(sources, options.window_size):
                translations, error = self._run_window(window, options, call)
                for translation in translations:
                    if isinstance(translation, BatchError):
                        raise BatchError(translation.reason, index) from translation
                    if translation is UNFINISHED and first_unfinished is None:
                        first_unfinished = index
                    yield translation
                    index += 1
                if error is not None:
                    raise error
        except (Cancelled, DeadlineExceeded) as error:
            found = index if first_unfinished is None else first_unfinished
            raise call.error(found) or error from None
        finally:
            call.stop()  # what still runs where a caller wants no more

    def submit(self, function, call, key=None):
        """Runs a function in a worker, which sends its result to the call."""

        def job():
            try:
                message = key, function(), None
            except BaseException as error:  # for the thread of the call
                message = key, None, error
            call.send(message)

        self._pool.submit(job)

    def receive(self, call):
        """Waits for the next result of a worker. Returns its key and the result."""
        key, result, error = call.receive()
        if error is not None:
            call.check()  # a run that was stopped fails too
            raise error
        return key, result

    def limits(self, options):
        """Returns the maximum length and the length penalty, by default those of the file."""
        settings = self._model.settings
        return (
            settings.max_length if options.max_length is None else options.max_length,
            settings.length_penalty if options.length_penalty is None else options.length_penalty,
        )

    def _run_window(self, window, options, call):
        """Returns the translations of a window, and the error that ended the call, or `None`."""
        translations = [self._builder.build_empty(source, options) for source in window]
        if options.max_length == 0:
            return translations, None
        rows = [row for row, source in enumerate(window) if not source.is_empty]
        groups = {}  # arrays of different shapes cannot be one batch
        for row in rows:
            groups.setdefault(window[row].shapes, []).append(row)
        batches = [
            [group[position] for position in positions]
            for group in groups.values()
            for positions in batches_by_length(
                [len(window[row].ids) for row in group], options.batch_size
            )
        ]
        for row in rows:
            translations[row] = UNFINISHED

        def fill(batch, results):
            for row, result in zip(batch, results, strict=True):
                translations[row] = result

        def submit(batch):
            sources = [window[row] for row in batch]
            self.submit(lambda: self._run_batch(sources, options, call), call, batch)

        try:
            call.check()
            for batch in batches[: self._num_workers]:
                submit(batch)
            for position in range(len(batches)):
                fill(*self.receive(call))
                if position + self._num_workers < len(batches):
                    call.check()
                    submit(batches[position + self._num_workers])
        except (Cancelled, DeadlineExceeded) as error:
            for batch, results, failure in call.received():
                if failure is None:
                    fill(batch, results)
            return translations, error
        return translations, None

    def _run_batch(self, sources, options, call):
        """Returns the translations of a batch, or an error in the place of each that failed."""
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
