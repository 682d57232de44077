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
    MaximumLikelihood,
    Trained,
    logistic,
    mean,
    zero,
)
from stationary.paper.settings import Row, defaults, rows, section


def _through_time(steps: int, row: Row, seeds: tuple[int, ...]) -> Gradient:
    del seeds
    return st.DivideAndConquerBPTT(steps=steps, margin=row.margin)


def _step_by_step(steps: int, row: Row, seeds: tuple[int, ...]) -> Gradient:
    del seeds
    return st.BPTT(steps=steps, margin=row.margin)


def _infinity(p: float, row: Row, seeds: tuple[int, ...]) -> Gradient:
    return st.Infinity(p=p, seed=seeds, series=Powers(margin=row.margin))


def _ours(row: Row, seeds: tuple[int, ...]) -> Gradient:
    del row
    p, least = section("ours")["p"], section("ours")["least"]
    return st.Infinity(p=p, seed=seeds, series=Doubling(), least=least, control=True)


def _our_training(gradient: Gradient, row: Row, start: Tensor) -> st.Stochastic:
    given = section("ours")
    return st.Stochastic(
        gradient,
        epochs=row.epochs,
        rule=st.optimisers.Adam(lr=given["step"] * start.mean().item(), amsgrad=False),
        batch=given["batch"],
        clip=math.inf,
        floor=defaults()["floor"],
        average=True,
    )


TABLE_P: float = defaults()["p"][0]
"""Stopping probability of the tables."""

PAPER = Trained("infinity", "infinity-SGD (paper)", partial(_infinity, TABLE_P))
OURS = Trained("ours", "infinity-SGD (ours)", _ours, _our_training, at_zero=False)

THROUGH_TIME: list[Column] = [
    Trained(f"dc{steps}", f"DC-BPTT {steps}", partial(_through_time, steps))
    for steps in defaults()["steps"]
]

TABLE: list[Column] = [
    *THROUGH_TIME,
    PAPER,
    OURS,
    LeastSquares("cls", "conditional least squares", section("least_squares")["weight"]),
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
    for p in sorted({p for row in rows().values() for p in row.p or defaults()["p"]}, reverse=True)
}

_EXACT_BY_ALPHA = {
    alpha: MaximumLikelihood(f"mle-alpha-{alpha:g}", f"exact, alpha = {alpha:g}", alpha=alpha)
    for alpha in defaults()["alpha"]
}

_BY_ALPHA: dict[float, Column] = {
    alpha: Trained(
        f"alpha-{alpha:g}",
        f"infinity-SGD, alpha = {alpha:g}",
        partial(_infinity, TABLE_P),
        alpha=alpha,
        exact=exact.name,
    )
    for alpha, exact in _EXACT_BY_ALPHA.items()
}

_STRONGEST: float = max(defaults()["alpha"])

RELAXED: list[Column] = [
    Trained(
        f"dc{steps}-alpha-{_STRONGEST:g}",
        f"DC-BPTT {steps}, alpha = {_STRONGEST:g}",
        partial(_through_time, steps),
        alpha=_STRONGEST,
        exact=f"mle-alpha-{_STRONGEST:g}",
    )
    for steps in defaults()["steps"]
]
"""Backpropagation through time with the relaxation that the text gives the main tables."""

TEXT: list[Column] = [
    *(
        Trained(f"bptt{steps}", f"BPTT {steps}, step by step", partial(_step_by_step, steps))
        for steps in defaults()["steps"]
    ),
    *RELAXED,
    *(
        LeastSquares(f"cls-{weight:g}", f"least squares, weight {weight:g}", weight)
        for weight in section("least_squares")["weights"]
    ),
]
"""What the text speaks of and no table of the paper shows."""

METHODS: dict[str, Column] = {
    column.name: column
    for column in [*TABLE, *_BY_P.values(), *_BY_ALPHA.values(), *_EXACT_BY_ALPHA.values(), *TEXT]
}
"""Every method by name, those of the studies included."""


def study(row: Row, name: str) -> dict[str, Column]:
    """Return the columns of a study of a row by ``alpha`` or by ``p``, by the value as printed."""
    if name == "alpha":
        return {f"{alpha:g}": column for alpha, column in _BY_ALPHA.items()}
    return {f"{p:g}": _BY_P[p] for p in row.p or defaults()["p"]}
