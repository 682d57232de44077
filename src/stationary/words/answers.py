"""Limits, how far to believe them, which model to take, and what would change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stationary.words.findings import clause
from stationary.words.numbers import listed, load_range, number, percent, plain, plural

if TYPE_CHECKING:
    from stationary.planning.experiment import Experiment
    from stationary.planning.limits import Limit
    from stationary.planning.what_if import Change
    from stationary.terms.slo import Slo
    from stationary.terms.trust import Choice, Doubt, Horizon


def slo(given: Slo) -> str:
    """Say what must hold, as in ``loss at or below 0.001``."""
    return f"{plain(given.measure)} at or below {number(given.bound)}"


def limit(found: Limit, present: bool = True, reason: bool = True) -> str:
    """Return the answer as a clause: the load, its interval, headroom, and why not to trust it.

    Parameters
    ----------
    found : Limit
        The answer.
    present : bool
        Whether to compare it with the present load.
    reason : bool
        Whether to say why it is not to be trusted.
    """
    first = found.binding
    text = f"{plain(first.measure)} stays at or below {number(first.bound)}"
    others = [slo(each) for each in found.slos if each != first]
    if others:
        text = f"{listed([slo(each) for each in found.slos], most=9)} "
        text += "hold" if found.load else "hold together"
    if found.load == 0:
        text += " at no load"
    elif found.load == math.inf:
        text += " at any load"
    else:
        text += f" up to a load of {number(found.load)}"
    if found.low != found.high:
        high = "any" if found.high == math.inf else number(found.high)
        text += f" ({100 * found.level:g}% interval {number(found.low)} to {high})"
    if present and math.isfinite(found.headroom) and found.load > 0:
        side = "above" if found.headroom >= 0 else "below"
        text += f", {_size(found.headroom)} {side} the present {number(found.present)}"
    if others and 0 < found.load < math.inf:
        text += f"; {plain(first.measure)} is the first to be missed"
    if found.failed:
        text += f"; {plural(found.failed, 'draw')} could not be solved, which widens the interval"
    if reason and found.doubt is not None:
        text += f"; not to be trusted: {doubt(found.doubt)}"
    return text


def _size(share: float) -> str:
    """Write the size of a share in per cent, to two digits or to the per cent."""
    size = 100 * abs(share)
    return f"{size:.0f} %" if size >= 9.5 else f"{size:.2g} %"


def verdict(found: Limit) -> str:
    """Say whether the load that a limit is compared with meets it."""
    if found.met_at(found.present):
        verb = "meets"
    elif found.trusted or found.present > found.high:
        verb = "misses"
    else:
        verb = "cannot be said to meet"
    return f"{whose(found)}, {verb} the limit."


def whose(found: Limit) -> str:
    """Name the load that a limit is compared with."""
    name = "The present load" if found.present_given else "The heaviest load in the data"
    return f"{name}, {number(found.present)}"


def doubt(found: Doubt) -> str:
    """Return why an answer is not to be trusted, as a clause."""
    if found.reason == "not converged":
        return "the fit did not converge"
    if found.reason == "no model" and found.choice is not None:
        text = choice(found.choice).rstrip(".")
        return text[0].lower() + text[1:]
    if found.reason == "horizon" and found.horizon is not None:
        if not found.horizon.load:
            return why_horizon(found.horizon)
        return f"no data tests the model at this load: {why_horizon(found.horizon)}"
    what = plain(found.measure) if found.measure else "this load"
    if found.reason == "unsolved":
        return f"the chain could not be solved for many of the parameters that {what} depends on"
    return f"the data leave {what} open by more than a factor of 10"


def horizon(found: Horizon) -> str:
    """Return how far a model may be believed, as a clause."""
    why = why_horizon(found)
    if not found.load:
        return why
    return f"forecasts are trusted up to a load of {number(found.load)}: {why}"


def why_horizon(found: Horizon) -> str:
    """Return what decided how far a model may be believed, as a clause."""
    facts = found.facts
    share = percent(facts["share"]) if "share" in facts else ""
    cut = number(facts["cut"]) if "cut" in facts else ""
    if found.finding is not None:
        return clause(found.finding)
    above = f"the heavier loads, up to {number(found.seen)}"
    return {
        "passed": lambda: (
            f"fitted to loads up to {cut}, it forecast {above}, with {share} of the counts "
            f"misplaced, and there is no heavier load to test it on"
        ),
        "misfit": lambda: (
            f"the model does not fit the loads it saw: it misplaces {share} of the counts at "
            f"{load_range(facts['low'], facts['high'])}"
        ),
        "failed": lambda: (
            f"fitted to loads up to {cut}, the model misplaces {share} of the counts at {above}: "
            f"it does not extend to heavier load"
        ),
        "thin": lambda: (
            f"fitted to loads up to {cut}, the model may misplace up to {share} of the counts at "
            f"{above}: there are too few data to test it at heavier load"
        ),
        "no refit": lambda: f"the model could not be fitted to loads up to {cut} alone to test it",
        "too few": lambda: (
            "there are too few windows, or too few different loads, to test the model at heavier "
            "loads"
        ),
        "too large": lambda: (
            f"a chain of {facts['states']:.0f} states is too large to test further"
        ),
    }[str(found.why)]()


def choice(found: Choice) -> str:
    """Return which model to take and why, or why none, as a sentence."""
    loads = load_range(found.low, found.high)
    share = percent(found.share)
    none = "None is to be trusted"
    return {
        "best": lambda: (
            f"Take {found.model}: it forecasts the held-out loads {loads} best of all chains, and "
            f"misplaces at most {share} of the counts."
        ),
        "simplest": lambda: (
            f"Take {found.model}: it is the simplest chain that forecasts the held-out loads "
            f"{loads} as well as the best, {found.best}, within its noise, and misplaces at most "
            f"{share} of the counts."
        ),
        "only": lambda: f"{found.model} is the only model; there is none to compare it with.",
        "none usable": lambda: f"{none}: no chain converged with all of its parameters determined.",
        "rival": lambda: (
            f"{none}: at the held-out loads {loads}, the forecast {found.rival!r}, which needs no "
            f"chain, does better than the best of them, {found.best}."
        ),
        "misfit": lambda: (
            f"{none}: the best of them at the held-out loads {loads}, {found.best}, does not fit "
            f"the loads it saw."
        ),
        "wrong": lambda: (
            f"{none}: the best of them, {found.best}, misplaces {share} of the counts at the "
            f"held-out loads {loads}."
        ),
        "untested": lambda: (
            "None can be recommended: there are too few windows, or too few different loads, to "
            "hold the heaviest out and test on them."
        ),
    }[str(found.why)]()


def change(made: Change) -> str:
    """Return what a what-if changed, as in ``servers 4 -> 5``."""
    parts = [f"{name} {before} -> {after}" for name, (before, after) in made.options.items()]
    if made.faster != 1:
        parts.append(f"servers {made.faster:g} times as fast")
    return ", ".join(parts)


def what_if(made: Change) -> str:
    """Say of a change that it was not observed."""
    text = f"what if: {change(made)}; not observed, the data are of the system as it was"
    if made.dropped:
        left = "is" if len(made.dropped) == 1 else "are"
        text += f"; {listed(list(made.dropped))} cannot be changed like this and {left} left out"
    return text


_HARDLY = 0.05
"""Shrinkage below which a test is not worth its name."""


def answer(slos: Sequence[Slo], measure: str, at: float) -> str:
    """Name what an experiment would tell better: a limit, or a measure at a load."""
    if slos:
        return f"the load limit ({' and '.join(map(str, slos))})"
    return f"{plain(measure)} at load {at:g}"


def experiment(found: Experiment) -> str:
    """Say where a short test would tell most, as a clause."""
    rows = {row["load"]: row for row in found.rows()}
    best = rows[found.best]
    top = min(rows.values(), key=lambda row: row["ratio"])
    worst = max(rows.values(), key=lambda row: row["ratio"])
    slos = () if found.limit is None else found.limit.slos
    tested = plural(found.windows, "more window")
    what = answer(slos, found.measure, found.at)
    what += f" by {found.model} alone" if found.model else ""
    if top["ratio"] > 1 - _HARDLY:
        return f"{tested} would hardly shrink the interval of {what} at any of the loads"
    text = (
        f"{tested} at load {found.best:g} would shrink the interval of {what} from "
        f"{_span(found.now)} to {_of(best)}"
    )
    if worst["ratio"] > 1 - _HARDLY:
        text += f"; at load {worst['load']:g} hardly at all"
    elif len(rows) > 1:
        text += f"; at load {worst['load']:g} only to {_of(worst)}"
    if "meets" not in best:
        return text
    if not best["meets"]:
        text += f". Load {found.best:g} is above the limit, so that a test there costs customers"
        kept = [row for row in rows.values() if row["meets"]]
        if kept:
            safe = min(kept, key=lambda row: row["ratio"])
            text += f"; below it, load {safe['load']:g} does most: {_of(safe)}"
    elif not top["meets"]:
        text += f". Load {top['load']:g} would do little more, {_of(top)}, and is above the limit"
    return text


def _of(row: dict[str, float]) -> str:
    return _span((row["low"], row["high"]))


def _span(ends: Sequence[float]) -> str:
    low, high = ends
    return f"{low:.4g}..{'any' if high == math.inf else f'{high:.4g}'}"
