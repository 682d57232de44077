"""Rates of rules on many states at once: what does not move is computed once.

A rate such as ``load * min(q, servers) * mu`` is cut in three: what only the state decides, a table
``[E]`` made when the model is; what only inputs and parameters decide, ``[M, 1]``; and the product
of the two, the one operation that costs ``O(M E)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stationary.models.rules._space import Columns
from stationary.models.rules.formulas import (
    Apply,
    Expression,
    Number,
    Program,
    Step,
    on_arrays,
    postfix,
)


class Tables:
    """Arrays that programs need, by names no expression can have."""

    def __init__(self) -> None:
        self.arrays: dict[str, Tensor] = {}

    def add(self, values: NDArray[Any]) -> Step:
        """Keep an array; return the step that pushes it."""
        name = f"_table_{len(self.arrays)}"
        self.arrays[name] = torch.from_numpy(np.array(values))
        return Step(name)


def compiled(expression: Expression, columns: Columns, tables: Tables) -> Program:
    """Return the program for an expression on states whose variables have these values."""
    variables = columns.keys()
    if not expression.names & variables:
        return postfix(expression)
    if expression.names <= variables:
        return (tables.add(on_arrays(postfix(expression), columns)),)
    op, args = expression.op, expression.args  # type: ignore[union-attr]  # a leaf is done by now
    if op in ("*", "/"):
        return _product(expression, columns, tables)
    if op == "if" and args[0].names <= variables and not expression.boolean:
        return _branches(args, columns, tables)
    inner = tuple(step for arg in args for step in compiled(arg, columns, tables))
    return (*inner, Step(op, len(args)))


def _product(expression: Expression, columns: Columns, tables: Tables) -> Program:
    variables = columns.keys()
    fixed: dict[bool, list[Expression]] = {True: [], False: []}
    free: dict[bool, list[Expression]] = {True: [], False: []}
    mixed: list[tuple[Expression, bool]] = []
    for factor, above in _factors(expression, True):
        if not factor.names & variables:
            free[above].append(factor)
        elif factor.names <= variables:
            fixed[above].append(factor)
        else:
            mixed.append((factor, above))
    parts: list[tuple[Program, bool]] = []
    for group in (free, fixed):
        if group[True] or group[False]:
            parts.append((compiled(_quotient(group), columns, tables), True))
    parts += [(compiled(factor, columns, tables), above) for factor, above in mixed]
    program = parts[0][0] if parts[0][1] else (Step(1.0), *parts[0][0], Step("/", 2))
    for part, above in parts[1:]:
        program = (*program, *part, Step("*" if above else "/", 2))
    return program


def _factors(expression: Expression, above: bool) -> list[tuple[Expression, bool]]:
    """Return what a product is made of, and whether each stands above the line."""
    if isinstance(expression, Apply) and expression.op in ("*", "/"):
        left, right = expression.args
        below = above if expression.op == "*" else not above
        return _factors(left, above) + _factors(right, below)
    return [(expression, above)]


def _quotient(group: Mapping[bool, Sequence[Expression]]) -> Expression:
    def product(factors: Sequence[Expression]) -> Expression:
        return reduce(lambda a, b: Apply("*", (a, b)), factors)

    top = product(group[True]) if group[True] else Number(1.0)
    return Apply("/", (top, product(group[False]))) if group[False] else top


def _branches(args: Sequence[Expression], columns: Columns, tables: Tables) -> Program:
    """Return each branch on its own states, so that the other's NaN reaches no gradient."""
    condition, yes, no = args
    holds = np.asarray(on_arrays(postfix(condition), columns), dtype=bool)
    if holds.all() or not holds.any():
        return compiled(yes if holds.all() else no, columns, tables)
    first, second = np.flatnonzero(holds), np.flatnonzero(~holds)
    some = compiled(yes, {name: column[first] for name, column in columns.items()}, tables)
    others = compiled(no, {name: column[second] for name, column in columns.items()}, tables)
    return (*some, *others, tables.add(first), tables.add(second), Step("join", 4))
