"""Rational functions of a few numbers, many at once, differentiable to any order.

A chain of a million edges has a handful of different rates. Each is a ratio of polynomials, so all
of them are products of the numbers (monomials), sums of those (polynomials) and one division:
nothing is done edge by edge, and the work is in proportion to the number of terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor

Term = tuple[Fraction, tuple[str, ...]]
"""A coefficient and the numbers it is multiplied by, each as often as its power."""

Polynomial = tuple[Term, ...]

ONE: Polynomial = ((Fraction(1), ()),)


class Ratio(NamedTuple):
    """One polynomial over another."""

    over: Polynomial
    under: Polynomial

    @property
    def constant(self) -> float | None:
        """Its value, if it is the same for all numbers."""
        if self.under != ONE or any(names for _, names in self.over):
            return None
        return float(sum(weight for weight, _ in self.over))

    @property
    def names(self) -> set[str]:
        """The numbers it depends on."""
        return {name for side in self for _, names in side for name in names}

    @property
    def positive(self) -> bool:
        """Whether its coefficients show that it is not negative for positive numbers."""
        return all(weight >= 0 for side in self for weight, _ in side)


class RationalFunctions:
    """Several ratios of polynomials in the same numbers.

    Parameters
    ----------
    ratios : sequence of Ratio
        The functions.
    names : sequence of str
        The numbers, in the order in which they are given to a call.

    Examples
    --------
    >>> half = Ratio(((Fraction(1, 2), ("a", "a")),), ONE)
    >>> RationalFunctions([half], ["a"])(torch.tensor([[4.0]]))
    tensor([[8.]])
    """

    def __init__(self, ratios: Sequence[Ratio], names: Sequence[str]) -> None:
        self.over = _Polynomials([ratio.over for ratio in ratios], names)
        whole = all(ratio.under == ONE for ratio in ratios)
        self.under = None if whole else _Polynomials([ratio.under for ratio in ratios], names)

    def __call__(self, numbers: Tensor) -> Tensor:
        """Values ``[..., F]`` at numbers ``[..., V]``."""
        over = self.over(numbers)
        return over if self.under is None else over / self.under(numbers)


class _Polynomials:
    def __init__(self, polynomials: Sequence[Polynomial], names: Sequence[str]) -> None:
        place = {name: k for k, name in enumerate(names)}
        monomials: dict[tuple[int, ...], int] = {}
        terms = [
            (monomials.setdefault(tuple(sorted(place[n] for n in of)), len(monomials)), row, weight)
            for row, polynomial in enumerate(polynomials)
            for weight, of in polynomial
        ]
        # Short products are filled up with a number that is one.
        longest = max([1, *map(len, monomials)])
        filled = [[*m, *[len(names)] * (longest - len(m))] for m in monomials]
        self._factors = torch.tensor(filled, dtype=torch.long).reshape(-1, longest)
        self._term = torch.tensor([term for term, _, _ in terms], dtype=torch.long)
        self._row = torch.tensor([row for _, row, _ in terms], dtype=torch.long)
        self._weight = torch.tensor([float(w) for _, _, w in terms], dtype=torch.float64)
        self._count = len(polynomials)

    def __call__(self, numbers: Tensor) -> Tensor:
        device = numbers.device
        numbers = torch.cat([numbers, torch.ones_like(numbers[..., :1])], -1)
        first, *others = self._factors.to(device).unbind(-1)
        product = numbers[..., first]
        for factor in others:  # over powers, of which there are two or three
            product = product * numbers[..., factor]
        summands = product[..., self._term.to(device)] * self._weight.to(product)
        nothing = summands.new_zeros(*summands.shape[:-1], self._count)
        return nothing.index_add(-1, self._row.to(device), summands)
