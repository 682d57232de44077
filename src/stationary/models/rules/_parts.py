"""The parts of a model's description, checked: every error says in which part it is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from stationary.errors import InputError, did_you_mean
from stationary.models.rules._blame import DescriptionError, about
from stationary.models.rules.formulas import (
    RESERVED,
    Expression,
    check_names,
    on_arrays,
    parse,
    postfix,
    substituted,
)
from stationary.models.rules.formulas.problems import ExpressionError

_LONGEST = 100
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def named_parts(value: Any, section: str, needed: bool = False) -> dict[str, Any]:
    """Return a part that maps names to things, its names checked."""
    if value is None and not needed:
        return {}
    if not isinstance(value, Mapping) or (needed and not value):
        raise DescriptionError(f"it must map names to values; got {shown(value)}", section)
    for name in value:
        check_name(name, section)
    return dict(value)


def names(value: Any, section: str) -> tuple[str, ...]:
    """Return a part that lists names."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise DescriptionError(f"it must be a list of names; got {shown(value)}", section)
    for name in value:
        check_name(name, section)
    return tuple(value)


def check_name(name: Any, section: str) -> None:
    """Raise unless expressions can speak of a name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("_table_"):
        raise DescriptionError(
            f"a name is letters, digits and _, and starts with a letter; got {shown(name)}", section
        )
    if name in RESERVED:
        raise DescriptionError(
            "expressions and rules use this word; take another name", section, name
        )


def check_different(**sections: Sequence[str] | Mapping[str, Any]) -> None:
    """Raise if a name stands for two things."""
    owner: dict[str, str] = {}
    for section, names in sections.items():
        for name in names:
            if name in owner:
                raise DescriptionError(
                    f"{owner[name]} has this name, too; rename one of them", section, name
                )
            owner[name] = section


def number(value: Any, section: str, key: str) -> float:
    """Return a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not _finite(value):
        raise DescriptionError(f"it must be a finite number; got {shown(value)}", section, key)
    return plain_number(value)


def _finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def shown(value: Any) -> str:
    """Return a value for a message, shortened."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def plain_number(value: Real) -> float:
    """Return a number as Python's own."""
    return int(value) if isinstance(value, Integral) else float(value)


def text(value: Any, section: str, key: str = "") -> str:
    """Return a text."""
    if not isinstance(value, str) or not value.strip():
        raise DescriptionError(f"it must be a text; got {shown(value)}", section, key)
    return value


def ends(value: Any, constants: Mapping[str, float], key: str) -> tuple[int, int]:
    """Return the lowest and the highest value of a variable, whole numbers."""
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise DescriptionError(
            f"its range is a pair of the lowest and the highest value, such as [0, 10] or "
            f"[0, 'K']; got {shown(value)}",
            "variables",
            key,
        )
    low, high = (whole(end, constants, "variables", key) for end in value)
    if low > high:
        raise DescriptionError(f"its range must go up; got {low} to {high}", "variables", key)
    return low, high


def whole(value: Any, constants: Mapping[str, float], section: str, key: str) -> int:
    """Return a whole number, given as one or as an expression of constants."""
    if isinstance(value, str):
        with about(section, key):
            found = parse(value)
            check_names(found, constants, value)
            if found.boolean:
                raise ExpressionError("this must be a number, not a condition", value, 0)
        got = float(on_arrays(postfix(substituted(found, constants)), {"": np.zeros(1)})[0])
    else:
        got = number(value, section, key)
    if not (abs(got) < 2**53 and float(got).is_integer()):
        raise DescriptionError(f"it needs a whole number; got {shown(value)}", section, key)
    return int(got)


def formula(
    value: Any,
    known: Sequence[str],
    constants: Mapping[str, float],
    section: str,
    key: str = "",
    boolean: bool | None = False,
) -> Expression:
    """Return an expression, with numbers in the place of constants.

    ``boolean`` says whether it must be a condition, a number, or may be either (None).
    """
    with about(section, key):
        source = text(value, section, key)
        found = parse(source)
        check_names(found, [*known, *constants], source)
        if boolean is not None and found.boolean != boolean:
            need = "a condition, such as q > 0" if boolean else "a number, not a condition"
            raise ExpressionError(f"this must be {need}", source, 0)
    return substituted(found, constants)


def replaced(changes: Mapping[str, Any], constants: dict[str, Any], params: dict[str, Any]) -> None:
    """Put new values in the place of those of constants and parameters."""
    for name, value in changes.items():
        if name not in constants and name not in params:
            raise InputError(
                f"the model has no constant or parameter {name!r}"
                f"{did_you_mean(name, [*constants, *params])}"
            )
        (constants if name in constants else params)[name] = value
