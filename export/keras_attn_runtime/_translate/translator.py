import dataclasses
import os
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Unpack

import numpy.typing as npt

from keras_attn_runtime._array_types import LARGEST_INT32, Ids
from keras_attn_runtime._calls.argument_checks import require_bool
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._calls.options import CallOptions, Options, list_options
from keras_attn_runtime._calls.reading import read
from keras_attn_runtime._engines.create_session import Providers
from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._generation_result import GenerationResult, Unfinished
from keras_attn_runtime._inputs.array_inputs import ArrayReader, Rows
from keras_attn_runtime._inputs.sentences import read_prefix, require_sentences
from keras_attn_runtime._inputs.source import Source
from keras_attn_runtime._models.exported_model import ExportedModel
from keras_attn_runtime._text.tokenizer import Tokenizer
from keras_attn_runtime._translate.batch_runner import BatchRunner
from keras_attn_runtime._translate.constraints import ConstraintReader, Constraints, Phrase
from keras_attn_runtime._translate.finished_results import collect_results, yield_finished
from keras_attn_runtime._translate.languages import LanguageIds
from keras_attn_runtime._translate.prefixes import LEAST_TARGET_CHARACTERS, PrefixReader
from keras_attn_runtime._translate.rule_inputs import read_rule_inputs
from keras_attn_runtime._translate.scores import require_tokens, scores
from keras_attn_runtime._translate.setting_checks import check_num_hypotheses, check_setting
from keras_attn_runtime._translate.text_model import TextModel, require_tokenizers
from keras_attn_runtime._translate.token_bias import read_token_bias
from keras_attn_runtime._translate.translation_builder import TranslationBuilder
from keras_attn_runtime._translate.whole_prefixes import require_whole_prefixes

SEEDS = 2**31
"""Number of different seeds for a file, 0 to 2**31 - 1."""


class Translator(TextModel[ExportedModel]):
    """Translates with one ONNX or LiteRT file exported by keras_attn.

    Sentences are sorted by length inside a bounded window, translated in batches and returned in
    input order. If the engine fails on a batch, usually for lack of memory, its two halves are run
    separately. ONNX Runtime and LiteRT run in worker threads, so that Ctrl-C, a deadline or a
    `CancelToken` can end a call within milliseconds. A `Translator` is thread-safe.

    ONNX Runtime also ends its runs within milliseconds. LiteRT cannot be cancelled from Python:
    after a call has ended, its worker thread finishes the current batch, which is one sentence if
    the file's batch size is 1. Until then, the thread uses CPU time. The next call waits for it,
    but not beyond its own deadline. If the process ends meanwhile, it waits up to 5 seconds for the
    thread.

    The methods take the keyword arguments of `Options`: `max_length`, `length_penalty`,
    `num_hypotheses`, `batch_size`, `window`, `seed`, `constraints_in_order`, `token_bias`,
    `rule_inputs`, `stop_texts`, `alignments`, `replace_unknown`, `source_language`,
    `target_language`, `timeout`, `cancel_token`.

    With `replace_unknown=True`, each unknown token in the text of a hypothesis is replaced by the
    word of the source text that contains the piece with the largest attention weight at this token
    ([Jean et al., 2015](https://arxiv.org/abs/1412.2007)). A word is a run of characters without
    white space, copied as it is in the text, or the piece itself in scripts without spaces, such as
    Chinese. Unknown tokens of one output word, or with only white space between them, that point to
    the same word copy it once. Known text directly before and after the copy that repeats its
    beginning or end is left out: `Z⁇rich` becomes `Zürich`. `token_ids`, `pieces` and `alignments`
    do not change.

    A `Translator` can be pickled, for Spark, Ray and spawned processes. The pickle contains the
    constructor arguments; unpickling opens the file again.

    Args:
        path: string or path, the ONNX or LiteRT (`.tflite`) file, or an exported directory.
        providers: "cpu", "cuda" or any ONNX Runtime provider, or a list of names and
            `(name, options)` pairs in order of preference. A provider that does not start raises
            an error; there is no fallback. LiteRT files need "cpu". Default: "cpu".
        num_threads: int of at least 1, number of CPU threads per operator; at most 1024 in all
            workers together. Default: the number of cores that the process may use, divided by the
            number of workers.
        num_workers: int in [1, 1024], number of batches to run at the same time. For many
            sentences, two workers with one thread each are faster than one worker with two
            threads. With ONNX Runtime 1.32 or newer, on Linux and macOS, they share one copy of the
            weights of an ONNX file. If several threads use a `Translator` with a LiteRT file, they
            share this number of batches. Default: 1.
        max_source_length: int of at least 1, maximum number of tokens in a sentence, without start
            and end token. A model with learned positions, or a LiteRT file with a fixed source
            length, can set a lower limit. Default: 512.
        truncate: bool. If True, a longer sentence is cut to the limits, and
            `GenerationResult.truncated` is True. If False, a longer sentence raises `InputError`.
            Default: False.
        max_source_characters: int of at least 1, maximum number of characters (code points) in a
            text. It is applied before tokenization, whose time can grow quadratically with the
            length. Targets and prefixes have the same limit, but at least 16,384 characters; longer
            ones raise an error. Default: 32 times the maximum number of tokens.

    Attributes:
        settings: the metadata of the file, an object with the attributes `search` (dict, the search
            settings), `beam_width`, `num_hypotheses` and `max_length` (ints), `length_penalty`
            (float), `inputs` (dict from names to the inputs of the encoder), `source` and `target`
            (vocabulary and special ids of a side), `versions` and `card` (dicts).
        has_alignments: bool, whether translations can contain alignments.
        has_token_log_probs: bool, whether translations contain `token_log_probs`.
        has_top_tokens: bool, whether translations contain `top_tokens`.
        supports_target_prefix: bool, whether the methods take a `target_prefix`.
        supports_constraints: bool, whether the methods take `constraints`.
        is_stochastic: bool, whether the search samples tokens, so that the methods take a `seed`.
        max_source_length, max_source_characters, max_target_characters: ints, the limits in use.

    Raises:
        FileNotFoundError: if the file does not exist.
        ModelFileError: if the file is damaged, not exported by keras_attn, or has a different
            format.
        ProviderError: if a provider cannot be used.
        ImportError: if ONNX Runtime or LiteRT, which the file needs, is not installed.
        ValueError: if another argument is out of range.
        RuntimeError: by methods, if the process was forked after the `Translator` was created.
        DeadlineExceeded: by methods, if a call takes longer than `timeout` seconds.
        Cancelled: by methods, if `cancel_token` is cancelled. A subclass of `RuntimeError`.
        TypeError: by methods, for an unknown option; the message lists the valid options.

    Example:

        translator = Translator("model.onnx")
        translator(["some text"])                          # ['etwas Text']
        translator.translate(["some text"])[0].log_prob    # -1.25
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
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
        self._builder = TranslationBuilder(self._model)
        self._runner = BatchRunner(self._builder, self._num_workers)
        self.settings = self._model.settings
        self.has_alignments = self._model.has_alignments
        self.has_token_log_probs = self._model.has_token_log_probs
        self.has_top_tokens = self._model.has_top_tokens
        self.supports_target_prefix = self._model.supports_target_prefix
        self.supports_constraints = self._model.supports_constraints
        self.is_stochastic = self._model.is_stochastic
        self.max_target_characters = max(self.max_source_characters, LEAST_TARGET_CHARACTERS)
        self._prefixes = PrefixReader(
            self.settings.target, self.max_target_characters, self.settings.end_token_ids
        )
        self._constraints = ConstraintReader(
            self.settings, self._model.target_tokenizer, self.max_target_characters
        )

    @list_options
    def __call__(
        self,
        texts: Iterable[str],
        target_prefix: str | Iterable[str] | None = None,
        constraints: Iterable[Constraints | None] | None = None,
        **options: Unpack[CallOptions],
    ) -> list[str]:
        """Translates texts and returns a list with one string for each text; see `translate`."""
        self._require_text_tokenizers()
        translations = self.translate(texts, target_prefix, constraints, **options)
        return [translation.text or "" for translation in translations]

    @list_options
    def translate(
        self,
        texts: Iterable[str],
        target_prefix: str | Iterable[str] | None = None,
        constraints: Iterable[Constraints | None] | None = None,
        **options: Unpack[CallOptions],
    ) -> list[GenerationResult]:
        """Translates texts and returns translations with their scores and hypotheses.

        All texts are checked before the first text is translated.

        Args:
            texts: iterable of strings. A text without tokens has the empty translation, except for
                a language model with a start token, which continues the start token.
            target_prefix: string that all translations begin with, such as a language tag, or an
                iterable of strings, one for each text. Default: no prefix.
            constraints: iterable with an item for each text: a list of phrases that the translation
                must contain, or `None`. A phrase is a string, or a list of alternative strings:
                then one of them is enough. Default: no phrases.
            {{options}}

        Returns:
            List of `GenerationResult`s, one for each text, in the same order.

        Raises:
            InputError: if an item is not valid text or too long.
            ModelFileError: if the file contains no tokenizer or does not support `target_prefix`,
                or the engine fails on one sentence.
            ValueError: if an option is out of range, or the number of prefixes is wrong.
        """
        checked, call = self._begin(options)
        sources = self._read_texts(texts, target_prefix, call, checked.replace_unknown)
        sources = self._with_constraints(sources, constraints, call)
        return collect_results(sources, lambda sources: self._run(sources, checked, call))

    @list_options
    def translate_iterable(
        self,
        texts: Iterable[str],
        target_prefix: str | Iterable[str] | None = None,
        constraints: Iterable[Constraints | None] | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[GenerationResult]:
        """Translates lazily, in constant memory, for files of any length.

        The options are checked in this call, not when the first translation is read.

        Args:
            texts: iterable of strings, read at most one window ahead.
            target_prefix, constraints: see `translate`. Iterables are also read at most one window
                ahead.
            {{options}}

        Returns:
            Iterator over `GenerationResult`s, one for each text, in the same order. If a text
            cannot be translated, `texts` raises an error, or the call ends early, the iterator
            first yields all earlier translations and then raises the error. The `timeout` begins
            with this call, not with the first translation.

        Raises:
            InputError: if an item is not valid text or too long.
            ModelFileError: if the file contains no tokenizer or does not support `target_prefix`,
                or the engine fails on one sentence.
            ValueError: if an option is out of range, or the number of prefixes is wrong.
        """
        checked, call = self._begin(options)
        sources = self._read_texts(texts, target_prefix, call, checked.replace_unknown)
        sources = self._with_constraints(sources, constraints, call)
        return yield_finished(self._run(sources, checked, call))

    @list_options
    def translate_ids(
        self,
        sentences: Iterable[Ids],
        target_prefix: Ids | Iterable[Ids] | None = None,
        constraints: Iterable[Constraints | None] | None = None,
        **options: Unpack[CallOptions],
    ) -> list[GenerationResult]:
        """Translates token ids from your own tokenizer; the file needs no tokenizer.

        Args:
            sentences: iterable of int sequences `(source_length,)`, or one padded integer array
                `(batch, source_length)`. Padding at the end is removed. For a language model, only
                arrays are padded: in a list, the padding id is a token, which can also be the end
                token. If the end token (or, for a language model, the start token) is missing, it
                is added. A sentence without other tokens has the empty translation, except for a
                language model with a start token, which continues the start token.
            target_prefix: list or array of target ids that all translations begin with, or an
                iterable with one list or array for each sentence. Padding at the end is removed.
                An empty list means no prefix. Default: no prefix.
            constraints: see `translate`. A phrase is a list of target ids, or a list of such lists.
                Default: no phrases.
            {{options}}

        Returns:
            List of `GenerationResult`s, one for each sentence, in the same order.

        Raises:
            InputError: if ids are outside the vocabulary, not integers, not of rank 1 or too
                many, or if a model that masks the padding id everywhere would mask a token.
            ModelFileError: if the file does not support `target_prefix`, or the engine fails on
                one sentence.
            ValueError: if an option is out of range, or the number of prefixes is wrong.
        """
        checked, call = self._begin(options)
        if checked.replace_unknown:
            raise ValueError(
                "Expected replace_unknown only for texts, whose words are copied. Received: "
                "replace_unknown=True for ids. Call `translate`, or omit it."
            )
        are_padded = getattr(sentences, "ndim", 1) == 2
        sources = self._require_reader().read_ids(
            read(require_sentences(sentences, "sentences"), call), are_padded
        )
        if target_prefix is not None:
            self._require_target_prefix()
            sources = self._prefixes.of_ids(sources, read_prefix(target_prefix, call))
        sources = self._with_constraints(sources, constraints, call)
        return collect_results(sources, lambda sources: self._run(sources, checked, call))

    @list_options
    def generate(
        self,
        inputs: Mapping[str, Rows],
        target_prefix: str | Ids | Iterable[str | Ids] | None = None,
        constraints: Iterable[Constraints | None] | None = None,
        **options: Unpack[CallOptions],
    ) -> list[GenerationResult]:
        """Generates from inputs other than text: images, features, audio, series.

        Args:
            inputs: dict from input names to arrays whose first axis is the batch, or to lists of
                arrays without a batch axis, which may have different sizes. `settings.inputs` lists
                the inputs with their dtypes and shapes.
            target_prefix: string or list of target ids that all results begin with, or a list with
                one string or list of ids for each row. Default: no prefix.
            constraints: see `translate`. Phrases are strings or lists of target ids. Default: no
                phrases.
            {{options}}

        Returns:
            List of `GenerationResult`s, one for each row, in the same order. `source_pieces` is
            `None`.

        Raises:
            InputError: if a row's dtype or shape differs from the input.
            ModelFileError: if the file reads text or does not support `target_prefix`, or the
                engine fails on one row.
            ValueError: if input names or numbers of rows are wrong, or an option is out of range.

        Example:

            Translator("captions.onnx").generate({"image": images})[0].text    # 'a red house'
        """
        checked, call = self._begin(options)
        sources = self._array_reader().read(inputs)
        sources = self._with_prefix(sources, target_prefix, call)
        sources = self._with_constraints(sources, constraints, call)
        return collect_results(sources, lambda sources: self._run(sources, checked, call))

    @list_options
    def generate_iterable(
        self,
        rows: Iterable[Mapping[str, npt.ArrayLike]],
        target_prefix: str | Ids | Iterable[str | Ids] | None = None,
        constraints: Iterable[Constraints | None] | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[GenerationResult]:
        """Generates lazily, in constant memory, from any number of inputs other than text.

        The options are checked in this call, not when the first result is read. The errors are
        those of `generate`.

        Args:
            rows: iterable of dicts from input names to arrays without a batch axis, read at most
                one window ahead.
            target_prefix, constraints: see `generate`. Iterables are also read at most one window
                ahead.
            {{options}}

        Returns:
            Iterator over `GenerationResult`s, one for each row, in the same order. If a row cannot
            be read, the iterator first yields all earlier results and then raises the error.
        """
        checked, call = self._begin(options)
        sources = self._array_reader().read_rows(read(rows, call))
        sources = self._with_prefix(sources, target_prefix, call)
        sources = self._with_constraints(sources, constraints, call)
        return yield_finished(self._run(sources, checked, call))

    @list_options
    def score(
        self,
        texts: Iterable[str],
        targets: Iterable[str],
        skip_unscorable: bool = False,
        **options: Unpack[CallOptions],
    ) -> list[GenerationResult | None]:
        """Scores given translations, for example to choose among them or to clean a corpus.

        The whole target is passed as `target_prefix`, so there is nothing left to search. A file
        exported with `--search beam_width=1` is fastest. All pairs are checked before the first
        pair is scored. `max_length` has no default here.

        Args:
            texts: iterable of strings.
            targets: iterable of strings, the translation of each text.
            skip_unscorable: bool, whether to return `None`, instead of raising an error, for a text
                without tokens and for a target that is longer than the file allows. Default: False.
            {{options}}

        Returns:
            List of `GenerationResult`s, one for each pair, in the same order. `log_prob` and
            `score` are the target's values; `text` is the target after tokenization and
            detokenization.

        Raises:
            InputError: if an item is not valid text or too long, a text contains no tokens, or
                the file allows fewer tokens for this text than the target contains.
            ModelFileError: if the file contains no tokenizer, does not support `target_prefix`,
                does not score prefixes (`score_prefix=False`) or pads with the end token, or the
                engine fails on one sentence.
            ValueError: if an option is out of range, or the number of targets is wrong.
        """
        checked, call = self._begin({"max_length": LARGEST_INT32, **options})
        pairs = self._read_pairs(texts, targets, skip_unscorable, call, checked.replace_unknown)
        return collect_results(
            pairs, lambda pairs: self._scores(pairs, skip_unscorable, checked, call)
        )

    @list_options
    def score_iterable(
        self,
        texts: Iterable[str],
        targets: Iterable[str],
        skip_unscorable: bool = False,
        **options: Unpack[CallOptions],
    ) -> Iterator[GenerationResult | None]:
        """Scores given translations lazily, in constant memory, for files of any length.

        The options are checked in this call, not when the first result is read. The errors are
        those of `score`.

        Args:
            texts: iterable of strings, read at most one window ahead.
            targets: iterable of strings, the translation of each text, read at most one window
                ahead.
            skip_unscorable: bool, whether to yield `None`, instead of raising an error, for a text
                without tokens and for a target that is longer than the file allows. Default: False.
            {{options}}

        Returns:
            Iterator over `GenerationResult`s, one for each pair, in the same order. If a pair
            cannot be scored, the iterator first yields all earlier results and then raises the
            error.
        """
        checked, call = self._begin({"max_length": LARGEST_INT32, **options})
        pairs = self._read_pairs(texts, targets, skip_unscorable, call, checked.replace_unknown)
        return yield_finished(self._scores(pairs, skip_unscorable, checked, call))

    def _scores(
        self, pairs: Iterable[Source], skip_unscorable: bool, options: Options, call: Call
    ) -> Iterator[GenerationResult | Unfinished | None]:
        first = [*self.settings.forced_prefix_ids, *self._language_ids(options).target_start]
        return scores(
            pairs, lambda pairs: self._search(pairs, options, call), skip_unscorable, first
        )

    def _read_pairs(
        self,
        texts: Iterable[str],
        targets: Iterable[str],
        skip_unscorable: bool,
        call: Call,
        with_words: bool,
    ) -> Iterator[Source]:
        """Returns each text's source, with the target and the end token as its prefix."""
        skip_unscorable = require_bool("skip_unscorable", skip_unscorable)
        self._require_target_prefix()
        if not self.settings.scores_prefix:
            raise ModelFileError(
                "Expected a file whose search scores the tokens of a prefix, because a target is a "
                "prefix. Received: score_prefix=False. Export it with `--search score_prefix=true`."
            )
        end, padding = self.settings.target.end_token_id, self.settings.target.pad_token_id
        if end is None or end == padding:
            raise ModelFileError(
                "Expected a file with an end token that is not padding, because each target ends "
                f"with the end token. Received: end_token_id={end}, pad_token_id={padding}. Export "
                "a model with an end token."
            )
        tokenizer = self._require_text_tokenizers()
        sources = self._read_texts(texts, None, call, with_words)
        targets = read(require_sentences(targets, "targets"), call)
        sources = self._prefixes.of_targets(sources, targets, tokenizer, end)
        return sources if skip_unscorable else require_tokens(sources)

    def _open(
        self,
        path: str | os.PathLike[str],
        providers: Providers | None,
        num_threads: int | None,
        num_sessions: int,
    ) -> ExportedModel:
        return ExportedModel(path, providers, num_threads, num_sessions)

    def _begin(self, arguments: CallOptions) -> tuple[Options, Call]:
        """Returns options and `Call` for a new call, and starts its timeout."""
        options = self._checked(arguments)
        return options, Call(options.timeout, options.cancel_token)

    def _checked(self, arguments: CallOptions) -> Options:
        self._require_own_process()
        options = Options.of(arguments)
        check_num_hypotheses(options.num_hypotheses, self.settings)
        for name, value in options.settings.items():
            check_setting(name, value, self.settings)
        if options.token_bias is not None:
            options = dataclasses.replace(options, token_bias=self._token_bias(options.token_bias))
        if options.rule_inputs is not None:
            values = read_rule_inputs(options.rule_inputs, self.settings.rule_inputs)
            options = dataclasses.replace(options, rule_inputs=values)
        if options.seed is not None and not self.is_stochastic:
            raise ValueError(
                "Expected no seed, because the search of this file does not sample. Received: "
                f"seed={options.seed}. Export it with `--search-class SamplingDecoder`."
            )
        if options.stops:
            require_tokenizers({"target": self.settings.target}, "omit `stop_texts`")
        if self._language_ids(options).target_start:
            self._require_target_prefix()
        if options.replace_unknown:
            self._require_replaceable()
        return options

    def _require_replaceable(self) -> None:
        """Raises an error if a call with this file cannot replace unknown tokens."""
        if self._reader is None:
            raise ModelFileError(
                "Expected a file that reads texts, because of replace_unknown. Received: inputs="
                f"{list(self.inputs)}. Omit replace_unknown."
            )
        sides = {"source": self.settings.source, "target": self.settings.target}
        require_tokenizers(sides, "omit replace_unknown")
        if not self._require_target_tokenizer().has_unknown_token:
            raise ModelFileError(
                "Expected a target tokenizer with an unknown token, because of replace_unknown. "
                "Received: a tokenizer that encodes every text. Omit replace_unknown."
            )
        if not self.has_alignments:
            raise ModelFileError(
                "Expected a file with alignments, because of replace_unknown. Received: a file "
                "without the output 'alignments'. Export it with `--alignments`, or "
                "`export_onnx(..., alignments=True)`, which needs a decoder with attention."
            )

    def _token_bias(self, token_bias: object) -> dict[int, float]:
        if not self._model.supports_token_bias:
            raise ModelFileError(
                "Expected a file with the input 'token_bias_ids', because of token_bias. Received: "
                f"search_inputs={self.settings.search_inputs}. Export it with "
                "`--accept-token-bias`, or `export_onnx(..., accept_token_bias=True)`."
            )
        return read_token_bias(token_bias, self.settings, self._model.target_tokenizer)

    def _language_ids(self, options: Options) -> LanguageIds:
        """Returns a call's language ids."""
        languages = options.source_language, options.target_language
        return LanguageIds.of(self.settings.source, self.settings.target, *languages)

    def _require_target_prefix(self) -> None:
        if not self.supports_target_prefix:
            raise ModelFileError(
                "Expected a file with the input 'prefix_ids', because of target_prefix. Received: "
                f"search_inputs={self.settings.search_inputs}. Export it with "
                "`--accept-target-prefix`, or `export_onnx(..., accept_target_prefix=True)`."
            )

    def _array_reader(self) -> ArrayReader:
        if self._reader is not None:
            raise ModelFileError(
                "Expected a file whose inputs are arrays. Received: inputs="
                f"{list(self.settings.inputs)}. Give texts to `translate`, or ids to "
                "`translate_ids`."
            )
        return ArrayReader(self.settings.inputs, self.settings.source)

    def _with_prefix(
        self,
        sources: Iterable[Source],
        target_prefix: str | Ids | Iterable[str | Ids] | None,
        call: Call,
    ) -> Iterable[Source]:
        """Adds prefixes to sources. The prefixes are texts if any is a string, otherwise ids."""
        if target_prefix is None:
            return sources
        self._require_target_prefix()
        several = target_prefix if isinstance(target_prefix, (list, tuple)) else [target_prefix]
        prefix = read_prefix(target_prefix, call)
        if any(isinstance(item, str) for item in several):
            tokenizer = self._require_target_tokenizer()
            return self._prefixes.of_texts(sources, prefix, tokenizer)
        return self._prefixes.of_ids(sources, prefix)

    def check_phrase(self, phrase: Phrase) -> None:
        """Raises an error if a phrase of `constraints` is not possible.

        Args:
            phrase: string, or list of alternative strings.

        Raises:
            ModelFileError: if the file does not support `constraints`.
            ValueError: if the vocabulary lacks a character, or the search never generates a token.
        """
        self._require_constraints()
        self._constraints.read_phrase(phrase)

    def _require_constraints(self) -> None:
        if not self.supports_constraints:
            raise ModelFileError(
                "Expected a file with the input 'constraint_ids', because of constraints. "
                f"Received: search_inputs={self.settings.search_inputs}. Export it with "
                "`--accept-constraints`, or `export_onnx(..., accept_constraints=True)`."
            )

    def _with_constraints(
        self,
        sources: Iterable[Source],
        constraints: Iterable[Constraints | None] | None,
        call: Call,
    ) -> Iterable[Source]:
        """Adds phrases to sources."""
        if constraints is None:
            return sources
        self._require_constraints()
        return self._constraints.add_to(sources, read_prefix(constraints, call))

    def _require_text_tokenizers(self) -> Tokenizer:
        """Returns the target tokenizer of a file that reads and writes texts."""
        self._require_reader()
        require_tokenizers({"source": self.settings.source, "target": self.settings.target})
        return self._require_target_tokenizer()

    def _require_target_tokenizer(self) -> Tokenizer:
        require_tokenizers({"target": self.settings.target})
        tokenizer = self._model.target_tokenizer
        assert tokenizer is not None  # checked by require_tokenizers
        return tokenizer

    def _read_texts(
        self,
        texts: Iterable[str],
        target_prefix: str | Iterable[str] | None,
        call: Call,
        with_words: bool = False,
    ) -> Iterator[Source]:
        if target_prefix is None:
            return self._read_sources(texts, call, with_words)
        tokenizer = self._require_text_tokenizers()
        self._require_target_prefix()
        sources = self._read_sources(texts, call, with_words)
        return self._prefixes.of_texts(sources, read_prefix(target_prefix, call), tokenizer)

    def _run(
        self, sources: Iterable[Source], options: Options, call: Call
    ) -> Iterator[GenerationResult | Unfinished]:
        if not self.supports_target_prefix:
            return self._search(sources, options, call)
        first = [*self.settings.forced_prefix_ids, *self._language_ids(options).target_start]

        def search(sources: Iterable[Source]) -> Iterator[GenerationResult | Unfinished]:
            return self._search(sources, options, call)

        ends = self.settings.end_token_ids
        return require_whole_prefixes(sources, search, first, ends, options.max_length)

    def _search(
        self, sources: Iterable[Source], options: Options, call: Call
    ) -> Iterator[GenerationResult | Unfinished]:
        return self._runner.run(self._prepared(sources, options), options, call)

    def _prepared(self, sources: Iterable[Source], options: Options) -> Iterable[Source]:
        """Adds language ids and, if the search samples, a seed to each source."""
        languages = self._language_ids(options)
        if languages.source_start or languages.source_end or languages.target_start:
            sources = languages.add_to(sources)
        if not self.is_stochastic:
            return sources
        # Calls with consecutive seeds must not use overlapping seed ranges.
        first = random.Random(options.seed).randrange(SEEDS)
        return (
            dataclasses.replace(source, seed=(first + number) % SEEDS)
            for number, source in enumerate(sources)
        )
