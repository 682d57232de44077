"""What a report says first: how much room a limit leaves, a forecast at one load, cautions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stationary.words.answers import choice, doubt, limit, verdict, whose
from stationary.words.numbers import listed, number, percent, plain, plural, sentence

if TYPE_CHECKING:
    from stationary.planning.limits import Limit
    from stationary.planning.record import Refits
    from stationary.terms.findings import Finding
    from stationary.terms.trust import Choice


def headroom(found: Limit) -> str:
    """Say how far the load that a limit is compared with may grow."""
    now = whose(found)
    if not found.trusted:
        return verdict(found)
    if found.load == math.inf:
        return f"{now}, meets the limit, and so does any other."
    if found.load == 0:
        return f"{now}, misses the limit, as does any other."
    if found.headroom < 0:
        return f"{now}, is over the limit by {percent(found.present / found.load - 1)}."
    if found.low < found.present:
        return f"{now}, may be over the limit already: it lies inside the interval."
    least, most = (end / found.present - 1 for end in (found.low, found.high))
    ends = "" if found.low == found.high else f" ({percent(least)} to {percent(most)})"
    return f"{now}, may grow by {percent(found.headroom)}{ends} before the limit is reached."


def room(found: Limit) -> str:
    """Return the same as a share, or in a word."""
    if not found.trusted:
        return "unknown"
    if found.load == math.inf:
        return "no end in sight"
    if found.headroom >= 0:
        return percent(found.headroom)
    return "none" if found.load == 0 else f"none ({percent(found.present / found.load - 1)} over)"


def at_load(measure: str, load: float, value: float, low: float, high: float, level: float) -> str:
    """Return the forecast of a measure at one load, as a clause."""
    return (
        f"{plain(measure)} is {number(value)} at a load of {number(load)} "
        f"({100 * level:g}% interval {number(low)} to {number(high)})"
    )


def untrusted(found: Limit) -> str:
    """Say why a limit is not to be trusted; empty if it is."""
    if found.doubt is None:
        return ""
    return sentence(f"the largest load is not to be trusted: {doubt(found.doubt)}")


def pooled(found: Limit) -> str:
    """Say what all models together answer."""
    return sentence(f"all models together, weighted: {limit(found, present=False)}")


def alarms(findings: Sequence[Finding]) -> str:
    """Name the checks that warn; empty if none does."""
    bad = [plain(str(each.check)) for each in findings if each.verdict == "warning"]
    if not bad:
        return ""
    warn = "a check warns" if len(bad) == 1 else f"{len(bad)} checks warn"
    return sentence(f"{warn}: {listed(bad, most=len(bad))}")


def preferred(found: Choice, own: str) -> str:
    """Say if a comparison speaks for another model than one's own, or for none; else empty."""
    if found.model == own:
        return ""
    said = choice(found)
    if found.model is None:
        return f"Of the models compared, {said[0].lower()}{said[1:]}"
    return f"Another of the models compared is recommended. {said}"


def refits(found: Refits) -> str:
    """Return how a bootstrap got its intervals."""
    text = f"bootstrap, {plural(len(found.theta), 'refit')}"
    if found.block > 1:
        text += f" in blocks of {plural(found.block, 'window')}"
    if found.failed:
        text += f"; {found.failed} more did not converge and are left out"
    return text
