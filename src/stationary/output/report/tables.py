"""The tables and lists of a report."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pandas as pd

from stationary import words
from stationary._version import __version__
from stationary.data.states import States
from stationary.errors import StationaryError
from stationary.output.charts import ForecastChart
from stationary.output.report.answer import Answer
from stationary.output.report.forecasts import round_loads
from stationary.terms.findings import Finding, Verdict
from stationary.trust.identifiability import Identifiability
from stationary.words import load_range, number, plain

if TYPE_CHECKING:
    from stationary.facade import Plan

_MOST_PARAMETERS = 30

_MARKS = {Verdict.WARNING: "!", Verdict.UNKNOWN: "?", Verdict.OK: "✓"}
"""A mark for each verdict, worst first."""

_PERCENTILES = ("p50", "p95", "p99")
_RANKING = ("model", "parameters", "misplaced", "weight", "backtest", "backtest_error")
_CRITERIA = ("aic", "bic")
_RANGES = ("measure", "value", "low", "high", "determined")
_ESTIMATES = ("parameter", "estimate", "std_error", "low", "high", "determined")

_FASTER, _LARGER = 1.2, 1.5
"""By how much servers become faster, and the capacity larger where losses bind."""

_HEADINGS = {
    "backtest": "held-out NLL",
    "backtest_error": "± to the best",
    "misplaced": "off by",
    "aic": "AIC",
    "bic": "BIC",
    "value": "forecast",
    "low": "at least",
    "high": "at most",
    "std_error": "standard error",
}
"""Headings of columns that are not named as people know them."""


@dataclass(frozen=True)
class Table:
    """A table for the page."""

    label: str  # what it shows, for screen readers
    columns: tuple[tuple[str, str], ...]
    """Heading and CSS class of each: ``text`` is aligned left, ``quiet`` only qualifies others."""
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()  # small print in the first cell of each row
    strong: int | None = None  # the row that stands out


def _from_frame(
    label: str, frame: pd.DataFrame, columns: Sequence[str], headings: Mapping[str, str] = _HEADINGS
) -> Table:
    """Return some columns of a frame as a table; those of numbers are aligned right."""
    kinds = ("" if frame[name].dtype.kind in "if" else "text" for name in columns)
    named = (headings.get(name, name) for name in columns)
    rows = (tuple(map(_cell, row)) for row in frame[list(columns)].itertuples(index=False))
    return Table(label, tuple(zip(named, kinds, strict=True)), tuple(rows))


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if pd.api.types.is_bool(value):
        return "yes" if value else "no"
    return "–" if value is None or math.isnan(value) else number(float(value))


def forecast_table(plan: Plan, answer: Answer, chart: ForecastChart) -> tuple[Table, list[str]]:
    """Return the forecast at round loads, and the reasons why some rows are not trusted."""
    first = [answer.measure, *answer.bounds, "response_time", *_PERCENTILES]
    names = [name for name in dict.fromkeys(first) if name in chart.measures]
    loads = chart.curve["load"]
    frame = chart.curve[loads.isin(round_loads(loads.min(), loads.max()))]
    reasons = list(dict.fromkeys(filter(None, frame["reason"])))
    rows = []
    for row in frame.to_dict("records"):
        # Reasons are long and few: the table refers to them by number.
        trusted = "yes" if row["trusted"] else f"no ({reasons.index(row['reason']) + 1})"
        cells = []
        for name in names:
            value = words.value(name, row[name], chart.timed)
            ends = words.ends(name, row[f"{name}_low"], row[f"{name}_high"], chart.timed)
            cells.append(f"{value}\n{ends}")
        rows.append((number(row["load"]), *cells, trusted))
    columns = ((plan.model.inputs[0], ""), *((plain(name), "") for name in names), ("trusted", ""))
    return Table("Forecast", columns, tuple(rows)), reasons


def ranking_table(plan: Plan) -> Table:
    """Return the compared models, best first; the recommended one stands out."""
    frame = plan.ranking()
    shares = frame["misplaced"].map(lambda share: "–" if math.isnan(share) else words.about(share))
    frame["misplaced"] = shares
    table = _from_frame("Models compared", frame, (*_RANKING, *_CRITERIA))
    chosen = frame.index[frame["model"] == plan.comparison.choice.model].tolist()
    notes = tuple(note if isinstance(note, str) else "" for note in frame["note"])
    return replace(table, notes=notes, strong=chosen[0] if chosen else None)


def ranges_table(identifiability: Identifiability) -> Table:
    """Return the range of each measure that the data leave open."""
    frame = identifiability.ranges
    inputs = frame.columns[: frame.columns.get_loc("measure")]
    frame = frame.assign(measure=frame["measure"].map(plain))
    return _from_frame("What the data leave open", frame, (*inputs, *_RANGES))


def parameter_table(plan: Plan, level: float) -> tuple[Table, int]:
    """Return the estimates, and how many more there are."""
    frame = plan.table(level)
    headings = _HEADINGS | {"low": f"{100 * level:g}% from", "high": "to"}
    shown = frame.head(_MOST_PARAMETERS)
    table = _from_frame("Parameters", shown, _ESTIMATES, headings)
    return table, len(frame) - len(shown)


def checks(findings: Sequence[Finding]) -> list[tuple[str, str, str, str]]:
    """Return mark, verdict, name and sentence of each finding, warnings first."""
    worst = list(_MARKS)
    ranked = sorted(findings, key=lambda finding: worst.index(finding.verdict))
    return [(_MARKS[f.verdict], str(f.verdict), plain(str(f.check)), _with_p(f)) for f in ranked]


def _with_p(finding: Finding) -> str:
    text = words.finding(finding)
    return text if math.isnan(finding.p_value) else f"{text} (p = {number(finding.p_value, 2)})"


def data_facts(plan: Plan) -> list[tuple[str, str]]:
    """Return what the fit was made from."""
    windows = plan.windows
    facts = [("windows", str(windows.recorded))]
    for name, column in zip(windows.inputs, windows.x.T, strict=True):
        called = "loads" if windows.inputs == ("load",) else name
        facts.append((called, load_range(float(column.min()), float(column.max()))))
    for kind in windows.observations:
        facts.append(("observed", kind.shown))
        facts.append(("counts", f"{float(kind.size.sum()):.0f}"))
        if isinstance(kind, States):
            how = "by arriving requests" if windows.by_arrivals else "independently of arrivals"
            facts.append(("states sampled", how))
    length = "not given"
    if windows.duration is not None:
        length = load_range(*map(float, windows.duration.aminmax()))
    return [*facts, ("window length", length)]


def fit_facts(plan: Plan) -> list[tuple[str, str]]:
    """Return how the fit ended."""
    estimate, model = plan.estimate, plan.model
    ended = words.ended(estimate.ended)
    errors = words.covariance(estimate.covariance, plan.windows.recorded)
    return [
        ("model", f"{type(model).__name__}({model.extra_repr()})"),
        ("states", str(len(model.states))),
        ("negative log-likelihood", f"{estimate.nll:.6f}"),
        ("converged", f"{'yes' if estimate.converged else 'no'}: {ended}"),
        ("standard errors", errors if plan.refits is None else words.refits(plan.refits)),
        ("starts", str(estimate.starts)),
        ("seed", str(plan.seed)),
        *((plain(name), text) for name, text in plan.recipe.items() if name != "command"),
    ]


def versions() -> str:
    """Return the versions of what made the report."""
    others = [f"{name} {version(name)}" for name in ("torch", "numpy", "scipy", "matplotlib")]
    return ", ".join([f"stationary {__version__}", f"Python {platform.python_version()}", *others])


def what_if_table(plan: Plan, answer: Answer) -> Table | None:
    """Return the limit as it is, and with other servers and capacities; None where there is none.

    A what-if is made of the system that was observed, and needs a limit that is to be trusted.
    """
    found = answer.limit
    if found is None or not found.trusted or not 0 < found.load < math.inf:
        return None
    if plan.change is not None or any(part.costly for part in plan.draws.parts):
        return None
    ends = f"{words.number(found.low, 3)} to {words.number(found.high, 3)}"
    rows = [("as it is", words.number(found.load, 3), ends, "")]
    for change in _changes(plan.model.changeable, answer.measure == "loss"):
        with suppress(StationaryError):  # a model that cannot be changed like this
            changed = plan.what_if(**change)
            then = changed.max_load(*found.slos)
            if changed.change is None or not 0 < then.load < math.inf:
                continue
            ends = f"{words.number(then.low, 3)} to {words.number(then.high, 3)}"
            gain = words.about(then.load / found.load - 1)
            cells = words.number(then.load, 3), ends, gain if then.load < found.load else f"+{gain}"
            rows.append((words.change(changed.change), *cells))
    interval = words.interval(found.level)
    columns = (("system", "text"), ("largest load", ""), (interval, "quiet"), ("change", ""))
    return Table("What if", columns, tuple(rows), strong=0) if len(rows) > 1 else None


def _changes(options: dict[str, int | float], of_loss: bool) -> Iterator[dict[str, Any]]:
    servers, capacity = options.get("servers"), options.get("capacity")
    if servers is not None:
        if servers > 1:
            yield {"servers": int(servers) - 1}
        more = int(servers) + 1  # which a system without a queue has room for, too
        yield {"servers": more} | ({"capacity": more} if (capacity or more) < more else {})
    if capacity is not None and of_loss:
        yield {"capacity": math.ceil(_LARGER * capacity)}
    yield {"faster": _FASTER}
