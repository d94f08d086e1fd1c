import numpy as np

from keras_attn._types import TensorLike


def covariate_scaling(covariates: TensorLike) -> tuple[list[float], list[float]]:
    """Returns the scaling that maps each covariate to [-1, 1].

        scaled = (x - shift) / scale, shift = (max + min) / 2, scale = (max - min) / 2

    A constant covariate becomes 0.

    Args:
        covariates: Array-like of shape `(time, F)`, the values in training.

    Returns:
        Tuple `(shifts, scales)` of lists of F floats, for `past_covariate_scaling` and
        `future_covariate_scaling` of an `AutoregressiveForecaster`.

    Example:

    >>> from keras_attn.forecasting import covariate_scaling
    >>> covariate_scaling([[79.0, 5.0], [99.0, 5.0]])
    ([89.0, 5.0], [10.0, 1.0])
    """
    values = np.asarray(covariates, "float64")
    least, most = values.min(axis=0), values.max(axis=0)
    scale = np.where(most > least, (most - least) / 2, 1.0)
    return ((least + most) / 2).tolist(), scale.tolist()
