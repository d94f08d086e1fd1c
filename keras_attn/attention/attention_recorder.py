"""The weights of every attention layer of a model, without changing the model."""

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
    """Collects the weights of all attention layers that compute inside the block.

    Models must be called eagerly, `model(inputs)`: what `predict` and `fit` compute is compiled and
    has no values yet when it is traced.

    Yields:
        Dict, filled by each call, from the path of an attention layer, such as
        `"encoder/stack/block_0/self_attention"`, to NumPy weights `(batch, heads, target, source)`,
        or `(batch, target, source)` for mechanisms with one head. If a layer attends several times,
        the weights are joined along the target, so that the steps of a loop make one alignment.
        Not for a search, whose hypotheses change places: it has `return_alignments`. Blockwise
        attention has no weights. On JAX a loop over time is compiled, so attention in it must be
        asked for its weights: `return_attention_scores=True`. Where two layers have one path, as in
        an `EnsembleDecoder` of models that were loaded, that of the second ends with `"#2"`.

    Raises:
        ValueError: if weights have no values, or those of a layer cannot be joined.

    Example:

    >>> import numpy as np
    >>> from keras_attn import LuongAttention
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
    """Notes the weights `(..., target, source)` that a layer has computed, if anybody asked."""
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
    except Exception as error:  # each backend has its own for values that are not there
        raise ValueError(
            "Attention scores can only be recorded while the model computes. Received: "
            f"symbolic weights of {path}. Call the model itself, outside of compiled "
            "functions: model(inputs). On JAX, ask a loop over time for "
            "return_attention_scores=True."
        ) from error
    if path in scores:
        before = scores[path]
        others = before.shape[:-2] + before.shape[-1:]
        if others != values.shape[:-2] + values.shape[-1:]:
            raise ValueError(
                "Attention scores can only be joined along the target. Received: weights of "
                f"{path} of shape {values.shape} after others of shape {before.shape}. Use "
                "one `record_attention_scores` for each batch; ask a search for its alignments."
            )
        values = np.concatenate([before, values], axis=-2)
    scores[path] = values
