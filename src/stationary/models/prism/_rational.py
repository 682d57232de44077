"""Rational functions of the free constants, one for each edge or state of a chain.

A chain of a million edges has few different forms of rates: ``k * mu`` for many numbers k. Each
form is one formula in which the coefficients are tables, so that nothing is done edge by edge, and
the derivatives are those of formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stationary.models.rules.formulas import Formula, name
from stationary.models.rules.rates import ONE, StateFormulas, weighted_sum

Polynomial = Mapping[tuple[str, ...], Fraction]
"""The coefficient of every product of constants, each named as often as its power."""


class Ratio(NamedTuple):
    """One polynomial over another."""

    over: Polynomial
    under: Polynomial

    @property
    def form(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """Which products occur, whatever their coefficients."""
        return tuple(self.over), tuple(self.under)


class RationalFunctions(nn.Module):
    """Ratios of polynomials, one for each of many places.

    Parameters
    ----------
    ratios : sequence of Ratio
        The different functions.
    which : ndarray [N]
        Which of them stands at each place.

    Attributes
    ----------
    formulas : StateFormulas
        All values, one form after the other.
    order : ndarray [N]
        The places in the order of ``formulas``.
    names : set of str
        Constants that occur.
    positive : bool
        Whether the coefficients show that no value is negative.

    Examples
    --------
    >>> half = Ratio({("a", "a"): Fraction(1, 2)}, {(): Fraction(1)})
    >>> RationalFunctions([half], np.array([0, 0]))({"a": torch.tensor([4.0]).double()})
    tensor([8., 8.], dtype=torch.float64)
    """

    def __init__(self, ratios: Sequence[Ratio], which: NDArray[np.int64]) -> None:
        super().__init__()
        place = {form: k for k, form in enumerate(dict.fromkeys(ratio.form for ratio in ratios))}
        form_of = np.array([place[ratio.form] for ratio in ratios], dtype=np.int64)[which]
        self.order = form_of.argsort(kind="stable")
        parts = {}
        for form, k in place.items():
            places = np.flatnonzero(form_of == k)
            different, rows = np.unique(which[places], return_inverse=True)
            columns: dict[str, NDArray[Any]] = {"place": places}
            sides = []
            for side, products in enumerate(form):
                found = [list(ratios[j][side].values()) for j in different]
                weights = np.array(found, dtype=np.float64)[rows]
                terms = zip(map(_product, products), weights.T, strict=True)
                sides.append(weighted_sum(list(terms), columns))
            whole = sides[1] == ONE
            parts[str(k)] = sides[0] if whole else Formula("/", tuple(sides)), columns
        self.formulas = StateFormulas(parts)
        every = [product for ratio in ratios for side in ratio for product in side.items()]
        self.names = {constant for constants, _ in every for constant in constants}
        self.positive = all(weight >= 0 for _, weight in every)

    def forward(self, given: Mapping[str, Tensor]) -> Tensor:
        """Values ``[..., N]`` for constants ``[..., 1]``, each at its place."""
        found = self.formulas(given)
        return found[..., torch.from_numpy(self.order.argsort()).to(found.device)]


def _product(constants: Sequence[str]) -> Formula:
    factors = map(name, constants)
    return reduce(lambda a, b: Formula("*", (a, b)), factors) if constants else ONE
