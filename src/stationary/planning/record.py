"""What a plan holds: plain data, from which everything that a plan can be asked follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import pandas as pd
from torch import Tensor

from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.draws import Draws, from_estimate, from_refits
from stationary.learning.estimate import Estimate
from stationary.models import Model
from stationary.planning.changes import Change, stretched
from stationary.planning.limits import Limit, limit
from stationary.terms.slo import Slo
from stationary.terms.trust import Doubt, Horizon, Reason
from stationary.trust.study import Comparison, Study, comparison, study


@dataclass(frozen=True)
class Question:
    """What a plan is asked for when nothing else is said.

    Attributes
    ----------
    slos : tuple of Slo
        What must hold.
    present : float, optional
        The load to compare a limit with; by default the heaviest of the data.
    level : float
        Coverage of intervals.
    """

    slos: tuple[Slo, ...] = ()
    present: float | None = None
    level: float = 0.95


@dataclass(frozen=True, eq=False)
class Refits:
    """Parameters of a bootstrap.

    Attributes
    ----------
    theta : Tensor [B, P]
        Of the refits that converged.
    block : int
        Successive windows that were drawn together.
    failed : int
        Refits that did not converge.
    """

    theta: Tensor
    block: int = 1
    failed: int = 0


@dataclass(frozen=True, eq=False)
class Record:
    """Estimates of one or several models on one data set, and what is known of them.

    Attributes
    ----------
    windows : Windows
        The data.
    fitted : mapping of str to Estimate
        Every model that was fitted to all windows, by name.
    pooled : bool
        Whether answers come from all models by weight; otherwise from the first alone.
    question : Question
        What is asked for when nothing else is said.
    failed : mapping of str to str
        Models that could not be fitted, and why.
    seed : int
        Of draws, starts and orders.
    history : DataFrame
        The steps of a stochastic fit, one row each; empty otherwise.
    recipe : mapping
        How it was made, as text: the command, and the method of a stochastic fit.
    refits : Refits, optional
        Of a bootstrap, which then makes the intervals.
    changed : (Change, Draws), optional
        Of a system that was not itself observed, such as a what-if.
    known_studies, known_comparison, known_draws
        What was computed before, such as by the plan that was saved.
    """

    windows: Windows
    fitted: Mapping[str, Estimate]
    pooled: bool = False
    question: Question = Question()
    failed: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    history: pd.DataFrame = field(default_factory=pd.DataFrame)
    recipe: Mapping[str, str] = field(default_factory=dict)
    refits: Refits | None = None
    changed: tuple[Change, Draws] | None = None
    known_studies: Mapping[str, Study] = field(default_factory=dict)
    known_comparison: Comparison | None = None
    known_draws: Draws | None = None

    @cached_property
    def studies(self) -> dict[str, Study]:
        """Refits below the cuts, checks and horizon of every model; computed once."""
        return {
            name: self.known_studies.get(name) or study(each, self.windows)
            for name, each in self.fitted.items()
        }

    @cached_property
    def comparison(self) -> Comparison:
        """Scores on held-out loads, weights and the choice of a model; computed once."""
        if self.known_comparison is not None:
            return self.known_comparison
        # A fit of one model needs no study to be compared with nothing.
        studies = self.studies if self.pooled or len(self.fitted) > 1 else {}
        return comparison(self.fitted, studies, self.windows)

    @property
    def name(self) -> str:
        """Name of the model that speaks for the plan: the one to take, or of most weight."""
        if not self.pooled:
            return next(iter(self.fitted))
        dropped = () if self.change is None else self.change.dropped
        chosen, weights = self.comparison.choice.model, self.comparison.weights
        left = [name for name in self.fitted if name not in dropped]
        return chosen if chosen in left else max(left, key=lambda name: weights.get(name, 0.0))

    @property
    def estimate(self) -> Estimate:
        """The estimate of that model."""
        return self.fitted[self.name]

    @property
    def model(self) -> Model:
        """That model, at its estimates; the changed one of a what-if."""
        if self.changed is None:
            return self.estimate.model
        return self.draws.first

    @property
    def change(self) -> Change | None:
        """What a what-if changed; None for a system that was observed."""
        return None if self.changed is None else self.changed[0]

    @cached_property
    def draws(self) -> Draws:
        """Weighted draws of models and parameters, which every interval is made from."""
        if self.changed is not None:
            return self.changed[1]
        if self.known_draws is not None:
            return self.known_draws
        if self.refits is not None:
            return Draws((from_refits(self.estimate, self.refits.theta),))
        if not self.pooled:
            return Draws((from_estimate(self.estimate, seed=self.seed),))
        weights = {name: w for name, w in self.comparison.weights.items() if w > 0}
        if not weights:
            raise InputError("the data determine none of the models, so there is nothing to pool")
        most, total = float(self.windows.loads.max()), sum(weights.values())
        return Draws(
            tuple(
                from_estimate(
                    self.fitted[name],
                    [part for part in self.studies[name].below if part is not None],
                    most,
                    weight / total,
                    self.seed + k,
                )
                for k, (name, weight) in enumerate(weights.items())
            )
        )

    @property
    def part_names(self) -> dict[int, str]:
        """What the model of each part of the draws is called."""
        if not self.pooled:
            return {0: self.name}
        weights = self.comparison.weights
        return dict(enumerate(name for name, w in weights.items() if w > 0))

    @property
    def doubt(self) -> Doubt | None:
        """Why no answer of this plan is trusted; None if there is no such reason."""
        if self.pooled:
            choice = self.comparison.choice
            return None if choice.model else Doubt(Reason.NO_MODEL, choice=choice)
        return None if self.estimate.converged else Doubt(Reason.NOT_CONVERGED)

    @property
    def horizon(self) -> Horizon:
        """How far the model that speaks for the plan may be believed."""
        found = self.studies[self.name].horizon
        return found if self.change is None else stretched(found, self.change)

    def having(self, **changes: Any) -> Self:
        """Return the same with other fields; what was computed before and still holds is kept."""
        kept: dict[str, Any] = {"known_studies": self.__dict__.get("studies", self.known_studies)}
        if "fitted" not in changes and ("pooled" not in changes or len(self.fitted) > 1):
            kept["known_comparison"] = self.__dict__.get("comparison", self.known_comparison)
        if not changes.keys() & {"fitted", "pooled", "refits"} and self.changed is None:
            kept["known_draws"] = self.__dict__.get("draws", self.known_draws)
        return replace(self, **{"known_comparison": None, "known_draws": None, **kept, **changes})

    def limit_of(self, question: Question) -> Limit:
        """Answer a question."""
        near = float(self.windows.loads.max())
        found = limit(self.draws, question.slos, near, question.level, self.doubt, self.horizon)
        return replace(
            found,
            present=near if question.present is None else question.present,
            present_given=question.present is not None,
        )

    def check_observed(self, what: str) -> None:
        """Raise unless the windows are of this very system."""
        if self.changed is not None:
            raise InputError(
                f"{what} goes by the windows, which are of the system as it was: ask the fit that "
                f"was observed, not a what-if"
            )
