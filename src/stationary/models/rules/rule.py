"""One rule of a model: when it applies, what it changes, and how often.

    GUARD -> CHANGES [else lost] at RATE

``q1 < K -> q1 += 1 else lost at load``. The guard may be left out with its arrow. Changes are
``q = FORMULA``, ``q += FORMULA`` or ``q -= FORMULA``, separated by commas; all of them see the
state before the rule. ``lost`` among them says that a request leaves unserved, and ``else lost``
that a request that arrives where the guard is false is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from stationary.errors import InputError
from stationary.models.rules.errors import DescriptionError, about
from stationary.models.rules.formulas import Columns, Formula, name, on_arrays
from stationary.models.rules.language import Piece, cut, parse
from stationary.models.rules.states import Ints, Space, state_name


@dataclass(frozen=True)
class Rule:
    """A rule in which constants are numbers.

    Attributes
    ----------
    name : str
        What people call it.
    guard : Formula or None
        Where it applies; everywhere if None.
    changes : mapping
        The new value of every variable that it changes.
    lost : bool
        Whether a request leaves unserved when it happens.
    refuses : bool
        Whether a request that arrives where the guard is false is lost.
    rate : Formula
        How often it happens.
    """

    name: str
    guard: Formula | None
    changes: Mapping[str, Formula]
    lost: bool
    refuses: bool
    rate: Formula

    def moves(self, space: Space, codes: Ints, columns: Columns) -> tuple[Ints, Ints]:
        """Positions of the states in which it applies, and the codes of where it leads."""
        where = np.arange(len(codes))
        if self.guard is not None:
            where = np.flatnonzero(on_arrays(self.guard, columns))
        here = {variable: column[where] for variable, column in columns.items()}
        target = codes[where].copy()
        for variable, formula in self.changes.items():
            new = np.asarray(on_arrays(formula, here), dtype=np.float64)
            low, high = space.ranges[variable]
            good = (new >= low) & (new <= high) & (new == np.floor(new))
            if not good.all():
                k = int(np.flatnonzero(~good)[0])
                state = state_name({key: column[k] for key, column in here.items()})
                raise DescriptionError(
                    self._outside(variable, new[k], (low, high), state), "rules", self.name
                )
            target += (new - here[variable]).astype(np.int64) * space.strides[variable]
        return where, target

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
    """Read a rule.

    Parameters
    ----------
    rule, text : str
        Its name, and what it says.
    variables : collection of str
        What guards, changes and rates may speak of.
    others : collection of str
        Inputs and parameters, of which only rates may speak.
    constants : mapping
        Names that stand for numbers.
    """
    with about("rules", rule):
        reader = _Reader(text)
        guard = None
        if reader.has("->"):
            guard = parse(text, variables, constants, True, reader.until("->"))
            reader.take("->")
        changes: dict[str, Formula] = {}
        lost = False
        while True:
            change = f"a change such as '{next(iter(variables))} += 1', or 'lost'"
            target = reader.take(*variables, "lost", expected=change)
            if target.text == "lost":
                lost = True
            elif target.text in changes:
                raise reader.problem(f"{target.text} is changed twice", target)
            else:
                sign = reader.take("=", "+=", "-=").text
                new = parse(text, variables, constants, False, reader.until(",", "else", "at"))
                if sign != "=":
                    shown = f"{target.text} {sign[0]} {new.text}"
                    new = Formula(sign[0], (name(target.text), new), shown)
                changes[target.text] = new
            if not reader.sees(","):
                break
            reader.take(",")
        refuses = reader.sees("else")
        if refuses:
            place = reader.take("else")
            reader.take("lost")
            if guard is None:
                raise reader.problem(
                    "'else lost' needs a guard: without one nothing is refused", place
                )
        reader.take("at")
        rate = parse(text, [*variables, *others], constants, False, reader.until())
        return Rule(rule, guard, changes, lost, refuses, rate)


class _Reader:
    """Reads the pieces of a rule from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._pieces = cut(text)

    def has(self, sign: str) -> bool:
        """Whether a sign is still to come."""
        return any(piece.text == sign for piece in self._pieces)

    def sees(self, sign: str) -> bool:
        """Whether a sign comes next."""
        return self._pieces[0].text == sign

    def take(self, *allowed: str, expected: str = "") -> Piece:
        """Read one of these words or signs, or raise."""
        if self._pieces[0].text not in allowed:
            expected = expected or " or ".join(map(repr, allowed))
            raise self.problem(f"expected {expected}; got {self._pieces[0].shown}", self._pieces[0])
        return self._pieces.pop(0)

    def until(self, *ends: str) -> list[Piece]:
        """Read a formula up to one of these signs outside of parentheses, or to the end."""
        depth, last = 0, 0
        while (piece := self._pieces[last]).text and (depth > 0 or piece.text not in ends):
            depth += {"(": 1, ")": -1}.get(piece.text, 0)
            last += 1
        part, self._pieces = self._pieces[: last + 1], self._pieces[last:]
        return part

    def problem(self, reason: str, piece: Piece) -> InputError:
        """Return an error that points at a piece."""
        return DescriptionError(reason, text=self.text, at=piece.at)
