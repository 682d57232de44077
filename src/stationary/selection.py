r"""The model ladder: which model to believe at loads nobody measured.

Likelihood rewards a model for the loads it saw. What counts is the others, so every rung is fitted
to the lightest windows and scored on the heaviest: the negative log-likelihood a count of each
held-out window, at several cuts, beside forecasts that need no chain. The simplest chain within one
standard error of the best is recommended, unless a forecast without a chain does better or it puts
too many counts in the wrong place. A chain with parameters that the data leaves open can say
anything about the states nobody saw: it is neither recommended nor pooled, nor is one whose fit did
not converge.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from stationary.backtest import cuts
from stationary.baselines import BASELINES
from stationary.data.windows import Windows
from stationary.errors import ConvergenceWarning, InputError, StationaryError
from stationary.fitting import fit
from stationary.limits import Limit, check_bound, check_present, invert, judged, one_bound
from stationary.models import Model
from stationary.objective import predicted
from stationary.parallel import Progress, in_parallel
from stationary.pooling import Part, common_measures, pooled_forecast
from stationary.result import Fit
from stationary.scoring import Score, recommend, score, weigh

_NOTHING = 1e-6
"""Nats a count that are no difference: a model and one that holds it as a limit."""

_COLUMNS = (
    *("model", "kind", "parameters", "nll", "aic", "bic"),
    *("backtest", "backtest_error", "misplaced", "weight", "note"),
)


@dataclass(frozen=True, eq=False)
class Rung:
    """One model of the ladder, fitted to all windows and to the lightest at each cut.

    Attributes
    ----------
    name : str
        What the caller calls it.
    fit : Fit
        To all windows.
    below : tuple of Fit
        To the windows up to each cut.
    """

    name: str
    fit: Fit
    below: tuple[Fit, ...]

    @property
    def usable(self) -> bool:
        """Whether its fit converged, and the windows determine all of its parameters."""
        return self.fit.converged and not self.fit.covariance.flat.size


@dataclass(frozen=True, eq=False)
class Comparison:
    """The model ladder on one data set.

    Attributes
    ----------
    windows : Windows
        The data.
    table : DataFrame
        One row a chain or baseline, best backtest first: ``model``, ``kind`` (chain or baseline),
        ``parameters``, ``nll``, ``aic``, ``bic`` (these take counts as independent), ``backtest``
        (held-out negative log-likelihood a count), ``backtest_error`` (standard error of its
        difference to the best), ``misplaced`` (share of held-out counts put in the wrong place),
        ``weight`` in the pooled forecast, and a ``note``.
    recommended : str or None
        The model to take, if any is to be trusted.
    reason : str
        Why, for people.
    rungs : tuple of Rung
        The chains, in the order of the table.
    """

    windows: Windows
    table: pd.DataFrame
    recommended: str | None
    reason: str
    rungs: tuple[Rung, ...]

    @property
    def weights(self) -> dict[str, float]:
        """Weight of every chain in the pooled forecast."""
        chains = self.table[self.table["kind"] == "chain"]
        return dict(zip(chains["model"], chains["weight"], strict=True))

    @property
    def fits(self) -> dict[str, Fit]:
        """Every chain fitted to all windows."""
        return {rung.name: rung.fit for rung in self.rungs}

    def forecast(self, x: Any, level: float = 0.95) -> pd.DataFrame:
        """Forecast pooled over the chains, by weight; its intervals hold model uncertainty, too."""
        return pooled_forecast(self._parts(), x, level, self._doubt)

    def max_load(self, level: float = 0.95, present: float | None = None, **bound: float) -> Limit:
        """Return the largest load that meets a bound, by the pooled forecast."""
        measure, value = one_bound(bound)
        parts = self._parts()
        first = max(parts, key=lambda part: part[2])[0]
        near = float(self.windows.loads.max())
        present = near if present is None else float(present)
        check_present(present)
        check_bound(first.model, measure, value)
        if measure not in common_measures(parts):
            raise InputError(f"the pooled models do not mean the same by {measure}: name one model")
        limit = invert(lambda load: self.forecast([load], level), measure, value, near)
        return judged(replace(limit, level=level, present=present), self._doubt, first.horizon)

    @property
    def _doubt(self) -> str:
        return "" if self.recommended else self.reason.rstrip(".")

    def _parts(self) -> list[Part]:
        weight = self.weights
        parts: list[Part] = [
            (rung.fit, rung.below, weight[rung.name])
            for rung in self.rungs
            if weight[rung.name] > 0
        ]
        if not parts:
            raise InputError("the data determines none of the models, so there is nothing to pool")
        return parts

    def __str__(self) -> str:
        shown = self.table.drop(columns="note").to_string(
            index=False, float_format=lambda value: f"{value:.4g}", na_rep="-"
        )
        return f"{shown}\n{self.reason}"


def compare(
    models: Mapping[str, Model] | Sequence[Model],
    windows: Windows,
    *,
    starts: int = 3,
    seed: int = 0,
    jobs: int = -1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Fit every model, and backtest it on heavier load than it was fitted to.

    Parameters
    ----------
    models : mapping or sequence of Model
        The ladder, by name.
    windows : Windows
        The data.
    starts, seed
        As for `fit`.
    jobs, cluster, progress
        As for `stationary.parallel.in_parallel`.

    Examples
    --------
    >>> import stationary as st
    >>> truth = st.models.ErlangService(phases=4, capacity=10, service_rate=25.0)
    >>> windows = st.simulate(truth, x=[6.0, 9.0, 12.0, 15.0, 18.0] * 6, duration=40.0, seed=1)
    >>> ladder = {"M/M/1/K": st.models.MMmK(capacity=10),
    ...           "steady": st.models.ErlangService(phases=4, capacity=10)}
    >>> compare(ladder, windows).recommended
    'steady'
    """
    if not isinstance(models, Mapping):
        names = [model.name or type(model).__name__ for model in models]
        if len(set(names)) < len(names):
            raise InputError(f"two models have the same name; pass a mapping of names: {names}")
        models = dict(zip(names, models, strict=True))
    taken = sorted(set(models) & set(BASELINES))
    if taken:
        raise InputError(f"a model cannot have the name of a baseline, {taken[0]!r}")
    if not models:
        raise InputError("there are no models to compare; name at least one")
    if len(windows.inputs) != 1:
        raise InputError(f"a ladder is backtested over one load; got {', '.join(windows.inputs)}")
    most = max(len(model.param_names) for model in models.values())
    places = cuts(windows, most) or cuts(windows, 1)
    climb = _Climb(windows, tuple(places), starts, seed)
    found = in_parallel(climb, list(models.items()), jobs=jobs, cluster=cluster, progress=progress)
    rungs = [rung for rung in found if isinstance(rung, Rung)]
    failed = {name: why for name, why in zip(models, found, strict=True) if isinstance(why, str)}
    if not rungs:
        raise InputError(f"no model could be fitted: {next(iter(failed.values()))}")
    return _judge(windows, places, rungs, failed)


@dataclass(frozen=True)
class _Climb:
    """Fit one model to all windows and below every cut; what is wrong, as text, if it cannot."""

    windows: Windows
    cuts: tuple[float, ...]
    starts: int
    seed: int

    def __call__(self, item: tuple[str, Model]) -> Rung | str:
        name, model = item
        parts = [self.windows, *(self.windows.between(None, cut) for cut in self.cuts)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the table says it
            try:
                whole, *below = (
                    fit(model, part, starts=self.starts, seed=self.seed) for part in parts
                )
            except StationaryError as error:
                return str(error)
        return Rung(name, whole, tuple(below))


def _judge(
    windows: Windows, places: list[float], rungs: list[Rung], failed: dict[str, str]
) -> Comparison:
    lines = [_line(rung, windows) for rung in rungs]
    lines += [
        {"model": name, "kind": "chain", "note": f"not fitted: {why}"}
        for name, why in failed.items()
    ]
    parameters = {r.name: len(r.fit.model.param_names) for r in rungs if r.usable}
    if places:
        held = [windows.select(windows.loads.numpy() > cut) for cut in places]
        scores = {rung.name: _score_chain(rung, held) for rung in rungs}
        scores |= _rivals(windows, places, held)
        lines += [
            {"model": name, "kind": "baseline", "note": ""} for name in scores if name in BASELINES
        ]
        fitting = {r.name: parameters[r.name] for r in rungs if r.usable and r.fit.horizon.load}
        recommended, reason = recommend(scores, parameters, fitting, held)
        weights = weigh(scores, parameters, held)
        best = min(scores.values(), key=lambda score: score.mean)
        for line in lines:
            score_of = scores.get(line["model"])
            if score_of is not None:
                line["backtest"] = score_of.mean
                line["backtest_error"] = score_of.behind(best, len(held[0]))[1]
                line["misplaced"] = score_of.wrong.share
    else:
        recommended, reason = (
            None,
            (
                "None can be recommended: too few windows, or too few different loads, to hold the "
                "heaviest out and test on them."
            ),
        )
        weights = dict.fromkeys(parameters, 1 / max(len(parameters), 1))
    for line in lines:
        line["weight"] = weights.get(line["model"], 0.0 if line["kind"] == "chain" else math.nan)
    table = pd.DataFrame(lines).reindex(columns=_COLUMNS)
    table = table.sort_values("backtest", kind="stable", ignore_index=True)
    order = {name: k for k, name in enumerate(table["model"])}
    rungs = sorted(rungs, key=lambda rung: order[rung.name])
    return Comparison(windows, table, recommended, reason, tuple(rungs))


def _rivals(windows: Windows, places: list[float], held: list[Windows]) -> dict[str, Score]:
    found = {}
    for name, baseline in BASELINES.items():
        try:
            forecasts = [
                baseline(windows.between(None, cut), part)
                for cut, part in zip(places, held, strict=True)
            ]
        except StationaryError:
            continue  # a law of queue lengths where none were counted, a trend in negative loads
        found[name] = score(forecasts, held)
    return found


def _line(rung: Rung, windows: Windows) -> dict[str, Any]:
    parameters, nll = len(rung.fit.model.param_names), rung.fit.nll
    notes = [] if rung.fit.converged else ["not converged: not pooled"]
    open_ = rung.fit.covariance.flat.shape[1]
    if open_:
        notes.append(f"{open_} of {parameters} directions not determined: not pooled")
    return {
        "model": rung.name,
        "kind": "chain",
        "parameters": parameters,
        "nll": nll,
        "aic": 2 * (nll + parameters),
        "bic": 2 * nll + parameters * math.log(float(windows.counts.sum())),
        "note": "; ".join(notes),
    }


def _score_chain(rung: Rung, held: list[Windows]) -> Score:
    forecasts = [
        predicted(fit.model, fit.model.theta.detach(), part)
        for fit, part in zip(rung.below, held, strict=True)
    ]
    return score(forecasts, held)
