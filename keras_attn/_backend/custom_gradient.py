"""Functions with a custom gradient."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a function that returns its outputs and a function for its gradients.

    On PyTorch, `ops.custom_gradient` only supports a single output, so this function replaces it.

    Args:
        function: Function of tensors. It returns a tuple of its outputs and a function
            `(*upstream) -> gradients`. The gradients are a tensor, or a tuple with one tensor per
            argument. `upstream` are the gradients with respect to the outputs: one argument per
            output, or a single nested argument on JAX.

    Returns:
        Function of the same arguments that returns the outputs.
    """
    if keras.backend.backend() != "torch":
        return ops.custom_gradient(function)
    import torch  # pyright: ignore[reportMissingImports]

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, structure, *args):
            outputs, ctx.gradients = function(*args)
            structure.append(outputs)
            # The gradient may use the outputs. Detached tensors avoid a reference cycle.
            return tuple(output.detach() for output in tree.flatten(outputs))

        @staticmethod
        def backward(ctx, *upstream):
            gradients = ctx.gradients(*upstream)
            return (None, *(gradients if isinstance(gradients, tuple) else (gradients,)))

    def call(*args):
        structure = []
        leaves = Function.apply(structure, *args)
        return tree.pack_sequence_as(structure.pop(), leaves)

    return call
