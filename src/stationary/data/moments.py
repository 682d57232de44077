r"""What is left of windows that were added up, and how they are added up a batch at a time.

All windows ``w`` at one input ``u`` have the same predicted probabilities. So whatever is a sum
over windows of something linear in their counts needs only ``sum_w y_w``, as the likelihood does,
and whatever is a sum of squares of such, as the scatter of their scores is, only

    sum_w (a . y_w)^2 = a^T S a,      S = sum_w y_w y_w^T.

With the number of windows, these *moments* replace them: there are as many rows as distinct inputs,
however many windows. The order of the windows is lost.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import InputError

_MOST_NUMBERS = 2**27  # numbers that moments may hold: a gigabyte of them


class Moments:
    """How many windows each row stands for, ``[U]``, and the sum of ``y y^T``, ``[U, S, S]``."""

    def __init__(self, multiplicity: Tensor, squares: Tensor) -> None:
        self.multiplicity, self.squares = multiplicity, squares

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        same = torch.equal(self.multiplicity, other.multiplicity)
        return same and torch.equal(self.squares, other.squares)

    __hash__ = None  # type: ignore[assignment]

    def select(self, rows: Any) -> Moments:
        """Moments of some rows."""
        return Moments(self.multiplicity[rows], self.squares[rows])

    @cached_property
    def roots(self) -> Tensor:
        """``[U, S, S]``: S rows, for every input, with the same sum of outer products.

        They take the place of the single windows in every sum of squares.
        """
        values, vectors = torch.linalg.eigh(self.squares)
        return (vectors * values.clamp_min(0.0).sqrt()[:, None]).mT


class Pool:
    """Windows added up by equal inputs, a batch at a time.

    It takes the numbers of columns of the inputs and of the data.

    Examples
    --------
    >>> pool = Pool(1, 2)
    >>> pool.add(np.array([[11.0], [12.0], [11.0]]), np.array([[3.0, 1.0], [2.0, 2.0], [1.0, 0.0]]))
    >>> x, data, moments = pool.sums()
    >>> x.ravel().tolist(), data.tolist(), moments.multiplicity.tolist()
    ([11.0, 12.0], [[4.0, 1.0], [2.0, 2.0]], [2.0, 1.0])
    """

    def __init__(self, inputs: int, columns: int) -> None:
        self._inputs, self._columns = inputs, columns
        self._sums: dict[tuple[float, ...], tuple[int, Array, Array]] = {}

    def add(self, x: Array, data: Array) -> None:
        """Add windows with inputs ``x [M, d]`` and data ``[M, S]``."""
        import pandas as pd  # its hash tables take a tenth of the time of sorting

        frame = pd.DataFrame(x)
        for place, rows in frame.groupby(list(frame)).indices.items():
            key = place if isinstance(place, tuple) else (place,)
            part = data[rows]
            count, total, squares = self._sums.get(key, (0, 0.0, 0.0))
            self._sums[key] = count + len(part), total + part.sum(0), squares + part.T @ part
            if len(self._sums) * self._columns**2 > _MOST_NUMBERS:
                raise InputError(
                    f"windows cannot be pooled: {len(self._sums)} different inputs and more of "
                    f"{self._columns} categories are too many; round the load (to one per cent, "
                    f"say), observe fewer categories, or read without pooling"
                )

    def sums(self) -> tuple[Array, Array, Moments]:
        """Inputs ``[U, d]`` in order, data ``[U, S]`` added up, and their moments."""
        x = np.array(sorted(self._sums), dtype=float).reshape(-1, self._inputs)
        parts = zip(*(self._sums[tuple(row)] for row in x.tolist()), strict=True)
        count, data, squares = (np.array(part, dtype=float) for part in parts)
        return x, data, Moments(torch.from_numpy(count), torch.from_numpy(squares))
