from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TypeVar, Unpack

from keras_attn_runtime._calls.cancellation import Call, CancelToken
from keras_attn_runtime._calls.options import Options
from keras_attn_runtime._calls.search_settings import SearchSettings
from keras_attn_runtime._engines.create_session import Providers
from keras_attn_runtime._inputs.source import Source
from keras_attn_runtime._models.outputs import SearchOutputs
from keras_attn_runtime._models.stepped_model import SteppedModel
from keras_attn_runtime._models.stepped_search import SteppedSearch
from keras_attn_runtime._translate.constraints import Constraints
from keras_attn_runtime._translate.text_stream import TextStream
from keras_attn_runtime._translate.token_bias import biases_of_ids
from keras_attn_runtime._translate.translator import Translator

T = TypeVar("T")


class StreamingTranslator(Translator):
    """A `Translator` that also returns a translation token by token.

    It reads a directory from `keras-attn export onnx-steps`, or a file from `keras-attn export
    litert-steps`. Translations are the same as with a file from `keras-attn export onnx` or
    `litert`. The engine is called once for each token, so a call can be stopped after each token
    even with LiteRT.

    Args:
        path: string or path, the directory or file. The other arguments are those of `Translator`.

    Raises:
        ModelFileError: if `path` is a different kind of file, or a file is damaged, was not
            exported by keras_attn, has a different format, or does not belong to `start.onnx`.
        Exception: all other errors from `Translator`.

    Example:

        translator = StreamingTranslator("model-steps")
        for text in translator.stream("some text"):
            print(text)                                    # 'et', 'etwas', 'etwas Text'
    """

    def stream(
        self,
        text: str,
        max_length: int | None = None,
        length_penalty: float | None = None,
        target_prefix: str | None = None,
        constraints: Constraints | None = None,
        seed: int | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        constraints_in_order: bool = False,
        token_bias: Mapping[str, float] | Mapping[int, float] | None = None,
        rule_inputs: Mapping[str, object] | None = None,
        stop_texts: str | Sequence[str] | None = None,
        replace_unknown: bool = False,
        timeout: float | None = None,
        cancel_token: CancelToken | None = None,
        **settings: Unpack[SearchSettings],
    ) -> Iterator[str]:
        """Translates one text, token by token.

        Args:
            text: string.
            max_length: int of at least 0, maximum number of output tokens. Default: the limit in
                the file.
            length_penalty: float of at least 0, length exponent in the ranking score. Default: the
                exponent in the file.
            target_prefix: string that the translation begins with. Default: no prefix.
            constraints: list of phrases that the translation must contain, see `translate`.
                Default: no phrases.
            seed: int of at least 0, seed for sampling. Default: a different seed in each call.
            source_language: string, source language, for a file with several languages. Default:
                the language in the file, if there is one.
            target_language: string, target language, for a file with several languages.
                Default: the language in the file, if there is one.
            constraints_in_order: bool, whether the phrases must occur in their order. Default:
                False.
            token_bias: dict from ids or texts to values, see `Options`. Default: no biases.
            rule_inputs: dict from inputs of rules to values, see `Options`. Default: the values in
                the file.
            stop_texts: string or list of strings. The translation ends before the one that is
                complete first, and the search stops. The iterator holds back characters that may
                begin a stop text. A beam search stops as soon as its best translation so far
                contains a stop text, so `translate` can find another one. Default: no stop texts.
            replace_unknown: bool, whether the last string contains source words instead of unknown
                tokens, see `Translator`. The strings before it contain the unknown tokens. With
                stop texts, the search then stops as in `translate`. Default: False.
            timeout: float of at least 0, maximum number of seconds from this call to the last
                string. Default: no limit.
            cancel_token: `CancelToken` with which another thread can end the call. Default: none.
            **settings: settings of the search, such as `temperature`, for a file that was exported
                with their names in `runtime_settings`, see `Options`. Default: the values in the
                file.

        Returns:
            Iterator over strings: the best translation so far after each token. The last string is
            the whole translation. Greedy search only appends to the previous string; beam search
            may change earlier words.

        Raises:
            InputError: if the text is not valid or too long. The iterator raises it if the file
                allows fewer tokens than `target_prefix` contains.
            ModelFileError: if the engine fails, or the file contains no tokenizer or does not
                support `target_prefix`.
            ValueError: if an option is out of range.
            DeadlineExceeded: if the call takes longer than `timeout` seconds.
            Cancelled: if `cancel_token` is cancelled.
        """
        options = self._checked(
            {
                "max_length": max_length,
                "length_penalty": length_penalty,
                "seed": seed,
                "source_language": source_language,
                "target_language": target_language,
                "constraints_in_order": constraints_in_order,
                "token_bias": token_bias,
                "rule_inputs": rule_inputs,
                "stop_texts": stop_texts,
                "replace_unknown": replace_unknown,
                "timeout": timeout,
                "cancel_token": cancel_token,
                **settings,
            }
        )
        tokenizer = self._require_text_tokenizers()
        call = Call(options.timeout, options.cancel_token)
        sources = self._read_texts([text], target_prefix, call, options.replace_unknown)
        phrases = None if constraints is None else [constraints]
        sources = self._with_constraints(sources, phrases, call)
        (source,) = self._prepared(sources, options)
        if not source.ids or options.max_length == 0:
            return iter([""])

        def start() -> SteppedSearch:
            limits = self._builder.limits(options)
            return self._stepped_model.start_source(source, *limits, call, options)

        stream = TextStream(source, options, self.settings, tokenizer)
        return self._texts(self._in_worker(start, call), call, source, options, stream)

    def _open(
        self,
        path: str | PathLike[str],
        providers: Providers | None,
        num_threads: int | None,
        num_sessions: int,
    ) -> SteppedModel:
        self._stepped_model = _StoppableModel(path, providers, num_threads, num_sessions)
        return self._stepped_model

    def _in_worker(self, function: Callable[[], T], call: Call) -> T:
        """Runs a function in a worker thread and returns its result."""
        try:
            call.check()
            return self._runner.result(self._runner.submit(function, call), call)
        except BaseException:  # also KeyboardInterrupt
            call.stop()
            raise

    def _texts(
        self,
        search: SteppedSearch,
        call: Call,
        source: Source,
        options: Options,
        stream: TextStream,
    ) -> Iterator[str]:
        is_stopped = self._builder.stop_check([source], options)
        last_text: str | None = None
        try:
            while (partial := self._in_worker(lambda: next(search, None), call)) is not None:
                last_text = stream.text(partial)
                yield last_text
                if stream.is_stopped and not options.replace_unknown:
                    return
                if is_stopped is not None and options.replace_unknown:
                    search.end_stopped(is_stopped)
            text = stream.last_text()
            if options.replace_unknown:  # the attention weights are results of the whole search
                text = self._in_worker(lambda: self._replaced_text(search, source, options), call)
        finally:
            call.stop()
        if text != last_text:  # the end was held back, or a limit in the file allows no tokens
            yield text

    def _replaced_text(self, search: SteppedSearch, source: Source, options: Options) -> str:
        outputs = self._stepped_model.results_of(search, options)
        return self._builder.build(outputs, 0, source, options).text or ""


class _StoppableModel(SteppedModel):
    """A `SteppedModel` whose searches can be stopped."""

    def start_source(
        self,
        source: Source,
        max_length: int,
        length_penalty: float,
        call: Call,
        options: Options,
    ) -> SteppedSearch:
        """Starts the search for one source, which `call` can stop."""
        rows, prefixes, seeds = [source.ids], [source.prefix], [source.seed]
        feeds = self._feeds(
            rows, max_length, length_penalty, prefixes, seeds, options.search_inputs
        )
        feeds |= self._constraint_feeds(1, [source.constraints], options.constraints_in_order)
        feeds |= self._token_bias_feeds(1, biases_of_ids(options.token_bias))
        feeds |= self._rule_feeds(1, options.rule_inputs)
        return SteppedSearch(self._searches.next(), feeds, call)

    def results_of(self, search: SteppedSearch, options: Options) -> SearchOutputs:
        """Returns the results of a finished search of one source, see `ExportedModel.run`."""
        return self._checked(search.results(), 1, options.search_inputs)
