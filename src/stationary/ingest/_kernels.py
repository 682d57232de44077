"""The sweep over requests, compiled: one pass that keeps only the requests in flight.

Functions here change arrays in place, and put larger tables into the list of outputs.
"""

from __future__ import annotations

import numba
import numpy as np
from numba.typed import List

PASSES, LOST, STAYS = 1, 2, 3
"""What a request does: it takes no time, it is lost, or it stays until its departure."""

LEVELS = 72
"""Columns of levels at the start of service: 1 to 15, then 16, 24, 32, 48, and so on."""

FINE = 1024
"""Bins per octave of the histogram of response times from which a small quantile is read."""
FINEST = -30
"""The octave that begins it: a nanosecond."""

SUBSLOTS = 16
"""Equal parts of a window in which arrivals are counted, to see whether its load changes."""

# Positions of the numbers that a sweep carries from row to row.
(
    HEAP,  # departures in the heap
    ARRIVED,  # requests that stay, so far
    LEFT,  # departures so far
    WINDOW,  # the open window; -1 before the first, their number after the last
    OLDEST,  # the oldest window whose service times are not complete
    LEVEL_ROWS,  # rows of each output that are filled
    LATENCY_ROWS,
    SERVICE_ROWS,
    WINDOW_ROWS,
    SAMPLED,  # regular samples of the open window so far
    LAST_WINDOW,  # that of the last arrival
    INSTANT_LEVEL,  # requests in the system when the present instant began
    HIGHEST,  # most requests in the system at once
    NEGATIVE,  # negative service times of the first number of servers; those of others follow
    INTEGERS,
) = range(15)
INSTANT, REALS = range(2)  # the time of the last arrival


@numba.njit(cache=True, nogil=True, inline="always")
def level_column(level):  # type: ignore[no-untyped-def]
    """Column of a level: itself up to 15, then two columns per octave."""
    if level < 16:
        return level
    octave = 0
    rest = level
    while rest > 31:
        rest >>= 1
        octave += 1
    return min(16 + 2 * octave + (1 if rest >= 24 else 0), LEVELS - 1)


@numba.njit(cache=True, nogil=True, inline="always")
def _push(heap, size, value):  # type: ignore[no-untyped-def]
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if heap[above] <= value:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = value


@numba.njit(cache=True, nogil=True, inline="always")
def _pop(heap, size):  # type: ignore[no-untyped-def]
    """Take out the smallest of a heap; what is left has one less."""
    last = size - 1
    value = heap[last]
    at = 0
    below = 1
    while below < last:
        if below + 1 < last and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= value:
            break
        heap[at] = heap[below]
        at = below
        below = 2 * at + 1
    heap[at] = value


@numba.njit(cache=True, nogil=True, inline="always")
def _note(service, window, servers, column, seconds):  # type: ignore[no-untyped-def]
    slot = window & (len(service) - 1)
    service[slot, servers, column, 0] += 1.0
    service[slot, servers, column, 1] += seconds
    service[slot, servers, column, 2] += seconds * seconds


@numba.njit(cache=True, nogil=True)
def _sample(ints, levels, level, fraction, samples):  # type: ignore[no-untyped-def]
    """Count the regular samples since the last event, each in its half of the window."""
    until = int(np.floor(fraction * samples + 0.5))
    middle = int(np.floor(0.5 * samples + 0.5))
    early = min(until, middle) - min(ints[SAMPLED], middle)
    levels[0, level, 2] += early
    levels[1, level, 2] += until - ints[SAMPLED] - early
    ints[SAMPLED] = until


@numba.njit(cache=True, nogil=True)
def _move(counts, row):  # type: ignore[no-untyped-def]
    """Write counts into a row and clear them; one by one, which compiles far faster than slices."""
    for k in range(len(counts)):
        row[k] = counts[k]
        counts[k] = 0


@numba.njit(cache=True, nogil=True)
def outputs():  # type: ignore[no-untyped-def]
    """Tables of levels, latencies, service times and windows, see `Swept`."""
    return List([np.empty((1024, columns)) for columns in (6, 3, 5, 3 + SUBSLOTS)])


@numba.njit(cache=True, nogil=True)
def filled(outputs, ints):  # type: ignore[no-untyped-def]
    """Rows of the tables that are filled."""
    levels, latency, services, windows = outputs
    return (
        levels[: ints[LEVEL_ROWS]],
        latency[: ints[LATENCY_ROWS]],
        services[: ints[SERVICE_ROWS]],
        windows[: ints[WINDOW_ROWS]],
    )


@numba.njit(cache=True, nogil=True)
def _roomy(outputs, k, rows):  # type: ignore[no-untyped-def]
    """Return a table with room for so many rows."""
    table = outputs[k]
    if rows > len(table):
        made = np.empty((2 * rows, table.shape[1]))
        made[: len(table)] = table
        outputs[k] = made
    return outputs[k]


@numba.njit(cache=True, nogil=True)
def close(ints, levels, latency, gaps, outputs, samples):  # type: ignore[no-untyped-def]
    """Write down the counts of the open window, and clear them."""
    window = ints[WINDOW]
    if samples:
        _sample(ints, levels, ints[ARRIVED] - ints[LEFT], 1.0, samples)
    top = min(ints[HIGHEST] + 1, levels.shape[1])
    out_levels = _roomy(outputs, 0, ints[LEVEL_ROWS] + 2 * top)
    out_latency = _roomy(outputs, 1, ints[LATENCY_ROWS] + len(latency))
    out_windows = _roomy(outputs, 3, ints[WINDOW_ROWS] + 1)
    for half in range(2):
        for level in range(top):
            if levels[half, level].any():
                row = out_levels[ints[LEVEL_ROWS]]
                row[0], row[1], row[2] = window, half, level
                _move(levels[half, level], row[3:])
                ints[LEVEL_ROWS] += 1
    for bucket in range(len(latency)):
        if latency[bucket]:
            row = out_latency[ints[LATENCY_ROWS]]
            row[0], row[1], row[2] = window, bucket, latency[bucket]
            latency[bucket] = 0
            ints[LATENCY_ROWS] += 1
    row = out_windows[ints[WINDOW_ROWS]]
    row[0] = window
    _move(gaps, row[1:])
    ints[WINDOW_ROWS] += 1
    ints[SAMPLED] = 0


@numba.njit(cache=True, nogil=True)
def close_services(until, ints, service, outputs):  # type: ignore[no-untyped-def]
    """Write down the service times of windows before ``until``, none of whose requests waits."""
    slots, servers, columns = len(service), service.shape[1], service.shape[2]
    while ints[OLDEST] < until:
        out = _roomy(outputs, 2, ints[SERVICE_ROWS] + servers * columns)
        slot = service[ints[OLDEST] & (slots - 1)]
        for m in range(servers):
            for column in range(columns):
                if slot[m, column, 0]:
                    row = out[ints[SERVICE_ROWS]]
                    row[0], row[1] = ints[OLDEST], m * columns + column
                    _move(slot[m, column], row[2:])
                    ints[SERVICE_ROWS] += 1
        ints[OLDEST] += 1


@numba.njit(cache=True, nogil=True)
def _enter(window, ints, levels, latency, gaps, outputs, samples):  # type: ignore[no-untyped-def]
    """Go on to a window, and write down the one before."""
    if 0 <= ints[WINDOW] != window:
        close(ints, levels, latency, gaps, outputs, samples)
    ints[WINDOW] = window


@numba.njit(cache=True, nogil=True)
def advance(begin, rows, place, servers, edges, state, outputs):  # type: ignore[no-untyped-def]
    """Take in rows from ``begin`` on, sorted by arrival and departure; return where it stopped.

    That is before the end where a ring of ``state`` must be larger.

    ``place`` has the start of the first window, the length of a window, the number of windows, and
    the regular samples in each (0: arrivals are the samples). A last row that arrives at infinity
    lets all requests go.
    """
    arrival, departure, response, lost = rows
    ints, reals, latency, gaps, shortest, heap, ring, ring_window, levels, service = state
    origin, length, windows, samples = place[0], place[1], int(place[2]), int(place[3])
    # What changes with every row is kept in registers, and written back before any other function
    # reads it.
    size, arrived, left = ints[HEAP], ints[ARRIVED], ints[LEFT]
    mask, i = len(ring) - 1, begin
    while i < len(arrival):
        now = arrival[i]
        # First those that left before, or in the same instant.
        while size and heap[0] <= now:
            time = heap[0]
            passed = (time - origin) / length
            window = int(passed) if passed < windows else windows
            if samples or window != ints[WINDOW]:
                ints[ARRIVED], ints[LEFT] = arrived, left
                _enter(window, ints, levels, latency, gaps, outputs, samples)
                if samples and window < windows:
                    _sample(ints, levels, arrived - left, passed - window, samples)
            # Those that this request kept waiting start, one for each number of servers.
            column = LEVELS + level_column(arrived - left - 1)
            for k in range(len(servers)):
                starts = left + servers[k]
                if starts >= arrived:
                    break  # the numbers of servers increase
                seconds = ring[starts & mask] - time
                _note(service, ring_window[starts & mask], k, column, seconds)
                if seconds < 0:
                    ints[NEGATIVE + k] += 1
            left += 1
            _pop(heap, size)
            size -= 1
        if now == np.inf:
            i = len(arrival)
            break
        passed = (now - origin) / length
        inside = passed < windows
        window = int(passed) if inside else windows
        level = arrived - left
        if level + 2 > len(ring):
            break
        if window != ints[WINDOW]:
            ints[ARRIVED], ints[LEFT] = arrived, left
            _enter(window, ints, levels, latency, gaps, outputs, samples)
        if window != ints[LAST_WINDOW]:
            # Windows whose requests still wait stay open.
            waits = left + servers[0]
            oldest = ring_window[waits & mask] if waits < arrived else window
            close_services(min(oldest, window), ints, service, outputs)
            if window - ints[OLDEST] >= len(service):
                break
            ints[LAST_WINDOW] = window
        elif inside:
            gap = now - reals[INSTANT]
            gaps[0] += gap
            gaps[1] += gap * gap
        if now != reals[INSTANT]:
            reals[INSTANT] = now
            ints[INSTANT_LEVEL] = level
        is_lost = lost[i]
        stays = not is_lost and departure[i] > now
        # Of several arrivals of one instant those that do not stay come first.
        found = level if stays else ints[INSTANT_LEVEL]
        if inside:
            fraction = passed - window
            half = 1 if fraction >= 0.5 else 0
            levels[half, found, 0] += 1
            if is_lost:
                levels[half, found, 1] += 1
            if samples:
                _sample(ints, levels, level, fraction, samples)
            else:
                levels[half, found, 2] += 1
            gaps[2 + int(fraction * SUBSLOTS)] += 1.0
        i += 1
        if is_lost:
            continue
        took = response[i - 1]
        if inside:
            latency[np.searchsorted(edges, took)] += 1
        if found == 0:
            octave = np.log2(took) if took > 0 else float(FINEST)
            fine = int(np.floor((octave - FINEST) * FINE))
            shortest[min(max(fine, 0), len(shortest) - 1)] += 1
        seconds = departure[i - 1] - now if stays else 0.0
        column = level_column(found + 1)
        for k in range(len(servers)):
            if found < servers[k]:
                _note(service, window, k, column, seconds)
            elif not stays:
                _note(service, window, k, LEVELS + column, seconds)
        if stays:
            ring[arrived & mask] = departure[i - 1]
            ring_window[arrived & mask] = window
            arrived += 1
            if level >= ints[HIGHEST]:
                ints[HIGHEST] = level + 1
            _push(heap, size, departure[i - 1])
            size += 1
    ints[HEAP], ints[ARRIVED], ints[LEFT] = size, arrived, left
    return i
