import re
from collections.abc import Collection, Iterable

NAME = re.compile("(hour|day|week|month|year)_(sin|cos)([1-9])")
"""The name of a calendar column. `keras_attn_runtime` has the same pattern."""


def check_calendar_columns(names: Iterable[str], covariates: Collection[str]) -> None:
    """Checks the names of the covariates that are computed from the times.

    Args:
        names: List of strings.
        covariates: List of strings, names of all covariates.

    Raises:
        ValueError: If a name is no name of a calendar column, or of no covariate.
    """
    for name in names:
        if not NAME.fullmatch(name) or name not in covariates:
            raise ValueError(
                "Expected calendar_columns to be covariates with names such as 'week_sin1' or "
                f"'year_cos2'. Received: {name!r}, and the covariates {list(covariates)}. See "
                "keras_attn.forecasting.compute_calendar."
            )
