"""Runs a model with a search, and builds translations from its outputs."""

from collections.abc import Hashable

import numpy as np

from keras_attn_runtime._array_types import Floats, Integers
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._calls.options import Options
from keras_attn_runtime._generation_result import GenerationResult, Hypothesis, TopToken
from keras_attn_runtime._inputs.source import Source
from keras_attn_runtime._models.exported_model import ExportedModel
from keras_attn_runtime._models.outputs import SearchOutputs
from keras_attn_runtime._text.tokenizer import Tokenizer
from keras_attn_runtime._translate.replace_unknown import with_source_words
from keras_attn_runtime._translate.stops import StopCheck, cut_at_stop
from keras_attn_runtime._translate.token_bias import biases_of_ids

IMPOSSIBLE = -1e9
"""Log probability of missing hypotheses, if the search found fewer than `num_hypotheses`."""


class TranslationBuilder:
    """`BatchModel` that builds `GenerationResult`s from model outputs.

    Args:
        model: `ExportedModel`.
    """

    def __init__(self, model: ExportedModel) -> None:
        self._model = model
        self.batch_size = model.batch_size
        self._settings = model.settings
        self._source_tokenizer = model.source_tokenizer
        self._target_tokenizer = model.target_tokenizer
        self._has_alignments = model.has_alignments
        self._has_token_log_probs = model.has_token_log_probs
        self._has_top_tokens = model.has_top_tokens

    def group_of(self, source: Source) -> Hashable:
        """Returns the shapes: arrays with different shapes cannot be stacked into one batch."""
        return source.shapes

    def results(
        self, sources: list[Source], options: Options, call: Call
    ) -> list[GenerationResult]:
        """Runs a batch, see `BatchModel.results`."""
        outputs = self._model.run(
            [source.content for source in sources],
            *self.limits(options),
            [source.prefix for source in sources],
            [source.seed for source in sources],
            call,
            options.search_inputs,
            [source.constraints for source in sources],
            options.constraints_in_order,
            biases_of_ids(options.token_bias),
            options.rule_inputs,
            self.stop_check(sources, options),
        )
        return [self.build(outputs, row, source, options) for row, source in enumerate(sources)]

    def stop_check(self, sources: list[Source], options: Options) -> StopCheck | None:
        """Returns a function that finds stop texts in hypotheses, or `None` without stop texts."""
        tokenizer = self._target_tokenizer
        if tokenizer is None or not options.stops:
            return None
        num_given = [self._num_given(source) for source in sources]
        return StopCheck(options.stops, tokenizer, num_given, self._settings.stop_sequences)

    def _num_given(self, source: Source) -> int:
        return len(self._settings.forced_prefix_ids) + len(source.prefix)

    def limits(self, options: Options) -> tuple[int, float]:
        """Returns the maximum length and the length penalty. Their defaults are in the file."""
        return (
            self._settings.max_length if options.max_length is None else options.max_length,
            self._settings.length_penalty
            if options.length_penalty is None
            else options.length_penalty,
        )

    def build(
        self, outputs: SearchOutputs, row: int, source: Source, options: Options
    ) -> GenerationResult:
        """Returns the `GenerationResult` of one row in the outputs of a batch."""
        log_probs = outputs["log_probs"]
        hypotheses = [
            self._hypothesis(outputs, row, rank, source, options)
            for rank in range(options.num_hypotheses)
            if rank == 0 or log_probs[row, rank] > IMPOSSIBLE / 2
        ]
        pieces = _pieces(self._source_tokenizer, source.ids)
        return GenerationResult.from_hypotheses(hypotheses, pieces, source.truncated)

    def result_of_nothing(self, source: Source, options: Options) -> GenerationResult:
        """Returns the empty `GenerationResult` for a source that is not passed to the model."""
        alignments = None
        if self._has_alignments and options.alignments:
            alignments = np.zeros((0, len(source.ids)), np.float32)
        pieces = _pieces(self._source_tokenizer, source.ids)
        text = None if pieces is None else ""
        no_pieces: list[str] | None = None if pieces is None else []
        log_probs: list[float] | None = [] if self._has_token_log_probs else None
        met = [False] * len(source.constraints) or None
        ended = not source.ids
        nothing = Hypothesis(
            text,
            [],
            no_pieces,
            0.0,
            0.0,
            ended,
            alignments,
            log_probs,
            constraints_met=met,
            top_tokens=[] if self._has_top_tokens else None,
        )
        return GenerationResult.from_hypotheses([nothing], pieces, source.truncated)

    def _hypothesis(
        self,
        outputs: SearchOutputs,
        row: int,
        rank: int,
        source: Source,
        options: Options,
    ) -> Hypothesis:
        length = int(outputs["lengths"][row, rank])
        token_ids: list[int] = outputs["token_ids"][row, rank, :length].tolist()
        num_ends = self._num_end_tokens(outputs["token_ids"][row, rank, length:])
        alignments = None
        if "alignments" in outputs and options.alignments:
            # A view would keep the whole batch's alignments in memory.
            source_length = len(source.ids) or None
            alignments = outputs["alignments"][row, rank, :length, :source_length].copy()
        token_log_probs: list[float] | None = None
        if "token_log_probs" in outputs:
            log_probs = outputs["token_log_probs"][row, rank]
            token_log_probs = log_probs[: length + (num_ends or 0)].tolist()
        top_tokens: list[list[TopToken]] | None = None
        if "top_token_ids" in outputs and "top_token_log_probs" in outputs:
            positions = row, rank, slice(length + (num_ends or 0))
            ids, log_probs = outputs["top_token_ids"], outputs["top_token_log_probs"]
            top_tokens = _top_tokens(ids[positions], log_probs[positions], self._target_tokenizer)
        constraints_met: list[bool] | None = None
        if source.constraints and "constraints_met" in outputs:
            met = outputs["constraints_met"][row, rank]
            constraints_met = met[: len(source.constraints)].tolist()
        tokenizer = self._target_tokenizer
        hypothesis = Hypothesis(
            text=None if tokenizer is None else tokenizer.decode(token_ids),
            token_ids=token_ids,
            pieces=_pieces(tokenizer, token_ids),
            score=float(outputs["scores"][row, rank]),
            log_prob=float(outputs["log_probs"][row, rank]),
            ended=None if num_ends is None else num_ends > 0,
            alignments=alignments,
            token_log_probs=token_log_probs,
            constraints_met=constraints_met,
            top_tokens=top_tokens,
        )
        if tokenizer is not None and options.stops:
            given = self._num_given(source)
            hypothesis = cut_at_stop(hypothesis, options.stops, tokenizer, given)
        if tokenizer is not None and source.words and "alignments" in outputs:
            weights = outputs["alignments"][row, rank]
            hypothesis = with_source_words(hypothesis, weights, source.words, tokenizer)
        return hypothesis

    def _num_end_tokens(self, after: Integers) -> int | None:
        """Returns how many tokens after a hypothesis are its end token or stop sequence.

        `None` if the first one may be both padding and an end token.
        """
        ends, padding = self._settings.end_token_ids, self._settings.target.pad_token_id
        token_ids: list[int] = after.tolist()
        if padding in ends and token_ids[:1] in ([], [padding]):
            return None
        if token_ids and token_ids[0] in ends:
            return 1
        sequences = self._settings.stop_sequences
        return max((len(each) for each in sequences if token_ids[: len(each)] == each), default=0)


def _pieces(tokenizer: Tokenizer | None, token_ids: list[int]) -> list[str] | None:
    return None if tokenizer is None else tokenizer.pieces(token_ids)


def _top_tokens(
    ids: Integers, log_probs: Floats, tokenizer: Tokenizer | None
) -> list[list[TopToken]]:
    """Returns the `TopToken`s at each position, for arrays of shape `(positions, k)`."""
    different: list[int] = np.unique(ids).tolist()
    pieces: list[str] | list[None] = [None] * len(different)
    if tokenizer is not None:
        pieces = tokenizer.pieces(different)
    piece_of = dict(zip(different, pieces, strict=True))
    positions = zip(ids.tolist(), log_probs.tolist(), strict=True)
    return [
        [TopToken(id, piece_of[id], value) for id, value in zip(*position, strict=True)]
        for position in positions
    ]
