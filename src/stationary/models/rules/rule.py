"""One rule of a model: when it applies, what it changes, and how often.

    GUARD -> CHANGES [else lost] at RATE

``q1 < K -> q1 += 1 else lost at load``. The guard may be left out with its arrow. Changes are
``q = FORMULA``, ``q += FORMULA`` or ``q -= FORMULA``, separated by commas; all of them see the
state before the rule. ``lost`` among them says that a request leaves unserved, and ``else lost``
that a request that arrives where the guard is false is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from stationary.models.rules.errors import DescriptionError, about
from stationary.models.rules.formulas import Columns, Formula, name, on_arrays
from stationary.models.rules.language import Piece, cut, parse
from stationary.models.rules.states import Ints, Space, state_name


@dataclass(frozen=True)
class Rule:
    """A rule in which constants are numbers."""

    name: str
    guard: Formula | None  # where it applies; everywhere if None
    changes: Mapping[str, Formula]  # the new value of every variable that it changes
    lost: bool  # a request leaves unserved when it happens
    refuses: bool  # a request that arrives where the guard is false is lost
    rate: Formula  # how often it happens

    def moves(
        self, space: Space, codes: Ints, columns: Columns, *, strict: bool = True
    ) -> tuple[Ints, Ints]:
        """Positions of the states in which it applies, and the codes of where it leads.

        Where it would leave the range of a variable it raises, or leads nowhere if not ``strict``.
        """
        where = np.arange(len(codes))
        if self.guard is not None:
            where = np.flatnonzero(on_arrays(self.guard, columns))
        here = {variable: column[where] for variable, column in columns.items()}
        target, inside = codes[where].copy(), np.ones(len(where), dtype=bool)
        for variable, formula in self.changes.items():
            new = np.asarray(on_arrays(formula, here), dtype=np.float64)
            low, high = space.ranges[variable]
            good = (new >= low) & (new <= high) & (new == np.floor(new))
            if strict and not good.all():
                k = int(np.flatnonzero(~good)[0])
                state = state_name({key: column[k] for key, column in here.items()})
                raise DescriptionError(
                    self._outside(variable, new[k], (low, high), state), "rules", self.name
                )
            change = np.where(good, new - here[variable], 0.0)
            target += change.astype(np.int64) * space.strides[variable]
            inside &= good
        return where[inside], target[inside]

    def _outside(self, variable: str, value: float, ends: tuple[int, int], state: str) -> str:
        low, high = ends
        written = self.changes[variable].text
        what = f"in state {state} it would make {variable} = {written} = {value:g}, "
        if low <= value <= high:
            return what + "and a variable is a whole number: use floor(...) or ceil(...)"
        side = f"{variable} < {high}" if value > high else f"{variable} > {low}"
        return what + (
            f"outside its range {low}..{high}: forbid it with a guard such as '{side} -> ...', or "
            f"widen the range"
        )


def read_rule(
    rule: str,
    text: str,
    variables: Collection[str],
    others: Collection[str],
    constants: Mapping[str, float],
) -> Rule:
    """Read a rule, of which only the rate may speak of inputs and parameters (``others``)."""
    with about("rules", rule):
        parts = _parts(text)
        guard = None
        if parts[0][-1].text == "->":
            guard = parse(text, variables, constants, True, parts.pop(0))
        *doing, rate = parts
        refuses = len(doing) > 1 and doing[-2][-1].text == "else"
        if refuses:
            refused = doing.pop()
            if len(refused) != 2 or refused[0].text != "lost":
                raise _problem(f"'else' needs 'lost'; got {refused[0].shown}", text, refused[0])
            if guard is None:
                reason = "'else lost' needs a guard: without one nothing is refused"
                raise _problem(reason, text, refused[0])
        changes: dict[str, Formula] = {}
        lost = False
        for part in doing:
            if part[0].text == "lost" and len(part) == 2:
                lost = True
                continue
            target, sign = part[0], part[1].text if len(part) > 2 else ""
            if target.text not in variables or sign not in ("=", "+=", "-="):
                example = f"a change such as '{next(iter(variables))} += 1', or 'lost'"
                raise _problem(f"expected {example}; got {target.shown}", text, target)
            if target.text in changes:
                raise _problem(f"{target.text} is changed twice", text, target)
            new = parse(text, variables, constants, False, part[2:])
            if sign != "=":
                shown = f"{target.text} {sign[0]} {new.text}"
                new = Formula(sign[0], (name(target.text), new), shown)
            changes[target.text] = new
        formula = parse(text, [*variables, *others], constants, False, rate)
        return Rule(rule, guard, changes, lost, refuses, formula)


def _parts(text: str) -> list[list[Piece]]:
    """Cut a rule behind each ``->``, ``,``, ``else`` and ``at`` outside of parentheses."""
    parts: list[list[Piece]] = [[]]
    depth = 0
    pieces = cut(text)
    for piece in pieces:
        depth += {"(": 1, ")": -1}.get(piece.text, 0)
        parts[-1].append(piece)
        if depth <= 0 and piece.text in ("->", ",", "else", "at"):
            parts.append([])
    order = "".join(part[-1].text for part in parts)
    if not re.fullmatch(r"(->)?,*(else)?at", order):
        reason = "a rule is 'GUARD -> CHANGES at RATE', with 'else lost' before 'at' if wanted"
        raise _problem(reason, text, pieces[-1])
    return parts


def _problem(reason: str, text: str, piece: Piece) -> DescriptionError:
    return DescriptionError(reason, text=text, at=piece.at)
