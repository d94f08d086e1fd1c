from typing import Any

import keras
from keras import ops, tree

from keras_attn._backend.float64 import tanh
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._masks import join, masked_mean
from keras_attn._serialization.plain_lists import plain_lists
from keras_attn._types import Mask, StaticShape, Tensor

MODES = ("copy", "dense", "zero")


@keras.saving.register_keras_serializable(package="keras_attn")
class StateBridge(Layer):
    """Computes a decoder's initial state from an encoder's final state.

    - `"copy"`: the encoder states, unchanged. The decoder must have the same number of states, with
      the same sizes.
    - `"dense"`: each state is s_0 = tanh(W [all encoder states] + b), as in [Bahdanau et al.,
      2015](https://arxiv.org/abs/1409.0473), appendix A.2.2. For an encoder without a state, such
      as a Transformer, the mean of the encoder outputs replaces the states.
    - `"zero"`: zeros.

    Args:
        state_size: Nested lists of ints, the `state_size` of the decoder's cell.
        mode: String, `"copy"`, `"dense"` or `"zero"`. Defaults to `"dense"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        encoder_outputs: Tensor of shape `(batch, source, features)`.
        encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that
            contribute to the mean over the encoder outputs. It is combined with the implicit mask.
            Defaults to `None`.
        encoder_state: Nested lists or dicts of tensors with shape `(batch, units)`, the encoder's
            final state. Defaults to `None`, for an encoder without a state.
        mask: Boolean tensor of shape `(batch, source)`, the implicit mask of `encoder_outputs`.
            Keras wrappers such as `TimeDistributed` pass this argument.
        encoder_outputs_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of
            `encoder_outputs`. Keras passes this argument outside of wrappers.

    Returns:
        Nested lists with the same structure as `state_size` and tensors of shape `(batch, size)`.

    Raises:
        ValueError: If `mode` is unknown, `mode="copy"` and the sizes of encoder and decoder states
            differ, or the layer was built with an `encoder_state` but is called without it.

    Example:

    >>> import numpy as np
    >>> from keras_attn import StateBridge
    >>> bridge = StateBridge(state_size=[4, 4])
    >>> outputs, state = np.ones((2, 7, 3), "float32"), [np.ones((2, 3), "float32")]
    >>> [tuple(each.shape) for each in bridge(outputs, encoder_state=state)]
    [(2, 4), (2, 4)]
    """

    def __init__(self, state_size: Any, mode: str = "dense", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if mode not in MODES:
            raise ValueError(f"Expected mode to be one of {MODES}. Received: mode={mode!r}.")
        self.state_size = state_size
        self.mode = mode
        self.dense_layers = []
        if mode == "dense":
            self.dense_layers = [
                keras.layers.Dense(size, dtype=self.dtype_policy)
                for size in tree.flatten(state_size)
            ]

    def build(
        self,
        encoder_outputs_shape: StaticShape,
        encoder_mask_shape: StaticShape | None = None,
        encoder_state_shape: StaticShape | None = None,
    ) -> None:
        sizes = list(_last_axes(encoder_state_shape))
        self.takes_state = bool(sizes)
        if self.mode == "copy" and sizes != tree.flatten(self.state_size):
            raise ValueError(
                'Expected encoder states with the sizes of the decoder states for mode="copy". '
                f"Received: encoder sizes={sizes}, decoder sizes={tree.flatten(self.state_size)}. "
                'Use mode="dense".'
            )
        for layer in self.dense_layers:
            ensure_built(layer, (None, sum(sizes) or encoder_outputs_shape[-1]))

    def call(
        self,
        encoder_outputs: Tensor,
        encoder_mask: Mask | None = None,
        encoder_state: Any = None,
        mask: Mask | None = None,
        encoder_outputs_mask: Mask | None = None,
    ) -> Any:
        states = tree.flatten(encoder_state)
        if encoder_state is None and self.takes_state and self.mode != "zero":
            raise ValueError(
                "Expected an encoder_state, because the layer was built with an encoder_state. "
                "Received: encoder_state=None."
            )
        if self.mode == "zero":
            batch = ops.shape(encoder_outputs)[0]
            states = [
                ops.zeros((batch, size), dtype=self.compute_dtype)
                for size in tree.flatten(self.state_size)
            ]
        elif self.mode == "dense":
            if encoder_state is None:
                encoder_mask = join(
                    encoder_outputs,
                    encoder_mask=encoder_mask,
                    mask=mask,
                    encoder_outputs_mask=encoder_outputs_mask,
                )
                states = [masked_mean(encoder_outputs, encoder_mask)]
            joined = ops.concatenate(states, axis=-1)
            states = [tanh(layer(joined)) for layer in self.dense_layers]
        return tree.pack_sequence_as(plain_lists(self.state_size), states)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> None:
        return None  # a state has no time axis

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "state_size": self.state_size, "mode": self.mode}


def _last_axes(shapes):
    """Yields the sizes of the last axes in nested lists of shapes."""
    if shapes is None:
        return
    if isinstance(shapes, dict):
        shapes = [shapes[name] for name in sorted(shapes)]  # the order of `tree.flatten`
    if all(size is None or isinstance(size, int) for size in shapes):
        yield shapes[-1]
        return
    for shape in shapes:
        yield from _last_axes(shape)
