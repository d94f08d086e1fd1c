import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ParamSpec, Self, TypeVar

from keras_attn_runtime._array_types import is_in_memory
from keras_attn_runtime._calls.argument_checks import (
    require_bool,
    require_integer,
    require_length,
    require_number,
)
from keras_attn_runtime._calls.cancellation import CancelToken
from keras_attn_runtime._calls.search_settings import NUM_HYPOTHESES, SETTINGS, SearchSettings

P = ParamSpec("P")
R = TypeVar("R")


class CallOptions(SearchSettings, total=False):
    """Keyword arguments of a call, for type checkers. See `Options`."""

    max_length: int | None
    length_penalty: float | None
    num_hypotheses: int
    batch_size: int
    window: int | None
    seed: int | None
    constraints_in_order: bool
    token_bias: Mapping[str, float] | Mapping[int, float] | None
    rule_inputs: Mapping[str, Any] | None
    stop_texts: str | Sequence[str] | None
    alignments: bool
    replace_unknown: bool
    source_language: str | None
    target_language: str | None
    timeout: float | None
    cancel_token: CancelToken | None


@dataclass(frozen=True)
class Options:
    """Checked arguments of one `Translator` call.

    Args:
        max_length: int of at least 0, maximum number of output tokens for each sentence, including
            the end token; 0 returns empty translations. The file also limits the length relative to
            the source, usually to 2 * source length + 10 tokens. Default: the maximum length in the
            file.
        length_penalty: float of at least 0, length exponent in the ranking score; 0 ranks by log
            probability. Default: the length penalty in the file.
        beam_width: int of at least 1, number of beams, at most the number in the file. This option
            and the next ones, up to `min_p`, need a file that has them as inputs. Files have the
            usual ones, unless `runtime_settings` of the export names others. Default of all: the
            value in the file.
        min_length: int of at least 0, minimum number of output tokens, without the end token.
        repetition_penalty: float above 0. Values above 1 make the previous tokens of an output less
            probable; 1 is no penalty.
        no_repeat_ngram_size: int of at least 0, size of the n-grams that an output may contain only
            once, at most the size in the file; 0 for no limit.
        patience: float above 0. A beam search stops after beam_width * patience hypotheses.
        coverage_penalty: float of at least 0, weight of the coverage penalty of a beam search.
        diversity_strength: float above 0, factor of the penalty between groups of beams.
        temperature: float above 0, for sampling. Values below 1 make the most probable tokens more
            probable.
        top_k: int of at least 0, number of tokens to sample from, at most the number in
            the file, if it has one. 0 for no other limit.
        top_p: float in (0, 1], total probability of the tokens to sample from; 1 for all tokens.
        min_p: float in [0, 1], minimum probability of a sampled token relative to the most probable
            one; 0 for all tokens.
        num_hypotheses: int of at least 1, number of hypotheses to return for each sentence. In a
            file with the input `num_hypotheses`, at most the beam width of a beam search; in other
            files, at most the number that the file returns. Default: 1.
        batch_size: int of at least 1, maximum number of sentences in a batch. A file with a fixed
            batch size, such as most LiteRT files, runs at most that number. Default: 32.
        window: int of at least 1, number of sentences to read ahead and sort by length. Default: 16
            batches.
        seed: int of at least 0, seed for sampling. The tokens of the n-th sentence depend on `seed`
            and n, not on the other sentences. Default: a different seed in each call.
        constraints_in_order: bool, whether the phrases of `constraints` must occur in their order,
            without overlaps. Default: False, in any order.
        token_bias: dict from target ids, or texts that are one token, to values in nats that are
            added to their log probabilities; `-math.inf` forbids a token. For a file exported with
            `accept_token_bias=True`. Default: no biases.
        rule_inputs: dict from the inputs of rules of the search to numbers or arrays, which all
            sentences share. Default: the values in the file.
        stop_texts: string or list of strings. Each output is cut before the one that is complete
            first, except in the target prefix. The search itself runs to its end, and
            `stop_sequences` in the export saves this time. A `StreamingTranslator` ends the search
            for a sentence when all its open hypotheses contain a stop text; their scores lack the
            tokens that would follow. Default: no stop texts.
        alignments: bool, whether translations contain alignments, if the file returns them. They
            take most memory in long translations: a float for each pair of target and source token.
            Default: True.
        replace_unknown: bool, whether each unknown token in the texts is replaced by the source
            word with the largest attention weight, see `Translator`. For texts, and a file that
            returns alignments. Default: False.
        source_language: string, source language, for a file with several languages, see
            `Side.languages`. Default: the language in the file, if there is one.
        target_language: string, target language, for a file with several languages. Default: the
            language in the file, if there is one.
        timeout: float of at least 0, time limit for the whole call in seconds, including reading
            the input and waiting for other calls. Afterwards the call raises `DeadlineExceeded`.
            With a `timeout` or a `cancel_token`, an iterable input other than a list, tuple or
            array is read in a separate thread. LiteRT finishes the running batch in the background,
            see `Translator`. Default: no limit.
        cancel_token: `CancelToken` with which another thread can end the call. The call then raises
            `Cancelled`. Default: none.

    Raises:
        ValueError: if an argument has the wrong type or is out of range.
    """

    max_length: int | None = None
    length_penalty: float | None = None
    beam_width: int | None = None
    min_length: int | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    patience: float | None = None
    coverage_penalty: float | None = None
    diversity_strength: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    num_hypotheses: int = 1
    batch_size: int = 32
    window: int | None = None
    seed: int | None = None
    constraints_in_order: bool = False
    token_bias: Mapping[str, float] | Mapping[int, float] | None = None
    rule_inputs: Mapping[str, Any] | None = None
    stop_texts: str | Sequence[str] | None = None
    alignments: bool = True
    replace_unknown: bool = False
    source_language: str | None = None
    target_language: str | None = None
    timeout: float | None = None
    cancel_token: CancelToken | None = None

    def __post_init__(self) -> None:
        checked = {
            "max_length": _or_none(require_length, "max_length", self.max_length),
            "length_penalty": _or_none(
                require_number, "length_penalty", self.length_penalty, "a number"
            ),
            "num_hypotheses": require_integer("num_hypotheses", self.num_hypotheses, least=1),
            "batch_size": require_integer("batch_size", self.batch_size, least=1),
            "window": _or_none(require_integer, "window", self.window, 1),
            "seed": _or_none(require_integer, "seed", self.seed, 0),
            "constraints_in_order": require_bool("constraints_in_order", self.constraints_in_order),
            "alignments": require_bool("alignments", self.alignments),
            "replace_unknown": require_bool("replace_unknown", self.replace_unknown),
            "timeout": _or_none(require_number, "timeout", self.timeout, "a number of seconds"),
        }
        for name, allowed in SETTINGS.items():
            checked[name] = _or_none(allowed.check, name, getattr(self, name))
        for name in ("source_language", "target_language"):
            _require_text(name, getattr(self, name))
        _require_texts("stop_texts", self.stop_texts)
        _require_cancel_token(self.cancel_token)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, options: CallOptions) -> Self:
        """Converts keyword arguments to `Options`; raises TypeError for unknown names."""
        names = [field.name for field in fields(cls)]
        unknown = sorted(set(options) - set(names))
        if unknown:
            raise TypeError(
                f"Expected options out of {names}. Received: {', '.join(unknown)}. Other settings "
                "of the search are set in the export."
            )
        return cls(**options)

    @property
    def stops(self) -> tuple[str, ...]:
        """tuple of strings, `stop_texts`."""
        texts = () if self.stop_texts is None else self.stop_texts
        return (texts,) if isinstance(texts, str) else tuple(texts)

    @property
    def settings(self) -> dict[str, float]:
        """dict from the given settings of the search to their values."""
        values = {name: getattr(self, name) for name in SETTINGS}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def search_inputs(self) -> dict[str, float]:
        """dict from the inputs that newer files have to their values: `settings`, and the number of
        hypotheses."""
        return {NUM_HYPOTHESES: self.num_hypotheses, **self.settings}

    @property
    def window_size(self) -> int:
        """int, number of sentences to read ahead: `window` or its default."""
        return 16 * self.batch_size if self.window is None else self.window


def list_options(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a method with `**options: CallOptions`, so that `help` lists each option.

    The entries replace the line `{{options}}` of the docstring.
    """
    signature = inspect.signature(function)
    named = [item for item in signature.parameters.values() if item.kind is not item.VAR_KEYWORD]
    options = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
        )
        for field in fields(Options)
    ]
    untyped: Any = function
    untyped.__signature__ = signature.replace(parameters=[*named, *options])
    if function.__doc__:  # Python -OO removes docstrings
        entries = re.search(r" Args:\n(.*?)\n\n", Options.__doc__ or "", re.DOTALL)
        text = textwrap.indent(entries[1], "    ") if entries else ""
        untyped.__doc__ = re.sub(
            r"^ +\{\{options\}\}$", lambda _: text, function.__doc__, flags=re.M
        )
    return function


def _or_none(require: Callable[..., R], name: str, value: object, *rest: object) -> R | None:
    """Returns `require(name, value, *rest)`, or `None` if the value is `None`."""
    return None if value is None else require(name, value, *rest)


def _require_text(name: str, value: object) -> None:
    if not isinstance(value, (str, type(None))):
        raise ValueError(f"Expected {name} to be a string. Received: {name}={value!r}.")


def _require_texts(name: str, value: Any) -> None:
    texts: Any = [] if value is None else [value] if isinstance(value, str) else value
    is_list = is_in_memory(texts)
    if not is_list or not all(isinstance(each, str) and each for each in texts):
        raise ValueError(
            f"Expected {name} to be a string or a list of strings that are not empty. Received: "
            f"{name}={value!r}."
        )


def _require_cancel_token(value: object) -> None:
    if not isinstance(value, (CancelToken, type(None))):
        raise ValueError(
            f"Expected cancel_token to be a CancelToken. Received: type={type(value).__name__}."
        )
