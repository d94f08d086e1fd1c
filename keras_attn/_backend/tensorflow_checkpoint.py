from os import PathLike
from typing import Any

import numpy as np


class TensorFlowCheckpoint:
    """Variables in a TensorFlow checkpoint, by name.

    Args:
        prefix: Checkpoint path without a file suffix (`.index` or `.data-00000-of-00001`).

    Attributes:
        shapes: Dict from variable names to shapes.

    Raises:
        ImportError: If TensorFlow is not installed.
        OSError: If a file is missing or damaged.
    """

    def __init__(self, prefix: str | PathLike[str]) -> None:
        try:
            import tensorflow as tf
        except ImportError as error:
            raise ImportError(
                f"Expected TensorFlow, to read the checkpoint {str(prefix)!r}. Received: {error}. "
                "Install TensorFlow with `pip install '.[tensorflow]'` in a checkout."
            ) from error
        self._errors: Any = (tf.errors.OpError, IndexError, RuntimeError, ValueError)
        self._prefix = str(prefix)
        try:
            self._reader: Any = tf.train.load_checkpoint(self._prefix)
        except self._errors as error:
            raise self._damaged(error) from error
        shapes = self._reader.get_variable_to_shape_map()
        self.shapes: dict[str, tuple[int, ...]] = {n: tuple(shape) for n, shape in shapes.items()}

    def read(self, name: str) -> np.ndarray:
        """Returns a variable.

        Args:
            name: String, a key of `shapes`.
        """
        try:
            return np.asarray(self._reader.get_tensor(name))
        except self._errors as error:
            raise self._damaged(error) from error

    def _damaged(self, error):
        reason = " ".join(str(error).split())[:200]
        return OSError(
            f"Expected a TensorFlow checkpoint at {self._prefix!r}. Received: {reason}. Copy the "
            ".index and .data files of the checkpoint again."
        )
