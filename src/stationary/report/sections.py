"""The tables and lists of a report."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import scipy
import torch

from stationary._version import __version__
from stationary.findings import Finding, Verdict
from stationary.report.ahead import Ahead
from stationary.report.headline import Answer
from stationary.report.words import Cell, Table, from_frame, number, plain
from stationary.result import Fit

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


def forecast_table(fit: Fit, answer: Answer, ahead: Ahead, level: float) -> tuple[Table, list[str]]:
    """Return the forecast at a few round loads, and why some rows are not trusted."""
    names = [answer.measure]
    if "response_time" in fit.model.measures and answer.measure != "response_time":
        names.append("response_time")
    rows = []
    reasons = list(dict.fromkeys(filter(None, ahead.rows["reason"])))
    for row in ahead.rows.to_dict("records"):
        # Reasons are long and few: the table points at them, and they stand below it.
        why = "" if row["trusted"] else f" ({reasons.index(row['reason']) + 1})"
        cells = [Cell(number(row["x"])), Cell(f"no{why}" if why else "yes")]
        for name in names:
            low, high = number(row[f"{name}_low"], 3), number(row[f"{name}_high"], 3)
            cells += [Cell(number(row[name], 3)), Cell(f"{low} to {high}")]
        cells.append(Cell(_where(row["x"], *ahead.seen)))
        rows.append(tuple(cells))
    between = f"{100 * level:g}% interval"
    pairs = [heading for name in names for heading in (plain(name), between)]
    headings = (fit.model.inputs[0], "trusted", *pairs, "data")
    words = frozenset({between, "data", "trusted"})
    table = Table("Forecast", headings, tuple(rows), words, frozenset({between, "data"}))
    return table, reasons


def _where(load: float, low: float, high: float) -> str:
    return "below" if load < low else "above" if load > high else "inside"


def ladder_table(comparison: Any) -> Table:
    """Return the compared models, best first; the recommended one stands out."""
    frame = comparison.table.reset_index(drop=True)
    table = from_frame("Models compared", frame, _LADDER, {"model", "kind"})
    rows = tuple(
        (Cell(first.text, str(note or "")), *others)
        for (first, *others), note in zip(table.rows, frame["note"], strict=True)
    )
    strong = frozenset(frame.index[frame["model"] == comparison.recommended].tolist())
    return Table(table.label, table.headings, rows, table.words, strong=strong)


def ranges_table(identifiability: Any) -> Table:
    """Return how far the data lets each measure move."""
    frame = identifiability.ranges
    inputs = frame.columns[: frame.columns.get_loc("measure")]
    names = {name: "load" if name == "x" else name for name in inputs} | _RANGES
    frame = frame.assign(measure=frame["measure"].map(plain))
    return from_frame("What the data leaves open", frame, names, {"measure", "determined"})


def parameter_table(fit: Fit, level: float) -> tuple[Table, str]:
    """Return the estimates, and what to say of those left out."""
    frame = fit.table(level)
    names = {
        "parameter": "parameter",
        "estimate": "estimate",
        "std_error": "standard error",
        "low": f"{100 * level:g}% from",
        "high": "to",
        "determined": "determined",
    }
    words = {"parameter", "determined"}
    table = from_frame("Parameters", frame.head(_MOST_PARAMETERS), names, words)
    more = len(frame) - _MOST_PARAMETERS
    return table, f"And {more} more parameters." if more > 0 else ""


def checks(findings: Sequence[Finding]) -> list[tuple[str, str, str, str]]:
    """Return mark, verdict, name and sentence of each finding, warnings first."""
    order = (Verdict.WARNING, Verdict.UNKNOWN, Verdict.OK)
    ranked = sorted(findings, key=lambda finding: order.index(finding.verdict))
    return [(MARKS[f.verdict], str(f.verdict), plain(f.name), _with_p(f)) for f in ranked]


def _with_p(finding: Finding) -> str:
    if not np.isfinite(finding.p_value):
        return finding.sentence
    return f"{finding.sentence} (p = {number(finding.p_value, 2)})"


def data_facts(fit: Fit) -> list[tuple[str, str]]:
    """Return what the fit was made from."""
    windows = fit.windows
    inputs = [
        (
            name if len(windows.inputs) > 1 or name != "load" else "loads",
            f"{number(float(column.min()))} to {number(float(column.max()))}",
        )
        for name, column in zip(windows.inputs, windows.x.T, strict=True)
    ]
    return [
        ("windows", str(windows.recorded)),
        *inputs,
        ("counted categories", ", ".join(windows.labels)),
        ("counts", f"{float(windows.counts.sum()):.0f}"),
        ("counted by", {"time": "the clock", "arrival": "arriving requests"}[windows.sampling]),
        ("window length", "not given" if windows.duration is None else number(windows.duration)),
    ]


def fit_facts(fit: Fit) -> list[tuple[str, str]]:
    """Return how the fit ended."""
    return [
        ("model", f"{type(fit.model).__name__}({fit.model.extra_repr()})"),
        ("states", str(len(fit.model.states))),
        ("negative log-likelihood", f"{fit.nll:.6f}"),
        ("converged", f"{'yes' if fit.converged else 'no'}: {fit.message}"),
        ("standard errors", fit.covariance.kind),
        ("starts", str(fit.starts)),
        ("seed", str(fit.seed)),
        *((plain(name), text) for name, text in fit.recipe.items() if name != "command"),
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
