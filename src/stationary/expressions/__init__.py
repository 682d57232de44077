"""A small language of formulas: read, checked and evaluated, never executed."""

from stationary.expressions.parser import Parser, check_names, parse
from stationary.expressions.problems import ExpressionError, nearest, pointed
from stationary.expressions.programs import (
    NUMPY,
    TORCH,
    Program,
    Step,
    on_arrays,
    postfix,
    run,
)
from stationary.expressions.tokens import RESERVED
from stationary.expressions.tree import Apply, Expression, Name, Number, substituted

__all__ = [
    "NUMPY",
    "RESERVED",
    "TORCH",
    "Apply",
    "Expression",
    "ExpressionError",
    "Name",
    "Number",
    "Parser",
    "Program",
    "Step",
    "check_names",
    "nearest",
    "on_arrays",
    "parse",
    "pointed",
    "postfix",
    "run",
    "substituted",
]
