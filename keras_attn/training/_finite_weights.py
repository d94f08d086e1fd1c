import warnings
from collections.abc import Sequence

import keras
import numpy as np


class FiniteWeights:
    """Finds NaN and infinite values in the variables of a model and its optimizer.

    The check covers all float variables, including non-trainable variables such as the moving
    variance of `BatchNormalization`. It excludes constants, for example a mask of 0 and -inf. A
    non-trainable variable is a constant if it had infinite values before the training, and its
    values have not changed since then.

    Args:
        model: `keras.Model`. Create the `FiniteWeights` before the model is trained and before a
            saved state is restored.
    """

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self._constants: dict[int, np.ndarray] = {}
        trained = {id(variable) for variable in model.trainable_variables}
        for variable in model.variables:
            if id(variable) not in trained and _is_float(variable):
                array = keras.ops.convert_to_numpy(variable)
                if not np.isfinite(array).all() and not np.isnan(array).any():
                    self._constants[id(variable)] = array

    def first_nonfinite(self, model: keras.Model) -> str | None:
        """Returns the path of the first variable with NaN or infinity that is not a constant.

        Args:
            model: The model that was passed to `FiniteWeights`. In a callback, pass `self.model`:
                with JAX, reading this attribute copies the trained values into the variables.
        """
        return self._first(model.variables)

    def problem(self, model: keras.Model) -> str | None:
        """Returns a message that names the first NaN or infinite variable, or `None`.

        Args:
            model: See `first_nonfinite`.
        """
        path, what = self.first_nonfinite(model), "Weights"
        if path is None:
            path, what = self._first(model.optimizer.variables), "Variables of the optimizer"
        return None if path is None else f"{what} became NaN or infinite, the first one in {path!r}"

    def _first(self, variables: Sequence[keras.Variable]) -> str | None:
        for variable in variables:
            if not _is_float(variable):
                continue
            array = keras.ops.convert_to_numpy(variable)
            if not np.isfinite(array).all() and not self._is_constant(variable, array):
                return variable.path
        return None

    def _is_constant(self, variable: keras.Variable, array: np.ndarray) -> bool:
        constant = self._constants.get(id(variable))
        return constant is not None and np.array_equal(constant, array)


def warn_of_nonfinite_weights(problem: str, where: str) -> None:
    """Warns that the weights of a training are NaN or infinite.

    Args:
        problem: String, see `FiniteWeights.problem`.
        where: String, the step or the epoch, such as `"in epoch 3"`.
    """
    warnings.warn(
        f"{problem}, {where}. Lower the learning rate, check the inputs for NaN and very large "
        "values, and check that each label is less than the size of the vocabulary or equal to the "
        "ignore_class of the loss.",
        stacklevel=3,
    )


def _is_float(variable: keras.Variable) -> bool:
    return keras.backend.is_float_dtype(variable.dtype)
