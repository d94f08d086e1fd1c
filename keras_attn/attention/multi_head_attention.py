from collections.abc import Sequence
from typing import Any, Self, cast

import keras
from keras import ops

from keras_attn import masks
from keras_attn._decoding_state import kv_cache
from keras_attn._decoding_state.beam_axis import fold_beams_into_queries
from keras_attn._drop_ins.dropout import Dropout
from keras_attn._layer.argument_checks import (
    check_dropout,
    check_positive_integer,
    check_same_batch,
    check_same_time,
)
from keras_attn._layer.layer import Layer
from keras_attn._serialization.clone_initializer import clone_initializer
from keras_attn._serialization.plain_function import plain_function
from keras_attn._types import InitializerLike, Mask, PositionBias, StaticShape, Tensor, TensorDict
from keras_attn.attention.attention_axes import AttentionAxes, check_axes
from keras_attn.attention.attention_recorder import record
from keras_attn.attention.attention_steps import AttentionSteps, attention_spec
from keras_attn.attention.blockwise_attention import blockwise_attention
from keras_attn.attention.cache_view import CacheView
from keras_attn.attention.head_projections import merge_heads, project, split_heads
from keras_attn.attention.position_bias import (
    add_biases,
    check_position_bias,
    compute_position_bias,
)
from keras_attn.attention.scaled_dot_product import scaled_dot_product
from keras_attn.positions.position_range import position_range
from keras_attn.positions.rotary_positions import RotaryPositions


@keras.saving.register_keras_serializable(package="keras_attn")
class MultiHeadAttention(AttentionSteps, Layer):
    """Several scaled dot products side by side, each over projections of its own.

        head_i = softmax((q W_i^Q) (k W_i^K)^T / sqrt(key_dim)) (v W_i^V)
        output = [head_1 ; ... ; head_h] W^O

    Introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.2.2. It takes
    the arguments of `keras.layers.MultiHeadAttention`, with the same meaning, and the weights come
    in the same order; here they are plain matrices `(features, heads * head size)`, so that
    `layer.set_weights([w.reshape(own.shape) ...])` takes them over. Beyond that layer it has
    grouped heads, rotary positions, biases, memories that are prepared once, and a cache. What it
    has not: outputs of several axes, `activity_regularizer`, `enable_lora` and `quantize`.

    Args:
        num_heads: int, query heads.
        key_dim: int, size of each head of queries and keys.
        value_dim: int, size of each head of values. Default: `key_dim`.
        dropout: float in [0, 1), on the weights. Default 0.
        use_bias: bool, whether the projections have biases. Default `True`.
        output_shape: int, or tuple of one, size of the output. Default: that of the query.
        attention_axes: int or tuple of int, the axes of inputs `(batch, ..., features)` over which
            is attended, negative ones counted from the end; in the others, each index has an
            attention of its own. Default: all.
        sliding_window: int: a query attends to keys that are fewer positions away. Default `None`,
            no limit.
        flash_attention: bool, whether `call` uses the blockwise form, whose memory is linear in the
            length ([Rabe and Staats, 2021](https://arxiv.org/abs/2112.05682)). It has neither
            scores to return nor dropout, and a `position_bias` must be a layer that depends on
            distances alone. Default `None`: no.
        kernel_initializer, bias_initializer: of the projections. Default `"glorot_uniform"`,
            `"zeros"`.
        kernel_regularizer, bias_regularizer, kernel_constraint, bias_constraint: of the
            projections. Default `None`.
        activity_regularizer: must be `None`; it has the place that it has in the layer of Keras.
        use_gate: bool, whether a sigmoid of another projection of the query multiplies the heads
            ([Qiu et al., 2025](https://arxiv.org/abs/2505.06708)). Default `False`.
        seed: int, seed of the dropout. Default `None`.
        num_key_value_heads: int, heads of keys and values, which groups of query heads share
            ([Ainslie et al., 2023](https://arxiv.org/abs/2305.13245)); 1 is multi-query attention.
            Default: `num_heads`.
        rotary: a `RotaryPositions` that turns queries and keys, for self-attention. Default `None`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        query: `(batch, target, features)`. There may be more axes between batch and features, see
            `attention_axes`; then value, masks and results have them too, as in Keras.
        value: `(batch, source, features)`. Default: `query`, which is self-attention.
        key: `(batch, source, features)`. Default: `value`.
        query_mask, mask: boolean `(batch, target)`, the implicit mask of `query`, passed by Keras
            or a wrapper; they count for the keys of self-attention. What a padded query gets has
            no meaning. With a `value`, `mask` is refused: a wrapper that passes one mask cannot
            pass that of the value.
        value_mask, key_mask: boolean `(batch, source)`, the implicit masks, passed by Keras.
        attention_mask: boolean `(batch, source)`, `(batch, target, source)` or `(batch, heads or 1,
            target, source)`, True = may be attended. It is joined with the implicit masks. Keras
            takes one of rank 2 for `(target, source)`: here that is `mask[None]`. A float mask that
            is added to scores (0 and -1e9) is refused, but in a graph, where its values are
            unknown, it would count as its opposite: pass it as `position_bias`.
        return_attention_scores: bool, whether to return the weights too.
        training: bool, whether dropout is on.
        use_causal_mask: bool, whether a query sees no key after it.
        position_bias: floats, broadcastable to `(batch, heads, target, source)`, added to the
            scores; or a layer that makes them, such as `AlibiBias`. In a functional model, give
            the result of a layer that has weights. With more axes, 1 in place of the batch.
        start_index: int or int32 scalar or, without more axes, `(batch,)`, position of the first
            query and key.

    Returns:
        `(batch, target, output_shape)`, or a tuple of it and the weights `(batch, heads, target,
        source)` before dropout.

    Masking:
        Masked positions get weight exactly 0. A query that may attend to nothing gets the bias of
        the output projection.

    Raises:
        ValueError: for arguments out of range, inputs of a rank below 3 or of different ranks,
            masks that do not fit or are not boolean, and what the blockwise form does not have.

    Example:

    >>> import numpy as np
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
        if isinstance(attention_axes, int):
            attention_axes = (attention_axes,)
        self.attention_axes = None if attention_axes is None else tuple(attention_axes)
        self.sliding_window = sliding_window
        self.flash_attention = flash_attention
        self.kernel_initializer = plain_function(keras.initializers.get(kernel_initializer))
        self.bias_initializer = plain_function(keras.initializers.get(bias_initializer))
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.use_gate = use_gate
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
                    f"{name} must have shape (batch, time, features). "
                    f"Received: {name} with shape {tuple(shape)}."
                )
        if not len(query_shape) == len(value_shape) == len(key_shape):
            raise ValueError(
                "query, value and key must have the same rank. Received: shapes "
                f"{tuple(query_shape)}, {tuple(value_shape)} and {tuple(key_shape)}."
            )
        check_axes(self.attention_axes, len(query_shape))
        heads_size = self.num_heads * self.value_dim
        output_size = query_shape[-1] if self.output_size is None else self.output_size
        self._add_projection("query", query_shape[-1], self.num_heads * self.key_dim)
        self._add_projection("key", key_shape[-1], self.num_key_value_heads * self.key_dim)
        if self.use_gate:  # The place that it has in the layer of Keras.
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
        bias = compute_position_bias(position_bias, *positions)
        heads, weights = scaled_dot_product(
            queries, keys, values, allowed, bias, self._dropout(training)
        )
        record(self, weights)
        outputs = self._combine(heads, query)
        return (outputs, weights) if return_attention_scores else outputs

    def _attend_over_axes(
        self, query, value, key, padding, attention_mask, return_attention_scores, **arguments
    ):
        """`call` for inputs of a higher rank, as one of rank 3."""
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
        """Computes what stays the same for every query.

        Args:
            value: `(batch, source, features)`.
            key: `(batch, source, features)`. Default: `value`.
            attention_mask: boolean `(batch, source)` or `(batch, target, source)`.

        Returns:
            Dict of `keys` `(batch, key/value heads, source, key_dim)`, `values` `(batch, key/value
            heads, source, value_dim)`, 0 where no query may attend, and boolean `mask` `(batch, 1
            or target, source)`.

        Raises:
            ValueError: if the layer has rotary positions or a window, which are for self-attention.
        """
        if self.rotary is not None or self.sliding_window is not None:
            raise ValueError(
                "Queries of a prepared memory have no positions in it. Received: a layer with "
                f"rotary={self.rotary}, sliding_window={self.sliding_window}. Make it without "
                "them, or use `call` or `step`."
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
            query: `(batch * beams, target, features)`, or `(batch * beams, features)` for one
                query each; the beams of a sentence side by side.
            memory: what `prepare_memory` returned.

        Returns:
            Tuple of the outputs, shaped as `query` but for the features, and the weights `(batch,
            heads, beams * target, source)`.
        """
        queries = fold_beams_into_queries(  # beams are further queries of their sentence
            self._multiply(query, "query"),
            ops.shape(memory["mask"])[0],
            (self.num_heads, self.key_dim),
        )  # (B, K*T, H, d)
        queries = ops.transpose(queries, (0, 2, 1, 3))  # (B, H, K*T, d)
        mask = _with_heads(memory["mask"])
        inputs = queries, memory["keys"], memory["values"]
        # Told training=None, it would turn training off for the layers after it too.
        dropout = self.dropout_layer if self.dropout else None
        if mask.shape[2] == 1:
            # Its values being 0, what is masked needs the weight 0 only where weights are asked
            # for: one operator less in every step, even where a query may attend to nothing.
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
        """A cache of no positions, see `keras_attn._decoding_state.kv_cache.new_cache`."""
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
        """Causal self-attention of new positions to those of a cache and to themselves.

        Args:
            query: `(batch, new positions, features)`, or `(batch, features)` for a single one; with
                beams in the view `(batch * beams, features)`, one for each beam.
            cache: as from `new_cache` or the step before.
            view: a `CacheView`, which slots are new and what may be attended to.
            position_bias: as in `call`.

        Returns:
            Tuple of the outputs, shaped as `query` but for the features, the weights `(batch,
            heads, new positions or beams, slots)` and the new cache.
        """
        queries, keys, values = self._project_positions(query, view)
        cache = kv_cache.extend(cache, keys, values, view.slot, view.growing)
        num_new = 1 if len(query.shape) == 2 else ops.shape(query)[1]
        positions = view.positions(cache, num_new)
        parts = [cache] if view.archive is None else [view.archive, cache]
        heads, weights = scaled_dot_product(
            queries,
            [part["keys"] for part in parts],
            [part["values"] for part in parts],
            _with_heads(view.mask(*positions, self.sliding_window)),
            add_biases(compute_position_bias(position_bias, *positions), view.ancestor_bias),
            # Beams are searched, not trained.
            self.dropout_layer if self.dropout and view.ancestor_bias is None else None,
        )
        return self._combine(heads, query), weights, cache

    def _project_positions(self, query, view):
        """Queries, keys and values of new positions, `(batch, heads, positions or beams, size)`."""
        turn = self._turn if view.num_beams == 1 else self._turn_beams
        heads = self._project(query, "query", "key", "value", beams=view.num_beams)
        queries, keys = (turn(each, view.first_position) for each in heads[:2])
        return queries, keys, heads[2]

    def _project(self, inputs, *names, beams=1):
        """Projections of one input, by one product: a list of `(B, heads, T or K, head size)`."""
        # The sizes of `inputs`, not those of the product: tf2onnx's optimizers, which
        # `model.export(format="onnx")` uses, would write 0 for the product's own sizes into the
        # shape of this reshape and then remove the reshape before it, to which the 0 refers.
        leading = ops.shape(inputs)[:-1]
        counts = [self.num_heads if name == "query" else self.num_key_value_heads for name in names]
        head_dims = [self.value_dim if name == "value" else self.key_dim for name in names]
        return split_heads(self._multiply(inputs, *names), leading, counts, head_dims, beams)

    def _project_memory(self, key, value):
        if key is value:
            return self._project(value, "key", "value")
        return self._project(key, "key") + self._project(value, "value")

    def _multiply(self, inputs, *names):
        """The projections `names` side by side: `(..., features)` to `(..., sum of sizes)`."""
        kernels = [self._scaled(name, getattr(self, f"{name}_kernel")) for name in names]
        biases = None
        if self.use_bias:
            biases = [self._scaled(name, getattr(self, f"{name}_bias")) for name in names]
        return project(ops.cast(inputs, self.compute_dtype), kernels, biases)

    def _scaled(self, name, weight):
        """A weight as it is used: scaling those of the queries is cheaper than the queries."""
        weight = ops.cast(weight, self.compute_dtype)
        return weight * self.key_dim**-0.5 if name == "query" else weight

    def _combine(self, heads, query):
        """Output of the heads `(B, H, T, dv)`, shaped as `query` but for the features."""
        heads = merge_heads(heads, ops.shape(query)[:-1], self.num_heads * self.value_dim)
        if self.use_gate:
            heads = heads * ops.sigmoid(self._multiply(query, "gate"))  # (B, T, H * dv)
        return self._multiply(heads, "output")  # (B, T, E)

    def _turn(self, heads, start_index):
        if self.rotary is None:
            return heads
        return ops.cast(self.rotary(heads, start_index=start_index), self.compute_dtype)

    def _turn_beams(self, heads, start_index):
        """`_turn` for heads `(batch, heads, beams, size)`, all beams being at the same position."""
        if self.rotary is None:
            return heads
        batch, num_heads, beams, size = ops.shape(heads)
        batch = batch if isinstance(batch, int) else -1
        turned = ops.reshape(heads, (batch, num_heads * beams, 1, size))
        return ops.reshape(self._turn(turned, start_index), (batch, num_heads, beams, size))

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
        # The layer of Keras, whose configuration may be given too, has none.
        rotary = keras.saving.deserialize_keras_object(config.get("rotary"))
        return cls(**{**config, "rotary": rotary})


def _with_heads(mask: Any) -> Any:
    """`(B, T, S)` to `(B, 1, T, S)`; `None` and masks of each head stay what they are."""
    return mask if mask is None or len(mask.shape) == 4 else mask[:, None]


def _check_sizes(output_shape, sliding_window, **sizes):
    for name, number in sizes.items():
        check_positive_integer(name, number)
    for name, number in (("output_shape", output_shape), ("sliding_window", sliding_window)):
        if number is not None:
            check_positive_integer(name, number)
    num_heads, num_key_value_heads = sizes["num_heads"], sizes["num_key_value_heads"]
    if num_heads % num_key_value_heads:
        raise ValueError(
            "num_key_value_heads must divide num_heads. "
            f"Received: num_key_value_heads={num_key_value_heads}, num_heads={num_heads}."
        )


def _check_features(dropout, rotary, activity_regularizer, flash_attention):
    check_dropout("dropout", dropout)
    if rotary is not None and not callable(getattr(rotary, "call", None)):
        raise ValueError(f"rotary must be a RotaryPositions or None. Received: rotary={rotary!r}.")
    if activity_regularizer is not None:
        raise ValueError(
            "The activities of the projections are not regularized. Received: "
            f"activity_regularizer={activity_regularizer!r}. Leave it out."
        )
    if flash_attention and dropout:
        raise ValueError(
            "Expected dropout=0 with flash_attention=True, because the blockwise form has no "
            f"dropout. Received: flash_attention=True, dropout={dropout}. Set dropout=0, or "
            "flash_attention=None."
        )
