from typing import Any, Self

import keras

from keras_attn import _masks as masks
from keras_attn._attention.multi_head_attention import MultiHeadAttention
from keras_attn._attention.position_bias import check_position_bias
from keras_attn._drop_ins.dropout import Dropout
from keras_attn._drop_ins.layer_normalization import LayerNormalization
from keras_attn._layer.argument_checks import (
    check_dropout,
    check_positive_integer,
    check_positive_number,
    check_seed,
    check_sequence_shape,
)
from keras_attn._layer.layer import Layer
from keras_attn._positions.rotary_positions import RotaryPositions
from keras_attn._serialization.clone_initializer import clone_initializer
from keras_attn._serialization.plain_function import plain_function
from keras_attn._transformer.feed_forward import FeedForward
from keras_attn._types import (
    ActivationLike,
    InitializerLike,
    Mask,
    PositionBias,
    StaticShape,
    Tensor,
)

NORMALIZATIONS = {
    "layer": LayerNormalization,
    "rms": keras.layers.RMSNormalization,
}


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerEncoderBlock(Layer):
    """Transformer encoder block: self-attention and a feed-forward network.

        pre-norm    y = x + f(norm(x))
        post-norm   y = norm(x + f(x))

    Here f is one of two sublayers, applied one after the other: self-attention and the feed-forward
    network. The block was introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762),
    section 3.1, with post-norm. Pre-norm is described by [Wang et al.,
    2019](https://arxiv.org/abs/1906.01787). A stack of pre-norm blocks needs a normalization after
    the last block.

    Args:
        num_heads: Positive int, number of query heads.
        intermediate_dim: Positive int, hidden size of the feed-forward network.
        key_dim: Positive int, size of each head. Defaults to the number of features divided by
            `num_heads`.
        num_key_value_heads: Positive int, number of key and value heads, each shared by a group of
            query heads, see `MultiHeadAttention`. Defaults to `num_heads`.
        activation: Feed-forward network activation: `"relu"`, `"gelu"`, `"gelu_tanh"`,
            `"swiglu"`, `"geglu"`, `"reglu"`, or any Keras activation. Defaults to `"relu"`.
        normalization: String, `"layer"` ([Ba et al., 2016](https://arxiv.org/abs/1607.06450)) or
            `"rms"` ([Zhang and Sennrich, 2019](https://arxiv.org/abs/1910.07467)). Defaults to
            `"layer"`.
        normalize_first: Bool, `True` for pre-norm, `False` for post-norm. Defaults to `True`.
        dropout: Float in [0, 1), dropout rate after both sublayers. Defaults to `0.0`.
        attention_dropout: Float in [0, 1), dropout rate for attention weights. Defaults to
            `dropout`.
        activation_dropout: Float in [0, 1), dropout rate after the feed-forward network's
            activation. Defaults to `dropout`.
        use_bias: Bool, whether projections and dense layers use biases. Defaults to
            `True`.
        sliding_window: Positive int. A query at position t only attends to keys at positions s with
            `|t - s| < sliding_window`. Defaults to `None`: no limit.
        flash_attention: Bool, whether attention is computed in blocks, with memory that is linear
            in the length, see `MultiHeadAttention`. Blockwise attention requires
            `attention_dropout=0`. Defaults to `None`: not in blocks.
        rotary: `RotaryPositions` layer that rotates queries and keys. Defaults to `None`.
        epsilon: Positive float, added to the variance in the normalizations. Defaults to `1e-5`.
        kernel_initializer: Initializer for the matrices. Defaults to `"glorot_uniform"`.
        seed: Int, dropout seed. Defaults to `None`: a random seed.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, time, features)`.
        attention_mask: Boolean tensor of shape `(batch, time)` or `(batch, time, time)`; `True`
            marks positions that may be attended to. It is combined with the implicit mask. Defaults
            to `None`.
        position_bias: Bias for attention scores, see `MultiHeadAttention`. Defaults to `None`.
        mask: Boolean tensor of shape `(batch, time)`, the implicit mask of `inputs`. Keras wrappers
            pass this argument.
        inputs_mask: Boolean tensor of shape `(batch, time)`, the implicit mask of `inputs`. Keras
            passes this argument.

    Returns:
        Tensor of shape `(batch, time, features)`.

    Masking:
        Masked positions get a weight of exactly 0. Outputs at masked positions are undefined.

    Raises:
        ValueError: If an argument is out of range, or the rank of `inputs` is not 3.

    Example:

    >>> import numpy as np
    >>> from keras_attn import TransformerEncoderBlock
    >>> block = TransformerEncoderBlock(num_heads=4, intermediate_dim=32)
    >>> tuple(block(np.ones((2, 5, 16), "float32")).shape)
    (2, 5, 16)
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        *,
        key_dim: int | None = None,
        num_key_value_heads: int | None = None,
        activation: ActivationLike = "relu",
        normalization: str = "layer",
        normalize_first: bool = True,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        activation_dropout: float | None = None,
        use_bias: bool = True,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        rotary: RotaryPositions | None = None,
        epsilon: float = 1e-5,
        kernel_initializer: InitializerLike = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        sizes = {
            "num_heads": num_heads,
            "key_dim": key_dim,
            "num_key_value_heads": num_key_value_heads,
            "sliding_window": sliding_window,
        }
        for name, size in sizes.items():
            if size is not None or name == "num_heads":
                check_positive_integer(name, size)
        check_positive_number(epsilon=epsilon)
        check_seed(seed)
        if normalization not in NORMALIZATIONS:
            raise ValueError(
                f"Expected normalization to be one of {tuple(NORMALIZATIONS)}. "
                f"Received: normalization={normalization!r}."
            )
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.key_dim = key_dim
        self.num_key_value_heads = num_key_value_heads
        self.normalization = normalization
        self.normalize_first = normalize_first
        self.dropout = dropout
        self.attention_dropout = dropout if attention_dropout is None else attention_dropout
        self.activation_dropout = dropout if activation_dropout is None else activation_dropout
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            check_dropout(name, getattr(self, name))
        if flash_attention and self.attention_dropout:
            raise ValueError(
                "Expected attention_dropout=0 if flash_attention=True, because blockwise "
                "attention has no dropout. Received: flash_attention=True, "
                f"attention_dropout={self.attention_dropout}. Set attention_dropout=0."
            )
        self.use_bias = use_bias
        self.sliding_window = sliding_window
        self.flash_attention = flash_attention
        self.rotary = rotary
        self.epsilon = epsilon
        self.kernel_initializer = plain_function(keras.initializers.get(kernel_initializer))
        self.seed = seed
        self.feed_forward = FeedForward(
            intermediate_dim,
            activation=activation,
            dropout=self.activation_dropout,
            use_bias=use_bias,
            kernel_initializer=self.kernel_initializer,
            seed=self._seed("feed_forward"),
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward_norm = self.new_norm("feed_forward_norm")
        self.attention_norm = self.new_norm("attention_norm")
        self.residual_dropout = Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    @property
    def activation(self) -> Any:
        """The feed-forward network's activation."""
        return self.feed_forward.activation

    def build(self, inputs_shape: StaticShape) -> None:
        check_sequence_shape("inputs", inputs_shape)
        self.self_attention = self._attention(
            "self_attention",
            inputs_shape[-1],
            num_key_value_heads=self.num_key_value_heads,
            sliding_window=self.sliding_window,
            rotary=self.rotary,
        )
        self.self_attention.build(inputs_shape)
        self.attention_norm.build(inputs_shape)
        self.feed_forward.build(inputs_shape)
        self.feed_forward_norm.build(inputs_shape)

    def call(
        self,
        inputs: Tensor,
        attention_mask: Mask | None = None,
        position_bias: PositionBias | None = None,
        mask: Mask | None = None,
        inputs_mask: Mask | None = None,
    ) -> Tensor:
        padding = masks.join(inputs, mask=mask, inputs_mask=inputs_mask)
        outputs = self._residual(
            inputs,
            self.attention_norm,
            lambda x: self.self_attention(
                x,
                query_mask=padding,
                attention_mask=attention_mask,
                position_bias=position_bias,
            ),
        )
        return self._residual(outputs, self.feed_forward_norm, self.feed_forward)

    def _residual(self, inputs, norm, sublayer):
        if self.normalize_first:
            return inputs + self.residual_dropout(sublayer(norm(inputs)))
        return norm(inputs + self.residual_dropout(sublayer(inputs)))

    def new_norm(self, name: str) -> keras.layers.Layer:
        """Creates a normalization layer of type `normalization`."""
        norm = NORMALIZATIONS[self.normalization](
            epsilon=self.epsilon, dtype=self.dtype_policy, name=name
        )
        norm.supports_masking = True  # Keras' RMSNormalization does not set this attribute
        return norm

    def _attention(self, name, features, **kwargs):
        if self.key_dim is None and features % self.num_heads:
            raise ValueError(
                "Expected num_heads to divide the number of features. "
                f"Received: num_heads={self.num_heads}, features={features}. Or pass key_dim."
            )
        return MultiHeadAttention(
            self.num_heads,
            features // self.num_heads if self.key_dim is None else self.key_dim,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            flash_attention=self.flash_attention,
            kernel_initializer=clone_initializer(self.kernel_initializer, name),
            seed=self._seed(name),
            dtype=self.dtype_policy,
            name=name,
            **kwargs,
        )

    def _seed(self, part):
        """Returns a different dropout seed for each block part."""
        parts = ("residual", "feed_forward", "self_attention", "cross_attention_layer")
        # The offset is 1000, because the blocks in a stack use consecutive seeds.
        return None if self.seed is None else self.seed + 1000 * parts.index(part)

    def compute_output_shape(self, inputs_shape: StaticShape, *args: Any) -> tuple[int | None, ...]:
        return inputs_shape

    def compute_output_spec(
        self, inputs: Tensor, *args: Any, position_bias: PositionBias | None = None, **kwargs: Any
    ) -> Any:
        check_position_bias(position_bias)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "key_dim": self.key_dim,
            "num_key_value_heads": self.num_key_value_heads,
            "activation": self.feed_forward.get_config()["activation"],
            "normalization": self.normalization,
            "normalize_first": self.normalize_first,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation_dropout": self.activation_dropout,
            "use_bias": self.use_bias,
            "sliding_window": self.sliding_window,
            "flash_attention": self.flash_attention,
            "rotary": keras.saving.serialize_keras_object(self.rotary),
            "epsilon": self.epsilon,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        rotary = keras.saving.deserialize_keras_object(config["rotary"])
        return cls(**{**config, "rotary": rotary})
