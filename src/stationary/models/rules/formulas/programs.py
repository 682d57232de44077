"""Programs: expressions in postfix form, run on a stack over NumPy arrays or torch tensors.

A tree would be walked by recursion, and could be neither pickled nor copied at any depth; a program
is a flat tuple of steps. Both arithmetics give the same numbers: float64, also for whole ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stationary.models.rules.formulas.tree import Apply, Expression, Name


@dataclass(frozen=True)
class Step:
    """Push a number, push what a name stands for, or apply a function to the last few values."""

    what: str | float
    takes: int = 0


Program = tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """What numbers and functions are, in a library of arrays."""

    number: Callable[[float], Any]
    functions: Mapping[str, Callable[..., Any]]


def _joined(some: Tensor, others: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Values on some places and values on the others, each at its own places."""
    shape = torch.broadcast_shapes(some.shape[:-1], others.shape[:-1])
    # Where the places are: a branch that is a plain number lies on the CPU, whatever the device.
    kind = torch.promote_types(some.dtype, others.dtype)
    out = torch.zeros((*shape, len(first) + len(second)), dtype=kind, device=first.device)
    out = out.index_add(-1, first, some.to(out).expand((*shape, len(first))))
    return out.index_add(-1, second, others.to(out).expand((*shape, len(second))))


NUMPY = Arithmetic(
    float,
    {
        "+": np.add,
        "-": np.subtract,
        "*": np.multiply,
        "/": np.divide,
        "^": np.power,
        "negative": np.negative,
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
        "=": np.equal,
        "!=": np.not_equal,
        "and": np.logical_and,
        "or": np.logical_or,
        "not": np.logical_not,
        "min": lambda *args: reduce(np.minimum, args),
        "max": lambda *args: reduce(np.maximum, args),
        "mod": np.mod,
        "if": np.where,
        "abs": np.abs,
        "exp": np.exp,
        "log": np.log,
        "sqrt": np.sqrt,
        "floor": np.floor,
        "ceil": np.ceil,
    },
)
TORCH = Arithmetic(
    lambda value: torch.tensor(value, dtype=torch.float64),
    {
        "+": torch.add,
        "-": torch.sub,
        "*": torch.mul,
        "/": torch.div,
        "^": torch.pow,
        "negative": torch.neg,
        "<": torch.lt,
        "<=": torch.le,
        ">": torch.gt,
        ">=": torch.ge,
        "=": torch.eq,
        "!=": torch.ne,
        "and": torch.logical_and,
        "or": torch.logical_or,
        "not": torch.logical_not,
        "min": lambda *args: reduce(torch.minimum, args),
        "max": lambda *args: reduce(torch.maximum, args),
        "mod": torch.remainder,
        "if": torch.where,
        "abs": torch.abs,
        "exp": torch.exp,
        "log": torch.log,
        "sqrt": torch.sqrt,
        "floor": torch.floor,
        "ceil": torch.ceil,
        "join": _joined,
    },
)


def postfix(expression: Expression) -> Program:
    """Return the program that computes an expression."""
    if isinstance(expression, Apply):
        inner = tuple(step for arg in expression.args for step in postfix(arg))
        return (*inner, Step(expression.op, len(expression.args)))
    return (Step(expression.name if isinstance(expression, Name) else expression.value),)


def run(program: Program, names: Mapping[str, Any], arithmetic: Arithmetic) -> Any:
    """Return what a program computes where names stand for these values."""
    stack: list[Any] = []
    for step in program:
        if step.takes:
            args = stack[-step.takes :]
            del stack[-step.takes :]
            stack.append(arithmetic.functions[str(step.what)](*args))
        elif isinstance(step.what, str):
            stack.append(names[step.what])
        else:
            stack.append(arithmetic.number(step.what))
    return stack[0]


def on_arrays(program: Program, names: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Run a program over arrays of equal length; what cannot be computed is NaN or infinite."""
    length = len(next(iter(names.values())))
    with np.errstate(all="ignore"):
        return np.broadcast_to(run(program, names, NUMPY), (length,))
