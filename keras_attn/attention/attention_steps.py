from typing import Any

import keras
from keras import ops

from keras_attn._decoding_state.beam_axis import fold_beams_into_queries, merge_beams
from keras_attn._types import Mask, StaticShape, Tensor, TensorDict


def attention_spec(
    shape: StaticShape, weights_shape: StaticShape, dtype: Any, return_attention_scores: bool
) -> Any:
    """Returns the specification of the outputs of an attention layer.

    Args:
        shape: shape of the context or output.
        weights_shape: shape of the weights.
        dtype: dtype of both.
        return_attention_scores: bool, whether the layer returns the weights too.

    Returns:
        `keras.KerasTensor`, or a tuple of two.
    """
    outputs = keras.KerasTensor(shape, dtype=dtype)
    if not return_attention_scores:
        return outputs
    return outputs, keras.KerasTensor(weights_shape, dtype=dtype)


class AttentionSteps:
    """Attention as an attention RNN uses it: one query at a time, beside a state.

    Most attention has no state: then a step is `attend` with one query of each beam.
    """

    requires_time_loop = False
    """Whether a step needs what the step before has left, so that time must be a loop."""

    can_exceed_max_length = True
    """Whether more steps may follow than the `max_steps` given to `initial_state`."""

    attends_to_source = True
    """Whether the weights of a step are over the source: then they align it with the target."""

    def primary_source(self, values: Any) -> Any:
        """Returns the value for the source that the weights of a step refer to, by default any."""
        return values

    def mask_queries(self, memory: TensorDict, query_mask: Mask | None) -> TensorDict:
        """A prepared memory for queries of which some are padding.

        Args:
            memory: what `prepare_memory` returned.
            query_mask: boolean `(batch, target)` or `None`.

        Returns:
            The memory: only attention to the queries themselves uses the mask.
        """
        return memory

    def initial_state(
        self, memory: TensorDict, rows: int | Tensor, max_steps: int | Tensor | None = None
    ) -> TensorDict:
        """The state before the first step.

        Args:
            memory: what `prepare_memory` returned, leaves `(batch, ...)`.
            rows: int or integer scalar, sentences times beams.
            max_steps: int or integer scalar, the most steps that will follow, where they are known.

        Returns:
            Dict with leaves `(rows, ...)`; empty for attention without a state.
        """
        return {}

    def num_positions(
        self, memory: TensorDict, max_steps: int | Tensor | None = None
    ) -> int | Tensor:
        """int scalar, the columns of the weights of a step."""
        return ops.shape(memory["mask"])[-1]

    def attend_step(
        self, query: Tensor, memory: TensorDict, state: TensorDict
    ) -> tuple[Tensor, Tensor, TensorDict]:
        """Attends once.

        Args:
            query: `(rows, query_dim)`.
            memory: what `prepare_memory` returned, leaves `(batch, ...)`: beams share it.
            state: dict, as from `initial_state` or the step before.

        Returns:
            Tuple of context `(rows, value_dim)`, weights `(rows, num_positions)` and the new state.
        """
        rows = ops.shape(query)[0]
        folded = fold_beams_into_queries(query, ops.shape(memory["mask"])[0])  # (B, K, D)
        results = self.align(folded, memory)  # (B, K, Dv), (B, K, S)
        context, weights = (merge_beams(each, rows) for each in results)
        return context, weights, state  # (B*K, Dv), (B*K, S)

    def attend(self, query: Tensor, memory: TensorDict) -> tuple[Tensor, Tensor]:
        """Attends with several queries, see `AttentionMechanism.attend`."""
        raise NotImplementedError(f"{type(self).__name__} must override `attend`.")

    def align(self, query: Tensor, memory: TensorDict) -> tuple[Tensor, Tensor]:
        """`attend` with one alignment a query: the weights of several heads are averaged.

        Returns:
            Tuple of contexts `(batch, target, value_dim)` and weights `(batch, target, source)`.
        """
        context, weights = self.attend(query, memory)
        return context, ops.mean(weights, axis=1) if len(weights.shape) == 4 else weights
