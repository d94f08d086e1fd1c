import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

PROJECTIONS = ("query", "key", "value", "output")


class WeightMapping(abc.ABC):
    """Correspondence between model variables and checkpoint weights.

    Each architecture describes its correspondence once by calling these methods. `WeightCopy`
    assigns checkpoint weights to the variables. `WeightWriter` computes the weights from the
    variables. In both directions, `variable = scale * weight + added`.
    """

    @abc.abstractmethod
    def __contains__(self, name: str) -> bool:
        """Returns whether the checkpoint contains a weight."""

    @abc.abstractmethod
    def are_equal(self, name: str, other: str) -> bool:
        """Returns whether two weights are equal, such as a tied output matrix and embedding."""

    @abc.abstractmethod
    def copy(
        self,
        variable: Any,
        name: str,
        transpose: bool = False,
        scale: float = 1.0,
        added: float = 0.0,
        shape: Sequence[int] | None = None,
    ) -> None:
        """Maps a variable to a weight.

        Args:
            variable: Variable.
            name: String, name in the checkpoint.
            transpose: Bool, whether the weight is the transposed matrix. Defaults to `False`.
            scale: Float. The variable equals the weight in the checkpoint multiplied by `scale`.
                Defaults to `1.0`.
            added: Float, added to `scale * weight`. Defaults to `0.0`.
            shape: Shape in the checkpoint. Defaults to `None`: the variable's shape.
        """

    @abc.abstractmethod
    def joined(self, variable: Any, names: Sequence[str]) -> None:
        """Maps one kernel or bias to the weights of several PyTorch `Linear` layers.

        Args:
            variable: Variable. Its last axis joins the outputs of all `Linear` layers.
            names: Weight names in the checkpoint, in output order.
        """

    @abc.abstractmethod
    def split(self, variables: Sequence[Any], name: str, scales: Sequence[float]) -> None:
        """Maps several variables to one weight that contains them side by side on the last axis.

        Args:
            variables: Variables with the same shape.
            name: String, name in the checkpoint.
            scales: Floats, one for each variable. The variable equals its part of the weight in the
                checkpoint multiplied by this factor.
        """

    @abc.abstractmethod
    def zero(self, variable: Any, name: str) -> None:
        """Maps a variable to zeros, because the checkpoint contains no weight with this name."""

    @abc.abstractmethod
    def replace(self, variable: Any, indices: Sequence[int], value: float) -> None:
        """Sets some of a mapped variable's items to a constant.

        Args:
            variable: Variable.
            indices: Item indices on the first axis.
            value: Float, the constant.
        """

    @abc.abstractmethod
    def check_tied(self, name: str, source: str) -> None:
        """Checks that a weight is missing, or equal to the weight `source`."""

    @abc.abstractmethod
    def duplicate(self, variable: Any, name: str) -> None:
        """Maps a variable to a second, equal weight, which may be missing."""

    @abc.abstractmethod
    def check_constant(
        self, name: str, compute: Callable[[int], np.ndarray], num_rows: int, first_row: int = 0
    ) -> None:
        """Checks a weight whose values the model computes, such as sinusoids. It may be missing.

        Args:
            name: String, name in the checkpoint.
            compute: Function `(rows)` that returns an array `(rows, features)`.
            num_rows: Int, number of rows that transformers writes, including those before
                `first_row`. 0 if transformers does not write the weight.
            first_row: Int, index of the first row in use. Defaults to `0`.
        """

    @abc.abstractmethod
    def ignore(self, pattern: str) -> None:
        """Accepts weights that the model does not need.

        Args:
            pattern: Regular expression that matches the whole name.
        """

    def norm_names(self, name: str) -> tuple[str, str]:
        """Returns the names of a normalization's scale and shift."""
        return f"{name}.weight", f"{name}.bias"

    def dense(self, layer: Any, name: str) -> None:
        """Maps a `Dense` layer's kernel and bias to a PyTorch `Linear`."""
        self.copy(layer.kernel, f"{name}.weight", transpose=True)
        if layer.bias is not None:
            self.copy(layer.bias, f"{name}.bias")

    def norm(self, layer: Any, name: str, added: float = 0.0, scale: float = 1.0) -> None:
        """Maps a layer normalization, or an RMS normalization.

        Args:
            layer: Normalization layer.
            name: String, the normalization's name in the checkpoint.
            added: Float, number added to the normalization weight. Defaults to `0.0`.
            scale: Float, factor for the normalization weight. Defaults to `1.0`.
        """
        variable = layer.gamma if hasattr(layer, "gamma") else layer.scale
        weight, bias = self.norm_names(name)
        self.copy(variable, weight, added=added, scale=scale)
        if getattr(layer, "beta", None) is not None:
            self.copy(layer.beta, bias)

    def attention(
        self,
        layer: Any,
        name: str,
        parts: Sequence[str] = ("q_proj", "k_proj", "v_proj", "out_proj"),
        query_scale: float = 1.0,
        biases: Sequence[str] = PROJECTIONS,
    ) -> None:
        """Maps an attention layer's four projections.

        Args:
            layer: `MultiHeadAttention`.
            name: String, the layer's name in the checkpoint.
            parts: Names of the query, key, value and output projections.
            query_scale: Float, factor for the query projection. Defaults to `1.0`.
            biases: If the layer uses biases, the projections with a bias in the checkpoint. The
                other biases are 0. Defaults to all four.
        """
        for projection, part in zip(PROJECTIONS, parts, strict=True):
            scale = query_scale if projection == "query" else 1.0
            kernel = getattr(layer, f"{projection}_kernel")
            self.copy(kernel, f"{name}.{part}.weight", transpose=True, scale=scale)
            if layer.use_bias:
                bias = getattr(layer, f"{projection}_bias")
                if projection in biases:
                    self.copy(bias, f"{name}.{part}.bias", scale=scale)
                else:
                    self.zero(bias, f"{name}.{part}.bias")
