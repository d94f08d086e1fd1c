import warnings
from typing import Any

import keras
import numpy as np


class FiniteWeights:
    """Finds NaN and infinite values in the variables of a model and of its optimizer.

    All float variables count, also those that no gradient changes, such as the moving variance of
    `BatchNormalization`. Constants are the exception: a variable that is not trained, is infinite
    before the training, such as a mask of 0 and -inf, and still has the same values.

    Args:
        model: `keras.Model` before the training and before a saved state is restored.
    """

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self._constants = {}
        trained = {id(variable) for variable in model.trainable_variables}
        for variable in model.variables:
            if id(variable) not in trained and _is_float(variable):
                array = keras.ops.convert_to_numpy(variable)
                if not np.isfinite(array).all() and not np.isnan(array).any():
                    self._constants[id(variable)] = array

    @classmethod
    def of(cls, model: keras.Model, previous: Any = None) -> Any:
        """Returns the `FiniteWeights` of a model: `previous`, if it is of this model already."""
        return cls(model) if previous is None or previous.model is not model else previous

    def first_nonfinite(self, model: keras.Model) -> str | None:
        """Returns the path of the first weight with NaN or infinity; `None` without one.

        Args:
            model: the same model. In a callback `self.model`, which on JAX updates the variables.
        """
        return self._first(model.variables)

    def problem(self, model: keras.Model) -> str | None:
        """Returns a text that names the first weight or variable of the optimizer with NaN or
        infinity; `None` if all are finite. See `first_nonfinite`."""
        path, what = self.first_nonfinite(model), "Weights"
        if path is None:
            path, what = self._first(model.optimizer.variables), "Variables of the optimizer"
        return None if path is None else f"{what} became NaN or infinite, the first one in {path!r}"

    def _first(self, variables):
        for variable in variables:
            if not _is_float(variable):
                continue
            array = keras.ops.convert_to_numpy(variable)
            if not np.isfinite(array).all() and not self._is_constant(variable, array):
                return variable.path
        return None

    def _is_constant(self, variable, array):
        constant = self._constants.get(id(variable))
        return constant is not None and np.array_equal(constant, array)


def warn_of_nonfinite_weights(problem: str, where: str) -> None:
    """Warns once and clearly that a training is lost.

    Args:
        problem: string, see `FiniteWeights.problem`.
        where: string, at which step or epoch.
    """
    warnings.warn(
        f"{problem}, {where}. Lower the learning rate, check the inputs for NaN and very large "
        "values, and check that each label is below the size of the vocabulary or the ignore_class "
        "of the loss.",
        stacklevel=3,
    )


def _is_float(variable):
    return keras.backend.is_float_dtype(variable.dtype)
