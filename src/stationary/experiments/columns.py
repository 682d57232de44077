"""The columns of the tables and studies: which methods there are, with their settings."""

from __future__ import annotations

import math
from functools import partial

from torch import Tensor

from stationary.experiments.baselines import Trivial, logistic, mean, zero
from stationary.experiments.methods import (
    LeastSquares,
    MaximumLikelihood,
    Method,
    Stochastic,
)
from stationary.experiments.settings import Row, defaults, section
from stationary.gradients import DivideAndConquerBPTT, Doubling, Gradient, Infinity, Powers
from stationary.optimisers import Adam
from stationary.stochastic import Training


def _dc(steps: int, row: Row, seeds: tuple[int, ...]) -> Gradient:
    del seeds
    return DivideAndConquerBPTT(steps=steps, margin=row.margin)


def _infinity(p: float, row: Row, seeds: tuple[int, ...]) -> Gradient:
    return Infinity(p=p, seed=seeds, series=Powers(margin=row.margin))


def _ours(row: Row, seeds: tuple[int, ...]) -> Gradient:
    del row
    given = section("ours")
    return Infinity(p=given["p"], seed=seeds, series=Doubling(), least=given["least"], control=True)


def _our_training(row: Row, epochs: int, start: Tensor) -> Training:
    del row
    settings = section("ours")
    return Training(
        epochs=epochs,
        rule=Adam(lr=settings["step"] * start.mean().item(), amsgrad=False),
        batch=settings["batch"],
        clip=math.inf,
        floor=defaults()["floor"],
        average=True,
    )


def _relaxed(alpha: float) -> list[Method]:
    return [
        Stochastic(
            f"alpha-{alpha:g}",
            f"infinity-SGD, alpha = {alpha:g}",
            partial(_infinity, 0.1),
            alpha=alpha,
        ),
        MaximumLikelihood(f"mle-alpha-{alpha:g}", f"exact, alpha = {alpha:g}", alpha=alpha),
    ]


TABLE: list[Method] = [
    Stochastic("dc16", "DC-BPTT 16", partial(_dc, 16)),
    Stochastic("dc128", "DC-BPTT 128", partial(_dc, 128)),
    Stochastic("infinity", "infinity-SGD (paper)", partial(_infinity, 0.1)),
    Stochastic("ours", "infinity-SGD (ours)", _ours, _our_training, at_zero=False),
    LeastSquares("cls", "conditional least squares"),
    MaximumLikelihood("mle", "exact MLE"),
    Trivial("zero", "predict zero", zero),
    Trivial("mean", "training mean", mean),
    Trivial("logistic", "logistic on load", logistic),
]
"""The columns of the main tables."""

METHODS: dict[str, Method] = {
    method.name: method
    for method in [
        *TABLE,
        *(
            Stochastic(f"p-{p:g}", f"infinity-SGD, p = {p:g}", partial(_infinity, p))
            for p in (0.01, 0.001)
        ),
        *(method for alpha in defaults()["alpha"] for method in _relaxed(alpha)),
    ]
}
"""Every method by name, those of the studies included."""
