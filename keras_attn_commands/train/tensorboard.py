"""Logs of a training for TensorBoard."""

from pathlib import Path

import keras


def make_tensorboard(run_dir: Path) -> keras.callbacks.Callback:
    """Returns the callback that writes logs for TensorBoard."""
    try:
        import tensorboard  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "--tensorboard needs TensorBoard. Install it: `pip install keras-attn[tensorboard]`."
        ) from error
    return keras.callbacks.TensorBoard(str(run_dir / "tensorboard"))
