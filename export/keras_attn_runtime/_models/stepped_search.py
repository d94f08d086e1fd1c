from collections.abc import Callable, Mapping, Sequence
from typing import Self, TypeAlias

import numpy as np

from keras_attn_runtime._array_types import Array, Arrays
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._engines.engine_session import EngineSession, EngineValue
from keras_attn_runtime._engines.fixed_sizes import count_rows, fill_batch, first_rows
from keras_attn_runtime._errors import run_failures

NEXT = "next/"
"""Name prefix of values that a step returns for the next step."""

IMPOSSIBLE = -1e9
"""Log probability of beams that are not possible, such as the others of a target prefix."""

Sessions: TypeAlias = tuple[EngineSession, EngineSession, EngineSession]
"""Sessions for a search's three models, in the order start, step, finish.

`start` runs the encoder and creates the search state. `step` extends the hypotheses by one token.
`finish` converts the state to the results.
"""


class SteppedSearch:
    """A search whose loop runs in Python.

    The object is an iterator. Each `next` runs one search step and returns token ids, an int32
    array `(batch, steps)`, padded on the right. While a sentence's search runs, its row contains
    the currently best hypothesis. Afterwards, it contains the best result. The search state remains
    in the engine's memory. For ONNX Runtime, this is the execution provider's memory, such as a
    GPU.

    Args:
        sessions: `Sessions`, a tuple with the start, step and finish sessions.
        feeds: dict from input names to arrays, the inputs of `ExportedModel`.
        call: `Call` that can stop the search. Default: none.

    Attributes:
        values: dict from names to values, the search state. A value's method `.numpy()` converts it
            to an array. LiteRT files have a fixed batch size. With fewer sentences, the arrays
            contain further rows, whose values belong to no sentence.

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

    def end_stopped(self, is_stopped: Callable[[int, list[int]], bool]) -> None:
        """Ends the search for sentences whose open hypotheses are all stopped.

        The next step is then the sentence's last, as if it had reached its maximum length. A search
        of another class than those of keras_attn does not end earlier.

        Args:
            is_stopped: function of a sentence's index and a hypothesis's token ids.
        """
        stopped = [
            row
            for row, hypotheses in enumerate(self._open_hypotheses())
            if hypotheses and all(is_stopped(row, token_ids) for token_ids in hypotheses)
        ]
        if stopped:
            self._limit(stopped)

    def _open_hypotheses(self) -> list[list[list[int]]]:
        """Returns the token ids of each sentence's open hypotheses, none if its search is done."""
        if "beams/token_ids" in self.values:
            token_ids = self._array("beams/token_ids")
            is_open = self._array("beams/log_probs") > IMPOSSIBLE / 2
        elif "ended" in self.values:
            token_ids, is_open = self._array("hypotheses/token_ids"), ~self._array("ended")
        else:
            return []
        is_open &= ~self._array("done")[:, None]
        token_ids = token_ids[:, :, : self._num_steps]
        return [ids[mask].tolist() for ids, mask in zip(token_ids, is_open, strict=True)]

    @property
    def _num_steps(self) -> int:
        return int(self.values["step"].numpy())

    def _limit(self, rows: Sequence[int]) -> None:
        """Allows some sentences only one more token."""
        limits = self.values["max_lengths"].numpy()
        is_limited = np.isin(np.arange(len(limits)), rows)
        is_limited[self._rows :] = is_limited[self._rows - 1]  # the copies of the last sentence
        least = np.minimum(limits, self._num_steps + 1)
        limits = np.where(is_limited, least, limits).astype(limits.dtype)
        self.values["max_lengths"] = self._step.value_of(limits)

    def results(self) -> Arrays:
        """Returns the results of a finished search, see `ExportedModel.run`."""
        self._run(self._finish)
        return {entry.name: self._array(entry.name) for entry in self._finish.outputs}

    def _array(self, name: str) -> Array:
        return first_rows(self.values[name].numpy(), self._rows)

    def _run(self, session: EngineSession) -> None:
        with run_failures(*self._size):
            outputs = session.run_values(self.values, self._call)
        self.values |= {name.removeprefix(NEXT): value for name, value in outputs.items()}
