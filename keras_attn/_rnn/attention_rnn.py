from typing import Any, Self

import keras
from keras import ops, tree

from keras_attn import _masks as masks
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
from keras_attn._rnn.attention_rnn_cell import AttentionRNNCell
from keras_attn._rnn.cell_states import forget_dropout_masks
from keras_attn._rnn.recurrent_layer import recurrent_layer
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import Mask, Masks, StaticShape, Tensor, TensorDict


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionRNN(Layer):
    """Runs a recurrent cell with attention over a sequence, like `keras.layers.RNN`.

        y_t, h_t = cell(x_t, h_{t-1}, memory)

    The layer is faster if no step depends on the previous step's attention: without input feeding,
    and with a query that contains neither the context nor the previous state. The cell then runs as
    a `keras.layers.LSTM`, `GRU` or `RNN`, and attention for all positions is computed at once. The
    results are the same as in a loop over the steps.

    Args:
        cell: `AttentionRNNCell`, or a Keras cell for a layer without attention.
        return_state: Bool, whether to also return the last state. Defaults to `False`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, target, features)`.
        encoder_outputs: Tensor of shape `(batch, source, features)` to attend to, a dict of tensors
            for `CombinedAttention`, or `None` for a cell without attention. Defaults to `None`.
        encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that may be
            attended to. A dict of masks if `encoder_outputs` is a dict. It is combined with
            `encoder_outputs_mask`. Defaults to `None`.
        initial_state: The inner cell's initial state, with the same structure as from its
            `get_initial_state` method. Defaults to zeros.
        mask: Boolean tensor of shape `(batch, target)`. Steps whose mask is `False` do not change
            the state. Keras wrappers pass the implicit mask of `inputs` here. It is combined with
            `inputs_mask`. Defaults to `None`.
        return_attention_scores: Bool, whether to also return the attention weights. Defaults to
            `False`.
        query_features: Tensor of shape `(batch, features)`. Required if the cell was created with a
            `query_from` that contains `"features"`. Defaults to `None`.
        training: Bool, whether dropout is active. Defaults to `False`.
        inputs_mask: Boolean tensor of shape `(batch, target)`, the implicit mask of `inputs`, which
            Keras passes here if the layer is called directly.
        encoder_outputs_mask: Boolean tensor of shape `(batch, source)` or a dict of masks, the
            implicit mask of `encoder_outputs`. Keras passes this argument.

    Returns:
        Outputs of shape `(batch, target, output_size)`. If `return_attention_scores` or
        `return_state` is `True`, a tuple of the outputs and the requested values: the attention
        weights `(batch, target, source)`, and the inner cell's last state.

    Masking:
        Masked memory positions get a weight of exactly 0. Outputs at masked steps are undefined.

    Raises:
        ValueError: If the compute dtypes of `cell` and the layer differ, the rank of `inputs` is
            not 3, `encoder_outputs` is missing for a cell with attention, attention weights are
            requested from a cell without attention, or attention with dropout is trained with JAX
            in a loop over time.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import AttentionRNN, AttentionRNNCell, BahdanauAttention
    >>> layer = AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(8), BahdanauAttention(6)))
    >>> targets, memory = np.ones((2, 5, 3), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(layer(targets, memory).shape)
    (2, 5, 12)
    """

    is_container = True

    def __init__(self, cell: keras.layers.Layer, return_state: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if not isinstance(cell, AttentionRNNCell):
            cell = AttentionRNNCell(cell, dtype=self.dtype_policy)
        check_compute_dtype(self, cell=cell)
        self.cell = cell
        self.return_state = return_state
        self.rnn: Any = None
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

    def build(
        self,
        inputs_shape: StaticShape,
        encoder_outputs_shape: StaticShape | None = None,
        query_features_shape: StaticShape | None = None,
    ) -> None:
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
        inputs: Tensor,
        encoder_outputs: Any = None,
        encoder_mask: Masks | None = None,
        initial_state: Any = None,
        mask: Mask | None = None,
        return_attention_scores: bool = False,
        query_features: Tensor | None = None,
        training: bool = False,
        inputs_mask: Mask | None = None,
        encoder_outputs_mask: Masks | None = None,
    ) -> Any:
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
        inputs: Tensor,
        memory: TensorDict | None,
        initial_state: Any = None,
        mask: Mask | None = None,
        return_attention_scores: bool = False,
        training: bool = False,
    ) -> tuple[Tensor, Any, TensorDict]:
        """Runs the cell over a whole sequence.

        Args:
            inputs: Tensor of shape `(batch, target, features)`.
            memory: Dict returned by `AttentionRNNCell.prepare_memory`.
            initial_state: State of the inner cell. Defaults to zeros.
            mask: Boolean tensor of shape `(batch, target)`. Defaults to `None`.
            return_attention_scores: Bool, whether to return the attention weights. Defaults to
                `False`.
            training: Bool, whether dropout is active. Defaults to `False`.

        Returns:
            Tuple of the outputs `(batch, target, output_size)`, the weights `(batch, target,
            source)`, and the last state of the `AttentionRNNCell`, a dict. The weights are `None`
            without attention, and in a loop over the steps if they are not requested.

        Raises:
            ValueError: If weights are requested of a cell without attention, or if the attention
                draws random numbers in a loop of JAX during training.
        """
        if return_attention_scores and self.cell.attention is None:
            raise ValueError(
                "Expected return_attention_scores=False for a cell without attention. "
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
        dtype = self.cell.compute_dtype  # dtype of all tensors in the loop
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
            # Cells with dropout sample one mask per sequence and store it. Call the inner cell, so
            # that it samples the mask before the loop. Calling the whole cell would also record
            # attention weights.
            zeros = ops.zeros((batch, self.cell.cell_features), dtype=dtype)
            self.cell.cell(zeros, state["cell"])
        last, collected = scan(step, {"output": output, "state": state}, steps, collect)
        forget_dropout_masks(self.cell.cell)
        outputs, *weights = (ops.transpose(part, (1, 0, 2)) for part in collected)  # (B, T, ...)
        return outputs, weights[0] if weights else None, last["state"]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "cell": serialize_shared(self.cell),
            "return_state": self.return_state,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        cell = deserialize_shared(config["cell"])
        return cls(**{**config, "cell": cell})


def _check_draws_nothing(attention):
    """Raises a `ValueError` for attention with dropout, because JAX cannot sample in a loop."""
    rates = [
        item.rate for item in flatten_layers([attention]) if isinstance(item, keras.layers.Dropout)
    ]
    if any(rates):
        raise ValueError(
            "Expected attention without dropout in a loop over time on JAX. Received: "
            f"{type(attention).__name__} with dropout={max(rates)}. Set dropout=0."
        )


def _where_rows(condition, new, old):
    """Returns rows of `new` where `condition` `(rows,)` is `True`, and rows of `old` elsewhere."""
    return ops.where(ops.reshape(condition, (-1, *[1] * (len(new.shape) - 1))), new, old)


def _cells(cell):
    return cell.cells if isinstance(cell, keras.layers.StackedRNNCells) else [cell]


def _draws_masks(cell):
    return any(getattr(c, "dropout", 0) or getattr(c, "recurrent_dropout", 0) for c in _cells(cell))
