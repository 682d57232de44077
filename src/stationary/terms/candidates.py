"""What is known of a system: whole numbers may be one, a list of candidates, or a range."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stationary.errors import InputError
from stationary.terms.spans import parse_span

_RANGE = re.compile(r"\s*(\d+)\s*-\s*(\d+)\s*")

_MOST = 5  # numbers of a range that are tried: they differ little from their neighbours


def as_candidates(value: Any, name: str) -> tuple[int, ...]:
    """Return the numbers that a user means: a number, a list of them, or the ends of a range.

    >>> as_candidates(4, "servers"), as_candidates([1, 2, 4], "servers")
    ((4,), (1, 2, 4))
    >>> as_candidates((14, 20), "capacity")
    (14, 16, 17, 18, 20)
    """
    values = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    for each in values:
        if not isinstance(each, int) or isinstance(each, bool) or each < 1:
            raise InputError(
                f"{name} must be a whole number, a list of them, or the ends of a range as a "
                f"tuple; got {value!r}"
            )
    if not values or (isinstance(value, tuple) and len(value) != 2):
        raise InputError(f"{name} has no candidates, or a range without two ends; got {value!r}")
    if isinstance(value, tuple):
        low, high = value
        if low > high:
            raise InputError(f"{name} is a range from {low} to {high}: give the smaller end first")
        steps = min(high - low, _MOST - 1)
        values = [low + round(k * (high - low) / max(steps, 1)) for k in range(steps + 1)]
    return tuple(dict.fromkeys(values))


def parse_candidates(text: str, name: str) -> tuple[int, ...]:
    """Return the numbers in a text such as ``4``, ``1,2,4`` or ``17-21``.

    >>> parse_candidates("17-19", "--capacity"), parse_candidates("1,4", "--servers")
    ((17, 18, 19), (1, 4))
    """
    match = _RANGE.fullmatch(text)
    try:
        numbers = [int(part) for part in (match.groups() if match else text.split(","))]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise InputError(
            f"{name} is a number of at least 1, several as in 1,2,4, or a range as in 17-21; got "
            f"{text!r}"
        )
    return as_candidates((numbers[0], numbers[1]) if match else numbers, name)


def parse_system(
    servers: str | None, capacity: str | None, patience: str | None, mark: str = ""
) -> dict[str, Any]:
    """Return what is known of a system, as arguments of `stationary.plan`.

    ``mark`` stands before a name in messages, such as ``--`` on the command line.

    >>> parse_system("4", "17-19", "30s")
    {'servers': [4], 'capacity': [17, 18, 19], 'patience': 30.0}
    """
    known: dict[str, Any] = {
        name: list(parse_candidates(text, f"{mark}{name}"))
        for name, text in (("servers", servers), ("capacity", capacity))
        if text is not None
    }
    if patience is not None:
        known["patience"] = parse_span(patience, f"{mark}patience")
    if "capacity" in known:
        pairs(known.get("servers", [1]), known["capacity"])
    return known


def pairs(servers: Sequence[int], capacities: Sequence[int]) -> list[tuple[int, int]]:
    """Return every pair of servers and a capacity that has room for requests in service."""
    found = [(m, size) for m in servers for size in capacities if size >= m]
    if not found:
        raise InputError(
            f"the capacity counts requests in service, too: it must be at least the number of "
            f"servers; got servers {', '.join(map(str, servers))} and capacity "
            f"{', '.join(map(str, capacities))}"
        )
    return found
