from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_attn._decoding_state.beam_axis import merge_beams, split_beams
from keras_attn._types import Tensor

PARTS = ("cell_output", "previous_state", "inputs", "context", "features")


class ComposedQuery:
    """A recurrent cell's attention query: a vector or a concatenation of several vectors.

    Args:
        query_from: String, one of `PARTS`, or a tuple of several parts.

    Raises:
        ValueError: If a part is unknown or repeated, or the tuple is empty.
    """

    def __init__(self, query_from: str | Sequence[str]) -> None:
        names = (query_from,) if isinstance(query_from, str) else tuple(query_from)
        if not names or len(set(names)) < len(names) or not set(names) <= set(PARTS):
            raise ValueError(
                f"Expected query_from to be one or several of {PARTS}. Received: "
                f"query_from={query_from!r}."
            )
        self.query_from = query_from if isinstance(query_from, str) else names
        self.names = names

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def size_without_context(self, **sizes: int) -> int:
        """Returns the total size of all parts except the context.

        Args:
            **sizes: Ints, the number of features in each part.
        """
        return sum(sizes[name] for name in self.names if name != "context")

    def check_features(self, features: Any) -> None:
        """Raises a `ValueError` if the query contains `"features"`, but `features` is `None`.

        Args:
            features: Tensor, tensor shape, or `None`.
        """
        if "features" in self and features is None:
            raise ValueError(
                f"Expected query_features for query_from={self.query_from!r}. Received: "
                "query_features=None."
            )

    def compose(self, inputs: Tensor, features: Tensor | None, **parts: Tensor) -> Tensor:
        """Concatenates the query parts.

        Args:
            inputs: Tensor of shape `(batch * beams, F)` for one step, or `(batch, target, F)` for
                all steps.
            features: Tensor of shape `(batch, F)`, or `None` if the query does not contain
                features.
            **parts: Tensors for the other parts, with the leading axes of `inputs`.

        Returns:
            Tensor with the leading axes of `inputs`.
        """
        parts["inputs"] = inputs
        if "features" in self:
            parts["features"] = _spread(features, inputs)
        chosen = [parts[name] for name in self.names]
        return chosen[0] if len(chosen) == 1 else ops.concatenate(chosen, axis=-1)


def _spread(features, inputs):
    """Repeats features `(batch, F)` for the beams or time steps in `inputs`."""
    batch, size = ops.shape(features)
    if len(inputs.shape) == 3:
        return ops.broadcast_to(features[:, None], (batch, ops.shape(inputs)[1], size))
    rows = ops.shape(inputs)[0]
    beams = ops.shape(split_beams(inputs, batch))[1]
    return merge_beams(ops.broadcast_to(features[:, None], (batch, beams, size)), rows)
