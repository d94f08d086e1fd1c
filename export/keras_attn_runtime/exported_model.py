import itertools
import queue
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from keras_attn_runtime.cancellation import Call
from keras_attn_runtime.checksum import verify_checksum
from keras_attn_runtime.errors import ModelFileError, run_failures
from keras_attn_runtime.file_checksum import (
    WEIGHTS_KEY,
    load_unchanged,
    verify_file_checksum,
    verify_weights_checksum,
    weights_of,
)
from keras_attn_runtime.file_format import Settings, tokenizer_of
from keras_attn_runtime.foreign_files import describe_foreign
from keras_attn_runtime.outputs import check_outputs
from keras_attn_runtime.pickled_arguments import PickledArguments
from keras_attn_runtime.session import create_session
from keras_attn_runtime.tokenizer import Tokenizer

PREFIX, SEEDS = "prefix_ids", "seeds"
"""Inputs of a search that not all files have."""

OUTPUTS = ("token_ids", "lengths", "scores", "log_probs")
OTHER_OUTPUTS = ("alignments", "token_log_probs")  # on request of who exports


class ExportedModel(PickledArguments):
    """One ONNX file exported by keras_attn: its session, settings and tokenizers.

    Args:
        path: string or path of the file, or of the directory with `model.onnx` and its weights.
        providers, num_threads: see `create_session`.
        num_sessions: int of at least 1. Threads that run at the same time in one session wait for
            each other's memory. Default: 1.

    Attributes:
        files: list of paths, the file and, where they are outside of it, its weights.
        supports_target_prefix: bool, whether translations can be told what to begin with.
        is_stochastic: bool, whether tokens are drawn at random, by `seeds`.
        source_tokenizer, target_tokenizer: `Tokenizer`s, `None` where the file has none.

    Raises:
        IsADirectoryError: if the directory has no `model.onnx`.
        ModelFileError: if the file is damaged, from elsewhere, or of another format.
    """

    def __init__(self, path, providers=None, num_threads=None, num_sessions=1):
        given, path = Path(path), _file(Path(path))
        weights = weights_of(path)

        def load():
            verify_file_checksum(path)
            self._sessions = [
                create_session(path, providers, num_threads) for _ in range(num_sessions)
            ]
            metadata = self._metadata()
            self.settings = Settings.from_metadata(metadata, self._input_names())
            verify_checksum(metadata)
            verify_weights_checksum(path, metadata)
            return metadata

        metadata = load_unchanged(load, path, weights)
        self._share(self._sessions)
        # A file that was changed on purpose has no checksum, also of its weights.
        has_weights = WEIGHTS_KEY in metadata or (given != path and weights.is_file())
        self.files = [path, weights] if has_weights else [path]
        self.supports_target_prefix = PREFIX in self.settings.search_inputs
        self.is_stochastic = SEEDS in self.settings.search_inputs
        outputs = self._check_signature()
        self.has_alignments = "alignments" in outputs
        self.has_token_log_probs = "token_log_probs" in outputs
        self._output_names = [*OUTPUTS, *(name for name in OTHER_OUTPUTS if name in outputs)]
        self.source_tokenizer = self._tokenizer(metadata, "source")
        self.target_tokenizer = self._tokenizer(metadata, "target")

    def run(self, sentences, max_length, length_penalty, prefixes=None, seeds=None, call=None):
        """Searches for the translations of one batch.

        Args:
            sentences: list of lists of ints, source ids, with the start and end tokens that the
                settings of the file ask for; or, for a file with other inputs, list of dicts of
                arrays of the same shapes, by the names of the inputs.
            max_length: int of at least 1, limit of output tokens.
            length_penalty: float.
            prefixes: list of lists of ints, target ids that each translation begins with, for a
                file that `supports_target_prefix`. Default: nothing.
            seeds: list of ints in [0, 2**31), for a file that is stochastic. Default: zeros.
            call: `Call` that can stop the run. Default: none.

        Returns:
            Dict of arrays by output name: int32 `token_ids (batch, hypotheses, target_length)` and
            `lengths (batch, hypotheses)`, float32 `scores` and `log_probs` `(batch, hypotheses)`,
            and, if the file has them, `alignments (batch, hypotheses, target_length,
            source_length)` and `token_log_probs (batch, hypotheses, target_length)`.

        Raises:
            BatchError: if ONNX Runtime fails, or `call` is stopped.
            ModelFileError: if the outputs do not fit the batch.
        """
        longest = None if isinstance(sentences[0], dict) else max(map(len, sentences))
        with run_failures(len(sentences), longest):
            feeds = self._feeds(sentences, max_length, length_penalty, prefixes, seeds)
            outputs = self._search(feeds, call or Call())
        check_outputs(outputs, len(sentences), self.settings)
        return outputs

    def signature(self):
        """Dict of the lists `"input"` and `"output"`, each value with `name`, `type`, `shape`."""
        session = self._sessions[0]
        return {"input": session.get_inputs(), "output": session.get_outputs()}

    def _metadata(self):
        try:
            return self._sessions[0].get_modelmeta().custom_metadata_map
        except UnicodeDecodeError as error:
            raise ModelFileError(
                f"The metadata of the file is not text ({error}). The file is damaged; export it "
                "again."
            ) from error

    def _share(self, sessions):
        """Lets threads take turns in the sessions of this list."""
        self._turns = itertools.cycle(sessions)
        self._free = queue.SimpleQueue()
        for session in sessions:
            self._free.put(session)

    @contextmanager
    def _session(self):
        """A session that nobody uses; where more threads ask than there are sessions, any."""
        try:
            session = self._free.get_nowait()
        except queue.Empty:
            yield next(self._turns)
            return
        try:
            yield session
        finally:
            self._free.put(session)

    def _search(self, feeds, call):
        with self._session() as session, call.run_options() as run_options:
            outputs = session.run(self._output_names, feeds, run_options)
        return dict(zip(self._output_names, outputs, strict=True))

    def _feeds(self, sentences, max_length, length_penalty, prefixes, seeds):
        feeds = {
            **self._source_feeds(sentences),
            "max_length": np.array(max_length, np.int32),
            "length_penalty": np.array(length_penalty, np.float32),
        }
        if self.supports_target_prefix:
            prefixes = prefixes or [[]] * len(sentences)
            feeds[PREFIX] = _padded(prefixes, self.settings.target.pad_token_id)
        if self.is_stochastic:
            feeds[SEEDS] = np.array(seeds or [0] * len(sentences), np.int32)
        return feeds

    def _source_feeds(self, sentences):
        if isinstance(sentences[0], dict):
            return {name: np.stack([each[name] for each in sentences]) for name in sentences[0]}
        return {"source_ids": _padded(sentences, self.settings.source.pad_token_id)}

    def _input_names(self):
        return [input.name for input in self._sessions[0].get_inputs()]

    def _check_signature(self):
        inputs = self._input_names()
        outputs = [output.name for output in self._sessions[0].get_outputs()]
        expected = [*self.settings.inputs, *self.settings.search_inputs]
        if sorted(inputs) != sorted(expected) or not set(OUTPUTS) <= set(outputs):
            raise ModelFileError(
                f"Expected a file with inputs {expected} and outputs {list(OUTPUTS)}. "
                f"Received: {inputs=}, {outputs=}. Export it again."
            )
        return outputs

    def _tokenizer(self, metadata, side):
        settings = getattr(self.settings, side)
        if settings is None or settings.tokenizer != "sentencepiece":
            return None
        tokenizer = Tokenizer(tokenizer_of(metadata, side))
        vocabulary_size = settings.vocabulary_size
        if tokenizer.vocabulary_size > vocabulary_size:
            raise ModelFileError(
                f"Expected a {side} tokenizer of at most {vocabulary_size} pieces, the model's "
                f"vocabulary. Received: vocabulary_size={tokenizer.vocabulary_size}. Export it "
                "again."
            )
        return tokenizer


def _padded(rows, pad_token_id):
    """Lists of ids as one array `(batch, longest)`."""
    ids = np.full((len(rows), max(map(len, rows))), pad_token_id, np.int32)
    for row, values in zip(ids, rows, strict=True):
        row[: len(values)] = values
    return ids


def _file(path):
    """The ONNX file of a path that may be a directory."""
    if not path.is_dir():
        return path
    inside = path / "model.onnx"
    if inside.is_file():
        return inside
    foreign = describe_foreign(path) or "a directory without it. Give an ONNX file."
    raise IsADirectoryError(
        f"Expected a file, or a directory with model.onnx. Received: {str(path)!r}, {foreign}"
    )
