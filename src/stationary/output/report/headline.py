"""The answer in a sentence, the headroom it leaves, and what a reader must know before using it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from stationary import words
from stationary.errors import InputError
from stationary.planning.limits import Limit
from stationary.planning.record import Question
from stationary.terms.findings import Finding
from stationary.terms.slo import Slo, as_slos
from stationary.terms.trust import Reason
from stationary.trust.identifiability import Identifiability
from stationary.words import number, plain, sentence

if TYPE_CHECKING:
    from stationary.facade import Plan

_USUAL = Slo("loss", 0.001)
"""What must hold where nobody said anything, if the model has that measure."""


@dataclass(frozen=True)
class Answer:
    """What the report says first.

    Attributes
    ----------
    sentence : str
        The answer.
    headroom : str
        How the present load stands to it; empty where that cannot be said.
    facts : tuple of (str, str)
        The same as numbers, each with its name.
    measure : str
        The measure it is about, of several SLOs the one that binds; empty if the model has none.
    limit : Limit or None
        The largest load that meets all SLOs, where there is one to ask for.
    present : float
        The present load: the heaviest in the data unless it was given.
    question : Question
        What was asked for.
    """

    sentence: str
    headroom: str
    facts: tuple[tuple[str, str], ...]
    measure: str
    limit: Limit | None
    present: float
    question: Question

    @property
    def bounds(self) -> dict[str, float]:
        """The largest admissible value of every measure that has one."""
        return {} if self.limit is None else {slo.measure: slo.bound for slo in self.limit.slos}


def answer(
    plan: Plan, slos: Any = None, present: float | None = None, level: float | None = None
) -> Answer:
    """Return the largest load that meets all SLOs, or what can be said where there is none.

    Parameters
    ----------
    plan : Plan
        What was learnt.
    slos : str, Slo, sequence or mapping, optional
        What must hold. By default what the plan was made for, or else a loss of at most 0.001,
        where the model has a loss.
    present : float, optional
        The present load; by default the plan's, or else the heaviest in the data.
    level : float, optional
        Coverage of the intervals; by default the plan's.
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
    facts = (
        ("largest load", _load(limit.load) + ("" if limit.trusted else ", not trusted")),
        (f"{100 * limit.level:g}% interval", f"{_load(limit.low)} to {_load(limit.high)}"),
        (_called(question), number(limit.present)),
        ("headroom", words.room(limit)),
    )
    # The headroom has a line of its own, and so has the reason not to trust the answer.
    text = sentence(words.limit(limit, present=False, reason=False))
    measure = limit.binding.measure
    return Answer(text, words.headroom(limit), facts, measure, limit, limit.present, question)


def _load(load: float) -> str:
    return {0.0: "none", math.inf: "any"}.get(load, number(load))


def _called(question: Question) -> str:
    return "heaviest load in the data" if question.present is None else "present load"


def _without_limit(plan: Plan, question: Question, why: str) -> Answer:
    """Say what the first measure is at the present load, the other inputs at their medians."""
    present = question.present
    present = float(plan.windows.loads.max()) if present is None else present
    if not plan.draws.measures:
        text = "The model has no measures, so there is nothing to forecast."
        return Answer(text, "", (), "", None, present, question)
    measure = plan.draws.measures[0]
    row = forecast_at(plan, [present], question.level, [measure]).iloc[0]
    value, low, high = row[[measure, f"{measure}_low", f"{measure}_high"]]
    text = words.at_load(measure, present, value, low, high, question.level)
    if not row["trusted"]:
        text += f"; not to be trusted: {row['reason']}"
    facts = (
        (plain(measure), number(value)),
        (f"{100 * question.level:g}% interval", f"{number(low)} to {number(high)}"),
        (_called(question), number(present)),
    )
    reason = sentence(f"no largest load is given: {why}")
    return Answer(sentence(text), reason, facts, measure, None, present, question)


def forecast_at(
    plan: Plan, loads: Sequence[float], level: float, measures: Sequence[str]
) -> pd.DataFrame:
    """Forecast at loads, every other input at its median in the data; the load is ``load``."""
    others = plan.windows.x.median(0).values.tolist()[1:]
    frame = plan.forecast([[float(load), *others] for load in loads], level, measures)
    return frame.drop(columns=frame.columns[1 : 1 + len(others)]).rename(
        columns={frame.columns[0]: "load"}
    )


def held(plan: Plan) -> str:
    """Say where the inputs other than the load are held; empty if there are none."""
    names, (_, *values) = plan.model.inputs[1:], plan.windows.x.median(0).values.tolist()
    if not names:
        return ""
    shown = ", ".join(f"{n} {number(v)}" for n, v in zip(names, values, strict=True))
    return f"Other inputs are held at their medians in the data: {shown}."


def is_compared(plan: Plan) -> bool:
    """Whether there is a comparison to show: of several models, on the system as it is."""
    several = len(plan.fitted) + len(plan.failed) > 1
    return several and plan.change is None


def cautions(
    plan: Plan,
    limit: Limit | None,
    findings: Sequence[Finding],
    identifiability: Identifiability | None,
) -> list[str]:
    """Why not to act on the answer as it stands; empty if there is no known reason."""
    notes = list(map(sentence, plan.warnings()))
    # That a fit did not converge is among the warnings.
    if limit is not None and limit.doubt and limit.doubt.reason is not Reason.NOT_CONVERGED:
        notes.append(words.untrusted(limit))
    alarms = words.alarms(findings)
    if alarms:
        notes.append(f"{alarms} Read more under Checks.")
    if identifiability is not None and not identifiability.determined:
        notes.append("The data do not determine all of the answer: see what they cannot, below.")
    said_above = limit is not None and plan.pooled
    if is_compared(plan) and not said_above:
        notes += filter(None, [words.preferred(plan.comparison.choice, plan.name)])
    return notes
