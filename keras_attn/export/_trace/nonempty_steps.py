from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras import ops

from keras_attn.export._trace.stepped_search import NEXT, SteppedSearch

if TYPE_CHECKING:
    import tensorflow as tf


class NonemptySteps:
    """A `SteppedSearch` without empty tensors, for LiteRT.

    Before the first token, the key-value caches and the ids of a search have no entries, and the
    interpreter of LiteRT cannot return tensors of size 0. So `start` and `step` append one entry of
    zeros to each dynamic axis of the values that change in a step. `step` and `finish` remove this
    entry from their inputs.

    Args:
        steps: `SteppedSearch`.

    Attributes:
        start_signature, step_signature, finish_signature: See `SteppedSearch`.
    """

    def __init__(self, steps: SteppedSearch) -> None:
        self._steps = steps
        self.start_signature = steps.start_signature
        self.step_signature = steps.step_signature
        self.finish_signature = steps.finish_signature
        self._axes = {
            spec.name: [axis for axis, size in enumerate(spec.shape) if size is None]
            for spec in steps.step_signature
            if not spec.name.startswith("memory/")
        }

    def start(self, *inputs: "tf.Tensor") -> "dict[str, tf.Tensor]":
        """Returns the values before the first token, see `SteppedSearch.start`."""
        return self._extended(self._steps.start(*inputs))

    def step(self, *values: "tf.Tensor") -> "dict[str, tf.Tensor]":
        """Returns the values that the next token changes, see `SteppedSearch.step`."""
        return self._extended(self._steps.step(*self._shortened(self.step_signature, values)))

    def finish(self, *values: "tf.Tensor") -> "dict[str, tf.Tensor]":
        """Returns the results of the search, see `SteppedSearch.finish`."""
        return self._steps.finish(*self._shortened(self.finish_signature, values))

    def _extended(self, values: "dict[str, tf.Tensor]") -> "dict[str, tf.Tensor]":
        extended = {}
        for name, value in values.items():
            for axis in self._axes.get(name.removeprefix(NEXT), []):
                sizes = ops.shape(value)
                entry = ops.zeros((*sizes[:axis], 1, *sizes[axis + 1 :]), value.dtype)
                value = ops.concatenate([value, entry], axis=axis)
            extended[name] = value
        return extended

    def _shortened(
        self, signature: "Sequence[tf.TensorSpec]", values: "Sequence[tf.Tensor]"
    ) -> "list[tf.Tensor]":
        shortened = []
        for spec, value in zip(signature, values, strict=True):
            axes = self._axes.get(spec.name, [])
            index = tuple(
                slice(-1) if axis in axes else slice(None) for axis in range(len(spec.shape))
            )
            shortened.append(value[index] if axes else value)
        return shortened
