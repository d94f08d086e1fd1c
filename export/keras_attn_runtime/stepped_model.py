from pathlib import Path

from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.exported_model import ExportedModel
from keras_attn_runtime.file_checksum import KEY, load_unchanged, verify_file_checksum
from keras_attn_runtime.foreign_files import describe_foreign
from keras_attn_runtime.session import create_session
from keras_attn_runtime.stepped_search import NEXT, SteppedSearch

FILES = ("start.onnx", "step.onnx", "finish.onnx")


class SteppedModel(ExportedModel):
    """Three ONNX files exported by keras_attn, whose search loop runs on the host.

    `run` gives what `ExportedModel.run` gives; `start` gives the search before its first step.

    Args:
        directory: string or path of the directory with `start.onnx`, `step.onnx` and `finish.onnx`.
        providers, num_threads, num_sessions: see `ExportedModel`.

    Raises:
        ModelFileError: if `directory` is a file, or a file is damaged, from elsewhere, of another
            format, or of another export than `start.onnx`.
    """

    def __init__(self, directory, providers=None, num_threads=None, num_sessions=1):
        expected = f"Expected a directory with {', '.join(FILES)}. Received: {str(directory)!r}"
        if Path(directory).is_file():
            advice = "Use `Translator`, or export it with `onnx-steps`."
            received = describe_foreign(directory) or f"a file. {advice}"
            raise ModelFileError(f"{expected}, {received}")
        if Path(directory).is_dir() and not (Path(directory) / FILES[0]).exists():
            received = describe_foreign(directory) or "a directory without them."
            raise FileNotFoundError(f"{expected}, {received}")
        start, *others = [Path(directory) / name for name in FILES]

        def load():
            for path in others:
                verify_file_checksum(path)
            self._others = [
                tuple(create_session(path, providers, num_threads) for path in others)
                for _ in range(num_sessions)
            ]
            super(SteppedModel, self).__init__(start, providers, num_threads, num_sessions)

        load_unchanged(load, start, *others)
        self._share(
            [(first, *others) for first, others in zip(self._sessions, self._others, strict=True)]
        )

    def start(self, sentences, max_length, length_penalty, prefixes=None, seeds=None, call=None):
        """Reads one batch.

        Args:
            sentences, max_length, length_penalty, prefixes, seeds, call: see `ExportedModel.run`.

        Returns:
            The `SteppedSearch` before its first step.

        Raises:
            BatchError: if ONNX Runtime fails.
        """
        feeds = self._feeds(sentences, max_length, length_penalty, prefixes, seeds)
        return SteppedSearch(next(self._turns), feeds, call)

    def _search(self, feeds, call):
        with self._session() as sessions:
            search = SteppedSearch(sessions, feeds, call)
            for _ in search:
                pass
            return search.results()

    def _check_signature(self):
        (start, *_), (step, finish) = self._sessions, self._others[0]
        # None where the file was changed on purpose.
        expected = start.get_modelmeta().custom_metadata_map.get(KEY)
        for name, session in zip(FILES[1:], (step, finish), strict=True):
            received = session.get_modelmeta().custom_metadata_map.get("keras_attn.start")
            if received is None or expected not in (None, received):
                raise ModelFileError(
                    f"Expected a {name} of the same export as start.onnx. Received: one that "
                    f"belongs to a start.onnx with the checksum {received!r}, not {expected!r}. "
                    "Export them again, with `keras-attn export onnx-steps`."
                )
        self._check_values(start, step, finish)
        return [output.name for output in finish.get_outputs()]

    def _check_values(self, start, step, finish):
        """Refuses graphs that do not give each other the values that they read."""
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


def _types(values):
    return {each.name: each.type for each in values}


def _require_values(reader, expected, values):
    received = {name: values.get(name) for name in expected}
    wrong = {name: kind for name, kind in received.items() if kind != expected[name]}
    if wrong:
        expected = {name: expected[name] for name in wrong}
        raise ModelFileError(
            f"Expected values for {reader}: {expected}. Received: {wrong}. The files "
            "are damaged; export them again."
        )
