"""Tables of numbers and of counts, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stationary.errors import InputError


def as_table(value: Any, name: str) -> Tensor:
    """Return numbers as a float64 tensor of our own, which nobody else can change."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", torch.float64, copy=True).contiguous()
    try:
        return torch.from_numpy(np.array(value, dtype=np.float64, order="C"))
    except (TypeError, ValueError):
        raise InputError(
            f"{name} must be a table of numbers, every row of the same length; got {value!r:.80}"
        ) from None


def as_counts(value: Any, columns: Sequence[str]) -> Tensor:
    """Return counts ``[M, S]``, or raise an error that names the window and the category."""
    counts = as_table(value, "counts")
    if counts.ndim != 2 or counts.shape[1] != len(columns):
        raise InputError(
            f"counts must have one row per window and one column for each of the {len(columns)} "
            f"categories ({', '.join(columns)}); got shape {tuple(counts.shape)}"
        )
    bad = find_bad_count(counts.numpy())
    if bad:
        row, column, problem = bad
        raise InputError(f"window {row}, category {columns[column]!r}: {problem}")
    return counts


def find_bad_count(counts: NDArray[np.float64]) -> tuple[int, int, str] | None:
    """First count that is none, row by row: its row, its column and what is wrong with it."""
    bad = np.argwhere(~((counts >= 0) & (counts <= 2.0**53) & (counts == np.floor(counts))))
    if not len(bad):
        return None
    row, column = map(int, bad[0])
    value = float(counts[row, column])
    if value > 2.0**53 and value != np.inf:
        need = "counts above 2**53 lose digits: use shorter windows"
    else:
        need = "counts must be whole numbers, zero or more: correct it or remove the window"
    return row, column, f"the count is {value!r}; {need}"
