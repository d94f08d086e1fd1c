import itertools
from pathlib import Path

import numpy as np

from keras_attn_runtime.checksum import verify_checksum
from keras_attn_runtime.errors import ModelFileError, run_failures
from keras_attn_runtime.file_checksum import verify_file_checksum, verify_weights_checksum
from keras_attn_runtime.session import create_session
from keras_attn_runtime.settings import Settings
from keras_attn_runtime.tokenizer import Tokenizer

INPUTS = ("source_ids", "max_length", "length_penalty")
OUTPUTS = ("token_ids", "lengths", "scores", "log_probs")


class ExportedModel:
    """One ONNX file exported by keras_attn: its session, settings and tokenizers.

    Args:
        path: string or path of the file, or of the directory with `model.onnx` and its weights.
        providers, num_threads: see `create_session`.
        num_sessions: int of at least 1, sessions that take turns. Threads that run at the same time
            in one session wait for each other's memory. Default: 1.

    Raises:
        ModelFileError: if the file is damaged, from elsewhere, or of another format.
    """

    def __init__(self, path, providers=None, num_threads=None, num_sessions=1):
        inside = Path(path) / "model.onnx"
        path = inside if inside.is_file() else path
        verify_file_checksum(path)
        self._sessions = [create_session(path, providers, num_threads) for _ in range(num_sessions)]
        self._turns = itertools.cycle(self._sessions)
        try:
            metadata = self._sessions[0].get_modelmeta().custom_metadata_map
        except UnicodeDecodeError as error:
            raise ModelFileError(
                f"The metadata of the file is not text ({error}). The file is damaged; export it "
                "again."
            ) from error
        self.settings = Settings.from_metadata(metadata)
        verify_checksum(metadata)
        verify_weights_checksum(path, metadata)
        outputs = self._check_signature()
        self.has_alignments = "alignments" in outputs
        self._output_names = [*OUTPUTS, "alignments"] if self.has_alignments else list(OUTPUTS)
        self.source_tokenizer = self._tokenizer(metadata, "source")
        self.target_tokenizer = self.source_tokenizer  # a shared vocabulary is stored once
        if "keras_attn.target_tokenizer" in metadata:
            self.target_tokenizer = self._tokenizer(metadata, "target")

    def run(self, sentences, max_length, length_penalty):
        """Searches for the translations of one batch.

        Args:
            sentences: list of lists of ints, source ids, each with its end token.
            max_length: int of at least 1, limit of output tokens.
            length_penalty: float.

        Returns:
            Dict of arrays by output name: int32 `token_ids (batch, hypotheses, target_length)` and
            `lengths (batch, hypotheses)`, float32 `scores` and `log_probs` `(batch, hypotheses)`,
            and `alignments (batch, hypotheses, target_length, source_length)` if the file has them.

        Raises:
            ModelFileError: if ONNX Runtime fails or the outputs do not fit the batch.
        """
        feeds = self._feeds(sentences, max_length, length_penalty)
        outputs = self._search(feeds)
        self._check_shapes(outputs, len(sentences))
        return outputs

    def signature(self):
        """Dict of the lists `"input"` and `"output"`, each value with `name`, `type`, `shape`."""
        session = self._sessions[0]
        return {"input": session.get_inputs(), "output": session.get_outputs()}

    def _search(self, feeds):
        with run_failures(*feeds["source_ids"].shape):
            outputs = next(self._turns).run(self._output_names, feeds)
        return dict(zip(self._output_names, outputs, strict=True))

    def _feeds(self, sentences, max_length, length_penalty):
        source_length = max(map(len, sentences))
        source_ids = np.full(
            (len(sentences), source_length), self.settings.pad_token_id, np.int32
        )  # (B, S)
        for row, sentence in zip(source_ids, sentences, strict=True):
            row[: len(sentence)] = sentence
        return {
            "source_ids": source_ids,
            "max_length": np.array(max_length, np.int32),
            "length_penalty": np.array(length_penalty, np.float32),
        }

    def _check_signature(self):
        inputs = [input.name for input in self._sessions[0].get_inputs()]
        outputs = [output.name for output in self._sessions[0].get_outputs()]
        if sorted(inputs) != sorted(INPUTS) or not set(OUTPUTS) <= set(outputs):
            raise ModelFileError(
                f"Expected a file with inputs {list(INPUTS)} and outputs {list(OUTPUTS)}. "
                f"Received: {inputs=}, {outputs=}. Export it again."
            )
        return outputs

    def _check_shapes(self, outputs, batch):
        shapes = {name: array.shape for name, array in outputs.items()}
        expected = (batch, self.settings.num_hypotheses)
        if any(shape[:2] != expected for shape in shapes.values()):
            raise ModelFileError(
                f"Expected outputs of shape (batch, num_hypotheses, ...) = {expected}. "
                f"Received: {shapes=}. The file is damaged; export it again."
            )

    def _tokenizer(self, metadata, side):
        if f"keras_attn.{side}_tokenizer" not in metadata:
            raise ModelFileError(f"The file has no {side} tokenizer. Export it again.")
        tokenizer = Tokenizer(metadata[f"keras_attn.{side}_tokenizer"])
        vocabulary_size = getattr(self.settings, f"{side}_vocabulary_size")
        if tokenizer.vocabulary_size > vocabulary_size:
            raise ModelFileError(
                f"Expected a {side} tokenizer of at most {vocabulary_size} pieces, the model's "
                f"vocabulary. Received: vocabulary_size={tokenizer.vocabulary_size}. Export it "
                "again."
            )
        return tokenizer
