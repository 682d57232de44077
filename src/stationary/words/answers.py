"""Limits, how far to trust them, which model to take, and what would change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stationary.words.findings import clause
from stationary.words.numbers import (
    about,
    bound,
    bounds,
    listed,
    load_range,
    number,
    plain,
    plural,
    seconds,
    sentence,
)

if TYPE_CHECKING:
    from stationary.planning.experiment import Experiment
    from stationary.planning.limits import Limit
    from stationary.planning.what_if import Change
    from stationary.terms.trust import Choice, Doubt, Horizon

_REACH = {
    "passed": "shown loads up to {cut} alone, the model predicted {above}, with an error of "
    "{share}; nothing heavier was recorded",
    "misfit": "the model does not fit the loads it was fitted to: it is off by {share} at {loads}",
    "failed": "fitted to loads up to {cut} alone, the model is off by {share} at {above}: it does "
    "not extend to heavier load",
    "thin": "fitted to loads up to {cut} alone, the model may be off by up to {share} at {above}: "
    "there are too few data to test it at heavier load",
    "no refit": "the model could not be fitted to loads up to {cut} alone to test it",
    "too few": "there are too few windows, or too few different loads, to test the model at "
    "heavier loads",
    "too large": "a chain of {states} states is too large to test further",
}
"""What decided up to which load a model is trusted."""

_CHOICE = {
    "best": "Take {model}: it predicts the held-out loads {loads} best of all chains, with an "
    "error of at most {share}.",
    "simplest": "Take {model}: it is the simplest chain that predicts the held-out loads {loads} "
    "as well as the best, {best}, within its noise, with an error of at most {share}.",
    "general": "Take {model}: the usual queues are special cases of it, and it predicts the "
    "held-out loads {loads} with an error of at most {share}.",
    "only": "{model} is the only model; there is no other to compare it with.",
    "untested": "None can be recommended: there are too few windows, or too few different loads, "
    "to hold the heaviest out and test on them.",
}
"""How a comparison of models ended."""

_NONE = {
    "none usable": "no chain converged with all of its parameters determined",
    "rival": "at the held-out loads {loads}, the simple rule {rival!r} predicts better than the "
    "best of the models, {best}",
    "misfit": "the best of the models at the held-out loads {loads}, {best}, does not fit the "
    "loads it was fitted to",
    "wrong": "the best of the models, {best}, is off by {share} at the held-out loads {loads}",
}
"""Why none of them is to be trusted."""

RANKED = (
    "Models are ranked on the held-out windows: by log-likelihood per count behind the best (in "
    "nats), and by the share of counts that a model misplaces."
)
"""What the columns of a ranking are."""

_HARDLY = 0.05  # shrinkage of an interval below which a test is not worth while


def interval(level: float) -> str:
    """Name an interval by its coverage, as in ``95% interval``."""
    return f"{100 * level:g}% interval"


def up_to(found: Limit, unit: str = "", named: str = "") -> str:
    """Return a limit and its interval, with its name: ``up to 94.2 req/s (83.2 to 107)``."""
    text = {0.0: "at no load", math.inf: "at any load"}.get(found.load, "")
    text = text or f"up to {number(found.load, 3)}{unit and f' {unit}'}"
    if found.low != found.high:
        high = "any" if found.high == math.inf else number(found.high, 3)
        text += f" ({named}{number(found.low, 3)} to {high})"
    return text


def limit(found: Limit, unit: str = "", reason: bool = True) -> str:
    """Return the answer as a clause: the load, its interval, and the reason not to trust it."""
    several = len(found.slos) > 1
    hold = "holds" if not several else "hold" if found.load else "hold together"
    text = f"{bounds(found.slos)} {hold} {up_to(found, unit, f'{interval(found.level)} ')}"
    if found.met_again:
        text += f"; some heavier loads meet {'them' if several else 'it'} again"
    if found.failed:
        text += f"; {plural(found.failed, 'draw')} could not be solved, which widens the interval"
    if reason and found.doubt is not None:
        text += f"; not to be trusted: {doubt(found.doubt)}"
    return text


def missed_first(found: Limit, alone: Sequence[Limit] = ()) -> str:
    """Say which of several SLOs is missed first; nothing of a single one."""
    if len(found.slos) < 2:
        return ""
    others = [each for each in alone if each.binding.measure != found.binding.measure]
    first = f"{plain(found.binding.measure)} is missed first"
    if others:
        rest = [f"{bound(each.binding)} alone would hold {up_to(each)}" for each in others]
        first += f"; {listed(rest, most=len(rest))}"
    return sentence(first)


def plan_answer(
    found: Limit, alone: Sequence[Limit] = (), unit: str = "", reason: bool = False
) -> str:
    """Return the answer in one or two sentences; ``alone`` are the limits of each SLO by itself."""
    parts = sentence(limit(found, unit, reason)), missed_first(found, alone)
    return " ".join(filter(None, parts))


def whose(found: Limit) -> str:
    """Name the load that a limit is compared with."""
    name = "The present load" if found.present_given else "The heaviest load in the data"
    return f"{name}, {number(found.present, 3)}"


def limit_of(found: Limit, models: Sequence[str]) -> str:
    """Return the answer as a sentence that says whose it is: one model's, or that of several."""
    whom = models[0] if len(models) == 1 else f"{len(models)} models, by weight"
    return " ".join(filter(None, (sentence(f"{whom}: {limit(found)}"), missed_first(found))))


def changed_limit(now: Limit, then: Limit, made: Change) -> str:
    """Say what a change does to a limit."""
    return (
        f"The limit is {number(now.load, 3)} now, and {number(then.load, 3)} with {change(made)}."
    )


def untrusted_rows(count: int, rows: int, reason: str) -> str:
    """Say how many rows of a forecast are not to be trusted, and why."""
    return f"Not trusted in {count} of {rows} rows: {reason}."


def assumed_capacity(sizes: Sequence[int]) -> str:
    """Say which capacities were tried where none was given: one, if the windows name it."""
    if len(sizes) == 1:
        return f"capacity {sizes[0]}, the largest state of the windows: give it with --capacity"
    return f"the capacity is not known, so {sizes[0]} to {sizes[-1]} are tried: give --capacity"


def doubt(found: Doubt) -> str:
    """Return why an answer is not to be trusted, as a clause."""
    if found.choice is not None:
        text = _why(found.choice).rstrip(".")
        return text[0].lower() + text[1:]
    if found.horizon is not None:
        untested = "no data tests the model at this load: " if found.horizon.load else ""
        return untested + why_horizon(found.horizon)
    what = plain(found.measure) if found.measure else "this load"
    return {
        "not converged": "the fit did not converge",
        "unsolved": f"the chain could not be solved for many of the parameters that {what} "
        f"depends on",
        "lost": "more requests were lost at lighter loads than its bound allows, and not because a "
        "queue was full: find out why",
        "undefined": f"{what} is not a number there",
        "order": f"requests overtake one another, and the model serves them in the order in which "
        f"they came, so that its {what} is not theirs",
        "no standard errors": "the standard errors could not be computed",
        "rounding": f"probabilities of a chain this large are right to about 1e-8, and {what} is "
        f"smaller: take it as at most 1e-8",
        "open": f"the data leave {what} open by more than a factor of 10",
    }[str(found.reason)]


def horizon(found: Horizon) -> str:
    """Return up to which load a model is trusted, as a clause."""
    trusted = (
        f"forecasts are trusted up to a load of {number(found.load, 3)}: " if found.load else ""
    )
    return trusted + why_horizon(found)


def why_horizon(found: Horizon) -> str:
    """Return what decided up to which load a model is trusted, as a clause."""
    if found.finding is not None:
        return clause(found.finding)
    facts = {name: found.facts.get(name, math.nan) for name in ("cut", "share", "low", "high")}
    return _REACH[str(found.why)].format(
        above=f"the heavier loads, up to {number(found.seen, 3)}",
        cut=number(facts["cut"], 3),
        share=about(facts["share"]),
        loads=load_range(facts["low"], facts["high"]),
        states=f"{found.facts.get('states', math.nan):.0f}",
    )


def choice(found: Choice) -> str:
    """Return which model to take and why, or why none, as a sentence."""
    if found.why in _NONE:
        return sentence(f"none is to be trusted: {_why(found)}")
    return _why(found)


def _why(found: Choice) -> str:
    """Return how a comparison ended, or why none of its models is to be trusted, as a clause."""
    return {**_CHOICE, **_NONE}[str(found.why)].format(
        model=found.model,
        best=found.best,
        rival=found.rival,
        share=about(found.share),
        loads=load_range(found.low, found.high),
    )


def change(made: Change) -> str:
    """Return what a what-if changed, as in ``5 servers instead of 4``."""
    parts = [_changed(name, *values) for name, values in made.options.items()]
    if made.faster != 1:
        parts.append(f"every server {made.faster:g} times as fast")
    return ", ".join(parts)


def _changed(name: str, before: float, after: float) -> str:
    if name == "servers":
        return f"{plural(int(after), 'server')} instead of {before}"
    show = _patience if name == "patience" else str
    return f"{plain(name)} {show(after)} instead of {show(before)}"


def _patience(value: float) -> str:
    return "without end" if value == math.inf else seconds(value)


def what_if(made: Change) -> str:
    """Say of a change that it was not observed."""
    text = f"what if: {change(made)}; not observed, the data are of the system as it was"
    if made.dropped:
        left = "is" if len(made.dropped) == 1 else "are"
        text += f"; {listed(list(made.dropped))} cannot be changed like this and {left} left out"
    return text


def experiment(found: Experiment) -> str:
    """Say where a short test would narrow a limit most, as a clause."""
    rows = {row["load"]: row for row in found.rows()}
    best = rows[found.best]
    top = min(rows.values(), key=lambda row: row["ratio"])
    worst = max(rows.values(), key=lambda row: row["ratio"])
    tested = plural(found.windows, "more window")
    what = f"the load limit ({bounds(found.limit.slos)})"
    what += f" by {found.model} alone, without model error," if found.model else ""
    if top["ratio"] > 1 - _HARDLY:
        return f"{tested} would hardly shrink the interval of {what} at any of the loads"
    text = (
        f"{tested} at load {found.best:g} would shrink the interval of {what} from "
        f"{_span(*found.now)} to {_of(best)}"
    )
    if worst["ratio"] > 1 - _HARDLY:
        text += f"; at load {worst['load']:g} hardly at all"
    elif len(rows) > 1:
        text += f"; at load {worst['load']:g} only to {_of(worst)}"
    if not best["meets"]:
        text += f". Load {found.best:g} is above the limit, so that a test there costs customers"
        safe = [row for row in rows.values() if row["meets"]]
        if safe:
            most = min(safe, key=lambda row: row["ratio"])
            text += f"; below it, load {most['load']:g} does most: {_of(most)}"
    elif not top["meets"]:
        text += f". Load {top['load']:g} would do little more, {_of(top)}, and is above the limit"
    return text


def _of(row: dict[str, float]) -> str:
    return _span(row["low"], row["high"])


def _span(low: float, high: float) -> str:
    return f"{low:.4g}..{'any' if high == math.inf else f'{high:.4g}'}"
