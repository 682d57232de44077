"""The paper's figures, and some that it does not have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from stationary.paper.methods import Column
from stationary.paper.runner import Reading, Record
from stationary.paper.settings import Row
from stationary.paper.tables import METRICS, select
from stationary.paper.testbed import Recording


def curve_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Mean and 5 % and 95 % quantiles over repeats, after every epoch of every stochastic run."""
    keys = ["row", "method", "reading", "metric", "epoch"]
    lines = [
        (record["row"], record["method"], record["reading"], metric, epoch, value)
        for record in records
        if len(record["curves"]["mape"]) > 1
        for metric, path in record["curves"].items()
        for epoch, value in enumerate(path)
    ]
    values = pd.DataFrame(lines, columns=[*keys, "value"]).groupby(keys, sort=False)["value"]
    low, high = values.quantile(0.05), values.quantile(0.95)
    return pd.DataFrame({"mean": values.mean(), "low": low, "high": high}).reset_index()


def plot_curves(
    curves: pd.DataFrame,
    frame: pd.DataFrame,
    rows: Sequence[Row],
    columns: Sequence[Column],
    metric: str,
    reading: Reading,
) -> Figure:
    """One panel per row: the metric over epochs, one line per method, and the exact optimum."""
    across, down = min(4, len(rows)), -(-len(rows) // 4)
    figure = Figure(figsize=(4.2 * across, 3.4 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for ax, row in zip(panels, rows, strict=False):
        for k, column in enumerate(columns):
            part = select(curves, row=row.name, method=column.name, metric=metric, reading=reading)
            if not part.empty:
                ax.plot(part["epoch"], part["mean"], color=f"C{k}", label=column.title)
                ax.fill_between(part["epoch"], part["low"], part["high"], color=f"C{k}", alpha=0.2)
        best = select(frame, row=row.name, method="mle", reading=reading)
        if metric in best and not best.empty:
            ax.axhline(best[metric].mean(), color="0.3", linestyle="--", label="exact MLE")
        ax.set(title=row.title, xlabel="epoch", yscale="linear" if metric == "nll" else "log")
        ax.grid(alpha=0.3)
    for ax in panels[len(rows) :]:
        ax.set_visible(False)
    panels[0].set_ylabel(METRICS[metric])
    # Of all panels: a row may have a method that the others have not.
    entries = {
        label: handle
        for ax in panels[: len(rows)]
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=len(entries))
    return figure


def plot_workload(recording: Recording) -> Figure:
    """How the calls are distributed, and how often requests found the queue empty or full."""
    parts = (recording.light, recording.heavy)
    loads = np.concatenate([part.loads.numpy() for part in parts])
    empty, full = (np.concatenate([part.counts[:, k].numpy() for part in parts]) for k in (0, -2))
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.hist(loads, bins=40, color="0.5")
    left.axvline(recording.light.loads.max().item(), color="C3", linestyle="--")
    left.set(xlabel="calls per second (dashed: end of the training windows)", ylabel="windows")
    order = np.argsort(loads)
    for values, label in ((empty, "Q = 0"), (full, "Q = 20")):
        right.plot(loads[order], values[order], ".", label=label)
    right.set(xlabel="calls per second", ylabel="times seen in a window")
    right.legend()
    return figure


def plot_overview(
    frame: pd.DataFrame, rows: Sequence[Row], columns: Sequence[Column], with_printed: bool = True
) -> Figure:
    """Every row and method at a glance: mean errors, ours filled and the printed ones hollow."""
    figure = Figure(figsize=(12, 0.62 * len(rows) + 1.8), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for ax, metric in zip(panels, ("mape", "mse"), strict=True):
        for k, column in enumerate(columns):
            # Shifted within the row, so that no dot hides another.
            shift = 0.7 * ((k + 0.5) / len(columns) - 0.5)
            for level, row in enumerate(rows):
                reading = Reading.FRESH if row.simulated else Reading.ONE
                mine = select(frame, row=row.name, method=column.name, reading=reading)[metric]
                style: Any = {"color": f"C{k}", "marker": "o", "linestyle": "", "markersize": 5}
                if not mine.empty:
                    label = column.title if level == 0 else None
                    ax.plot(max(mine.mean(), 1e-7), level + shift, **style, label=label)
                printed = getattr(row, metric).get(column.name)
                if printed and with_printed:
                    ax.plot(printed[0], level + shift, **style, fillstyle="none")
        hollow = " (hollow: printed)" if with_printed else ""
        ax.set(xscale="log", xlabel=f"{METRICS[metric]}, mean over repeats{hollow}")
        ax.grid(alpha=0.3)
    panels[0].set_yticks(range(len(rows)), [row.title for row in rows])
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


def plot_learned(record: Record, states: int) -> Figure:
    """The rates learnt below the diagonal of the upper-triangular model, as in the paper."""
    rates = np.full((states, states), np.nan)
    below = np.tril_indices(states, -1)
    rates[below] = np.maximum(record["theta"], 1e-3)
    figure = Figure(figsize=(6, 5), layout="constrained")
    ax = figure.add_subplot()
    image = ax.imshow(rates, norm=LogNorm(), cmap="viridis")
    figure.colorbar(image, label="learnt rate")
    ticks, where = range(0, states, 3), f"from state ({states - 1} is overload)"
    ax.set(xlabel="to state", ylabel=where, xticks=ticks, yticks=ticks)
    ax.set_title("Rates learnt by infinity-SGD: one of many that fit")
    return figure


def plot_testbed(
    recording: Recording, equal: pd.DataFrame, ladder: pd.DataFrame, learnt: Sequence[Record]
) -> Figure:
    """Forecasts against measurements: equally likely ones, and the chain that the backtest picks.

    ``learnt`` are the repeats of infinity-SGD on the testbed.
    """
    x = recording.heavy.loads.numpy()
    order = np.argsort(x)
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)

    def line(ax: Axes, predicted: Iterable[float], label: str, **style: Any) -> None:
        ax.plot(x[order], np.asarray(list(predicted))[order], label=label, **style)

    for ax in (left, right):
        ax.plot(x, recording.target.numpy(), ".", color="0.4", label="measured", alpha=0.6)
        ax.set_xlabel("calls per second")
        ax.grid(alpha=0.3)
    for _, fit in equal.iterrows():
        line(left, fit["predicted"], f"{fit['overload']:g} at load 1500")
    if learnt:
        median = sorted(learnt, key=lambda record: record["mape"])[len(learnt) // 2]
        line(left, median["predicted"], "infinity-SGD (paper), median repeat", color="k", lw=2.5)
    left.set(yscale="log", ylim=(1e-7, 1.5), ylabel="overload")
    left.set_title("Upper triangular on states 1 and 2: equal likelihood but for the thick line")
    left.legend(fontsize="small")
    shown = ladder[ladder["picked"] | ladder["model"].isin(["M/M/1/K", "logistic on load"])]
    for _, fit in shown.iterrows():
        width = 2.5 if fit["picked"] else 1.2
        line(right, fit["predicted"], fit["model"], linewidth=width)
    right.set_title("All states of the training windows observed")
    right.legend(fontsize="small")
    return figure
