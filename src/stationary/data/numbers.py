"""Numbers and names that people give, checked; messages name the argument or the cell."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import DataWarning, InputError

_LARGEST_COUNT = 2.0**53  # up to here every whole number is a float64
_FEW_COLUMNS = 8


def as_table(value: Any, name: str) -> Tensor:
    """Return numbers as a float64 tensor that shares no memory with what was given."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", torch.float64, copy=True).contiguous()
    try:
        return torch.from_numpy(np.array(value, dtype=np.float64, order="C"))
    except (TypeError, ValueError):
        raise InputError(
            f"{name} must be a table of numbers, every row of the same length; got {value!r:.80}"
        ) from None


def distinct_rows(table: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows of a table, and for every row which of them it is.

    They are sorted, but for wide tables, such as of menus, where sorting would take long: a random
    sum of each row tells them apart.
    """
    if table.shape[1] > _FEW_COLUMNS:
        sums = table @ torch.from_numpy(np.random.default_rng(0).random(table.shape[1]))
        _, first, which = np.unique(sums.numpy(), return_index=True, return_inverse=True)
        if torch.equal(table[first][which], table):  # no two of them have the same sum
            return table[first], torch.from_numpy(which)
    return torch.unique(table, dim=0, return_inverse=True)


def input_names(inputs: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns of ``x``, checked."""
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    if not names:
        raise InputError("there must be at least one input; the first is the load")
    for name in names:
        if not isinstance(name, str) or not name.isprintable() or name.strip() != name or not name:
            raise InputError(f"inputs must be printable names, no space around them; got {name!r}")
        if names.count(name) > 1:
            raise InputError(f"inputs must be different names; got {names!r}")
    return names


def as_counts(value: Any, columns: Sequence[str]) -> Tensor:
    """Return counts ``[M, S]``, or raise an error that names the window and the category."""
    counts = as_table(value, "counts")
    if counts.ndim != 2 or counts.shape[1] != len(columns):
        raise InputError(
            f"counts must have one row per window and one column for each of the {len(columns)} "
            f"categories ({', '.join(columns)}); got shape {tuple(counts.shape)}"
        )
    bad = find_bad(counts.numpy(), inputs=0)
    if bad:
        row, column, problem = bad
        raise InputError(f"window {row}, category {columns[column]!r}: {problem}")
    return counts


def find_bad(values: Array, inputs: int) -> tuple[int, int, str] | None:
    """Row, column and problem of the first bad value; some columns are inputs, the rest counts."""
    good, counts = np.isfinite(values), values[:, inputs:]
    good[:, inputs:] = (counts >= 0) & (counts <= _LARGEST_COUNT) & (counts == np.floor(counts))
    bad = np.argwhere(~good)
    if not len(bad):
        return None
    row, column = map(int, bad[0])
    value = float(values[row, column])
    if column < inputs:
        problem = f"the value is {value!r}; inputs must be finite: correct it or remove it"
    elif _LARGEST_COUNT < value < math.inf:
        problem = f"the count is {value!r}; counts above 2**53 lose digits: use shorter windows"
    else:
        problem = (
            f"the count is {value!r}; counts must be whole numbers, zero or more: correct it or "
            f"remove the window"
        )
    return row, column, problem


def as_range(loads: Any) -> tuple[float, float]:
    """Return the ends of a range of loads; None stands for an open end."""
    try:
        low, high = loads
        return -math.inf if low is None else float(low), math.inf if high is None else float(high)
    except (TypeError, ValueError):
        raise InputError(
            f"loads must be a pair (low, high) of numbers, or None for an open end; got {loads!r}"
        ) from None


def as_duration(value: float | str) -> float:
    """Return a length of time, checked."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise InputError(f"duration must be positive and finite; got {value!r}")
    return number


def as_durations(value: Any, windows: int) -> Tensor:
    """Return the length of every window, checked, ``[M]``."""
    durations = as_table(value, "duration")
    if durations.shape not in ((), (windows,)):
        raise InputError(
            f"duration must be one number, or one for each of {windows} windows; got shape "
            f"{tuple(durations.shape)}"
        )
    for wrong in durations[~((durations > 0) & (durations < math.inf))].tolist():
        as_duration(wrong)
    return durations.expand(windows).clone()


def drop_or_refuse(where: str, why: str, drop: bool, stacklevel: int) -> None:
    """Warn that windows are left out, or raise an error where that was not asked for."""
    if not drop:
        raise InputError(
            f"{where}: {why}; leave such windows out with drop_empty=True (--drop-empty)"
        )
    warnings.warn(f"{where}: dropped, {why}", DataWarning, stacklevel=stacklevel + 1)
