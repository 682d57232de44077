"""Pictures of a forecast, on plain matplotlib figures without global state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from stationary.errors import InputError


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
        What `Fit.forecast` returned, for a model of one input.
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
    if "x" not in frame or measure not in measures:
        raise InputError(
            f"a plot needs a column 'x' and the measure {measure!r} with its interval; the "
            f"forecast has {'' if 'x' in frame else 'no x, and '}the measures {', '.join(measures)}"
        )
    if ax is None:
        ax = Figure(figsize=(8, 5), layout="constrained").add_subplot()
    frame = frame.sort_values("x")
    ax.plot(frame["x"], frame[measure], color="C0", label="forecast")
    ax.fill_between(
        frame["x"],
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
    ax.set_ylabel(measure.replace("_", " "))
    ax.grid(alpha=0.3)
    ax.legend()
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
