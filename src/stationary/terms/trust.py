"""Whether an answer is to be trusted, and why not, as data. `stationary.words` makes sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stationary import words
from stationary.terms.findings import Finding


class Reach(StrEnum):
    """What decided how far a model may be trusted; `words` has a sentence for each."""

    PASSED = "passed"
    MISFIT = "misfit"
    FAILED = "failed"
    THIN = "thin"
    NO_REFIT = "no refit"
    TOO_FEW = "too few"
    TOO_LARGE = "too large"
    FINDING = "finding"


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
    """Why an answer is not trusted; `words` has a sentence for each."""

    NOT_CONVERGED = "not converged"
    NO_MODEL = "no model"
    HORIZON = "horizon"
    OPEN = "open"
    UNSOLVED = "unsolved"
    UNDEFINED = "undefined"
    NO_ERRORS = "no standard errors"
    LOST = "lost"
    ORDER = "order"
    ROUNDING = "rounding"


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
    """How a comparison of models ended; `words` has a sentence for each."""

    BEST = "best"
    SIMPLEST = "simplest"
    GENERAL = "general"
    ONLY = "only"
    NONE_USABLE = "none usable"
    RIVAL = "rival"
    MISFIT = "misfit"
    WRONG = "wrong"
    UNTESTED = "untested"


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
