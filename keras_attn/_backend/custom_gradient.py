"""Functions with their own gradient.

A gradient function is cheaper than automatic differentiation: it recomputes large tensors instead
of storing them, or it uses a shorter formula. It only replaces the first derivative. The second
derivative comes from automatic differentiation through the gradient function, so it is exact.

A function with its own gradient must not close over tensors. In a transformation such as
`jax.checkpoint`, a tensor of the outer scope belongs to a different trace.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn._backend.private_names import in_torch_func
from keras_attn._types import Tensor


def custom_gradient(
    forward: Callable[..., tuple[Any, tuple[Any, ...]]], backward: Callable[..., dict[str, Any]]
) -> Callable[..., tuple[Any, tuple[Any, ...]]]:
    """Creates a function with its own gradient.

    The function supports the transformations on all backends, with one exception: JAX cannot
    compute forward-mode derivatives (`jax.jvp`, `jax.jacfwd`) of a function with its own gradient,
    and raises a `TypeError`. `jax.hessian` is supported. In the transformations of `torch.func` and
    in forward mode, PyTorch differentiates `forward` automatically.

    Args:
        forward: Function of keyword arguments, which are tensors or `None`. It returns a tuple
            `(output, residuals)`: a float tensor and a tuple of tensors for `backward`.
        backward: Function `(residuals, upstream, **tensors)`, where `upstream` is the gradient with
            respect to the output, and `tensors` are the arguments of `forward`. It returns a dict
            from argument names to gradients. All other arguments have no gradient.

    Returns:
        Function of the arguments of `forward`. It returns `(output, residuals)`. The residuals have
        no gradient.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> def forward(x):
    ...     root = ops.sqrt(x)
    ...     return root, (root,)
    >>> def backward(residuals, upstream, x):
    ...     return {"x": upstream / (2 * residuals[0])}
    >>> root, _ = custom_gradient(forward, backward)(x=np.array([4.0, 9.0], "float32"))
    >>> np.array(root).tolist()
    [2.0, 3.0]
    """
    functions = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
    apply = functions.get(keras.backend.backend(), _without_gradient)

    def call(**tensors):
        given = {
            name: ops.convert_to_tensor(tensor)
            for name, tensor in tensors.items()
            if tensor is not None
        }
        missing = dict.fromkeys(tensors.keys() - given.keys())
        of_given = [functools.partial(function, **missing) for function in (forward, backward)]
        output, residuals = apply(of_given[0], of_given[1], given)
        return output, tuple(map(ops.stop_gradient, residuals))

    return call


def _without_gradient(forward, _, tensors):
    return forward(**tensors)


def _tensorflow(forward, backward, tensors):
    import tensorflow as tf

    residuals = ()

    @tf.custom_gradient
    def function(*arrays):
        nonlocal residuals
        arguments = dict(zip(tensors, arrays, strict=True))
        output, residuals = forward(**arguments)

        def gradient(upstream):
            gradients = backward(residuals, upstream, **arguments)
            return [gradients.get(name) for name in arguments]

        return output, gradient

    return function(*tensors.values()), residuals


def _jax(forward, backward, tensors):
    import jax

    @jax.custom_vjp
    def function(tensors):
        return forward(**tensors)

    def forward_and_save(tensors):
        output, residuals = forward(**tensors)
        return (output, residuals), (residuals, tensors)

    def gradient(saved, upstreams):
        residuals, tensors = saved
        gradients = backward(residuals, upstreams[0], **tensors)
        return ({name: gradients.get(name) for name in tensors},)

    function.defvjp(forward_and_save, gradient)
    return function(tensors)


def _torch(forward, backward, tensors):
    if in_torch_func() or any(map(_has_tangent, tensors.values())):
        return forward(**tensors)
    output, *residuals = _torch_function().apply(
        forward, backward, tuple(tensors), *tensors.values()
    )
    return output, residuals


def _has_tangent(tensor: Tensor) -> bool:
    """Returns whether PyTorch computes a forward-mode derivative with respect to a tensor."""
    import torch  # pyright: ignore[reportMissingImports]

    return torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None


@functools.cache
def _torch_function():
    import torch  # pyright: ignore[reportMissingImports]

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, forward, backward, names, *arrays):
            ctx.functions, ctx.names = (forward, backward), names
            output, residuals = forward(**dict(zip(names, arrays, strict=True)))
            ctx.save_for_backward(*arrays, *residuals)
            ctx.mark_non_differentiable(*residuals)
            ctx.set_materialize_grads(False)  # no zeros for the gradients of residuals
            return output, *residuals

        @staticmethod
        def backward(ctx, upstream, *_):
            forward, backward = ctx.functions
            saved = ctx.saved_tensors  # a checkpoint allows to read it once
            arguments = dict(zip(ctx.names, saved, strict=False))
            residuals = saved[len(arguments) :]
            if residuals and torch.is_grad_enabled():
                # For second derivatives, the residuals must be functions of the arguments.
                _, residuals = forward(**arguments)
            gradients = {} if upstream is None else backward(residuals, upstream, **arguments)
            return None, None, None, *map(gradients.get, ctx.names)

    return Function
