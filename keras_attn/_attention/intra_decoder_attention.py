from typing import Any, Self

import keras
from keras import ops

from keras_attn import _masks as masks
from keras_attn._attention.attention_mechanism import AttentionMechanism
from keras_attn._attention.attention_steps import AttentionSteps, attention_spec
from keras_attn._attention.local_attention import check_scores_pairs
from keras_attn._layer.argument_checks import check_compute_dtype
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Mask, StaticShape, Tensor, TensorDict


@keras.saving.register_keras_serializable(package="keras_attn")
class IntraDecoderAttention(AttentionSteps, Layer):
    """Attends to previous queries, such as a decoder's previous states.

        e_tt' = score(q_t, q_t')                                        for t' < t
        c_t   = sum_t' softmax_t'(e_tt') q_t'                           c_0 = 0

    The mechanism was introduced by [Paulus et al., 2018](https://arxiv.org/abs/1705.04304),
    equations 6 to 8, to avoid repetitions in long outputs. The paper uses the `"general"` score of
    `LuongAttention`, and combines this layer with attention to the source; see `CombinedAttention`.
    In an `AttentionRNNCell` with `query_from="cell_output"`, the queries are the inner cell's
    outputs.

    Args:
        mechanism: `AttentionMechanism` that computes the scores. `LocalAttention`,
            `LocationAttention` and mechanisms with a state are not supported.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, target, query_dim)`.
        value: Ignored. The argument exists because an attention RNN passes encoder outputs to every
            attention layer.
        attention_mask: Boolean tensor of shape `(batch, target)`; `True` marks positions that may
            be attended to. `attention_mask` is combined with the implicit mask. Defaults to `None`.
        return_attention_scores: Bool, whether to also return the weights. Defaults to `False`.
        query_mask: Boolean tensor of shape `(batch, target)`, the implicit mask of `query`. Keras
            passes this argument.
        mask: Boolean tensor of shape `(batch, target)`, the implicit mask of `query`. Keras
            wrappers pass this argument.

    Returns:
        Context of shape `(batch, target, query_dim)`. If `return_attention_scores=True`, a tuple of
        the context and the attention weights of shape `(batch, target, target)`.

    Masking:
        Masked queries, the current query and later queries get a weight of exactly 0.

    Raises:
        ValueError: If `mechanism` is not supported, or if the layer runs step by step (as in a
            search) without a maximum number of steps.

    Example:

    >>> import numpy as np
    >>> from keras_attn import IntraDecoderAttention, LuongAttention
    >>> layer = IntraDecoderAttention(LuongAttention("general"))
    >>> tuple(layer(np.ones((2, 3, 5), "float32")).shape)
    (2, 3, 5)
    """

    requires_time_loop = True
    can_exceed_max_length = False
    attends_to_source = False

    def __init__(self, mechanism: AttentionMechanism, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_scores_pairs(mechanism)
        check_compute_dtype(self, mechanism=mechanism)
        self.mechanism = mechanism
        self.supports_masking = True

    def build(self, query_shape: StaticShape, value_shape: StaticShape | None = None) -> None:
        self.query_dim = query_shape[-1]
        ensure_built(self.mechanism, query_shape, query_shape)

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        attention_mask: Mask | None = None,
        return_attention_scores: bool = False,
        query_mask: Mask | None = None,
        mask: Mask | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        attention_mask = masks.join(
            query, attention_mask=attention_mask, query_mask=query_mask, mask=mask
        )
        memory = self.prepare_memory(query, attention_mask=attention_mask)
        context, weights = self._attend_before(query, memory["mask"])
        return (context, weights) if return_attention_scores else context

    def prepare_memory(
        self, value: Tensor, key: Tensor | None = None, attention_mask: Mask | None = None
    ) -> TensorDict:
        """Returns a memory with only a mask, because keys and values are the previous queries."""
        return {"mask": masks.attention_mask(value, attention_mask)}

    def mask_queries(self, memory: TensorDict, query_mask: Mask | None) -> TensorDict:
        return memory if query_mask is None else {**memory, "query_mask": query_mask}

    def num_positions(
        self, memory: TensorDict, max_steps: int | Tensor | None = None
    ) -> int | Tensor:
        if max_steps is None:
            raise ValueError(
                "Expected max_steps, because attention to previous queries allocates memory for "
                "all steps. Received: max_steps=None."
            )
        return max_steps

    def initial_state(
        self, memory: TensorDict, rows: int | Tensor, max_steps: int | Tensor | None = None
    ) -> TensorDict:
        steps = self.num_positions(memory, max_steps)
        query = ops.zeros((1, 1, self.query_dim), dtype=self.compute_dtype)
        units = self.mechanism.project_keys(query).shape[-1]
        return {
            "keys": ops.zeros((rows, steps, units), dtype=self.compute_dtype),
            "values": ops.zeros((rows, steps, self.query_dim), dtype=self.compute_dtype),
            "step": ops.zeros((rows, 1), dtype="int32"),
        }

    def attend_step(
        self, query: Tensor, memory: TensorDict, state: TensorDict
    ) -> tuple[Tensor, Tensor, TensorDict]:
        query = ops.cast(query, self.compute_dtype)[:, None]  # (B*K, 1, D)
        keys, values, step = state["keys"], state["values"], state["step"]
        positions = ops.arange(ops.shape(values)[1], dtype="int32")[None]  # (1, T)
        before = masks.causal_mask(step - 1, positions)  # (B*K, 1, T)
        context, weights = self.mechanism.attend(
            query, {"keys": keys, "values": values, "mask": before}
        )
        is_now = ops.equal(positions, step)[..., None]  # (B*K, T, 1)
        state = {
            "keys": ops.where(is_now, self.mechanism.project_keys(query), keys),
            "values": ops.where(is_now, query, values),
            "step": step + 1,
        }
        return context[:, 0], weights[:, 0], state  # (B*K, D), (B*K, T)

    def attend(self, query: Tensor, memory: TensorDict) -> tuple[Tensor, Tensor]:
        query = ops.cast(query, self.compute_dtype)
        mask = masks.attention_mask(query, memory.get("query_mask"), "query_mask")  # (B, 1, T)
        return self._attend_before(query, mask)

    def _attend_before(self, query, mask):
        positions = ops.arange(ops.shape(query)[1], dtype="int32")[None]  # (1, T)
        before = masks.causal_mask(positions - 1, positions)  # (1, T, T)
        return self.mechanism.attend(
            query, self.mechanism.prepare_memory(query, attention_mask=mask & before)
        )

    def compute_output_shape(
        self, query_shape: StaticShape, value_shape: StaticShape | None = None
    ) -> tuple[int | None, ...]:
        return query_shape

    def compute_output_spec(
        self,
        query: Tensor,
        value: Tensor | None = None,
        attention_mask: Mask | None = None,
        return_attention_scores: bool = False,
        **implicit_masks: Any,
    ) -> Any:
        weights_shape = (*query.shape[:2], query.shape[1])
        return attention_spec(
            tuple(query.shape), weights_shape, self.compute_dtype, return_attention_scores
        )

    def get_config(self) -> dict[str, Any]:
        mechanism = serialize_shared(self.mechanism)
        return {**super().get_config(), "mechanism": mechanism}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        mechanism = deserialize_shared(config["mechanism"])
        return cls(**{**config, "mechanism": mechanism})
