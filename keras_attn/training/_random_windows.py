import numpy as np
import numpy.typing as npt

from keras_attn._layer.argument_checks import check_label, check_positive_integer
from keras_attn.training._window_batches import WindowBatches, checked_ids
from keras_attn_checks.options import NONNEGATIVE_INTEGER


class RandomWindows(WindowBatches):
    """Batches of windows at random positions in a long sequence, for language models.

        inputs[b] = ids[s_b : s_b + W]
        labels[b] = ids[s_b + 1 : s_b + W + 1]

    Here b is a row, W is `window`, and the position s_b is sampled uniformly for each row. The
    positions depend only on `seed` and the step number, so `keras_attn.training.fit` can resume.
    An epoch reads about as many tokens as the sequence contains. Train with `fit(model, windows)`
    or `model.fit(windows)`. For recurrent networks that keep their state from one window to the
    next, use `ConsecutiveWindows`. Validate on `overlapping_windows`.

    Args:
        ids: One-dimensional int array or list, the token ids. Documents are concatenated, each with
            its start and end token.
        window: Positive int, number W of tokens per window.
        batch_size: Positive int, number of rows per batch.
        seed: Int >= 0. Defaults to `0`.
        pad_token_id: Int, the label that the loss and the metrics ignore. If it occurs in `ids`, a
            warning names its position. Defaults to `0`.
        start_token_id: Int, the token at the start of each document. It is an input, but never a
            label, because the start of the next document cannot be predicted from a document. Pass
            `None` if the documents have no start token. Defaults to `None`.

    Attributes:
        steps_per_epoch: Int, `len(ids) // (window * batch_size)`, at least 1.

    Raises:
        ValueError: If `ids` has the wrong shape or dtype, has at most `window` elements, or
            contains a negative id; or if another argument is out of range.

    Example:

    >>> from keras_attn.training import RandomWindows
    >>> windows = RandomWindows(range(1, 100), window=3, batch_size=2)
    >>> windows.steps_per_epoch
    16
    >>> inputs, labels = windows.batch(0)
    >>> inputs.shape, bool((labels == inputs + 1).all())
    ((2, 3), True)
    """

    def __init__(
        self,
        ids: npt.ArrayLike,
        window: int,
        batch_size: int,
        *,
        seed: int = 0,
        pad_token_id: int = 0,
        start_token_id: int | None = None,
    ) -> None:
        check_positive_integer("window", window)
        check_positive_integer("batch_size", batch_size)
        NONNEGATIVE_INTEGER.check("seed", seed)
        check_label("pad_token_id", pad_token_id)
        if start_token_id is not None:
            check_label("start_token_id", start_token_id)
        self._ids = checked_ids(ids, pad_token_id)
        self.window = int(window)
        self.batch_size = int(batch_size)
        self.seed = int(seed)
        self.pad_token_id = int(pad_token_id)
        self.start_token_id = start_token_id
        if len(self._ids) <= window:
            raise ValueError(
                f"Expected more ids than window={window}. Received: {len(self._ids)} ids. Use more "
                "text or a shorter window."
            )
        self.steps_per_epoch = max(1, len(self._ids) // (self.window * self.batch_size))

    def _batch(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng((self.seed, step))
        starts = generator.integers(len(self._ids) - self.window, size=(self.batch_size, 1))
        rows = self._ids[starts + np.arange(self.window + 1)]  # (B, W + 1)
        return inputs_and_labels(rows, self.pad_token_id, self.start_token_id)


def overlapping_windows(
    ids: npt.ArrayLike, window: int, *, pad_token_id: int = 0, start_token_id: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Divides a sequence into windows in which each token is a label once, for an evaluation.

    Each window starts half a window after the previous one. Except in the first window, the labels
    of the first half are `pad_token_id`: these tokens are only context. So each token is predicted
    from at least half a window, or from all tokens before it.

    Args:
        ids: One-dimensional int array or list, the token ids.
        window: Positive int, number of tokens per window.
        pad_token_id: Int, the label that the loss and the metrics ignore. It also fills the last
            window. Defaults to `0`.
        start_token_id: Int, the token at the start of each document. It is never a label. Pass
            `None` if the documents have no start token. Defaults to `None`.

    Returns:
        Tuple of inputs and labels, int32 `(rows, window)`.

    Raises:
        ValueError: If `ids` has the wrong shape or dtype, has less than two elements, or contains a
            negative id; or if another argument is out of range.

    Example:

    >>> from keras_attn.training import overlapping_windows
    >>> inputs, labels = overlapping_windows(range(1, 8), window=4)
    >>> inputs.tolist()
    [[1, 2, 3, 4], [3, 4, 5, 6]]
    >>> labels.tolist()
    [[2, 3, 4, 5], [0, 0, 6, 7]]
    """
    check_positive_integer("window", window)
    check_label("pad_token_id", pad_token_id)
    if start_token_id is not None:
        check_label("start_token_id", start_token_id)
    array = checked_ids(ids, pad_token_id)
    if len(array) < 2:
        raise ValueError(
            "Expected at least two ids, because the first one is not predicted. Received: "
            f"{len(array)} ids. Use more text."
        )
    stride = (window + 1) // 2
    context = window - stride
    missing = max(0, window + 1 - len(array)) or -(len(array) - 1 - window) % stride
    padded = np.pad(array, (0, missing), constant_values=pad_token_id)
    rows = np.lib.stride_tricks.sliding_window_view(padded, window + 1)[::stride]
    inputs, labels = inputs_and_labels(rows, pad_token_id, start_token_id)
    labels[1:, :context] = pad_token_id
    return inputs, labels


def inputs_and_labels(
    rows: np.ndarray, pad_token_id: int, start_token_id: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs and labels of windows of shape `(batch, window + 1)`."""
    labels = rows[:, 1:].copy()
    if start_token_id is not None:
        labels[labels == start_token_id] = pad_token_id
    return rows[:, :-1], labels
