from typing import Any

import keras
from keras import ops, tree

from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._serialization.plain_lists import plain_lists
from keras_attn._types import Mask, StaticShape, Tensor
from keras_attn.masks import join, masked_mean

MODES = ("copy", "dense", "zero")


@keras.saving.register_keras_serializable(package="keras_attn")
class StateBridge(Layer):
    """Makes the first state of a decoder from the last state of an encoder.

    - `"copy"`: the encoder's states as they are; numbers and sizes must agree.
    - `"dense"`: each state s_0 = tanh(W [all encoder states] + b), as s_0 in
      [Bahdanau et al., 2015](https://arxiv.org/abs/1409.0473), appendix A.2.2. An encoder without a
      state (a Transformer) gives the mean of its outputs instead.
    - `"zero"`: zeros.

    Args:
        state_size: nested lists of int, the `state_size` of the decoder's cell.
        mode: `"copy"`, `"dense"` or `"zero"`. Default `"dense"`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        encoder_outputs: `(batch, source, features)`.
        encoder_mask: boolean `(batch, source)` or `None`. It is joined with the implicit mask.
        encoder_state: nested lists or dicts of `(batch, units)`, or `None`.
        mask, encoder_outputs_mask: boolean `(batch, source)`, the implicit mask of
            `encoder_outputs`, passed by Keras or a wrapper.

    Returns:
        Nested lists like `state_size`, leaves `(batch, size)`.

    Raises:
        ValueError: if `mode` is unknown, `"copy"` finds states that do not fit, or there is no
            state where there was one before.
    """

    def __init__(self, state_size: Any, mode: str = "dense", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if mode not in MODES:
            raise ValueError(f"mode must be one of {MODES}. Received: mode={mode!r}.")
        self.state_size = state_size
        self.mode = mode
        self.dense_layers = []
        if mode == "dense":
            self.dense_layers = [
                keras.layers.Dense(size, activation="tanh", dtype=self.dtype_policy)
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
                'mode="copy" needs encoder states of the sizes of the decoder states. '
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
                "Expected an encoder_state, as in the first call, which decides what the layer "
                "makes of it. Received: encoder_state=None."
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
            states = [layer(joined) for layer in self.dense_layers]
        return tree.pack_sequence_as(plain_lists(self.state_size), states)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> None:
        return None  # a state has no time axis

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "state_size": self.state_size, "mode": self.mode}


def _last_axes(shapes):
    """Sizes of the last axes in nested lists of shapes."""
    if shapes is None:
        return
    if isinstance(shapes, dict):
        shapes = [shapes[name] for name in sorted(shapes)]  # the order of `tree.flatten`
    if all(size is None or isinstance(size, int) for size in shapes):
        yield shapes[-1]
        return
    for shape in shapes:
        yield from _last_axes(shape)
