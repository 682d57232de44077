r"""The model ladder: which model to believe at loads nobody measured.

Likelihood rewards a model for the loads it saw. What counts is the others, so every rung is fitted
to the lightest windows and scored on the heaviest: the negative log-likelihood a count of each
held-out window, at several cuts, beside forecasts that need no chain. The simplest chain within one
standard error of the best is recommended, unless a forecast without a chain does better or it puts
too many counts in the wrong place. A chain with parameters that the data leaves open can say
anything about the states nobody saw: it is neither recommended nor pooled.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from stationary.backtest import WRONG, Misplaced, cuts, misplaced, predicted
from stationary.baselines import BASELINES
from stationary.data.windows import Windows
from stationary.errors import ConvergenceWarning, InputError, StationaryError
from stationary.fitting import fit
from stationary.forecast import Limit, check_bound, invert
from stationary.inference import Array
from stationary.models import Model
from stationary.parallel import Progress, in_parallel
from stationary.pooling import pooled_forecast, stacking_weights
from stationary.result import Fit

_CLEARLY = 2.0
"""Standard errors of a difference from which one forecast is clearly better than another."""


_NOTHING = 1e-6
"""Nats a count that are no difference: a model and one that holds it as a limit."""


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
    def determined(self) -> bool:
        """Whether the windows determine all of its parameters."""
        return not self.fit.covariance.flat.size


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
        doubt = "" if self.recommended else self.reason
        weight = self.weights
        parts = [
            (rung.fit, rung.below, weight[rung.name])
            for rung in self.rungs
            if weight[rung.name] > 0
        ]
        if not parts:
            raise InputError("the data determines none of the models, so there is nothing to pool")
        return pooled_forecast(parts, x, level, doubt)

    def max_load(self, level: float = 0.95, present: float | None = None, **bound: float) -> Limit:
        """Return the largest load that meets a bound, by the pooled forecast."""
        if len(bound) != 1:
            raise InputError(
                f"max_load takes one bound, as in max_load(loss=0.001); got {sorted(bound)}"
            )
        [(measure, value)] = bound.items()
        near = float(self.windows.loads.max())
        check_bound(self.rungs[0].fit.model, measure, value)
        limit = invert(lambda load: self.forecast([load], level), measure, value, near)
        reasons = self.forecast([min(limit.load, 1e6 * near)], level)["reason"]
        present = near if present is None else present
        return replace(limit, level=level, present=present, reason=str(reasons.iloc[0]))

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
        models = {model.name or type(model).__name__: model for model in models}
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


@dataclass(frozen=True)
class _Scores:
    """Held-out negative log-likelihood a count ``[W]`` over all cuts; misplaced at the first."""

    a_count: Array
    wrong: Misplaced


def _judge(
    windows: Windows, places: list[float], rungs: list[Rung], failed: dict[str, str]
) -> Comparison:
    lines = [_line(rung, windows) for rung in rungs]
    lines += [
        {"model": name, "kind": "chain", "note": f"not fitted: {why}"}
        for name, why in failed.items()
    ]
    if not places:
        reason = (
            "None can be recommended: too few windows, or too few different loads, to hold the "
            "heaviest out and test on them."
        )
        table = pd.DataFrame([{"backtest": np.nan, "weight": np.nan} | line for line in lines])
        known = [rung.name for rung in rungs if rung.determined]
        even = table["model"].isin(known) / max(len(known), 1)
        return Comparison(windows, table.assign(weight=even), None, reason, tuple(rungs))
    held = [windows.select(windows.loads.numpy() > cut) for cut in places]
    scores = {rung.name: _score_chain(rung, held) for rung in rungs}
    for name, baseline in BASELINES.items():
        try:
            parts = [
                baseline(windows.between(None, cut), part)
                for cut, part in zip(places, held, strict=True)
            ]
        except StationaryError:
            continue  # a law of queue lengths, where none were counted
        scores[name] = _score(parts, held)
        lines.append({"model": name, "kind": "baseline", "note": ""})
    best = min(scores, key=lambda name: scores[name].a_count.mean())
    weights = _weights(rungs, scores, held)
    for line in lines:
        score = scores.get(line["model"])
        if score is not None:
            line |= {
                "backtest": float(score.a_count.mean()),
                "backtest_error": _error(score.a_count - scores[best].a_count, held),
                "misplaced": score.wrong.share,
                "weight": weights.get(line["model"], np.nan),
            }
    table = pd.DataFrame(lines).sort_values("backtest", kind="stable", ignore_index=True)
    order = {name: k for k, name in enumerate(table["model"])}
    rungs = sorted(rungs, key=lambda rung: order[rung.name])
    recommended, reason = _recommend(rungs, scores, held, places)
    return Comparison(windows, table, recommended, reason, tuple(rungs))


def _line(rung: Rung, windows: Windows) -> dict[str, Any]:
    parameters, nll = len(rung.fit.model.param_names), rung.fit.nll
    notes = [] if rung.fit.converged else ["not converged"]
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


def _score_chain(rung: Rung, held: list[Windows]) -> _Scores:
    parts = [
        predicted(fit.model, fit.model.theta.detach(), part)
        for fit, part in zip(rung.below, held, strict=True)
    ]
    return _score(parts, held)


def _score(parts: list[Array], held: list[Windows]) -> _Scores:
    each = []
    for p, windows in zip(parts, held, strict=True):
        counts = windows.counts.numpy()
        each.append(-(counts * np.log(np.maximum(p, 1e-290))).sum(-1) / counts.sum(-1))
    return _Scores(np.concatenate(each), misplaced(parts[0], held[0]))


def _error(difference: Array, held: list[Windows]) -> float:
    """Standard error of a mean difference; a window held out at several cuts counts once."""
    return float(difference.std() / np.sqrt(len(held[0])))


def _weights(
    rungs: list[Rung], scores: dict[str, _Scores], held: list[Windows]
) -> dict[str, float]:
    known = [rung.name for rung in rungs if rung.determined]
    weights = dict.fromkeys((rung.name for rung in rungs), 0.0)
    if not known:
        return weights
    seen = np.concatenate([part.counts.sum(-1).numpy() for part in held])
    shares = np.concatenate([(part.counts / part.counts.sum(-1, keepdim=True)) for part in held])
    entropy = -(shares * np.log(np.maximum(shares, 1e-300))).sum(-1)
    a_count = np.stack([scores[name].a_count for name in known], -1)
    best = a_count[:, a_count.mean(0).argmin()]
    # Counts hang together, and no chain is quite right: what the best leaves unexplained, over what
    # independent counts would leave, is how many of them are worth one.
    worth = max(float((2 * seen * (best - entropy)).mean() / (shares.shape[1] - 1)), 1.0)
    parameters = np.array([len(rung.fit.model.param_names) for rung in rungs if rung.determined])
    found = stacking_weights(-a_count * seen[:, None] / worth, parameters)
    return weights | dict(zip(known, found.tolist(), strict=True))


def _recommend(
    rungs: list[Rung], scores: dict[str, _Scores], held: list[Windows], places: list[float]
) -> tuple[str | None, str]:
    """Return the simplest chain within a standard error of the best, and why; or None, and why."""
    rungs = [rung for rung in rungs if rung.determined]
    if not rungs:
        return None, "None is to be trusted: the data leaves parameters of every one of them open."
    best = rungs[0]
    ahead = scores[best.name]

    def behind(name: str) -> tuple[float, float]:
        difference = scores[name].a_count - ahead.a_count
        return float(difference.mean()), _error(difference, held)

    near = []
    for rung in rungs:
        gap, error = behind(rung.name)
        if gap <= max(error, _NOTHING):
            near.append(rung)
    chosen = min([best, *near], key=lambda rung: len(rung.fit.model.param_names))
    loads = f"{places[0]:.4g} to {float(held[0].loads.max()):.4g}"
    for name in BASELINES.keys() & scores.keys():
        gap, error = behind(name)
        if gap < -_CLEARLY * error:
            return None, (
                f"None is to be trusted: at the held-out loads {loads}, {name!r} forecasts better "
                f"than the best of them, {best.name}."
            )
    wrong = scores[chosen.name].wrong
    if wrong.share - 2 * wrong.error > WRONG:
        return None, (
            f"None is to be trusted: the best, {chosen.name}, fitted to loads up to "
            f"{places[0]:.4g}, puts {wrong.share:.0%} of the counts at {loads} in the wrong place."
        )
    reason = f"Take {chosen.name}: "
    if chosen is best:
        reason += f"it forecasts the held-out loads {loads} best of all chains"
    else:
        reason += (
            f"it is the simplest chain that forecasts the held-out loads {loads} as well as the "
            f"best, {best.name}, within its noise"
        )
    reason += f", and puts {wrong.share:.1%} of the counts there in the wrong place."
    if not chosen.fit.converged:
        reason += " Its fit to all windows did not converge: look at it before you use it."
    return chosen.name, reason
