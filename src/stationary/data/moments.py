r"""What is left of windows that were added up, and how they are added up a batch at a time.

All windows ``w`` at one input ``u`` have the same predicted probabilities. So whatever is a sum
over windows of something linear in their counts needs only ``sum_w y_w``, as the likelihood does,
and whatever is a sum of squares of such, as the scatter of their scores is, only

    sum_w (a_u . y_w)^2 = a_u^T (sum_w y_w y_w^T) a_u.

With how many windows there were, these *moments* replace them: as many rows as there are distinct
inputs, however many windows. The order of the windows is gone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import InputError

_MOST = 2**27
"""Numbers that moments may hold: a gigabyte of them."""


class Moments:
    """How many windows each row stands for, and the sum of ``y y^T`` over them.

    Parameters
    ----------
    many : Tensor [U]
        Windows that were added up in each row.
    squares : Tensor [U, C, C]
        Sums of the outer products of their counts with themselves.
    """

    def __init__(self, many: Tensor, squares: Tensor) -> None:
        if many.ndim != 1 or squares.shape != (len(many), *squares.shape[1:2] * 2):
            raise InputError(
                f"moments must be windows [U] and squares [U, C, C]; got {tuple(many.shape)} and "
                f"{tuple(squares.shape)}"
            )
        self.many, self.squares = many, squares

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        return torch.equal(self.many, other.many) and torch.equal(self.squares, other.squares)

    __hash__ = None  # type: ignore[assignment]

    def select(self, rows: Any) -> Moments:
        """Moments of some rows."""
        return Moments(self.many[rows], self.squares[rows])


class Pool:
    """Windows added up by equal inputs, a batch at a time.

    Parameters
    ----------
    inputs, categories : int
        Columns of inputs and of counts.

    Examples
    --------
    >>> pool = Pool(1, 2)
    >>> pool.add(np.array([[11.0], [12.0], [11.0]]), np.array([[3.0, 1.0], [2.0, 2.0], [1.0, 0.0]]))
    >>> x, counts, moments = pool.sums()
    >>> x.ravel().tolist(), counts.tolist(), moments.many.tolist()
    ([11.0, 12.0], [[4.0, 1.0], [2.0, 2.0]], [2.0, 1.0])
    """

    def __init__(self, inputs: int, categories: int) -> None:
        self.x: Array = np.empty((0, inputs))
        self.many: Array = np.empty(0)
        self.counts: Array = np.empty((0, categories))
        self.squares: Array = np.empty((0, categories, categories))

    def add(self, x: Array, counts: Array) -> None:
        """Add windows with inputs ``x [M, d]`` and counts ``[M, C]``."""
        if not len(x):
            return
        import pandas as pd  # its tables of hashes take a tenth of the time of sorting

        frame = pd.DataFrame(x)
        code = frame.groupby(list(frame), sort=False).ngroup().to_numpy()
        known, new = len(self.x), frame.drop_duplicates().to_numpy()
        self.x, where = np.unique(np.concatenate([self.x, new]), axis=0, return_inverse=True)
        where = where.ravel()
        if len(self.x) * counts.shape[1] ** 2 > _MOST:
            raise InputError(
                f"windows cannot be pooled: {len(self.x)} different inputs of "
                f"{counts.shape[1]} categories are too many; round the load (to one per cent, "
                f"say), observe fewer categories, or read without pooling"
            )
        self.many, self.counts, self.squares = (
            self._moved(values, where[:known]) for values in (self.many, self.counts, self.squares)
        )
        group = where[known:][code].astype(np.min_scalar_type(len(self.x)))  # small ones sort fast
        self.many += np.bincount(group, minlength=len(self.x))
        order = np.argsort(group, kind="stable")
        places, first = np.unique(group[order], return_index=True)
        sorted_counts = counts[order]
        self.counts[places] += np.add.reduceat(sorted_counts, first)
        for place, part in zip(places, np.split(sorted_counts, first[1:]), strict=True):
            self.squares[place] += part.T @ part

    def _moved(self, values: Array, to: Array) -> Array:
        """Values at the places that their inputs have now."""
        moved = np.zeros((len(self.x), *values.shape[1:]))
        moved[to] = values
        return moved

    def sums(self) -> tuple[Array, Array, Moments]:
        """Inputs ``[U, d]`` in order, counts ``[U, C]`` added up, and their moments."""
        moments = Moments(torch.from_numpy(self.many), torch.from_numpy(self.squares))
        return self.x, self.counts, moments
