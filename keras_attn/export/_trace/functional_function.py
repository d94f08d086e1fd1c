import copy
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import keras
import numpy as np

from keras_attn.export._trace.copy_layers import copy_layers
from keras_attn.export._trace.fold_time import fold_time
from keras_attn.export._trace.functional_names import axis_names, input_names, output_names
from keras_attn.export._trace.portable_copy import make_traceable, portable_copy
from keras_attn.export._types import Dimensions

if TYPE_CHECKING:
    import tensorflow as tf


class FunctionalFunction:
    """A function that runs a functional model, for the export.

    Args:
        model: Functional Keras model.

    Attributes:
        model: Copy of the model from `portable_copy`. The copy shares the variables of the model,
            and its results do not depend on the machine.
        inputs: Dict from the names in the file to the symbolic inputs.
        outputs: Dict from the names in the file to the symbolic outputs.

    Raises:
        ValueError: If two inputs or outputs have the same name, or one has no name.
    """

    def __init__(self, model: keras.Model) -> None:
        self.inputs = dict(zip(input_names(model), model.inputs, strict=True))
        names = output_names(model, self.inputs)
        self.outputs = dict(zip(names, model.outputs, strict=True))
        self._structure = model.input
        (self.model,) = portable_copy(model)

    def __call__(self, *tensors: "tf.Tensor | np.ndarray") -> "dict[str, tf.Tensor]":
        """Runs the model.

        Args:
            *tensors: A tensor for each of `inputs`.

        Returns:
            Dict from the names of `outputs` to tensors.
        """
        values = keras.tree.pack_sequence_as(self._structure, tensors)
        results = keras.tree.flatten(self.model(values, training=False))
        return dict(zip(self.outputs, results, strict=True))

    def copied(self) -> Self:
        """Returns the same function with another copy of the model."""
        function = copy.copy(self)
        (function.model,) = copy_layers(self.model)
        return function

    def folded(self) -> Self:
        """Returns the same function with `TimeDistributed` layers that can be traced."""
        function = self.copied()
        fold_time(function.model)
        return function

    def traceable(self) -> Self:
        """Returns the same function with layers that can be converted to ONNX but not run."""
        function = self.copied()
        make_traceable(function.model)
        return function

    @property
    def weights(self) -> list[keras.Variable]:
        """List of all `keras.Variable`s that the function reads. Merged kernels are new ones."""
        return self.model.variables

    @property
    def signature(self) -> "list[tf.TensorSpec]":
        """List of `tf.TensorSpec`: the inputs."""
        import tensorflow as tf

        return [
            tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in self.inputs.items()
        ]

    def dimensions(
        self,
        arrays: Sequence[np.ndarray],
        batches: "Sequence[tuple[Sequence[np.ndarray], Mapping[str, tf.Tensor]]]",
        fixed: Container[tuple[str, int]],
    ) -> Dimensions:
        """Returns the names or sizes of the axes of all inputs and outputs.

        The first axis of an output is named `batch` if, in all batches, it has the size of the
        first axis of an input.

        Args:
            arrays: List of arrays, the sample: one array for each input.
            batches: List of pairs (arrays, results of the model). The first pair is the sample.
            fixed: Set of pairs (name of an input, axis) for the axes with a fixed size.

        Returns:
            Dict from the name of each input and output to a tuple with one entry for each axis: the
            size, or the name of a dynamic axis.
        """
        axes = {}
        for (name, value), array in zip(self.inputs.items(), arrays, strict=True):
            shape = [
                array.shape[axis] if (name, axis) in fixed else size
                for axis, size in enumerate(value.shape)
            ]
            axes[name] = axis_names(name, shape)
        for name, value in self.outputs.items():
            as_many = all(
                values[name].shape[:1] in {array.shape[:1] for array in batch}
                for batch, values in batches
            )
            axes[name] = axis_names(name, value.shape, "batch" if as_many else f"{name}_0")
        return axes
