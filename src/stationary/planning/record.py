"""What a plan holds: plain data, and what is computed from it once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.special import betaincinv
from torch import Tensor

from stationary import words
from stationary._support.arguments import explained
from stationary.data import Losses
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.discrepancy import Discrepancy
from stationary.learning.draws import Draws, from_estimate, from_refits
from stationary.learning.estimate import Estimate
from stationary.learning.slowing import with_slowing
from stationary.models import Model
from stationary.models.latency import percentile_of
from stationary.planning.forecast import three
from stationary.planning.limits import Limit, check_slos, limit
from stationary.planning.what_if import Change
from stationary.terms.slo import Slo, as_slos, check_level, check_positive
from stationary.terms.trust import Doubt, Horizon, Reason
from stationary.trust.baselines import BASELINES
from stationary.trust.study import Comparison, Study, comparison, study

_RANKING = (
    *("model", "kind", "parameters", "nll", "aic", "bic"),
    *("backtest", "backtest_error", "misplaced", "weight", "note"),
)

_CHANCE = 0.005  # how likely so many losses may be by chance, if their share were the bound


@dataclass(frozen=True)
class Question:
    """What a plan answers unless it is asked something else."""

    slos: tuple[Slo, ...] = ()
    present: float | None = None  # to compare a limit with; by default the heaviest of the data
    level: float = 0.95
    missing: tuple[str, ...] = ()  # what an operator should say and did not, such as capacity


@dataclass(frozen=True, eq=False)
class Refits:
    """Parameters of a bootstrap."""

    theta: Tensor  # [B, P], of the refits that converged
    block: int = 1  # successive windows that were drawn as one block
    failed: int = 0  # refits that did not converge


@dataclass(frozen=True, eq=False)
class Record:
    """Estimates of one or several models on one data set, and what is known of them."""

    windows: Windows
    fitted: Mapping[str, Estimate]  # every model that was fitted to all windows, by name
    pooled: bool = False  # whether answers come from all models by weight, or from the first alone
    question: Question = Question()
    failed: Mapping[str, str] = field(default_factory=dict)  # models not fitted, and why
    seed: int = 0  # of draws, starts and orders
    history: pd.DataFrame = field(default_factory=pd.DataFrame)  # steps of a stochastic fit
    recipe: Mapping[str, str] = field(default_factory=dict)  # how it was made: command, method
    refits: Refits | None = None  # of a bootstrap, from which intervals are then made
    changed: tuple[Change, Draws] | None = None  # of a what-if: a system that was not observed
    discrepancy: Discrepancy | None = None  # model error that answers allow for
    # What was computed before, such as by the plan that was saved.
    known_studies: Mapping[str, Study] = field(default_factory=dict)
    known_comparison: Comparison | None = None
    known_draws: Draws | None = None
    known_limits: tuple[Limit, ...] = ()

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
        # A single model is compared with nothing, so it need not be studied for that.
        studies = self.studies if self.pooled or len(self.fitted) > 1 else {}
        return comparison(self.fitted, studies, self.windows)

    @cached_property
    def draws(self) -> Draws:
        """Weighted draws of models and parameters, as the data determine them."""
        if self.changed is not None:
            return self.changed[1]
        if self.known_draws is not None:
            return self.known_draws
        if self.refits is not None:
            return Draws((from_refits(self.estimate, self.refits.theta, self.name),))
        if not self.pooled:
            return Draws((from_estimate(self.estimate, seed=self.seed, name=self.name),))
        weights = self.comparison.weights
        names = [name for name, weight in weights.items() if weight > 0]
        if not names:
            raise InputError(
                "the data determine none of the models, so there is no answer: record heavier "
                "loads, or observe more states"
            )
        total = sum(weights[name] for name in names)
        parts = (
            from_estimate(self.fitted[name], weights[name] / total, self.seed + k, name)
            for k, name in enumerate(names)
        )
        if self.discrepancy is not None:
            parts = (more for part in parts for more in with_slowing(part, self.windows, self.seed))
        return Draws(tuple(parts))

    @cached_property
    def answering(self) -> Draws:
        """The draws with model error, from which every answer is made."""
        if self.discrepancy is None:
            return self.draws
        return self.discrepancy.applied(self.draws, self.seed)

    def answering_for(self, measures: Any) -> Draws:
        """Return the draws for some measures; that of a state needs the capacity as it is."""
        names = [measures] if isinstance(measures, str) else list(measures or [])
        usual = all(name in self.draws.measures or percentile_of(name) for name in names)
        if self.discrepancy is None or usual:
            return self.answering
        return replace(self.discrepancy, capacity=0.0).applied(self.draws, self.seed)

    @property
    def heaviest(self) -> float:
        """The heaviest load of the data."""
        return float(self.windows.loads.max())

    @property
    def name(self) -> str:
        """Name of the main model: the recommended one, else that of most weight."""
        if not self.pooled:
            return next(iter(self.fitted))
        dropped = () if self.change is None else self.change.dropped
        chosen, weights = self.comparison.choice.model, self.comparison.weights
        left = [name for name in self.fitted if name not in dropped]
        return chosen if chosen in left else max(left, key=lambda name: weights.get(name, 0.0))

    @property
    def estimate(self) -> Estimate:
        """The estimate of the main model."""
        return self.fitted[self.name]

    @property
    def model(self) -> Model:
        """A copy of the main model, at its estimates; of the changed one of a what-if."""
        return deepcopy(self.estimate.model if self.changed is None else self.draws.first)

    @property
    def change(self) -> Change | None:
        """What a what-if changed; None for a system that was observed."""
        return None if self.changed is None else self.changed[0]

    @property
    def doubt(self) -> Doubt | None:
        """Why no answer of this plan is trusted; None if there is no such reason."""
        if self.pooled:
            choice = self.comparison.choice
            return None if choice.model else Doubt(Reason.NO_MODEL, choice=choice)
        if not self.estimate.converged:
            return Doubt(Reason.NOT_CONVERGED)
        unknown = self.refits is None and not self.estimate.covariance.computed
        return Doubt(Reason.NO_ERRORS) if unknown else None

    def doubt_of(self, measures: Sequence[str]) -> Doubt | None:
        """Why no answer on these measures is trusted; None if there is no such reason."""
        times = [name for name in measures if percentile_of(name)]
        in_order = getattr(self.model, "discipline", "") == "fcfs"
        if self.doubt is None and times and in_order:
            found = self.studies[self.name].findings
            if any(each.code in ("overtake", "overtake_several") for each in found):
                return Doubt(Reason.ORDER, times[0])
        return self.doubt

    @property
    def horizon(self) -> Horizon:
        """Up to which load the main model is trusted."""
        found = self.studies[self.name].horizon
        return found if self.change is None else self.change.stretched(found)

    @property
    def aic(self) -> float:
        """Akaike's criterion, which takes counts as independent; of two models take the lower."""
        return float(self._criteria(self.estimate)["aic"])

    @property
    def bic(self) -> float:
        """The Bayesian criterion, read in the same way."""
        return float(self._criteria(self.estimate)["bic"])

    def _criteria(self, each: Estimate) -> dict[str, Any]:
        """Return what a fit is judged by."""
        parameters, counts = len(each.model.param_names), float(self.windows.size.sum())
        return {
            "parameters": parameters,
            "nll": each.nll,
            "aic": 2 * (each.nll + parameters),
            "bic": 2 * each.nll + parameters * math.log(counts),
            "note": words.left_out(each),
        }

    @explained
    def table(self, level: float = 0.95) -> pd.DataFrame:
        """Estimates with standard errors and intervals, one row per parameter."""
        frame = self.estimate.table(level)
        if self.refits is not None:
            theta = self.refits.theta.numpy()
            low, _, high = np.quantile(theta, three(level), axis=0, method="hazen")
            frame = frame.assign(std_error=theta.std(0, ddof=1), low=low, high=high)
        if self.change is not None:
            factor = self.model.theta.detach() / self.estimate.theta
            scaled = ["estimate", "std_error", "low", "high"]
            frame[scaled] = frame[scaled].mul(factor.numpy(), axis=0)
        return frame

    def ranking(self) -> pd.DataFrame:
        """Every model and baseline, best on held-out loads first.

        Returns
        -------
        DataFrame
            ``model``, ``kind`` (chain or baseline), ``parameters``, ``nll``, ``aic``, ``bic``
            (which take counts as independent), ``backtest`` (held-out negative log-likelihood per
            count), ``backtest_error`` (standard error of its difference to the best),
            ``misplaced`` (share of held-out counts put in the wrong place), ``weight`` in pooled
            answers, and a ``note``.
        """
        compared = self.comparison
        rows = {name: self._criteria(each) for name, each in self.fitted.items()}
        rows |= {name: {"note": words.not_fitted(why)} for name, why in self.failed.items()}
        chains = set(rows)
        rows |= {name: {"note": ""} for name in compared.scores if name in BASELINES}
        best = min(compared.scores.values(), key=lambda score: score.mean, default=None)
        for name, row in rows.items():
            row["model"], row["kind"] = name, "chain" if name in chains else "baseline"
            row["weight"] = compared.weights.get(name, 0.0 if name in chains else math.nan)
            if name in compared.scores and best is not None:
                score = compared.scores[name]
                row["backtest"] = score.mean
                row["backtest_error"] = score.behind(best, compared.held)[1]
                row["misplaced"] = score.misplaced
        frame = pd.DataFrame(list(rows.values())).reindex(columns=_RANKING)
        return frame.sort_values("backtest", kind="stable", ignore_index=True)

    def having(self, **changes: Any) -> Self:
        """Return the same with other fields; what was computed before and still holds is kept."""
        kept: dict[str, Any] = {"known_studies": self.__dict__.get("studies", self.known_studies)}
        if "fitted" not in changes and ("pooled" not in changes or len(self.fitted) > 1):
            kept["known_comparison"] = self.__dict__.get("comparison", self.known_comparison)
        anew = {"fitted", "pooled", "refits", "discrepancy"}
        if not changes.keys() & anew and self.changed is None:
            kept["known_draws"] = self.__dict__.get("draws", self.known_draws)
        if changes.keys() <= {"recipe", "question"}:
            kept["known_limits"] = tuple(self._limits.values())
        none = {"known_comparison": None, "known_draws": None, "known_limits": ()}
        return replace(self, **{**none, **kept, **changes})

    def asking(self, slos: Any, level: float | None, present: float | None) -> Question:
        """Return a checked question; the plan's own level and present load are the default."""
        level = self.question.level if level is None else level
        check_level(level)
        checked = as_slos(slos)
        if checked:
            check_slos([part.model for part in self.draws.parts], checked)
        if present is None:
            present = self.question.present
        else:
            check_positive(present, "the present load")
        return Question(checked, present, level, self.question.missing)

    @cached_property
    def _limits(self) -> dict[tuple[tuple[Slo, ...], float], Limit]:
        return {(found.slos, found.level): found for found in self.known_limits}

    def limit_of(self, question: Question) -> Limit:
        """Answer a question; the same one is computed once."""
        near, level, given = self.heaviest, question.level, question.present
        asked = question.slos, level
        if asked not in self._limits:
            doubt = self.doubt_of([slo.measure for slo in question.slos])
            found = limit(self.answering, question.slos, near, level, doubt, self.horizon)
            if found.doubt is None and _lost_already(self.windows, found):
                found = replace(found, doubt=Doubt(Reason.LOST, "loss"))
            self._limits[asked] = found
        found, present = self._limits[asked], near if given is None else given
        return replace(found, present=present, present_given=given is not None)

    def check_observed(self, what: str) -> None:
        """Raise unless the windows are of this very system."""
        if self.changed is not None:
            raise InputError(
                f"{what} needs windows of the system itself, and this one is a what-if: ask the "
                f"fit that was observed"
            )


def _lost_already(windows: Windows, found: Limit) -> bool:
    """Whether more requests were lost at the loads that a limit allows than its SLOs do.

    A queue at light load loses nothing. Where a log shows losses there, they have another cause,
    such as failures of the program, which no limit on the load prevents.
    """
    bounds = [slo.bound for slo in found.slos if slo.measure == "loss"]
    losses = windows.find(Losses)
    if not bounds or losses is None:
        return False
    allowed = (windows.loads <= found.load).numpy()
    lost, served = np.asarray(losses.data)[allowed].sum(0)
    # The lower end of the exact interval of a share (Clopper and Pearson).
    return bool(lost > 0 and betaincinv(lost, served + 1, _CHANCE) > min(bounds))
