"""A plan as tables: estimates of parameters, and how models compare."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from stationary import words
from stationary.learning.estimate import Estimate
from stationary.planning.forecast import three
from stationary.planning.record import Record
from stationary.trust.baselines import BASELINES

_RANKING = (
    *("model", "kind", "parameters", "nll", "aic", "bic"),
    *("backtest", "backtest_error", "misplaced", "weight", "note"),
)


def parameters(plan: Record, level: float) -> pd.DataFrame:
    """Estimates with standard errors and intervals, one row per parameter."""
    frame = plan.estimate.table(level)
    if plan.refits is not None:
        theta = plan.refits.theta.numpy()
        low, _, high = np.quantile(theta, three(level), axis=0, method="hazen")
        frame = frame.assign(std_error=theta.std(0, ddof=1), low=low, high=high)
    if plan.change is not None:
        factor = plan.model.theta.detach() / plan.estimate.theta
        scaled = ["estimate", "std_error", "low", "high"]
        frame[scaled] = frame[scaled].mul(factor.numpy(), axis=0)
    return frame


def ranking(plan: Record) -> pd.DataFrame:
    """Every model and baseline, best on held-out loads first; see `Plan.ranking`."""
    compared, counts = plan.comparison, float(plan.windows.size.sum())
    rows = {name: criteria(each, counts) for name, each in plan.fitted.items()}
    rows |= {name: {"note": words.not_fitted(why)} for name, why in plan.failed.items()}
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


def criteria(each: Estimate, counts: float) -> dict[str, Any]:
    """Return what a fit of so many counts is judged by."""
    parameters = len(each.model.param_names)
    return {
        "parameters": parameters,
        "nll": each.nll,
        "aic": 2 * (each.nll + parameters),
        "bic": 2 * each.nll + parameters * math.log(counts),
        "note": words.left_out(each),
    }
