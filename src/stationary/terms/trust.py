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
    """The heaviest load at which forecasts of a model are trusted, and what decided it.

    It is zero for a model that is trusted at no load. ``facts`` are numbers: ``cut`` (the load up
    to which it was fitted), ``share`` (of the counts that it misplaced), ``low`` and ``high``
    (loads), ``states``. ``seen`` is the heaviest load of the data, ``finding`` a warning.
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
    """A reason not to trust an answer: a limit, or the ``measure`` that the data leave open."""

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

    ``best`` and ``rival`` are the model, and the forecast without one, that did best. The model to
    take, or else the best, misplaces a ``share`` of the counts at the held-out loads from ``low``
    to ``high``. Those in ``equal`` forecast as well as the best, within its noise.
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
