"""The paper's figures, and the ones it did not have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from stationary.paper.columns import METHODS
from stationary.paper.runner import Reading, Record
from stationary.paper.settings import Row
from stationary.paper.tables import METRICS, select
from stationary.paper.testbed import Recording


def curve_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Mean and 5 % and 95 % quantiles over repeats, after every epoch of every stochastic run."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record["reading"] != Reading.LUCK and METHODS[record["method"]].random:
            key = (record["row"], record["method"], record["reading"])
            groups.setdefault(key, []).append(record)
    parts = []
    for (row, method, reading), members in groups.items():
        for metric in ("mape", "mse", "nll"):
            values = np.array([record["curves"][metric] for record in members])
            low, high = np.quantile(values, [0.05, 0.95], axis=0)
            parts.append(
                pd.DataFrame(
                    {
                        "row": row,
                        "method": method,
                        "reading": reading,
                        "metric": metric,
                        "epoch": range(values.shape[1]),
                        "mean": values.mean(0),
                        "low": low,
                        "high": high,
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def plot_curves(
    curves: pd.DataFrame,
    frame: pd.DataFrame,
    rows: Sequence[Row],
    methods: Sequence[str],
    metric: str,
    reading: Reading,
) -> Figure:
    """A panel a row: the metric over epochs, one line a method, with the exact optimum's level."""
    figure = Figure(figsize=(4.2 * min(4, len(rows)), 3.4 * -(-len(rows) // 4)))
    figure.set_layout_engine("constrained")
    panels = figure.subplots(-(-len(rows) // 4), min(4, len(rows)), squeeze=False).ravel()
    for ax, row in zip(panels, rows, strict=False):
        for k, name in enumerate(methods):
            part = select(curves, row=row.name, method=name, metric=metric, reading=reading)
            if not part.empty:
                ax.plot(part["epoch"], part["mean"], color=f"C{k}", label=METHODS[name].title)
                ax.fill_between(part["epoch"], part["low"], part["high"], color=f"C{k}", alpha=0.2)
        best = select(frame, row=row.name, method="mle", reading=reading)
        if metric in best and not best.empty:
            ax.axhline(best[metric].mean(), color="0.3", linestyle="--", label="exact MLE")
        ax.set_title(row.title)
        ax.set_yscale("linear" if metric == "nll" else "log")
        ax.set_xlabel("epoch")
        ax.grid(alpha=0.3)
    for ax in panels[len(rows) :]:
        ax.set_visible(False)
    panels[0].set_ylabel(METRICS.get(metric, "training loss a window"))
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=len(handles[0]))
    return figure


def plot_overview(
    frame: pd.DataFrame, rows: Sequence[Row], methods: Sequence[str], with_printed: bool = True
) -> Figure:
    """Every row and method at a glance: mean errors, ours filled and the printed ones hollow."""
    figure = Figure(figsize=(12, 0.62 * len(rows) + 1.8), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for ax, metric in zip(panels, ("mape", "mse"), strict=True):
        for k, name in enumerate(methods):
            # Apart from one another within the row, so that no dot hides another.
            shift = 0.7 * ((k + 0.5) / len(methods) - 0.5)
            for level, row in enumerate(rows):
                reading = Reading.FRESH if row.simulated else Reading.ONE
                mine = select(frame, row=row.name, method=name, reading=reading)[metric]
                style: Any = {"color": f"C{k}", "marker": "o", "linestyle": "", "markersize": 5}
                if not mine.empty:
                    label = METHODS[name].title if level == 0 else None
                    ax.plot(max(mine.mean(), 1e-7), level + shift, **style, label=label)
                printed = getattr(row, metric).get(name)
                if printed and with_printed:
                    ax.plot(printed[0], level + shift, **style, fillstyle="none")
        ax.set_xscale("log")
        ax.set_xlabel(f"{METRICS[metric]}, mean over repeats (hollow: printed)")
        ax.grid(alpha=0.3)
    panels[0].set_yticks(range(len(rows)), [row.title for row in rows])
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


def plot_learned(record: Record, states: int) -> Figure:
    """The learnt lower triangle of the upper-triangular model, as the paper draws it."""
    rates = np.full((states, states), np.nan)
    below = np.tril_indices(states, -1)
    rates[below] = np.maximum(record["theta"], 1e-3)
    figure = Figure(figsize=(6, 5), layout="constrained")
    ax = figure.add_subplot()
    image = ax.imshow(rates, norm=LogNorm(), cmap="viridis")
    figure.colorbar(image, label="learnt rate")
    ax.set_xlabel("to state")
    ax.set_ylabel(f"from state ({states - 1} is overload)")
    ax.set_xticks(range(0, states, 3))
    ax.set_yticks(range(0, states, 3))
    ax.set_title("Rates learnt by infinity-SGD: one of many that fit")
    return figure


def plot_testbed(
    recording: Recording, equal: pd.DataFrame, ladder: pd.DataFrame, records: Sequence[Record]
) -> Figure:
    """Forecasts against what was measured: equally likely ones, and the ladder's pick."""
    x = recording.heavy.loads.numpy()
    order = np.argsort(x)
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)

    def line(ax: Axes, predicted: Iterable[float], label: str, **style: Any) -> None:
        ax.plot(x[order], np.asarray(list(predicted))[order], label=label, **style)

    for ax in (left, right):
        ax.plot(x, recording.target.numpy(), ".", color="0.4", label="measured", alpha=0.6)
        ax.set_xlabel("calls a second")
        ax.grid(alpha=0.3)
    for _, fit in equal.iterrows():
        line(left, fit["predicted"], f"{fit['overload']:g} at load 1500")
    found = [r for r in records if r["row"] == "testbed" and r["method"] == "infinity"]
    if found:
        median = sorted(found, key=lambda record: record["mape"])[len(found) // 2]
        line(left, median["predicted"], "infinity-SGD (paper), median repeat", color="k", lw=2.5)
    left.set_yscale("log")
    left.set_ylim(1e-7, 1.5)
    left.set_ylabel("overload")
    left.set_title("Upper triangular on states 1 and 2: all of equal likelihood")
    left.legend(fontsize="small")
    shown = ladder[ladder["picked"] | ladder["model"].isin(["M/M/1/K", "logistic on load"])]
    for _, fit in shown.iterrows():
        width = 2.5 if fit["picked"] else 1.2
        line(right, fit["predicted"], fit["model"], linewidth=width)
    right.set_title("All states of the training windows observed")
    right.legend(fontsize="small")
    return figure
