"""The page: what a report says, put into its template and written whole or not at all."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from stationary import words
from stationary._support.files import replacing
from stationary.errors import InputError
from stationary.output.report import figures, sections
from stationary.output.report.ahead import Ahead, look_ahead
from stationary.output.report.headline import Answer, answer, cautions, held, is_compared
from stationary.trust.backtest import MOST_STATES
from stationary.trust.identifiability import Identifiability
from stationary.words import load_range, number, plain, sentence

if TYPE_CHECKING:
    from stationary.facade import Plan


def write_report(
    plan: Plan,
    path: str | os.PathLike[str],
    *,
    slos: Any = None,
    present: float | None = None,
    level: float | None = None,
    identifiability: Identifiability | None = None,
    observed: pd.DataFrame | None = None,
    command: str = "",
) -> None:
    """Write a report of a plan as one HTML file that needs nothing else to be read.

    It shows what the plan knows: nothing is fitted or checked here. Of several models that were
    fitted it shows how they compare.

    Parameters
    ----------
    plan : Plan
        What was learnt.
    path : path
        Where to write; ends in ``.html``. A file that is there is replaced.
    slos : str, Slo, sequence or mapping, optional
        What must hold at the load the report asks for, as in ``"loss<0.1%"``. By default what the
        plan was made for, or else a loss of at most 0.001, where the model has a loss.
    present : float, optional
        The present load, to set the answer against; by default the plan's, or else the heaviest in
        the data.
    level : float, optional
        Coverage of the intervals; by default the plan's.
    identifiability : Identifiability, optional
        What the data determine. By default what ``plan.identify()`` says, except for a what-if, a
        model without measures and a chain that is too large for that.
    observed : DataFrame, optional
        Measured values to set beside the forecast: a column ``load``, and measures by name.
    command : str
        The command that made the report.
    """
    path = check_path(path)
    said = answer(plan, slos, present, level)
    ahead = look_ahead(plan, said, observed) if said.measure else None
    findings = [] if plan.change else plan.findings
    if identifiability is None and _can_identify(plan):
        identifiability = plan.identify()
    environment = Environment(
        loader=PackageLoader("stationary.output.report"),
        autoescape=True,  # names of models, states and columns are data, not markup
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"sentence": sentence, "finding": words.finding}
    text = environment.get_template("report.html.j2").render(
        plan=plan,
        level=f"{100 * said.question.level:g}%",
        model=type(plan.model).__name__,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        answer=said,
        cautions=cautions(plan, said.limit, findings, identifiability),
        horizon=sentence(words.horizon(plan.horizon)),
        identifiability=identifiability,
        directions=[] if identifiability is None else words.directions(identifiability.directions),
        ranges=None if identifiability is None else sections.ranges_table(identifiability),
        checks=sections.checks(findings),
        diagnostics=figures.diagnostics(plan),
        generator=figures.generator(plan),
        parameters=sections.parameter_table(plan, said.question.level),
        data_facts=sections.data_facts(plan),
        fit_facts=sections.fit_facts(plan),
        commands=list(dict.fromkeys(filter(None, (plan.recipe.get("command"), command)))),
        versions=sections.versions(),
        **_comparison(plan),
        **_forecast(plan, said, ahead),
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


def _can_identify(plan: Plan) -> bool:
    """Whether the data speak of this very system, and of a chain that is solved often enough."""
    small = len(plan.model.states) <= MOST_STATES
    return plan.change is None and small and bool(plan.model.measures)


def _comparison(plan: Plan) -> dict[str, Any]:
    """Return what the page says of other models; nothing if there are none."""
    if not is_compared(plan):
        return {"choice": "", "ladder": None}
    return {"choice": words.choice(plan.comparison.choice), "ladder": sections.ladder_table(plan)}


def _forecast(plan: Plan, said: Answer, ahead: Ahead | None) -> dict[str, Any]:
    """Return what the page says of the forecast; nothing if the model has no measures."""
    if ahead is None:
        return {
            "main": None,
            "together": "",
            "second": False,
            "legend": [],
            "small": [],
            "table": None,
            "reasons": [],
            "held": "",
            "triangles": False,
        }
    table, reasons = sections.forecast_table(plan, said, ahead)
    return {
        "main": figures.main_picture(plan, said, ahead),
        "together": ahead.together,
        "second": ahead.pooled is not None,
        "legend": _legend(said, ahead),
        "small": figures.small_pictures(plan, said, ahead),
        "table": table,
        "reasons": reasons,
        "held": held(plan),
        "triangles": figures.has_triangles(plan, said, ahead),
    }


def _legend(said: Answer, ahead: Ahead) -> list[tuple[str, str]]:
    """Return the kinds of marks in the main picture, each with what it stands for."""
    entries = [("line", "forecast"), ("band", f"{100 * said.question.level:g}% interval")]
    if ahead.pooled is not None:
        entries.append(("pooled", "all models, weighted, with interval"))
    if said.measure in ahead.learnt:
        entries.append(("ring", "windows the fit saw"))
    if said.measure in ahead.later:
        entries.append(("dot", "measured, not used in the fit"))
    entries.append(("shade", f"loads the fit saw ({load_range(*ahead.seen)})"))
    if ahead.tested < float(ahead.curve["load"].max()):
        entries.append(("far", f"beyond {number(ahead.tested)}: further than the data can test"))
    if said.limit is not None:
        bound = said.limit.binding
        entries.append(("dash", f"{plain(bound.measure)} = {number(bound.bound)}"))
        if ahead.covers(said.limit.load):
            meets = "all SLOs" if len(said.limit.slos) > 1 else "it"
            entries.append(("post", f"largest load that meets {meets}, with interval"))
    if said.present not in ahead.seen:
        entries.append(("now", f"present load ({number(said.present)})"))
    return entries
