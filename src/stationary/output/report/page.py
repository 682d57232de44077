"""The page: the parts of a report, put into its template and written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from stationary import words
from stationary._support.arguments import explained
from stationary._support.files import replacing
from stationary.errors import InputError
from stationary.output.report import figures, tables
from stationary.output.report.answer import Answer, answer, is_compared
from stationary.output.report.forecasts import forecast_chart
from stationary.planning.assumed import Assumed
from stationary.terms.findings import Finding
from stationary.terms.growth import Growth
from stationary.trust.backtest import MOST_STATES
from stationary.trust.identifiability import Identifiability

if TYPE_CHECKING:
    from stationary.facade import Plan


@explained
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
) -> Answer:
    """Write a report of a plan as one HTML file that needs nothing else to be read.

    It shows what the plan holds; nothing is fitted or checked here. If the plan has several models,
    the report shows how they compare.

    Parameters
    ----------
    plan : Plan
        What was learnt.
    path : path
        Where to write; ends in ``.html``. An existing file is replaced.
    slos : str, Slo, sequence or mapping, optional
        What must hold at the load the report asks for, as in ``"loss<0.1%"``. By default what the
        plan was made for, or else a loss of at most 0.001, where the model has a loss.
    present : float, optional
        The present load, to compare the answer with; by default the plan's, or else the heaviest
        in the data.
    level : float, optional
        Coverage of the intervals; by default the plan's.
    identifiability : Identifiability, optional
        What the data determine. By default the result of ``plan.identify()``, except for a what-if,
        a model without measures, a chain that is too large, and several models that are pooled.
    observed : DataFrame, optional
        Measured values to show with the forecast: a column ``load``, and measures by name.
    command : str
        The command that made the report.

    Returns
    -------
    Answer
        What the report says first.
    """
    path = check_path(path)
    result = answer(plan, slos, present, level)
    if identifiability is None and _can_identify(plan):
        # The measure of the answer at one heavier load shows it; every further one takes as long.
        alone = len(plan.windows.inputs) == 1
        names = [result.measure] if result.measure else None
        identifiability = plan.identify([2 * plan.heaviest] if alone else None, measures=names)
    findings = [] if plan.change else plan.findings
    chart, pooled = forecast_chart(plan, result, observed) if result.measure else (None, "")
    text = _ENVIRONMENT.get_template("report.html.j2").render(
        plan=plan,
        answer=result,
        chart=chart,
        pooled=pooled,
        cautions=_cautions(plan, result, findings, identifiability),
        findings=findings,
        identifiability=identifiability,
        compared=is_compared(plan),
        assumed=_assumed(plan, result),
        wondered=tables.what_if_table(plan, result),
        growth=_growth(plan, result),
        held=words.held(plan.model.inputs[1:], plan.windows.x.median(0).values.tolist()[1:]),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        commands=list(dict.fromkeys(filter(None, (plan.recipe.get("command"), command)))),
    )
    try:
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: the report cannot be written: {error.strerror or error}"
        ) from error
    return result


def _growth(plan: Plan, result: Answer) -> str:
    """Return when a load that grows reaches the limit, if the plan says how it grows."""
    growth, limit = plan.recipe.get("growth"), result.limit
    if not growth or limit is None or not limit.trusted:
        return ""
    return words.used_up(limit, Growth.parse(growth), datetime.now(UTC).date())


def _assumed(plan: Plan, result: Answer) -> list[tuple[Assumed, bool]]:
    """Return what is taken as given, and whether other values move the limit out of its interval.

    Only for a plan on its own SLOs: the effects are on those.
    """
    limit = result.limit
    if limit is None or plan.change is not None or limit.slos != plan.question.slos:
        return []
    return [
        (each, any(not limit.low <= load <= limit.high for _, load in each.others))
        for each in plan.assumed()
    ]


def check_path(path: str | os.PathLike[str]) -> Path:
    """Return where a report may be written; raise unless it is an HTML file."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"a report is a file, as in 'report.html'; got {path!r}")
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: a report is HTML; give the file the ending .html")
    return Path(path)


def _can_identify(plan: Plan) -> bool:
    """Whether the data are of this very system, and its chain is small enough to solve often.

    Weights of a network have no meaning of their own that data could determine.
    Answers of several models are made of those alone whose parameters the data determine, and
    allow for model error: there is nothing left to ask.
    """
    small = len(plan.model.states) <= MOST_STATES
    settled = plan.pooled and not plan.estimate.covariance.flat.shape[1]
    meaningful = bool(plan.model.measures) and not plan.model.weights
    return plan.change is None and small and meaningful and not settled


def _cautions(
    plan: Plan,
    result: Answer,
    findings: Sequence[Finding],
    identifiability: Identifiability | None,
) -> list[str]:
    """Return why not to act on the answer as it stands; empty if there is no known reason."""
    other = ""
    # A limit of a pooled plan says itself if there is no model to trust.
    if is_compared(plan) and not (plan.pooled and result.limit is not None):
        other = words.preferred(plan.comparison.choice, plan.name)
    determined = identifiability is None or identifiability.determined
    notes = words.cautions(result.limit, findings, determined, other)
    return [*map(words.sentence, plan.warnings()), *notes]


_ENVIRONMENT = Environment(
    loader=PackageLoader("stationary.output.report"),
    autoescape=True,  # names of models, states and columns are data, not markup
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["sentence"] = words.sentence
_ENVIRONMENT.globals |= {"figures": figures, "tables": tables, "words": words}
