from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TypeAlias, TypedDict

import numpy as np

from keras_attn_runtime._array_types import Array, Arrays
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._calls.search_settings import INTEGERS, NUM_HYPOTHESES, SETTINGS
from keras_attn_runtime._engines.create_session import Providers
from keras_attn_runtime._engines.fixed_sizes import fixed_batch_size, fixed_length, run_rows
from keras_attn_runtime._engines.open_model import OpenedModel, open_model
from keras_attn_runtime._engines.pickled_arguments import PickledArguments
from keras_attn_runtime._engines.session_pool import SessionPool
from keras_attn_runtime._errors import ModelFileError, run_failures
from keras_attn_runtime._file_format import Settings
from keras_attn_runtime._file_format.settings import (
    CONSTRAINT_IDS,
    CONSTRAINTS_IN_ORDER,
    TOKEN_BIAS_IDS,
    TOKEN_BIAS_VALUES,
)
from keras_attn_runtime._file_info.tensor_value import TensorValue
from keras_attn_runtime._models.outputs import SearchOutputs, check_outputs
from keras_attn_runtime._models.source_rows import padded_phrases, padded_rows, source_rows
from keras_attn_runtime._text.open_tokenizer import open_tokenizer

PREFIX, SEEDS = "prefix_ids", "seeds"
"""Optional search inputs."""

OUTPUTS = ("token_ids", "lengths", "scores", "log_probs")
TOP_TOKENS = ("top_token_ids", "top_token_log_probs")
OTHER_OUTPUTS = ("alignments", "token_log_probs", *TOP_TOKENS, "constraints_met")
"""Outputs of files with these options."""

Phrases: TypeAlias = list[list[list[int]]]
"""The phrases of a sentence: a list of alternatives for each, which are lists of ids."""

SourceContent: TypeAlias = list[int] | Arrays
"""A sentence's source ids, or a dict from input names to arrays."""


class Signature(TypedDict):
    """A file's inputs and outputs."""

    input: Sequence[TensorValue]
    output: Sequence[TensorValue]


class ExportedModel(PickledArguments):
    """Session, settings and tokenizers of an ONNX or LiteRT file exported by keras_attn.

    Args:
        path: string or path, the file, or the directory with `model.onnx` and its weights.
        providers: ONNX Runtime execution providers, such as "cpu" or "cuda", in order of
            preference, see `create_session`. Default: "cpu".
        num_threads: int in [1, 1024], number of threads per operator. Default: all cores.
        num_sessions: int of at least 1, number of sessions. Concurrent runs in one session wait for
            its shared memory allocator (ONNX Runtime) or for the other run (LiteRT), so each worker
            needs its own session. Default: 1.

    Attributes:
        engine: string, "ONNX Runtime" or "LiteRT".
        batch_size: int, the file's fixed batch size, or `None`. Smaller batches are filled with
            copies of a row, whose results are dropped.
        source_length: int, the fixed number of source ids, or `None`. Shorter sources are padded.
        files: list of paths: the file and, if present, its external weights.
        supports_target_prefix: bool, whether the file takes the input `prefix_ids`.
        supports_constraints: bool, whether the file takes the input `constraint_ids`.
        supports_token_bias: bool, whether the file takes the input `token_bias_ids`.
        is_stochastic: bool, whether the file takes the input `seeds`, because its search samples.
        has_alignments, has_token_log_probs: bools, whether the file returns these outputs.
        has_top_tokens: bool, whether the file returns the most probable tokens.
        source_tokenizer, target_tokenizer: `Tokenizer`s, or `None` without a tokenizer for this
            side.

    Raises:
        IsADirectoryError: if the directory contains no `model.onnx`.
        ModelFileError: if the file is damaged, not exported by keras_attn, or has a different
            format.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        providers: Providers | None = None,
        num_threads: int | None = None,
        num_sessions: int = 1,
    ) -> None:
        opened = self._open(path, providers, num_threads, num_sessions)
        self._sessions, metadata, self.settings = opened.sessions, opened.metadata, opened.settings
        first = self._sessions[0]
        self._pool = SessionPool(self._sessions, not first.supports_concurrent_runs)
        self.engine = first.engine
        self.batch_size = fixed_batch_size(first)
        self.source_length = fixed_length(first, "source_ids")
        self._prefix_length = fixed_length(first, PREFIX)
        self.files = opened.files
        unknown = sorted(set(self.settings.runtime_settings) - {NUM_HYPOTHESES, *SETTINGS})
        if unknown:
            raise ModelFileError(
                f"Expected settings of the search out of {list(SETTINGS)}. Received: {unknown}. "
                "Install a newer keras-attn-runtime."
            )
        self.supports_target_prefix = PREFIX in self.settings.search_inputs
        self.supports_constraints = CONSTRAINT_IDS in self.settings.search_inputs
        self.supports_token_bias = TOKEN_BIAS_IDS in self.settings.search_inputs
        self.is_stochastic = SEEDS in self.settings.search_inputs
        outputs = self._check_signature()
        self.has_alignments = "alignments" in outputs
        self.has_token_log_probs = "token_log_probs" in outputs
        self.has_top_tokens = set(TOP_TOKENS) <= set(outputs)
        self._output_names = [*OUTPUTS, *(name for name in OTHER_OUTPUTS if name in outputs)]
        self.source_tokenizer = open_tokenizer(metadata, "source", self.settings.source)
        self.target_tokenizer = open_tokenizer(metadata, "target", self.settings.target)

    def run(
        self,
        sentences: Sequence[SourceContent],
        max_length: int,
        length_penalty: float,
        prefixes: Sequence[list[int]] | None = None,
        seeds: Sequence[int] | None = None,
        call: Call | None = None,
        settings: Mapping[str, float] | None = None,
        constraints: Sequence[Phrases] | None = None,
        constraints_in_order: bool = False,
        token_bias: Mapping[int, float] | None = None,
        rule_inputs: Mapping[str, Array] | None = None,
        is_stopped: Callable[[int, list[int]], bool] | None = None,
    ) -> SearchOutputs:
        """Searches for the translations of a batch.

        Args:
            sentences: list of lists of ints, the source ids with the start and end tokens that the
                file's settings require. For a file with other inputs, list of dicts from input
                names to arrays. All arrays for one input have the same shape.
            max_length: int of at least 1, maximum number of output tokens.
            length_penalty: float.
            prefixes: list of lists of ints, the first target ids in each translation. Ignored
                unless `supports_target_prefix`. Default: empty prefixes.
            seeds: list of ints in [0, 2**31), one for each sentence. Ignored unless
                `is_stochastic`. Default: zeros.
            call: `Call` that can stop the run. Default: none.
            settings: dict from further inputs of the search, such as `temperature`, to numbers.
                Names of other inputs are ignored. Default: the values in the file.
            constraints: list of phrases for each sentence, which the translation must contain; a
                phrase is a list of alternatives, which are lists of target ids. Ignored unless
                `supports_constraints`. Default: no phrases.
            constraints_in_order: bool, whether the phrases must occur in their order. Default:
                False.
            token_bias: dict from target ids to values that are added to their log probabilities.
                Ignored unless `supports_token_bias`. Default: no biases.
            rule_inputs: dict from inputs of rules to arrays, which are scalars or have no batch
                axis. Default: the values in the file.
            is_stopped: function of a sentence's index and a hypothesis's token ids. Files of single
                steps end the search of a sentence whose open hypotheses are all stopped, see
                `SteppedSearch.end_stopped`; other files ignore it. Default: none.

        Returns:
            Dict from output names to arrays: int32 `token_ids (batch, hypotheses, target_length)`
            and `lengths (batch, hypotheses)`, float32 `scores` and `log_probs` `(batch,
            hypotheses)`, and, if the file returns them, `alignments (batch, hypotheses,
            target_length, source_length)`, `token_log_probs (batch, hypotheses, target_length)`,
            `top_token_ids` (int32) and `top_token_log_probs` `(batch, hypotheses, target_length,
            k)`, and bool `constraints_met (batch, hypotheses, phrases)`.

        Raises:
            BatchError: if the engine fails, there are more rows than `batch_size`, or `call` is
                stopped.
            ModelFileError: if an output has a wrong shape, dtype or value.
        """
        ids, _ = _ids_and_arrays(sentences)
        longest = max(map(len, ids)) if ids else None
        with run_failures(len(sentences), longest, self.engine):
            feeds = self._feeds(sentences, max_length, length_penalty, prefixes, seeds, settings)
            feeds |= self._constraint_feeds(len(sentences), constraints, constraints_in_order)
            feeds |= self._token_bias_feeds(len(sentences), token_bias)
            feeds |= self._rule_feeds(len(sentences), rule_inputs)
            call = call or Call()
            if is_stopped is None:
                outputs = self._search(feeds, call)
            else:
                outputs = self._search_until_stopped(feeds, call, is_stopped)
        return self._checked(outputs, len(sentences), settings)

    def signature(self) -> Signature:
        """Returns the file's inputs and outputs."""
        session = self._sessions[0]
        return {"input": session.inputs, "output": session.outputs}

    def _open(
        self,
        path: str | PathLike[str],
        providers: Providers | None,
        num_threads: int | None,
        num_sessions: int,
    ) -> OpenedModel[Settings]:
        return open_model(path, Settings.from_metadata, providers, num_threads, num_sessions)

    def _search_until_stopped(
        self, feeds: Arrays, call: Call, is_stopped: Callable[[int, list[int]], bool]
    ) -> Arrays:
        """Runs the whole search, because its loop is inside of the file."""
        return self._search(feeds, call)

    def _search(self, feeds: Arrays, call: Call) -> Arrays:
        with self._pool.borrow(call) as session:
            return run_rows(session, self._output_names, feeds, call)

    def _checked(
        self, outputs: Arrays, rows: int, settings: Mapping[str, float] | None
    ) -> SearchOutputs:
        count = (settings or {}).get(NUM_HYPOTHESES, self.settings.num_hypotheses)
        if NUM_HYPOTHESES not in self.settings.search_inputs:
            count = self.settings.num_hypotheses
        return check_outputs(outputs, (rows, int(count)), self.settings)

    def _feeds(
        self,
        sentences: Sequence[SourceContent],
        max_length: int,
        length_penalty: float,
        prefixes: Sequence[list[int]] | None,
        seeds: Sequence[int] | None,
        settings: Mapping[str, float] | None = None,
    ) -> Arrays:
        feeds: Arrays = {
            **self._source_feeds(sentences),
            "max_length": np.array(max_length, np.int32),
            "length_penalty": np.array(length_penalty, np.float32),
        }
        given = settings or {}
        for name, default in self.settings.runtime_settings.items():
            dtype = np.int32 if name in INTEGERS else np.float32
            feeds[name] = np.array(given.get(name, default), dtype)
        if self.supports_target_prefix:
            nothing: list[list[int]] = [[]] * len(sentences)
            padding = self.settings.target.pad_token_id
            feeds[PREFIX] = padded_rows(prefixes or nothing, padding, self._prefix_length)
        if self.is_stochastic:
            feeds[SEEDS] = np.array(seeds or [0] * len(sentences), np.int32)
        return feeds

    def _constraint_feeds(
        self, count: int, constraints: Sequence[Phrases] | None, in_order: bool
    ) -> Arrays:
        if not self.supports_constraints:
            return {}
        nothing: list[Phrases] = [[]] * count
        return {
            CONSTRAINT_IDS: padded_phrases(constraints or nothing),
            CONSTRAINTS_IN_ORDER: np.array(in_order, np.bool_),
        }

    def _token_bias_feeds(self, count: int, token_bias: Mapping[int, float] | None) -> Arrays:
        if not self.supports_token_bias:
            return {}
        bias = token_bias or {}
        shape = (count, len(bias))
        return {
            TOKEN_BIAS_IDS: np.broadcast_to(np.array([*bias], np.int32), shape),
            TOKEN_BIAS_VALUES: np.broadcast_to(np.array([*bias.values()], np.float32), shape),
        }

    def _rule_feeds(self, count: int, rule_inputs: Mapping[str, Array] | None) -> Arrays:
        given: Mapping[str, Array] = rule_inputs or {}
        feeds: Arrays = {}
        for name, each in self.settings.rule_inputs.items():
            value = np.array(each["default"], each["dtype"])
            if name in given:
                value = given[name][None] if each["shape"] else given[name]
            feeds[name] = np.repeat(value, count, axis=0) if each["shape"] else value
        return feeds

    def _source_feeds(self, sentences: Sequence[SourceContent]) -> Arrays:
        ids, arrays = _ids_and_arrays(sentences)
        if arrays:
            return {name: np.stack([row[name] for row in arrays]) for name in arrays[0]}
        if self.settings.source is None:
            raise ValueError(
                f"Expected arrays for the inputs {list(self.settings.inputs)}. Received: "
                f"sentences={ids}, which are ids."
            )
        return {"source_ids": source_rows(ids, self.settings.source, self.source_length)}

    def _check_signature(self) -> list[str]:
        """Returns the output names; raises an error for unexpected inputs or outputs."""
        inputs = [entry.name for entry in self._sessions[0].inputs]
        outputs = [entry.name for entry in self._sessions[0].outputs]
        expected = [*self.settings.inputs, *self.settings.search_inputs]
        if sorted(inputs) != sorted(expected) or not set(OUTPUTS) <= set(outputs):
            raise ModelFileError(
                f"Expected a file with inputs {expected} and outputs {list(OUTPUTS)}. "
                f"Received: {inputs=}, {outputs=}. Export the model again."
            )
        return outputs


def _ids_and_arrays(sentences: Sequence[SourceContent]) -> tuple[list[list[int]], list[Arrays]]:
    """Returns a batch's ids and its arrays; one of the two lists is empty."""
    ids = [row for row in sentences if not isinstance(row, dict)]
    return ids, [row for row in sentences if isinstance(row, dict)]
