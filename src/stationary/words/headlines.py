"""What a report and an alert say first: the answer, its headroom, and why to be careful."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from stationary.words.answers import choice, doubt, interval, whose
from stationary.words.numbers import about, bounds, listed, number, percent, plain, plural, sentence

if TYPE_CHECKING:
    from stationary.planning.limits import Limit
    from stationary.planning.record import Refits
    from stationary.terms.findings import Finding
    from stationary.terms.slo import Slo
    from stationary.terms.trust import Choice

Facts = tuple[tuple[str, str], ...]
"""Numbers, each with its name in front."""


def headroom(found: Limit) -> str:
    """Say how far the load that a limit is compared with may grow."""
    present = whose(found)
    if not found.trusted:
        verb = "cannot be said to meet"
        if found.met_at(found.present):
            verb = "meets"
        elif found.present > found.high:
            verb = "misses"
        return f"{present}, {verb} the limit."
    if found.load == math.inf:
        return f"{present}, meets the limit, and so does any other."
    if found.load == 0:
        return f"{present}, misses the limit, as does any other."
    if found.headroom < 0 and found.present <= found.high:
        return f"{present}, is probably over the limit: it lies in the upper part of the interval."
    if found.headroom < 0:
        return f"{present}, is over the limit by {about(found.present / found.load - 1)}."
    if found.low < found.present:
        return f"{present}, may already be over the limit: it lies inside the interval."
    least, most = (end / found.present - 1 for end in (found.low, found.high))
    ends = "" if found.low == found.high else f" ({about(least)} to {about(most)})"
    return f"{present}, may grow by {about(found.headroom)}{ends} before the limit is reached."


def limit_facts(found: Limit, unit: str = "") -> Facts:
    """Return a limit, its interval, the present load and the headroom as numbers."""
    unit = f" {unit}" if unit else ""
    if not found.trusted:
        grow = "unknown"
    elif found.load == math.inf:
        grow = "unlimited"
    elif found.headroom >= 0:
        grow = about(found.headroom)
    elif found.load == 0:
        grow = "none"
    else:
        grow = f"none ({about(found.present / found.load - 1)} over)"
    return (
        ("largest load", _load(found.load, unit) + ("" if found.trusted else ", not trusted")),
        (interval(found.level), f"{_load(found.low)} to {_load(found.high, unit)}"),
        (_present(found.present_given), _load(found.present, unit)),
        ("headroom", grow),
    )


def _load(load: float, unit: str = "") -> str:
    return {0.0: "none", math.inf: "any"}.get(load, f"{number(load, 3)}{unit}")


def _present(given: bool) -> str:
    return "present load" if given else "heaviest load in the data"


def covers(found: Limit) -> str:
    """Say what the interval of a limit means."""
    return (
        f"if the model and the assumptions hold, it contains the true limit in "
        f"{100 * found.level:g} of 100 cases"
    )


def as_html(title: str, facts: Facts) -> str:
    """Return numbers with their names as a table of HTML, for notebooks."""
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts)
    return f"<table><caption>{escape(title)}</caption><tbody>{rows}</tbody></table>"


def at_load(measure: str, load: float, values: Sequence[float], level: float, reason: str) -> str:
    """Return the forecast of a measure at one load: value, low end, high end."""
    value, low, high = map(number, values)
    text = f"{plain(measure)} is {value} at a load of {number(load)}"
    text += f" ({interval(level)} {low} to {high})"
    return sentence(f"{text}; not to be trusted: {reason}" if reason else text)


def at_load_facts(
    measure: str, load: float, values: Sequence[float], level: float, given: bool
) -> Facts:
    """Return the same as numbers; ``given`` says whether somebody named this load."""
    value, low, high = map(number, values)
    return (
        (plain(measure), value),
        (interval(level), f"{low} to {high}"),
        (_present(given), number(load)),
    )


def held(inputs: Sequence[str], medians: Sequence[float]) -> str:
    """Say where inputs other than the load are held; empty if there are no others."""
    pairs = zip(inputs, medians, strict=True)
    shown = ", ".join(f"{name} {number(value)}" for name, value in pairs)
    return f"Other inputs are held at their medians in the data: {shown}." if shown else ""


def no_limit(why: str) -> str:
    """Say why there is no largest load."""
    return sentence(f"no largest load is given: {why}")


NO_MEASURES = "The model has no measures, so there is nothing to forecast."


def untrusted(found: Limit) -> str:
    """Say why a limit is not to be trusted; empty if it is."""
    if found.doubt is None:
        return ""
    return sentence(f"the largest load is not to be trusted: {doubt(found.doubt)}")


def cautions(
    found: Limit | None, findings: Sequence[Finding], determined: bool, other: str
) -> list[str]:
    """Return why not to act on an answer as it stands; empty if there is no known reason.

    A comparison may speak for another model; ``determined`` is whether the data determine all of
    the answer, as far as is known.
    """
    notes = []
    # A fit that did not converge warns of that itself.
    if found is not None and found.doubt is not None and found.doubt.reason != "not converged":
        notes.append(untrusted(found))
    bad = [plain(str(each.check)) for each in findings if each.verdict == "warning"]
    if bad:
        warn = "a check warns" if len(bad) == 1 else f"{len(bad)} checks warn"
        notes.append(sentence(f"{warn}: {listed(bad, most=len(bad))}") + " Read more under Checks.")
    if not determined:
        notes.append("The data do not determine all of the answer: see below what they leave open.")
    return [*notes, other] if other else notes


def preferred(found: Choice, own: str) -> str:
    """Say if a comparison recommends another model than one's own, or none; else empty.

    A model that does as well as the best, within its noise, is as good a choice.
    """
    if found.model == own or own in found.equal:
        return ""
    text = choice(found)
    if found.model is None:
        return f"Of the models compared, {text[0].lower()}{text[1:]}"
    return f"Another of the models compared is recommended. {text}"


def near_limit(given: Sequence[Slo], vouched: float, load: str, headroom: float = 0.0) -> str:
    """Say that a load, as an alert writes it, is above those for which the data vouch."""
    much = f": {percent(headroom)} more would be above" if headroom else ", above"
    end = f"{number(vouched)}, up to which the data show that {_hold(given)}"
    return f"The load is {load}{much} {end}."


def above_limit(given: Sequence[Slo], limit: float, load: str) -> str:
    """Say that a load, as an alert writes it, is above the limit."""
    return f"The load is {load}, above the limit of {number(limit)}, up to which {_hold(given)}."


def _hold(given: Sequence[Slo]) -> str:
    return f"{bounds(given)} {'holds' if len(given) == 1 else 'hold'}"


def refits(found: Refits) -> str:
    """Return how the intervals of a bootstrap were made."""
    text = f"bootstrap, {plural(len(found.theta), 'refit')}"
    if found.block > 1:
        text += f" in blocks of {plural(found.block, 'window')}"
    if found.failed:
        text += f"; {found.failed} more did not converge and are left out"
    return text
