from collections.abc import Mapping
from typing import TYPE_CHECKING, Self, TypeAlias

from keras_attn_runtime.array_types import Array, Arrays
from keras_attn_runtime.cancellation import Call
from keras_attn_runtime.errors import run_failures

if TYPE_CHECKING:
    import onnxruntime

NEXT = "next/"
"""Prefix of the names of values that `step.onnx` returns for the next step."""

Session: TypeAlias = "onnxruntime.InferenceSession"

Sessions: TypeAlias = tuple[Session, Session, Session]
"""The sessions of `start.onnx`, `step.onnx` and `finish.onnx`."""


class SteppedSearch:
    """A search whose loop runs in Python.

    The object is an iterator. Each `next` runs one step of the search and returns an int32 array
    `(batch, steps)`, padded on the right: the best hypothesis of each sentence so far, or the
    result of a sentence that is done. The state of the search remains in the memory of the
    execution provider.

    Args:
        sessions: tuple of the sessions of `start.onnx`, `step.onnx` and `finish.onnx`.
        feeds: dict of arrays, the inputs of `ExportedModel`.
        call: `Call` that can stop the search. Default: none.

    Attributes:
        values: dict from name to `onnxruntime.OrtValue`, the state of the search. The method
            `.numpy()` of a value converts it to an array.

    Raises:
        ModelFileError: if ONNX Runtime fails.
    """

    def __init__(
        self, sessions: Sessions, feeds: Mapping[str, Array], call: Call | None = None
    ) -> None:
        import onnxruntime  # if it is not installed, `create_session` has raised an error before

        start, self._step, self._finish = sessions
        self._call = call or Call()
        self.values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()
        }
        ids = feeds.get("source_ids")
        rows = len(next(iter(feeds.values())))
        self._size = (rows, None if ids is None else ids.shape[1])
        self._run(start)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Array:
        if self.done:
            raise StopIteration
        self._run(self._step)
        return self.values["partial"].numpy()

    @property
    def done(self) -> bool:
        """bool, whether all sentences are done."""
        return bool(self.values["done"].numpy().all())

    def results(self) -> Arrays:
        """Returns the results of a search that is done, see `ExportedModel.run`."""
        self._run(self._finish)
        return {each.name: self.values[each.name].numpy() for each in self._finish.get_outputs()}

    def _run(self, session: "onnxruntime.InferenceSession") -> None:
        cuda = session.get_provider_options().get("CUDAExecutionProvider")
        device = ("cpu", 0) if cuda is None else ("cuda", int(cuda["device_id"]))
        binding = session.io_binding()
        for each in session.get_inputs():
            binding.bind_ortvalue_input(each.name, self.values[each.name])
        names = [each.name for each in session.get_outputs()]
        for name in names:
            binding.bind_output(name, *device)
        with run_failures(*self._size), self._call.run_options() as options:
            session.run_with_iobinding(binding, options)
        values = binding.get_outputs()
        self.values |= {
            name.removeprefix(NEXT): value for name, value in zip(names, values, strict=True)
        }
