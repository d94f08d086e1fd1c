from typing import Any

import keras
from keras import ops

from keras_attn import _masks as masks
from keras_attn._attention.attention_recorder import record
from keras_attn._attention.attention_steps import AttentionSteps, attention_spec
from keras_attn._attention.probability_functions import PROBABILITY_FUNCTIONS
from keras_attn._layer.argument_checks import check_same_batch, check_same_time, check_second_input
from keras_attn._layer.layer import Layer
from keras_attn._serialization.clone_initializer import clone_initializer
from keras_attn._serialization.plain_function import plain_function
from keras_attn._types import InitializerLike, Mask, StaticShape, Tensor, TensorDict


class AttentionMechanism(AttentionSteps, Layer):
    """Base class for the attention mechanisms with one head.

    Here q_t are queries, k_s are keys and m_s are values:

        e_ts = score(q_t, k_s)
        a_ts = exp(e_ts) / sum_s' exp(e_ts')        (sum over the unmasked positions)
        c_t  = sum_s a_ts m_s

    A subclass overrides `compute_scores`. A subclass with weights creates them in `build_weights`.
    A subclass that projects the keys overrides `project_keys`.

    `prepare_memory` computes all tensors that do not depend on the query. `attend` uses this memory
    for any number of queries, for example at each decoding step. `call` runs `prepare_memory` and
    `attend`.

    Args:
        kernel_initializer: Initializer for the weight matrices. Defaults to `"glorot_uniform"`.
        probability_fn: String, the function that maps scores to weights. `"softmax"` is the
            equation above. `"sparsemax"` ([Martins and Astudillo,
            2016](https://arxiv.org/abs/1602.02068)) assigns a weight of 0 to positions with low
            scores. `"hardmax"` assigns a weight of 1 to the position with the highest score, and 0
            to all others. Hardmax has no gradient: train with a different function, then set the
            attribute `probability_fn` before inference or export. Defaults to `"softmax"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, target, query_dim)`.
        value: Tensor of shape `(batch, source, value_dim)`.
        key: Tensor of shape `(batch, source, key_dim)`. Defaults to `value`.
        attention_mask: Boolean tensor of shape `(batch, source)` or `(batch, target, source)`;
            `True` marks positions that may be attended to. It is combined with `value_mask`.
        return_attention_scores: Bool, whether to also return the attention weights. Defaults to
            `False`.
        value_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of `value`. Keras
            passes this argument.
        mask: Must be `None`. A Keras wrapper, such as `TimeDistributed`, passes a single mask. The
            layer cannot know whether this mask belongs to `query` or to `value`.

    Returns:
        Context of shape `(batch, target, value_dim)`. If `return_attention_scores=True`, a tuple of
        the context and the attention weights of shape `(batch, target, source)`.

    Masking:
        Masked positions get a weight of exactly 0. If all positions are masked for a query, its
        weights and its context are 0. Query masks are ignored.

    Raises:
        ValueError: If `probability_fn` is unknown; if `value` is missing; if `query`, `value` or
            `key` does not have rank 3; or if a mask has the wrong shape, or values other than 0 and
            1. Inside a compiled function, the layer cannot check the values of a mask. An additive
            float mask then has the opposite effect: positions with 0 are masked, and positions with
            -1e9 are not.

    Example:

    To define a custom score, override `compute_scores`:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attn import AttentionMechanism
    >>> class NegativeDistance(AttentionMechanism):
    ...     def compute_scores(self, query, keys):
    ...         return -ops.sum(ops.abs(query[:, :, None] - keys[:, None]), axis=-1)
    >>> layer = NegativeDistance()
    >>> context = layer(np.ones((2, 3, 4), "float32"), np.ones((2, 7, 4), "float32"))
    >>> tuple(context.shape)
    (2, 3, 4)
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
                f"Expected probability_fn to be one of {tuple(PROBABILITY_FUNCTIONS)}. "
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
                    f"Expected {name} of shape (batch, time, features). Received: {name} with "
                    f"shape {tuple(shape)}. Add a time axis of length 1 to a single query: "
                    "query[:, None, :]."
                )
        self.build_weights(query_shape[-1], key_shape[-1])

    def build_weights(self, query_dim: int, key_dim: int) -> None:
        """Creates the weights.

        Args:
            query_dim: Int, size of the queries' last axis.
            key_dim: Int, size of the keys' last axis.
        """

    def add_kernel(self, name: str, shape: StaticShape) -> keras.Variable:
        """Adds a weight that is initialized by `self.kernel_initializer`.

        Args:
            name: String, weight name.
            shape: Tuple of ints, weight shape.

        Returns:
            The variable.
        """
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
        """Computes all tensors that do not depend on the query.

        Args:
            value: Tensor of shape `(batch, source, value_dim)`.
            key: Tensor of shape `(batch, source, key_dim)`. Defaults to `value`.
            attention_mask: Boolean tensor of shape `(batch, source)` or `(batch, target, source)`.
                Defaults to `None`: no masked positions.

        Returns:
            Dict with `keys` `(batch, source, ...)`, `values` `(batch, source, value_dim)` and the
            boolean `mask` `(batch, 1 or target, source)`.
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
            query: Tensor of shape `(batch, target, query_dim)`.
            memory: Dict returned by `prepare_memory`.

        Returns:
            Tuple of the context `(batch, target, value_dim)` and the weights `(batch, target,
            source)`.
        """
        query = ops.cast(query, self.compute_dtype)
        scores = self.checked_scores(query, memory["keys"])  # (B, T, S)
        weights = self.compute_weights(scores, memory["mask"])
        record(self, weights)
        return ops.matmul(weights, memory["values"]), weights  # (B, T, D), (B, T, S)

    def project_keys(self, key: Tensor) -> Tensor:
        """Projects keys of shape `(batch, source, key_dim)`. By default, returns `key`."""
        return key

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """Returns the scores `(batch, target, source)` of queries and projected keys."""
        raise NotImplementedError(f"{type(self).__name__} must override `compute_scores`.")

    def compute_weights(self, scores: Tensor, mask: Mask) -> Tensor:
        """Maps scores to attention weights with `probability_fn`.

        Args:
            scores: Tensor of shape `(batch, target, source)`.
            mask: Boolean tensor that can be broadcast to `scores`, such as `memory["mask"]`; `True`
                marks positions that may be attended to.

        Returns:
            Weights of the shape and dtype of `scores`. Masked positions get a weight of exactly 0.
        """
        return PROBABILITY_FUNCTIONS[self.probability_fn](scores, mask)

    def checked_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """Returns the result of `compute_scores`; raises a `ValueError` for a wrong shape."""
        scores = self.compute_scores(query, keys)
        expected, shape = (query.shape[0], query.shape[1], keys.shape[1]), tuple(scores.shape)
        allowed = [(None, 1, size) for size in expected[:2]] + [(None, expected[2])]
        fits = len(shape) == 3 and all(
            other is None or size in sizes
            for size, sizes, other in zip(shape, allowed, expected, strict=True)
        )
        if not fits:
            raise ValueError(
                f"Expected {type(self).__name__}.compute_scores to return scores of shape (batch, "
                f"target, source) = {expected}. Received: scores of shape {shape}, for queries of "
                f"shape {tuple(query.shape)} and keys of shape {tuple(keys.shape)}. Return one "
                "number for each query and each key."
            )
        return scores

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
    """Raises a `ValueError` if queries and keys have different sizes."""
    if query_dim != key_dim:
        raise ValueError(
            "Expected queries and keys of the same size. Received: "
            f'query_dim={query_dim}, key_dim={key_dim}. Use LuongAttention("general") or '
            "BahdanauAttention for different sizes."
        )
