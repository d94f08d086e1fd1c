from typing import Any, cast

import keras

from keras_attn import masks
from keras_attn._layer.argument_checks import check_same_batch, check_second_input
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._types import Mask, PositionBias, StaticShape, Tensor, TensorDict
from keras_attn.attention.cache_view import CacheView
from keras_attn.transformer.transformer_encoder_block import TransformerEncoderBlock

WITHOUT_MEMORY = " Or make the block with cross_attention=False."


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerDecoderBlock(TransformerEncoderBlock):
    """Causal self-attention, attention to a memory, and a feed-forward network.

    Introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.1. Without
    `cross_attention` it is the block of a causal language model.

    Besides `call`, which is given all positions, there are `prepare_memory`, `initial_state` and
    `step`, which go through them one by one, as `keras_attn.StepDecoder` does.

    Args:
        num_heads, intermediate_dim: see `TransformerEncoderBlock`.
        cross_attention: bool, whether the block attends to a memory. Default `True`.
        **kwargs: arguments of `TransformerEncoderBlock`. `num_key_value_heads`, `sliding_window`,
            `flash_attention` and `rotary` are of the self-attention alone.

    Call arguments:
        inputs: `(batch, target, features)`.
        encoder_outputs: `(batch, source, encoder features)`, needed for cross-attention.
        encoder_mask: boolean `(batch, source)`, True = may be attended. It is joined with
            `encoder_outputs_mask`.
        attention_mask: of the self-attention, besides the causal one, see
            `TransformerEncoderBlock`. It is joined with the implicit mask of `inputs`.
        position_bias: of the self-attention, see `MultiHeadAttention`.
        encoder_outputs_mask: boolean `(batch, source)`, the implicit mask of `encoder_outputs`,
            passed by Keras.
        mask, inputs_mask: boolean `(batch, target)`, the implicit mask of `inputs`, passed by Keras
            or a wrapper.

    Returns:
        `(batch, target, features)`.

    Masking:
        No position sees one after it, nor padding of the source. Padding of the target on the right
        cannot influence the positions before it.

    Raises:
        ValueError: for arguments out of range, or if `encoder_outputs` is missing.

    Example:

    >>> import numpy as np
    >>> block = TransformerDecoderBlock(num_heads=4, intermediate_dim=32)
    >>> inputs, encoder_outputs = np.ones((2, 5, 16), "float32"), np.ones((2, 7, 24), "float32")
    >>> tuple(block(inputs, encoder_outputs).shape)
    (2, 5, 16)
    """

    def __init__(
        self, num_heads: int, intermediate_dim: int, cross_attention: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(num_heads, intermediate_dim, **kwargs)
        self.cross_attention = cross_attention
        if cross_attention:
            self.memory_norm = self.new_norm("memory_norm")

    def build(
        self, inputs_shape: StaticShape, encoder_outputs_shape: StaticShape | None = None
    ) -> None:
        super().build(inputs_shape)
        if not self.cross_attention:
            return
        check_second_input(self, "encoder_outputs", encoder_outputs_shape, WITHOUT_MEMORY)
        self.cross_attention_layer = self._attention("cross_attention_layer", inputs_shape[-1])
        self.cross_attention_layer.build(inputs_shape, encoder_outputs_shape)
        ensure_built(self.memory_norm, inputs_shape)

    def call(  # pyright: ignore[reportIncompatibleMethodOverride] - has a memory as second input
        self,
        inputs: Tensor,
        encoder_outputs: Tensor | None = None,
        encoder_mask: Mask | None = None,
        attention_mask: Mask | None = None,
        position_bias: PositionBias | None = None,
        encoder_outputs_mask: Mask | None = None,
        mask: Mask | None = None,
        inputs_mask: Mask | None = None,
    ) -> Tensor:
        if self.cross_attention:
            check_second_input(self, "encoder_outputs", encoder_outputs, WITHOUT_MEMORY)
        check_same_batch(self, inputs=inputs, encoder_outputs=encoder_outputs)
        encoder_mask = masks.join(
            encoder_outputs, encoder_mask=encoder_mask, encoder_outputs_mask=encoder_outputs_mask
        )
        memory = self.prepare_memory(encoder_outputs, encoder_mask)
        padding = masks.join(inputs, mask=mask, inputs_mask=inputs_mask)
        return self.run(inputs, memory, attention_mask, position_bias, padding)[0]

    def run(
        self,
        inputs: Tensor,
        memory: TensorDict | None,
        attention_mask: Mask | None = None,
        position_bias: PositionBias | None = None,
        padding: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """All positions at once, for a memory that is prepared.

        Args:
            inputs, attention_mask, position_bias: see Call arguments.
            memory: as from `prepare_memory`.
            padding: boolean `(batch, target)` or `None`, True at real positions.

        Returns:
            Tuple of outputs `(batch, target, features)` and the weights `(batch, heads, target,
            source)` of the cross-attention, `None` without one.
        """

        def attend(x):
            return self.self_attention(
                x,
                query_mask=padding,
                attention_mask=attention_mask,
                use_causal_mask=True,
                position_bias=position_bias,
            )

        return self._rest(self._residual(inputs, self.attention_norm, attend), memory)

    def prepare_memory(
        self, encoder_outputs: Tensor | None, encoder_mask: Mask | None = None
    ) -> TensorDict:
        """Keys, values and mask of the cross-attention; an empty dict without one."""
        if not self.cross_attention:
            return {}
        value = check_second_input(self, "encoder_outputs", encoder_outputs, WITHOUT_MEMORY)
        return self.cross_attention_layer.prepare_memory(value, attention_mask=encoder_mask)

    def initial_state(
        self, batch: int | Tensor, capacity: int, growing: bool | None = None
    ) -> TensorDict:
        """A cache of no positions, see `keras_attn._decoding_state.kv_cache.new_cache`."""
        return self.self_attention.new_cache(batch, capacity, growing)

    def step(
        self,
        inputs: Tensor,
        state: TensorDict,
        memory: TensorDict | None,
        view: CacheView,
        position_bias: PositionBias | None = None,
    ) -> tuple[Tensor, Any, TensorDict]:
        """New positions, given those in the state.

        Args:
            inputs: `(rows, new positions, features)`, or `(rows, features)` for a single one; a
                row for each row of the state or, with beams in the view, for each beam.
            state: as from `initial_state` or the step before.
            memory: as from `prepare_memory`.
            view: a `CacheView`, which slots of the state are new and what may be attended to.
            position_bias: of the self-attention, see `MultiHeadAttention`.

        Returns:
            Tuple of outputs, shaped as `inputs`, the weights `(batch, heads, beams * new positions,
            source)` of the cross-attention, `None` without one, and the new state.
        """
        new_state = {}

        def attend(x):
            outputs, _, cache = self.self_attention.step(x, state, view, position_bias)
            new_state.update(cache)
            return outputs

        outputs, weights = self._rest(self._residual(inputs, self.attention_norm, attend), memory)
        return outputs, weights, new_state

    def _rest(self, inputs, memory):
        """What follows the self-attention, and the weights of the cross-attention."""
        outputs, found = inputs, [cast(Tensor | None, None)]
        if self.cross_attention:

            def attend(x):
                context, found[0] = self.cross_attention_layer.attend(x, memory)
                return context

            outputs = self._residual(inputs, self.memory_norm, attend)
        return self._residual(outputs, self.feed_forward_norm, self.feed_forward), found[0]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "cross_attention": self.cross_attention}
