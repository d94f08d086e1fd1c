from typing import Any

from keras import ops

from keras_attn._attention.stateful_attention import StatefulAttention
from keras_attn._backend.float64 import tanh
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._masks import wide_dtype
from keras_attn._types import Tensor, TensorDict


class AdditiveStatefulAttention(StatefulAttention):
    """Base class for additive attention with features of previous attention weights.

        e_ts = v . tanh(W_q q_t + W_k k_s + f_ts + b)

    A subclass overrides `build_features` and `compute_features`. `compute_features` computes f_ts
    from the previous step's attention weights, or from the sum of the weights in all previous
    steps.

    Args:
        units: Positive int, size of the projected queries and keys.
        cumulative: Bool. Whether the features are computed from the sum of all previous weights
            (`True`) or from the weights of the previous step (`False`).
        **kwargs: Arguments of `AttentionMechanism`.

    Raises:
        ValueError: If `units` is not a positive integer.
    """

    uses_probability_fn = True

    def __init__(self, units: int, cumulative: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive_integer("units", units)
        self.units = units
        self.cumulative = cumulative

    def build_weights(self, query_dim: int, key_dim: int) -> None:
        self.query_kernel = self.add_kernel("query_kernel", (query_dim, self.units))
        self.key_kernel = self.add_kernel("key_kernel", (key_dim, self.units))
        self.vector = self.add_kernel("vector", (self.units, 1))
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.build_features()

    def build_features(self) -> None:
        """Creates the weights that `compute_features` uses."""
        raise NotImplementedError(f"{type(self).__name__} must override `build_features`.")

    def compute_features(self, alignments: Tensor) -> Tensor:
        """Computes features of previous attention weights.

        Args:
            alignments: Tensor of shape `(batch, beams, source)`: the previous step's weights, or
                the sum of the weights in all previous steps.

        Returns:
            Tensor of shape `(batch, beams, source, units)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `compute_features`.")

    def project_keys(self, key: Tensor) -> Tensor:
        return ops.matmul(key, self.key_kernel)  # (B, S, U)

    def initial_state(
        self, memory: TensorDict, rows: int | Tensor, max_steps: int | Tensor | None = None
    ) -> TensorDict:
        source = ops.shape(memory["values"])[1]
        # Use float32 at least: in half precision, a sum of many weights would lose small addends.
        return {"alignments": ops.zeros((rows, source), dtype=wide_dtype(memory["values"]))}

    def attend_once(
        self, query: Tensor, memory: TensorDict, state: TensorDict
    ) -> tuple[Tensor, TensorDict]:
        before = state["alignments"]  # (B, K, S)
        features = self.compute_features(ops.cast(before, self.compute_dtype))  # (B, K, S, U)
        query = ops.matmul(query, self.query_kernel) + self.bias  # (B, K, U)
        hidden = query[:, :, None] + memory["keys"][:, None] + features  # (B, K, S, U)
        scores = ops.matmul(tanh(hidden), self.vector)[..., 0]  # (B, K, S)
        weights = self.compute_weights(scores, memory["mask"])
        alignments = ops.cast(weights, before.dtype)
        return weights, {"alignments": before + alignments if self.cumulative else alignments}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}
