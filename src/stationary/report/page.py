"""The page: what a report says, put into its template and written whole or not at all."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from stationary.atomic import replacing
from stationary.errors import InputError
from stationary.findings import Finding
from stationary.report import figures, sections
from stationary.report.ahead import Ahead, look_ahead
from stationary.report.headline import Answer, answer, cautions, held
from stationary.report.words import number, plain, sentence
from stationary.result import Fit


def write_report(
    fit: Fit,
    path: str | os.PathLike[str],
    *,
    bound: tuple[str, float] | None = None,
    present: float | None = None,
    level: float = 0.95,
    findings: Sequence[Finding] = (),
    identifiability: Any = None,
    comparison: Any = None,
    observed: pd.DataFrame | None = None,
    command: str = "",
) -> None:
    """Write a report of a fit as one HTML file that needs nothing else to be read.

    Parameters
    ----------
    fit : Fit
        What was learnt.
    path : path
        Where to write; ends in ``.html``. A file that is there is replaced.
    bound : (measure, value), optional
        What must hold at the load the report asks for; ``("loss", 0.001)`` by default, where the
        model has a loss.
    present : float, optional
        The present load, to set the answer against; by default the heaviest in the data.
    level : float
        Coverage of the intervals.
    findings : sequence of Finding
        What checks of the data and of the fit found.
    identifiability : optional
        What the data cannot determine: an object with ``determined``, ``findings()``,
        ``directions``, each of which has a ``sentence``, and ``ranges``.
    comparison : optional
        Models compared: an object with ``table``, ``recommended``, ``reason`` and
        ``forecast(x, level)``.
    observed : DataFrame, optional
        Measured values to set beside the forecast: a column ``x`` of loads, and measures by name.
    command : str
        The command that made the report.
    """
    path = check_path(path)
    said = answer(fit, bound, present, level)
    ahead = look_ahead(fit, said, level, comparison, observed) if said.measure else None
    environment = Environment(
        loader=PackageLoader("stationary.report"),
        autoescape=True,  # names of models, states and columns are data, not markup
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sentence"] = sentence
    text = environment.get_template("report.html.j2").render(
        level=f"{100 * level:g}%",
        model=type(fit.model).__name__,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        answer=said,
        cautions=cautions(fit, said.limit, findings, identifiability, comparison),
        horizon=sentence(str(fit.horizon)),
        pooled=_pooled(said, comparison, level),
        comparison=comparison,
        ladder=None if comparison is None else sections.ladder_table(comparison),
        identifiability=identifiability,
        ranges=None if identifiability is None else sections.ranges_table(identifiability),
        checks=sections.checks(findings),
        diagnostics=figures.diagnostics(fit),
        generator=figures.generator(fit),
        parameters=sections.parameter_table(fit, level),
        data_facts=sections.data_facts(fit),
        fit_facts=sections.fit_facts(fit),
        commands=list(dict.fromkeys(filter(None, (fit.recipe.get("command"), command)))),
        versions=sections.versions(),
        **_forecast(fit, said, ahead, level),
    )
    try:
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: the report cannot be written: {error.strerror or error}"
        ) from error


def check_path(path: str | os.PathLike[str]) -> Path:
    """Return where a report may be written; raise if it is no HTML file."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: a report is HTML; give the file the ending .html")
    return Path(path)


def _forecast(fit: Fit, said: Answer, ahead: Ahead | None, level: float) -> dict[str, Any]:
    """Return what the page says of the forecast; nothing if the model has no measures."""
    if ahead is None:
        return {
            "main": None,
            "legend": [],
            "small": [],
            "table": None,
            "reasons": [],
            "held": "",
            "triangles": False,
        }
    table, reasons = sections.forecast_table(fit, said, ahead, level)
    return {
        "main": figures.main_picture(fit, said, ahead, level),
        "legend": _legend(said, ahead, level),
        "small": figures.small_pictures(fit, said, ahead),
        "table": table,
        "reasons": reasons,
        "held": held(fit),
        "triangles": figures.has_triangles(fit, said, ahead),
    }


def _pooled(said: Answer, comparison: Any, level: float) -> str:
    """Say what all models together answer; empty where they cannot."""
    if said.limit is None or comparison is None:
        return ""
    try:
        bound = {said.limit.measure: said.limit.bound}
        limit = comparison.max_load(level, said.present, **bound)
    except InputError:
        return ""
    return f"All models together, weighted: {replace(limit, present=math.nan)}."


def _legend(said: Answer, ahead: Ahead, level: float) -> list[tuple[str, str]]:
    """Return the kinds of marks in the main picture, each with what it stands for."""
    entries = [("line", "forecast"), ("band", f"{100 * level:g}% interval")]
    if ahead.pooled is not None and said.measure in ahead.pooled:
        entries.append(("pooled", "all models, weighted, with interval"))
    if said.measure in ahead.learnt:
        entries.append(("ring", "windows the fit saw"))
    if said.measure in ahead.later:
        entries.append(("dot", "measured, not used in the fit"))
    seen = " to ".join(dict.fromkeys(map(number, ahead.seen)))
    entries.append(("shade", f"loads the fit saw ({seen})"))
    if ahead.tested < float(ahead.curve["x"].max()):
        entries.append(("far", f"beyond {number(ahead.tested)}: further than the data can test"))
    if said.limit is not None:
        entries.append(("dash", f"{plain(said.measure)} = {number(said.limit.bound)}"))
        if ahead.covers(said.limit.load):
            entries.append(("post", "largest load that meets it, with interval"))
    if said.present not in ahead.seen:
        entries.append(("now", f"present load ({number(said.present)})"))
    return entries
