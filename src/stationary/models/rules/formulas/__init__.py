"""A small language of formulas: read, checked and evaluated, never executed."""

from stationary.models.rules.formulas.parser import Parser, check_names, parse
from stationary.models.rules.formulas.problems import ExpressionError, pointed
from stationary.models.rules.formulas.programs import (
    NUMPY,
    TORCH,
    Program,
    Step,
    on_arrays,
    postfix,
    run,
)
from stationary.models.rules.formulas.tokens import RESERVED
from stationary.models.rules.formulas.tree import Apply, Expression, Name, Number, substituted

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
    "on_arrays",
    "parse",
    "pointed",
    "postfix",
    "run",
    "substituted",
]
