from typing import Any, cast

import keras

from keras_attn import _masks as masks
from keras_attn._attention.cache_view import CacheView
from keras_attn._layer.argument_checks import check_same_batch, check_second_input
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._transformer.transformer_encoder_block import TransformerEncoderBlock
from keras_attn._types import Mask, PositionBias, StaticShape, Tensor, TensorDict

WITHOUT_MEMORY = " Or create the block with cross_attention=False."


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerDecoderBlock(TransformerEncoderBlock):
    """Transformer decoder block: causal self-attention, cross-attention, feed-forward network.

        pre-norm    y = x + f(norm(x))
        post-norm   y = norm(x + f(x))

    Here f is one of three sublayers, applied one after the other: self-attention, cross-attention
    and the feed-forward network. The block was introduced by [Vaswani et al.,
    2017](https://arxiv.org/abs/1706.03762), section 3.1. Causal language models use the block with
    `cross_attention=False`.

    `call` processes all positions at once. To process positions one by one, use `prepare_memory`,
    `initial_state` and `step`, like the methods of `StepDecoder`.

    Args:
        num_heads: Positive int, number of query heads.
        intermediate_dim: Positive int, hidden size of the feed-forward network.
        cross_attention: Bool, whether the block attends to encoder outputs. Defaults to `True`.
        **kwargs: Further arguments of `TransformerEncoderBlock`. `num_key_value_heads`,
            `sliding_window` and `rotary` only apply to self-attention.

    Call arguments:
        inputs: Tensor of shape `(batch, target, features)`.
        encoder_outputs: Tensor of shape `(batch, source, encoder_features)`. Required for
            cross-attention. Defaults to `None`.
        encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that may be
            attended to. It is combined with `encoder_outputs_mask`. Defaults to `None`.
        attention_mask: Boolean tensor of shape `(batch, target)` or `(batch, target, target)`,
            self-attention mask. It is combined with the causal mask and the implicit mask of
            `inputs`. Defaults to `None`.
        position_bias: Bias for self-attention scores, see `MultiHeadAttention`. Defaults to
            `None`.
        encoder_outputs_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of
            `encoder_outputs`. Keras passes this argument.
        mask: Boolean tensor of shape `(batch, target)`, the implicit mask of `inputs`. Keras
            wrappers pass this argument.
        inputs_mask: Boolean tensor of shape `(batch, target)`, the implicit mask of `inputs`. Keras
            passes this argument.

    Returns:
        Tensor of shape `(batch, target, features)`.

    Masking:
        A position does not attend to later positions or to masked source positions. Padding on the
        right of the target does not affect previous positions.

    Raises:
        ValueError: If an argument is out of range, or `encoder_outputs` is missing.

    Example:

    >>> import numpy as np
    >>> from keras_attn import TransformerDecoderBlock
    >>> block = TransformerDecoderBlock(num_heads=4, intermediate_dim=32)
    >>> inputs, encoder_outputs = np.ones((2, 5, 16), "float32"), np.ones((2, 7, 24), "float32")
    >>> tuple(block(inputs, encoder_outputs).shape)
    (2, 5, 16)
    """

    def __init__(
        self, num_heads: int, intermediate_dim: int, *, cross_attention: bool = True, **kwargs: Any
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
        """Processes all positions at once with a prepared memory.

        Args:
            inputs: Tensor of shape `(batch, target, features)`.
            memory: Dict returned by `prepare_memory`.
            attention_mask: Self-attention mask, see the call arguments. Defaults to `None`.
            position_bias: Self-attention bias, see the call arguments. Defaults to `None`.
            padding: Boolean tensor of shape `(batch, target)`; `False` marks padding. Defaults to
                `None`.

        Returns:
            Tuple of the outputs `(batch, target, features)` and the cross-attention weights
            `(batch, heads, target, source)`. The weights are `None` without cross-attention.
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
        """Returns keys, values and mask for cross-attention.

        Args:
            encoder_outputs: Tensor of shape `(batch, source, encoder_features)`.
            encoder_mask: Boolean tensor of shape `(batch, source)`. Defaults to `None`.

        Returns:
            Dict, empty without cross-attention.
        """
        if not self.cross_attention:
            return {}
        value = check_second_input(self, "encoder_outputs", encoder_outputs, WITHOUT_MEMORY)
        return self.cross_attention_layer.prepare_memory(value, attention_mask=encoder_mask)

    def initial_state(
        self, batch: int | Tensor, capacity: int, growing: bool | None = None
    ) -> TensorDict:
        """Returns an empty cache, see `keras_attn._decoding_state.kv_cache.new_cache`."""
        return self.self_attention.new_cache(batch, capacity, growing)

    def step(
        self,
        inputs: Tensor,
        state: TensorDict,
        memory: TensorDict | None,
        view: CacheView,
        position_bias: PositionBias | None = None,
    ) -> tuple[Tensor, Any, TensorDict]:
        """Processes new positions with a cache for previous positions.

        Args:
            inputs: Tensor of shape `(batch, new_positions, features)`, or `(batch, features)` for a
                single position. With beams in the view: `(batch * beams, features)`.
            state: Dict returned by `initial_state` or by the previous step.
            memory: Dict returned by `prepare_memory`.
            view: `CacheView` with slots for new positions and slots that may be attended to.
            position_bias: Self-attention bias, see `MultiHeadAttention`. Defaults to `None`.

        Returns:
            Tuple of the outputs with the shape of `inputs`, the cross-attention weights `(batch,
            heads, beams * new_positions, source)` (`None` without cross-attention), and the new
            state.
        """
        new_state = {}

        def attend(x):
            outputs, _, cache = self.self_attention.step(x, state, view, position_bias)
            new_state.update(cache)
            return outputs

        outputs, weights = self._rest(self._residual(inputs, self.attention_norm, attend), memory)
        return outputs, weights, new_state

    def _rest(self, inputs, memory):
        """Applies cross-attention and the feed-forward network. Returns outputs and weights."""
        outputs, weights = inputs, [cast(Tensor | None, None)]
        if self.cross_attention:

            def attend(x):
                context, weights[0] = self.cross_attention_layer.attend(x, memory)
                return context

            outputs = self._residual(inputs, self.memory_norm, attend)
        return self._residual(outputs, self.feed_forward_norm, self.feed_forward), weights[0]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "cross_attention": self.cross_attention}
