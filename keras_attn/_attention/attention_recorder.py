"""Records attention weights in all layers without changes to the model."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn._types import Tensor

_recording: contextvars.ContextVar[tuple[dict[str, Any], dict[str, Any]] | None] = (
    contextvars.ContextVar("recording", default=None)
)


@contextlib.contextmanager
def record_attention_scores() -> Iterator[dict[str, Any]]:
    """Records the weights in all attention layers that are called inside a `with` block.

    Call the model eagerly with `model(inputs)`. `predict` and `fit` compile the model, so attention
    weights have no values there.

    If a layer is called several times, its weights are concatenated along the target axis, so that
    the steps of a loop form one alignment. For a search, use the search's argument
    `return_alignments` instead, because a search reorders its hypotheses. Blockwise attention
    (`flash_attention=True`) is not recorded, because it does not store weights. On JAX, loops over
    time are compiled, so call an attention RNN with `return_attention_scores=True` instead.

    Returns:
        Context manager that yields a dict. Each call of a layer adds its weights to the dict. The
        keys are the paths of the attention layers, such as
        `"encoder/stack/block_0/self_attention"`. If two layers have the same path, for example in
        an `EnsembleDecoder` of loaded models, the second layer's key ends with `"#2"`. The values
        are NumPy arrays of shape `(batch, heads, target, source)`, or `(batch, target, source)` for
        mechanisms with one head.

    Raises:
        ValueError: If weights are symbolic, or a layer's weights cannot be concatenated.

    Example:

    >>> import numpy as np
    >>> from keras_attn import LuongAttention, record_attention_scores
    >>> layer = LuongAttention("dot", name="attention")
    >>> with record_attention_scores() as scores:
    ...     _ = layer(np.ones((1, 2, 4), "float32"), np.ones((1, 3, 4), "float32"))
    >>> scores["attention"].shape
    (1, 2, 3)
    """
    scores = {}
    token = _recording.set((scores, {}))
    try:
        yield scores
    finally:
        _recording.reset(token)


def record(layer: keras.layers.Layer, weights: Tensor) -> None:
    """Stores a layer's weights `(..., target, source)` if a recording is active."""
    recording = _recording.get()
    if recording is None:
        return
    scores, layers = recording
    path, number = str(layer.path), 1
    while layers.setdefault(path, layer) is not layer:
        number += 1
        path = f"{layer.path}#{number}"
    try:
        values = ops.convert_to_numpy(weights)
    except Exception as error:  # the type depends on the backend
        raise ValueError(
            "Expected attention weights with values. Received: symbolic weights of "
            f"{path}. Call the model itself, outside of compiled functions: model(inputs). On "
            "JAX, call layers that loop over time with return_attention_scores=True."
        ) from error
    if path in scores:
        before = scores[path]
        fixed_axes = before.shape[:-2] + before.shape[-1:]
        if fixed_axes != values.shape[:-2] + values.shape[-1:]:
            raise ValueError(
                "Expected weights that can be concatenated along the target. Received: weights of "
                f"{path} with shape {values.shape} after shape {before.shape}. Use "
                "one `record_attention_scores` per batch, and return_alignments=True for a search."
            )
        values = np.concatenate([before, values], axis=-2)
    scores[path] = values
