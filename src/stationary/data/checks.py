"""Checks of inputs and counts, shared by `Windows` and the readers, which name rows differently."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from stationary.data._base import Observation
from stationary.data.numbers import as_table
from stationary.errors import InputError


def find_bad_input(x: NDArray[np.float64]) -> tuple[int, int, str] | None:
    """First input that is not finite: its row, its column and what is wrong with it."""
    bad = np.argwhere(~np.isfinite(x))
    if not len(bad):
        return None
    row, column = map(int, bad[0])
    value = float(x[row, column])
    return row, column, f"the value is {value!r}; inputs must be finite: correct it or remove it"


def as_range(low: float | None, high: float | None) -> tuple[float, float]:
    """Return the ends of a range of loads, checked; infinite where they are open."""
    try:
        return -np.inf if low is None else float(low), np.inf if high is None else float(high)
    except (TypeError, ValueError):
        raise InputError(
            f"a range of loads is two numbers, or None for an open end; got {low!r} and {high!r}"
        ) from None


def load_mask(
    loads: NDArray[np.float64], low: float | None, high: float | None, name: str = "load"
) -> NDArray[np.bool_]:
    """Where a load lies in ``[low, high]``; an error when nowhere."""
    least, most = as_range(low, high)
    mask: NDArray[np.bool_] = (loads >= least) & (loads <= most)
    if not mask.any():
        raise InputError(
            f"no window has a {name} in [{least:g}, {most:g}]; the loads there are go from "
            f"{loads.min():g} to {loads.max():g}"
        )
    return mask


def listed(names: Sequence[str], most: int = 30) -> str:
    """Names for a message, not too many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def no_column(where: str, name: str, columns: Sequence[str]) -> InputError:
    """Return an error for a column that is not there; it lists those that are."""
    near = difflib.get_close_matches(name, columns, n=1, cutoff=0.5)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    return InputError(
        f"{where}: there is no column {name!r}{meant}; the columns are: {listed(columns)}"
    )


def name_rows(kind: str, rows: Sequence[int], most: int = 10) -> str:
    """Name rows for a message: ``window 3``, or ``windows 3, 5, ... and 7 more``."""
    shown = ", ".join(map(str, rows[:most]))
    more = f" and {len(rows) - most} more" if len(rows) > most else ""
    return f"{kind}{'s' if len(rows) > 1 else ''} {shown}{more}"


def input_names(inputs: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns of ``x``, checked."""
    names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
    if not names:
        raise InputError("there must be at least one input; the first is the load")
    for name in names:
        if not isinstance(name, str) or not name or name != name.strip():
            raise InputError(f"inputs must be names without space around them; got {name!r}")
        if not name.isprintable() or names.count(name) > 1:
            raise InputError(f"inputs must be different, printable names; got {names!r}")
    return names


def check_shapes(x: Tensor, kinds: Sequence[Observation], names: Sequence[str]) -> None:
    """Raise an error that says which of inputs and observations disagree."""
    if not kinds:
        raise InputError("nothing was observed: give counts= and observe=, or observations=")
    for kind in kinds:
        if not isinstance(kind, Observation):
            raise InputError(
                f"observations must be objects such as States(counts, observe=[0, 1]); got {kind!r}"
            )
    names_of = [kind.kind for kind in kinds]
    if names_of.count("states") > 1:
        raise InputError(
            "windows have one table of counts of states: put all categories into one States"
        )
    if not x.numel() and not any(kind.data.numel() for kind in kinds):
        raise InputError("there are no windows: x and counts are empty")
    if x.ndim != 2:
        raise InputError(f"x must have shape [M, d] or [M]; got {tuple(x.shape)}")
    for kind in kinds:
        if len(x) != len(kind.data):
            raise InputError(
                f"x has {len(x)} windows but counts has {len(kind.data)} rows; give one row per "
                f"window"
            )
    if x.shape[1] != len(names):
        raise InputError(
            f"x has {x.shape[1]} columns but inputs names {len(names)} ({', '.join(names)}); "
            f"pass inputs= with one name per column"
        )


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
    lasts = as_table(value, "duration")
    if lasts.shape not in ((), (windows,)):
        raise InputError(
            f"duration must be one number, or one for each of {windows} windows; got shape "
            f"{tuple(lasts.shape)}"
        )
    bad = ~((lasts > 0) & (lasts < math.inf))
    if bool(bad.any()):
        raise InputError(f"duration must be positive and finite; got {float(lasts[bad][0])!r}")
    return lasts.expand(windows).clone()
