from collections.abc import Iterable, Iterator
from os import PathLike

from keras_attn_runtime._array_types import Ids
from keras_attn_runtime._calls.cancellation import Call, CancelToken
from keras_attn_runtime._calls.options import Options
from keras_attn_runtime._calls.reading import read
from keras_attn_runtime._classify.classification import Classification
from keras_attn_runtime._classify.classifier_model import ClassifierModel
from keras_attn_runtime._engines.create_session import Providers
from keras_attn_runtime._inputs.sentences import require_sentences
from keras_attn_runtime._translate.batch_runner import BatchRunner
from keras_attn_runtime._translate.finished_results import collect_results, yield_finished
from keras_attn_runtime._translate.text_model import TextModel


class Classifier(TextModel[ClassifierModel]):
    """Classifies texts with a file from `export_functional_onnx` or `export_functional_litert`.

    The file must contain a tokenizer and labels: `export_functional_onnx(model, path, ids,
    tokenizer=tokenizer, labels=["bad", "good"])`.

    Texts are sorted by length inside a bounded window, classified in batches and returned in input
    order. Threads, Ctrl-C, deadlines and pickling work as for a `Translator`.

    Args:
        path: string or path, the ONNX or LiteRT (`.tflite`) file, or an exported directory.
        providers: ONNX Runtime execution providers, see `Translator`. LiteRT files need "cpu".
            Default: "cpu".
        num_threads: int of at least 1, number of CPU threads per operator. Default: the number of
            cores that the process may use, divided by the number of workers.
        num_workers: int in [1, 1024], number of batches to run at the same time. Default: 1.
        max_source_length: int of at least 1, maximum number of tokens in a text, without start and
            end token. The file can set a lower limit. Default: 512.
        truncate: bool. If True, a longer text is cut to the limits, and `Classification.truncated`
            is True. If False, a longer text raises `InputError`. Default: False.
        max_source_characters: int of at least 1, maximum number of characters (code points) in a
            text, applied before tokenization. Default: 32 times the maximum number of tokens.

    Attributes:
        settings: the metadata of the file, an object with the attributes `labels` (list of
            strings), `activation` (string), `output` and `attention` (names of outputs), `inputs`
            (dict), `source` (vocabulary and special ids) and `versions` (dict).
        labels: list of strings, all labels.
        has_attention: bool, whether the results contain attention weights.
        max_source_length, max_source_characters: ints, the limits in use.

    Raises:
        FileNotFoundError: if the file does not exist.
        ModelFileError: if the file is damaged, not exported by keras_attn, or contains no
            tokenizer or labels.
        ProviderError: if a provider cannot be used.
        ImportError: if ONNX Runtime or LiteRT, which the file needs, is not installed.
        ValueError: if another argument is out of range.

    Example:

        classifier = Classifier("classifier.onnx")
        classifier(["what a film"])                              # ['good']
        classifier.classify(["what a film"])[0].probabilities    # {'bad': 0.1, 'good': 0.9}
    """

    def __init__(
        self,
        path: str | PathLike[str],
        providers: Providers | None = None,
        num_threads: int | None = None,
        num_workers: int = 1,
        max_source_length: int = 512,
        truncate: bool = False,
        max_source_characters: int | None = None,
    ) -> None:
        super().__init__(
            path,
            providers,
            num_threads,
            num_workers,
            max_source_length,
            truncate,
            max_source_characters,
        )
        self.settings = self._model.settings
        self.labels = self.settings.labels
        self.has_attention = self.settings.attention is not None
        self._runner = BatchRunner(self._model, self._num_workers)

    def __call__(
        self,
        texts: Iterable[str],
        batch_size: int = 32,
        window: int | None = None,
        timeout: float | None = None,
        cancel_token: CancelToken | None = None,
    ) -> list[str | None]:
        """Returns the label of each text, or `None` for a text without tokens; see `classify`."""
        results = self.classify(texts, batch_size, window, timeout, cancel_token)
        return [result.label for result in results]

    def classify(
        self,
        texts: Iterable[str],
        batch_size: int = 32,
        window: int | None = None,
        timeout: float | None = None,
        cancel_token: CancelToken | None = None,
    ) -> list[Classification]:
        """Classifies texts.

        All texts are checked before the first text is classified.

        Args:
            texts: iterable of strings.
            batch_size: int of at least 1, maximum number of texts in a batch. A file with a fixed
                batch size, such as most LiteRT files, runs at most that number. Default: 32.
            window: int of at least 1, number of texts to read ahead and sort by length. Default:
                16 batches.
            timeout: float of at least 0, time limit for the whole call in seconds. Default: no
                limit.
            cancel_token: `CancelToken` with which another thread can end the call. Default: none.

        Returns:
            List of `Classification`s, one for each text, in the same order.

        Raises:
            InputError: if an item is not valid text or too long.
            ModelFileError: if the engine fails on one text.
            ValueError: if an option is out of range.
            DeadlineExceeded: if the call takes longer than `timeout` seconds.
            Cancelled: if `cancel_token` is cancelled.
        """
        options, call = self._begin(batch_size, window, timeout, cancel_token)
        sources = self._read_sources(texts, call)
        return collect_results(sources, lambda sources: self._runner.run(sources, options, call))

    def classify_iterable(
        self,
        texts: Iterable[str],
        batch_size: int = 32,
        window: int | None = None,
        timeout: float | None = None,
        cancel_token: CancelToken | None = None,
    ) -> Iterator[Classification]:
        """Classifies lazily, in constant memory, for files of any length.

        It raises the errors of `classify`.

        Args:
            texts: iterable of strings, read at most one window ahead.
            batch_size, window, timeout, cancel_token: see `classify`.

        Returns:
            Iterator over `Classification`s, one for each text, in the same order. If a text cannot
            be classified, `texts` raises an error, or the call ends early, the iterator first
            yields all earlier results and then raises the error.
        """
        options, call = self._begin(batch_size, window, timeout, cancel_token)
        return yield_finished(self._runner.run(self._read_sources(texts, call), options, call))

    def classify_ids(
        self,
        sentences: Iterable[Ids],
        batch_size: int = 32,
        window: int | None = None,
        timeout: float | None = None,
        cancel_token: CancelToken | None = None,
    ) -> list[Classification]:
        """Classifies token ids.

        Args:
            sentences: iterable of int sequences `(length,)`, or one integer array `(batch,
                length)`, padded on the right. If the start or end token is missing, it is added.
            batch_size, window, timeout, cancel_token: see `classify`.

        Returns:
            List of `Classification`s, one for each sentence, in the same order.

        Raises:
            InputError: if ids are outside the vocabulary, not integers, not of rank 1 or too many.
            ModelFileError, ValueError, DeadlineExceeded, Cancelled: see `classify`.
        """
        options, call = self._begin(batch_size, window, timeout, cancel_token)
        sentences = read(require_sentences(sentences, "sentences"), call)
        sources = self._require_reader().read_ids(sentences)
        return collect_results(sources, lambda sources: self._runner.run(sources, options, call))

    def _begin(
        self,
        batch_size: int,
        window: int | None,
        timeout: float | None,
        cancel_token: CancelToken | None,
    ) -> tuple[Options, Call]:
        """Returns options and `Call` for a new call, and starts its timeout."""
        self._require_own_process()
        options = Options(
            batch_size=batch_size, window=window, timeout=timeout, cancel_token=cancel_token
        )
        return options, Call(options.timeout, options.cancel_token)

    def _open(
        self,
        path: str | PathLike[str],
        providers: Providers | None,
        num_threads: int | None,
        num_sessions: int,
    ) -> ClassifierModel:
        return ClassifierModel(path, providers, num_threads, num_sessions)
