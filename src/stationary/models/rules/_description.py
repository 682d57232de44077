"""The description of a model made of rules, read and checked as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stationary.errors import did_you_mean
from stationary.models.rules import _parts as parts
from stationary.models.rules._blame import DescriptionError, about
from stationary.models.rules._rule import Rule, read_rule
from stationary.models.rules._space import Space
from stationary.models.rules.formulas import Expression

ARGUMENTS = (
    *("inputs", "count", "jobs", "arrivals", "start", "real"),
    *("constants", "variables", "params", "rules", "measures"),
)
"""What a description may hold: arguments of `RuleModel`, keys of a model file."""

_TAKEN = {*ARGUMENTS, "name", "model", "faster", "self"}
"""Constants are options of the model as well, beside these."""


@dataclass(frozen=True, eq=False)
class Description:
    """A model made of rules, as `RuleModel` takes it, with everything read.

    Attributes
    ----------
    space : Space
        The variables.
    first : int
        Code of the state from which the others are reached.
    rules : tuple of Rule
        What may happen.
    params, constants : mapping
        Values by name.
    inputs, real : tuple of str
        As for `Model`.
    count, jobs : Expression or None
        What people count, and requests in the system.
    arrivals : tuple of str
        Rules by which requests arrive.
    measures : mapping
        Rewards by name.
    plain : mapping
        The description as it was given, for saved runs.
    """

    space: Space
    first: int
    rules: tuple[Rule, ...]
    params: Mapping[str, float]
    constants: Mapping[str, float]
    inputs: tuple[str, ...]
    real: tuple[str, ...]
    count: Expression | None
    jobs: Expression | None
    arrivals: tuple[str, ...]
    measures: Mapping[str, Expression]
    plain: Mapping[str, Any]


def read_description(given: Mapping[str, Any], changes: Mapping[str, Any]) -> Description:
    """Read a description.

    Parameters
    ----------
    given : mapping
        The arguments of `RuleModel`, None where one was left out.
    changes : mapping
        New values of constants and parameters.
    """
    ranges = parts.named_parts(given["variables"], "variables", needed=True)
    texts = parts.named_parts(given["rules"], "rules", needed=True)
    params = parts.named_parts(given["params"], "params")
    constants = parts.named_parts(given["constants"], "constants")
    parts.replaced(changes, constants, params)
    params = {name: parts.number(value, "params", name) for name, value in params.items()}
    constants = {name: parts.number(v, "constants", name) for name, v in constants.items()}
    inputs = parts.names(given["inputs"], "inputs")
    for name in constants:
        if name in _TAKEN:
            raise DescriptionError("a model has this already; rename it", "constants", name)
    parts.check_different(variables=ranges, inputs=inputs, params=params, constants=constants)

    space = Space({name: parts.ends(value, constants, name) for name, value in ranges.items()})
    rules = []
    for name, text in texts.items():
        with about("rules", name):
            text = parts.text(text, "rules", name)
            rules.append(read_rule(name, text, [*ranges], [*inputs, *params], constants))
    count = given["count"]
    if count is None and len(ranges) == 1:
        count = next(iter(ranges))

    def of_states(value: Any, section: str) -> Expression | None:
        return None if value is None else parts.formula(value, [*ranges], constants, section)

    known = [*ranges, *inputs, *params]
    texts = parts.named_parts(given["measures"], "measures")
    return Description(
        space=space,
        first=_first(space, given["start"], constants),
        rules=tuple(rules),
        params=params,
        constants=constants,
        inputs=inputs,
        real=parts.names(given["real"], "real"),
        count=of_states(count, "count"),
        jobs=of_states(given["jobs"], "jobs"),
        arrivals=_arrivals(given["arrivals"], rules),
        measures={
            name: parts.formula(value, known, constants, "measures", name, boolean=None)
            for name, value in texts.items()
        },
        plain=_plain({**given, "params": params, "constants": constants}),
    )


def _first(space: Space, start: Any, constants: Mapping[str, float]) -> int:
    values = {name: space.range(name)[0] for name in space.names}
    for name, value in parts.named_parts(start, "start").items():
        if name not in values:
            raise DescriptionError(
                f"there is no variable {name!r}{did_you_mean(name, values)}", "start", name
            )
        values[name] = parts.whole(value, constants, "start", name)
        low, high = space.range(name)
        if not low <= values[name] <= high:
            raise DescriptionError(
                f"{name} = {values[name]} is outside its range {low}..{high}", "start", name
            )
    return space.code(values)


def _arrivals(value: Any, rules: Sequence[Rule]) -> tuple[str, ...]:
    refusing = [rule.name for rule in rules if rule.refuses]
    if value is None:
        return tuple(refusing)
    found = parts.names([value] if isinstance(value, str) else value, "arrivals")
    known = [rule.name for rule in rules]
    for name in found:
        if name not in known:
            raise DescriptionError(
                f"there is no rule {name!r}{did_you_mean(name, known)}", "arrivals"
            )
    for name in refusing:
        if name not in found:
            raise DescriptionError(
                f"rule {name!r} says 'else lost', so requests arrive by it: list it, too",
                "arrivals",
            )
    return found


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description as text, numbers, lists and mappings only."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [plain(inner) for inner in value]
        # Numbers of NumPy are none for JSON.
        return value if isinstance(value, str) else parts.plain_number(value)

    return {key: plain(value) for key, value in given.items() if value not in (None, {}, (), [])}
