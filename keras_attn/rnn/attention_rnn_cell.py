import keras
from keras import ops, tree

from keras_attn.arguments import check_positive_integer
from keras_attn.build_once import build_once
from keras_attn.fold_beams import fold_beams, unfold_beams
from keras_attn.rnn.state_sizes import state_sizes

QUERIES = ("cell_output", "previous_state")


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionRNNCell(keras.layers.Layer):
    """Puts attention around any Keras cell.

    With `query="cell_output"`, the order of [Luong et al., 2015](https://arxiv.org/abs/1508.04025),
    section 3:

        h_t, s_t = cell([x_t ; a_{t-1}], s_{t-1})   (a_{t-1} with input feeding only, section 3.3)
        c_t      = attention(query=h_t)
        a_t      = tanh(W_a [h_t ; c_t])            (equation 5)

    With `query="previous_state"`, the order of [Bahdanau et al.,
    2015](https://arxiv.org/abs/1409.0473), appendix A.2.2:

        c_t      = attention(query=top state of s_{t-1})
        h_t, s_t = cell([x_t ; c_t], s_{t-1})       ([x_t ; c_t ; a_{t-1}] with input feeding)
        a_t      = tanh(W_a [h_t ; c_t])

    The output is the attention vector a_t. Without `attention_units` there is no W_a: the output is
    [h_t ; c_t], and input feeding feeds c_{t-1}. Without `attention` the output is h_t: a plain
    recurrent cell.

    The memory is an argument of the call and nothing is kept between calls, so that the cell can be
    trained, saved, searched with and exported. `AttentionRNN` loops it over a sequence.

    Args:
        cell: a Keras cell (`keras.layers.LSTMCell(256)`), or a list of cells, which are stacked.
        attention: an `AttentionMechanism`, a `MultiHeadAttention`, or `None`. Default `None`.
        input_feeding: bool, whether the previous attention vector is an input of the cell. Default
            `True`.
        attention_units: int, size of the attention vector. Default `None`: no attention vector
            layer.
        attention_activation: activation of the attention vector. Default `"tanh"`.
        query: `"cell_output"` or `"previous_state"`. Default `"cell_output"`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(batch * beams, features)`, the input of one time step.
        state: dict as from `get_initial_state`, leaves `(batch * beams, ...)`.
        memory: dict as from `prepare_memory`, leaves `(batch, ...)`: beams share it.

    Returns:
        Tuple of the output `(batch * beams, output_size)` and the new state. Where the state holds
        `alignments` `(batch * beams, source)`, they are the weights of this step.

    Raises:
        ValueError: if `query` is unknown, `attention_units` is not a positive integer, or a memory
        is missing.
    """

    def __init__(
        self,
        cell,
        attention=None,
        input_feeding=True,
        attention_units=None,
        attention_activation="tanh",
        query="cell_output",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if query not in QUERIES:
            raise ValueError(f"query must be one of {QUERIES}. Received: query={query!r}.")
        if attention_units is not None:
            check_positive_integer("attention_units", attention_units)
        if isinstance(cell, list | tuple):
            cell = cell[0] if len(cell) == 1 else keras.layers.StackedRNNCells(cell)
        self.cell = cell
        self.attention = attention
        self.input_feeding = input_feeding
        self.attention_units = attention_units
        self.attention_activation = keras.activations.get(attention_activation)
        self.query = query
        self.attention_layer = None
        if attention is not None and attention_units is not None:
            self.attention_layer = keras.layers.Dense(
                attention_units,
                activation=self.attention_activation,
                use_bias=False,
                dtype=self.dtype_policy,
                name="attention_layer",
            )

    @property
    def feeds_back(self):
        """Whether a step needs the attention of the step before, so that time must be a loop."""
        return self.attention is not None and (self.input_feeding or self.query == "previous_state")

    def build(self, inputs_shape, encoder_outputs_shape=None):
        """Creates all weights.

        Args:
            inputs_shape: `(batch, features)` of one time step.
            encoder_outputs_shape: `(batch, source, features)`; `None` without attention.
        """
        cell_features = inputs_shape[-1]
        self.query_size = self.output_size = _output_size(self.cell)
        if self.attention is not None:
            if encoder_outputs_shape is None:
                raise ValueError(
                    "A cell with attention is built with the shape of what it attends to. "
                    "Received: encoder_outputs_shape=None."
                )
            if self.query == "previous_state":
                self.query_size = _top(self.cell, self.cell.state_size)
            query_shape = (None, None, self.query_size)
            context_size = self.attention.compute_output_spec(
                keras.KerasTensor(query_shape), keras.KerasTensor(encoder_outputs_shape)
            ).shape[-1]
            if self.query == "previous_state":
                cell_features += context_size
            self.attention_size = self.attention_units or context_size
            if self.input_feeding:
                cell_features += self.attention_size
            build_once(self.attention, query_shape, encoder_outputs_shape)
            joined_size = self.output_size + context_size
            self.output_size = self.attention_units or joined_size
            if self.attention_layer is not None:
                build_once(self.attention_layer, (None, joined_size))
        build_once(self.cell, (inputs_shape[0], cell_features))

    def prepare_memory(self, encoder_outputs, encoder_mask=None):
        """Computes what stays the same for every step, see `AttentionMechanism.prepare_memory`."""
        if self.attention is None:
            return {}
        if encoder_outputs is None:
            raise ValueError(
                "A cell with attention needs something to attend to. "
                "Received: encoder_outputs=None."
            )
        return self.attention.prepare_memory(encoder_outputs, attention_mask=encoder_mask)

    def get_initial_state(self, batch_size, cell_state=None, memory=None, alignments=False):
        """The state before the first step.

        Args:
            batch_size: int or integer scalar, sentences times beams.
            cell_state: state of the inner cell; zeros if not given.
            memory: dict as from `prepare_memory`; needed for `alignments` only.
            alignments: bool, whether the state carries the attention weights of its step.

        Returns:
            Dict of `cell`, and as needed `attention` `(batch_size, attention_size)` and
            `alignments` `(batch_size, source)`.
        """
        if cell_state is None:
            cell_state = self._zero_state(batch_size)
        state = {"cell": cell_state}
        if self.attention is not None and self.input_feeding:
            state["attention"] = ops.zeros(
                (batch_size, self.attention_size), dtype=self.compute_dtype
            )
        if self.attention is not None and alignments:
            source = ops.shape(memory["mask"])[-1]
            state["alignments"] = ops.zeros((batch_size, source), dtype=self.compute_dtype)
        return state

    def call(self, inputs, state, memory=None):
        features = [ops.cast(inputs, self.compute_dtype)]
        if self.attention is not None and self.query == "previous_state":
            context, weights = self._attend(_top(self.cell, state["cell"]), memory)
            features.append(context)
        if "attention" in state:
            features.append(state["attention"])
        output, cell_state = self.cell(ops.concatenate(features, axis=-1), state["cell"])
        cell_state = tree.pack_sequence_as(state["cell"], tree.flatten(cell_state))
        new_state = {"cell": cell_state}
        if self.attention is not None:
            if self.query == "cell_output":
                context, weights = self._attend(output, memory)
            output, attention = self.combine(output, context)
            if "attention" in state:
                new_state["attention"] = attention
            if "alignments" in state:
                new_state["alignments"] = weights
        return output, new_state

    def attend(self, query, memory):
        """Contexts `(batch, target, features)` and weights `(batch, target, source)` of queries.

        The weights of several heads are averaged.
        """
        context, weights = self.attention.attend(query, memory)
        return context, ops.mean(weights, axis=1) if len(weights.shape) == 4 else weights

    def combine(self, output, context):
        """Joins cell output and context to the output and the attention vector."""
        joined = ops.concatenate([output, context], axis=-1)
        if self.attention_layer is None:
            return joined, context
        vector = self.attention_layer(joined)
        return vector, vector

    def _zero_state(self, batch_size):
        """The first state of the inner cell, which need not have a method for it."""
        if hasattr(self.cell, "get_initial_state"):
            return self.cell.get_initial_state(batch_size=batch_size)
        return [
            ops.zeros((batch_size, size), dtype=self.compute_dtype)
            for size in state_sizes(self.cell)
        ]

    def _attend(self, query, memory):
        """Attends with one query a row: `(B*K, D)` queries to a memory of B sentences."""
        rows = ops.shape(query)[0]
        folded = fold_beams(query, ops.shape(memory["mask"])[0])  # (B, K, D)
        results = self.attend(folded, memory)  # (B, K, Dv), (B, K, S)
        return tuple(unfold_beams(each, rows, 1)[:, 0] for each in results)  # (B*K, Dv), (B*K, S)

    def get_config(self):
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
            "attention": keras.saving.serialize_keras_object(self.attention),
            "input_feeding": self.input_feeding,
            "attention_units": self.attention_units,
            "attention_activation": keras.activations.serialize(self.attention_activation),
            "query": self.query,
        }

    @classmethod
    def from_config(cls, config):
        for name in ("cell", "attention"):
            config[name] = keras.saving.deserialize_keras_object(config[name])
        return cls(**config)


def _output_size(cell):
    size = getattr(cell, "output_size", None)
    return _top(cell, cell.state_size) if size is None else size


def _top(cell, states):
    """The state that a cell shows to the outside: the first one, of the last cell of a stack."""
    if isinstance(cell, keras.layers.StackedRNNCells):
        return _top(cell.cells[-1], states[-1])
    return states[0] if isinstance(states, list | tuple) else states
