r"""How far beyond its loads a model can be trusted: fit the lightest, score the heaviest measured.

A fit to the windows up to a load is asked for what was observed above it. What it gets wrong is
said as the share that it puts into the wrong place: half the sum of the differences between
observed and predicted shares. A model that stretched from load 60 to 120 has been tested over a
factor of two, and may be believed for as much again beyond the heaviest load, not further.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stationary._support.types import Array
from stationary.data import Misplaced
from stationary.data.windows import Windows
from stationary.learning.estimate import Estimate
from stationary.learning.likelihood import log_terms
from stationary.terms.findings import Check, Finding, Verdict
from stationary.terms.trust import Horizon, Reach

_PLACES = (0.2, 0.35, 0.5, 0.7)
"""Where the windows are cut, as shares of them in order of load."""

_FEWEST = 4
"""Windows that must be left on either side of a cut, beyond the parameters below it."""

WRONG = 0.1
"""Share in the wrong place from which a forecast counts as wrong."""

_GROUPS = 3
"""Parts of the windows, by load, in which a model is held against what it was fitted to."""

MOST_STATES = 2000
"""Largest chain that is refitted just to see how far it may be trusted."""


def cuts(windows: Windows, parameters: int) -> list[float]:
    """Loads to cut at: the heaviest that is still fitted, lightest cut first."""
    order = np.argsort(windows.loads.numpy(), kind="stable")
    loads, many = windows.loads.numpy()[order], windows.multiplicity.numpy()[order]
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


def horizon(
    whole: Estimate, below: Sequence[Estimate | None], places: Sequence[float], windows: Windows
) -> Horizon:
    """How far beyond the heaviest load a fitted model may be believed.

    The lightest cut that the model passes, with all heavier ones, sets the stretch. A model that
    does not fit the loads it saw is not to be believed at any.

    Parameters
    ----------
    whole : Estimate
        Of all windows.
    below : sequence of Estimate or None
        Of the windows up to each cut; None where it could not be refitted.
    places : sequence of float
        The cuts, lightest first.
    windows : Windows
        The data.
    """
    most = float(windows.loads.max())
    misfit = _misfit(whole, windows)
    if misfit is not None:
        return misfit
    if len(whole.model.states) > MOST_STATES:
        return Horizon(most, Reach.TOO_LARGE, {"states": len(whole.model.states)}, most)
    found = Horizon(most, Reach.TOO_FEW, {}, most)
    for cut, part in zip(reversed(places), reversed(below), strict=True):
        held = held_out(windows, cut)
        wrong = None if part is None else misplaced(log_terms(part.model, held), held)
        if wrong is None or wrong.share + 2 * wrong.error > WRONG:
            return found if found.why is Reach.PASSED else _failure(cut, most, part, wrong)
        far = most * most / cut if float(windows.loads.min()) > 0 else most + (most - cut)
        # As far beyond the heaviest load as that lies beyond the cut: by a factor, or by a step.
        found = Horizon(far, Reach.PASSED, {"cut": cut, "share": wrong.share}, most)
    return found


def held_out(windows: Windows, cut: float) -> Windows:
    """Windows above a cut."""
    return windows.select(windows.loads.numpy() > cut)


def doubted(found: Horizon, findings: Sequence[Finding]) -> Horizon:
    """Draw a horizon in by what checks of the data found.

    A model that does not fit, or a system that changed while it was recorded, is not to be believed
    at any load; where arrivals or service are not what the model says, at none that was not seen.
    """
    warned = {each.check: each for each in findings if each.verdict is Verdict.WARNING}
    for check in (Check.LACK_OF_FIT, Check.DRIFT):
        if check in warned:
            return Horizon(0.0, Reach.FINDING, {}, found.seen, warned[check])
    for check in (Check.SERVICE_RATE, Check.BURSTS):
        if check in warned and found.load > found.seen:
            return Horizon(found.seen, Reach.FINDING, {}, found.seen, warned[check])
    return found


def _misfit(whole: Estimate, windows: Windows) -> Horizon | None:
    """Say where a model is wrong about the loads it was fitted to; None if it is not, clearly."""
    order = np.argsort(windows.loads.numpy(), kind="stable")
    terms = log_terms(whole.model, windows)
    worst, most = None, WRONG
    for rows in np.array_split(order, min(_GROUPS, max(len(order) // _FEWEST, 1))):
        part = windows.select(rows)
        wrong = misplaced(terms[rows], part)
        if wrong is None or part.recorded < _FEWEST:
            continue
        if wrong.share - 2 * wrong.error > most:
            most = wrong.share - 2 * wrong.error
            facts = {
                "share": wrong.share,
                "low": float(part.loads.min()),
                "high": float(part.loads.max()),
            }
            worst = Horizon(0.0, Reach.MISFIT, facts, float(windows.loads.max()))
    return worst


def _failure(cut: float, most: float, part: Estimate | None, wrong: Misplaced | None) -> Horizon:
    facts = {"cut": cut, "high": most}
    if part is None or wrong is None:
        return Horizon(most, Reach.NO_REFIT if part is None else Reach.TOO_FEW, facts, most)
    if wrong.share - 2 * wrong.error > WRONG / 2:
        return Horizon(most, Reach.FAILED, {**facts, "share": wrong.share}, most)
    up_to = min(wrong.share + 2 * wrong.error, 1.0)
    return Horizon(most, Reach.THIN, {**facts, "share": up_to}, most)


def misplaced(terms: Array, windows: Windows) -> Misplaced | None:
    """Share of what was observed that log-terms ``[M, S]`` put in the wrong place.

    Of several kinds of observations, that of the kind which is clearly worst; None where none of
    them has places.
    """
    found, place = [], 0
    for kind in windows.observations:
        columns = slice(place, place + kind.data.shape[1])
        place = columns.stop
        roots = windows.roots[..., columns].numpy()
        wrong = kind.misplaced(terms[:, columns], roots, windows.recorded)
        if wrong is not None:
            found.append(wrong)
    return max(found, key=lambda wrong: wrong.share - 2 * wrong.error, default=None)
