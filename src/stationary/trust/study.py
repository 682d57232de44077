"""What is known of fitted models: refits to light loads, checks, how far each may be believed.

This is the one place where trust is computed. It is done once for a plan, saved with it, and read
by forecasts, reports and rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from stationary.trust.backtest import MOST_STATES, cuts, doubted, held_out, horizon
from stationary.trust.baselines import rivals
from stationary.trust.checks import diagnose
from stationary.trust.scoring import Score, recommend, score, weigh


@dataclass(frozen=True, eq=False)
class Study:
    """What is known of one fitted model.

    Attributes
    ----------
    below : tuple of Estimate or None
        Refits to the windows up to each cut, lightest first; None where it could not be refitted.
    cuts : tuple of float
        The loads up to which it was refitted.
    findings : tuple of Finding
        Is the data what the method assumes?
    horizon : Horizon
        How far the model may be believed.
    """

    below: tuple[Estimate | None, ...]
    cuts: tuple[float, ...]
    findings: tuple[Finding, ...]
    horizon: Horizon

    def at(self, places: Sequence[float]) -> tuple[Estimate | None, ...]:
        """Refits at some of the cuts."""
        found = dict(zip(self.cuts, self.below, strict=True))
        return tuple(found.get(cut) for cut in places)


@dataclass(frozen=True, eq=False)
class Comparison:
    """How models did beside one another.

    Attributes
    ----------
    scores : dict
        Of every model and rival on the held-out windows; empty where none could be held out.
    weights : dict
        Of every model in the pooled forecast.
    choice : Choice
        Which model to take, and why.
    held : int
        Held-out windows above the lightest cut.
    """

    scores: dict[str, Score]
    weights: dict[str, float]
    choice: Choice
    held: int = 0


def study(whole: Estimate, windows: Windows) -> Study:
    """Refit a model below the cuts, check the data against it, and say how far to believe it."""
    places: list[float] = []
    if len(windows.inputs) == 1 and len(whole.model.states) <= MOST_STATES:
        places = cuts(windows, len(whole.model.param_names))
    below = tuple(refit_below(whole, windows, cut) for cut in places)
    findings = tuple(diagnose(whole, windows))
    far = doubted(horizon(whole, below, places, windows), findings)
    return Study(below, tuple(places), findings, far)


@dataclass(frozen=True)
class Failure:
    """A model that could not be fitted, and the error that says why."""

    why: str


@dataclass(frozen=True)
class Studied:
    """Fit one model and study it."""

    windows: Windows
    starts: int
    seed: int

    def __call__(self, model: Model) -> tuple[Estimate, Study] | Failure:
        """Return the estimate and its study."""
        try:
            method = Newton(starts=self.starts)
            whole, _ = estimate(model, self.windows, method, seed=self.seed)
            return whole, study(whole, self.windows)
        except StationaryError as error:
            return Failure(str(error))


def comparison(
    fitted: Mapping[str, Estimate], studies: Mapping[str, Study], windows: Windows
) -> Comparison:
    """Score every model on held-out heavier load beside forecasts that need no chain."""
    usable = {
        name: len(each.model.param_names)
        for name, each in fitted.items()
        if each.converged and each.determined
    }
    if len(fitted) == 1 and not studies:
        (name,) = fitted
        return Comparison({}, {name: 1.0}, Choice(Chosen.ONLY, name))
    places = _common_cuts(fitted, windows)
    tested = {name: n for name, n in usable.items() if None not in studies[name].at(places)}
    if not places:
        weights = dict.fromkeys(usable, 1 / max(len(usable), 1))
        return Comparison({}, weights, Choice(Chosen.UNTESTED))
    held = [held_out(windows, cut) for cut in places]
    scores = {}
    for name in fitted:
        below = studies[name].at(places)
        terms = [
            log_terms(part.model, part_held)
            for part, part_held in zip(below, held, strict=True)
            if part is not None
        ]
        if len(terms) == len(held):
            scores[name] = score(terms, held)
    pairs = [(windows.between(None, cut), part) for cut, part in zip(places, held, strict=True)]
    scores |= {name: score(terms, held) for name, terms in rivals(pairs).items()}
    fitting = {name for name in tested if studies[name].horizon.load}
    choice = recommend(_only(scores, fitted, tested), tested, fitting, held)
    return Comparison(scores, weigh(scores, tested, held), choice, len(held[0]))


def _only(
    scores: Mapping[str, Score], fitted: Mapping[str, Estimate], tested: Mapping[str, int]
) -> dict[str, Score]:
    """Scores of rivals and of the models that can be used: the others are no rivals."""
    return {name: s for name, s in scores.items() if name in tested or name not in fitted}


def _common_cuts(fitted: Mapping[str, Estimate], windows: Windows) -> list[float]:
    if len(windows.inputs) != 1:
        return []
    most = max(len(each.model.param_names) for each in fitted.values())
    return cuts(windows, most) or cuts(windows, 1)


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
    found = in_parallel(
        Studied(windows, starts, seed),
        list(models.values()),
        jobs=jobs,
        cluster=cluster,
        progress=progress,
    )
    pairs = list(zip(models, found, strict=True))
    fitted = {name: each[0] for name, each in pairs if not isinstance(each, Failure)}
    studies = {name: each[1] for name, each in pairs if not isinstance(each, Failure)}
    return fitted, studies, {name: e.why for name, e in pairs if isinstance(e, Failure)}
