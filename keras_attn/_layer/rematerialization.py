"""Layer rematerialization (gradient checkpointing) for `keras.RematScope`.

A checkpoint is a function that the backward pass computes again. Keras 3.15 passes keyword
arguments, including `training`, to the backends' checkpoint functions. TensorFlow does not accept
keyword arguments in a graph, and JAX traces them, so layers with such arguments fail. In addition,
the backward pass samples other random numbers than the forward pass. In this module, a checkpoint
has only positional tensor arguments. These tensors include the layer's variables and the states of
its random number generators.

The module uses the private attribute `_remat_mode` of Keras layers, which contains the settings of
the `keras.RematScope` in which a layer was created. The module can be removed when Keras'
`rematerialized_call` supports keyword arguments.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree

from keras_attn._backend.private_names import end_remat, remat_mode
from keras_attn._layer.attach_mask import AttachMask
from keras_attn._layer.flatten_layers import flatten_layers


class CallContext(keras.layers.Layer):
    """Runs a function in a layer's call: Keras passes `training` and applies autocasting.

    Call arguments:
        inputs: Tensor, or `None`. The function gets the implicit mask of this tensor, but not the
            tensor itself.
        function: Function of `(mask, training)`.
        mask: Keras passes this argument.
        training: Keras passes this argument.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(name="call_context", **kwargs)
        self.supports_masking = True
        end_remat(self)

    def call(
        self,
        inputs: Any,
        function: Callable[..., Any],
        mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        return function(mask, training)


def release_parts(layer: keras.layers.Layer, all_parts: bool) -> None:
    """Disables the checkpoints that Keras would create for a layer's sublayers.

    Args:
        layer: Layer.
        all_parts: Bool. `True` disables all sublayers' checkpoints. Use this value if the
            layer is recomputed as a whole, because further checkpoints would only repeat
            computations. `False` disables only the checkpoints of Keras layers, because these
            checkpoints would fail.
    """
    for part in flatten_layers([layer]):
        if part is not layer and (all_parts or not hasattr(part, "is_container")):
            end_remat(part)


def is_rematerialized(
    layer: keras.layers.Layer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Returns whether a layer must be recomputed according to its `keras.RematScope`."""
    scope = remat_mode(layer)
    if scope is None or scope.mode in (None, "activations"):
        return False
    if scope.mode == "list_of_layers":
        return layer.name in scope.layer_names
    if scope.mode == "larger_than":
        args, kwargs = tree.map_structure(_symbolic, (args, kwargs))
        outputs = tree.flatten(layer.compute_output_spec(*args, **kwargs))
        size = sum(math.prod(d or 1 for d in item.shape) for item in outputs if item is not None)
        return size > scope.output_size_threshold
    return True


def _symbolic(value):
    if not ops.is_tensor(value):
        return value
    dtype = keras.backend.standardize_dtype(value.dtype)
    return keras.KerasTensor(tuple(value.shape), dtype)


def rematerialized(layer: keras.layers.Layer, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a layer's function in a checkpoint for training.

    Args:
        layer: Layer.
        function: Function that may use the layer's variables.

    Returns:
        Function with the same arguments and results. Outside of training, it calls `function`
        directly.
    """
    reader = CallContext(autocast=False)
    context = CallContext(dtype=layer.dtype_policy, autocast=layer.autocast)
    attach_mask = AttachMask(autocast=False)
    end_remat(attach_mask)

    def run(*args, **kwargs):
        training = reader(None, function=lambda mask, training: training)
        if not training:
            return function(*args, **kwargs)
        leaves = tree.flatten((args, kwargs))
        places = [place for place, leaf in enumerate(leaves) if ops.is_tensor(leaf)]
        masks = [
            reader(leaves[place], function=lambda mask, training: mask)
            if len(leaves[place].shape) > 1
            else None
            for place in places
        ]
        layers = [layer, *(leaf for leaf in leaves if isinstance(leaf, keras.Layer))]
        variables = list({id(v): v for sublayer in layers for v in sublayer.variables}.values())
        # Read the variables in a layer without autocasting, so that they have full precision.
        values = reader(
            None,
            function=lambda mask, training: [ops.copy(v.value) for v in variables],
        )
        first = {}

        def compute(*operands):
            values, tensors = operands[: len(variables)], operands[len(variables) :]
            inputs = list(leaves)
            for place, tensor, mask in zip(places, tensors, masks, strict=True):
                inputs[place] = tensor if mask is None else attach_mask(tensor, mask=mask)
            args_, kwargs_ = tree.pack_sequence_as((args, kwargs), inputs)
            mapping = list(zip(variables, values, strict=True))
            with keras.StatelessScope(state_mapping=mapping) as scope:
                before = [scope.get_current_value(v) for v in variables]
                outputs = context(
                    None, function=lambda *_: function(*args_, **kwargs_), training=training
                )
                after = [scope.get_current_value(v) for v in variables]
            pairs = zip(variables, before, after, strict=True)
            updates = [(v, new) for v, old, new in pairs if new is not old]
            results = [outputs, [new for _, new in updates]]
            first.setdefault("results", results)
            first.setdefault("updated", [v for v, _ in updates])
            return tuple(result for result in tree.flatten(results) if result is not None)

        operands = [*values, *(leaves[place] for place in places)]
        flat = iter(_checkpoint(compute, operands))
        template = tree.flatten(first["results"])
        flat = [None if item is None else next(flat) for item in template]
        outputs, new_values = tree.pack_sequence_as(first["results"], flat)
        for variable, value in zip(first["updated"], new_values, strict=True):
            variable.assign(value)
        return outputs

    return run


def _checkpoint(function, operands):
    """Calls a function as a checkpoint. The function maps tensors to a tuple of tensors."""
    if keras.backend.backend() != "tensorflow":
        return keras.remat(function)(*operands)
    # TensorFlow warns about gradients of integers, so pass only floats through the checkpoint.
    is_float = [operand.dtype.is_floating for operand in operands]
    non_floats = [operand for operand, is_ in zip(operands, is_float, strict=True) if not is_]
    forward = {}

    def of_floats(*floats):
        floats, rest = iter(floats), iter(non_floats)
        results = function(*(next(floats if is_ else rest) for is_ in is_float))
        forward.setdefault("results", results)
        return tuple(result for result in results if result.dtype.is_floating)

    floats = [operand for operand, is_ in zip(operands, is_float, strict=True) if is_]
    floats = iter(keras.remat(of_floats)(*floats))
    return [next(floats) if result.dtype.is_floating else result for result in forward["results"]]
