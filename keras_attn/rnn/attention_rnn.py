import keras
from keras import ops, tree

from keras_attn import masks
from keras_attn._backend.scan import scan, supports_jit
from keras_attn._layer.argument_checks import (
    check_compute_dtype,
    check_same_batch,
    check_second_input,
    check_sequence_shape,
)
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._layer.layer import Layer
from keras_attn._serialization.deserialize_shared import deserialize_shared
from keras_attn._serialization.serialize_shared import serialize_shared
from keras_attn.rnn.attention_rnn_cell import AttentionRNNCell
from keras_attn.rnn.recurrent_layer import recurrent_layer


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionRNN(Layer):
    """Loops an `AttentionRNNCell` over a sequence, given what it attends to.

    What `keras.layers.RNN` is to a cell, this is to a cell with attention. Where no step needs the
    attention of the step before (no input feeding, query from the cell output), the recurrence runs
    as one `keras.layers.LSTM`, `GRU` or `RNN`, and all positions attend at once; the result is the
    same.

    Args:
        cell: an `AttentionRNNCell`, or any Keras cell (then without attention).
        return_state: bool, whether to return the last state too. Default `False`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(batch, target, features)`.
        encoder_outputs: `(batch, source, features)`, what is attended to; `None` for a cell without
            attention, a dict for `CombinedAttention`.
        encoder_mask: boolean `(batch, source)`, True = may be attended; a dict as above. It is
            joined with `encoder_outputs_mask`.
        initial_state: state of the inner cell, nested as its `get_initial_state`; zeros if not
            given.
        mask: boolean `(batch, target)`: steps that are False leave the state as it is. Also the
            implicit mask of `inputs`, passed by Keras or a wrapper.
        return_attention_scores: bool, whether to return the weights too. Default `False`.
        query_features: `(batch, features)`, part of each query if the cell's `query` names them.
        training: bool, whether dropout is on.
        inputs_mask: boolean `(batch, target)`, the implicit mask of `inputs`, passed by Keras. It
            is joined with `mask`.
        encoder_outputs_mask: boolean `(batch, source)`, the implicit mask of `encoder_outputs`,
            passed by Keras; a dict as above.

    Returns:
        Outputs `(batch, target, output_size)`; a tuple of it and, as asked for, the weights
        `(batch, target, source)` and the last state of the inner cell.

    Masking:
        Padding of the memory gets weight 0. Outputs at masked steps have no meaning.

    Raises:
        ValueError: if `cell` has another compute dtype, `inputs` is not of rank 3, a cell with
            attention is given nothing to attend to, weights are asked of a cell without attention,
            or attention with dropout is to be trained on JAX where each step needs that of the
            step before.

    Example:

    >>> import numpy as np
    >>> from keras_attn import AttentionRNN, AttentionRNNCell, BahdanauAttention
    >>> layer = AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(8), BahdanauAttention(6)))
    >>> targets, memory = np.ones((2, 5, 3), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(layer(targets, memory).shape)
    (2, 5, 12)
    """

    is_container = True

    def __init__(self, cell, return_state=False, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        if not isinstance(cell, AttentionRNNCell):
            cell = AttentionRNNCell(cell, dtype=self.dtype_policy)
        check_compute_dtype(self, cell=cell)
        self.cell = cell
        self.return_state = return_state
        self.rnn = None
        if cell.requires_time_loop:
            self.supports_jit = supports_jit()
        else:
            self.rnn = recurrent_layer(
                cell.cell,
                share_cell=True,
                return_sequences=True,
                return_state=True,
                dtype=self.dtype_policy,
            )

    def build(self, inputs_shape, encoder_outputs_shape=None, query_features_shape=None):
        check_sequence_shape("inputs", inputs_shape)
        self._check_memory(encoder_outputs_shape)
        step_shape = (inputs_shape[0], inputs_shape[2])
        ensure_built(self.cell, step_shape, encoder_outputs_shape, query_features_shape)
        if self.rnn is not None:
            ensure_built(self.rnn, inputs_shape)

    def _check_memory(self, encoder_outputs):
        if self.cell.attention is not None:
            check_second_input(self, "encoder_outputs", encoder_outputs)

    def call(
        self,
        inputs,
        encoder_outputs=None,
        encoder_mask=None,
        initial_state=None,
        mask=None,
        return_attention_scores=False,
        query_features=None,
        training=False,
        inputs_mask=None,
        encoder_outputs_mask=None,
    ):
        self._check_memory(encoder_outputs)
        mask = masks.join(inputs, mask=mask, inputs_mask=inputs_mask)
        check_same_batch(self, inputs=inputs, encoder_outputs=encoder_outputs)
        encoder_mask = masks.join(
            encoder_outputs, encoder_mask=encoder_mask, encoder_outputs_mask=encoder_outputs_mask
        )
        memory = self.cell.prepare_memory(encoder_outputs, encoder_mask, query_features)
        outputs, weights, state = self.run(
            inputs, memory, initial_state, mask, return_attention_scores, training
        )
        results = (outputs,)
        if return_attention_scores:
            results += (weights,)
        if self.return_state:
            results += (state["cell"],)
        return results if len(results) > 1 else outputs

    def run(
        self,
        inputs,
        memory,
        initial_state=None,
        mask=None,
        return_attention_scores=False,
        training=False,
    ):
        """Runs over a whole sequence, given a prepared memory.

        Args:
            inputs: `(batch, target, features)`.
            memory: dict as from `AttentionRNNCell.prepare_memory`.
            initial_state: state of the inner cell; zeros if not given.
            mask: boolean `(batch, target)` or `None`.
            return_attention_scores: bool.
            training: bool, whether dropout is on.

        Returns:
            Tuple of outputs `(batch, target, output_size)`, weights `(batch, target, source)` or
            `None`, and the last state.
        """
        if return_attention_scores and self.cell.attention is None:
            raise ValueError(
                "A cell without attention has no weights to return. "
                f"Received: return_attention_scores={return_attention_scores}."
            )
        if training and self.rnn is None and keras.backend.backend() == "jax":
            _check_draws_nothing(self.cell.attention)
        state = self.cell.get_initial_state(
            ops.shape(inputs)[0],
            initial_state,
            memory,
            alignments=return_attention_scores and self.rnn is None,
            max_steps=ops.shape(inputs)[1],
        )
        if self.rnn is not None:
            return self._run_at_once(inputs, state, memory, mask)
        return self._run_step_by_step(inputs, state, memory, mask)

    def _run_at_once(self, inputs, state, memory, mask):
        outputs, *cell_state = self.rnn(inputs, initial_state=state["cell"], mask=mask)
        cell_state = tree.pack_sequence_as(state["cell"], tree.flatten(cell_state))
        weights = None
        if self.cell.attention is not None:
            inputs = ops.cast(inputs, self.cell.compute_dtype)
            context, weights = self.cell.rematerialized(
                self.cell.attend_all, inputs, outputs, memory
            )
            outputs, _ = self.cell.combine(outputs, context)
        return outputs, weights, {**state, "cell": cell_state}

    def _run_step_by_step(self, inputs, state, memory, mask):
        batch = ops.shape(inputs)[0]
        dtype = self.cell.compute_dtype  # of all that the loop carries
        output = ops.zeros((batch, self.cell.output_size), dtype=dtype)
        inputs = ops.transpose(ops.cast(inputs, dtype), (1, 0, 2))  # (T, B, D)
        steps = {"inputs": inputs}
        if mask is not None:
            steps["mask"] = ops.transpose(ops.cast(mask, "bool"))  # (T, B)

        def step(carry, step_inputs):
            output, state = self.cell(step_inputs["inputs"], carry["state"], memory)
            if mask is not None:
                state = tree.map_structure(
                    lambda new, old: _where_rows(step_inputs["mask"], new, old),
                    state,
                    carry["state"],
                )
            return {"output": output, "state": state}

        def collect(carry):
            state = carry["state"]
            return (carry["output"], *([state["alignments"]] if "alignments" in state else []))

        if _draws_masks(self.cell.cell):
            # Cells with dropout draw one mask a sequence and keep it: draw it outside of the loop.
            # Not by a step of the whole cell: that would record attention that is not there.
            zeros = ops.zeros((batch, self.cell.cell_features), dtype=dtype)
            self.cell.cell(zeros, state["cell"])
        last, collected = scan(step, {"output": output, "state": state}, steps, collect)
        _forget_masks(self.cell.cell)
        outputs, *weights = (ops.transpose(each, (1, 0, 2)) for each in collected)  # (B, T, ...)
        return outputs, weights[0] if weights else None, last["state"]

    def get_config(self):
        return {
            **super().get_config(),
            "cell": serialize_shared(self.cell),
            "return_state": self.return_state,
        }

    @classmethod
    def from_config(cls, config):
        cell = deserialize_shared(config["cell"])
        return cls(**{**config, "cell": cell})


def _check_draws_nothing(attention):
    """Nothing can be drawn at random inside of a loop of JAX."""
    rates = [
        each.rate for each in flatten_layers([attention]) if isinstance(each, keras.layers.Dropout)
    ]
    if any(rates):
        raise ValueError(
            "On JAX attention inside of a loop over time has no dropout. Received: "
            f"{type(attention).__name__} with dropout={max(rates)}. Set it to 0."
        )


def _where_rows(condition, new, old):
    """Rows of `new` where the condition `(rows,)` is True, and of `old` elsewhere."""
    return ops.where(ops.reshape(condition, (-1, *[1] * (len(new.shape) - 1))), new, old)


def _cells(cell):
    return cell.cells if isinstance(cell, keras.layers.StackedRNNCells) else [cell]


def _draws_masks(cell):
    return any(getattr(c, "dropout", 0) or getattr(c, "recurrent_dropout", 0) for c in _cells(cell))


def _forget_masks(cell):
    for c in _cells(cell):
        if hasattr(c, "reset_dropout_mask"):
            c.reset_dropout_mask()
            c.reset_recurrent_dropout_mask()
