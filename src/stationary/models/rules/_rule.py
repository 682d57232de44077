"""One rule of a model: when it applies, what it changes, and how often.

    GUARD -> CHANGES [else lost] at RATE

``q1 < K -> q1 += 1 else lost at load``. The guard may be left out with its arrow. Changes are
``q = EXPRESSION``, ``q += EXPRESSION`` or ``q -= EXPRESSION``, separated by commas; all of them see
the state before the rule. ``lost`` among them says that a request leaves unserved, and
``else lost`` that one that arrives where the guard is false is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stationary.errors import InputError
from stationary.models.rules._space import Columns, Ints, Space
from stationary.models.rules.formulas import (
    Apply,
    Expression,
    Name,
    Parser,
    Program,
    check_names,
    on_arrays,
    postfix,
    substituted,
)


@dataclass(frozen=True)
class Rule:
    """A rule, read and checked; constants are numbers in it.

    Attributes
    ----------
    name : str
        What people call it.
    guard : Program or None
        Where it applies; everywhere if None.
    changes : mapping
        The new value of every variable it changes.
    shown : mapping
        The same for people.
    lost : bool
        Whether a request leaves unserved when it happens.
    refuses : bool
        Whether a request that arrives where the guard is false is lost.
    rate : Expression
        How often it happens.
    """

    name: str
    guard: Program | None
    changes: Mapping[str, Program]
    shown: Mapping[str, str]
    lost: bool
    refuses: bool
    rate: Expression

    def holds(self, columns: Columns, length: int) -> NDArray[np.bool_]:
        """Where the guard is true."""
        if self.guard is None:
            return np.ones(length, dtype=bool)
        return np.asarray(on_arrays(self.guard, columns), dtype=bool)

    def moves(self, space: Space, codes: Ints, columns: Columns) -> tuple[Ints, Ints]:
        """Positions of the states in which it applies, and the codes of where it leads."""
        where = np.flatnonzero(self.holds(columns, len(codes)))
        here = {name: column[where] for name, column in columns.items()}
        target = codes[where].copy()
        if not len(where):
            return where, target
        for name, program in self.changes.items():
            new = np.asarray(on_arrays(program, here), dtype=np.float64)
            low, high = space.range(name)
            good = (new >= low) & (new <= high) & (new == np.floor(new))
            if not good.all():
                k = int(np.flatnonzero(~good)[0])
                raise InputError(self._leaves(space, name, new[k], codes[where[k]]))
            target += (new - here[name]).astype(np.int64) * space.stride(name)
        return where, target

    def _leaves(self, space: Space, name: str, value: float, code: int) -> str:
        low, high = space.range(name)
        what = (
            f"in state {space.name(code)} it would make {name} = {self.shown[name]} = {value:g}, "
        )
        if low <= value <= high:
            return what + "and a variable is a whole number: use floor(...) or ceil(...)"
        side = f"{name} < {high}" if value > high else f"{name} > {low}"
        return what + (
            f"outside its range {low}..{high}: forbid it with a guard such as '{side} -> ...', or "
            f"widen the range"
        )


def read_rule(
    name: str,
    text: str,
    variables: Collection[str],
    others: Collection[str],
    constants: Mapping[str, float],
) -> Rule:
    """Read a rule.

    Parameters
    ----------
    name, text : str
        The rule, as above.
    variables : collection of str
        What guards, changes and rates may speak of.
    others : collection of str
        Inputs and parameters, of which only rates may speak.
    constants : mapping
        Names that stand for numbers.
    """
    parser = Parser(text)
    known = [*variables, *constants]

    def expression(names: Collection[str], boolean: bool, what: str) -> Expression:
        at = parser.token.at
        found = parser.expression()
        check_names(found, names, text)
        if found.boolean != boolean:
            need = "a condition, such as q > 0" if boolean else "a number, not a condition"
            raise parser.problem(f"{what} must be {need}", at)
        return substituted(found, constants)

    guard = None
    if parser.contains("->"):
        guard = postfix(expression(known, True, "what stands before '->'"))
        parser.take("->")
    changes: dict[str, Expression] = {}
    lost = False
    while True:
        target = parser.token
        if parser.sees("lost"):
            parser.advance()
            lost = True
        elif target.text in variables:
            parser.advance()
            sign = parser.take("=", "+=", "-=").text
            if target.text in changes:
                raise parser.problem(f"{target.text} is changed twice", target.at)
            new = expression(known, False, f"the new value of {target.text}")
            if sign != "=":
                new = Apply(sign[0], (Name(target.text), new))
            changes[target.text] = new
        else:
            raise parser.problem(
                f"a change such as '{next(iter(variables))} += 1', or 'lost', must stand here"
            )
        if not parser.sees(","):
            break
        parser.advance()
    refuses = parser.sees("else")
    if refuses:
        place = parser.advance().at
        parser.take("lost")
        if guard is None:
            raise parser.problem("'else lost' needs a guard: without one nothing is refused", place)
    parser.take("at")
    rate = expression([*known, *others], False, "a rate")
    parser.finish()
    programs = {key: postfix(new) for key, new in changes.items()}
    shown = {key: str(new) for key, new in changes.items()}
    return Rule(name, guard, programs, shown, lost, refuses, rate)
