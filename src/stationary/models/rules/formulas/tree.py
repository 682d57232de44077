"""Expressions as trees: numbers, names, and operations on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from stationary.models.rules.formulas.tokens import FUNCTIONS

COMPARISONS = frozenset({"<", "<=", ">", ">=", "=", "!="})
LEVELS = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(COMPARISONS, 4),
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "negative": 7,
    "^": 8,
}
"""How tightly operators bind."""
_ATOM = 9


@dataclass(frozen=True)
class Number:
    """A number."""

    value: float
    at: int = field(default=0, compare=False)
    depth = 1
    boolean = False

    @property
    def names(self) -> frozenset[str]:
        """None."""
        return frozenset()

    def __str__(self) -> str:
        whole = self.value.is_integer() and abs(self.value) < 1e15
        return str(int(self.value)) if whole else repr(self.value)


@dataclass(frozen=True)
class Name:
    """A variable, an input, a parameter or a constant."""

    name: str
    at: int = field(default=0, compare=False)
    depth = 1
    boolean = False

    @property
    def names(self) -> frozenset[str]:
        """The name alone."""
        return frozenset({self.name})

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Apply:
    """An operator or a function, and what it is applied to."""

    op: str
    args: tuple[Expression, ...]
    at: int = field(default=0, compare=False)

    @cached_property
    def depth(self) -> int:
        """How many operations lie above one another."""
        return 1 + max(arg.depth for arg in self.args)

    @cached_property
    def boolean(self) -> bool:
        """Whether it is true or false, and no number."""
        if self.op == "if":
            return self.args[1].boolean
        return self.op in COMPARISONS or self.op in ("and", "or", "not")

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name in it."""
        return frozenset().union(*(arg.names for arg in self.args))

    def __str__(self) -> str:
        if self.op in FUNCTIONS:
            return f"{self.op}({', '.join(map(str, self.args))})"
        level = LEVELS[self.op]
        if self.op == "not":
            return f"not {_shown(self.args[0], level)}"
        if self.op == "negative":
            return f"-{_shown(self.args[0], level)}"
        # The side on which the same operator would not be read as it was meant.
        left, right = (level + 1, level) if self.op == "^" else (level, level + 1)
        if self.op in COMPARISONS:
            left = level + 1
        return f"{_shown(self.args[0], left)} {self.op} {_shown(self.args[1], right)}"


Expression = Number | Name | Apply


def _shown(arg: Expression, least: int) -> str:
    level = LEVELS.get(arg.op, _ATOM) if isinstance(arg, Apply) else _ATOM
    return str(arg) if level >= least else f"({arg})"


def named(expression: Expression) -> Iterator[Name]:
    """Every place where a name stands, from left to right."""
    if isinstance(expression, Name):
        yield expression
    elif isinstance(expression, Apply):
        for arg in expression.args:
            yield from named(arg)


def substituted(expression: Expression, values: Mapping[str, float]) -> Expression:
    """Put numbers in the place of names."""
    if isinstance(expression, Name) and expression.name in values:
        value = values[expression.name]
        number = Number(float(abs(value)), expression.at)
        return number if value >= 0 else Apply("negative", (number,), expression.at)
    if isinstance(expression, Apply):
        args = tuple(substituted(arg, values) for arg in expression.args)
        return Apply(expression.op, args, expression.at)
    return expression
