"""The search settings that can be inputs of an exported file."""

from dataclasses import dataclass
from typing import TypedDict

from keras_attn_runtime._array_types import LARGEST_INT32
from keras_attn_runtime._calls.argument_checks import (
    require_integer,
    require_length,
    require_number,
)

SMALLEST = 1e-30
"""Smallest value of settings that must be positive."""

SIZES = ("beam_width", "no_repeat_ngram_size", "top_k")
"""Settings that a call can decrease, but not increase, unless the value in the file is 0."""


@dataclass(frozen=True)
class _Range:
    """The allowed values of a setting: numbers, or only integers, from `least` to `most`.

    A length is an integer of at least 0, which can also be a whole float.
    """

    text: str
    least: float
    most: float = LARGEST_INT32
    is_integer: bool = False
    is_length: bool = False

    def check(self, name: str, value: object) -> float:
        """Returns the value as a number; raises ValueError if it is not allowed."""
        if self.is_length:
            return require_length(name, value)
        if self.is_integer:
            return require_integer(name, value, int(self.least), int(self.most))
        return require_number(name, value, least=self.least, most=self.most)


SETTINGS = {
    "beam_width": _Range(
        "number of beams of a beam search, at most the number in the file", 1, is_integer=True
    ),
    "min_length": _Range(
        "minimum number of output tokens, without the end token", 0, is_integer=True, is_length=True
    ),
    "repetition_penalty": _Range(
        "values above 1 make previous tokens less probable; 1 for no penalty", SMALLEST
    ),
    "no_repeat_ngram_size": _Range(
        "size of the n-grams that an output must not repeat, at most the size in the file; 0 "
        "allows repetition",
        0,
        is_integer=True,
    ),
    "patience": _Range("a beam search stops after beam_width * patience hypotheses", SMALLEST),
    "coverage_penalty": _Range("weight of the coverage penalty; 0 for no penalty", 0),
    "diversity_strength": _Range("factor of the penalty between groups of beams", SMALLEST),
    "temperature": _Range("values below 1 make probable tokens more probable", SMALLEST),
    "top_k": _Range(
        "number of tokens to sample from, at most the number in the file; 0 for the number in the "
        "file, or for all tokens if it has none",
        0,
        is_integer=True,
    ),
    "top_p": _Range("total probability of the tokens to sample from; 1 for all", SMALLEST, 1),
    "min_p": _Range("minimum probability relative to the most probable token; 0 for all", 0, 1),
}
"""Dict from the search settings that can be inputs of a file to their allowed values."""

SEARCH_OF = {
    **dict.fromkeys(
        ("beam_width", "patience", "coverage_penalty", "diversity_strength"), "BeamDecoder"
    ),
    **dict.fromkeys(("temperature", "top_k", "top_p", "min_p"), "SamplingDecoder"),
}
"""Dict from each setting of only one kind of search to the class name of this search."""

NUM_HYPOTHESES = "num_hypotheses"
"""Option of calls with any file. Newer files also have it as an input."""

INTEGERS = (NUM_HYPOTHESES, *(name for name, allowed in SETTINGS.items() if allowed.is_integer))
"""Inputs of a search that are int32."""


class SearchSettings(TypedDict, total=False):
    """The settings of a search, for type checkers; see `keras_attn_runtime._calls.options`."""

    beam_width: int | None
    min_length: int | None
    repetition_penalty: float | None
    no_repeat_ngram_size: int | None
    patience: float | None
    coverage_penalty: float | None
    diversity_strength: float | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
