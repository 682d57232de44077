"""What Storm makes of a PRISM file: a chain whose rates are rational functions, as plain data.

Nothing of Storm leaves this file, and nothing loads Storm before a PRISM model is asked for: it is
an optional library under another licence.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stationary.errors import InputError, MissingError
from stationary.models.prism._prism_text import spelled_out, undefined, without_comments
from stationary.models.prism._rational import Polynomial, Rational, rational
from stationary.models.rules.states import MOST_STATES, Ints, States

_NOT_OURS = ("init", "deadlock")
"""Labels that Storm adds to every model."""


@dataclass(frozen=True, eq=False)
class Chain:
    """The reachable states of a PRISM model, in lexicographic order, and its moves.

    Attributes
    ----------
    states : States
        Their names, and the value of every variable in each.
    src, dst : ndarray
        States at the ends of every edge.
    rates : Rational
        Of every edge.
    labels : dict
        States of every label, in the order of the file.
    rewards : dict
        What every state earns per unit of time, moves out of it included.
    defined : dict
        Values that the file itself gives to the free constants.
    """

    states: States
    src: Ints
    dst: Ints
    rates: Rational
    labels: dict[str, Ints]
    rewards: dict[str, Rational]
    defined: dict[str, float]


def read(source: str, constants: Mapping[str, float], free: Sequence[str]) -> Chain:
    """Build the chain of a PRISM model.

    Parameters
    ----------
    source : str
        The text of the file.
    constants : mapping
        Values of constants, whether or not the file defines them.
    free : sequence of str
        Constants that stay free; rates are functions of them.
    """
    with _storm() as stormpy:
        code = without_comments(source)
        program = _program(stormpy, code)
        _check_names(program, constants, free)
        defined = _definitions(stormpy, undefined(code, constants), constants, free)
        program = _program(stormpy, spelled_out(undefined(code, [*constants, *free])))
        program = _fixed(stormpy, program, constants)
        _check_free(stormpy, program, free)
        options = stormpy.BuilderOptions()
        options.set_build_state_valuations()
        options.set_build_all_labels()
        options.set_build_all_reward_models()
        with _explained("build the chain"):
            model = stormpy.build_model[stormpy.RationalFunction](program, options=options)
        if model.nr_states > MOST_STATES:
            raise InputError(
                f"the PRISM model has {model.nr_states} states, more than {MOST_STATES}: give its "
                f"constants smaller values, or forbid more with guards"
            )
        columns = _variables(program, model)
        order = np.lexsort([*reversed(columns.values())])  # Storm's own order means nothing
        place = order.argsort()
        src, dst, rates = _edges(model)
        return Chain(
            states=States({name: column[order] for name, column in columns.items()}),
            src=place[src],
            dst=place[dst],
            rates=rates,
            labels={
                label.name: np.sort(place[list(model.labeling.get_states(label.name))])
                for label in program.labels
                if label.name not in _NOT_OURS
            },
            rewards={
                # A file may have one structure of rewards without a name.
                part.name or "reward": _rewards(model, model.reward_models[part.name], order)
                for part in program.reward_models
            },
            defined=defined,
        )


@contextmanager
def _storm() -> Iterator[Any]:
    """Storm, if it is installed, kept from writing to the terminal."""
    try:
        import stormpy
        from stormpy import developer
    except ImportError:
        raise MissingError("PRISM models need Storm: pip install 'stationary[prism]'") from None
    before = developer.get_log_level()
    developer.set_log_level(developer.LogLevel.OFF)
    try:
        yield stormpy
    finally:
        developer.set_log_level(before)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Raise an error of Storm as one of ours."""
    try:
        yield
    except RuntimeError as error:
        said = re.sub(r"^\w+Exception: ", "", str(error)).strip().rstrip(".")
        # What Storm says of an operator that its algebra does not have.
        if "any_cast" in said or "rational function" in said:
            said = (
                "where constants are inputs or learnt, rates and rewards are made by +, -, *, /, "
                "whole powers, min, max and ?: only; floor, ceil, mod and log are not among them"
            )
        raise InputError(f"Storm cannot {what} of the PRISM model: {said}") from None


def _program(stormpy: Any, code: str) -> Any:
    with tempfile.TemporaryDirectory() as folder, _explained("read the text"):
        file = Path(folder, "model.sm")
        file.write_text(code, encoding="utf-8")
        program = stormpy.parse_prism_program(file, prism_compatibility=True, simplify=False)
    kind = str(program.model_type).rpartition(".")[2].lower()
    if kind != "ctmc":
        raise InputError(
            f"the PRISM model is a {kind}; only continuous-time Markov chains (ctmc) have rates to "
            f"learn"
        )
    return program


def _check_names(program: Any, constants: Mapping[str, float], free: Sequence[str]) -> None:
    known = [constant.name for constant in program.constants]
    for name in [*constants, *free]:
        if name not in known:
            raise InputError(
                f"the PRISM model has no constant {name!r}; it has {', '.join(known) or 'none'}"
            )
    for constant in program.constants:
        if constant.name in free and constant.type.is_boolean:
            raise InputError(
                f"constant {constant.name!r} is true or false, so it can be neither an input nor "
                f"learnt: give it a value in constants"
            )
    given = {*constants, *free}
    missing = [c.name for c in program.constants if not c.defined and c.name not in given]
    if missing:
        raise InputError(
            f"constant {missing[0]!r} of the PRISM model has no value: give it one in constants "
            f"(--constants {missing[0]}=5), or name it among the inputs x or the parameters theta"
        )


def _fixed(stormpy: Any, program: Any, constants: Mapping[str, float]) -> Any:
    kinds = {constant.name: constant.type for constant in program.constants}
    values: dict[str, Any] = {}
    for name, value in constants.items():
        kind = kinds[name]
        if kind.is_boolean != isinstance(value, bool):
            expected = "true or false" if kind.is_boolean else "a number"
            raise InputError(f"constant {name!r} must be {expected}; got {value!r}")
        if kind.is_integer and not float(value).is_integer():
            raise InputError(f"constant {name!r} must be a whole number; got {value!r}")
        # Storm takes a number for a constant of its own type only.
        values[name] = value if kind.is_boolean else (int if kind.is_integer else float)(value)
    with _explained("set the constants"):
        return stormpy.instantiate_constants(program, values)[0]


def _definitions(
    stormpy: Any, code: str, constants: Mapping[str, float], free: Sequence[str]
) -> dict[str, float]:
    """Values that the file gives to free constants, where it gives one."""
    program = _fixed(stormpy, _program(stormpy, code), constants).substitute_constants()
    return {
        c.name: float(c.definition.evaluate_as_double())
        for c in program.constants
        if c.name in free and c.defined and not c.definition.contains_variables()
    }


def _check_free(stormpy: Any, program: Any, free: Sequence[str]) -> None:
    """Raise unless the free constants decide only how fast the chain moves, not where to."""
    if program.undefined_constants_are_graph_preserving:
        return
    for name in free:
        others = {other: 1.0 for other in free if other != name}
        alone = _fixed(stormpy, program, others)
        if not alone.undefined_constants_are_graph_preserving:
            raise InputError(
                f"constant {name!r} occurs in a guard, a range, an update, a label or a choice "
                f"(?:, min, max) of the PRISM model, so it decides more than how fast it moves: "
                f"give it a value in constants (--constants {name}=5)"
            )


def _edges(model: Any) -> tuple[Ints, Ints, Rational]:
    """Sources, destinations and rates; a move to the state itself changes nothing in a CTMC."""
    known: dict[Any, int] = {}
    src, dst, which = np.empty((3, model.nr_transitions), dtype=np.int64)
    end = 0
    for row in range(model.nr_states):
        for entry in model.transition_matrix.get_row(row):
            if entry.column != row:
                src[end], dst[end] = row, entry.column
                which[end] = known.setdefault(entry.value, len(known))
                end += 1
    return src[:end], dst[:end], rational(list(map(_ratio, known)), which[:end])


def _variables(program: Any, model: Any) -> dict[str, NDArray[Any]]:
    parts = [
        *program.global_integer_variables,
        *program.global_boolean_variables,
        *(v for m in program.modules for v in [*m.integer_variables, *m.boolean_variables]),
    ]
    values = {
        variable.name: np.array(model.state_valuations.get_values_states(variable))
        for variable in model.state_valuations.get_all_variables()
    }
    if not values:
        raise InputError("the PRISM model has no variables, so it has only one state")
    return {part.name: values[part.name] for part in parts}


def _rewards(model: Any, rewards: Any, order: Ints) -> Rational:
    known: dict[Any, int] = {}
    exits = model.exit_rates
    which = np.empty(model.nr_states, dtype=np.int64)
    for place, state in enumerate(order.tolist()):
        parts = []
        if rewards.has_state_rewards:
            parts.append(rewards.get_state_reward(state))
        if rewards.has_state_action_rewards:
            # Storm keeps the mean reward of a move; there are this many moves per unit of time.
            parts.append(rewards.get_state_action_reward(state) * exits[state])
        total = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        which[place] = known.setdefault(total, len(known))
    return rational(list(map(_ratio, known)), which)


def _ratio(value: Any) -> tuple[Polynomial, Polynomial]:
    """Return a function of Storm as plain data, its denominator positive or 1 where possible."""
    over, under = _polynomial(value.numerator), _polynomial(value.denominator)
    # A denominator that is a number is divided by now, and exactly.
    scale = under[()] if under.keys() == {()} else Fraction(-1 if max(under.values()) <= 0 else 1)
    over, under = ({k: weight / scale for k, weight in side.items()} for side in (over, under))
    return over, under


def _polynomial(value: Any) -> dict[tuple[str, ...], Fraction]:
    if value.is_constant():
        return {(): Fraction(str(value.constant_part()))}
    found = {}
    for term in value.polynomial():
        product = sorted(v.name for v, power in term.monomial or () for _ in range(power))
        found[tuple(product)] = Fraction(str(term.coeff))
    return found
