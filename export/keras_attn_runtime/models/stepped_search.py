from collections.abc import Mapping
from typing import Self, TypeAlias

from keras_attn_runtime.array_types import Array, Arrays
from keras_attn_runtime.calls.cancellation import Call
from keras_attn_runtime.engines.engine_session import EngineSession, EngineValue
from keras_attn_runtime.engines.fixed_sizes import count_rows, fill_batch, first_rows
from keras_attn_runtime.errors import run_failures

NEXT = "next/"
"""Prefix of the names of values that a step returns for the next step."""

Sessions: TypeAlias = tuple[EngineSession, EngineSession, EngineSession]
"""The sessions of the three models of a search, in the order start, step, finish.

`start` runs the encoder and creates the state of the search. `step` extends the hypotheses by one
token. `finish` converts the state to the results.
"""


class SteppedSearch:
    """A search whose loop runs in Python.

    The object is an iterator. Each `next` runs one step of the search and returns token ids, an
    int32 array `(batch, steps)`, padded on the right. While the search of a sentence runs, the row
    of the sentence contains its currently best hypothesis. After this search is done, the row
    contains the best result. The state of the search remains in the memory of the engine. For ONNX
    Runtime, this is the memory of the execution provider, such as a GPU.

    Args:
        sessions: `Sessions`, a tuple of the sessions of the models start, step and finish.
        feeds: dict of arrays, the inputs of `ExportedModel`.
        call: `Call` that can stop the search. Default: none.

    Attributes:
        values: dict from name to value, the state of the search. The method `.numpy()` of a value
            converts it to an array. LiteRT files have a fixed batch size. If the batch has fewer
            sentences, the arrays have further rows, whose values belong to no sentence.

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
