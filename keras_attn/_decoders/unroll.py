from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn._backend.scan import carried_variables, scan
from keras_attn._rnn.cell_states import forget_dropout_masks
from keras_attn._types import Tensor, TensorDict


def unroll(
    decoder: keras.layers.Layer,
    step: Callable[[Any, TensorDict, TensorDict], tuple[Tensor, TensorDict]],
    inputs: Tensor,
    state: TensorDict,
    memory: TensorDict,
) -> Tensor:
    """Runs a decoder's step at all target positions.

    Args:
        decoder: Layer whose variables the step uses.
        step: Function `(inputs, state, memory) -> (outputs, new state)`.
        inputs: Tensor of shape `(batch, target, ...)` with at least one position.
        state: Nested dict of tensors, the state before the first step.
        memory: Nested dict of tensors.

    Returns:
        Outputs of all steps, `(batch, target, ...)`.
    """
    inputs = ops.moveaxis(inputs, 1, 0)  # (T, B, ...)
    # The first step is outside of the loop: its outputs define the shapes in the loop.
    first, state = step(inputs[0], state, memory)
    variables = carried_variables(decoder)

    def take_step(carry, step_inputs):
        _assign(variables, carry["variables"])
        outputs, state = step(step_inputs, carry["state"], memory)
        return {"outputs": outputs, "state": state, "variables": _values(variables)}

    carry = {"outputs": first, "state": state, "variables": _values(variables)}
    last, others = scan(take_step, carry, inputs[1:], lambda carry: carry["outputs"])
    _assign(variables, last["variables"])
    forget_dropout_masks(decoder)
    return ops.moveaxis(ops.concatenate([first[None], others]), 0, 1)  # (B, T, ...)


def _values(variables):
    return [ops.convert_to_tensor(variable) for variable in variables]


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
