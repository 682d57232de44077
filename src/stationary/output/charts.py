"""How a forecast is drawn, for plots and for the report alike, and the colours of all charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from stationary.planning.limits import Limit
from stationary.words import load_range, number, percent, plain, value

INK, PAPER, ACCENT, SECOND, ALERT = "#1c2127", "#ffffff", "#1d5fa8", "#8a5a00", "#b3382c"
"""Text and axes; background; the forecast; another forecast; limits. As on the light report."""

SERIES = LinearSegmentedColormap.from_list(
    "series", ["#7a52c7", "#3474c4", "#1b8a86", "#6f8c1e", "#b97a12", "#cc5033"]
)
"""Colours for categories and loads. Each has a contrast of 3 to 1 on a white and a dark page."""

ROUND_STEPS = [1, 2, 2.5, 5, 10]
"""Steps between ticks that are round numbers."""

_SMALL = 0.1  # a probability with a bound below this is drawn on a logarithmic axis
_USUAL_LOSS = 0.001  # stands for the bound on a loss that has none
_DECADES = 3  # how far below its bound a small probability is drawn
_SMALLEST = 1e-15  # a probability below this is drawn as zero
_TALLEST = 1.3  # how many times as high as the curve its interval is shown


class Points(NamedTuple):
    """Measured values: a column ``load`` and measures by name; drawn as dots or as rings."""

    label: str
    frame: pd.DataFrame
    filled: bool = True


@dataclass(frozen=True, eq=False)
class ForecastChart:
    """A forecast over load, and what is drawn with it."""

    curve: pd.DataFrame  # ``load``, and each measure with its ``_low`` and ``_high``
    level: float | None = None  # coverage of the intervals
    fitted: tuple[float, float] | None = None  # the lightest and the heaviest load of the data
    tested: float = math.inf  # the load beyond which no forecast is trusted
    points: tuple[Points, ...] = ()
    bounds: Mapping[str, float] = field(default_factory=dict)
    """The largest admissible value of each measure that has one."""
    limit: Limit | None = None
    present: float | None = None  # the present load
    pooled: pd.DataFrame | None = None
    """The forecast of all models by weight, for some of the measures."""
    timed: bool = False
    """Whether times are in seconds, so that they are shown in the unit that suits them."""

    @property
    def measures(self) -> list[str]:
        """The measures of the curve."""
        names = list(map(str, self.curve))
        return [name for name in names if f"{name}_low" in names and f"{name}_high" in names]

    @property
    def loads(self) -> tuple[float, float]:
        """The ends of the load axis."""
        columns = [self.curve["load"], *(points.frame["load"] for points in self.points)]
        every = np.concatenate([*columns, self.fitted or ()])
        low, high = float(every.min()), float(every.max())
        margin = 0.0 if low < high else 0.05 * abs(low) or 1.0
        return low - margin, high + margin

    def draw(self, ax: Axes, measure: str, least: float, most: float) -> list[tuple[str, str]]:
        """Draw one measure, whose values lie between ``least`` and ``most``.

        Returns
        -------
        list of (str, str)
            The kind of each mark and what it means, in the order of a legend.
        """
        bottom, top = self._set_value_axis(ax, measure, least, most)
        # Cut just outside the chart: no viewer draws the coordinates of an unbounded interval.
        view = (bottom / 2 if bottom > 0 else bottom, 2 * top)
        interval = "interval" if self.level is None else f"{100 * self.level:g}% interval"
        line = {"color": ACCENT, "label": "forecast", "gid": "line"}
        band = {"color": ACCENT, "label": interval, "gid": "band"}
        draw_curve(ax, self.curve, measure, view, line, band)
        if self.pooled is not None and measure in self.pooled:
            label = "all models, weighted, with interval"
            line = {"color": SECOND, "linestyle": "--", "label": label, "gid": "pooled"}
            # Drawn below the forecast of the plan itself.
            draw_curve(
                *(ax, self.pooled, measure, view),
                {**line, "zorder": 1.9},
                {"color": SECOND, "zorder": 0.9},
            )
        for points in self.points:
            if measure in points.frame:
                _draw_points(ax, points, measure, bottom)
        self.draw_loads(ax)
        if measure in self.bounds:
            bound = self.bounds[measure]
            label = f"{plain(measure)} = {value(measure, bound, self.timed)}"
            ax.axhline(bound, color=ALERT, linewidth=1.2, linestyle="--", label=label, gid="dash")
        self._draw_limit(ax)
        ax.set_xlim(*self.loads)
        ax.set_ylim(bottom, top)
        round_ticks(ax.xaxis, 6)
        ax.grid(axis="y", alpha=0.15)
        handles, labels = ax.get_legend_handles_labels()
        return [(str(each.get_gid()), text) for each, text in zip(handles, labels, strict=True)]

    def _set_value_axis(
        self, ax: Axes, measure: str, least: float, most: float
    ) -> tuple[float, float]:
        """Choose the axis: logarithmic for a small probability; return its ends."""
        curve, bound = self.curve[measure], self.bounds.get(measure)
        band = self.curve[f"{measure}_high"].clip(upper=_TALLEST * curve.max())
        marked = [points.frame[measure] for points in self.points if measure in points.frame]
        values = np.concatenate([curve, band, *marked, [] if bound is None else [bound]])
        values = values[np.isfinite(values)]
        top = float(values.max())
        if bound is None and measure == "loss":
            bound = _USUAL_LOSS
        if bound is None or bound >= _SMALL or (least, most) != (0, 1):
            ax.set_yscale("linear")
            round_ticks(ax.yaxis, 5, lambda size: value(measure, size, self.timed))
            bottom = 0.0 if least == 0 else float(values.min())
            return bottom, top + 0.08 * ((top - bottom) or 1.0)
        ax.set_yscale("log")
        decade_ticks(ax.yaxis)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: percent(share)))
        # A curve that stays far below its bound is shown, too.
        reference = max(min(bound, float(curve.max())), _SMALLEST)
        bottom = 10.0 ** (math.floor(math.log10(reference)) - _DECADES)
        return bottom, max(min(1.0, 2 * top), 10 * bound)

    def draw_loads(self, ax: Axes) -> None:
        """Shade the loads of the data, and those at which no forecast is trusted."""
        left, right = self.loads
        if self.fitted is not None:
            low, high = self.fitted
            widen = 0.002 * (right - left) if low == high else 0.0  # a single load has no width
            label = f"loads the fit saw ({load_range(low, high)})"
            ends = (low - widen, high + widen)
            ax.axvspan(*ends, color=INK, alpha=0.07, linewidth=0, label=label, gid="shade")
        if self.tested < right:
            label = f"beyond {number(self.tested)}: further than the data can test"
            ends = (max(self.tested, left), right)
            ax.axvspan(*ends, color=ALERT, alpha=0.08, linewidth=0, label=label, gid="far")

    def _draw_limit(self, ax: Axes) -> None:
        """Draw the largest load that meets all bounds, its interval, and the present load."""
        left, right = self.loads
        limit = self.limit
        if limit is not None and left < limit.load < right:
            ends = (max(limit.low, left), min(limit.high, right))
            ax.axvspan(*ends, color=ALERT, alpha=0.18, linewidth=0)
            meets = "all SLOs" if len(limit.slos) > 1 else "it"
            label = f"largest load that meets {meets}, with interval"
            ax.axvline(limit.load, color=ALERT, linewidth=1.2, label=label, gid="post")
            ax.text(
                *(limit.load, 1.02, number(limit.load, 3)),
                transform=ax.get_xaxis_transform(),
                color=ALERT,
                ha="center",
                fontweight="bold",
            )
        if self.present is not None:
            label = f"present load ({number(self.present)})"
            ax.axvline(
                self.present, color=INK, linewidth=1.2, linestyle=":", label=label, gid="now"
            )


def draw_curve(
    ax: Axes,
    frame: pd.DataFrame,
    measure: str,
    view: tuple[float, float],
    line: dict[str, Any],
    band: dict[str, Any],
) -> None:
    """Draw a measure as a line and its interval as a band."""
    middle, low, high = (frame[f"{measure}{end}"].clip(*view) for end in ("", "_low", "_high"))
    ax.plot(frame["load"], middle, **line)
    ax.fill_between(frame["load"], low, high, alpha=0.2, linewidth=0, **band)


def _draw_points(ax: Axes, points: Points, measure: str, bottom: float) -> None:
    """Draw measured values; those below a logarithmic axis become triangles on it."""
    x, y = points.frame["load"].to_numpy(), points.frame[measure].to_numpy()
    below = y < bottom if ax.get_yscale() == "log" else np.zeros(len(y), dtype=bool)
    face = INK if points.filled else PAPER
    look: dict[str, Any] = {"color": INK, "linestyle": "none", "markersize": 3.2}
    look |= {"markeredgewidth": 0.8, "markerfacecolor": face, "alpha": 0.7}
    kind = "dot" if points.filled else "ring"
    ax.plot(x[~below], y[~below], marker="o", label=points.label, gid=kind, **look)
    if below.any():
        kind, label = f"{kind}-below", f"{points.label}: smaller, most often zero"
        floor = np.full(below.sum(), bottom)
        ax.plot(x[below], floor, marker="v", clip_on=False, zorder=3, label=label, gid=kind, **look)


def round_ticks(axis: Axis, most: int, shown: Callable[[float], str] = number) -> None:
    """Give an axis at most so many ticks, at round numbers."""

    def text(place: float, _: int | None) -> str:
        noise = 1e-9 * np.abs(axis.get_view_interval()).max()  # 0 comes out as 3e-17
        return shown(0.0 if abs(place) < noise else place)

    axis.set_major_locator(MaxNLocator(most, steps=ROUND_STEPS))
    axis.set_major_formatter(FuncFormatter(text))


def decade_ticks(axis: Axis, within: tuple[int, ...] = (1,)) -> None:
    """Give a logarithmic axis ticks at powers of ten, and at these multiples of them."""
    axis.set_major_locator(LogLocator(subs=within))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
