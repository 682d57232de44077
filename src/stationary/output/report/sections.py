"""The tables and lists of a report."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
import scipy
import torch

from stationary import words
from stationary._version import __version__
from stationary.data.states import States
from stationary.output.report.ahead import Ahead
from stationary.output.report.headline import Answer
from stationary.output.report.tables import Cell, Table, from_frame
from stationary.terms.findings import Finding, Verdict
from stationary.trust.identifiability import Identifiability
from stationary.words import load_range, number, plain

if TYPE_CHECKING:
    from stationary.facade import Plan

_MOST_PARAMETERS = 30

MARKS = {Verdict.OK: "✓", Verdict.WARNING: "!", Verdict.UNKNOWN: "?"}

_LADDER = {
    "model": "model",
    "kind": "kind",
    "parameters": "parameters",
    "backtest": "held-out NLL",
    "backtest_error": "± to the best",
    "weight": "weight",
    "nll": "neg. log-lik.",
    "aic": "AIC",
    "bic": "BIC",
}

_RANGES = {
    "measure": "measure",
    "value": "forecast",
    "low": "at least",
    "high": "at most",
    "determined": "determined",
}


def forecast_table(plan: Plan, answer: Answer, ahead: Ahead) -> tuple[Table, list[str]]:
    """Return the forecast at a few round loads, and why some rows are not trusted."""
    names = list(dict.fromkeys([answer.measure, *answer.bounds]))
    if "response_time" in ahead.names and "response_time" not in names:
        names.append("response_time")
    rows = []
    reasons = list(dict.fromkeys(filter(None, ahead.rows["reason"])))
    for row in ahead.rows.to_dict("records"):
        # Reasons are long and few: the table points at them, and they stand below it.
        why = "" if row["trusted"] else f" ({reasons.index(row['reason']) + 1})"
        cells = [Cell(number(row["load"])), Cell(f"no{why}" if why else "yes")]
        for name in names:
            low, high = number(row[f"{name}_low"], 3), number(row[f"{name}_high"], 3)
            cells += [Cell(number(row[name], 3)), Cell(f"{low} to {high}")]
        cells.append(Cell(_where(row["load"], *ahead.seen)))
        rows.append(tuple(cells))
    between = f"{100 * answer.question.level:g}% interval"
    pairs = [heading for name in names for heading in (plain(name), between)]
    headings = (plan.model.inputs[0], "trusted", *pairs, "data")
    text = frozenset({between, "data", "trusted"})
    table = Table("Forecast", headings, tuple(rows), text, frozenset({between, "data"}))
    return table, reasons


def _where(load: float, low: float, high: float) -> str:
    return "below" if load < low else "above" if load > high else "inside"


def ladder_table(plan: Plan) -> Table:
    """Return the compared models, best first; the recommended one stands out."""
    frame = plan.ranking()
    table = from_frame("Models compared", frame, _LADDER, {"model", "kind"})
    rows = tuple(
        (Cell(first.text, str(note or "")), *others)
        for (first, *others), note in zip(table.rows, frame["note"], strict=True)
    )
    strong = frozenset(frame.index[frame["model"] == plan.comparison.choice.model].tolist())
    return Table(table.label, table.headings, rows, table.words, strong=strong)


def ranges_table(identifiability: Identifiability) -> Table:
    """Return how far the data lets each measure move."""
    frame = identifiability.ranges
    inputs = frame.columns[: frame.columns.get_loc("measure")]
    names = {name: name for name in inputs} | _RANGES
    frame = frame.assign(measure=frame["measure"].map(plain))
    return from_frame("What the data leaves open", frame, names, {"measure", "determined"})


def parameter_table(plan: Plan, level: float) -> tuple[Table, str]:
    """Return the estimates, and what to say of those left out."""
    frame = plan.table(level)
    names = {
        "parameter": "parameter",
        "estimate": "estimate",
        "std_error": "standard error",
        "low": f"{100 * level:g}% from",
        "high": "to",
        "determined": "determined",
    }
    text = {"parameter", "determined"}
    table = from_frame("Parameters", frame.head(_MOST_PARAMETERS), names, text)
    more = len(frame) - _MOST_PARAMETERS
    return table, f"And {words.plural(more, 'more parameter')}." if more > 0 else ""


def checks(findings: Sequence[Finding]) -> list[tuple[str, str, str, str]]:
    """Return mark, verdict, name and sentence of each finding, warnings first."""
    order = (Verdict.WARNING, Verdict.UNKNOWN, Verdict.OK)
    ranked = sorted(findings, key=lambda finding: order.index(finding.verdict))
    return [(MARKS[f.verdict], str(f.verdict), plain(str(f.check)), _with_p(f)) for f in ranked]


def _with_p(finding: Finding) -> str:
    text = words.finding(finding)
    return text if np.isnan(finding.p_value) else f"{text} (p = {number(finding.p_value, 2)})"


def data_facts(plan: Plan) -> list[tuple[str, str]]:
    """Return what the fit was made from."""
    windows = plan.windows
    facts = [("windows", str(windows.recorded))]
    for name, column in zip(windows.inputs, windows.x.T, strict=True):
        called = name if len(windows.inputs) > 1 or name != "load" else "loads"
        facts.append((called, load_range(float(column.min()), float(column.max()))))
    for kind in windows.observations:
        names = kind.labels if isinstance(kind, States) else kind.columns
        facts.append(("observed", ", ".join(names)))
        facts.append(("counts", f"{float(kind.size.sum()):.0f}"))
    if any(isinstance(kind, States) for kind in windows.observations):
        how = "by arriving requests" if windows.by_arrivals else "at times of their own"
        facts.append(("states sampled", how))
    lasts = "not given"
    if windows.duration is not None:
        lasts = load_range(*map(float, windows.duration.aminmax()))
    return [*facts, ("window length", lasts)]


def fit_facts(plan: Plan) -> list[tuple[str, str]]:
    """Return how the fit ended."""
    found, model = plan.estimate, plan.model
    sure = words.covariance(found.covariance, plan.windows.recorded)
    ended = words.ended(found.ended, found.gradient_norm)
    return [
        ("model", f"{type(model).__name__}({model.extra_repr()})"),
        ("states", str(len(model.states))),
        ("negative log-likelihood", f"{found.nll:.6f}"),
        ("converged", f"{'yes' if found.converged else 'no'}: {ended}"),
        ("standard errors", sure if plan.refits is None else words.refits(plan.refits)),
        ("starts", str(found.starts)),
        ("seed", str(plan.seed)),
        *((plain(name), text) for name, text in plan.recipe.items() if name != "command"),
    ]


def versions() -> str:
    """Return the versions of what made the report."""
    found = {
        "stationary": __version__,
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "matplotlib": matplotlib.__version__,
    }
    return ", ".join(f"{name} {version}" for name, version in found.items())
