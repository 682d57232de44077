"""The answer of a report: the largest load, or a forecast where there is no such load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from stationary import words
from stationary.errors import InputError
from stationary.planning.limits import Limit
from stationary.planning.record import Question
from stationary.terms.slo import Slo, as_slos

if TYPE_CHECKING:
    from stationary.facade import Plan

_USUAL = Slo("loss", 0.001)
"""The SLO of a report for which none was given, if the model has that measure."""


@dataclass(frozen=True)
class Answer:
    """What the report says first: a sentence, and the same as numbers."""

    sentence: str
    headroom: str  # how the present load compares with it, or why that cannot be said; may be empty
    facts: words.Facts
    measure: str
    """What it is about, of several SLOs the one that binds; empty if the model has no measures."""
    present: float  # the present load: the heaviest in the data unless it was given
    question: Question
    limit: Limit | None = None  # the largest load that meets all SLOs
    more: str = ""
    """What else there is to say of it, such as which SLO is missed first; may be empty."""

    @property
    def bounds(self) -> dict[str, float]:
        """The largest admissible value of every measure that has one."""
        return {} if self.limit is None else {slo.measure: slo.bound for slo in self.limit.slos}


def answer(
    plan: Plan, slos: Any = None, present: float | None = None, level: float | None = None
) -> Answer:
    """Return the largest load that meets all SLOs, or a forecast if there is no such load.

    Parameters are those of `write_report`.
    """
    given = plan.question.slos if slos is None else as_slos(slos)
    question = plan.asking(given, level, present)
    try:
        question = replace(question, slos=given or (_USUAL,))
        limit = plan.limit_of(question)
    except InputError as error:
        if given:
            raise
        return _without_limit(plan, replace(question, slos=()), str(error))
    unit = plan.recipe.get("unit", "")
    alone = plan.limits if given and given == plan.question.slos else ()
    return Answer(
        words.sentence(words.limit(limit, unit, reason=False)),
        words.headroom(limit),
        words.limit_facts(limit, unit),
        limit.binding.measure,
        limit.present,
        question,
        limit,
        words.missed_first(limit, alone),
    )


def _without_limit(plan: Plan, question: Question, why: str) -> Answer:
    """Answer with the forecast of the first measure at the present load."""
    given, level = question.present is not None, question.level
    present = question.present or float(plan.windows.loads.max())
    if not plan.draws.measures:
        return Answer(words.NO_MEASURES, "", (), "", present, question)
    measure = plan.draws.measures[0]
    row = forecast_at(plan, [present], level, [measure]).iloc[0]
    values = row[[measure, f"{measure}_low", f"{measure}_high"]].tolist()
    return Answer(
        words.at_load(measure, present, values, level, row["reason"]),
        words.no_limit(why),
        words.at_load_facts(measure, present, values, level, given),
        measure,
        present,
        question,
    )


def forecast_at(
    plan: Plan, loads: Sequence[float], level: float, measures: Sequence[str]
) -> pd.DataFrame:
    """Forecast at loads, every other input at its median in the data; the load is ``load``."""
    others = plan.windows.x.median(0).values.tolist()[1:]
    frame = plan.forecast([[float(load), *others] for load in loads], level, measures)
    return frame.drop(columns=frame.columns[1 : 1 + len(others)]).rename(
        columns={frame.columns[0]: "load"}
    )


def is_compared(plan: Plan) -> bool:
    """Whether there is a comparison to show: of several models, on the system as it is."""
    several = len(plan.fitted) + len(plan.failed) > 1
    return several and plan.change is None
