"""Formulas as small trees, computed over NumPy arrays or torch tensors.

Both libraries give the same numbers: float64 throughout, also for whole numbers.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Columns = Mapping[str, NDArray[Any]]
"""Values of every variable in some states."""

OPERATORS: dict[str, tuple[type[ast.AST], Callable[..., Any]]] = {
    "+": (ast.Add, operator.add),
    "-": (ast.Sub, operator.sub),
    "*": (ast.Mult, operator.mul),
    "/": (ast.Div, operator.truediv),
    "^": (ast.Pow, operator.pow),
    "negative": (ast.USub, operator.neg),
    "<": (ast.Lt, operator.lt),
    "<=": (ast.LtE, operator.le),
    ">": (ast.Gt, operator.gt),
    ">=": (ast.GtE, operator.ge),
    "=": (ast.Eq, operator.eq),
    "!=": (ast.NotEq, operator.ne),
    "and": (ast.And, operator.and_),
    "or": (ast.Or, operator.or_),
    "not": (ast.Not, operator.invert),
}
"""What Python's parser calls each, and what computes it."""

COMPARISONS = frozenset({"<", "<=", ">", ">=", "=", "!="})
CONNECTIVES = frozenset({"and", "or", "not"})
_OF_SEVERAL = frozenset({"and", "or", "min", "max", "+", "*"})
"""What may have more arguments than the function that computes it."""

FUNCTIONS = {
    "min": ("minimum", 2, 100),
    "max": ("maximum", 2, 100),
    "mod": ("remainder", 2, 2),
    "if": ("where", 3, 3),
    **{same: (same, 1, 1) for same in ("abs", "exp", "log", "sqrt", "floor", "ceil")},
}
"""What NumPy and torch call each function, and how many arguments it takes."""


@dataclass(frozen=True)
class Formula:
    """A number, a name, or an operation on formulas."""

    op: str  # "number", "name", an operator or a function
    args: tuple[Any, ...]  # the number, the name, or the formulas that the operation takes
    text: str = field(default="", compare=False)  # as it was written, for messages

    @cached_property
    def boolean(self) -> bool:
        """Whether it is a condition, not a number."""
        if self.op == "if":
            return bool(self.args[1].boolean)
        return self.op in COMPARISONS or self.op in CONNECTIVES

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name in it."""
        if self.op in ("number", "name"):
            return frozenset(self.args if self.op == "name" else ())
        return frozenset().union(*(arg.names for arg in self.args))

    def __deepcopy__(self, memo: dict[int, Any]) -> Formula:
        return self  # immutable

    def __reduce__(self) -> tuple[Any, ...]:
        # Fewer levels of recursion than the default, so that every formula can be pickled.
        return Formula, (self.op, self.args, self.text)


def number(value: float) -> Formula:
    """Return a number as a formula; below zero it is an operation, as in the language."""
    positive = Formula("number", (float(abs(value)),))
    return positive if value >= 0 else Formula("negative", (positive,))


def name(of: str) -> Formula:
    """Return a name as a formula."""
    return Formula("name", (of,))


def evaluate(formula: Formula, values: Mapping[str, Any], library: ModuleType) -> Any:
    """Return the value of a formula by ``numpy`` or ``torch``, given that of every name."""
    if formula.op == "name":
        return values[formula.args[0]]
    if formula.op == "number":
        # A number of the library's own: 1 / 0 is then infinite, as it is in arrays.
        value = formula.args[0]
        return np.float64(value) if library is np else torch.tensor(value, dtype=torch.float64)
    args = [evaluate(arg, values, library) for arg in formula.args]
    if formula.op == "join":
        return _join(*args)
    if formula.op in OPERATORS:
        function = OPERATORS[formula.op][1]
    else:
        function = getattr(library, FUNCTIONS[formula.op][0])
    return reduce(function, args) if formula.op in _OF_SEVERAL else function(*args)


def on_arrays(formula: Formula, columns: Columns) -> NDArray[Any]:
    """Return the values in some states; what cannot be computed is NaN or infinite."""
    length = len(next(iter(columns.values()), [0]))
    with np.errstate(all="ignore"):
        return np.broadcast_to(evaluate(formula, columns, np), (length,))


def _join(some: Tensor, others: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Put values at the places ``first`` and other values at the places ``second``."""
    shape = torch.broadcast_shapes(some.shape[:-1], others.shape[:-1])
    # On the device of the places: a branch that is a plain number is on the CPU.
    kind = torch.promote_types(some.dtype, others.dtype)
    out = torch.zeros((*shape, len(first) + len(second)), dtype=kind, device=first.device)
    out = out.index_add(-1, first, some.to(out).expand((*shape, len(first))))
    return out.index_add(-1, second, others.to(out).expand((*shape, len(second))))
