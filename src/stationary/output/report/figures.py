"""The pictures of a report."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from stationary._support.types import Array
from stationary.errors import InputError
from stationary.models.measures import Measure
from stationary.output import plots
from stationary.output.report.ahead import Ahead
from stationary.output.report.headline import Answer
from stationary.output.report.svg import ACCENT, ALERT, INK, PAPER, SECOND, draw
from stationary.planning.limits import Limit
from stationary.words import number, plain

if TYPE_CHECKING:
    from stationary.facade import Plan

_DECADES = 3
"""How far below its bound a small probability is drawn."""

_SMALLEST = 1e-15
"""Probability below which a curve is as good as zero."""

_TALL = 1.3
"""How many times as high as the curve its band is shown."""

_STEPS = [1, 2, 2.5, 5, 10]
"""Ticks that are round numbers."""


@dataclass(frozen=True)
class Picture:
    """A figure of the page.

    Attributes
    ----------
    title : str
        What it shows.
    svg : Markup
        The picture; empty if there is none.
    narrow : Markup
        The same for a phone, where one size does not serve both.
    caption : str
        How to read it; or why there is no picture.
    """

    title: str
    svg: Markup
    narrow: Markup
    caption: str


def main_picture(plan: Plan, answer: Answer, ahead: Ahead) -> Picture:
    """Return the measure of the answer against load, with everything that bears on it."""
    measure = plan.model.measure(answer.measure)
    what, load = plain(answer.measure), plan.model.inputs[0]
    between = f"{100 * answer.question.level:g}% interval"
    label = f"{what} against load, with its {between}. {answer.sentence}"

    def paint(ax: Axes) -> None:
        _curve(ax, ahead, answer.measure, measure, answer.bounds.get(answer.measure))
        if answer.limit is not None and ahead.covers(answer.limit.load):
            _limit(ax, answer.limit)
        if answer.present not in ahead.seen:
            ax.axvline(answer.present, color=INK, linewidth=1.2, linestyle=(0, (1, 2)))
        ax.set_xlabel(load)

    wide = draw("main", label, (640, 340), paint)
    narrow = draw("main-narrow", label, (330, 320), paint)
    return Picture(
        f"{what} against {load}", wide, narrow, f"{measure.about or what}, against {load}"
    )


def small_pictures(plan: Plan, answer: Answer, ahead: Ahead) -> list[Picture]:
    """Return the other measures against load."""
    pictures = []
    for k, name in enumerate(ahead.names[1:]):
        measure, bound = plan.model.measure(name), answer.bounds.get(name)

        def paint(
            ax: Axes, name: str = name, measure: Measure = measure, bound: float | None = bound
        ) -> None:
            _curve(ax, ahead, name, measure, bound)
            if answer.limit is not None and ahead.covers(answer.limit.load):
                ax.axvline(answer.limit.load, color=ALERT, linewidth=1)
            ax.set_xlabel(plan.model.inputs[0])

        svg = draw(f"measure-{k}", f"{plain(name)} against load", (320, 205), paint)
        caption = measure.about
        if bound is not None:
            caption += f"{'; ' * bool(caption)}the dashed line is its bound, {number(bound)}"
        pictures.append(Picture(plain(name), svg, Markup(""), caption))
    return pictures


def diagnostics(plan: Plan) -> list[Picture]:
    """Return the pictures that show whether the model describes the data it was fitted to."""
    return [
        _picture(
            *("residuals", "Residuals", (320, 320)),
            lambda ax: plots.plot_residuals(plan.estimate, plan.windows, ax),
            "How far the counts of each window lie from what the model expects. They should "
            "scatter around zero without a pattern.",
        ),
        _picture(
            *("calibration", "Calibration", (320, 320)),
            lambda ax: plots.plot_calibration(plan.estimate, plan.windows, ax),
            "What was counted against what the model expects. Points near the diagonal are good.",
        ),
    ]


def generator(plan: Plan) -> Picture:
    """Return the learnt generator as a heat map."""
    heaviest = plan.windows.x[int(plan.windows.loads.argmax())].tolist()
    pairs = zip(plan.model.inputs, heaviest, strict=True)
    where = ", ".join(f"{name} {number(value)}" for name, value in pairs)
    return _picture(
        *("generator", "The learnt chain", (420, 370)),
        lambda ax: plots.plot_generator(plan.model, heaviest, ax),
        f"Rates from each state (row) to each other (column) at {where}, the heaviest load in the "
        f"data.",
    )


def _picture(
    name: str, title: str, size: tuple[int, int], paint: Callable[[Axes], Any], caption: str
) -> Picture:
    try:
        return Picture(title, draw(name, title, size, paint), Markup(""), caption)
    except InputError as error:
        return Picture(title, Markup(""), Markup(""), f"There is no picture: {error}.")


def _curve(ax: Axes, ahead: Ahead, name: str, measure: Measure, bound: float | None) -> None:
    """Draw a measure, its interval, what was measured, and the loads that were seen."""
    marks = [
        (frame, style)
        for frame, style in ((ahead.learnt, {"markerfacecolor": PAPER}), (ahead.later, {}))
        if name in frame
    ]
    low, high = _scale(ax, ahead.curve, name, measure, bound, [f[name] for f, _ in marks])
    least = 0.002 * (ahead.curve["load"].max() - ahead.curve["load"].min())  # one load is a line
    ax.axvspan(ahead.seen[0] - least, ahead.seen[1] + least, color=INK, alpha=0.07, linewidth=0)
    farthest = float(ahead.curve["load"].max())
    if ahead.tested < farthest:
        ax.axvspan(ahead.tested, farthest, color=ALERT, alpha=0.08, linewidth=0)
    if ahead.pooled is not None and name in ahead.pooled:
        _band(ax, ahead.pooled, name, (low, high), SECOND, 0.16, "--")
    _band(ax, ahead.curve, name, (low, high), ACCENT, 0.22, "-")
    for frame, style in marks:
        _marks(ax, frame["load"].to_numpy(), frame[name].to_numpy(), low, style)
    if bound is not None:
        ax.axhline(bound, color=ALERT, linewidth=1.2, linestyle=(0, (5, 3)))
    ax.set_ylim(low, high)
    ax.set_xlim(ahead.curve["load"].min(), ahead.curve["load"].max())
    _round_ticks(ax.xaxis, 6)
    ax.grid(axis="y")


def _band(
    ax: Axes,
    frame: pd.DataFrame,
    name: str,
    view: tuple[float, float],
    color: str,
    alpha: float,
    line: str,
) -> None:
    # Cut at a little outside the picture: an open interval has coordinates no viewer can draw.
    edges = view[0] / 2 if view[0] > 0 else view[0], 2 * view[1]
    ends = (frame[f"{name}_low"].clip(*edges), frame[f"{name}_high"].clip(*edges))
    ax.fill_between(frame["load"], *ends, color=color, alpha=alpha, linewidth=0)
    ax.plot(frame["load"], frame[name].clip(*edges), color=color, linestyle=line)


def _marks(ax: Axes, x: Array, y: Array, floor: float, style: dict[str, str]) -> None:
    """Draw measured values; what lies below a logarithmic axis becomes a triangle on it."""
    below = (y < floor) | ~(y > 0) if ax.get_yscale() == "log" else np.zeros(len(y), dtype=bool)
    look: dict[str, Any] = {
        "color": INK,
        "linestyle": "none",
        "markersize": 3.2,
        "markeredgewidth": 0.8,
    } | style
    ax.plot(x[~below], y[~below], marker="o", alpha=0.75, **look)
    ax.plot(
        x[below],
        np.full(below.sum(), floor),
        marker="v",
        clip_on=False,
        zorder=3,
        alpha=0.6,
        **look,
    )


def _scale(
    ax: Axes,
    curve: pd.DataFrame,
    name: str,
    measure: Measure,
    bound: float | None,
    marks: list[pd.Series],
) -> tuple[float, float]:
    """Choose the axis: logarithmic for a probability with a small bound; return its ends."""
    band = curve[f"{name}_high"].clip(upper=_TALL * curve[name].max())
    values = np.concatenate([curve[name], band, *marks, [] if bound is None else [bound]])
    values = values[np.isfinite(values)]
    top = float(values.max())
    floor = _floor(curve[name], measure, bound)
    if bound is not None and floor > 0:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator())
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        return floor, max(min(1.0, 2 * top), 10 * bound)
    _round_ticks(ax.yaxis, 5)
    bottom = 0.0 if measure.low == 0 else float(values.min())
    return bottom, top + 0.08 * ((top - bottom) or 1.0)


def _round_ticks(axis: Axis, most: int) -> None:
    def text(value: float, _: int | None) -> str:
        noise = 1e-9 * np.abs(axis.get_view_interval()).max()  # 0 comes out as 3e-17
        return number(0.0 if abs(value) < noise else value)

    axis.set_major_locator(MaxNLocator(most, steps=_STEPS))
    axis.set_major_formatter(FuncFormatter(text))


def _floor(curve: pd.Series, measure: Measure, bound: float | None) -> float:
    """Return where the axis of a small probability ends; 0 where the axis is not logarithmic."""
    if bound is None or (measure.low, measure.high) != (0, 1) or bound >= 0.1:
        return 0.0
    top = max(min(bound, float(curve.max())), _SMALLEST)  # a curve far below the bound shows, too
    return 10.0 ** (math.floor(math.log10(top)) - _DECADES)


def has_triangles(plan: Plan, answer: Answer, ahead: Ahead) -> bool:
    """Whether measured values lie below the axis of the main picture."""
    name = answer.measure
    floor = _floor(ahead.curve[name], plan.model.measure(name), answer.bounds.get(name))
    return any(bool((f[name] < floor).any()) for f in (ahead.learnt, ahead.later) if name in f)


def _limit(ax: Axes, limit: Limit) -> None:
    """Draw the largest load that meets all bounds, with its interval."""
    left, right = ax.get_xlim()
    ax.axvspan(max(limit.low, left), min(limit.high, right), color=ALERT, alpha=0.18, linewidth=0)
    ax.axvline(limit.load, color=ALERT, linewidth=1.2)
    ax.text(
        *(limit.load, 1.02, number(limit.load)),
        transform=ax.get_xaxis_transform(),
        color=ALERT,
        ha="center",
        fontweight="bold",
    )
