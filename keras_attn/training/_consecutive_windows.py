import numpy as np
import numpy.typing as npt

from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn.training._window_batches import WindowBatches, checked_ids


class ConsecutiveWindows(WindowBatches):
    """Batches of consecutive windows in a long sequence, for truncated backpropagation.

        inputs_k[b] = ids[b L + k W : b L + k W + W]         (L = W * steps_per_epoch)
        labels_k[b] = ids[b L + k W + 1 : b L + k W + W + 1]

    Here b is a row, k is the batch number, W is `window`, and L is the number of ids in a row. The
    sequence is divided into `batch_size` parts, one for each row in a batch. Row b of batch k+1
    continues row b of batch k. With recurrent layers that keep their state (`stateful=True`) and
    the callback `CarryStates`, this is truncated backpropagation through time ([Williams and Peng,
    1990](https://doi.org/10.1162/neco.1990.2.4.490)): a window starts from the previous window's
    final state, and backpropagation stops at its first step. An epoch contains all windows once.
    Train with `fit(model, windows)` or `model.fit(windows)`.

    Args:
        ids: One-dimensional int array or list, the token ids.
        window: Positive int, number W of steps per window.
        batch_size: Positive int, number of rows per batch. `keras.Input` must have the same
            `batch_size`.
        pad_token_id: Int, the label that the loss and the metrics ignore. If it occurs in `ids`, a
            warning names its position. Pass `None` if they ignore no label. Defaults to `0`.

    Attributes:
        steps_per_epoch: Int, number of windows per row. Up to `batch_size * window` ids at the end
            of the sequence are not used.

    Raises:
        ValueError: If `ids` has the wrong shape or dtype, is too short, or contains a negative id;
            or if another argument is not a positive integer.

    Example:

    >>> from keras_attn.training import ConsecutiveWindows
    >>> windows = ConsecutiveWindows(range(1, 14), window=3, batch_size=2)
    >>> windows.steps_per_epoch
    2
    >>> first, second = (inputs for inputs, _ in windows)
    >>> first.tolist(), second.tolist()
    ([[1, 2, 3], [7, 8, 9]], [[4, 5, 6], [10, 11, 12]])

    A stateful model, trained with `fit`:

    ```python
    inputs = keras.Input((None,), batch_size=32, dtype="int32")
    embedded = keras.layers.Embedding(100, 128)(inputs)
    states = keras.layers.LSTM(256, return_sequences=True, stateful=True)(embedded)
    model = keras.Model(inputs, keras.layers.Dense(100)(states))
    compile_for_training(model, 2e-3)
    windows = ConsecutiveWindows(ids, window=64, batch_size=32)
    fit(model, windows, epochs=10, directory="run", callbacks=[CarryStates()])
    ```
    """

    def __init__(
        self, ids: npt.ArrayLike, window: int, batch_size: int, pad_token_id: int | None = 0
    ) -> None:
        check_positive_integer("window", window)
        check_positive_integer("batch_size", batch_size)
        array = checked_ids(ids, pad_token_id)
        self.window = int(window)
        self.batch_size = int(batch_size)
        self.steps_per_epoch = (len(array) - 1) // (self.window * self.batch_size)
        if self.steps_per_epoch < 1:
            raise ValueError(
                f"Expected ids with at least window * batch_size + 1 = {window * batch_size + 1} "
                f"elements. Received: {len(array)} elements. Use fewer rows or shorter windows."
            )
        length = self.steps_per_epoch * self.window
        rows = [array[row * length : (row + 1) * length + 1] for row in range(self.batch_size)]
        self._rows = np.stack(rows)  # (B, L + 1)

    def _batch(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        begin = step % self.steps_per_epoch * self.window
        rows = self._rows[:, begin : begin + self.window + 1]
        return rows[:, :-1], rows[:, 1:]
