"""Rational functions of the free constants, one for each edge or state of a chain.

A chain of a million edges has few different products of constants: ``k * mu`` for many numbers k is
one. So all values are one formula, of the products and of tables of coefficients, and nothing is
done edge by edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from stationary.models.rules.formulas import Columns, Formula, name, number
from stationary.models.rules.rates import weighted_sum
from stationary.models.rules.states import Floats, Ints

Polynomial = Mapping[tuple[str, ...], Fraction]
"""The coefficient of every product of constants, each named as often as its power."""


class Rational(NamedTuple):
    """A ratio of polynomials for each of many places, as one formula."""

    formula: Formula
    columns: Columns
    """Coefficients at every place, by the names that the formula has for them."""
    positive: bool
    """Whether the coefficients show that no value is negative."""

    @property
    def constants(self) -> frozenset[str]:
        """Free constants that occur."""
        return self.formula.names - self.columns.keys()


def rational(functions: Sequence[tuple[Polynomial, Polynomial]], which: Ints) -> Rational:
    """Join the different functions, numerator and denominator, by which of them is at a place.

    Examples
    --------
    >>> half = {("a", "a"): Fraction(1, 2)}, {(): Fraction(1)}
    >>> sorted(rational([half], np.array([0, 0])).constants)
    ['a']
    """
    columns: dict[str, Floats] = {"which": which.astype(float)}
    over, under = zip(*functions, strict=True)
    formula = weighted_sum(_terms(over, which), columns)
    if any(side != {(): 1} for side in under):
        formula = Formula("/", (formula, weighted_sum(_terms(under, which), columns)))
    positive = all(weight >= 0 for side in (*over, *under) for weight in side.values())
    return Rational(formula, columns, positive)


def _terms(sides: Sequence[Polynomial], which: Ints) -> Iterator[tuple[Formula, Floats]]:
    """Yield every product of constants, and its coefficient at every place."""
    for product in dict.fromkeys(product for side in sides for product in side):
        weights = np.array([float(side.get(product, 0)) for side in sides])
        yield Formula("*", tuple(map(name, product)) or (number(1.0),)), weights[which]
