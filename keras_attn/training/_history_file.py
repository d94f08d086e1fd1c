import json
import math
import time
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import keras
import numpy as np

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn._types import TensorDict


class HistoryFile(keras.callbacks.Callback):
    """Writes the logs of all epochs to a JSON file after each epoch.

    The file contains an object with the keys `history` (a list of values for each name in the
    logs), `minutes` and `cpu_minutes` of the training, and the entries of `facts`. It is replaced
    when its new content is complete, so an interrupted training leaves the file of its last epoch.
    If `keras_attn.training.fit` resumes the training, all values continue. Values that are NaN or
    infinite become `null`, because JSON has no such numbers. In the list of callbacks, this
    callback must come after those that add logs, such as `BleuCallback`.

    Args:
        path: Path of the file.
        facts: Dict of other entries, for example the settings of the training. JSON must be able to
            represent the values; others are written as strings. Defaults to `None`.

    Example:

    >>> import json
    >>> import tempfile
    >>> from pathlib import Path
    >>> from keras_attn.training import HistoryFile
    >>> path = Path(tempfile.mkdtemp()) / "history.json"
    >>> callback = HistoryFile(path, {"seed": 1})
    >>> callback.on_train_begin()
    >>> callback.on_epoch_end(0, {"loss": 2.5})
    >>> content = json.loads(path.read_text())
    >>> content["history"], content["seed"]
    ({'loss': [2.5]}, 1)
    """

    def __init__(
        self, path: str | PathLike[str], facts: Mapping[str, object] | None = None
    ) -> None:
        super().__init__()
        self.path = Path(path)
        self.facts = dict(facts or {})
        self._logs: list[dict[str, object]] = []
        self._before = [0.0, 0.0]

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        self._started = [time.monotonic(), time.process_time()]

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        del self._logs[epoch:]
        self._logs.append({name: _finite(value) for name, value in (logs or {}).items()})
        names = dict.fromkeys(name for entries in self._logs for name in entries)
        minutes, cpu_minutes = (seconds / 60 for seconds in self._seconds())
        content = {
            "minutes": minutes,
            "cpu_minutes": cpu_minutes,
            "history": {name: [entries.get(name) for entries in self._logs] for name in names},
            **self.facts,
        }
        with atomic_replace(self.path) as partial:
            partial.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")

    def _seconds(self) -> list[float]:
        now = [time.monotonic(), time.process_time()]
        return [
            before + end - start
            for before, end, start in zip(self._before, now, self._started, strict=True)
        ]

    def get_state(self) -> TensorDict:
        """Returns the logs and durations, which `fit` saves."""
        return {"logs": json.dumps(self._logs), "seconds": self._seconds()}

    def set_state(self, state: TensorDict) -> None:
        """Restores a state that `get_state` returned."""
        self._logs = json.loads(state["logs"])
        self._before = [float(seconds) for seconds in state["seconds"]]
        self._started = [time.monotonic(), time.process_time()]


def _finite(value: object) -> object:
    numbers = np.asarray(value, "float64")
    if numbers.ndim:
        return [_finite(item) for item in numbers]
    number = float(numbers)
    return number if math.isfinite(number) else None
