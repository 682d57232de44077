r"""Forecasts of held-out loads: fit the lightest windows, score the heaviest measured.

A fit to the windows up to a load, the *cut*, forecasts what was observed above it. Two numbers say
how good that is: the negative log-likelihood per count, which compares models, and the share of the
counts that is misplaced (half the sum of the differences between observed and predicted shares),
which has a meaning of its own. The horizon, the choice of a model and the weights of a pool are all
made from these scores.

A model that was fitted up to load 60 and predicted up to 120 has been tested over a factor of two.
It is trusted for the same factor beyond the heaviest load, and not further: the *horizon*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stationary._support.types import Array
from stationary.data import Misplaced
from stationary.data.windows import Windows
from stationary.learning.estimate import Estimate
from stationary.learning.likelihood import log_terms
from stationary.models import Model
from stationary.terms.findings import Finding, Untrusted, Verdict
from stationary.terms.trust import Horizon, Reach

_PLACES = (0.2, 0.35, 0.5, 0.7)  # where the windows are cut, as shares of them in order of load
_FEWEST = 4  # windows that must be left on either side of a cut, beyond the parameters below it

WRONG = 0.1
"""Misplaced share from which a forecast counts as wrong."""

_GROUPS = 3
"""Parts of the windows, by load, in which a model is compared with what it was fitted to."""

MOST_STATES = 2000
"""Largest chain that is refitted just to see how far it may be trusted ..."""

_MOST_IN_A_ROW = 50_000
"""... and the largest whose states are in a row: its cost grows no faster than they do."""


def can_be_refitted(model: Model) -> bool:
    """Whether a chain is small enough to be fitted again and again."""
    most = MOST_STATES if model.edges.birth_death is None else _MOST_IN_A_ROW
    return len(model.states) <= most


def cuts(windows: Windows, parameters: int) -> list[float]:
    """Loads to cut at: the heaviest that is still fitted, lightest cut first."""
    order = np.argsort(windows.loads.numpy(), kind="stable")
    loads, recorded = windows.loads.numpy()[order], windows.multiplicity.numpy()[order]
    up_to = recorded.cumsum()
    found = set()
    for place in _PLACES:
        load = float(loads[np.searchsorted(up_to, int(place * (up_to[-1] - 1)), side="right")])
        light = loads <= load
        below, above = recorded[light].sum(), recorded[~light].sum()
        several = len(np.unique(loads[light])) > 1  # at one load a model may be right by chance
        if several and below >= parameters + _FEWEST and above >= _FEWEST:
            found.add(load)
    return sorted(found)


def held_out(windows: Windows, cut: float) -> Windows:
    """Windows above a cut."""
    return windows.select(windows.loads.numpy() > cut)


@dataclass(frozen=True, eq=False)
class Score:
    """How a forecast did on held-out windows."""

    per_count: Array  # [W]: negative log-likelihood per count of every window, at every cut
    wrong: Misplaced | None  # above the cut where it is worst; None without categories

    @property
    def mean(self) -> float:
        """Mean over the windows."""
        return float(self.per_count.mean())

    @property
    def misplaced(self) -> float:
        """The misplaced share; 0 where it is not known."""
        return 0.0 if self.wrong is None else self.wrong.share

    @property
    def is_wrong(self) -> bool:
        """Whether the misplaced share is clearly too large."""
        return self.wrong is not None and self.wrong.share - 2 * self.wrong.error > WRONG

    def behind(self, other: Score, windows: int) -> tuple[float, float]:
        """How many nats per count behind another forecast, and the standard error of that.

        A window held out at several cuts counts once: ``windows`` says how many there are.
        """
        difference = self.per_count - other.per_count
        return float(difference.mean()), float(difference.std() / np.sqrt(windows))


def score(terms: Array, held: Windows) -> Score:
    """Score the log-terms ``[M, S]`` that a forecast gives held-out windows."""
    per_count = -(held.data.numpy() * terms).sum(-1) / np.maximum(held.size.numpy(), 1.0)
    return Score(per_count, misplaced(terms, held))


def joined(scores: Sequence[Score]) -> Score:
    """Return the score of a forecast at all cuts together, lightest cut first."""
    wrong = [each.wrong for each in scores if each.wrong is not None]
    return Score(np.concatenate([each.per_count for each in scores]), _worst(wrong))


def _worst(wrong: Sequence[Misplaced]) -> Misplaced | None:
    """Return what is clearly worst: the largest share after two standard errors are taken off."""
    return max(wrong, key=lambda each: each.share - 2 * each.error, default=None)


def misplaced(terms: Array, windows: Windows) -> Misplaced | None:
    """Share of what was observed that log-terms ``[M, S]`` put in the wrong category.

    Of several kinds of observations, that of the kind which is clearly worst; None where none of
    them has categories.
    """
    found, place = [], 0
    for kind in windows.observations:
        columns = slice(place, place + kind.data.shape[1])
        place = columns.stop
        roots = windows.roots[..., columns].numpy()
        wrong = kind.misplaced(terms[:, columns], roots, windows.recorded)
        if wrong is not None:
            found.append(wrong)
    return _worst(found)


def horizon(
    whole: Estimate,
    scores: Sequence[Score | None],
    places: Sequence[float],
    windows: Windows,
    findings: Sequence[Finding] = (),
) -> Horizon:
    """How far beyond the heaviest load a fitted model may be trusted.

    The lightest cut that the model passes, with all heavier ones, sets the factor. A model that
    does not fit the loads it saw is trusted at none. Warnings of checks take more away. Scores are
    of the refit below each of the places on the windows above it, lightest first; None where there
    was no refit.
    """
    heaviest = float(windows.loads.max())
    found = _misfit(whole, windows) or _tested(whole, scores, places, windows)
    for scope, load in ((Untrusted.ALL, 0.0), (Untrusted.UNSEEN_LOADS, heaviest)):
        for each in findings:
            if each.verdict is Verdict.WARNING and each.untrusted is scope and found.load > load:
                return Horizon(load, Reach.FINDING, {}, heaviest, each)
    return found


def _tested(
    whole: Estimate, scores: Sequence[Score | None], places: Sequence[float], windows: Windows
) -> Horizon:
    """How far the forecasts of held-out loads were right, from the heaviest cut downwards."""
    lightest, heaviest = float(windows.loads.min()), float(windows.loads.max())
    if not can_be_refitted(whole.model):
        size = len(whole.model.states)
        return Horizon(heaviest, Reach.TOO_LARGE, {"states": size}, heaviest)
    found = Horizon(heaviest, Reach.TOO_FEW, {}, heaviest)
    for cut, part in zip(reversed(places), reversed(scores), strict=True):
        wrong = None if part is None else part.wrong
        if wrong is None or (wrong.share + 2 * wrong.error > WRONG and not wrong.by_chance):
            return found if found.why is Reach.PASSED else _failure(cut, heaviest, part)
        # As far beyond the heaviest load as that lies beyond the cut: by a factor, or by a step.
        far = heaviest * heaviest / cut if lightest > 0 else heaviest + (heaviest - cut)
        found = Horizon(far, Reach.PASSED, {"cut": cut, "share": wrong.share}, heaviest)
    return found


def _failure(cut: float, heaviest: float, part: Score | None) -> Horizon:
    facts = {"cut": cut, "high": heaviest}
    if part is None or part.wrong is None:
        why = Reach.NO_REFIT if part is None else Reach.TOO_FEW
        return Horizon(heaviest, why, facts, heaviest)
    share, error, _ = part.wrong
    if share - 2 * error > WRONG / 2:
        return Horizon(heaviest, Reach.FAILED, {**facts, "share": share}, heaviest)
    return Horizon(heaviest, Reach.THIN, {**facts, "share": min(share + 2 * error, 1.0)}, heaviest)


def _misfit(whole: Estimate, windows: Windows) -> Horizon | None:
    """Say where a model is wrong about the loads it was fitted to; None if it is not, clearly."""
    order = np.argsort(windows.loads.numpy(), kind="stable")
    terms = log_terms(whole.model, windows)
    worst, largest = None, WRONG
    for rows in np.array_split(order, min(_GROUPS, max(len(order) // _FEWEST, 1))):
        part = windows.select(rows)
        wrong = misplaced(terms[rows], part)
        if wrong is None or part.recorded < _FEWEST or wrong.share - 2 * wrong.error <= largest:
            continue
        largest = wrong.share - 2 * wrong.error
        low, high = float(part.loads.min()), float(part.loads.max())
        facts = {"share": wrong.share, "low": low, "high": high}
        worst = Horizon(0.0, Reach.MISFIT, facts, float(windows.loads.max()))
    return worst
