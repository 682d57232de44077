"""The charts of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stationary.errors import InputError
from stationary.output import plots
from stationary.output.charts import ForecastChart
from stationary.output.report.answer import Answer
from stationary.output.report.svg import draw
from stationary.words import interval, number, plain, value

if TYPE_CHECKING:
    from stationary.facade import Plan

Legend = Sequence[tuple[str, str]]
"""The kinds of marks in a chart, each with its meaning."""


@dataclass(frozen=True)
class Picture:
    """A chart of the page; one that cannot be drawn is empty, and its caption says why."""

    title: str
    svg: str
    caption: str
    narrow: str = ""  # the same for a phone, where one size does not serve both
    legend: Legend = ()  # what its marks mean, if the page says so


def main_picture(plan: Plan, answer: Answer, chart: ForecastChart) -> Picture:
    """Return the measure of the answer against load, with a legend."""
    name, load = answer.measure, plan.model.inputs[0]
    measure, what = plan.model.measure(name), plain(name)
    label = f"{what} against load, with its {interval(answer.question.level)}. {answer.sentence}"
    paint = _painter(plan, chart, name)
    return Picture(
        f"{what} against {load}",
        draw("main", label, (640, 340), paint),
        f"{measure.about or what}, against {load}",
        draw("main-narrow", label, (330, 320), paint),
        tuple(paint(Figure().add_subplot())),
    )


def small_pictures(plan: Plan, chart: ForecastChart) -> list[Picture]:
    """Return the other measures against load."""
    pictures: list[Picture] = []
    for name in chart.measures[1:]:
        caption = [plan.model.measure(name).about]
        if name in chart.bounds:
            bound = value(name, chart.bounds[name], chart.timed)
            caption.append(f"the dashed line is its bound, {bound}")
        unique = f"measure-{len(pictures)}"
        svg = draw(unique, f"{plain(name)} against load", (320, 205), _painter(plan, chart, name))
        pictures.append(Picture(plain(name), svg, "; ".join(filter(None, caption))))
    return pictures


def _painter(plan: Plan, chart: ForecastChart, name: str) -> Callable[[Axes], Legend]:
    """Return what draws a measure over load, and returns its legend."""
    measure, unit = plan.model.measure(name), plan.recipe.get("unit")

    def paint(ax: Axes) -> Legend:
        ax.set_xlabel(f"{plan.model.inputs[0]} ({unit})" if unit else plan.model.inputs[0])
        return chart.draw(ax, name, measure.low, measure.high)

    return paint


def diagnostics(plan: Plan) -> list[Picture]:
    """Return the charts that show whether the model describes the data it was fitted to."""
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
        return Picture(title, draw(name, title, size, paint), caption)
    except InputError as error:
        return Picture(title, "", f"There is no chart: {error}.")
