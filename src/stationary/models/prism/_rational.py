"""Rational functions of the free constants, one for each edge or state of a chain.

A chain of a million edges has few different products of constants: ``k * mu`` for many numbers k is
one. So all values are two matrix products, of the products of constants ``[..., P]`` with tables of
coefficients ``[P, N]``, one over the other, and nothing is done edge by edge.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Polynomial = Mapping[tuple[str, ...], Fraction]
"""The coefficient of every product of constants, each named as often as its power."""


class RationalFunctions(nn.Module):
    """Ratios of polynomials, one for each of many places.

    Parameters
    ----------
    functions : sequence of (Polynomial, Polynomial)
        The different functions: numerator and denominator.
    which : ndarray [N]
        Which of them stands at each place.

    Attributes
    ----------
    names : set of str
        Constants that occur.
    positive : bool
        Whether the coefficients show that no value is negative.

    Examples
    --------
    >>> half = {("a", "a"): Fraction(1, 2)}, {(): Fraction(1)}
    >>> RationalFunctions([half], np.array([0, 0]))({"a": torch.tensor([4.0]).double()})
    tensor([8., 8.], dtype=torch.float64)
    """

    def __init__(
        self, functions: Sequence[tuple[Polynomial, Polynomial]], which: NDArray[np.int64]
    ) -> None:
        super().__init__()
        every = [term for function in functions for side in function for term in side.items()]
        self.names = {constant for product, _ in every for constant in product}
        self.positive = all(weight >= 0 for _, weight in every)
        self._products: list[list[tuple[str, ...]]] = []
        for side in (0, 1):
            products = list(
                dict.fromkeys(term for function in functions for term in function[side])
            )
            weights = [[float(f[side].get(term, 0)) for f in functions] for term in products]
            table = torch.tensor(weights, dtype=torch.float64)[:, torch.from_numpy(which)]
            self._products.append(products)
            self.register_buffer(f"_weights_{side}", table, persistent=False)

    def forward(self, given: Mapping[str, Tensor]) -> Tensor:
        """Values ``[..., N]`` for constants ``[..., 1]``."""
        over, under = self._sums(0, given), self._sums(1, given)
        return over if self._products[1] == [()] else over / under

    def _sums(self, side: int, given: Mapping[str, Tensor]) -> Tensor:
        weights: Tensor = getattr(self, f"_weights_{side}")
        one = torch.ones_like(reduce(operator.add, given.values()))
        terms = [
            reduce(operator.mul, [given[name] for name in product], one)
            for product in self._products[side]
        ]
        return torch.cat(terms, -1) @ weights
