"""Pictures of a fit and its forecast, on plain matplotlib figures without global state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import matplotlib
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
from stationary.trust.checks import Residuals, shares_by_load
from stationary.words import load_range, plain

_MOST_NAMED = 8
"""Categories a legend names, at most; more only make it long."""

_MOST_TICKS = 20
"""States an axis names, at most."""

_LARGEST = 5000
"""States of a chain that can be drawn: above, a dense picture of it fills the memory."""


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
        Loads the fit saw; beyond them the forecast extrapolates, which the picture says.
    observed : (loads, values), optional
        Measured values to set beside the forecast.
    bound : float, optional
        A limit to draw as a line.
    ax : Axes, optional
        Where to draw; a new figure by default.
    """
    measures = [name for name in frame if f"{name}_low" in frame and f"{name}_high" in frame]
    if measure not in measures:
        raise InputError(
            f"a plot needs the measure {measure!r} with its interval; the forecast has the "
            f"measures {', '.join(measures)}"
        )
    inputs = list(frame)[: list(frame).index(measures[0])]
    if inputs != ["load"]:
        raise InputError(
            f"a plot is drawn over one input, the column 'load'; the forecast has "
            f"{', '.join(inputs) or 'no input'}"
        )
    ax = _axes(ax)
    frame = frame.sort_values("load")
    ax.plot(frame["load"], frame[measure], color="C0", label="forecast")
    ax.fill_between(
        frame["load"],
        frame[f"{measure}_low"],
        frame[f"{measure}_high"],
        color="C0",
        alpha=0.25,
        label="interval",
    )
    if observed is not None:
        ax.plot(*observed, ".", color="C1", alpha=0.7, label="measured")
    if fitted is not None:
        ax.axvspan(*fitted, color="0.5", alpha=0.15, label="loads the fit saw")
    if bound is not None:
        ax.axhline(bound, color="C3", linestyle="--", label=f"limit {bound:g}")
    values = np.concatenate(
        [frame[measure].to_numpy(), *([] if observed is None else [observed[1]])]
    )
    if measure == "loss":
        # Losses span many orders of magnitude; below a tenth of the smallest that matters, zero.
        smallest = min([v for v in values if v > 1e-6] or [1e-6])
        ax.set_yscale("symlog", linthresh=max(smallest, 1e-6))
        ax.set_ylim(0, 1)
    ax.set_xlabel("load")
    ax.set_ylabel(plain(measure))
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def plot_residuals(estimate: Estimate, windows: Windows, ax: Axes | None = None) -> Axes:
    """Draw standardised residuals of every window against its load, coloured by category.

    Where the model is right they scatter about zero in the same way at every load, and about one
    in twenty lies outside the grey band.

    Parameters
    ----------
    estimate : Estimate
        A fitted model.
    windows : Windows
        What it is compared with.
    ax : Axes, optional
        Where to draw; a new figure by default.
    """
    found = Residuals.of(estimate, windows)
    ax = _axes(ax)
    ax.axhspan(-2, 2, color="0.5", alpha=0.15, label="two standard deviations")
    ax.axhline(0, color="0.3", linewidth=1)
    count = len(found.labels)
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.95, count))
    named = set(np.linspace(0, count - 1, _MOST_NAMED).round().astype(int).tolist())
    for k, (label, colour) in enumerate(zip(found.labels, colours, strict=True)):
        ax.plot(
            found.loads,
            found.standardised[:, k],
            ".",
            color=colour,
            alpha=0.7,
            label=f"category {label}" if k in named else None,
        )
    ax.set_xlabel(windows.inputs[0])
    ax.set_ylabel("observed less predicted share, standardised")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def plot_calibration(estimate: Estimate, windows: Windows, ax: Axes | None = None) -> Axes:
    """Draw observed against predicted share of every category, windows pooled by load.

    Bars are two standard errors each way, by the spread between windows. A category that was never
    seen has no logarithm: a triangle at the lower edge stands for it.

    Parameters
    ----------
    estimate : Estimate
        A fitted model.
    windows : Windows
        What it is compared with.
    ax : Axes, optional
        Where to draw; a new figure by default.
    """
    found = Residuals.of(estimate, windows)
    table = shares_by_load(found)
    ax = _axes(ax)
    shown = np.concatenate([table["predicted"], table.loc[table["observed"] > 0, "observed"]])
    # Shares of less than one of all counts would only shrink the picture.
    low = float(max(shown.min(), 1 / found.totals.sum())) / 2
    table = table[(table["predicted"] > low) | (table["observed"] > 0)]
    ax.plot([low, 1], [low, 1], color="0.3", linewidth=1, label="as predicted")
    groups = table.groupby("group")
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, groups.ngroups))
    for colour, (_, part) in zip(colours, groups, strict=True):
        seen = part[part["observed"] > 0]
        predicted = seen["predicted"].clip(lower=low)
        below = np.minimum(2 * seen["stderr"], seen["observed"] * (1 - 1e-9))
        ends = load_range(part["low"].iloc[0], part["high"].iloc[0])
        ax.errorbar(
            predicted,
            seen["observed"],
            np.stack([below, 2 * seen["stderr"]]),
            fmt="o",
            markersize=4,
            elinewidth=1,
            color=colour,
            label=f"{windows.inputs[0]} {ends}",
        )
        never = part[part["observed"] == 0]
        ax.plot(never["predicted"], np.full(len(never), low), "v", color=colour, clip_on=False)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(low, 1)
    ax.set_ylim(low, 1)
    ax.set_xlabel("predicted share")
    ax.set_ylabel("observed share")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def plot_generator(model: Model, x: Any, ax: Axes | None = None) -> Axes:
    """Draw the rates between states as a heat map on a logarithmic scale.

    Parameters
    ----------
    model : Model
        A model at its present parameters.
    x : float or sequence
        Inputs of one window.
    ax : Axes, optional
        Where to draw; a new figure by default.
    """
    inputs = model.as_inputs(x if torch.is_tensor(x) and x.ndim > 1 else np.atleast_2d(x))
    if len(inputs) != 1:
        raise InputError(f"a picture shows the rates at one load; got {len(inputs)} of them")
    if len(model.states) > _LARGEST:
        raise InputError(
            f"a chain of {len(model.states)} states is too large to draw; up to {_LARGEST} can be"
        )
    with torch.no_grad():
        rates = model(inputs).dense()[0].numpy()
    np.fill_diagonal(rates, 0.0)
    ax = _axes(ax)
    moves = np.ma.masked_equal(rates, 0.0)
    # Equal rates would leave a colour scale without length.
    norm = LogNorm(moves.min() / 1.05, moves.max() * 1.05)
    image = ax.imshow(moves, norm=norm, cmap="viridis", interpolation="nearest")
    bar = ax.figure.colorbar(image, ax=ax, label="rate")
    bar.formatter = bar.minorformatter = LogFormatter()
    step = -(-len(model.states) // _MOST_TICKS)
    places = range(0, len(model.states), step)
    names = [model.states[k] for k in places]
    upright = max(map(len, names)) > 2
    ax.set_xticks(places, names, rotation=90 if upright else 0)
    ax.set_yticks(places, names)
    ax.set_xlabel("to state")
    ax.set_ylabel("from state")
    at = ", ".join(
        f"{name} {value:.4g}" for name, value in zip(model.inputs, inputs[0].tolist(), strict=True)
    )
    ax.set_title(f"rates at {at}")
    return ax


def save_figure(ax: Axes, path: str | os.PathLike[str]) -> None:
    """Write the figure of these axes; the ending of the name chooses the format."""
    figure: Any = ax.figure
    if not Path(path).suffix:  # matplotlib would write another file than was asked for
        raise InputError(f"{path}: give the plot an ending, .png, .svg or .pdf")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the plot cannot be written: {error}") from error


def _axes(ax: Axes | None) -> Axes:
    if ax is None:
        return Figure(figsize=(8, 5), layout="constrained").add_subplot()
    return ax
