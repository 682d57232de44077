"""The description of a model made of rules: arguments of `RuleModel`, keys of a model file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from numbers import Integral, Real
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    ValidationError,
)

from stationary.errors import InputError, did_you_mean
from stationary.models.rules.errors import DescriptionError, about
from stationary.models.rules.formulas import Formula, on_arrays
from stationary.models.rules.language import RESERVED, parse
from stationary.models.rules.rule import Rule, read_rule
from stationary.models.rules.states import Space

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_SHOWN = 100
_LISTS = ("inputs", "real", "arrivals")
_TEXTS = ("count", "jobs")


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"a name is letters, digits and _, and starts with a letter; got {_shown(value)}"
        )
    if value in RESERVED:
        raise ValueError("formulas and rules use this word; take another name")
    return value


def _number(value: Any) -> float:
    """Return a finite number as Python's own, which JSON can hold."""
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            if math.isfinite(value):
                return int(value) if isinstance(value, Integral) else float(value)
        except OverflowError:  # a whole number that no float holds
            pass
    raise ValueError(f"it must be a finite number; got {_shown(value)}")


def _shown(value: Any) -> str:
    """Return a value for a message, shortened."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


Name = Annotated[str, AfterValidator(_name)]
Number = Annotated[Any, PlainValidator(_number)]
NumberOrText = Annotated[Any, PlainValidator(lambda v: v if isinstance(v, str) else _number(v))]
Text = Annotated[str, StringConstraints(pattern=r"\S")]
Names = Annotated[tuple[Name, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)]


class Description(BaseModel):
    """A model made of rules, with every part of the right type; `RuleModel` documents them."""

    model_config = ConfigDict(frozen=True)

    inputs: tuple[Name, ...] = ("load",)
    count: Text | None = None
    jobs: Text | None = None
    arrivals: Names | None = None
    discipline: dict[Name, Text] = {}
    start: dict[Name, NumberOrText] = {}
    real: tuple[Name, ...] = ()
    constants: dict[Name, Number] = {}
    variables: dict[Name, tuple[NumberOrText, NumberOrText]] = Field(min_length=1)
    params: dict[Name, Number] = {}
    rules: dict[Name, Text] = Field(min_length=1)
    measures: dict[Name, Text] = {}

    @cached_property
    def space(self) -> Space:
        """All combinations of the values of the variables."""
        ranges = {}
        for name, (low, high) in self.variables.items():
            ends = self.whole(low, "variables", name), self.whole(high, "variables", name)
            if ends[0] > ends[1]:
                raise DescriptionError(
                    f"its range must go up; got {ends[0]} to {ends[1]}", "variables", name
                )
            ranges[name] = ends
        return Space(ranges)

    @cached_property
    def first(self) -> int:
        """Code of the state from which the others are reached."""
        values = {name: low for name, (low, _) in self.space.ranges.items()}
        for name, value in self.start.items():
            if name not in values:
                raise DescriptionError(
                    f"there is no variable {name!r}{did_you_mean(name, values)}", "start", name
                )
            values[name] = self.whole(value, "start", name)
            low, high = self.space.ranges[name]
            if not low <= values[name] <= high:
                raise DescriptionError(
                    f"{name} = {values[name]} is outside its range {low}..{high}", "start", name
                )
        return self.space.code(values)

    @cached_property
    def parsed_rules(self) -> tuple[Rule, ...]:
        """The rules, read."""
        others = [*self.inputs, *self.params]
        return tuple(
            read_rule(name, text, [*self.variables], others, self.constants)
            for name, text in self.rules.items()
        )

    @cached_property
    def arriving(self) -> tuple[str, ...]:
        """Names of the rules by which requests arrive."""
        refusing = tuple(rule.name for rule in self.parsed_rules if rule.refuses)
        if self.arrivals is None:
            return refusing
        for name in self.arrivals:
            if name not in self.rules:
                raise DescriptionError(
                    f"there is no rule {name!r}{did_you_mean(name, self.rules)}", "arrivals"
                )
        for name in refusing:
            if name not in self.arrivals:
                raise DescriptionError(
                    f"rule {name!r} says 'else lost', so requests arrive by it: list it, too",
                    "arrivals",
                )
        return self.arrivals

    @property
    def counted(self) -> str | None:
        """The formula of what people count: the only variable, if nothing else is said."""
        if self.count is None and len(self.variables) == 1:
            return next(iter(self.variables))
        return self.count

    def formula(
        self,
        text: str,
        section: str,
        key: str = "",
        others: Sequence[str] = (),
        condition: bool | None = False,
    ) -> Formula:
        """Read a formula of variables, constants and the names in ``others``."""
        with about(section, key):
            return parse(text, [*self.variables, *others], self.constants, condition)

    def whole(self, value: Any, section: str, key: str) -> int:
        """Return a whole number, given as one or as a formula of constants."""
        found = value
        if isinstance(value, str):
            with about(section, key):
                found = float(on_arrays(parse(value, (), self.constants), {})[0])
        if not (abs(found) < 2**53 and float(found).is_integer()):
            raise DescriptionError(f"it needs a whole number; got {_shown(value)}", section, key)
        return int(found)


def read_description(given: Mapping[str, Any], changes: Mapping[str, Any]) -> Description:
    """Check the arguments of `RuleModel`, with new values of constants and parameters."""
    given = {part: value for part, value in given.items() if value is not None}
    tables = {
        part: given[part]
        for part in ("constants", "params")
        if isinstance(given.get(part), Mapping)
    }
    for name, value in changes.items():
        part = next((part for part, table in tables.items() if name in table), None)
        if part is None:
            known = [known for table in tables.values() for known in table]
            raise InputError(
                f"the model has no constant or parameter {name!r}{did_you_mean(name, known)}"
            )
        tables[part] = {**tables[part], name: value}
    given |= tables
    try:
        found = Description.model_validate(given)
    except ValidationError as error:
        raise _described(error) from None
    _check_names(found)
    return found


def _described(error: ValidationError) -> DescriptionError:
    """Return an error of pydantic as one of ours."""
    first = error.errors(include_url=False)[0]
    section, *rest = map(str, first["loc"])
    listed = section in _LISTS or section in _TEXTS
    key = rest[0] if rest and not listed else ""
    if first["type"] == "missing" and not rest:
        return DescriptionError(f"a model needs [{section}]", section)
    if first["type"] == "value_error":
        return DescriptionError(str(first["ctx"]["error"]), section, key)
    if "[key]" in rest:
        need = "a name"
    elif section in _LISTS:
        need = "a list of names"
    elif section in _TEXTS or (key and section in ("rules", "measures", "discipline")):
        need = "a text"
    elif key:
        need = "a pair of the lowest and the highest value, such as [0, 10] or [0, 'K']"
    else:
        need = "a table of names and values"
    return DescriptionError(f"it must be {need}; got {_shown(first['input'])}", section, key)


def _check_names(given: Description) -> None:
    """Raise if a name stands for two things."""
    # Constants are also options of the model, beside the parts of its description.
    taken = {*Description.model_fields, "name", "model", "faster", "self"}
    owner = dict.fromkeys(taken & given.constants.keys(), "every model")
    for section in ("variables", "inputs", "params", "constants"):
        for name in getattr(given, section):
            if name in owner:
                raise DescriptionError(
                    f"{owner[name]} has this name already; take another one", section, name
                )
            owner[name] = section
