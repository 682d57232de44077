"""The columns of the tables and studies: which methods there are, with their settings."""

from __future__ import annotations

import math
from functools import partial

from torch import Tensor

import stationary as st
from stationary.gradients import Doubling, Gradient, Powers
from stationary.paper.methods import (
    Baseline,
    Column,
    LeastSquares,
    MakeGradient,
    MaximumLikelihood,
    Trained,
    logistic,
    mean,
    zero,
)
from stationary.paper.settings import SETTINGS, Row, rows

_DEFAULTS, _OURS = SETTINGS["defaults"], SETTINGS["ours"]


def _through_time(
    kind: type[st.BPTT | st.DivideAndConquerBPTT], steps: int, row: Row, seeds: tuple[int, ...]
) -> Gradient:
    del seeds
    return kind(steps=steps, margin=row.margin)


def _infinity(p: float, row: Row, seeds: tuple[int, ...]) -> Gradient:
    return st.Infinity(p=p, seed=seeds, series=Powers(margin=row.margin))


def _ours(row: Row, seeds: tuple[int, ...]) -> Gradient:
    del row
    return st.Infinity(
        p=_OURS["p"], seed=seeds, series=Doubling(), least=_OURS["least"], control=True
    )


def _our_training(gradient: Gradient, row: Row, start: Tensor) -> st.Stochastic:
    return st.Stochastic(
        gradient,
        epochs=row.epochs,
        rule=st.optimisers.Adam(lr=_OURS["step"] * start.mean().item(), amsgrad=False),
        batch=_OURS["batch"],
        clip=math.inf,
        floor=_DEFAULTS["floor"],
        average=True,
    )


def _relaxed(name: str, title: str, gradient: MakeGradient, alpha: float) -> Column:
    titled, exact = f"{title}, alpha = {alpha:g}", f"mle-alpha-{alpha:g}"
    return Trained(f"{name}-{alpha:g}", titled, gradient, alpha=alpha, exact=exact)


TABLE_P: float = _DEFAULTS["p"][0]
"""Stopping probability of the tables."""

PAPER = Trained("infinity", "infinity-SGD (paper)", partial(_infinity, TABLE_P))
OURS = Trained("ours", "infinity-SGD (ours)", _ours, _our_training)

_DC_BPTT = {
    steps: partial(_through_time, st.DivideAndConquerBPTT, steps) for steps in _DEFAULTS["steps"]
}

THROUGH_TIME: list[Column] = [
    Trained(f"dc{steps}", f"DC-BPTT {steps}", gradient) for steps, gradient in _DC_BPTT.items()
]

TABLE: list[Column] = [
    *THROUGH_TIME,
    PAPER,
    OURS,
    LeastSquares("cls", "conditional least squares"),
    MaximumLikelihood("mle", "exact MLE"),
    Baseline("zero", "predict zero", zero),
    Baseline("mean", "training mean", mean),
    Baseline("logistic", "logistic on load", logistic),
]
"""The columns of the main tables."""

_BY_P: dict[float, Column] = {
    p: PAPER
    if p == TABLE_P
    else Trained(f"p-{p:g}", f"infinity-SGD, p = {p:g}", partial(_infinity, p))
    for p in sorted({p for row in rows().values() for p in row.p or _DEFAULTS["p"]}, reverse=True)
}

_BY_ALPHA: dict[float, Column] = {
    alpha: _relaxed("alpha", "infinity-SGD", partial(_infinity, TABLE_P), alpha)
    for alpha in _DEFAULTS["alpha"]
}

_EXACT_BY_ALPHA = [
    MaximumLikelihood(f"mle-alpha-{alpha:g}", f"exact, alpha = {alpha:g}", alpha=alpha)
    for alpha in _DEFAULTS["alpha"]
]

RELAXED: list[Column] = [
    _relaxed(f"dc{steps}-alpha", f"DC-BPTT {steps}", gradient, max(_DEFAULTS["alpha"]))
    for steps, gradient in _DC_BPTT.items()
]
"""Backpropagation through time with the relaxation that the text gives the main tables."""

TEXT: list[Column] = [
    *(
        Trained(f"bptt{n}", f"BPTT {n}, step by step", partial(_through_time, st.BPTT, n))
        for n in _DEFAULTS["steps"]
    ),
    *RELAXED,
    *(
        LeastSquares(f"cls-{weight:g}", f"least squares, weight {weight:g}", weight)
        for weight in SETTINGS["least_squares"]["weights"]
    ),
]
"""What the text speaks of and no table of the paper shows."""

METHODS: dict[str, Column] = {
    column.name: column
    for column in [*TABLE, *_BY_P.values(), *_BY_ALPHA.values(), *_EXACT_BY_ALPHA, *TEXT]
}
"""Every method by name, those of the studies included."""


def study(row: Row, name: str) -> dict[str, Column]:
    """Return the columns of a study of a row by ``alpha`` or by ``p``, by the value as printed."""
    if name == "alpha":
        return {f"{alpha:g}": column for alpha, column in _BY_ALPHA.items()}
    return {f"{p:g}": _BY_P[p] for p in row.p or _DEFAULTS["p"]}
