import math
from typing import Any

import keras
from keras import ops

from keras_attn._backend.float64 import activate, tanh
from keras_attn._drop_ins.dropout import Dropout
from keras_attn._drop_ins.low_rank_adaptation import LowRankAdaptation
from keras_attn._layer.argument_checks import (
    check_dropout,
    check_positive_integer,
    check_seed,
)
from keras_attn._layer.ensure_built import build_activation
from keras_attn._layer.layer import Layer
from keras_attn._serialization.clone_initializer import clone_initializer
from keras_attn._serialization.plain_function import plain_function
from keras_attn._types import ActivationLike, InitializerLike, StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class FeedForward(LowRankAdaptation, Layer):
    """Position-wise feed-forward network: two dense layers with an activation in between.

        relu, gelu, ...         y = W_2 f(W_1 x + b_1) + b_2
        swiglu, geglu, reglu    y = W_2 (g(W_g x + b_g) * (W_1 x + b_1)) + b_2

    Here f is the activation, and * is the elementwise product. The gate function g is silu for
    swiglu, the tanh approximation of gelu for geglu, and relu for reglu.

    The network was introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), equation
    2. The gated forms were introduced by [Shazeer, 2020](https://arxiv.org/abs/2002.05202),
    equation 6. T5 1.1 and Gemma use geglu, Llama uses swiglu.

    `enable_lora(rank)` adapts the matrices with low-rank updates, see
    `keras_attn.training.enable_lora`.

    Args:
        intermediate_dim: Positive int, size of the hidden layer.
        activation: String or function: `"relu"`, `"gelu"` (the exact form with erf), `"gelu_tanh"`
            (the approximation with tanh), `"swiglu"`, `"geglu"`, `"reglu"`, or any Keras
            activation. Defaults to `"relu"`.
        dropout: Float in [0, 1), dropout rate after the activation. Defaults to `0.0`.
        use_bias: Bool, whether the layers have biases. Defaults to `True`.
        kernel_initializer: Initializer for the matrices. Defaults to `"glorot_uniform"`.
        seed: Int, dropout seed. Defaults to `None`: a random seed.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(..., features)`.

    Returns:
        Tensor of shape `(..., features)`.

    Raises:
        ValueError: If `intermediate_dim` is not a positive integer, or `dropout` is not in [0, 1).

    Example:

    >>> import numpy as np
    >>> from keras_attn import FeedForward
    >>> tuple(FeedForward(64, activation="swiglu")(np.ones((2, 5, 16), "float32")).shape)
    (2, 5, 16)
    """

    def __init__(
        self,
        intermediate_dim: int,
        activation: ActivationLike = "relu",
        *,
        dropout: float = 0.0,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive_integer("intermediate_dim", intermediate_dim)
        check_dropout("dropout", dropout)
        check_seed(seed)
        self.supports_masking = True
        self.intermediate_dim = intermediate_dim
        self.is_gated = isinstance(activation, str) and activation in GATES
        self.activation: Any = activation if self.is_gated else get_activation(activation)
        self.dropout = dropout
        self.use_bias = use_bias
        self.kernel_initializer = plain_function(keras.initializers.get(kernel_initializer))
        self.seed = seed
        # One matrix product computes both the gate and the gated values.
        self.expansion = self._dense(intermediate_dim * (2 if self.is_gated else 1), "expansion")
        self.dropout_layer = Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def _dense(self, units, name):
        return keras.layers.Dense(
            units,
            use_bias=self.use_bias,
            kernel_initializer=clone_initializer(self.kernel_initializer, name),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, inputs_shape: StaticShape) -> None:
        self.expansion.build(inputs_shape)
        if not self.is_gated:
            build_activation(self.activation, (*inputs_shape[:-1], self.intermediate_dim))
        self.contraction = self._dense(inputs_shape[-1], "contraction")
        self.contraction.build((*inputs_shape[:-1], self.intermediate_dim))

    def call(self, inputs: Tensor) -> Tensor:
        hidden = self._apply_dense("expansion", inputs)  # (..., I) or (..., 2 I)
        if self.is_gated:
            gate, hidden = ops.split(hidden, 2, axis=-1)
            hidden = GATES[self.activation](gate) * hidden  # (..., I)
        else:
            hidden = activate(self.activation, hidden)
        return self._apply_dense("contraction", self.dropout_layer(hidden))  # (..., D)

    def _apply_dense(self, name, inputs):
        dense = getattr(self, name)
        if name not in self.lora_kernels:
            return dense(inputs)
        inputs = ops.cast(inputs, self.compute_dtype)
        kernel = ops.cast(self.adapted_kernel(name, dense.kernel), self.compute_dtype)
        outputs = ops.matmul(inputs, kernel)
        return (
            ops.add(outputs, ops.cast(dense.bias, self.compute_dtype))
            if dense.use_bias
            else outputs
        )

    def lora_targets(self) -> dict[str, tuple[keras.layers.Layer, keras.Variable]]:
        layers = {"expansion": self.expansion, "contraction": self.contraction}
        return {name: (layer, layer.kernel) for name, layer in layers.items()}

    def compute_output_shape(self, inputs_shape: StaticShape) -> tuple[int | None, ...]:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": (
                self.activation if self.is_gated else keras.activations.serialize(self.activation)
            ),
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="keras_attn")
def erf_gelu(x: Tensor) -> Tensor:
    """Exact gelu: 0.5 x (1 + erf(x / sqrt(2))).

    The function was introduced by [Hendrycks and Gimpel, 2016](https://arxiv.org/abs/1606.08415).
    Keras' gelu uses erfc, an operator that ONNX lacks.
    """
    return 0.5 * x * (1.0 + ops.erf(x * 0.5**0.5))


@keras.saving.register_keras_serializable(package="keras_attn")
def tanh_gelu(x: Tensor) -> Tensor:
    """Approximate gelu: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).

    The function was introduced by [Hendrycks and Gimpel, 2016](https://arxiv.org/abs/1606.08415).
    GPT-2, T5 1.1 and Gemma use it. In Hugging Face's transformers, it is called "gelu_new" and
    "gelu_pytorch_tanh".
    """
    return 0.5 * x * (1.0 + tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x * x * x)))


GATES = {"swiglu": ops.silu, "geglu": tanh_gelu, "reglu": ops.relu}
"""Dict from activations of gated networks to gate functions."""

ACTIVATIONS = {"gelu": erf_gelu, "gelu_tanh": tanh_gelu}
"""Activations by name. These names do not exist in Keras or mean a different function in Keras."""


def get_activation(activation: ActivationLike) -> Any:
    """Returns the activation for a name (see `FeedForward`) or a function."""
    if isinstance(activation, str) and activation in ACTIVATIONS:
        return ACTIVATIONS[activation]
    return plain_function(keras.activations.get(activation))
