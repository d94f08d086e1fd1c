from typing import Any

import keras
from keras import ops

from keras_attn import masks
from keras_attn._layer.argument_checks import check_same_batch, check_same_time, check_second_input
from keras_attn._layer.layer import Layer
from keras_attn._serialization.clone_initializer import clone_initializer
from keras_attn._serialization.plain_function import plain_function
from keras_attn._types import InitializerLike, Mask, StaticShape, Tensor, TensorDict
from keras_attn.attention.attention_recorder import record
from keras_attn.attention.attention_steps import AttentionSteps, attention_spec
from keras_attn.attention.probability_functions import PROBABILITY_FUNCTIONS


class AttentionMechanism(AttentionSteps, Layer):
    """Base of all attention mechanisms: scores, weights, context.

    For queries `q_t` and a memory of keys `k_s` and values `m_s`:

        e_ts = score(q_t, k_s)
        a_ts = exp(e_ts) / sum_s' exp(e_ts')        (over the positions that are not masked)
        c_t  = sum_s a_ts m_s

    A subclass creates its weights in `build_weights`, overrides `compute_scores`, and
    `project_keys` if its keys are projected.

    All that does not depend on the query is computed once by `prepare_memory`; `attend` uses it as
    often as needed. `call` is the two in one, for use as an ordinary layer.

    Args:
        kernel_initializer: initializer of the matrices. Default `"glorot_uniform"`.
        probability_fn: how scores become weights. `"softmax"` (default) as above; `"sparsemax"`,
            which gives all but the best positions weight 0; `"hardmax"`, which takes the best one
            and has no gradient: train with another, and set the attribute of this name before the
            model is used or exported for inference.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        query: `(batch, target, query_dim)`, any number of queries.
        value: `(batch, source, value_dim)`.
        key: `(batch, source, key_dim)`; `value` if not given.
        attention_mask: boolean `(batch, source)` or `(batch, target, source)`, True = may be
            attended. It is joined with `value_mask`. A float mask that is added to scores (0 and
            -1e9) is refused, but in a graph, where its values are unknown, it would count as its
            opposite.
        return_attention_scores: bool, whether to return the weights too.
        value_mask: boolean `(batch, source)`, the implicit mask of `value`, passed by Keras.
        mask: must be `None`. A wrapper that passes one mask cannot pass that of `value`.

    Returns:
        Context `(batch, target, value_dim)`, or a tuple of it and the weights `(batch, target,
        source)`.

    Masking:
        Masked positions get weight exactly 0. A query that may attend to nothing gets zero weights
        and a zero context. The mask of the queries does not count.

    Raises:
        ValueError: if `probability_fn` is unknown, `value` is missing, `query`, `value` or `key` is
            not of rank 3, or a mask does not fit or is not boolean.
    """

    def __init__(
        self,
        kernel_initializer: InitializerLike = "glorot_uniform",
        probability_fn: str = "softmax",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if probability_fn not in PROBABILITY_FUNCTIONS:
            raise ValueError(
                f"probability_fn must be one of {tuple(PROBABILITY_FUNCTIONS)}. "
                f"Received: probability_fn={probability_fn!r}."
            )
        self.probability_fn = probability_fn
        self.kernel_initializer = plain_function(keras.initializers.get(kernel_initializer))
        self.supports_masking = True

    def build(
        self,
        query_shape: StaticShape,
        value_shape: StaticShape | None = None,
        key_shape: StaticShape | None = None,
    ) -> None:
        value_shape = check_second_input(self, "value", value_shape)
        key_shape = value_shape if key_shape is None else key_shape
        for name, shape in (("query", query_shape), ("value", value_shape), ("key", key_shape)):
            if len(shape) != 3:
                raise ValueError(
                    f"{name} must have shape (batch, time, features). Received: {name} with shape "
                    f"{tuple(shape)}. A single query needs a time axis of length 1: "
                    "query[:, None, :]."
                )
        self.build_weights(query_shape[-1], key_shape[-1])

    def build_weights(self, query_dim: int, key_dim: int) -> None:
        """Creates the weights. `query_dim` and `key_dim` are sizes of the last axes."""

    def add_kernel(self, name: str, shape: StaticShape) -> keras.Variable:
        """Adds a weight that starts as `self.kernel_initializer` says."""
        initializer = clone_initializer(self.kernel_initializer, name)
        return self.add_weight(name=name, shape=shape, initializer=initializer)

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        attention_mask: Mask | None = None,
        return_attention_scores: bool = False,
        value_mask: Mask | None = None,
        mask: Mask | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        value = check_second_input(self, "value", value)
        check_same_batch(self, query=query, value=value, key=key)
        check_same_time(value, key)
        masks.refuse_single_mask(mask, "value_mask")
        attention_mask = masks.join(value, attention_mask=attention_mask, value_mask=value_mask)
        context, weights = self.attend(query, self.prepare_memory(value, key, attention_mask))
        return (context, weights) if return_attention_scores else context

    def prepare_memory(
        self, value: Tensor, key: Tensor | None = None, attention_mask: Mask | None = None
    ) -> TensorDict:
        """Computes what stays the same for every query.

        Args:
            value: `(batch, source, value_dim)`.
            key: `(batch, source, key_dim)`; `value` if not given.
            attention_mask: boolean `(batch, source)` or `(batch, target, source)`.

        Returns:
            Dict of `keys` `(batch, source, ...)`, `values` `(batch, source, value_dim)` and boolean
            `mask` `(batch, 1 or target, source)`.
        """
        value = ops.convert_to_tensor(value, dtype=self.compute_dtype)
        key = value if key is None else ops.convert_to_tensor(key, dtype=self.compute_dtype)
        return {
            "keys": self.project_keys(key),
            "values": value,
            "mask": masks.attention_mask(value, attention_mask),
        }

    def attend(self, query: Tensor, memory: TensorDict) -> tuple[Tensor, Tensor]:
        """Attends to a prepared memory.

        Args:
            query: `(batch, target, query_dim)`.
            memory: what `prepare_memory` returned.

        Returns:
            Tuple of context `(batch, target, value_dim)` and weights `(batch, target, source)`.
        """
        query = ops.cast(query, self.compute_dtype)
        scores = self.compute_scores(query, memory["keys"])  # (B, T, S)
        weights = PROBABILITY_FUNCTIONS[self.probability_fn](scores, memory["mask"])
        record(self, weights)
        return ops.matmul(weights, memory["values"]), weights  # (B, T, D), (B, T, S)

    def project_keys(self, key: Tensor) -> Tensor:
        """Projects keys `(batch, source, key_dim)`; the identity unless overridden."""
        return key

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores `(batch, target, source)` of queries against projected keys."""
        raise NotImplementedError(f"{type(self).__name__} must override `compute_scores`.")

    def compute_output_shape(
        self,
        query_shape: StaticShape,
        value_shape: StaticShape | None = None,
        key_shape: StaticShape | None = None,
    ) -> tuple[int | None, ...]:
        value_shape = check_second_input(self, "value", value_shape)
        return (*query_shape[:-1], value_shape[-1])

    def compute_output_spec(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        attention_mask: Mask | None = None,
        return_attention_scores: bool = False,
        value_mask: Mask | None = None,
        mask: Mask | None = None,
    ) -> Any:
        value = check_second_input(self, "value", value)
        shape = self.compute_output_shape(tuple(query.shape), tuple(value.shape))
        weights_shape = (*query.shape[:-1], value.shape[1])
        return attention_spec(shape, weights_shape, self.compute_dtype, return_attention_scores)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "probability_fn": self.probability_fn,
        }


def check_same_size(query_dim: int, key_dim: int) -> None:
    """Raises `ValueError` where a dot product of query and key is not possible."""
    if query_dim != key_dim:
        raise ValueError(
            "This score needs queries and keys of one size. Received: "
            f'query_dim={query_dim}, key_dim={key_dim}. LuongAttention("general") and '
            "BahdanauAttention take any sizes."
        )
