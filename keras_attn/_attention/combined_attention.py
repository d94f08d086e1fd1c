from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
from keras import ops

from keras_attn import _masks as masks
from keras_attn._attention.attention_steps import AttentionSteps, attention_spec
from keras_attn._backend.float64 import tanh
from keras_attn._layer.argument_checks import (
    check_compute_dtype,
    check_positive_integer,
    check_same_batch,
    check_second_input,
)
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._serialization.clone_initializer import clone_initializer
from keras_attn._serialization.plain_function import plain_function
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import InitializerLike, Mask, StaticShape, Tensor, TensorDict

COMBINATIONS = ("concatenate", "gate")


@keras.saving.register_keras_serializable(package="keras_attn")
class CombinedAttention(AttentionSteps, Layer):
    """Combines several attention layers, each with its own memory.

    The layers' contexts c_ti are concatenated, or averaged with weights that depend on the
    query q_t:

        concatenate   c_t = [c_t1 ; ... ; c_tn]
        gate          e_ti = v . tanh(W q_t + U_i c_ti)
                      c_t  = sum_i softmax_i(e_ti) P_i c_ti

    Here v, W, U_i and P_i are trainable weights. The gate is the hierarchical attention combination
    of [Libovický and Helcl, 2017](https://arxiv.org/abs/1704.06567), equations 8 to 10.

    Args:
        attentions: Dict from names to layers: `AttentionMechanism`, `MultiHeadAttention` or
            `IntraDecoderAttention`. The combined layer returns the first layer's weights.
            `record_attention_scores` records all layers' weights.
        combination: String, `"concatenate"` or `"gate"`. Defaults to `"concatenate"`.
        units: Positive int, size of the context and of the gate's hidden layer. Required for
            `"gate"`, ignored for `"concatenate"`. Defaults to `None`.
        kernel_initializer: Initializer for the gate's matrices. Defaults to `"glorot_uniform"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, target, query_dim)`.
        value: Dict from names of `attentions` to tensors of shape `(batch, source, value_dim)`. The
            dict must contain the first layer's name. Layers whose names are missing use the first
            layer's tensor and mask. If `value` is a tensor, all layers use this tensor.
        attention_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that may
            be attended to. If `value` is a dict, `attention_mask` is a dict of masks. Values
            without padding need no mask in this dict. `attention_mask` is combined with
            `value_mask`. Defaults to `None`.
        return_attention_scores: Bool, whether to also return the first layer's weights.
            Defaults to `False`.
        value_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of `value`, or a
            dict of such masks. Keras passes this argument.
        query_mask: Boolean tensor of shape `(batch, target)`, the implicit mask of `query`. Only
            `IntraDecoderAttention` uses this mask. Keras passes this argument.
        mask: Must be `None`. A Keras wrapper, such as `TimeDistributed`, passes a single mask. The
            layer cannot know whether this mask belongs to `query` or to `value`.

    Returns:
        Context of shape `(batch, target, features)`. If `return_attention_scores=True`, a tuple of
        the context and the attention weights of shape `(batch, target, source)`.

    Masking:
        Each attention layer applies its own masking.

    Raises:
        ValueError: If `attentions` is empty; if `combination` or `units` is invalid; if `value` is
            missing, or has keys that are not in `attentions`; or if only one of `value` and its
            mask is a dict.

    Example:

    >>> import numpy as np
    >>> from keras_attn import BahdanauAttention, CombinedAttention, LuongAttention
    >>> layer = CombinedAttention({"text": BahdanauAttention(8), "image": LuongAttention()})
    >>> value = {"text": np.ones((2, 7, 4), "float32"), "image": np.ones((2, 9, 6), "float32")}
    >>> tuple(layer(np.ones((2, 3, 5), "float32"), value).shape)
    (2, 3, 10)
    """

    def __init__(
        self,
        attentions: Mapping[str, Any],
        combination: str = "concatenate",
        *,
        units: int | None = None,
        kernel_initializer: InitializerLike = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(attentions, dict) or not attentions:
            raise ValueError(
                "Expected attentions to be a dict of at least one attention layer by name. "
                f"Received: attentions={attentions}."
            )
        check_compute_dtype(
            self, **{f"attentions[{name!r}]": attention for name, attention in attentions.items()}
        )
        if combination not in COMBINATIONS:
            raise ValueError(
                f"Expected combination to be one of {COMBINATIONS}. Received: "
                f"combination={combination!r}."
            )
        if combination == "gate":
            check_positive_integer("units", units)
        self.names = list(attentions)
        self.attentions = list(attentions.values())
        self.combination = combination
        self.units = units
        self.kernel_initializer = plain_function(keras.initializers.get(kernel_initializer))
        self.supports_masking = True

    @property
    def requires_time_loop(self) -> bool:
        return any(attention.requires_time_loop for attention in self.attentions)

    @property
    def can_exceed_max_length(self) -> bool:
        return all(attention.can_exceed_max_length for attention in self.attentions)

    @property
    def attends_to_source(self) -> bool:
        return self.attentions[0].attends_to_source

    def build(self, query_shape: StaticShape, value_shape: StaticShape | None = None) -> None:
        check_second_input(self, "value", value_shape)
        sizes = []
        query = keras.KerasTensor(query_shape)
        for name, attention in self._named():
            shape, _ = self._of(name, value_shape)
            ensure_built(attention, query_shape, shape)
            sizes.append(attention.compute_output_spec(query, keras.KerasTensor(shape)).shape[-1])
        if self.combination == "gate":
            self.query_kernel = self._add_kernel("query_kernel", query_shape[-1])
            self.score_kernels, self.context_kernels = (
                [self._add_kernel(f"{kind}_kernel_{i}", size) for i, size in enumerate(sizes)]
                for kind in ("score", "context")
            )
            self.vector = self._add_kernel("vector", self.units, 1)

    def _add_kernel(self, name, rows, columns=None):
        return self.add_weight(
            name=name,
            shape=(rows, columns or self.units),
            initializer=clone_initializer(self.kernel_initializer, name),
        )

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        attention_mask: Mask | None = None,
        return_attention_scores: bool = False,
        value_mask: Mask | None = None,
        query_mask: Mask | None = None,
        mask: Mask | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        value = check_second_input(self, "value", value)
        check_same_batch(self, query=query, value=value)
        masks.refuse_single_mask(mask, "query_mask", "value_mask")
        attention_mask = masks.join(value, attention_mask=attention_mask, value_mask=value_mask)
        memory = self.prepare_memory(value, attention_mask=attention_mask)
        memory = self.mask_queries(memory, masks.join(query, query_mask=query_mask))
        context, weights = self.attend(query, memory)
        return (context, weights) if return_attention_scores else context

    def prepare_memory(
        self, value: Tensor, key: Tensor | None = None, attention_mask: Mask | None = None
    ) -> TensorDict:
        """Returns all layers' prepared memories, and the first layer's `mask`."""
        memories = {}
        for name, attention in self._named():
            own_value, own_mask = self._of(name, value, attention_mask)
            memories[name] = attention.prepare_memory(own_value, attention_mask=own_mask)
        return {"memories": memories, "mask": memories[self.names[0]]["mask"]}

    def mask_queries(self, memory: TensorDict, query_mask: Mask | None) -> TensorDict:
        memories = {
            name: attention.mask_queries(memory["memories"][name], query_mask)
            for name, attention in self._named()
        }
        return {**memory, "memories": memories}

    def num_positions(
        self, memory: TensorDict, max_steps: int | Tensor | None = None
    ) -> int | Tensor:
        first = self.names[0]
        return self.attentions[0].num_positions(memory["memories"][first], max_steps)

    def initial_state(
        self, memory: TensorDict, rows: int | Tensor, max_steps: int | Tensor | None = None
    ) -> TensorDict:
        return {
            name: attention.initial_state(memory["memories"][name], rows, max_steps)
            for name, attention in self._named()
        }

    def attend_step(
        self, query: Tensor, memory: TensorDict, state: TensorDict
    ) -> tuple[Tensor, Tensor, TensorDict]:
        contexts, weights, states = zip(
            *(
                attention.attend_step(query, memory["memories"][name], state.get(name, {}))
                for name, attention in self._named()
            ),
            strict=True,
        )
        new_state = {
            name: new for name, new in zip(self.names, states, strict=True) if name in state
        }
        return self._combine(query, contexts), weights[0], new_state

    def attend(self, query: Tensor, memory: TensorDict) -> tuple[Tensor, Tensor]:
        contexts, weights = zip(
            *(
                attention.align(query, memory["memories"][name])
                for name, attention in self._named()
            ),
            strict=True,
        )
        return self._combine(query, contexts), weights[0]

    def _combine(self, query: Tensor, contexts: Sequence[Tensor]) -> Any:
        """Combines the contexts of all layers, `(rows, D_i)` or `(batch, target, D_i)`."""
        if self.combination == "concatenate":
            return ops.concatenate(contexts, axis=-1)
        query = ops.matmul(ops.cast(query, self.compute_dtype), self.query_kernel)  # (..., U)
        scores = [
            ops.matmul(tanh(query + ops.matmul(context, kernel)), self.vector)
            for context, kernel in zip(contexts, self.score_kernels, strict=True)
        ]
        shares = ops.softmax(ops.concatenate(scores, axis=-1), axis=-1)  # (..., n)
        projected = [
            ops.matmul(context, kernel)
            for context, kernel in zip(contexts, self.context_kernels, strict=True)
        ]
        return sum(shares[..., i : i + 1] * part for i, part in enumerate(projected))  # (..., U)

    def _named(self):
        return zip(self.names, self.attentions, strict=True)

    def primary_source(self, values: Any) -> Any:
        """Returns the first layer's entry if `values` is a dict, otherwise `values`."""
        return values.get(self.names[0]) if isinstance(values, dict) else values

    def _of(self, name, value, mask=None):
        """Returns the value and the mask for the attention layer `name`."""
        if not isinstance(value, dict) and not isinstance(mask, dict):
            return value, mask
        given, masked = _names(value), _names(mask) if mask is not None else []
        if (
            self.names[0] not in given
            or not set(given) <= set(self.names)
            or not set(masked) <= set(given)
        ):
            raise ValueError(
                f"Expected value to be a dict with keys from {self.names}, including "
                f"{self.names[0]!r}, and attention_mask to be a dict with keys of value. "
                f"Received: value with keys {given}, attention_mask with keys {masked}."
            )
        name = name if name in value else self.names[0]
        return value[name], None if mask is None else mask.get(name)

    def compute_output_spec(
        self,
        query: Tensor,
        value: Tensor | None = None,
        attention_mask: Mask | None = None,
        return_attention_scores: bool = False,
        **implicit_masks: Any,
    ) -> Any:
        check_second_input(self, "value", value)
        specs = [
            attention.compute_output_spec(query, self._of(name, value)[0])
            for name, attention in self._named()
        ]
        is_gated = self.combination == "gate"
        size = self.units if is_gated else sum(spec.shape[-1] for spec in specs)
        _, weights = self.attentions[0].compute_output_spec(
            query, self.primary_source(value), return_attention_scores=True
        )
        weights_shape = (weights.shape[0], *weights.shape[-2:])  # averaged over the heads
        return attention_spec(
            (*query.shape[:-1], size), weights_shape, self.compute_dtype, return_attention_scores
        )

    def get_config(self) -> dict[str, Any]:
        attentions = {name: serialize_shared(attention) for name, attention in self._named()}
        return {
            **super().get_config(),
            "attentions": attentions,
            "combination": self.combination,
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        attentions = {
            name: deserialize_shared(attention) for name, attention in config["attentions"].items()
        }
        return cls(**{**config, "attentions": attentions})


def _names(values):
    return list(values) if isinstance(values, dict) else ["(not a dict)"]
