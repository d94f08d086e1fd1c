from collections.abc import Callable, Sequence
from typing import Any, Self, cast

import keras
from keras import ops, tree

from keras_attn._attention.attention_steps import AttentionSteps
from keras_attn._backend.float64 import activate
from keras_attn._layer.argument_checks import (
    check_cell,
    check_compute_dtype,
    check_positive_integer,
)
from keras_attn._layer.ensure_built import build_activation, ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._rnn.attention_cell_sizes import compute_sizes
from keras_attn._rnn.cell_states import cast_like, output_size, top_state, zero_states
from keras_attn._rnn.composed_query import ComposedQuery
from keras_attn._serialization.former_names import with_new_names
from keras_attn._serialization.plain_function import plain_function
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import ActivationLike, Mask, StaticShape, Tensor, TensorDict


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionRNNCell(Layer):
    """Adds attention to a Keras cell.

    In the equations, x_t are the inputs at step t, and h_t and s_t are the output and the state of
    the inner cell (the argument `cell`). The top state is the first state of the inner cell, or of
    the last cell in a stack.

    With `query_from="cell_output"`, attention is computed after the cell, as in [Luong et al.,
    2015](https://arxiv.org/abs/1508.04025), section 3:

        h_t, s_t = cell([x_t ; a_{t-1}], s_{t-1})   (a_{t-1} with input feeding only, section 3.3)
        c_t      = attention(query=h_t)
        a_t      = tanh(W_a [h_t ; c_t])            (equation 5)

    With `query_from="previous_state"`, attention is computed before the cell, as in [Bahdanau et
    al., 2015](https://arxiv.org/abs/1409.0473), appendix A.2.2:

        c_t      = attention(query=top state of s_{t-1})
        h_t, s_t = cell([x_t ; c_t], s_{t-1})       ([x_t ; c_t ; a_{t-1}] with input feeding)
        a_t      = tanh(W_a [h_t ; c_t])

    Attention is computed after the cell if the query contains `"cell_output"`, otherwise before it.
    The query can also concatenate several of these vectors:

        "cell_output"      h_t
        "previous_state"   the top state of s_{t-1}
        "inputs"           x_t, in a decoder the embedding of the last token
        "context"          c_{t-1}, initially zeros
        "features"         `query_features`, an argument of `prepare_memory` that is constant over
                           all steps, for example a language embedding

    The output is the attention vector a_t. Without `attention_units`, the output is [h_t ; c_t],
    and input feeding uses c_{t-1} instead of a_{t-1}. Without `attention`, the output is h_t, as in
    a plain recurrent cell.

    With `context_gate=True`, the context is multiplied by a scalar gate, so that a step can ignore
    the source ([Xu et al., 2015](https://arxiv.org/abs/1502.03044), section 4.2.1). The gate is
    computed from the query:

        beta_t = sigmoid(w_b . query_t + b_b)
        c_t    = beta_t attention(query_t)

    The memory is a call argument; the cell stores no tensors between calls. `AttentionRNN` runs the
    cell over a sequence.

    Args:
        cell: Keras cell, such as `keras.layers.LSTMCell(256)`, or a list of cells, which are
            stacked.
        attention: `AttentionMechanism`, `MultiHeadAttention`, `IntraDecoderAttention`,
            `CombinedAttention` for several memories, or `None`. Defaults to `None`.
        input_feeding: Bool, whether the previous step's attention vector is an input to the cell.
            Defaults to `True`.
        attention_units: Positive int, size of the attention vector. Defaults to `None`: the cell
            output and the context are concatenated, without the layer W_a.
        attention_activation: Attention vector activation. Defaults to `"tanh"`.
        query_from: String, one of the vector names above, or a tuple of several names. Defaults to
            `"cell_output"`.
        context_gate: Bool, whether the context is multiplied by a gate. Defaults to `False`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch * beams, features)`, the input of one time step.
        state: Dict returned by `get_initial_state` or by the previous step. Its tensors have the
            shape `(batch * beams, ...)`.
        memory: Dict returned by `prepare_memory`. Its tensors have the shape `(batch, ...)`. All
            beams in a batch entry share the memory.
        mechanism: Internal argument; do not pass it. `__call__` moves the attention state from
            `state` to this argument, so that Keras does not cast it. Defaults to `None`.

    Returns:
        Tuple of the output `(batch * beams, output_size)` and the new state. If `state` contains
        the key `alignments`, the new state contains this step's attention weights `(batch * beams,
        source)` under this key.

    Raises:
        ValueError: If `query_from` is unknown, `attention` is not an attention layer,
            `attention_units` is not a positive integer, the compute dtype of `cell` or `attention`
            differs from this layer's, or the memory or the query features are missing.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import AttentionRNNCell, BahdanauAttention
    >>> cell = AttentionRNNCell(keras.layers.GRUCell(8), BahdanauAttention(6), attention_units=4)
    >>> inputs, encoder_outputs = np.ones((2, 3), "float32"), np.ones((2, 7, 5), "float32")
    >>> cell.build((2, 3), (2, 7, 5))
    >>> memory = cell.prepare_memory(encoder_outputs)
    >>> output, state = cell(inputs, cell.get_initial_state(2, memory=memory), memory)
    >>> tuple(output.shape)
    (2, 4)
    """

    def __init__(
        self,
        cell: Any,
        attention: Any = None,
        *,
        input_feeding: bool = True,
        attention_units: int | None = None,
        attention_activation: ActivationLike = "tanh",
        query_from: str | Sequence[str] = "cell_output",
        context_gate: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.composed_query = ComposedQuery(query_from)
        self.query_from = self.composed_query.query_from
        if attention is not None and not isinstance(attention, AttentionSteps):
            raise ValueError(
                "Expected attention to be an attention layer of keras_attn, such as "
                f"BahdanauAttention(256). Received: attention={attention}."
            )
        check_compute_dtype(self, attention=attention)
        if attention_units is not None:
            check_positive_integer("attention_units", attention_units)
        for part in cell if isinstance(cell, list | tuple) else [cell]:
            check_cell(part)
            check_compute_dtype(self, cell=part)
        if isinstance(cell, list | tuple):
            stack = keras.layers.StackedRNNCells
            cell = cell[0] if len(cell) == 1 else stack(cell, dtype=self.dtype_policy)
        self.cell = cell
        self.attention: Any = attention
        self.input_feeding = input_feeding
        self.attention_units = attention_units
        self.attention_activation = plain_function(keras.activations.get(attention_activation))
        self.attention_layer = None
        if attention is not None and attention_units is not None:
            self.attention_layer = keras.layers.Dense(
                attention_units,
                use_bias=False,
                dtype=self.dtype_policy,
                name="attention_layer",
            )
        if context_gate and attention is None:
            raise ValueError(
                "Expected context_gate=False for a cell without attention. Received: "
                f"context_gate={context_gate}. Pass an attention layer."
            )
        self.context_gate = context_gate
        self.gate_layer = None
        if context_gate:
            self.gate_layer = keras.layers.Dense(
                1, activation="sigmoid", dtype=self.dtype_policy, name="gate_layer"
            )

    @property
    def state_size(self) -> Any:
        raise ValueError(
            "Expected a cell that only needs inputs and states. Received: an AttentionRNNCell, "
            "which also needs encoder outputs. Use AttentionRNN(cell)(inputs, encoder_outputs)."
        )

    @property
    def requires_time_loop(self) -> bool:
        """Bool, whether a step depends on the previous step's attention."""
        return self.attention is not None and (
            self.input_feeding
            or self.attention.requires_time_loop
            or not self.attends_after_cell
            or "context" in self.composed_query
            or "previous_state" in self.composed_query
        )

    @property
    def attends_after_cell(self) -> bool:
        """Bool, whether the query depends on the inner cell's output."""
        return "cell_output" in self.composed_query

    def build(
        self,
        inputs_shape: StaticShape,
        encoder_outputs_shape: StaticShape | None = None,
        query_features_shape: StaticShape | None = None,
    ) -> None:
        """Creates all weights.

        Args:
            inputs_shape: Tuple, `(batch, features)` for one time step.
            encoder_outputs_shape: Tuple, `(batch, source, features)`, or a dict of tuples. `None`
                without attention.
            query_features_shape: Tuple, `(batch, features)`. `None` if the constructor argument
                `query_from` does not contain `"features"`.
        """
        self.cell_features = inputs_shape[-1]
        self.output_size = output_size(self.cell)
        if self.attention is not None:
            if encoder_outputs_shape is None:
                raise ValueError(
                    "Expected the shape of the encoder outputs for a cell with attention. "
                    "Received: encoder_outputs_shape=None."
                )
            self.composed_query.check_features(query_features_shape)
            sizes = compute_sizes(self, inputs_shape, encoder_outputs_shape, query_features_shape)
            self.cell_features = sizes.cell_inputs
            self.context_size = sizes.context
            self.attention_size = sizes.attention
            self.output_size = self.attention_units or sizes.joined
            ensure_built(self.attention, (None, None, sizes.query), encoder_outputs_shape)
            if self.attention_layer is not None:
                ensure_built(self.attention_layer, (None, sizes.joined))
                build_activation(self.attention_activation, (None, self.attention_units))
            if self.gate_layer is not None:
                ensure_built(self.gate_layer, (None, sizes.query))
        ensure_built(self.cell, (inputs_shape[0], self.cell_features))

    def prepare_memory(
        self,
        encoder_outputs: Tensor,
        encoder_mask: Mask | None = None,
        query_features: Tensor | None = None,
    ) -> TensorDict:
        """Computes all tensors that do not depend on the step.

        Args:
            encoder_outputs: Tensor of shape `(batch, source, features)`, or another value that the
                attention accepts, such as a dict.
            encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that may
                be attended to. Defaults to `None`.
            query_features: Tensor of shape `(batch, features)`. Required if the constructor
                argument `query_from` contains `"features"`. Defaults to `None`.

        Returns:
            Nested dict of tensors with shape `(batch, ...)`.
        """
        if self.attention is None:
            return {}
        if encoder_outputs is None:
            raise ValueError(
                "Expected encoder outputs for a cell with attention. "
                "Received: encoder_outputs=None."
            )
        self.composed_query.check_features(query_features)
        memory = self.attention.prepare_memory(encoder_outputs, attention_mask=encoder_mask)
        if "features" in self.composed_query:
            memory["query_features"] = ops.convert_to_tensor(
                cast(Tensor, query_features), self.compute_dtype
            )
        return memory

    def get_initial_state(
        self,
        batch_size: int | Tensor,
        cell_state: Any = None,
        memory: Any = None,
        alignments: bool = False,
        max_steps: int | Tensor | None = None,
    ) -> TensorDict:
        """Returns the state before the first step.

        Args:
            batch_size: Int or scalar int tensor, batch size times number of beams.
            cell_state: The inner cell's state. Defaults to zeros.
            memory: Dict returned by `prepare_memory`. Required if `alignments` is `True` or the
                attention has a state. Defaults to `None`.
            alignments: Bool, whether the state contains the last step's attention weights. Defaults
                to `False`.
            max_steps: Int or scalar int tensor, maximum number of steps. Defaults to `None`: the
                number is unknown.

        Returns:
            Dict with `cell` and, if the configuration needs them, `attention` `(batch_size,
            attention_size)`, `context` `(batch_size, context_size)`, `mechanism` (nested dict, the
            attention state) and `alignments` `(batch_size, source)`.
        """
        zeros_of_cell = zero_states(self.cell, batch_size, self.compute_dtype)
        if cell_state is not None:
            cell_state = cast_like(cell_state, zeros_of_cell)
        state = {"cell": zeros_of_cell if cell_state is None else cell_state}
        if self.attention is None:
            return state

        def zeros(size):
            return ops.zeros((batch_size, size), dtype=self.compute_dtype)

        if self.input_feeding:
            state["attention"] = zeros(self.attention_size)
        if "context" in self.composed_query:
            state["context"] = zeros(self.context_size)
        if self.attention.requires_time_loop:
            state["mechanism"] = self.attention.initial_state(memory, batch_size, max_steps)
        if alignments:
            state["alignments"] = zeros(self.attention.num_positions(memory, max_steps))
        return state

    def __call__(
        self, inputs: Tensor, state: TensorDict, memory: TensorDict | None = None, **kwargs: Any
    ) -> Any:
        if "mechanism" in state and self.compute_dtype != "float32":
            # Keras casts all float arguments, but the attention state must remain float32.
            kwargs["mechanism"] = _Hidden(state["mechanism"])
            state = {name: value for name, value in state.items() if name != "mechanism"}
        return super().__call__(inputs, state, memory, **kwargs)

    def rematerialized_call(
        self,
        layer_call: Callable[..., Any],
        inputs: Tensor,
        state: TensorDict,
        memory: TensorDict | None = None,
        mechanism: Any = None,
    ) -> Any:
        def whole(state, mechanism):
            # Rematerialization only computes gradients for tensors that are arguments.
            return state if mechanism is None else {**state, "mechanism": mechanism.value}

        call = super().rematerialized_call(layer_call, inputs, whole(state, mechanism), memory)
        return lambda inputs, state, memory=None, mechanism=None: call(
            inputs, whole(state, mechanism), memory
        )

    def call(
        self,
        inputs: Tensor,
        state: TensorDict,
        memory: Any = None,
        mechanism: Any = None,
    ) -> tuple[Tensor, TensorDict]:
        if mechanism is not None:
            state = {**state, "mechanism": mechanism.value}
        if self.attention is not None and not memory:
            raise ValueError(
                "Expected a memory for a cell with attention. Received: "
                f"memory={memory!r}. Pass the result of `prepare_memory`."
            )
        inputs = ops.cast(inputs, self.compute_dtype)
        features, new_state, context = [inputs], {}, cast(Any, None)

        def attend(**parts):
            parts["context"] = state.get("context")
            query = self.composed_query.compose(inputs, memory.get("query_features"), **parts)
            context, weights, mechanism = self.attention.attend_step(
                query, memory, state.get("mechanism", {})
            )
            context = self._gate(context, query)
            results = {"context": context, "alignments": weights, "mechanism": mechanism}
            new_state.update({name: results[name] for name in results if name in state})
            return context

        if self.attention is not None and not self.attends_after_cell:
            context = attend(previous_state=top_state(self.cell, state["cell"]))
            features.append(context)
        if "attention" in state:
            features.append(state["attention"])
        output, cell_state = self.cell(ops.concatenate(features, axis=-1), state["cell"])
        new_state["cell"] = tree.pack_sequence_as(state["cell"], tree.flatten(cell_state))
        if self.attention is not None:
            if self.attends_after_cell:
                previous_state = top_state(self.cell, state["cell"])
                context = attend(cell_output=output, previous_state=previous_state)
            output, attention = self.combine(output, context)
            if "attention" in state:
                new_state["attention"] = attention
        return output, new_state

    def attend_all(
        self, inputs: Tensor, outputs: Tensor, memory: TensorDict
    ) -> tuple[Tensor, Tensor]:
        """Computes attention for all steps at once. Requires `requires_time_loop=False`.

        Args:
            inputs: Tensor of shape `(batch, target, features)`.
            outputs: Tensor of shape `(batch, target, output_size)`, the cell outputs.
            memory: Dict returned by `prepare_memory`.

        Returns:
            Tuple of contexts `(batch, target, features)` and attention weights `(batch, target,
            source)`.
        """
        query = self.composed_query.compose(
            inputs, memory.get("query_features"), cell_output=outputs
        )
        context, weights = self.attention.align(query, memory)
        return self._gate(context, query), weights

    def _gate(self, context: Tensor, query: Tensor) -> Tensor:
        return context if self.gate_layer is None else context * self.gate_layer(query)

    def combine(self, output: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the output and the attention vector from the cell output and the context."""
        joined = ops.concatenate([output, context], axis=-1)
        if self.attention_layer is None:
            return joined, context
        vector = activate(self.attention_activation, self.attention_layer(joined))
        return vector, vector

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "cell": serialize_shared(self.cell),
            "attention": serialize_shared(self.attention),
            "input_feeding": self.input_feeding,
            "attention_units": self.attention_units,
            "attention_activation": keras.activations.serialize(self.attention_activation),
            "query_from": self.query_from,
            "context_gate": self.context_gate,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        parts = {name: deserialize_shared(config[name]) for name in ("cell", "attention")}
        return cls(**with_new_names({**config, **parts}, {"query": "query_from"}))


class _Hidden:
    """Wraps tensors, so that Keras does not cast them."""

    def __init__(self, value: Tensor) -> None:
        self.value = value
