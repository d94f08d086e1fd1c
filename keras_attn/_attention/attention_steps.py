from typing import Any

import keras
from keras import ops

from keras_attn._decoding_state.beam_axis import fold_beams_into_queries, merge_beams
from keras_attn._types import Mask, StaticShape, Tensor, TensorDict


def attention_spec(
    shape: StaticShape, weights_shape: StaticShape, dtype: Any, return_attention_scores: bool
) -> Any:
    """Returns an attention layer's output specification.

    Args:
        shape: Tuple, output shape.
        weights_shape: Tuple, shape of the weights.
        dtype: String, dtype of the output and the weights.
        return_attention_scores: Bool, whether the layer also returns the weights.

    Returns:
        `keras.KerasTensor`, or a tuple of two `keras.KerasTensor`s.
    """
    outputs = keras.KerasTensor(shape, dtype=dtype)
    if not return_attention_scores:
        return outputs
    return outputs, keras.KerasTensor(weights_shape, dtype=dtype)


class AttentionSteps:
    """Interface of attention in a recurrent loop: each step has one query per beam and a state.

    By default, attention has no state, and a step calls `attend` with one query per beam.
    """

    requires_time_loop = False
    """Bool, whether a step depends on the previous step's state."""

    can_exceed_max_length = True
    """Bool, whether the number of steps may exceed the argument `max_steps` of `initial_state`."""

    attends_to_source = True
    """Bool, whether the weights refer to source positions."""

    def primary_source(self, values: Any) -> Any:
        """Selects the encoder output or mask that the returned attention weights belong to.

        By default, there is one source, and `values` is returned unchanged.

        Args:
            values: Encoder output or mask. `CombinedAttention` also accepts a dict with one value
                for each of its layers.
        """
        return values

    def mask_queries(self, memory: TensorDict, query_mask: Mask | None) -> TensorDict:
        """Adds a padding mask of the queries to a prepared memory.

        By default, the mask is ignored. `IntraDecoderAttention` uses the mask, because its keys are
        previous queries.

        Args:
            memory: Dict returned by `prepare_memory`.
            query_mask: Boolean tensor of shape `(batch, target)`, or `None`.

        Returns:
            The memory.
        """
        return memory

    def initial_state(
        self, memory: TensorDict, rows: int | Tensor, max_steps: int | Tensor | None = None
    ) -> TensorDict:
        """Returns the state before the first step.

        Args:
            memory: Dict returned by `prepare_memory`. Its tensors have the shape `(batch, ...)`.
            rows: Int or scalar int tensor, batch size times number of beams.
            max_steps: Int or scalar int tensor, maximum number of steps. Defaults to `None`: the
                number is unknown.

        Returns:
            Dict of tensors of shape `(rows, ...)`, with the beams of a batch entry in consecutive
            rows. The dict is empty for attention without a state.
        """
        return {}

    def num_positions(
        self, memory: TensorDict, max_steps: int | Tensor | None = None
    ) -> int | Tensor:
        """Returns the size of the last axis in a step's attention weights."""
        return ops.shape(memory["mask"])[-1]

    def attend_step(
        self, query: Tensor, memory: TensorDict, state: TensorDict
    ) -> tuple[Tensor, Tensor, TensorDict]:
        """Attends with one query per row.

        Args:
            query: Tensor of shape `(rows, query_dim)`.
            memory: Dict returned by `prepare_memory`. Its tensors have the shape `(batch, ...)`.
                The beams of a batch entry share these tensors.
            state: Dict returned by `initial_state` or by the previous step.

        Returns:
            Tuple of the context `(rows, value_dim)`, the weights `(rows, num_positions)` and the
            new state.
        """
        rows = ops.shape(query)[0]
        folded = fold_beams_into_queries(query, ops.shape(memory["mask"])[0])  # (B, K, D)
        results = self.align(folded, memory)  # (B, K, Dv), (B, K, S)
        context, weights = (merge_beams(result, rows) for result in results)
        return context, weights, state  # (B*K, Dv), (B*K, S)

    def attend(self, query: Tensor, memory: TensorDict) -> tuple[Tensor, Tensor]:
        """Attends with several queries, see `AttentionMechanism.attend`."""
        raise NotImplementedError(f"{type(self).__name__} must override `attend`.")

    def align(self, query: Tensor, memory: TensorDict) -> tuple[Tensor, Tensor]:
        """Attends with several queries, and averages the weights over the heads.

        Args:
            query: Tensor of shape `(batch, target, query_dim)`.
            memory: Dict returned by `prepare_memory`.

        Returns:
            Tuple of the contexts `(batch, target, value_dim)` and the weights `(batch, target,
            source)`.
        """
        context, weights = self.attend(query, memory)
        return context, ops.mean(weights, axis=1) if len(weights.shape) == 4 else weights
