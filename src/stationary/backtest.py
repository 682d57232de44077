r"""How far beyond its loads a model can be trusted: fit the lightest, score the heaviest measured.

A fit to the windows up to a load is asked for the counts above it. What it gets wrong is said as
the share of counts it puts into the wrong category: half the sum of the differences between
observed and predicted shares. A model that stretched from load 60 to 120 has been tested over a
factor of two, and may be believed for as much again beyond the heaviest load, not further.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from stationary.data.windows import Windows
from stationary.errors import StationaryError
from stationary.findings import Finding, Verdict
from stationary.forecast import Horizon
from stationary.inference import Array
from stationary.models import Model
from stationary.newton import minimise
from stationary.objective import Objective, predicted

_PLACES = (0.2, 0.35, 0.5, 0.7)
"""Where the windows are cut, as shares of them in order of load."""

_FEWEST = 4
"""Windows that must be left on either side of a cut, beyond the parameters below it."""

WRONG = 0.1
"""Share of counts in the wrong category from which a forecast of them counts as wrong."""

_GROUPS = 3
"""Parts of the windows, by load, in which a model is held against what it was fitted to."""

_MOST_STATES = 2000
"""Largest chain that is refitted just to see how far it may be trusted."""


@dataclass(frozen=True)
class Misplaced:
    """Share of held-out counts that a forecast puts into the wrong category, and its noise."""

    share: float
    error: float


def cuts(windows: Windows, parameters: int) -> list[float]:
    """Loads to cut at: the heaviest that is still fitted, lightest cut first."""
    order = np.argsort(windows.loads.numpy(), kind="stable")
    loads, many = windows.loads.numpy()[order], windows.many.numpy()[order]
    up_to = many.cumsum()
    found = []
    for place in _PLACES:
        load = float(loads[np.searchsorted(up_to, int(place * (up_to[-1] - 1)), side="right")])
        light = loads <= load
        below, above = many[light].sum(), many[~light].sum()
        several = len(np.unique(loads[light])) > 1  # of one alone a model may be right by chance
        if several and below >= parameters + _FEWEST and above >= _FEWEST:
            found.append(load)
    return sorted(set(found))


def horizon(model: Model, windows: Windows) -> Horizon:
    """How far beyond the heaviest load a fitted model may be believed.

    The lightest cut that the model passes, with all heavier ones, sets the stretch. A model that
    does not fit the loads it saw is not to be believed at any.
    """
    most = float(windows.loads.max())
    here = _misfit(model, windows)
    if here:
        return Horizon(0.0, here, most)
    if len(model.states) > _MOST_STATES:
        why = f"a chain of {len(model.states)} states is too large to test further"
        return Horizon(most, why, most)
    places = cuts(windows, len(model.param_names))
    if not places:
        return Horizon(
            most,
            "too few windows, or too few different loads, to test the model at heavier loads",
            most,
        )
    found = Horizon(most, "", most)
    for cut in reversed(places):
        wrong = _stretch(model, windows, cut)
        if wrong is None or wrong.share + 2 * wrong.error > WRONG:
            return found if found.sentence else Horizon(most, _failure(cut, most, wrong), most)
        found = Horizon(
            _stretched(most, cut, windows),
            f"fitted to loads up to {cut:.4g}, it put {wrong.share:.1%} of the counts from there "
            f"to {most:.4g} in the wrong place, and nothing tests a longer stretch",
            most,
        )
    return found


def doubted(found: Horizon, findings: Sequence[Finding]) -> Horizon:
    """Draw a horizon in by what checks of the data found.

    A model that does not fit, or a system that changed while it was recorded, is not to be believed
    at any load; where arrivals or service are not what the model says, at none that was not seen.
    """
    warned = {f.name: f.sentence for f in findings if f.verdict is Verdict.WARNING}
    for name in ("lack of fit", "drift"):
        if name in warned:
            return Horizon(0.0, _clause(warned[name]))
    for name in ("service rate", "bursts"):
        if name in warned and found.load > found.seen:
            return Horizon(found.seen, _clause(warned[name]), found.seen)
    return found


def _clause(sentence: str) -> str:
    """Return a finding's first sentence, to stand inside another one."""
    first = sentence.split(". ")[0].rstrip(".")
    return first[0].lower() + first[1:]


def _stretched(most: float, cut: float, windows: Windows) -> float:
    """As far beyond the heaviest load as that lies beyond the cut: by a factor, or by a step."""
    positive = float(windows.loads.min()) > 0
    return most * most / cut if positive else most + (most - cut)


def _misfit(model: Model, windows: Windows) -> str:
    """Say where a model is wrong about the loads it was fitted to; empty if it is not, clearly."""
    order = np.argsort(windows.loads.numpy(), kind="stable")
    p = predicted(model, model.theta.detach(), windows)
    worst = ""
    most = WRONG
    for rows in np.array_split(order, min(_GROUPS, max(len(order) // _FEWEST, 1))):
        part = windows.select(rows)
        wrong = misplaced(p[rows], part)
        if part.recorded >= _FEWEST and wrong.share - 2 * wrong.error > most:
            most = wrong.share - 2 * wrong.error
            low, high = float(part.loads.min()), float(part.loads.max())
            worst = (
                f"the model does not fit the loads it saw: it puts {wrong.share:.0%} of the counts "
                f"at {low:.4g} to {high:.4g} in the wrong place"
            )
    return worst


def _failure(cut: float, most: float, wrong: Misplaced | None) -> str:
    if wrong is None:
        return f"the model could not be fitted to loads up to {cut:.4g} alone to test it"
    if wrong.share - 2 * wrong.error > WRONG / 2:
        return (
            f"fitted to loads up to {cut:.4g}, the model puts {wrong.share:.0%} of the counts at "
            f"{cut:.4g} to {most:.4g} in the wrong place: it does not stretch to heavier load"
        )
    return (
        f"fitted to loads up to {cut:.4g}, the model may put up to "
        f"{min(wrong.share + 2 * wrong.error, 1.0):.0%} of the counts at {cut:.4g} to {most:.4g} "
        f"in the wrong place: too little data to test it at heavier load"
    )


def _stretch(model: Model, windows: Windows, cut: float) -> Misplaced | None:
    """Misplaced counts above a cut, by a refit to what lies below; None if there is none.

    The refit starts at the estimates.
    """
    try:
        best = minimise(
            Objective(model, windows.between(None, cut)),
            model.free(model.theta.detach()).numpy(),
        )
    except StationaryError:
        best = None
    if best is None or not np.isfinite(best.x).all():
        return None
    held = windows.select(windows.loads.numpy() > cut)
    theta = model.natural(torch.from_numpy(best.x))
    return misplaced(predicted(model, theta, held), held)


def misplaced(p: Array, windows: Windows) -> Misplaced:
    """Share of all counts that probabilities ``p [M, C]`` put into the wrong category.

    Over all windows together: what one window has too much may be what another has too little. The
    noise is that of the windows' scatter around their mean.
    """
    counts, many = windows.counts.numpy(), windows.recorded
    off = counts / counts.sum() - counts.sum(-1, keepdims=True) / counts.sum() * p
    total = off.sum(0)  # of [M, C], which adds up to the error
    sign = np.sign(total)
    # What a window has too much is linear in its counts: each weighs as much as its row says.
    weight = (sign - (p + total) @ sign[:, None]) / (2 * counts.sum())
    squares = windows.squares_of(weight)
    error = math.sqrt(squares * many / max(many - 1, 1))
    return Misplaced(float(np.abs(total).sum() / 2), error)
