import warnings
from collections.abc import Sequence

import keras
import numpy as np
from keras.callbacks import Callback

from keras_attn._backend.random_state import set_random_state
from keras_attn._types import TensorDict
from keras_attn.training._callback_states import match_states, set_state
from keras_attn.training._saved_state import SavedFacts


class RestoredState:
    """A saved state while it is brought into a model, its optimizer and the callbacks.

    Callbacks change variables and their own attributes when a training and an epoch begin. A
    training that resumes within an epoch repeats these calls. Therefore the callbacks first get
    back what they had when the epoch began, and after the calls what they had at the saved step.

    Args:
        model: Built and compiled `keras.Model`.
        callbacks: List of callbacks.
        variables: List of the variables that are saved, see `saved_variables`.
        arrays: List of arrays, the saved values of `variables`.
        facts: Dict, the metadata that `TrainingCheckpoint` saved.
        is_within_epoch: Bool, whether the training continues within an epoch.
    """

    def __init__(
        self,
        model: keras.Model,
        callbacks: list[Callback],
        variables: list[keras.Variable],
        arrays: list[np.ndarray],
        facts: SavedFacts,
        is_within_epoch: bool,
    ) -> None:
        self.model = model
        self.callbacks = callbacks
        self.variables = variables
        self.arrays = arrays
        self.facts = facts
        self.is_within_epoch = is_within_epoch

    def callback_states(self) -> list[tuple[Callback, TensorDict]]:
        """Returns pairs of a callback and its saved state."""
        return self._pairs(self.facts["callbacks"])

    def apply(self) -> None:
        """Sets the variables, the states of the callbacks and the global random generators."""
        for variable, array in zip(self.variables, self.arrays, strict=True):
            variable.assign(array)
        for callback, state in self.callback_states():
            set_state(callback, state)
        if "random" in self.facts:
            set_random_state(self.facts["random"])

    def apply_after_train_begin(self) -> None:
        """Sets what the callbacks find when the epoch begins."""
        self.apply()
        beginning = self.facts.get("epoch_begin") if self.is_within_epoch else None
        if beginning is None:
            return
        for variable, value in zip(_scalars(self.variables), beginning["scalars"], strict=True):
            variable.assign(value)
        for callback, state in self._pairs(beginning["callbacks"]):
            set_state(callback, state)
        set_random_state(beginning["random"])

    def apply_after_epoch_begin(self) -> None:
        """Sets the state of the saved step, including the metrics of the finished steps."""
        if not self.is_within_epoch:
            return
        self.apply()
        variables, arrays = self.model.metrics_variables, self.facts.get("metrics") or []
        shapes = [tuple(variable.shape) for variable in variables]
        if shapes != [array.shape for array in arrays]:
            warnings.warn(
                "Expected the metrics of the saved state. Received: a model with different "
                "metrics. The logs of the interrupted epoch cover only its later steps.",
                stacklevel=8,
            )
            return
        for variable, array in zip(variables, arrays, strict=True):
            variable.assign(array)

    def _pairs(self, states: Sequence[TensorDict]) -> list[tuple[Callback, TensorDict]]:
        keys = self.facts.get("callback_keys") or self.facts.get("callback_names", [])
        return match_states(self.callbacks, keys, states)


def saved_variables(
    model: keras.Model, untracked: Sequence[keras.Variable] = ()
) -> list[keras.Variable]:
    """Returns the variables in the order in which they are saved.

    Args:
        model: Built and compiled `keras.Model`.
        untracked: List of `untracked_variables` when the training begins. Defaults to `()`.
    """
    optimizers = [model.optimizer, *other_optimizers(model).values()]
    optimizer_variables = [variable for part in optimizers for variable in part.variables]
    return [*model.variables, *optimizer_variables, *untracked]


def other_optimizers(model: keras.Model) -> dict[str, keras.Optimizer]:
    """Returns the optimizers that are attributes of a model, such as `d_optimizer` of a GAN.

    They may also be elements of lists and dicts. The keys are expressions such as
    `"optimizers['generator']"`.
    """
    found: dict[str, object] = {}
    for name, value in vars(model).items():
        found[name] = value
        if name.startswith("_self_"):
            continue  # TensorFlow lists all attributes there
        if isinstance(value, dict):
            found |= {f"{name}[{key!r}]": item for key, item in value.items()}
        elif isinstance(value, (list, tuple)):
            found |= {f"{name}[{index}]": item for index, item in enumerate(value)}
    optimizers: dict[str, keras.Optimizer] = {}
    for name, value in found.items():
        known = (model.optimizer, *optimizers.values())
        if isinstance(value, keras.Optimizer) and not any(value is item for item in known):
            optimizers[name] = value
    return optimizers


def reject_unbuilt_optimizers(model: keras.Model) -> None:
    """Raises a `ValueError` if the state of an optimizer cannot be restored before the training."""
    for name, optimizer in other_optimizers(model).items():
        if not optimizer.built:
            raise ValueError(
                "Expected built optimizers as attributes of a model, so that a training can resume "
                f"with their state. Received: {name}={type(optimizer).__name__} that is not built. "
                f"Call model.{name}.build(variables) with the variables that it trains before fit."
            )


def epoch_begin_scalars(variables: Sequence[keras.Variable]) -> list[bool | int | float]:
    """Returns the values of all scalars, such as the learning rate, for `RestoredState`."""
    scalars = map(keras.ops.convert_to_numpy, _scalars(variables))
    return [np.asarray(scalar).item() for scalar in scalars]


def _scalars(variables: Sequence[keras.Variable]) -> list[keras.Variable]:
    return [variable for variable in variables if tuple(variable.shape) == ()]
