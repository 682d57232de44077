"""Whether an answer is to be trusted, and why not, as data. `stationary.words` makes sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stationary import words
from stationary.terms.findings import Finding


class Reach(StrEnum):
    """What decided how far a model may be trusted."""

    PASSED = "passed"
    """Fitted to light loads, it forecast the heavier ones that were measured."""
    MISFIT = "misfit"
    """It does not fit the loads it saw."""
    FAILED = "failed"
    """Fitted to light loads, it got the heavier ones wrong."""
    THIN = "thin"
    """Fitted to light loads, it may have got the heavier ones wrong: too little data."""
    NO_REFIT = "no refit"
    """It could not be fitted to light loads alone."""
    TOO_FEW = "too few"
    """Too few windows, or different loads, to hold the heaviest out."""
    TOO_LARGE = "too large"
    """The chain is too large to be fitted again."""
    FINDING = "finding"
    """A check of the data warns."""


@dataclass(frozen=True)
class Horizon:
    """The heaviest load at which forecasts of a model are trusted.

    Attributes
    ----------
    load : float
        The load; zero for a model that is trusted at no load.
    why : Reach
        What decided it.
    facts : mapping
        Numbers: ``cut`` (the load up to which it was fitted), ``share`` (of the counts that it
        misplaced), ``low`` and ``high`` (loads), ``states``.
    seen : float
        The heaviest load of the data.
    finding : Finding, optional
        The warning that decided it.
    """

    load: float
    why: Reach
    facts: Mapping[str, float] = field(default_factory=dict)
    seen: float = 0.0
    finding: Finding | None = None

    def __str__(self) -> str:
        return words.horizon(self)


class Reason(StrEnum):
    """Why an answer is not trusted."""

    NOT_CONVERGED = "not converged"
    NO_MODEL = "no model"
    """No model that was compared is to be trusted."""
    HORIZON = "horizon"
    """It lies beyond the load up to which the model was tested."""
    OPEN = "open"
    """The data leave it open by more than a factor of ten."""
    UNSOLVED = "unsolved"
    """The chain could not be solved for too many draws."""
    UNDEFINED = "undefined"
    """The measure is not a number there."""
    NO_ERRORS = "no standard errors"
    """The standard errors could not be computed."""
    LOST = "lost"
    """More requests were lost at lighter loads than its bound allows."""
    ORDER = "order"
    """Requests overtake one another, and the model serves them in the order in which they came."""
    ROUNDING = "rounding"
    """The probability is smaller than the error of the solver that a large chain needs."""


@dataclass(frozen=True)
class Doubt:
    """A reason not to trust an answer.

    Attributes
    ----------
    reason : Reason
        Why.
    measure : str
        What the data leave open; empty for a limit.
    horizon : Horizon, optional
        How far the model may be trusted.
    choice : Choice, optional
        Why no model is to be trusted.
    """

    reason: Reason
    measure: str = ""
    horizon: Horizon | None = None
    choice: Choice | None = None

    def __str__(self) -> str:
        return words.doubt(self)


class Chosen(StrEnum):
    """How a comparison of models ended."""

    BEST = "best"
    """The model forecast the held-out loads best."""
    SIMPLEST = "simplest"
    """It is the simplest of those that forecast them as well as the best."""
    GENERAL = "general"
    """It has the usual models as special cases, and predicted the held-out loads well enough."""
    ONLY = "only"
    """There was no other to compare it with."""
    NONE_USABLE = "none usable"
    """No model converged with all of its parameters determined."""
    RIVAL = "rival"
    """A forecast that needs no model does better."""
    MISFIT = "misfit"
    """The best does not fit the loads it saw."""
    WRONG = "wrong"
    """The best misplaces too many counts."""
    UNTESTED = "untested"
    """Too few windows, or different loads, to hold the heaviest out."""


@dataclass(frozen=True)
class Choice:
    """Which model to take, and why; or why none.

    Attributes
    ----------
    why : Chosen
        How the comparison ended.
    model : str or None
        The model to take, if any.
    best, rival : str
        The model, and the forecast without one, that did best.
    share : float
        Share of the held-out counts that the model to take, or else the best, misplaces.
    low, high : float
        Held-out loads.
    equal : tuple of str
        Models that can be trusted and forecast as well as the best, within its noise.
    """

    why: Chosen
    model: str | None = None
    best: str = ""
    rival: str = ""
    share: float = math.nan
    low: float = math.nan
    high: float = math.nan
    equal: tuple[str, ...] = ()

    def __str__(self) -> str:
        return words.choice(self)
