from collections.abc import Hashable
from os import PathLike

import numpy as np

from keras_attn_runtime._array_types import Array, Arrays, Floats
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._calls.options import Options
from keras_attn_runtime._classify.classification import Classification
from keras_attn_runtime._engines.create_session import Providers
from keras_attn_runtime._engines.fixed_sizes import fixed_batch_size, fixed_length, run_rows
from keras_attn_runtime._engines.open_model import open_model
from keras_attn_runtime._engines.session_pool import SessionPool
from keras_attn_runtime._errors import ModelFileError, run_failures
from keras_attn_runtime._file_format import ClassifierSettings
from keras_attn_runtime._inputs.source import Source
from keras_attn_runtime._models.source_rows import source_rows
from keras_attn_runtime._text.open_tokenizer import open_tokenizer


class ClassifierModel:
    """Session, settings and tokenizer of an ONNX or LiteRT file with a text classifier.

    It is the `BatchModel` of a `Classifier`.

    Args:
        path, providers, num_threads: see `Classifier`.
        num_sessions: int of at least 1, number of sessions.

    Attributes:
        settings: `ClassifierSettings`.
        batch_size, source_length: ints, the file's fixed sizes, or `None`.
        source_tokenizer: `Tokenizer`.

    Raises:
        ModelFileError: if the file is damaged, or not a classifier of texts.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        providers: Providers | None,
        num_threads: int | None,
        num_sessions: int,
    ) -> None:
        opened = open_model(
            path,
            lambda metadata, _: ClassifierSettings.from_metadata(metadata),
            providers,
            num_threads,
            num_sessions,
        )
        self.settings = settings = opened.settings
        session = opened.sessions[0]
        self._pool = SessionPool(opened.sessions, not session.supports_concurrent_runs)
        self._engine = session.engine
        (ids,) = (name for name, entry in settings.inputs.items() if entry.kind == "ids")
        self.batch_size = fixed_batch_size(session)
        self.source_length = fixed_length(session, ids)
        self._outputs = [settings.output, *filter(None, [settings.attention])]
        inputs, outputs = (
            [entry.name for entry in entries] for entries in (session.inputs, session.outputs)
        )
        if sorted(inputs) != sorted(settings.inputs) or not set(self._outputs) <= set(outputs):
            raise ModelFileError(
                f"Expected a file with inputs {list(settings.inputs)} and outputs {self._outputs}. "
                f"Received: {inputs=}, {outputs=}. Export the model again."
            )
        tokenizer = open_tokenizer(opened.metadata, "source", settings.source)
        if tokenizer is None:
            raise ModelFileError(
                "Expected a file with a tokenizer. Received: tokenizer="
                f"{settings.source.tokenizer!r}. Export it with tokenizer=...."
            )
        self.source_tokenizer = tokenizer

    def group_of(self, source: Source) -> Hashable:
        """Returns the number of ids if padding would change the results."""
        return None if self.settings.ignores_padding else len(source.ids)

    def result_of_nothing(self, source: Source, options: Options) -> Classification:
        """Returns the `Classification` of a text without tokens."""
        return Classification(None, None, {}, [], None, source.truncated)

    def results(self, sources: list[Source], options: Options, call: Call) -> list[Classification]:
        """Runs a batch, see `BatchModel.results`."""
        rows = [source.ids for source in sources]
        longest = max(map(len, rows))
        with (
            run_failures(len(rows), longest, self._engine),
            self._pool.borrow(call) as session,
        ):
            outputs = run_rows(session, self._outputs, self._feeds(rows), call)
        probabilities = self._probabilities(outputs[self.settings.output], len(rows))
        attention = [None] * len(rows)
        if self.settings.attention is not None:
            attention = self._weights(outputs[self.settings.attention], len(rows), longest)
        return [
            self._classification(*row)
            for row in zip(sources, probabilities, attention, strict=True)
        ]

    def _feeds(self, rows: list[list[int]]) -> Arrays:
        ids = source_rows(rows, self.settings.source, self.source_length)
        lengths = np.array([len(row) for row in rows], np.int32)
        arrays: Arrays = {
            "ids": ids,
            "mask": np.arange(ids.shape[1]) < lengths[:, None],
            "lengths": lengths,
            "token_types": np.zeros_like(ids),
        }
        inputs = self.settings.inputs.items()
        return {name: arrays[entry.kind].astype(entry.dtype) for name, entry in inputs}

    def _probabilities(self, values: Array, num_rows: int) -> Floats:
        """Returns the probability of each label `(batch, labels)`, in float32."""
        labels = self.settings.labels
        columns = values.shape[1] if values.ndim == 2 else 0
        is_binary = columns == 1 and len(labels) == 2
        if len(values) != num_rows or not (is_binary or columns == len(labels)):
            raise ModelFileError(
                f"Expected an output {self.settings.output!r} of shape ({num_rows}, {len(labels)})."
                f" Received: shape={values.shape}. Export the model again."
            )
        values = values.astype(np.float32)
        if not np.isfinite(values).all():
            raise ModelFileError(
                f"Expected finite numbers in the output {self.settings.output!r}. Received: nan or "
                "inf. Export the model again, after a training without nan."
            )
        if self.settings.activation == "softmax":
            values = np.exp(values - values.max(axis=1, keepdims=True))
            values /= values.sum(axis=1, keepdims=True)
        elif self.settings.activation == "sigmoid":
            values = np.exp(-np.logaddexp(0, -values))
        return np.concatenate([1 - values, values], axis=1) if is_binary else values

    def _weights(self, weights: Array, num_rows: int, longest: int) -> Array:
        if weights.ndim < 2 or len(weights) != num_rows or weights.shape[-1] < longest:
            raise ModelFileError(
                f"Expected an output {self.settings.attention!r} with a weight for each of "
                f"{longest} ids in {num_rows} rows. Received: shape={weights.shape}. Export the "
                "model again."
            )
        return weights

    def _classification(
        self, source: Source, probabilities: Floats, attention: Floats | None
    ) -> Classification:
        values: list[float] = probabilities.tolist()
        best = int(probabilities.argmax())
        if attention is not None:
            attention = attention[..., : len(source.ids)].copy()  # a view would keep the batch
            if attention.size == len(source.ids):
                attention = attention.reshape(-1)
        return Classification(
            self.settings.labels[best],
            values[best],
            dict(zip(self.settings.labels, values, strict=True)),
            self.source_tokenizer.pieces(source.ids),
            attention,
            source.truncated,
        )
