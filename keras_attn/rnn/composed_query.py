from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_attn._decoding_state.beam_axis import merge_beams, split_beams
from keras_attn._types import Tensor

PARTS = ("cell_output", "previous_state", "inputs", "context", "features")


class ComposedQuery:
    """What a cell asks its memory with: one or several parts, side by side.

    Args:
        query: one of `PARTS`, or a tuple of several.

    Raises:
        ValueError: if a part is unknown or named twice, or there is none.
    """

    def __init__(self, query: str | Sequence[str]) -> None:
        names = (query,) if isinstance(query, str) else tuple(query)
        if not names or len(set(names)) < len(names) or not set(names) <= set(PARTS):
            raise ValueError(f"query must be one or several of {PARTS}. Received: query={query!r}.")
        self.query = query if isinstance(query, str) else names
        self.names = names

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def size_without_context(self, **sizes: int) -> int:
        """The features of all parts but the context, given those of each."""
        return sum(sizes[name] for name in self.names if name != "context")

    def check_features(self, features: Any) -> None:
        """Raises `ValueError` where features are part of the query and there are none.

        Args:
            features: a tensor, its shape, or `None`.
        """
        if "features" in self and features is None:
            raise ValueError(
                f"query={self.query!r} needs query_features. Received: query_features=None."
            )

    def compose(self, inputs: Tensor, features: Tensor | None, **parts: Tensor) -> Tensor:
        """The query.

        Args:
            inputs: `(batch * beams, F)` for one step, `(batch, target, F)` for all.
            features: `(batch, F)`; `None` if the query has none.
            **parts: the other parts, each with the leading axes of `inputs`.

        Returns:
            Tensor with the leading axes of `inputs`.
        """
        parts["inputs"] = inputs
        if "features" in self:
            parts["features"] = _spread(features, inputs)
        chosen = [parts[name] for name in self.names]
        return chosen[0] if len(chosen) == 1 else ops.concatenate(chosen, axis=-1)


def _spread(features, inputs):
    """Features `(batch, F)` for each row of `(batch * beams, ...)`, `(batch, target, ...)`."""
    batch, size = ops.shape(features)
    if len(inputs.shape) == 3:
        return ops.broadcast_to(features[:, None], (batch, ops.shape(inputs)[1], size))
    rows = ops.shape(inputs)[0]
    beams = ops.shape(split_beams(inputs, batch))[1]
    return merge_beams(ops.broadcast_to(features[:, None], (batch, beams, size)), rows)
