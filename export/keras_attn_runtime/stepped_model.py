from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from keras_attn_runtime.array_types import Arrays
from keras_attn_runtime.cancellation import Call
from keras_attn_runtime.engines.onnx_session import OnnxSession
from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.exported_model import ExportedModel, SourceContent
from keras_attn_runtime.file_checksum import KEY, load_unchanged, verify_file_checksum
from keras_attn_runtime.file_format.litert_container import is_litert_file
from keras_attn_runtime.foreign_files import describe_foreign
from keras_attn_runtime.session import Providers, create_session
from keras_attn_runtime.session_pool import SessionPool
from keras_attn_runtime.stepped_search import NEXT, SteppedSearch

if TYPE_CHECKING:
    import onnxruntime

FILES = ("start.onnx", "step.onnx", "finish.onnx")


class SteppedModel(ExportedModel):
    """Three ONNX files exported by keras_attn; the loop of the search runs in Python.

    `run` returns the same outputs as `ExportedModel.run`. `start` returns a search that the caller
    runs step by step.

    Args:
        directory: string or path of the directory with `start.onnx`, `step.onnx` and `finish.onnx`.
        providers, num_threads, num_sessions: see `ExportedModel`.

    Raises:
        ModelFileError: if `directory` is a file, or a file is damaged, was not exported by
            keras_attn, has another format, or does not belong to `start.onnx`.
    """

    _others: "list[tuple[onnxruntime.InferenceSession, onnxruntime.InferenceSession]]"
    """For each session of `start.onnx`, the sessions of `step.onnx` and `finish.onnx`."""

    def __init__(
        self,
        directory: str | PathLike[str],
        providers: Providers | None = None,
        num_threads: int | None = None,
        num_sessions: int = 1,
    ) -> None:
        expected = f"Expected a directory with {', '.join(FILES)}. Received: {str(directory)!r}"
        if Path(directory).is_file():
            advice = "Use `Translator`, or export it with `onnx-steps`."
            foreign = None if is_litert_file(directory) else describe_foreign(directory)
            received = foreign or f"a file. {advice}"
            raise ModelFileError(f"{expected}, {received}")
        if Path(directory).is_dir() and not (Path(directory) / FILES[0]).exists():
            received = describe_foreign(directory) or "a directory without them."
            raise FileNotFoundError(f"{expected}, {received}")
        start, step, finish = (Path(directory) / name for name in FILES)

        def load() -> None:
            for path in (step, finish):
                verify_file_checksum(path)
            self._others = [
                (
                    create_session(step, providers, num_threads),
                    create_session(finish, providers, num_threads),
                )
                for _ in range(num_sessions)
            ]
            super(SteppedModel, self).__init__(start, providers, num_threads, num_sessions)

        load_unchanged(load, start, step, finish)
        self._searches = SessionPool(
            [(first, *others) for first, others in zip(self._starts(), self._others, strict=True)]
        )

    def start(
        self,
        sentences: Sequence[SourceContent],
        max_length: int,
        length_penalty: float,
        prefixes: Sequence[list[int]] | None = None,
        seeds: Sequence[int] | None = None,
        call: Call | None = None,
    ) -> SteppedSearch:
        """Starts the search of one batch.

        Args:
            sentences, max_length, length_penalty, prefixes, seeds, call: see `ExportedModel.run`.

        Returns:
            The `SteppedSearch` before its first step.

        Raises:
            BatchError: if ONNX Runtime fails.
        """
        feeds = self._feeds(sentences, max_length, length_penalty, prefixes, seeds)
        return SteppedSearch(self._searches.next(), feeds, call)

    def _search(self, feeds: Arrays, call: Call) -> Arrays:
        with self._searches.borrow() as sessions:
            search = SteppedSearch(sessions, feeds, call)
            for _ in search:
                pass
            return search.results()

    def _starts(self) -> "list[onnxruntime.InferenceSession]":
        """Returns the sessions of `start.onnx`."""
        return [each.inference for each in self._sessions if isinstance(each, OnnxSession)]

    def _check_signature(self) -> list[str]:
        start, (step, finish) = self._starts()[0], self._others[0]
        # None if a user edited the file and deleted its checksum.
        expected = start.get_modelmeta().custom_metadata_map.get(KEY)
        for name, session in zip(FILES[1:], (step, finish), strict=True):
            received = session.get_modelmeta().custom_metadata_map.get("keras_attn.start")
            if received is None or expected not in (None, received):
                raise ModelFileError(
                    f"Expected a {name} of the same export as start.onnx, with the checksum "
                    f"{expected!r}. Received: checksum={received!r}. "
                    "Export them again, with `keras-attn export onnx-steps`."
                )
        self._check_values(start, step, finish)
        return [output.name for output in finish.get_outputs()]

    def _check_values(
        self,
        start: "onnxruntime.InferenceSession",
        step: "onnxruntime.InferenceSession",
        finish: "onnxruntime.InferenceSession",
    ) -> None:
        """Raises an error if an input of a graph is not an output of an earlier graph."""
        given = {"length_penalty": "tensor(float)"} | _types(start.get_inputs())
        started = given | _types(start.get_outputs())
        stepped = {
            name.removeprefix(NEXT): kind for name, kind in _types(step.get_outputs()).items()
        }
        _require_values("step.onnx", _types(step.get_inputs()), started)
        done = {"done": "tensor(bool)"}
        _require_values("the loop", done, started)
        _require_values("the loop", {"partial": "tensor(int32)"} | done, stepped)
        # A search may be done before its first step.
        for values in (started, started | stepped):
            _require_values("finish.onnx", _types(finish.get_inputs()), values)


def _types(values: "Iterable[onnxruntime.NodeArg]") -> dict[str, str]:
    return {each.name: each.type for each in values}


def _require_values(reader: str, expected: Mapping[str, str], values: Mapping[str, str]) -> None:
    received = {name: values.get(name) for name in expected}
    wrong = {name: kind for name, kind in received.items() if kind != expected[name]}
    if wrong:
        expected = {name: expected[name] for name in wrong}
        raise ModelFileError(
            f"Expected values for {reader}: {expected}. Received: {wrong}. The files "
            "are damaged; export them again."
        )
