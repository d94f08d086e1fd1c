import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn.forecasting._compute_calendar import compute_calendar


@dataclasses.dataclass(frozen=True)
class Series:
    """One series: times, targets, and covariates with known future values.

    Args:
        times: List of the times of the past and of the known future: integers, dates or datetimes
            with equal steps.
        targets: Float32 array of shape `(past, D)`, with NaN for missing values.
        covariates: Float32 array of shape `(past + future, F)`.
        name: String, name of the series, or `""` if there is a single one. Defaults to `""`.

    Example:

    >>> import datetime
    >>> import numpy as np
    >>> from keras_attn.forecasting import Series
    >>> days = [datetime.date(2024, 1, day) for day in (1, 2, 3)]
    >>> series = Series(days, np.array([[5.0], [6.0]]), np.zeros((3, 0)))
    >>> len(series), series.with_calendar(["week_sin1", "week_cos1"]).covariates.shape
    (2, (3, 2))
    """

    times: Sequence[Any]
    targets: np.ndarray
    covariates: np.ndarray
    name: str = ""

    def __len__(self) -> int:
        """Returns the number of past time steps."""
        return len(self.targets)

    def with_calendar(self, names: Sequence[str]) -> "Series":
        """Returns a series with calendar columns before the other covariates.

        Args:
            names: List of strings, see `compute_calendar`.
        """
        calendar = compute_calendar(names, self.times) if names else self.covariates[:, :0]
        covariates = np.concatenate([calendar, self.covariates], axis=1)
        return dataclasses.replace(self, covariates=covariates)
