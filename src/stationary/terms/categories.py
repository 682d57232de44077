"""Categories: which states a column of counts covers, and how people write them down."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from stationary.errors import InputError

State = int | str
Category = State | Sequence[State]
"""What a user may pass: one state, or several of which any counts."""

Observed = State | tuple[State, ...]
"""A category in its one form, which `as_category` makes."""

MOST_IN_A_RANGE = 1_000_000
_WHOLE = re.compile(r"0|[1-9][0-9]*")
_CONDITION = re.compile(r"[<>=!]")
_OR_MORE = re.compile(r"([0-9]+)(?:\+|plus)")
_RANGE = re.compile(r"([0-9]+)(?:\.\.|-)([0-9]+)")
_COLUMN_OF_STATES = re.compile(r"(.*\S)\s*=\s*([^=]*[^=\s])")
_COLUMN_OF_CONDITION = re.compile(r"(.*?\S)\s*=\s*\(\s*(.+?)\s*\)")


def as_state(value: Any) -> State:
    """Return a state in its one form: a number when it reads as one, else a name."""
    if isinstance(value, str):
        if not value or value != value.strip() or not value.isprintable():
            raise InputError(
                f"a state's name must be printable, without space around it; got {value!r}"
            )
        return int(value) if _WHOLE.fullmatch(value) else str(value)
    try:
        number = -1 if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise InputError(f"a state is a whole number from 0 up, or a name; got {value!r}")
    return number


def as_category(value: Category) -> Observed:
    """Return a category in its one form: a state, or several in natural order."""
    # An array without dimensions has `__iter__` but cannot be iterated over.
    if isinstance(value, str) or getattr(value, "ndim", 1) == 0 or not isinstance(value, Iterable):
        return as_state(value)
    states = sorted(map(as_state, value), key=natural)
    if not states:
        raise InputError("a category needs at least one state; got an empty sequence")
    for one, other in itertools.pairwise(states):
        if one == other:
            raise InputError(f"state {one!r} is listed twice in one category: {value!r}")
    return states[0] if len(states) == 1 else tuple(states)


def as_categories(observe: Iterable[Category]) -> tuple[Observed, ...]:
    """Return categories in their one form, checked to be disjoint and at least two."""
    if isinstance(observe, str):
        raise InputError(f"observe must be a list of categories; got the text {observe!r}")
    categories = tuple(map(as_category, observe))
    owner: dict[State, int] = {}
    for k, category in enumerate(categories):
        for state in members(category):
            if state in owner:
                first = label(categories[owner[state]])
                raise InputError(
                    f"state {state!r} is in category {owner[state]} ({first!r}) and in category "
                    f"{k} ({label(category)!r}); a visit counts once: keep it in one of them"
                )
            owner[state] = k
    if len(categories) < 2:
        raise InputError(
            f"at least two observed categories are needed, because the conditional likelihood of "
            f"one is constant; got {', '.join(map(label, categories)) or 'none'}"
        )
    return categories


def members(category: Observed) -> tuple[State, ...]:
    """States of a category."""
    return category if isinstance(category, tuple) else (category,)


def label(category: Observed) -> str:
    """Readable form of a category, which `parse_category` reads: ``0``, ``a+b``, ``1..20``."""
    runs: list[list[State]] = []
    for state in members(category):
        last = runs[-1][-1] if runs else None
        if isinstance(state, int) and isinstance(last, int) and state == last + 1:
            runs[-1].append(state)
        else:
            runs.append([state])
    return "+".join(
        f"{run[0]}..{run[-1]}" if len(run) > 2 else "+".join(map(str, run)) for run in runs
    )


def parse_category(text: str) -> Observed:
    """Read ``3``, ``overload``, ``1..20``, ``1-20`` or several joined by ``+``.

    A condition, such as ``q1 + q2 >= 3``, is one name, whatever signs are in it; so is ``10+``, or
    ``10plus``, whose states are those of a model from 10 up.
    """
    text = text.strip()
    if match := _OR_MORE.fullmatch(text):
        return f"{match[1]}+"
    parts = [text] if _CONDITION.search(text) else [part.strip() for part in text.split("+")]
    if not all(parts):
        return as_state(text)
    states: list[State] = []
    for part in parts:
        span = _RANGE.fullmatch(part)
        if not span:
            states.append(as_state(part))
            continue
        low, high = int(span[1]), int(span[2])
        if not low <= high < low + MOST_IN_A_RANGE:
            raise InputError(
                f"the range of states {part!r} must go up, over at most {MOST_IN_A_RANGE} states"
            )
        states.extend(range(low, high + 1))
    return as_category(states)


def split_list(text: str) -> list[str]:
    """Cut a list at its commas, except those inside parentheses."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def natural(category: Observed) -> list[tuple[int, int, str]]:
    """Sort key: numbers by value, names after them with the numbers in them by value."""
    pieces = re.split(r"([0-9]+)", str(members(category)[0]))
    return [(0, int(p), p) if p[0] in "0123456789" else (1, 0, p) for p in pieces if p]


def find_categories(wanted: Iterable[Category], present: Sequence[Observed]) -> list[int]:
    """Positions of categories, each given by its states or its label."""
    if isinstance(wanted, str) or not isinstance(wanted, Iterable):
        raise InputError(f"the categories to keep must be a list; got {wanted!r}")
    place = {category: k for k, category in enumerate(present)}
    by_label = {label(category): k for category, k in place.items()}
    found = []
    for value in wanted:
        k = by_label.get(value) if isinstance(value, str) else None
        if k is None:
            k = place.get(parse_category(value) if isinstance(value, str) else as_category(value))
        if k is None:
            raise InputError(
                f"there is no category {value!r} among the counts; there are: {', '.join(by_label)}"
            )
        if k in found:
            raise InputError(f"category {value!r} is asked for twice; name it once")
        found.append(k)
    return found


def parse_counts(text: str) -> str | dict[str, Observed]:
    """Read the command line's ``--counts``.

    A pattern with ``{}`` is returned as it is. Otherwise the text is a list of ``column=states``,
    cut at the last ``=`` because columns may be called ``Q=21``; states are ``3``, ``overload``,
    ``1-20``, ``1..20`` or ``1+2+3``, or a condition in parentheses.

    >>> parse_counts("Q=0=0,Q=21=overload,busy=1-3")
    {'Q=0': 0, 'Q=21': 'overload', 'busy': (1, 2, 3)}
    >>> parse_counts("idle=(q1 + q2 = 0),full=(min(q1, q2) >= 5)")
    {'idle': 'q1 + q2 = 0', 'full': 'min(q1, q2) >= 5'}
    """
    if "{}" in text:
        return text
    of_column: dict[str, Observed] = {}
    for item in split_list(text):
        match = _COLUMN_OF_CONDITION.fullmatch(item) or _COLUMN_OF_STATES.fullmatch(item)
        if not match:
            raise InputError(
                f"counts: {item!r} is not column=states; write a pattern such as 'Q={{}}' "
                f"or a list such as 'idle=0,busy=1-20'"
            )
        if match[1] in of_column:
            raise InputError(f"counts: column {match[1]!r} is listed twice; list it once")
        of_column[match[1]] = parse_category(match[2])
    return of_column


def parse_observe(text: str) -> list[Observed]:
    """Read the command line's ``--observe``: states separated by commas, ``2-5`` for four of them.

    >>> parse_observe("0,2-5,overload")
    [0, 2, 3, 4, 5, 'overload']
    >>> parse_observe("q1 + q2 = 0, q1 > 0 & q2 = 0")
    ['q1 + q2 = 0', 'q1 > 0 & q2 = 0']
    """
    categories: list[Observed] = []
    for item in split_list(text):
        if not item:
            raise InputError(f"observe: {text!r} has an empty item; write states such as '0,1,2-5'")
        category = parse_category(item)
        # A range stands for its states, but what is joined by + is one category.
        categories.extend([category] if "+" in item else members(category))
    return categories
