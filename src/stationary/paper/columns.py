"""The columns of the tables and studies: which methods there are, with their settings."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

from torch import Tensor

from stationary.gradients import DivideAndConquerBPTT, Doubling, Gradient, Infinity, Powers
from stationary.learning.optimisers import Adam
from stationary.learning.stochastic import Stochastic
from stationary.paper.baselines import Trivial, logistic, mean, zero
from stationary.paper.methods import Column, LeastSquares, MaximumLikelihood, Trained
from stationary.paper.settings import Row, defaults, rows, section


def _dc(steps: int, row: Row, seeds: tuple[int, ...]) -> Gradient:
    del seeds
    return DivideAndConquerBPTT(steps=steps, margin=row.margin)


def _infinity(p: float, row: Row, seeds: tuple[int, ...]) -> Gradient:
    return Infinity(p=p, seed=seeds, series=Powers(margin=row.margin))


def _ours(row: Row, seeds: tuple[int, ...]) -> Gradient:
    del row
    given = section("ours")
    return Infinity(p=given["p"], seed=seeds, series=Doubling(), least=given["least"], control=True)


def _our_training(gradient: Gradient, row: Row, start: Tensor) -> Stochastic:
    settings = section("ours")
    return Stochastic(
        gradient,
        epochs=row.epochs,
        rule=Adam(lr=settings["step"] * start.mean().item(), amsgrad=False),
        batch=settings["batch"],
        clip=math.inf,
        floor=defaults()["floor"],
        average=True,
    )


def _through_time(steps: int) -> Column:
    return Trained(f"dc{steps}", f"DC-BPTT {steps}", partial(_dc, steps))


def _stopped(p: float) -> Column:
    return Trained(f"p-{p:g}", f"infinity-SGD, p = {p:g}", partial(_infinity, p))


def _relaxed(alpha: float) -> list[Column]:
    title, gradient = f"infinity-SGD, alpha = {alpha:g}", partial(_infinity, TABLE_P)
    return [
        Trained(f"alpha-{alpha:g}", title, gradient, alpha=alpha),
        MaximumLikelihood(f"mle-alpha-{alpha:g}", f"exact, alpha = {alpha:g}", alpha=alpha),
    ]


TABLE_P: float = defaults()["p"][0]
"""Stopping probability of the tables."""

TABLE: list[Column] = [
    *map(_through_time, defaults()["steps"]),
    Trained("infinity", "infinity-SGD (paper)", partial(_infinity, TABLE_P)),
    Trained("ours", "infinity-SGD (ours)", _ours, _our_training, at_zero=False),
    LeastSquares("cls", "conditional least squares"),
    MaximumLikelihood("mle", "exact MLE"),
    Trivial("zero", "predict zero", zero),
    Trivial("mean", "training mean", mean),
    Trivial("logistic", "logistic on load", logistic),
]
"""The columns of the main tables."""

_PROBABILITIES = sorted({p for row in rows().values() for p in row.p or defaults()["p"]})

METHODS: dict[str, Column] = {
    method.name: method
    for method in [
        *TABLE,
        *(_stopped(p) for p in reversed(_PROBABILITIES) if p != TABLE_P),
        *(method for alpha in defaults()["alpha"] for method in _relaxed(alpha)),
    ]
}
"""Every method by name, those of the studies included."""


class Varied(NamedTuple):
    """A line of a study: the value it varies, as printed, its method, and the exact optimum's."""

    value: str
    method: str
    exact: str


OURS = Varied("ours", "ours", "mle")
"""What every study ends with."""


def study(row: Row, name: str) -> list[Varied]:
    """Lines of a study of a row by ``alpha`` or by ``p``."""
    if name == "alpha":
        return [
            Varied(f"{alpha:g}", f"alpha-{alpha:g}", f"mle-alpha-{alpha:g}")
            for alpha in defaults()["alpha"]
        ]
    return [
        Varied(f"{p:g}", "infinity" if p == TABLE_P else f"p-{p:g}", "mle")
        for p in row.p or defaults()["p"]
    ]
