"""The answer in a sentence, the headroom it leaves, and what a reader must know before using it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stationary.errors import InputError
from stationary.findings import Finding, Verdict
from stationary.limits import Limit, check_present
from stationary.report.words import number, percent, plain, sentence
from stationary.result import Fit

_USUAL = ("loss", 0.001)
"""The bound of a report that was given none, where the model has that measure."""


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
        The measure it is about; empty if the model has none.
    limit : Limit or None
        The largest load that meets the bound, where there is one to ask for.
    present : float
        The present load: the heaviest in the data unless it was given.
    """

    sentence: str
    headroom: str
    facts: tuple[tuple[str, str], ...]
    measure: str
    limit: Limit | None
    present: float


def answer(
    fit: Fit,
    bound: tuple[str, float] | None = None,
    present: float | None = None,
    level: float = 0.95,
) -> Answer:
    """Return the answer to a bound, or what can be said where none can be asked for.

    Parameters
    ----------
    fit : Fit
        What was learnt.
    bound : (measure, value), optional
        What must hold; a loss of at most 0.001 by default, where the model has a loss.
    present : float, optional
        The present load; by default the heaviest in the data.
    level : float
        Coverage of the intervals.
    """
    if present is not None:
        check_present(present)
    now = float(fit.windows.loads.max()) if present is None else float(present)
    called = "heaviest load seen" if present is None else "present load"
    measure, value = bound or _USUAL
    try:
        limit = fit.max_load(level, **{measure: value})
    except InputError as error:
        if bound is not None:
            raise
        why = str(error)
        if len(fit.model.inputs) > 1:
            why = f"that takes a model of one input, and this has {', '.join(fit.model.inputs)}"
        return _without_limit(fit, now, called, level, why)
    facts = (
        ("largest load", _load(limit.load) + ("" if limit.trusted else ", not trusted")),
        (f"{100 * level:g}% interval", f"{_load(limit.low)} to {_load(limit.high)}"),
        (called, number(now)),
        ("headroom", _room(limit, now)),
    )
    # The headroom has a line of its own, and so has the reason not to trust the answer.
    text = sentence(str(replace(limit, present=math.nan, reason="")))
    return Answer(text, _headroom(limit, now, called), facts, measure, limit, now)


def _load(load: float) -> str:
    return {0.0: "none", math.inf: "any"}.get(load, number(load))


def _room(limit: Limit, present: float) -> str:
    if not limit.trusted:
        return "unknown"
    if limit.load == math.inf:
        return "no end in sight"
    if limit.load >= present:
        return percent(limit.load / present - 1)
    return "none" if limit.load == 0 else f"none ({percent(present / limit.load - 1)} over)"


def _headroom(limit: Limit, present: float, called: str) -> str:
    now = f"The {called}, {number(present)},"
    if not limit.trusted:
        verb = "meets" if limit.met_at(present) else "cannot be said to meet"
        return f"{now} {verb} the limit."
    if limit.load == math.inf:
        return f"{now} meets the limit, and so does any other."
    if limit.load == 0:
        return f"{now} misses the limit, as does any other."
    room, least, most = (load / present - 1 for load in (limit.load, limit.low, limit.high))
    if room < 0:
        return f"{now} is over the limit by {percent(present / limit.load - 1)}."
    if least < 0:
        return f"{now} may be over the limit already: it lies inside the interval."
    ends = "" if limit.low == limit.high else f" ({percent(least)} to {percent(most)})"
    return f"{now} may grow by {percent(room)}{ends} before the limit is reached."


def _without_limit(fit: Fit, present: float, called: str, level: float, why: str) -> Answer:
    """Say what the first measure is at the present load, the other inputs at their medians."""
    model = fit.model
    if not model.measures:
        text = "The model has no measures, so there is nothing to forecast."
        return Answer(text, "", (), "", None, present)
    measure = next(iter(model.measures))
    row = fit.forecast(at_loads(fit, [present]), level).iloc[0]
    low, high = number(row[f"{measure}_low"]), number(row[f"{measure}_high"])
    value = number(row[measure])
    text = (
        f"{plain(measure)} is {value} at a load of {number(present)} "
        f"({100 * level:g}% interval {low} to {high})"
    )
    if not row["trusted"]:
        text += f"; not to be trusted: {row['reason']}"
    text, why = sentence(text), f"No largest load is given: {why}."
    facts = (
        (plain(measure), value),
        (f"{100 * level:g}% interval", f"{low} to {high}"),
        (called, number(present)),
    )
    return Answer(text, why, facts, measure, None, present)


def at_loads(fit: Fit, loads: Sequence[float]) -> Any:
    """Inputs of a forecast at these loads, every other input at its median in the data."""
    others = fit.windows.x.median(0).values.tolist()[1:]
    return [[float(load), *others] for load in loads] if others else list(map(float, loads))


def held(fit: Fit) -> str:
    """Say where the inputs other than the load are held; empty if there are none."""
    names, (_, *values) = fit.model.inputs[1:], fit.windows.x.median(0).values.tolist()
    if not names:
        return ""
    shown = ", ".join(f"{n} {number(v)}" for n, v in zip(names, values, strict=True))
    return f"Other inputs are held at their medians in the data: {shown}."


def cautions(
    fit: Fit,
    limit: Limit | None,
    findings: Sequence[Finding],
    identifiability: Any,
    comparison: Any,
) -> list[str]:
    """Why not to act on the answer as it stands; empty if there is no known reason."""
    notes = list(map(sentence, fit.warnings()))
    own = fit.model.name or type(fit.model).__name__
    if limit is not None and not limit.trusted and fit.converged:
        notes.append(sentence(f"The largest load is not to be trusted: {limit.reason}"))
    bad = [plain(finding.name) for finding in findings if finding.verdict is Verdict.WARNING]
    if bad:
        raised = "A check warns" if len(bad) == 1 else f"{len(bad)} checks warn"
        notes.append(f"{raised}: {', '.join(bad)}. Read more under Checks.")
    if identifiability is not None and not identifiability.determined:
        notes.append("The data do not determine all of the answer: see what they cannot, below.")
    if comparison is None:
        return notes
    if comparison.recommended is None:
        notes.append(f"No model is recommended. {sentence(comparison.reason)}")
    elif comparison.recommended != own:
        notes.append(
            f"Of the models compared another one is recommended. {sentence(comparison.reason)}"
        )
    return notes
