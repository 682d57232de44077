"""Fits: how they ended, how sure they are, and what a reader must know."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stationary.words import answers, headlines, plans
from stationary.words.numbers import listed, plural, sentence

if TYPE_CHECKING:
    from stationary.data.windows import Windows
    from stationary.facade import Plan
    from stationary.learning.estimate import Ended, Estimate
    from stationary.learning.inference import Covariance

_NEXT = "plan.what_if(servers=...), plan.forecast(loads), plan.report('report.html')"
"""What to do with a plan in Python."""

_ENDED = {
    "converged": "no step improves the likelihood noticeably",
    "settled": "no step improves the likelihood noticeably; other weights may be as good",
    "ran away": "the likelihood keeps improving as {found.parameter} runs to its limit "
    "({found.value:.3g}): the data do not bound it; observe more states or loads, or take a "
    "smaller model",
    "stalled": "it stopped {where}; try more starts= or max_iterations=",
    "epochs": "{epochs}, {where}",
    "patience": "{epochs}, the last {found.stale} of them without a lower training loss, {where}",
    "stopped": "the callback ended it after {epochs}, {where}",
    "found": "found by another method, {where}",
}
"""How a fit ended."""

_FAR = 1000.0
"""Nats above the optimum from which the estimate of them, by one Newton step, is meaningless."""

_COVARIANCES = {
    "none": "none, because weights of a network have none",
    "information": "observed information",
    "dispersed": "observed information, times the overdispersion of the counts",
    "correlated": "the fitted chain's own autocorrelation",
}
"""How standard errors were computed."""

_SUPPOSES = {
    "information": "counts inside a window are independent, which they are not",
    "dispersed": "all counts scatter alike, more than independent ones would",
    "correlated": "the model is right",
}
"""What standard errors suppose."""


def ended(found: Ended) -> str:
    """Return how a fit ended, as a clause."""
    where = f"about {found.above:.1g} nats above the optimum"
    if math.isnan(found.above):
        where = "at an unknown distance from an optimum"
    elif not found.above <= _FAR:
        where = "far from an optimum of the likelihood"
    epochs = plural(found.epochs, "epoch")
    return _ENDED[str(found.why)].format(found=found, where=where, epochs=epochs)


def covariance(found: Covariance, windows: int) -> str:
    """Return how standard errors were computed."""
    blocks = f" in blocks of {found.block}" if found.block > 1 else ""
    if found.kind == "sandwich":
        return f"sandwich over {plural(windows, 'window')}{blocks}"
    return _COVARIANCES.get(found.kind, found.kind)


def warnings(estimate: Estimate, windows: Windows) -> list[str]:
    """Return what a reader must know before relying on the numbers."""
    notes = []
    if not estimate.converged:
        notes.append(f"The fit did not converge: {ended(estimate.ended)}")
    if estimate.heavy_tails:
        notes.append(
            "The gradients' variance is infinite at the start: p is not below delta (2 - delta), "
            "with delta the spectral gap. The fit leans on clipping. Use a smaller p, p=auto, or "
            "the doubling series."
        )
    if estimate.model.weights:
        notes.append(
            "The parameters are weights of a network, of which the data determine the rates at the "
            "loads that were observed and no more: there are no standard errors, and no forecast "
            "is trusted; a bootstrap shows how far refits differ."
        )
    elif not estimate.covariance.computed:
        notes.append(
            "The standard errors could not be computed, so that no forecast is trusted; take "
            "another covariance=, or a bootstrap."
        )
    table = estimate.table()
    flat = ~table["determined"] & table["std_error"].notna()
    open_ = table.loc[flat, "parameter"].tolist()
    if open_:
        notes.append(
            f"The data do not determine {len(open_)} of {len(table)} parameters "
            f"({listed(open_, 6)}); a forecast that depends on them is marked as not trusted."
        )
    supposes = _SUPPOSES.get(estimate.covariance.kind)
    if supposes and not all(kind.independent for kind in windows.observations):
        notes.append(
            f"Standard errors do not come from the spread of "
            f"{plural(windows.recorded, 'window')}; they suppose that {supposes}."
        )
    return notes


def observed(windows: Windows) -> str:
    """Return what the windows hold, in a line."""
    loads = f", loads {float(windows.loads.min()):g} to {float(windows.loads.max()):g}"
    if len(windows.inputs) > 1 and all(kind.independent for kind in windows.observations):
        loads = ""  # menus have none
    pooled = f" pooled into {len(windows)}" if windows.is_pooled else ""
    kinds = "; ".join(kind.shown for kind in windows.observations)
    aside = ", ".join(kind.kind for kind in windows.aside)
    unused = f" (of the same requests, so set aside: {aside})" if aside else ""
    return f"{plural(windows.recorded, 'window')}{pooled}{loads}, observed {kinds}{unused}"


def left_out(estimate: Estimate) -> str:
    """Say why a model is not pooled with others; empty if it is."""
    notes = [] if estimate.converged else ["not converged: not pooled"]
    open_, parameters = estimate.covariance.flat.shape[1], len(estimate.model.param_names)
    if open_:
        notes.append(f"{open_} of {parameters} directions not determined: not pooled")
    if not estimate.covariance.computed:
        notes.append("standard errors could not be computed: not pooled")
    return "; ".join(notes)


def not_fitted(why: str) -> str:
    """Say of a model that it could not be fitted."""
    return f"not fitted: {why}"


def summary(found: Plan) -> str:
    """Estimates, standard errors, likelihood, convergence and warnings of a fit, as text."""
    estimate, windows, model = found.estimate, found.windows, found.model
    level, most = found.question.level, 30
    table = found.table(level)
    shown = (
        table.head(most)
        .drop(columns="determined")
        .to_string(index=False, float_format=lambda value: f"{value:.5g}")
    )
    if len(table) > most:
        shown += f"\n... and {len(table) - most} more parameters: fit.table()"
    how = "converged" if estimate.converged else "NOT converged"
    cov = estimate.covariance
    lines = [
        f"{type(model).__name__}({model.extra_repr()})",
        observed(windows),
        "",
        shown,
        "",
        f"negative log-likelihood {estimate.nll:.6f} over {float(windows.size.sum()):.0f} counts",
        f"{how}: {ended(estimate.ended)}",
        f"largest gradient {estimate.gradient_norm:.1e} nats per count, "
        f"{plural(estimate.evaluations, 'gradient evaluation')}, "
        f"{plural(estimate.starts, 'start')}",
        f"standard errors: {covariance(cov, windows.recorded)}"
        + (
            f", variance {cov.inflation:.3g} times that of independent counts; intervals "
            f"{100 * level:g}%"
        )
        * cov.computed,
        *([] if found.refits is None else [f"intervals: {headlines.refits(found.refits)}"]),
        *(f"WARNING: {note}" for note in warnings(estimate, windows)),
    ]
    return "\n".join(lines)


def plan(found: Plan) -> str:
    """Return a plan as text: the screen of its answer, or its model or how its models compare."""
    lines = []
    table = found.ranking().drop(columns="note") if found.pooled else None
    if found.question.slos and table is not None and found.change is None:
        notes = list(plans.warned(found))
        lines += [plans.plan_screen(found, found.limit, found.limits, notes, _NEXT), ""]
        table = table[["model", "kind", "misplaced", "weight"]]
    elif found.question.slos:
        limit = found.limit
        lines += [answers.plan_answer(limit, reason=True), headlines.headroom(limit), ""]
    if table is not None:
        lines.append(table.to_string(index=False, float_format=lambda v: f"{v:.4g}", na_rep="-"))
        lines.append(answers.choice(found.comparison.choice))
    else:
        lines.append(summary(found))
    if found.change is not None:
        lines.append(sentence(answers.what_if(found.change)))
    return "\n".join(lines)
