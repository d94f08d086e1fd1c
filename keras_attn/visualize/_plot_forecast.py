import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn._types import TensorLike
from keras_attn.visualize._alignment_tokens import visible_text, weights_array
from keras_attn.visualize._new_figure import new_figure, set_title, text_style, wrapped_text


def plot_forecast(
    past: TensorLike,
    quantiles: TensorLike,
    actual: TensorLike | None = None,
    attention: TensorLike | None = None,
    quantile_levels: Sequence[float] = (0.05, 0.5, 0.95),
    title: str | None = None,
    label: str | None = None,
) -> Any:
    """Plots one series' forecast with its intervals, and the attention over the past.

    The upper plot shows past values, the middle quantile, and one interval for each pair of
    quantiles: from the first to the last, from the second to the second last, and so on. With
    attention weights, the lower plot is a heat map whose row t shows the weights of step t over the
    past.

    Args:
        past: Array-like with shape `(past,)`, observed values. NaN and masked cells are missing
            values.
        quantiles: Array-like with shape `(horizon, Q)`, forecast quantiles in increasing order, for
            example `results["quantiles"][series, :, target]` from a `PathSampler`.
        actual: Array-like with shape `(horizon,)`, the true values. Defaults to `None`.
        attention: Array-like with shape `(horizon, past)`, attention weights. Defaults to `None`.
        quantile_levels: List of Q floats in (0, 1) in increasing order, for the legend. Defaults to
            `(0.05, 0.5, 0.95)`.
        title: String, title above the picture. Defaults to `None`.
        label: String, target name with its unit. Defaults to `None`.

    Returns:
        The `matplotlib.figure.Figure`. Save the picture with `figure.savefig("forecast.png")`.

    Raises:
        ValueError: If the shapes do not match, there are no values, `quantile_levels` are not
            increasing numbers in (0, 1), or `attention` contains masked cells.
        ImportError: If Matplotlib is not installed.

    Example:

    >>> figure = plot_forecast([1.0, 2.0, 3.0], [[3.0, 4.0, 5.0]], attention=[[0.1, 0.2, 0.7]])
    >>> len(figure.axes)  # forecast, attention, color bar
    3
    """
    past, quantiles = _with_nan(past), _with_nan(quantiles)
    if quantiles.ndim != 2 or quantiles.size == 0 or past.size == 0:
        raise ValueError(
            "Expected at least one past value, and quantiles of shape (horizon, Q). Received: past "
            f"with shape {past.shape}, quantiles with shape {quantiles.shape}. Select one series "
            "and one target."
        )
    levels = tuple(quantile_levels)
    are_numbers = all(isinstance(level, numbers.Real) for level in levels)
    if not are_numbers or sorted({level for level in levels if 0 < level < 1}) != list(levels):
        raise ValueError(
            "Expected quantile_levels in (0, 1) in increasing order. Received: "
            f"quantile_levels={levels}."
        )
    horizon = len(quantiles)
    shapes = {"past": past.shape, "quantiles": quantiles.shape}
    fits = past.ndim == 1 and quantiles.shape == (horizon, len(levels))
    if actual is not None:
        actual = _with_nan(actual)
        shapes["actual"] = actual.shape
        fits = fits and actual.shape == (horizon,)
    if attention is not None:
        attention = weights_array("attention", attention)
        shapes["attention"] = attention.shape
        fits = fits and attention.shape == (horizon, len(past))
    if not fits:
        raise ValueError(
            f"Expected past (past,), quantiles (horizon, {len(levels)}), actual (horizon,) and "
            f"attention (horizon, past). Received: {shapes}. Select one series and one target."
        )
    rows = 1 if attention is None else 2
    figure = new_figure(9, 3 + 2.2 * (rows - 1))
    axes = figure.subplots(rows, 1, sharex=True, squeeze=False, height_ratios=[3, 2][:rows])
    ax = axes[0, 0]
    past_steps, future_steps = np.arange(-len(past) + 1, 1), np.arange(1, horizon + 1)
    ax.plot(past_steps, past, color="black", linewidth=1.2, label="past")
    count = len(levels)
    for low in range(count // 2):
        high = count - 1 - low
        name = f"{100 * (levels[high] - levels[low]):.0f} % interval"
        ax.fill_between(
            future_steps,
            quantiles[:, low],
            quantiles[:, high],
            color="tab:blue",
            alpha=0.2 + 0.15 * low,
            linewidth=0,
            label=name,
        )
    middle = count // 2
    name = "median" if levels[middle] == 0.5 else f"quantile {levels[middle]:g}"
    ax.plot(future_steps, quantiles[:, middle], color="tab:blue", linewidth=1.5, label=name)
    if actual is not None:
        ax.plot(future_steps, actual, color="tab:red", linewidth=1.2, label="true values")
    ax.axvline(0.5, color="gray", linewidth=0.8, linestyle=":")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, fontsize=8, frameon=False)
    if label is not None:
        label = visible_text(label)
        style = text_style([label])
        ax.set_ylabel(wrapped_text(label, 2.3, **style), **style)
    set_title(figure, title)
    if attention is not None:
        below = axes[1, 0]
        extent = (past_steps[0] - 0.5, past_steps[-1] + 0.5, horizon + 0.5, 0.5)
        image = below.imshow(
            attention, cmap="viridis", aspect="auto", interpolation="nearest", extent=extent
        )
        below.set_ylabel("step of the forecast")
        below.yaxis.get_major_locator().set_params(integer=True)
        below.set_title("attention over the past", fontsize=9)
        figure.colorbar(image, ax=below, label="weight")
    axes[-1, 0].set_xlabel("time steps after the last known value")
    axes[-1, 0].set_xlim(past_steps[0] - 0.5, horizon + 0.5)
    return figure


def _with_nan(values):
    """Returns a float32 array, with NaN for masked cells."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(np.ma.asarray(values, "float32"), np.nan)
    return np.asarray(values, "float32")
