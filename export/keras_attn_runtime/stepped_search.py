from collections.abc import Mapping
from typing import Self, TypeAlias

from keras_attn_runtime.array_types import Array, Arrays
from keras_attn_runtime.cancellation import Call
from keras_attn_runtime.engines.engine_session import EngineSession, EngineValue
from keras_attn_runtime.engines.fixed_sizes import count_rows, fill_batch, first_rows
from keras_attn_runtime.errors import run_failures

NEXT = "next/"
"""Prefix of the names of values that a step returns for the next step."""

Sessions: TypeAlias = tuple[EngineSession, EngineSession, EngineSession]
"""The sessions of start, step and finish."""


class SteppedSearch:
    """A search whose loop runs in Python.

    The object is an iterator. Each `next` runs one step of the search and returns an int32 array
    `(batch, steps)`, padded on the right: the best hypothesis of each sentence so far, or the
    result of a sentence that is done. The state of the search remains in the memory of the engine.
    For ONNX Runtime, this is the memory of the execution provider, such as a GPU.

    Args:
        sessions: tuple of the sessions of start, step and finish.
        feeds: dict of arrays, the inputs of `ExportedModel`.
        call: `Call` that can stop the search. Default: none.

    Attributes:
        values: dict from name to value, the state of the search. The method `.numpy()` of a value
            converts it to an array. With a LiteRT file, the arrays have the batch size of the file.

    Raises:
        ModelFileError: if the engine fails.
    """

    def __init__(
        self, sessions: Sessions, feeds: Mapping[str, Array], call: Call | None = None
    ) -> None:
        start, self._step, self._finish = sessions
        self._call = call or Call()
        ids = feeds.get("source_ids")
        self._rows = count_rows(feeds)
        self._size = (self._rows, None if ids is None else ids.shape[1], start.engine)
        with run_failures(*self._size):
            filled = fill_batch(start, feeds)
        self.values: dict[str, EngineValue] = {
            name: start.value_of(array) for name, array in filled.items()
        }
        self._run(start)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Array:
        if self.done:
            raise StopIteration
        self._run(self._step)
        return self._array("partial")

    @property
    def done(self) -> bool:
        """bool, whether all sentences are done."""
        return bool(self.values["done"].numpy().all())

    def results(self) -> Arrays:
        """Returns the results of a search that is done, see `ExportedModel.run`."""
        self._run(self._finish)
        return {each.name: self._array(each.name) for each in self._finish.outputs}

    def _array(self, name: str) -> Array:
        return first_rows(self.values[name].numpy(), self._rows)

    def _run(self, session: EngineSession) -> None:
        with run_failures(*self._size):
            outputs = session.run_values(self.values, self._call)
        self.values |= {name.removeprefix(NEXT): value for name, value in outputs.items()}
