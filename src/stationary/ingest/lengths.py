"""How long a window should be: the load is steady inside, and there are many windows.

A window that mixes two loads biases what is learnt from it. On a server whose load stepped every
ten seconds, windows of 1, 7, 10, 30 and 60 s gave limits of 97, 91, 95, 81 and 80, where 97 was
measured. So the longest of some round lengths is taken at which the load seldom changes inside.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stationary.errors import InputError
from stationary.ingest.columns import Rows
from stationary.ingest.engines import Session, real

_ROUND = [m * s for m in (1e-3, 1, 60, 3600) for s in (1.0, 2.0, 5.0, 10.0, 20.0, 30.0)]
_ROUND += [0.1, 0.2, 0.5, 7200.0]
"""Lengths to choose from, in seconds; those up to half an hour are the usual ones."""
_DEVIATIONS = 5.0
"""Standard deviations of a change of load, where it is looked for at many places."""
_RELATIVE = 0.1
"""A smaller change of the load does not matter."""
_NORMAL = 4.0
"""Variance from which a number of arrivals is nearly normal. Below it, a single early arrival is so
rare that it would look like a change."""
_SELDOM = 0.1
"""Share of windows whose load may change, as it does where steps of the load last ten windows."""
_WINDOWS = 20
"""Windows there should be."""
_REQUESTS = 50
"""Requests that a window should have."""
_RESPONSES = 50
"""Mean response times that a window should last, to see many busy periods."""
_UNLIKELY = 30.0
"""Requests that a gap lacks; that so many stay away by chance has the probability e^-30."""
_FEWEST = 8
"""Requests of a window from which its load is known well enough to tell a gap."""
_ALIKE = 3.0
"""Silences are alike where their lengths differ by less than this factor."""
_OFTEN = 5
"""So many silences that are alike are no gaps but a habit of the load; in a long log, so many as a
tenth of its windows."""
_PARTS = 8
"""Parts of the shortest window in which arrivals are counted."""
_MOST_PARTS = 2**20
_COARSEST = 10.0
"""Seconds that a window lasts at least where times are in whole seconds."""


def load_changes(within: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the load of a window changes, from arrivals in equal parts of it ``[M, parts]``.

    The window is cut in two where its parts differ most, against what Poisson arrivals would do.
    """
    share = np.arange(1, within.shape[1]) / within.shape[1]
    so_far, sent = np.cumsum(within, axis=1)[:, :-1], within.sum(1, keepdims=True)
    off, variance = so_far - sent * share, sent * share * (1 - share)
    # The difference of the loads before and after, per mean load, is off / variance.
    apart = np.abs(off) > _RELATIVE * variance
    return (apart & (off * off > _DEVIATIONS**2 * variance) & (variance > _NORMAL)).any(1)


def gaps_touch(window: NDArray[np.int64], within: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether a gap in the log, as a restart leaves one, is inside a window or reaches into it.

    ``within`` are arrivals in equal parts of windows that have some. A gap is a run of empty parts
    that is too long for the load beside it, unless such runs recur, as they do between bursts.
    """
    parts = within.shape[1]
    empty = within == 0
    lead, trail = empty.argmin(1), empty[:, ::-1].argmin(1)
    sent = within.sum(1)
    rate = np.where(sent >= _FEWEST, sent, 0.0) / parts
    run, longest = np.zeros(len(within)), np.zeros(len(within))
    for k in range(parts):
        run = np.where(empty[:, k] & (k >= lead) & (k < parts - trail), run + 1, 0)
        longest = np.maximum(longest, run)
    inside: NDArray[np.bool_] = longest * rate > _UNLIKELY
    between = parts * (np.diff(window) - 1) + trail[:-1] + lead[1:]
    # A window that a gap cuts short has too low a load: the next one tells it better.
    before = np.maximum(rate, np.concatenate([[0.0], rate[:-1]]))[:-1]
    after = np.maximum(rate, np.concatenate([rate[1:], [0.0]]))[1:]
    gap = between * np.minimum(before, after) > _UNLIKELY
    silent = np.sort(np.concatenate([longest[inside], between[gap]]))
    most = max(_OFTEN, _SELDOM * len(within))

    def alone(run: NDArray[Any]) -> NDArray[np.bool_]:
        first, last = (np.searchsorted(silent, end) for end in (run / _ALIKE, run * _ALIKE))
        return np.asarray(last - first < most)

    touched, gap = inside & alone(longest), gap & alone(between)
    touched[:-1] |= gap & (trail[:-1] > 0)
    touched[1:] |= gap & (lead[1:] > 0)
    return touched


def choose(session: Session, requests: Rows) -> tuple[float, str]:
    """Return the length of a window, and why it was chosen."""
    span = requests.last - requests.first
    if not span > 0:
        raise InputError(
            f"{requests.name}: all of its requests ({requests.count}) came at one moment; give "
            f"--window, or a longer log"
        )
    finest = _PARTS * span / _MOST_PARTS
    part = min((length for length in _ROUND if length >= finest), default=span) / _PARTS
    if requests.coarse:  # parts are whole seconds, and windows hold several
        part, finest = float(math.ceil(part)), max(finest, _COARSEST)
    counts = _without_gaps(_arrivals(session, requests, part))
    span = min(part * len(counts), span)
    rate = requests.count / span
    least = max(_REQUESTS / rate, _RESPONSES * requests.mean, finest)
    usable = sorted(length for length in _ROUND if least <= length <= span / _WINDOWS)
    if not usable:
        fits = [length for length in sorted(_ROUND) if length <= span / 2]
        fits = fits or [max(span / 4, 1e-6)]
        length = next((length for length in fits if length >= least), fits[-1])
        return length, (
            f"windows of {length:g} s were chosen; {requests.count} requests in {span:.3g} s make "
            f"few windows: record longer"
        )
    shares = {length: _changing(counts, round(length / part)) for length in usable}
    steady = [length for length in usable if shares[length] <= _SELDOM]
    length = steady[-1] if steady else min(usable, key=lambda each: (shares[each], each))
    longer = [each for each in usable if each > length]
    said = [f"{shares[length]:.0%} of them"] if shares[length] >= 0.005 else []
    if longer:
        said.append(f"{shares[longer[0]]:.0%} of those of {longer[0]:g} s")
    why = f": the load changes inside {' and '.join(said)}" if said else ""
    return length, f"windows of {length:g} s were chosen{why}"


def _arrivals(session: Session, requests: Rows, length: float) -> NDArray[np.float64]:
    """Arrivals in parts of time of some length, from the first on."""
    table: Any = requests.table
    part = ((table.arrival - real(requests.first)) / real(length)).floor().cast("int64")
    frame = session.fetch(table.group_by(part=part).aggregate(n=table.count()), requests.name)
    found = np.bincount(frame["part"].to_numpy(np.int64), frame["n"].to_numpy(np.float64))
    return found.astype(np.float64)


def _without_gaps(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Leave out runs of empty parts that are too long for the mean load."""
    busy = np.flatnonzero(counts)
    kept = np.ones(len(counts), dtype=bool)
    for k in np.flatnonzero((np.diff(busy) - 1) * counts.mean() > _UNLIKELY):
        kept[busy[k] + 1 : busy[k + 1]] = False
    return counts[kept]


def _changing(counts: NDArray[np.float64], parts: int) -> float:
    """Share of windows of so many parts whose load changes inside."""
    whole = len(counts) // parts
    within = counts[: whole * parts].reshape(whole, parts)
    busy = within.sum(1) > 0
    return float(load_changes(within[busy]).mean()) if busy.any() else 0.0
