import datetime
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn._types import TensorLike
from keras_attn.visualize._alignment_tokens import visible_text, weights_array
from keras_attn.visualize._new_figure import (
    import_matplotlib,
    new_figure,
    set_title,
    text_style,
    wrapped_text,
)


def plot_forecast(
    past: TensorLike,
    quantiles: TensorLike,
    actual: TensorLike | None = None,
    attention: TensorLike | None = None,
    quantile_levels: Sequence[float] = (0.05, 0.5, 0.95),
    title: str | None = None,
    label: str | Sequence[str] | None = None,
    times: Sequence[Any] | None = None,
) -> Any:
    """Plots one series' forecast with its intervals, and the attention over the past.

    The upper plots, one for each target, show past values, the middle quantile, and one interval
    for each pair of quantiles: from the first to the last, from the second to the second last, and
    so on. With attention weights, the lowest plot is a heat map whose row t shows the weights of
    step t over the past.

    Args:
        past: Array-like with shape `(past,)` for one target, or `(past, D)`, observed values. NaN
            and masked cells are missing values.
        quantiles: Array-like with shape `(horizon, Q)` or `(horizon, D, Q)`, forecast quantiles in
            increasing order, for example `results["quantiles"][series]` from a `PathSampler`.
        actual: Array-like with shape `(horizon,)` or `(horizon, D)`, the true values. Defaults to
            `None`.
        attention: Array-like with shape `(horizon, past)`, attention weights. Defaults to `None`.
        quantile_levels: List of Q floats in (0, 1) in increasing order, for the legend. Defaults to
            `(0.05, 0.5, 0.95)`.
        title: String, title above the picture. Defaults to `None`.
        label: String, target name with its unit, or list of D strings. Defaults to `None`.
        times: List of `past + horizon` increasing dates, datetimes or numbers, for example
            `Series.times`. Defaults to `None`: numbers of time steps after the last known value.

    Returns:
        The `matplotlib.figure.Figure`. Save the picture with `figure.savefig("forecast.png")`.

    Raises:
        ValueError: If the shapes do not match, there are no values, the times do not increase,
            `quantile_levels` are not increasing numbers in (0, 1), or `attention` contains masked
            cells.
        ImportError: If Matplotlib is not installed.

    Example:

    >>> from keras_attn.visualize import plot_forecast
    >>> figure = plot_forecast([1.0, 2.0, 3.0], [[3.0, 4.0, 5.0]], attention=[[0.1, 0.2, 0.7]])
    >>> len(figure.axes)  # forecast, attention, color bar
    3
    """
    past, quantiles = _with_nan(past), _with_nan(quantiles)
    if quantiles.ndim not in (2, 3) or quantiles.size == 0 or past.size == 0:
        raise ValueError(
            "Expected at least one past value, and quantiles of shape (horizon, Q) or (horizon, D, "
            f"Q). Received: past with shape {past.shape}, quantiles with shape {quantiles.shape}. "
            "Select one series."
        )
    levels = tuple(quantile_levels)
    are_numbers = all(isinstance(level, numbers.Real) for level in levels)
    if not are_numbers or sorted({level for level in levels if 0 < level < 1}) != list(levels):
        raise ValueError(
            "Expected quantile_levels in (0, 1) in increasing order. Received: "
            f"quantile_levels={levels}."
        )
    horizon, targets = len(quantiles), quantiles.shape[1:-1]
    shapes = {"past": past.shape, "quantiles": quantiles.shape}
    fits = past.shape[1:] == targets and quantiles.shape[-1] == len(levels)
    if actual is not None:
        actual = _with_nan(actual)
        shapes["actual"] = actual.shape
        fits = fits and actual.shape == (horizon, *targets)
    if attention is not None:
        attention = weights_array("attention", attention)
        shapes["attention"] = attention.shape
        fits = fits and attention.shape == (horizon, len(past))
    if not fits:
        raise ValueError(
            f"Expected past (past,), quantiles (horizon, {len(levels)}), actual (horizon,) and "
            "attention (horizon, past), or with D targets past (past, D), quantiles (horizon, D, "
            f"{len(levels)}) and actual (horizon, D). Received: {shapes}. Select one series, and "
            "pass the level of each quantile as quantile_levels."
        )
    past, quantiles = past.reshape(len(past), -1), quantiles.reshape(horizon, -1, len(levels))
    labels = [label] * past.shape[1] if label is None or isinstance(label, str) else list(label)
    if len(labels) != past.shape[1]:
        raise ValueError(
            f"Expected a label for each of {past.shape[1]} targets. Received: label={label!r}."
        )
    positions = _positions(times, len(past), horizon)
    heights = [3] * past.shape[1] + [2] * (attention is not None)
    figure = new_figure(9, 0.8 + 0.73 * sum(heights))
    axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    edges = _edges(positions)
    for target, name in enumerate(labels):
        ax = axes[target]
        _plot_target(ax, positions, past[:, target], quantiles[:, target], levels)
        if actual is not None:
            values = actual.reshape(horizon, -1)[:, target]
            ax.plot(positions[-horizon:], values, color="tab:red", lw=1.2, label="true values")
        ax.axvline(edges[len(past)], color="gray", linewidth=0.8, linestyle=":")
        if name is not None:
            name = visible_text(name)
            style = text_style([name])
            ax.set_ylabel(wrapped_text(name, 2.3, **style), **style)
    axes[0].legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, fontsize=8, frameon=False
    )
    set_title(figure, title)
    if attention is not None:
        below = axes[-1]
        steps = np.arange(0.5, horizon + 1)
        mesh = below.pcolormesh(edges[: len(past) + 1], steps, attention, cmap="viridis")
        below.invert_yaxis()
        below.set_ylabel("step of the forecast")
        below.yaxis.get_major_locator().set_params(integer=True)
        below.set_title("attention over the past", fontsize=9)
        figure.colorbar(mesh, ax=below, label="weight")
    axes[-1].set_xlim(edges[0], edges[-1])
    _label_times(axes[-1], times)
    return figure


def _plot_target(ax, positions, past, quantiles, levels):
    """Plots the past, the intervals and the middle quantile of one target."""
    future = positions[len(past) :]
    ax.plot(positions[: len(past)], past, color="black", linewidth=1.2, label="past")
    count = len(levels)
    for low in range(count // 2):
        high = count - 1 - low
        ax.fill_between(
            future,
            quantiles[:, low],
            quantiles[:, high],
            color="tab:blue",
            alpha=0.2 + 0.15 * low,
            linewidth=0,
            label=f"{100 * (levels[high] - levels[low]):.0f} % interval",
        )
    middle = count // 2
    name = "median" if levels[middle] == 0.5 else f"quantile {levels[middle]:g}"
    ax.plot(future, quantiles[:, middle], color="tab:blue", linewidth=1.5, label=name)


def _are_dates(times):
    return times is not None and isinstance(times[0], (datetime.date, np.datetime64))


def _positions(times, num_past, horizon):
    """Returns the x coordinates of past and future; days for dates."""
    if times is None:
        return np.arange(1.0 - num_past, horizon + 1)
    if len(times) != num_past + horizon:
        raise ValueError(
            f"Expected a time for each of {num_past} past and {horizon} future steps. Received: "
            f"{len(times)} times."
        )
    dates = import_matplotlib().dates
    positions = dates.date2num(list(times)) if _are_dates(times) else np.asarray(times, float)
    if not (np.diff(positions) > 0).all():
        raise ValueError(
            f"Expected increasing times. Received: {[str(time) for time in times[:3]]}, ..."
        )
    return positions


def _edges(positions):
    """Returns the borders between the time steps, and before and after them."""
    if len(positions) == 1:
        return positions[0] + np.array([-0.5, 0.5])
    middles = (positions[1:] + positions[:-1]) / 2
    return np.array([2 * positions[0] - middles[0], *middles, 2 * positions[-1] - middles[-1]])


def _label_times(ax, times):
    if not _are_dates(times):
        ax.set_xlabel("time steps after the last known value" if times is None else "time")
        return
    dates = import_matplotlib().dates
    zone = getattr(times[0], "tzinfo", None)
    locator = dates.AutoDateLocator(tz=zone)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=zone))


def _with_nan(values):
    """Returns a float32 array, with NaN for masked cells."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(np.ma.asarray(values, "float32"), np.nan)
    return np.asarray(values, "float32")
