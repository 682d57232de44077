"""Answers for programs: the records that ``--json`` prints. Their keys are a contract."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stationary as st
from stationary import words
from stationary._support.plain import finite

if TYPE_CHECKING:
    import pandas as pd

    from stationary.planning.experiment import Experiment
    from stationary.trust.identifiability import Identifiability


def as_json(value: Any) -> str:
    """Strict JSON: a number that is not finite becomes null."""
    return json.dumps(finite(value), indent=2, allow_nan=False)


def limit_record(limit: st.Limit | None) -> dict[str, Any] | None:
    """Return the largest load that meets the objectives."""
    if limit is None:
        return None
    return {
        **{name: getattr(limit, name) for name in ("load", "low", "high", "level")},
        "binding": f"{limit.binding.measure} <= {limit.binding.bound:g}",
        "measure": limit.binding.measure,
        "bound": limit.binding.bound,
        "slos": [{"measure": slo.measure, "bound": slo.bound} for slo in limit.slos],
        "status": str(limit.status),
        "reason": "" if limit.doubt is None else words.doubt(limit.doubt),
        **{
            name: getattr(limit, name)
            for name in ("present", "headroom", "trusted", "tested", "failed")
        },
    }


def fit_record(plan: st.Plan, limit: st.Limit | None, output: Path | None) -> dict[str, Any]:
    """Return what ``stationary fit`` found."""
    from stationary.models.registry import describe

    found, level, windows = plan.estimate, plan.question.level, plan.windows
    return {
        "model": describe(found.model),
        "parameters": found.table(level).to_dict("records"),
        "level": level,
        "windows": windows.recorded,
        "loads": [float(windows.loads.min()), float(windows.loads.max())],
        "observed": list(windows.labels),
        "message": words.ended(found.ended),
        "standard_errors": words.covariance(found.covariance, windows.recorded),
        "bootstrap": None if plan.refits is None else plan.table(level).to_dict("records"),
        "warnings": plan.warnings(),
        "limit": limit_record(limit),
        "run": str(output) if output else None,
        **{
            name: getattr(found, name)
            for name in ("nll", "converged", "gradient_norm", "evaluations")
        },
    }


def check_record(plan: st.Plan, known: Identifiability) -> dict[str, Any]:
    """Return what ``stationary check`` found."""
    horizon = plan.horizon
    return {
        "model": plan.name,
        "checks": [{**asdict(each), "sentence": words.finding(each)} for each in plan.findings],
        "directions": [
            {**asdict(each), "sentence": words.direction(each)} for each in known.directions
        ],
        "ranges": known.ranges.to_dict("records"),
        "horizon": {**asdict(horizon), "sentence": words.sentence(words.horizon(horizon))},
        "converged": plan.converged,
        "warnings": plan.warnings(),
        **{
            name: getattr(known, name)
            for name in ("determined", "parameters", "rank", "condition", "nats", "dispersion")
        },
    }


def comparison_record(
    plan: st.Plan, frame: pd.DataFrame | None, limit: st.Limit | None
) -> dict[str, Any]:
    """Return what ``stationary compare`` found."""
    return {
        "recommended": plan.recommended,
        "reason": words.choice(plan.comparison.choice),
        "models": plan.ranking().to_dict("records"),
        "forecast": [] if frame is None else frame.to_dict("records"),
        "limit": limit_record(limit),
        "notes": list(words.warned(plan)),
        **({} if limit is None else _grounds(plan)),
    }


def _grounds(plan: st.Plan) -> dict[str, Any]:
    """What an answer takes as given, and what makes the width of its interval."""
    taken = [
        {**asdict(each), "others": [{"value": v, "load": load} for v, load in each.others]}
        for each in plan.assumed()
    ]
    longest = plan.windows.longest_queue
    return {"assumed": taken, "interval": asdict(plan.breakdown()), "longest_queue": longest}


def plan_record(
    plan: st.Plan,
    limit: st.Limit,
    alone: Sequence[st.Limit],
    rows: list[dict[str, Any]],
    notes: Sequence[str],
) -> dict[str, Any]:
    """Return what ``stationary plan`` found."""
    windows, growth = plan.windows, plan.recipe.get("growth")
    return {
        "answer": words.plan_answer(limit, alone, plan.recipe.get("unit", "")),
        "limit": limit_record(limit),
        "slos": [limit_record(each) for each in alone],
        "present": limit.present,
        "headroom": limit.headroom,
        "growth": growth,
        "forecast": rows,
        **_grounds(plan),
        "models": {name: weight for name, weight in plan.weights.items() if weight > 0},
        "windows": {
            "count": windows.recorded,
            "loads": [float(windows.loads.min()), float(windows.loads.max())],
            "duration": None if windows.duration is None else float(windows.duration.mean()),
            "observed": [kind.kind for kind in windows.observations],
        },
        "notes": [*words.warned(plan), *notes],
    }


def forecast_record(
    plan: st.Plan,
    rows: list[dict[str, Any]],
    limit: st.Limit,
    now: st.Limit | None,
    test: Experiment | None,
) -> dict[str, Any]:
    """Return what ``stationary forecast`` found, if a limit was asked for."""
    return {
        "limit": limit_record(limit),
        "what_if": [] if plan.change is None else [words.change(plan.change)],
        "limit_now": limit_record(now),
        "longest_queue": plan.windows.longest_queue,
        "forecast": rows,
        "next_experiment": [] if test is None else test.rows(),
    }
