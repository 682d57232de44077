"""What is known of fitted models: refits to light loads, checks, and how far each may be trusted.

This is the one place where trust is computed. It is done once for a plan, saved with it, and read
by forecasts, reports and rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from stationary._support.parallel import Progress, in_parallel
from stationary.data.windows import Windows
from stationary.errors import StationaryError
from stationary.learning.estimate import Estimate
from stationary.learning.fitting import estimate, refit_below
from stationary.learning.likelihood import log_terms
from stationary.learning.newton import Newton
from stationary.models import Model
from stationary.terms.findings import Finding
from stationary.terms.trust import Choice, Chosen, Horizon
from stationary.trust.backtest import (
    Score,
    can_be_refitted,
    cuts,
    held_out,
    horizon,
    joined,
    score,
)
from stationary.trust.baselines import baselines
from stationary.trust.checks import diagnose
from stationary.trust.evidence import weigh_candidates
from stationary.trust.scoring import recommend, weigh


@dataclass(frozen=True, eq=False)
class Study:
    """What is known of one fitted model."""

    cuts: tuple[float, ...]  # loads up to which it was refitted, lightest first
    below: tuple[Estimate | None, ...]  # refits to the windows up to each; None where that failed
    scores: tuple[Score | None, ...]  # how they forecast the windows above it
    findings: tuple[Finding, ...]  # what checks of the data found
    horizon: Horizon  # how far the model may be trusted

    def score(self, places: Sequence[float]) -> Score | None:
        """Score at some of the cuts together; None where there is none at one of them."""
        known = dict(zip(self.cuts, self.scores, strict=True))
        found = [each for each in map(known.get, places) if each is not None]
        return joined(found) if found and len(found) == len(places) else None


@dataclass(frozen=True, eq=False)
class Comparison:
    """How models did beside one another."""

    scores: dict[str, Score]  # of every model and baseline; empty where no windows were held out
    weights: dict[str, float]  # of every model in the pooled forecast
    choice: Choice  # which model to take, and why
    held: int = 0  # held-out windows above the lightest cut


def study(whole: Estimate, windows: Windows) -> Study:
    """Refit a model below the cuts, check the data against it, and say how far to trust it."""
    places: list[float] = []
    if len(windows.inputs) == 1 and can_be_refitted(whole.model):
        places = cuts(windows, len(whole.model.param_names))
    below, scores = [], []
    for cut in places:
        part, held = refit_below(whole, windows, cut), held_out(windows, cut)
        below.append(part)
        scores.append(None if part is None else score(log_terms(part.model, held), held))
    findings = tuple(diagnose(whole, windows))
    far = horizon(whole, scores, places, windows, findings)
    return Study(tuple(places), tuple(below), tuple(scores), findings, far)


def comparison(
    fitted: Mapping[str, Estimate], studies: Mapping[str, Study], windows: Windows
) -> Comparison:
    """Score every model on held-out heavier loads, beside forecasts that need no model."""
    if len(fitted) == 1 and not studies:
        (name,) = fitted
        return Comparison({}, {name: 1.0}, Choice(Chosen.ONLY, name))
    usable = {
        name: len(each.model.param_names)
        for name, each in fitted.items()
        if each.converged and each.determined
    }
    # A model that cannot be used must not keep the others from being tested.
    places = _common_cuts({name: fitted[name] for name in usable} or fitted, windows)
    # A pool of families adds to the width of intervals, not to their coverage: a model that has
    # the others as special cases answers alone, with its model error.
    general = [name for name in usable if fitted[name].model.encompassing]
    pooled = general or list(usable)
    equal = {name: 1 / len(pooled) for name in pooled}
    known = weigh_candidates({name: fitted[name] for name in general}, windows)
    untested = Comparison({}, known or equal, Choice(Chosen.UNTESTED))
    if not places:
        return untested
    held = [held_out(windows, cut) for cut in places]
    pairs = [(windows.between(None, cut), part) for cut, part in zip(places, held, strict=True)]
    found = {name: studies[name].score(places) for name in fitted}
    scores = {name: each for name, each in found.items() if each is not None}
    tested = {name: count for name, count in usable.items() if name in scores}
    if usable and not tested:  # such as chains too large to be fitted again
        return untested
    general = [name for name in general if name in tested]
    rivals = {
        name: joined(list(map(score, terms, held))) for name, terms in baselines(pairs).items()
    }
    fitting = {name for name in tested if studies[name].horizon.load}
    # Models that cannot be used are no rivals of those that can.
    each = {name: scores[name] for name in tested} | rivals
    sure = [name for name in general if name in fitting] or general
    weights = weigh_candidates({n: fitted[n] for n in sure}, windows) or weigh(scores, tested, held)
    choice = recommend(each, tested, fitting, held, {name: weights[name] for name in sure})
    return Comparison(scores | rivals, weights, choice, len(held[0]))


def _common_cuts(fitted: Mapping[str, Estimate], windows: Windows) -> list[float]:
    """Cuts at which as many parameters as possible can be tested; models of more are left out."""
    if len(windows.inputs) != 1:
        return []
    numbers = {len(each.model.param_names) for each in fitted.values()}
    return next(filter(None, (cuts(windows, n) for n in sorted(numbers, reverse=True))), [])


def fit_all(
    models: Mapping[str, Model],
    windows: Windows,
    starts: int,
    seed: int,
    jobs: int,
    cluster: str | None,
    progress: Progress | None,
) -> tuple[dict[str, Estimate], dict[str, Study], dict[str, str]]:
    """Fit and study every model; return estimates, studies, and why some could not be fitted."""
    run = partial(_fit_and_study, windows=windows, method=Newton(starts=starts), seed=seed)
    found = in_parallel(run, list(models.values()), jobs=jobs, cluster=cluster, progress=progress)
    ended = dict(zip(models, found, strict=True))
    fitted = {name: each for name, (each, _, _) in ended.items() if each is not None}
    studies = {name: each for name, (_, each, _) in ended.items() if each is not None}
    return fitted, studies, {name: why for name, (_, _, why) in ended.items() if why}


def _fit_and_study(
    model: Model, windows: Windows, method: Newton, seed: int
) -> tuple[Estimate | None, Study | None, str]:
    """Return the estimate and its study, or the error that says why there is none."""
    try:
        whole, _ = estimate(model, windows, method, seed=seed)
        return whole, study(whole, windows), ""
    except StationaryError as error:
        return None, None, str(error)
