from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike

from keras_attn_runtime._array_types import Array, Arrays
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._engines.create_session import Providers
from keras_attn_runtime._engines.open_model import OpenedModel
from keras_attn_runtime._engines.session_pool import SessionPool
from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format import Settings
from keras_attn_runtime._file_info.tensor_value import TensorValue
from keras_attn_runtime._models.exported_model import ExportedModel, Phrases, SourceContent
from keras_attn_runtime._models.open_steps import open_steps
from keras_attn_runtime._models.stepped_search import NEXT, Sessions, SteppedSearch


class SteppedModel(ExportedModel):
    """A search exported by keras_attn in three parts; its loop runs in Python.

    `run` returns the same outputs as `ExportedModel.run`. `start` returns a search that the caller
    runs step by step.

    Args:
        path: string or path, the directory with `start.onnx`, `step.onnx` and `finish.onnx`, or the
            LiteRT file with the signatures `start`, `step` and `finish`.
        providers: ONNX Runtime execution providers, such as "cpu" or "cuda", in order of
            preference. Default: "cpu".
        num_threads: int in [1, 1024], number of threads per operator. Default: all cores.
        num_sessions: int of at least 1, number of sessions for each part. Default: 1.

    Raises:
        ModelFileError: if `path` is a different kind of file, or a file is damaged, was not
            exported by keras_attn, has a different format, or does not belong to `start.onnx`.
    """

    _parts: Sessions
    """The first start, step and finish sessions."""

    def start(
        self,
        sentences: Sequence[SourceContent],
        max_length: int,
        length_penalty: float,
        prefixes: Sequence[list[int]] | None = None,
        seeds: Sequence[int] | None = None,
        settings: Mapping[str, float] | None = None,
        constraints: Sequence[Phrases] | None = None,
        constraints_in_order: bool = False,
        token_bias: Mapping[int, float] | None = None,
        rule_inputs: Mapping[str, Array] | None = None,
    ) -> SteppedSearch:
        """Starts the search for one batch.

        Args:
            sentences: source ids of each sentence, or the arrays of its inputs.
            max_length: int, maximum number of tokens.
            length_penalty: float, length exponent in the ranking score.
            prefixes: ids that each result begins with. Default: none.
            seeds: int for each sentence, the seed for sampling. Default: none.
            settings, constraints, constraints_in_order, token_bias, rule_inputs: see
                `ExportedModel.run`.

        Returns:
            The `SteppedSearch` before its first step.

        Raises:
            BatchError: if the engine fails.
        """
        feeds = self._feeds(sentences, max_length, length_penalty, prefixes, seeds, settings)
        feeds |= self._constraint_feeds(len(sentences), constraints, constraints_in_order)
        feeds |= self._token_bias_feeds(len(sentences), token_bias)
        feeds |= self._rule_feeds(len(sentences), rule_inputs)
        return SteppedSearch(self._searches.next(), feeds)

    def _open(
        self,
        path: str | PathLike[str],
        providers: Providers | None,
        num_threads: int | None,
        num_sessions: int,
    ) -> OpenedModel[Settings]:
        opened, searches = open_steps(path, providers, num_threads, num_sessions)
        self._parts = searches[0]
        # Not exclusive: the state of a search is not in its sessions, so searches can take turns.
        self._searches = SessionPool(searches)
        return opened

    def _search(self, feeds: Arrays, call: Call) -> Arrays:
        with self._searches.borrow() as sessions:
            search = SteppedSearch(sessions, feeds, call)
            for _ in search:
                pass
            return search.results()

    def _search_until_stopped(
        self, feeds: Arrays, call: Call, is_stopped: Callable[[int, list[int]], bool]
    ) -> Arrays:
        with self._searches.borrow() as sessions:
            search = SteppedSearch(sessions, feeds, call)
            for _ in search:
                search.end_stopped(is_stopped)
            return search.results()

    def _check_signature(self) -> list[str]:
        """Returns the names of the search outputs.

        Raises an error if a part's input is not an output of an earlier part.
        """
        start, step, finish = self._parts
        of_step = ("length_penalty", *self.settings.runtime_settings)
        settings = {name: kind for name, kind in _types(step.inputs).items() if name in of_step}
        given = settings | _types(start.inputs)
        started = given | _types(start.outputs)
        stepped = {name.removeprefix(NEXT): kind for name, kind in _types(step.outputs).items()}
        _require_values("step", _types(step.inputs), started)
        done = {"done": "bool"}
        _require_values("the loop", done, started)
        _require_values("the loop", {"partial": "int32"} | done, stepped)
        # A search may be done before its first step.
        for values in (started, started | stepped):
            _require_values("finish", _types(finish.inputs), values)
        return [output.name for output in finish.outputs]


def _types(values: Iterable[TensorValue]) -> dict[str, str]:
    return {value.name: value.dtype for value in values}


def _require_values(reader: str, expected: Mapping[str, str], values: Mapping[str, str]) -> None:
    received = {name: values.get(name) for name in expected}
    wrong = {name: kind for name, kind in received.items() if kind != expected[name]}
    if wrong:
        expected = {name: expected[name] for name in wrong}
        raise ModelFileError(
            f"Expected values for {reader}: {expected}. Received: {wrong}. The files are damaged; "
            "export them again."
        )
