"""The settings of searches, each declared once.

`help`, error messages, configurations, the metadata of exported files and `keras-attn export
--search` are made from the fields. CONTRIBUTING.md describes how to add a setting.
"""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from keras_attn_checks.impossible_parts import impossible_parts
from keras_attn_checks.number_types import is_number
from keras_attn_checks.options import (
    BOOL,
    FINITE,
    ID,
    ID_LIST,
    INTEGER,
    LENGTH,
    NONNEGATIVE_INTEGER,
    NONNEGATIVE_NUMBER,
    POSITIVE_INTEGER,
    POSITIVE_NUMBER,
    Kind,
    LayerArguments,
    choice,
    id_sequences,
    integers,
    numbers,
    option,
    optional,
)

LengthPenaltyForm: TypeAlias = Literal["average", "average_with_end", "gnmt", "none"]
Stop: TypeAlias = Literal["collected", "heuristic", "exact"]
Dtype: TypeAlias = Literal["int32", "float32"]

_ID_ADVICE = "Pass the id of a special token of the tokenizer."


def _length_line(value):
    is_pair = isinstance(value, (tuple, list)) and len(value) == 2
    if not is_pair or any(not is_number(each) or math.isnan(each) for each in value):
        raise ValueError(value)
    return value


LENGTH_LINE = Kind(
    "Tuple `(factor, margin)`", "a tuple of two numbers (factor, margin)", _length_line
)


@dataclasses.dataclass(init=False, repr=False, eq=False)
class SearchOptions:
    """Settings of all searches. Their attributes are checked by the constructor of `Search`."""

    max_length: int = option(
        256,
        LENGTH,
        "maximum number of tokens of a hypothesis, including the end token. A decoder with learned "
        "positions may limit the length further.",
        input_dtype="int32",
    )
    relative_max_length: tuple[float, float] | None = option(
        (2, 10),
        optional(LENGTH_LINE),
        "A hypothesis has at most `factor * source_length + margin` tokens, or no tokens if this "
        "number is negative. `None` for no limit relative to the source.",
        advice="Use None for no limit relative to the source.",
    )
    min_length: int = option(
        0,
        LENGTH,
        "minimum number of tokens of a hypothesis, not counting the end token.",
        input_dtype="int32",
        is_usual_input=True,
    )
    length_penalty: float = option(
        1.0,
        FINITE,
        "exponent of the length in the score. Large negative values are not supported, because "
        "scores below -1e9 are reserved for missing hypotheses.",
        advice='Use length_penalty_form="none" for no penalty.',
        input_dtype="float32",
    )
    length_penalty_form: LengthPenaltyForm = option(
        "average",
        choice(LengthPenaltyForm),
        "The log probability is divided by `L^a`, where `L` is the length and `a` is "
        "`length_penalty`; with `average_with_end`, `L` includes the end token. With `gnmt` ([Wu "
        "et al., 2016](https://arxiv.org/abs/1609.08144), equation 14), the divisor is "
        "`((5 + L) / 6)^a`, with `none` 1.",
    )
    start_token_id: int = option(1, ID, "id of the start token.", advice=_ID_ADVICE)
    end_token_id: int = option(2, ID, "id of the end token.", advice=_ID_ADVICE)
    other_end_token_ids: list[int] = option(
        None,
        optional(ID_LIST),
        "further tokens that end a hypothesis, as in a list `eos_token_id` of transformers. If "
        "several end tokens can follow a beam of a `BeamDecoder`, it uses the most probable one of "
        "those that are not suppressed.",
        default_text="no ids",
        advice="Use [] for no ids.",
        argument_type=Iterable[int] | None,
    )
    pad_token_id: int = option(0, ID, "id of padding.", advice=_ID_ADVICE)
    suppressed_token_ids: list[int] = option(
        None,
        optional(ID_LIST),
        "They are never generated.",
        default_text="the padding and start tokens, except if they are also the end token",
        advice="Use [] for no ids.",
        argument_type=Iterable[int] | None,
    )
    suppressed_sequences: list[list[int]] = option(
        None,
        optional(id_sequences(2)),
        "A hypothesis contains none of them. After the other tokens of a sequence, its last token "
        "is impossible. The tokens of a prefix count, those of a prompt do not.",
        default_text="no sequences",
        advice="Use suppressed_token_ids for single tokens.",
        argument_type=Iterable[Iterable[int]] | None,
    )
    stop_sequences: list[list[int]] = option(
        None,
        optional(id_sequences(1)),
        "A hypothesis ends when its newest tokens are one of them, as with an end token. Tokens of "
        "a prefix or a prompt do not count. `min_length` tokens must precede the sequence. If "
        "several end tokens and sequences can end a beam of a `BeamDecoder`, it uses the most "
        "probable one.",
        default_text="no sequences",
        advice="Use [] for no sequences.",
        argument_type=Iterable[Iterable[int]] | None,
    )
    repetition_penalty: float = option(
        1.0,
        POSITIVE_NUMBER,
        "Values above 1 make the previous tokens of a hypothesis less probable. Previous tokens "
        "include a prefix, but not a prompt. With the penalty p, a logit x of such a token becomes "
        "x / p if it is positive, otherwise x p, as in section 4.1 of [Keskar et al., "
        "2019](https://arxiv.org/abs/1909.05858). The `log_probs` change, too, except for prefix "
        "tokens.",
        default_text="no penalty",
        advice="Use 1.0 for no penalty.",
        input_dtype="float32",
    )
    no_repeat_ngram_size: int = option(
        0,
        NONNEGATIVE_INTEGER,
        "size of the n-grams that a hypothesis may contain only once.",
        default_text="no limit",
        advice="Use 0 for no limit.",
        input_dtype="int32",
    )
    forced_prefix_ids: list[int] = option(
        None,
        optional(ID_LIST),
        "Every hypothesis begins with them, before the `prefix_ids` of a call. The length includes "
        "these ids, but their log probability is 0 (`forced_bos_token_id` of transformers).",
        default_text="no ids",
        advice="Use [] for no ids.",
        argument_type=Iterable[int] | None,
    )
    score_prefix: bool = option(
        True,
        BOOL,
        "whether the log probabilities of `prefix_ids` are part of the score. If `False`, the "
        "tokens of `prefix_ids` have the log probability 0.",
    )
    force_end_token: bool = option(
        False,
        BOOL,
        "If `True`, the last token of a hypothesis of maximum length is always the end token, with "
        "the log probability 0 (`forced_eos_token_id` of transformers). If `False`, such a "
        "hypothesis may have no end token.",
    )
    rules: list[Any] = option(
        None,
        optional(Kind("List of `LogitsRule`", "a list of LogitsRule layers", list)),
        "Each changes the log probabilities of the next tokens, in order.",
        default_text="no rules",
        argument_type=Iterable[Any] | None,
    )
    return_alignments: bool = option(False, BOOL, "whether to return the attention weights.")
    return_token_log_probs: bool = option(
        False, BOOL, "whether to return the log probability of each token."
    )
    return_top_tokens: int = option(
        0,
        NONNEGATIVE_INTEGER,
        "number of most probable tokens to return at each position, with their log probabilities.",
        default_text="no tokens",
        advice="Use 0 for no tokens.",
    )

    @property
    def default_suppressed_token_ids(self) -> list[int]:
        """List of ints, the suppressed ids if the caller selects none."""
        return sorted({self.pad_token_id, self.start_token_id} - set(self.end_token_ids))

    @property
    def end_token_ids(self) -> list[int]:
        """List of ints, all tokens that end a hypothesis: `end_token_id`, then the others."""
        return [self.end_token_id, *(self.other_end_token_ids or [])]

    def check_options(self) -> None:
        """Checks settings that depend on each other, and computes defaults of `None`."""
        if self.min_length > self.max_length:
            raise ValueError(
                "Expected min_length of at most max_length. Received: "
                f"min_length={self.min_length}, max_length={self.max_length}. Change one of them."
            )
        self.other_end_token_ids = list(dict.fromkeys(self.other_end_token_ids or []))
        if self.end_token_id in self.other_end_token_ids:
            raise ValueError(
                "Expected other_end_token_ids without end_token_id. Received: other_end_token_ids="
                f"{self.other_end_token_ids}, end_token_id={self.end_token_id}. Remove this id."
            )
        if self.suppressed_token_ids is None:
            self.suppressed_token_ids = self.default_suppressed_token_ids
        if self.suppressed_sequences is None:
            self.suppressed_sequences = []
        self._check_stop_sequences()
        if self.forced_prefix_ids is None:
            self.forced_prefix_ids = []
        if self.rules is None:
            self.rules = []
        if self.pad_token_id in self.forced_prefix_ids:
            raise ValueError(
                "Expected forced_prefix_ids without padding. Received: forced_prefix_ids="
                f"{self.forced_prefix_ids}, pad_token_id={self.pad_token_id}. Remove the padding."
            )

    def _check_stop_sequences(self):
        self.stop_sequences = self.stop_sequences or []
        never = [self.pad_token_id, *self.end_token_ids, *self.suppressed_token_ids]
        for sequence in self.stop_sequences:
            if len(sequence) > self.max_length:
                raise ValueError(
                    f"Expected stop_sequences with at most max_length={self.max_length} ids. "
                    f"Received: stop_sequences with {sequence}, which has {len(sequence)} ids. "
                    "Remove the sequence, or increase max_length."
                )
            impossible = impossible_parts(sequence, never, self.suppressed_sequences)
            if impossible:
                raise ValueError(
                    "Expected stop_sequences without end tokens, padding, suppressed_token_ids and "
                    f"suppressed_sequences. Received: stop_sequences with {sequence}, which "
                    f"contains {impossible[0]}. Remove the sequence, or allow its tokens."
                )


class SearchArguments(LayerArguments, total=False):
    """The arguments of all searches, for type checkers; see `SearchOptions`."""

    max_length: int
    relative_max_length: tuple[float, float] | None
    min_length: int
    length_penalty: float
    length_penalty_form: LengthPenaltyForm
    start_token_id: int
    end_token_id: int
    other_end_token_ids: Iterable[int] | None
    pad_token_id: int
    suppressed_token_ids: Iterable[int] | None
    suppressed_sequences: Iterable[Iterable[int]] | None
    stop_sequences: Iterable[Iterable[int]] | None
    repetition_penalty: float
    no_repeat_ngram_size: int
    forced_prefix_ids: Iterable[int] | None
    score_prefix: bool
    force_end_token: bool
    rules: Iterable[Any] | None
    return_alignments: bool
    return_token_log_probs: bool
    return_top_tokens: int


@dataclasses.dataclass(init=False, repr=False, eq=False)
class BeamOptions(SearchOptions):
    """Settings of a beam search."""

    beam_width: int = option(
        4,
        integers(1, 4096),
        "number of open hypotheses per batch entry.",
        advice="For more than 4096 hypotheses, use a SamplingDecoder.",
        input_dtype="int32",
        is_usual_input=True,
    )
    num_hypotheses: int = option(
        1,
        POSITIVE_INTEGER,
        "number of returned hypotheses per batch entry, at most `beam_width`.",
        input_dtype="int32",
        is_usual_input=True,
    )
    stop: Stop = option(
        "collected",
        choice(Stop),
        "see the table above.",
        advice="For texts that end an output, use stop_texts of generate.",
    )
    patience: float = option(
        1.0,
        POSITIVE_NUMBER,
        'With `stop="collected"`, the search stops when `beam_width * patience` hypotheses are '
        "finished ([Kasai et al., 2024](https://aclanthology.org/2024.lrec-main.261)). The product "
        "is rounded to an integer and is at least 1. Other values of `stop` ignore this argument.",
        advice="Use 1.0 to stop after beam_width hypotheses.",
        input_dtype="float32",
        is_usual_input=True,
    )
    coverage_penalty: float = option(
        0.0,
        NONNEGATIVE_NUMBER,
        "weight of the coverage penalty ([Wu et al., 2016](https://arxiv.org/abs/1609.08144), "
        "equation 14), the sum of `log(min(c, 1))` over the source positions, where `c` is the sum "
        "of the attention weights that a position has received. The penalty "
        "ignores positions with a weight of 0, so use an attention with positive weights at all "
        "positions that are not masked, such as softmax attention.",
        default_text="no penalty",
        advice="Use 0.0 for no penalty.",
        input_dtype="float32",
    )
    num_groups: int = option(
        1,
        POSITIVE_INTEGER,
        "number of groups of beams. It must divide `beam_width`. A hypothesis that several groups "
        "find is added to the pool once.",
    )
    diversity_strength: float = option(
        0.5,
        POSITIVE_NUMBER,
        "factor of the diversity penalty, in nats.",
        advice="Use num_groups=1 for no diversity.",
        input_dtype="float32",
    )

    def check_options(self) -> None:
        super().check_options()
        if self.num_hypotheses > self.beam_width:
            raise ValueError(
                "Expected num_hypotheses of at most beam_width. Received: num_hypotheses="
                f"{self.num_hypotheses}, beam_width={self.beam_width}. Increase beam_width, or "
                "decrease num_hypotheses."
            )
        if self.beam_width % self.num_groups:
            raise ValueError(
                "Expected num_groups to divide beam_width. Received: "
                f"num_groups={self.num_groups}, beam_width={self.beam_width}. Use a multiple of "
                "num_groups as beam_width."
            )


class BeamArguments(SearchArguments, total=False):
    """The arguments of a beam search, for type checkers; see `BeamOptions`."""

    beam_width: int
    num_hypotheses: int
    stop: Stop
    patience: float
    coverage_penalty: float
    num_groups: int
    diversity_strength: float


@dataclasses.dataclass(init=False, repr=False, eq=False)
class SamplingOptions(SearchOptions):
    """Settings of sampling."""

    num_hypotheses: int = option(
        1,
        POSITIVE_INTEGER,
        "number of hypotheses that are sampled independently for each batch entry. The memory for "
        "the cache of a Transformer grows with the square of `num_hypotheses`. For thousands of "
        "samples, repeat the source in the batch instead.",
        input_dtype="int32",
        is_usual_input=True,
    )
    temperature: float = option(
        1.0,
        # Smaller values than 1e-38 are 0 in float32.
        numbers(
            "Float >= 1e-30",
            "a number of at least 1e-30",
            lambda value: 1e-30 <= value < math.inf,
        ),
        "Values below 1 increase the probabilities of the most probable tokens.",
        advice="Use GreedyDecoder for a temperature of 0.",
        input_dtype="float32",
        is_usual_input=True,
    )
    top_k: int | None = option(
        None,
        optional(POSITIVE_INTEGER),
        "maximum number of tokens to sample from. A call of a search with a limit can choose a "
        "smaller one. In a call of a search without a limit, tokens that are as probable as the "
        "last token are kept as well; 0 is no limit.",
        default_text="no limit",
        input_dtype="int32",
        is_usual_input=True,
    )
    top_p: float = option(
        1.0,
        numbers("Float in (0, 1]", "a number in (0, 1]", lambda value: 0 < value <= 1),
        "total probability of the tokens to sample from.",
        default_text="all tokens",
        advice="Use 1 to keep all tokens.",
        input_dtype="float32",
        is_usual_input=True,
    )
    min_p: float = option(
        0.0,
        numbers("Float in [0, 1]", "a number in [0, 1]", lambda value: 0 <= value <= 1),
        "minimum probability relative to the most probable token.",
        default_text="all tokens",
        advice="Use 0 to keep all tokens.",
        input_dtype="float32",
        is_usual_input=True,
    )
    seed: int | None = option(
        None,
        optional(INTEGER),
        "If a call has no `seeds`, a generator with this seed creates them. Each call continues "
        "with the next ones. A loaded or copied layer starts with the first ones again, because "
        "Keras does not save the state of random generators in a file.",
        default_text="a random seed",
        advice="Pass None for a random seed.",
    )


class SamplingArguments(SearchArguments, total=False):
    """The arguments of sampling, for type checkers; see `SamplingOptions`."""

    num_hypotheses: int
    temperature: float
    top_k: int | None
    top_p: float
    min_p: float
    seed: int | None


@dataclasses.dataclass(init=False, repr=False, eq=False)
class AlternativesOptions(SearchOptions):
    """Settings of a search for alternatives at a position."""

    num_hypotheses: int = option(
        5,
        POSITIVE_INTEGER,
        "number of alternatives, the returned hypotheses per batch entry.",
        input_dtype="int32",
        is_usual_input=True,
    )


class AlternativesArguments(SearchArguments, total=False):
    """The arguments of a search for alternatives, for type checkers; see `AlternativesOptions`."""

    num_hypotheses: int


OPTIONS: dict[str, type[SearchOptions]] = {
    "AlternativesDecoder": AlternativesOptions,
    "BeamDecoder": BeamOptions,
    "GreedyDecoder": SearchOptions,
    "SamplingDecoder": SamplingOptions,
}
"""Dict from the name of each search class to its options."""

INPUTS: dict[str, Dtype] = {"max_length": "int32", "length_penalty": "float32"}
"""Dict from the options that all exported files have as scalar inputs to the dtypes of the inputs.
"""


def runtime_settings(options: type[SearchOptions]) -> dict[str, Dtype]:
    """Returns the other options that can be scalar inputs of an exported file.

    Args:
        options: Class, `SearchOptions` or a subclass.

    Returns:
        Dict from the names of the options to the dtypes of the inputs.
    """
    dtypes = {each.name: each.metadata["input_dtype"] for each in dataclasses.fields(options)}
    return {name: dtype for name, dtype in dtypes.items() if dtype and name not in INPUTS}


def usual_inputs(options: type[SearchOptions]) -> list[str]:
    """Returns the names in `runtime_settings` that exported files have as inputs by default."""
    return [each.name for each in dataclasses.fields(options) if each.metadata["is_usual_input"]]
