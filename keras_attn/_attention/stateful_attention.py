from typing import Any

from keras import ops, tree

from keras_attn._attention.attention_mechanism import AttentionMechanism
from keras_attn._attention.attention_recorder import record
from keras_attn._backend.scan import scan, supports_jit
from keras_attn._decoding_state.beam_axis import merge_beams, split_beams
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._types import Tensor, TensorDict


@fill_docstring(AttentionMechanism)
class StatefulAttention(AttentionMechanism):
    """Base class for attention mechanisms whose weights depend on weights in previous steps.

        a_t, state_t = attend_once(q_t, memory, state_{t-1})
        c_t = sum_s a_ts m_s

    A subclass overrides `initial_state` and `attend_once`. A call with several queries processes
    the queries one after the other, in a loop over the target axis.

    The state is a dict of tensors. With B batch entries and K beams, the first axis of these
    tensors has two forms:

    - `initial_state` returns tensors of shape `(B * K, ...)`, with the beams of a batch entry in
      consecutive rows. Searches and `attend_step` use this form;
    - `attend_once` receives and returns the same tensors with the shape `(B, K, ...)`.

    A call without a search has one beam. A subclass that supports `probability_fn` computes its
    weights with `compute_weights` and sets the class attribute `uses_probability_fn = True`.

    Args:
        kernel_initializer: Initializer for the weight matrices. Defaults to `"glorot_uniform"`.
        probability_fn: String, the function that maps scores to weights: `"softmax"`,
            `"sparsemax"` or `"hardmax"`, see `AttentionMechanism`. A subclass without
            `uses_probability_fn = True` only accepts the default. Defaults to `"softmax"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        {{call_arguments}}

    Returns:
        {{returns}}

    Masking:
        `attend_once` must give masked positions a weight of exactly 0. If all positions are masked,
        all weights are 0, and so is the context. Query masks are ignored.

    Raises:
        ValueError: If `probability_fn` is unknown, or is not `"softmax"` for a subclass that does
            not use it; if `value` is missing; or if an input does not have rank 3.

    Example:

    A mechanism that attends to each position once, if there are as many positions as queries:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attn import StatefulAttention, masks
    >>> class VisitOnce(StatefulAttention):
    ...     def initial_state(self, memory, rows, max_steps=None):
    ...         source = ops.shape(memory["values"])[1]
    ...         return {"visited": ops.zeros((rows, source))}  # (B * K, S)
    ...     def attend_once(self, query, memory, state):
    ...         scores = ops.matmul(query, ops.transpose(memory["keys"], (0, 2, 1)))
    ...         scores = scores - 1e9 * state["visited"]  # (B, K, S)
    ...         mask = ops.broadcast_to(memory["mask"], ops.shape(scores))
    ...         best = ops.argmax(masks.masked_softmax(scores, mask), axis=-1)
    ...         weights = ops.one_hot(best, ops.shape(scores)[-1])
    ...         return weights, {"visited": state["visited"] + weights}
    >>> layer = VisitOnce()
    >>> query, value = np.ones((1, 2, 4), "float32"), np.ones((1, 2, 4), "float32")
    >>> _, weights = layer(query, value, return_attention_scores=True)
    >>> np.array(weights)[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    requires_time_loop = True

    uses_probability_fn = False
    """Bool, whether `attend_once` computes its weights with `compute_weights`, and so with
    `probability_fn`. If not, any `probability_fn` except `"softmax"` is an error.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_jit = supports_jit()
        self._check_probability_fn()

    def _check_probability_fn(self) -> None:
        if self.probability_fn != "softmax" and not self.uses_probability_fn:
            raise ValueError(
                f'Expected probability_fn="softmax" for {type(self).__name__}, which does not use '
                f"probability_fn. Received: probability_fn={self.probability_fn!r}. To support it, "
                'compute the weights with self.compute_weights(scores, memory["mask"]) in '
                "attend_once, and set uses_probability_fn = True in the class."
            )

    def initial_state(
        self, memory: TensorDict, rows: int | Tensor, max_steps: int | Tensor | None = None
    ) -> TensorDict:
        """Creates the state before the first step.

        Args:
            memory: Dict returned by `prepare_memory`. Its tensors have the shape `(B, ...)`.
            rows: Int or scalar int tensor, B * K: batch size times number of beams.
            max_steps: Int or scalar int tensor, maximum number of steps. Defaults to `None`: the
                number is unknown.

        Returns:
            Dict of tensors of shape `(rows, ...)`, with the beams of a batch entry in consecutive
            rows. `attend_once` receives them with the shape `(B, K, ...)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `initial_state`.")

    def attend_once(
        self, query: Tensor, memory: TensorDict, state: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        """Attends with one query per beam.

        Args:
            query: Tensor of shape `(B, K, query_dim)`.
            memory: Dict returned by `prepare_memory`. Its tensors have the shape `(B, ...)`, and
                `memory["mask"]` has the shape `(B, 1, S)`.
            state: State before the step: the dict of `initial_state`, or the one that the previous
                step returned, with tensors of shape `(B, K, ...)`.

        Returns:
            Tuple of the weights `(B, K, S)` and the new state, with the names, shapes and dtypes of
            `state`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `attend_once`.")

    def attend_step(
        self, query: Tensor, memory: TensorDict, state: TensorDict
    ) -> tuple[Tensor, Tensor, TensorDict]:
        """Attends with one query per row. Decoders call this method.

        Args:
            query: Tensor of shape `(B * K, query_dim)`.
            memory: Dict returned by `prepare_memory`. Its tensors have the shape `(B, ...)`. The
                beams of a batch entry share them.
            state: Dict returned by `initial_state` or by the previous step, with tensors of shape
                `(B * K, ...)`.

        Returns:
            Tuple of the context `(B * K, value_dim)`, the weights `(B * K, S)` and the new state,
            with tensors of shape `(B * K, ...)`.
        """
        results = self._step(query, memory, state)
        record(self, results["weights"][:, None])
        return results["context"], results["weights"], results["state"]

    def _step(self, query, memory, state):
        self._check_probability_fn()  # the attribute can be set after construction
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
        context, weights = (ops.transpose(result, (1, 0, 2)) for result in results)
        record(self, weights)
        return context, weights  # (B, T, Dv), (B, T, S)
