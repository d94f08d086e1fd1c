from collections.abc import Sequence
from typing import Any, Self, cast

import keras
from keras import ops

from keras_attn import _masks as masks
from keras_attn._attention.attention_axes import AttentionAxes, check_axes
from keras_attn._attention.attention_recorder import record
from keras_attn._attention.attention_steps import AttentionSteps, attention_spec
from keras_attn._attention.blockwise_attention import blockwise_attention
from keras_attn._attention.cache_view import CacheView
from keras_attn._attention.head_projections import merge_heads, project_heads, split_heads
from keras_attn._attention.position_bias import (
    add_biases,
    check_position_bias,
    compute_position_bias,
)
from keras_attn._attention.scaled_dot_product import scaled_dot_product
from keras_attn._decoding_state import kv_cache
from keras_attn._decoding_state.beam_axis import fold_beams_into_queries
from keras_attn._drop_ins.dropout import Dropout
from keras_attn._drop_ins.low_rank_adaptation import LowRankAdaptation
from keras_attn._layer.argument_checks import (
    check_dropout,
    check_positive_integer,
    check_same_batch,
    check_same_time,
    check_seed,
)
from keras_attn._layer.layer import Layer
from keras_attn._positions.position_range import position_range
from keras_attn._positions.rotary_positions import RotaryPositions
from keras_attn._serialization.clone_initializer import clone_initializer
from keras_attn._serialization.plain_function import plain_function
from keras_attn._types import InitializerLike, Mask, PositionBias, StaticShape, Tensor, TensorDict
from keras_attn_checks.number_types import is_integer


@keras.saving.register_keras_serializable(package="keras_attn")
class MultiHeadAttention(LowRankAdaptation, AttentionSteps, Layer):
    """Multi-head attention: scaled dot-product attention with several learned projections.

        head_i = softmax((q W_i^Q) (k W_i^K)^T / sqrt(key_dim)) (v W_i^V)
        output = [head_1 ; ... ; head_h] W^O

    Multi-head attention was introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762),
    section 3.2.2.

    The layer supports the arguments of `keras.layers.MultiHeadAttention` with the same meaning. Its
    weights have the same order as in the Keras layer, but the kernels are matrices of shape
    `(features, heads * head_size)`. To copy the weights of the Keras layer, reshape each array to
    the shape of the weight with the same index in `layer.weights`, then pass the list of arrays to
    `layer.set_weights`. In addition, this layer supports grouped key-value heads, rotary positions,
    position biases, prepared memories and a key-value cache. The layer does not support output
    shapes with several axes, `activity_regularizer` or `quantize`. `enable_lora(rank)` adapts the
    kernels with low-rank updates, see `keras_attn.training.enable_lora`.

    Args:
        num_heads: Positive int, number of query heads.
        key_dim: Positive int, size of each head of queries and keys.
        value_dim: Positive int, size of each head of values. Defaults to `key_dim`.
        dropout: Float in [0, 1), dropout rate of the attention weights. Defaults to `0.0`.
        use_bias: Bool, whether the projections have biases. Defaults to `True`.
        output_shape: Positive int, or tuple of one positive int, size of the output. Defaults to
            the size of the query.
        attention_axes: Int or tuple of ints, axes of inputs `(batch, ..., features)` over which the
            layer attends. Negative axes count from the end. Attention is computed separately for
            each index of all other axes. Defaults to `None`: all axes between batch and features.
        sliding_window: Positive int. A query at position t only attends to keys at positions s with
            `|t - s| < sliding_window`. Defaults to `None`: no limit.
        flash_attention: Bool, whether `call` computes attention in blocks, with memory that is
            linear in the length ([Rabe and Staats, 2021](https://arxiv.org/abs/2112.05682)).
            Blockwise attention supports neither `return_attention_scores` nor dropout. A
            `position_bias` must then be a layer whose result only depends on the distance of two
            positions. On JAX, forward mode (`jax.jvp`, `jax.jacfwd`) raises a `TypeError`: use
            `jax.grad`, `jax.jacrev` or `jax.hessian`. Defaults to `None`: not in blocks.
        kernel_initializer: Initializer for the kernels of the projections. Defaults to
            `"glorot_uniform"`.
        bias_initializer: Initializer for the biases of the projections. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels. Defaults to `None`.
        bias_regularizer: Regularizer of the biases. Defaults to `None`.
        activity_regularizer: Must be `None`. The argument exists so that positional arguments have
            the same order as in Keras.
        kernel_constraint: Constraint of the kernels. Defaults to `None`.
        bias_constraint: Constraint of the biases. Defaults to `None`.
        use_gate: Bool, whether the outputs of the heads are multiplied by a gate, the sigmoid of an
            additional projection of the query ([Qiu et al.,
            2025](https://arxiv.org/abs/2505.06708)). Defaults to `False`.
        seed: Int, seed of the dropout. Defaults to `None`: a random seed.
        num_key_value_heads: Positive int, number of key and value heads. Each key and value head is
            shared by a group of query heads ([Ainslie et al.,
            2023](https://arxiv.org/abs/2305.13245)). With 1, the layer computes multi-query
            attention. Defaults to `num_heads`.
        rotary: `RotaryPositions` layer that rotates queries and keys, for self-attention. Defaults
            to `None`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, target, features)`. As in Keras, there may be more axes
            between batch and features (see `attention_axes`). Values, masks and results then have
            these axes too.
        value: Tensor of shape `(batch, source, features)`. Defaults to `query`: self-attention.
        key: Tensor of shape `(batch, source, features)`. Defaults to `value`.
        query_mask: Boolean tensor of shape `(batch, target)`, the implicit mask of `query`. In
            self-attention, the keys of masked positions get a weight of 0. The outputs for masked
            queries are undefined. Keras passes this argument.
        value_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of `value`. Keras
            passes this argument.
        key_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of `key`. Keras
            passes this argument.
        attention_mask: Boolean tensor of shape `(batch, source)`, `(batch, target, source)` or
            `(batch, heads or 1, target, source)`; `True` marks positions that may be attended to.
            `attention_mask` is combined with the implicit masks. In the Keras layer, a mask of rank
            2 has the shape `(target, source)`; pass such a mask as `mask[None]`. An additive float
            mask (0 and -1e9) raises an error; pass such a mask as `position_bias`. Inside a
            compiled function, an additive mask raises no error and has the opposite effect:
            positions with 0 are masked, and positions with -1e9 are not. Defaults to `None`.
        return_attention_scores: Bool, whether to also return the weights. Defaults to `False`.
        training: Bool, whether dropout is active. Defaults to `None`: the value of the calling
            layer, as usual in Keras.
        use_causal_mask: Bool, whether a query may only attend to keys at its own and earlier
            positions. Defaults to `False`.
        position_bias: Float tensor that is broadcast to `(batch, heads, target, source)` and added
            to the scores, or a layer that computes this tensor, such as `AlibiBias`. Minus infinity
            masks a position; if all positions of a query are masked, its context is 0. Infinity
            gives all other positions a weight of 0. If a layer
            with weights computes the bias in a functional model, pass the output of this layer
            instead of the layer. If inputs have more than 3 axes, the first axis of the bias must
            be 1. Defaults to `None`.
        start_index: Int or int32 scalar, position of the first query and key. For inputs with 3
            axes, an int32 tensor of shape `(batch,)` is also supported. Defaults to `0`.
        mask: Boolean tensor of shape `(batch, target)`, the implicit mask of `query`. Wrappers of
            Keras pass this argument. `mask` must be `None` if `value` is passed, because wrappers
            only pass the mask of the first input.

    Returns:
        Output of shape `(batch, target, output_shape)`. If `return_attention_scores=True`, a tuple
        of the output and the attention weights before dropout, of shape `(batch, heads, target,
        source)`.

    Masking:
        Masked positions get a weight of exactly 0. If all positions are masked for a query, the
        output for this query is the bias of the output projection.

    Raises:
        ValueError: If an argument is out of range, or not supported with `flash_attention=True`; if
            the inputs have a rank below 3, or different ranks; or if a mask has the wrong shape, or
            is not boolean.

    Example:

    >>> import numpy as np
    >>> from keras_attn import MultiHeadAttention
    >>> attention = MultiHeadAttention(num_heads=4, key_dim=8, num_key_value_heads=2)
    >>> x = np.ones((2, 5, 16), "float32")
    >>> outputs, weights = attention(x, use_causal_mask=True, return_attention_scores=True)
    >>> tuple(outputs.shape), tuple(weights.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | Sequence[int] | None = None,
        attention_axes: int | Sequence[int] | None = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        seed: int | None = None,
        num_key_value_heads: int | None = None,
        rotary: RotaryPositions | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        value_dim = key_dim if value_dim is None else value_dim
        num_key_value_heads = num_heads if num_key_value_heads is None else num_key_value_heads
        if isinstance(output_shape, (tuple, list)) and len(output_shape) == 1:
            output_shape = output_shape[0]
        _check_sizes(
            num_heads=num_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            num_key_value_heads=num_key_value_heads,
            output_shape=output_shape,
            sliding_window=sliding_window,
        )
        _check_features(dropout, rotary, activity_regularizer, flash_attention)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.output_size = cast(int | None, output_shape)
        self.attention_axes = _checked_axes(attention_axes)
        self.sliding_window = sliding_window
        self.flash_attention = flash_attention
        self.kernel_initializer = plain_function(keras.initializers.get(kernel_initializer))
        self.bias_initializer = plain_function(keras.initializers.get(bias_initializer))
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.use_gate = use_gate
        check_seed(seed)
        self.seed = seed
        self.num_key_value_heads = num_key_value_heads
        self.rotary = rotary
        self.dropout_layer = Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(
        self,
        query_shape: StaticShape,
        value_shape: StaticShape | None = None,
        key_shape: StaticShape | None = None,
    ) -> None:
        value_shape = query_shape if value_shape is None else value_shape
        key_shape = value_shape if key_shape is None else key_shape
        for name, shape in (("query", query_shape), ("value", value_shape), ("key", key_shape)):
            if len(shape) < 3:
                raise ValueError(
                    f"Expected {name} of shape (batch, time, features). "
                    f"Received: {name} with shape {tuple(shape)}."
                )
        if not len(query_shape) == len(value_shape) == len(key_shape):
            raise ValueError(
                "Expected query, value and key of the same rank. Received: shapes "
                f"{tuple(query_shape)}, {tuple(value_shape)} and {tuple(key_shape)}."
            )
        check_axes(self.attention_axes, len(query_shape))
        heads_size = self.num_heads * self.value_dim
        output_size = query_shape[-1] if self.output_size is None else self.output_size
        self._add_projection("query", query_shape[-1], self.num_heads * self.key_dim)
        self._add_projection("key", key_shape[-1], self.num_key_value_heads * self.key_dim)
        if self.use_gate:  # same order of weights as in the Keras layer
            self._add_projection("gate", query_shape[-1], heads_size)
        self._add_projection("value", value_shape[-1], self.num_key_value_heads * self.value_dim)
        self._add_projection("output", heads_size, output_size)

    def _add_projection(self, name, input_dim, output_dim):
        kernel = self.add_weight(
            name=f"{name}_kernel",
            shape=(input_dim, output_dim),
            initializer=clone_initializer(self.kernel_initializer, name),
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        setattr(self, f"{name}_kernel", kernel)
        if self.use_bias:
            bias = self.add_weight(
                name=f"{name}_bias",
                shape=(output_dim,),
                initializer=clone_initializer(self.bias_initializer, name),
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
            setattr(self, f"{name}_bias", bias)

    def lora_targets(self) -> dict[str, tuple[keras.layers.Layer, keras.Variable]]:
        names = ["query", "key", "value", "output", *(["gate"] if self.use_gate else [])]
        return {name: (self, getattr(self, f"{name}_kernel")) for name in names}

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        query_mask: Mask | None = None,
        value_mask: Mask | None = None,
        key_mask: Mask | None = None,
        attention_mask: Mask | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        position_bias: PositionBias | None = None,
        start_index: int | Tensor = 0,
        mask: Mask | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        of_query = {}
        if value is None:
            value, of_query = query, {"query_mask": query_mask, "mask": mask}
        elif value is query:
            of_query = {"mask": mask}
        else:
            masks.refuse_single_mask(mask, "query_mask", "value_mask")
        check_same_batch(self, query=query, value=value, key=key)
        check_same_time(value, key)
        key = value if key is None else key
        padding = masks.join(value, value_mask=value_mask, key_mask=key_mask, **of_query)
        if len(query.shape) > 3:
            return self._attend_over_axes(
                query,
                value,
                key,
                padding,
                attention_mask,
                return_attention_scores,
                training=training,
                use_causal_mask=use_causal_mask,
                position_bias=position_bias,
                start_index=start_index,
            )
        if query is value and value is key:
            queries, keys, values = self._project(query, "query", "key", "value")
        else:
            (queries,) = self._project(query, "query")
            keys, values = self._project_memory(key, value)
        queries, keys = self._turn(queries, start_index), self._turn(keys, start_index)
        if self.flash_attention:
            heads = blockwise_attention(
                (queries, keys, values),
                padding,
                attention_mask,
                use_causal_mask,
                self.sliding_window,
                position_bias,
                return_attention_scores,
            )
            return self._combine(heads, query)
        positions = (
            position_range(ops.shape(queries)[2], start_index),
            position_range(ops.shape(keys)[2], start_index),
        )
        allowed = masks.both(
            masks.position_mask(*positions, use_causal_mask, self.sliding_window),
            None if padding is None else masks.attention_mask(value, padding),
        )
        allowed = _with_heads(allowed)
        if attention_mask is not None:
            if len(attention_mask.shape) != 4:
                attention_mask = _with_heads(masks.attention_mask(value, attention_mask))
            allowed = masks.both(allowed, masks.boolean(attention_mask, "attention_mask"))
        bias, has_weight = compute_position_bias(position_bias, *positions)
        allowed = masks.both(allowed, has_weight)
        heads, weights = scaled_dot_product(
            queries, keys, values, allowed, bias, self._dropout(training)
        )
        record(self, weights)
        outputs = self._combine(heads, query)
        return (outputs, weights) if return_attention_scores else outputs

    def _attend_over_axes(
        self, query, value, key, padding, attention_mask, return_attention_scores, **arguments
    ):
        """Implements `call` for inputs with more than 3 axes, by reshaping them to 3 axes."""
        axes = AttentionAxes(self.attention_axes, query, value)
        folded = {id(inputs): axes.fold(inputs) for inputs in (query, value, key)}
        results: Any = self.call(
            *(folded[id(inputs)] for inputs in (query, value, key)),
            value_mask=axes.fold_padding(padding),
            attention_mask=axes.fold_mask(attention_mask),
            return_attention_scores=return_attention_scores,
            **arguments,
        )
        if not return_attention_scores:
            return axes.unfold(results)
        outputs, weights = results
        return axes.unfold(outputs), axes.unfold_scores(weights)

    def prepare_memory(
        self, value: Tensor, key: Tensor | None = None, attention_mask: Mask | None = None
    ) -> TensorDict:
        """Computes all tensors that do not depend on the query.

        Args:
            value: Tensor of shape `(batch, source, features)`.
            key: Tensor of shape `(batch, source, features)`. Defaults to `value`.
            attention_mask: Boolean tensor of shape `(batch, source)` or `(batch, target, source)`.
                Defaults to `None`.

        Returns:
            Dict with `keys` `(batch, key_value_heads, source, key_dim)`, `values` `(batch,
            key_value_heads, source, value_dim)` and the boolean `mask` `(batch, 1 or target,
            source)`. Values are 0 at positions that no query may attend to.

        Raises:
            ValueError: If the layer has rotary positions or a sliding window, because both require
                self-attention.
        """
        if self.rotary is not None or self.sliding_window is not None:
            raise ValueError(
                "Expected a layer without rotary positions and without a sliding window, because a "
                f"prepared memory has no query positions. Received: rotary={self.rotary}, "
                f"sliding_window={self.sliding_window}. Set both to None, or use call or step."
            )
        value = ops.convert_to_tensor(value, dtype=self.compute_dtype)
        keys, values = self._project_memory(value if key is None else key, value)
        mask = masks.attention_mask(value, attention_mask)  # (B, 1 or T, S)
        attended = mask[:, 0] if mask.shape[1] == 1 else ops.any(mask, axis=1)  # (B, S)
        values = values * ops.cast(attended, values.dtype)[:, None, :, None]
        return {"keys": keys, "values": values, "mask": mask}

    def attend(self, query: Tensor, memory: TensorDict) -> tuple[Tensor, Tensor]:
        """Attends to a prepared memory.

        Args:
            query: Tensor of shape `(batch * beams, target, features)`, or `(batch * beams,
                features)` for one query per beam. The beams of a batch entry are in consecutive
                rows.
            memory: Dict returned by `prepare_memory`.

        Returns:
            Tuple of the outputs, with the leading axes of `query`, and the weights `(batch, heads,
            beams * target, source)`.
        """
        queries = fold_beams_into_queries(  # treat beams as additional queries
            self._multiply(query, "query"),
            ops.shape(memory["mask"])[0],
            (self.num_heads, self.key_dim),
        )  # (B, K*T, H, d)
        queries = ops.transpose(queries, (0, 2, 1, 3))  # (B, H, K*T, d)
        mask = _with_heads(memory["mask"])
        inputs = queries, memory["keys"], memory["values"]
        # A call of Dropout without `training` would make Keras disable training for later layers.
        dropout = self.dropout_layer if self.dropout else None
        if mask.shape[2] == 1:
            # Speed: the values of masked positions are 0, so masked weights do not affect the
            # context. Only the returned weights are multiplied by the mask. This saves an operator
            # in every step.
            bias = masks.scores_of_mask(mask)
            heads, weights = scaled_dot_product(*inputs, bias=bias, dropout=dropout)
            weights = weights * ops.cast(mask, weights.dtype)
        else:
            heads, weights = scaled_dot_product(*inputs, mask, dropout=dropout)
        record(self, weights)
        return self._combine(heads, query), weights

    def new_cache(
        self, batch: int | Tensor, capacity: int, growing: bool | None = None
    ) -> TensorDict:
        """Returns an empty cache, see `keras_attn._decoding_state.kv_cache.new_cache`."""
        return kv_cache.new_cache(
            batch,
            self.num_key_value_heads,
            self.key_dim,
            self.value_dim,
            self.compute_dtype,
            capacity,
            growing,
        )

    def step(
        self,
        query: Tensor,
        cache: TensorDict,
        view: CacheView,
        position_bias: PositionBias | None = None,
    ) -> tuple[Tensor, Tensor, TensorDict]:
        """Computes causal self-attention of new positions to themselves and to a cache.

        Args:
            query: Tensor of shape `(batch, new_positions, features)`, or `(batch, features)` for a
                single position. With beams: `(batch * beams, features)`, one position per beam.
            cache: Cache returned by `new_cache` or by the previous step.
            view: `CacheView` with the slots for the new positions and the slots to attend to.
            position_bias: See the call arguments.

        Returns:
            Tuple of the outputs, with the leading axes of `query`, the weights `(batch, heads,
            new_positions or beams, slots)`, and the new cache.
        """
        queries, keys, values = self._project_positions(query, view)
        cache = kv_cache.extend(cache, keys, values, view.slot, view.growing)
        num_new = 1 if len(query.shape) == 2 else ops.shape(query)[1]
        positions = view.positions(cache, num_new)
        parts = [cache] if view.archive is None else [view.archive, cache]
        bias, has_weight = compute_position_bias(position_bias, *positions)
        heads, weights = scaled_dot_product(
            queries,
            [part["keys"] for part in parts],
            [part["values"] for part in parts],
            masks.both(_with_heads(view.mask(*positions, self.sliding_window)), has_weight),
            add_biases(bias, view.ancestor_bias),
            # No dropout with beams, because searches with beams are not part of training.
            self.dropout_layer if self.dropout and view.ancestor_bias is None else None,
        )
        return self._combine(heads, query), weights, cache

    def _project_positions(self, query, view):
        """Returns queries, keys and values of new positions.

        Their shape is `(batch, heads, positions or beams, size)`.
        """
        beams = view.num_beams
        heads = self._project(query, "query", "key", "value", beams=beams)
        queries, keys = (self._turn(head, view.first_position, beams) for head in heads[:2])
        return queries, keys, heads[2]

    def _project(self, inputs, *names, beams=1):
        """Computes the projections `names` in one matrix product.

        Returns:
            List of tensors of shape `(B, heads, T or K, head_size)`, one for each name.
        """
        # Use the sizes of `inputs`, not the sizes of the product: `model.export(format="onnx")`
        # runs the optimizers of tf2onnx. With the sizes of the product, these optimizers write 0
        # ("same size as the input") into the shape of the next reshape, and then remove the reshape
        # before it. The 0 then refers to a different input.
        leading = ops.shape(inputs)[:-1]
        counts = [self.num_heads if name == "query" else self.num_key_value_heads for name in names]
        head_dims = [self.value_dim if name == "value" else self.key_dim for name in names]
        return split_heads(self._multiply(inputs, *names), leading, counts, head_dims, beams)

    def _project_memory(self, key, value):
        if key is value:
            return self._project(value, "key", "value")
        return self._project(key, "key") + self._project(value, "value")

    def _multiply(self, inputs, *names):
        """Concatenates the projections `names`: `(..., features)` to `(..., sum of sizes)`."""
        kernels = [getattr(self, f"{name}_kernel") for name in names]
        if self.lora_kernels:
            kernels = [self.adapted_kernel(*pair) for pair in zip(names, kernels, strict=True)]
        kernels = [self._scaled(*pair) for pair in zip(names, kernels, strict=True)]
        biases = None
        if self.use_bias:
            biases = [self._scaled(name, getattr(self, f"{name}_bias")) for name in names]
        return project_heads(ops.cast(inputs, self.compute_dtype), kernels, biases)

    def _scaled(self, name, weight):
        """Returns a weight. The weights of the query projection are scaled by 1/sqrt(key_dim).

        Scaling the weights is cheaper than scaling the queries.
        """
        weight = ops.cast(weight, self.compute_dtype)
        return weight * self.key_dim**-0.5 if name == "query" else weight

    def _combine(self, heads, query):
        """Merges and projects the heads `(B, H, T, dv)`. The result has the axes of `query`."""
        heads = merge_heads(heads, ops.shape(query)[:-1], self.num_heads * self.value_dim)
        if self.use_gate:
            heads = heads * ops.sigmoid(self._multiply(query, "gate"))  # (B, T, H * dv)
        return self._multiply(heads, "output")  # (B, T, E)

    def _turn(self, heads, start_index, beams=1):
        """Applies the rotary positions to heads `(batch, heads, time, size)`.

        With beams, `time` is the number of beams, which have the same position.
        """
        if self.rotary is None:
            return heads
        if is_integer(beams) and beams == 1:
            return ops.cast(self.rotary(heads, start_index=start_index), self.compute_dtype)
        batch, num_heads, _, size = ops.shape(heads)
        batch = batch if isinstance(batch, int) else -1
        turned = ops.reshape(heads, (batch, num_heads * beams, 1, size))
        turned = self._turn(turned, start_index)
        return ops.reshape(turned, (batch, num_heads, beams, size))

    def _dropout(self, training):
        if not self.dropout:
            return None
        return lambda weights: self.dropout_layer(weights, training=training)

    def compute_output_shape(
        self,
        query_shape: StaticShape,
        value_shape: StaticShape | None = None,
        key_shape: StaticShape | None = None,
    ) -> tuple[int | None, ...]:
        size = query_shape[-1] if self.output_size is None else self.output_size
        return (*query_shape[:-1], size)

    def compute_output_spec(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        return_attention_scores: bool = False,
        position_bias: PositionBias | None = None,
        **kwargs: Any,
    ) -> Any:
        check_position_bias(position_bias)
        value = query if value is None else value
        shape = self.compute_output_shape(tuple(query.shape))
        axes = AttentionAxes(self.attention_axes, query, value)
        weights_shape = (*axes.row_sizes, self.num_heads, *axes.query_sizes, *axes.value_sizes)
        return attention_spec(shape, weights_shape, self.compute_dtype, return_attention_scores)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self.output_size,
            "attention_axes": self.attention_axes,
            "sliding_window": self.sliding_window,
            "flash_attention": self.flash_attention,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "activity_regularizer": None,
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
            "bias_constraint": keras.constraints.serialize(self.bias_constraint),
            "use_gate": self.use_gate,
            "seed": self.seed,
            "num_key_value_heads": self.num_key_value_heads,
            "rotary": keras.saving.serialize_keras_object(self.rotary),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        # A configuration of the Keras layer has no key "rotary".
        rotary = keras.saving.deserialize_keras_object(config.get("rotary"))
        return cls(**{**config, "rotary": rotary})


def _with_heads(mask: Any) -> Any:
    """Reshapes a mask `(B, T, S)` to `(B, 1, T, S)`. Masks per head and `None` are unchanged."""
    return mask if mask is None or len(mask.shape) == 4 else mask[:, None]


def _checked_axes(axes):
    """Returns `attention_axes` as a tuple, or `None`."""
    if axes is None:
        return None
    axes = (axes,) if is_integer(axes) else axes
    if not isinstance(axes, list | tuple) or not all(map(is_integer, axes)):
        raise ValueError(
            "Expected attention_axes to be an integer, a tuple of integers, or None. Received: "
            f"attention_axes={axes!r}."
        )
    return tuple(axes)


def _check_sizes(output_shape, sliding_window, **sizes):
    for name, number in sizes.items():
        check_positive_integer(name, number)
    for name, number in (("output_shape", output_shape), ("sliding_window", sliding_window)):
        if number is not None:
            check_positive_integer(name, number)
    num_heads, num_key_value_heads = sizes["num_heads"], sizes["num_key_value_heads"]
    if num_heads % num_key_value_heads:
        raise ValueError(
            "Expected num_key_value_heads to divide num_heads. "
            f"Received: num_key_value_heads={num_key_value_heads}, num_heads={num_heads}."
        )


def _check_features(dropout, rotary, activity_regularizer, flash_attention):
    check_dropout("dropout", dropout)
    if rotary is not None and not callable(getattr(rotary, "call", None)):
        raise ValueError(
            f"Expected rotary to be a RotaryPositions layer or None. Received: rotary={rotary!r}."
        )
    if activity_regularizer is not None:
        raise ValueError(
            "Expected activity_regularizer=None, because the layer does not support it. Received: "
            f"activity_regularizer={activity_regularizer!r}. Omit the argument."
        )
    if flash_attention and dropout:
        raise ValueError(
            "Expected dropout=0 if flash_attention=True, because blockwise attention has no "
            f"dropout. Received: flash_attention=True, dropout={dropout}. Set dropout=0, or "
            "flash_attention=None."
        )
