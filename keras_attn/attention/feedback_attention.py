from typing import Any

from keras import ops, tree

from keras_attn._backend.scan import scan, supports_jit
from keras_attn._decoding_state.beam_axis import merge_beams, split_beams
from keras_attn._types import Tensor, TensorDict
from keras_attn.attention.attention_mechanism import AttentionMechanism
from keras_attn.attention.attention_recorder import record


class FeedbackAttention(AttentionMechanism):
    """Base of attention mechanisms whose weights depend on those of the steps before.

    A subclass overrides `initial_state` and `attend_once`. Queries are answered in their order: a
    call with several queries is a loop over them.

    Args, call arguments, returns: see `AttentionMechanism`.

    Masking: as everywhere; a position that may never be attended to does not count in the state.
    """

    requires_time_loop = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_jit = supports_jit()

    def initial_state(
        self, memory: TensorDict, rows: int | Tensor, max_steps: int | Tensor | None = None
    ) -> TensorDict:
        raise NotImplementedError(f"{type(self).__name__} must override `initial_state`.")

    def attend_once(
        self, query: Tensor, memory: TensorDict, state: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        """Attends with one query of each beam.

        Args:
            query: `(batch, beams, query_dim)`.
            memory: what `prepare_memory` returned, leaves `(batch, ...)`.
            state: dict with leaves `(batch, beams, ...)`.

        Returns:
            Tuple of weights `(batch, beams, source)` and the new state.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `attend_once`.")

    def attend_step(
        self, query: Tensor, memory: TensorDict, state: TensorDict
    ) -> tuple[Tensor, Tensor, TensorDict]:
        results = self._step(query, memory, state)
        record(self, results["weights"][:, None])
        return results["context"], results["weights"], results["state"]

    def _step(self, query, memory, state):
        rows, batch = ops.shape(query)[0], ops.shape(memory["mask"])[0]
        query = split_beams(ops.cast(query, self.compute_dtype), batch)  # (B, K, D)
        state = tree.map_structure(lambda leaf: split_beams(leaf, batch), state)
        weights, state = self.attend_once(query, memory, state)  # (B, K, S)
        context = ops.matmul(weights, memory["values"])  # (B, K, Dv)
        return {
            "context": merge_beams(context, rows),
            "weights": merge_beams(weights, rows),
            "state": tree.map_structure(lambda leaf: merge_beams(leaf, rows), state),
        }

    def attend(self, query: Tensor, memory: TensorDict) -> tuple[Tensor, Tensor]:
        query = ops.cast(query, self.compute_dtype)
        values, mask = memory["values"], memory["mask"]
        batch, target, source = ops.shape(query)[0], ops.shape(query)[1], ops.shape(values)[1]
        mask = ops.broadcast_to(mask, (batch, target, source))
        carry = {
            "context": ops.zeros((batch, values.shape[2]), dtype=self.compute_dtype),
            "weights": ops.zeros((batch, source), dtype=self.compute_dtype),
            "state": self.initial_state(memory, batch, target),
        }

        def step(carry, inputs):
            step_memory = {**memory, "mask": inputs["mask"][:, None]}  # (B, 1, S)
            return self._step(inputs["query"], step_memory, carry["state"])

        inputs = {"query": ops.transpose(query, (1, 0, 2)), "mask": ops.transpose(mask, (1, 0, 2))}
        _, results = scan(step, carry, inputs, lambda carry: (carry["context"], carry["weights"]))
        context, weights = (ops.transpose(each, (1, 0, 2)) for each in results)
        record(self, weights)
        return context, weights  # (B, T, Dv), (B, T, S)
