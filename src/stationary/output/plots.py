"""Pictures of a fit and its forecast, on plain matplotlib figures without global state.

Each is drawn on the axes that are given as ``ax``, by default those of a new figure.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter
from numpy.typing import ArrayLike

from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.estimate import Estimate
from stationary.models import Model
from stationary.output.charts import (
    INK,
    SERIES,
    ForecastChart,
    Points,
    decade_ticks,
    draw_curve,
)
from stationary.trust.checks import Residuals, shares_by_load
from stationary.words import load_range, number, plain

_MOST_NAMED = 8  # categories that a legend names, at most
_MOST_TICKS = 20  # states that an axis names, at most

_LARGEST = 5000
"""States of a chain that can be drawn; a dense picture of a larger one fills the memory."""


def plot_forecast(
    frame: pd.DataFrame,
    measure: str = "loss",
    *,
    fitted: tuple[float, float] | None = None,
    observed: tuple[ArrayLike, ArrayLike] | None = None,
    bound: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a measure over load with its interval.

    Parameters
    ----------
    frame : DataFrame
        What `Plan.forecast` returned, for a model of one input.
    measure : str
        Which column to draw.
    fitted : (low, high), optional
        The range of loads in the data; the forecast extrapolates beyond it.
    observed : (loads, values), optional
        Measured values to show with the forecast.
    bound : float, optional
        The largest admissible value, drawn as a line.
    """
    points: tuple[Points, ...] = ()
    if observed is not None:
        points = (Points("measured", pd.DataFrame({"load": observed[0], measure: observed[1]})),)
    bounds = {} if bound is None else {measure: bound}
    chart = ForecastChart(frame, fitted=fitted, points=points, bounds=bounds)
    if measure not in chart.measures:
        raise InputError(
            f"a plot needs the measure {measure!r} with its interval; the forecast has the "
            f"measures {', '.join(chart.measures)}"
        )
    inputs = list(frame)[: list(frame).index(chart.measures[0])]
    if inputs != ["load"]:
        raise InputError(
            f"a plot is drawn over one input, the column 'load'; the forecast has "
            f"{', '.join(inputs) or 'no input'}"
        )
    chart, ax = replace(chart, curve=frame.sort_values("load")), _axes(ax)
    least = 0.0 if (frame[f"{measure}_low"] >= 0).all() else -math.inf
    chart.draw(ax, measure, least, 1.0 if measure == "loss" else math.inf)
    return _labelled(ax, "load", plain(measure))


def plot_percentiles(
    frame: pd.DataFrame,
    names: Sequence[str] = ("p50", "p95", "p99"),
    *,
    fitted: tuple[float, float] | None = None,
    observed: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw percentiles of the response time over load, with their intervals.

    Measured values have a column ``load``, and percentiles by name. The other parameters are those
    of `plot_forecast`.
    """
    chart, ax = ForecastChart(frame.sort_values("load"), fitted=fitted), _axes(ax)
    chart.draw_loads(ax)
    for name, colour in zip(names, SERIES(np.linspace(0.15, 0.85, len(names))), strict=True):
        line = {"color": colour, "label": f"{name}, with interval"}
        draw_curve(ax, chart.curve, name, (-math.inf, math.inf), line, {"color": colour})
        if observed is not None and name in observed:
            look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 4}
            look |= {"color": colour, "markeredgecolor": INK}
            shown = "measured" if name == names[-1] else None
            ax.plot(observed["load"], observed[name], label=shown, **look)
    ax.set_ylim(0, 1.25 * ax.get_ylim()[1])  # room for the legend
    _labelled(ax, "load", "response time").legend(ncols=2, loc="upper left", fontsize="small")
    return ax


def plot_residuals(estimate: Estimate, windows: Windows, ax: Axes | None = None) -> Axes:
    """Draw the standardised residuals of every window against its load, by category.

    If the model is right, they scatter about zero in the same way at every load, and about one in
    twenty lies outside the grey band.
    """
    residuals = Residuals.of(estimate, windows)
    ax = _axes(ax)
    ax.axhspan(-2, 2, color=INK, alpha=0.08, linewidth=0, label="two standard deviations")
    ax.axhline(0, color=INK, linewidth=1)
    count = len(residuals.labels)
    colours = SERIES(np.linspace(0, 1, count))
    named = set(np.linspace(0, count - 1, _MOST_NAMED).round().astype(int).tolist())
    for k, (category, colour) in enumerate(zip(residuals.labels, colours, strict=True)):
        label = f"category {category}" if k in named else None
        values = residuals.standardised[:, k]
        ax.plot(residuals.loads, values, ".", color=colour, alpha=0.7, label=label)
    return _labelled(ax, windows.inputs[0], "observed less predicted share, standardised")


def plot_calibration(estimate: Estimate, windows: Windows, ax: Axes | None = None) -> Axes:
    """Draw the observed against the predicted share of every category, windows pooled by load.

    Bars are two standard errors each way, by the spread between windows. A category that was never
    observed has no logarithm and is shown as a triangle at the lower edge.
    """
    residuals = Residuals.of(estimate, windows)
    table = shares_by_load(residuals)
    ax = _axes(ax)
    shown = np.concatenate([table["predicted"], table.loc[table["observed"] > 0, "observed"]])
    # Shares below one count in all windows would only make the rest of the picture small.
    low = float(max(shown.min(), 1 / residuals.totals.sum())) / 2
    table = table[(table["predicted"] > low) | (table["observed"] > 0)]
    ax.plot([low, 1], [low, 1], color=INK, linewidth=1, label="as predicted")
    groups = table.groupby("group")
    for colour, (_, part) in zip(SERIES(np.linspace(0, 1, groups.ngroups)), groups, strict=True):
        seen = part[part["observed"] > 0]
        below = np.minimum(2 * seen["stderr"], seen["observed"] * (1 - 1e-9))
        loads = load_range(part["low"].iloc[0], part["high"].iloc[0])
        ax.errorbar(
            seen["predicted"].clip(lower=low),
            seen["observed"],
            np.stack([below, 2 * seen["stderr"]]),
            fmt="o",
            markersize=4,
            elinewidth=1,
            color=colour,
            label=f"{windows.inputs[0]} {loads}",
        )
        never = part[part["observed"] == 0]
        ax.plot(never["predicted"], np.full(len(never), low), "v", color=colour, clip_on=False)
    ax.set(xscale="log", yscale="log", xlim=(low, 1), ylim=(low, 1))
    for axis in (ax.xaxis, ax.yaxis):
        decade_ticks(axis, (1, 2, 5) if low > 0.02 else (1,))
    return _labelled(ax, "predicted share", "observed share")


def plot_generator(model: Model, x: Any, ax: Axes | None = None) -> Axes:
    """Draw the rates between states at the inputs of one window, as a heat map on a log scale."""
    inputs = model.as_inputs(x if torch.is_tensor(x) and x.ndim > 1 else np.atleast_2d(x))
    if len(inputs) != 1:
        raise InputError(f"a picture shows the rates at one load; got {len(inputs)} loads")
    if len(model.states) > _LARGEST:
        raise InputError(
            f"a chain of {len(model.states)} states is too large to draw; the most is {_LARGEST}"
        )
    with torch.no_grad():
        rates = model(inputs).dense()[0].numpy()
    np.fill_diagonal(rates, 0.0)
    ax = _axes(ax)
    positive = np.ma.masked_equal(rates, 0.0)
    # Equal rates would leave a colour scale without length.
    norm = LogNorm(positive.min() / 1.05, positive.max() * 1.05)
    image = ax.imshow(positive, norm=norm, cmap="viridis", interpolation="nearest")
    bar = ax.figure.colorbar(image, ax=ax, label="rate")
    bar.formatter = bar.minorformatter = LogFormatter()
    places = range(0, len(model.states), math.ceil(len(model.states) / _MOST_TICKS))
    names = [model.states[k] for k in places]
    ax.set_xticks(places, names, rotation=90 if max(map(len, names)) > 2 else 0)
    ax.set_yticks(places, names)
    values = zip(model.inputs, inputs[0].tolist(), strict=True)
    title = ", ".join(f"{name} {number(value)}" for name, value in values)
    ax.set(xlabel="to state", ylabel="from state", title=f"rates at {title}")
    return ax


def save_figure(ax: Axes, path: str | os.PathLike[str], about: str = "") -> None:
    """Write the figure of these axes; the ending of the name chooses the format.

    ``about`` is kept inside the file, where its format has room for a description.
    """
    figure: Any = ax.figure
    if not Path(path).suffix:  # matplotlib would write another file than was asked for
        raise InputError(f"{path}: give the plot an ending, .png, .svg or .pdf")
    try:
        figure.savefig(path, dpi=150, metadata={"Description": about} if about else None)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the plot cannot be written: {error}") from error


def _axes(ax: Axes | None) -> Axes:
    if ax is None:
        return Figure(figsize=(8, 5), layout="constrained").add_subplot()
    if not isinstance(ax, Axes):
        raise InputError(f"ax must be axes of matplotlib; got {ax!r:.80}")
    return ax


def _labelled(ax: Axes, x: str, y: str) -> Axes:
    ax.set(xlabel=x, ylabel=y)
    ax.grid(alpha=0.15)
    ax.legend()
    return ax
