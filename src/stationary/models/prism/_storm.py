"""What Storm reads in a PRISM file, as rules and formulas of ours.

Nothing of Storm leaves this file, and nothing loads Storm before a PRISM model is asked for: it is
an optional library under another licence.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from stationary.errors import InputError, MissingError
from stationary.models.rules.formulas import (
    FUNCTIONS,
    OPERATORS,
    Formula,
    name,
    number,
    on_arrays,
)
from stationary.models.rules.rule import Rule
from stationary.models.rules.states import Space

_SIGNS = {
    "PLUS": "+",
    "MINUS": "-",
    "TIMES": "*",
    "DIVIDE": "/",
    "POWER": "^",
    "LESS": "<",
    "LESS_OR_EQUAL": "<=",
    "GREATER": ">",
    "GREATER_OR_EQUAL": ">=",
    "EQUAL": "=",
    "NOT_EQUAL": "!=",
    "IFF": "=",
    "XOR": "!=",
    "ITE": "if",
}
"""What Storm and our formulas call each operation that has not the same name in both."""

_CHAINED = ("PLUS", "TIMES", "AND", "OR", "MIN", "MAX")
_DEEPEST = 150
_ZERO, _ONE = number(0.0), number(1.0)

_REWARDS = re.compile(r"^rewards(?: \"([^\"]*)\")?\n(.*?)^endrewards", re.MULTILINE | re.DOTALL)
_REWARD = re.compile(r"\t(\[\w*\] )?(.*?\S): (.*);")
"""Rewards, and one line of them, in the text that Storm writes; it shows them nowhere else."""


class Program:
    """A PRISM model as rules, in which only the ``free`` constants have names."""

    space: Space  # the variables; those that are true or false are 1 or 0
    truths: list[str]  # names of variables that are true or false
    first: int  # code of the first state
    rules: list[tuple[str, Rule]]  # each with its action; commands that happen together are one
    labels: dict[str, Formula]  # conditions
    rewards: dict[str, Formula]  # what is earned per unit of time, at moves, too
    defined: dict[str, float]  # values that the file itself gives to free constants

    def __init__(self, source: str, constants: Mapping[str, float], free: Sequence[str]) -> None:
        self._constants, self._free = constants, free
        with _storm() as (stormpy, developer):
            program = _parsed(stormpy, source)
            self._known = {constant.name: constant for constant in program.constants}
            parts = [*program.global_integer_variables, *program.global_boolean_variables]
            for module in program.modules:
                parts += [*module.integer_variables, *module.boolean_variables]
            if not parts:
                raise InputError("the PRISM model has no variables, so it has only one state")
            self._variables = {part.name: part.expression_variable for part in parts}
            self._check_constants()
            self.truths = [n for n, v in self._variables.items() if v.has_boolean_type()]
            self.space, self.first = self._states(parts)
            self.rules = list(self._moves(program.modules))
            self.labels = {part.name: self._of_states(part.expression) for part in program.labels}
            parser = developer.storage.ExpressionParser(program.expression_manager)
            named = {n: v.get_expression() for n, v in self._variables.items()}
            named |= {n: c.expression_variable.get_expression() for n, c in self._known.items()}
            parser.set_identifier_mapping(named)
            self.rewards = dict(self._rewards(str(program), parser))
            values = {n: self._known[n].definition for n in free if self._known[n].defined}
            formulas = {n: self._formula(value) for n, value in values.items()}
            self.defined = {n: _value(found) for n, found in formulas.items() if not found.names}

    def _check_constants(self) -> None:
        for n in [*self._constants, *self._free]:
            if n not in self._known:
                names = ", ".join(self._known) or "none"
                raise InputError(f"the PRISM model has no constant {n!r}; it has {names}")
        for n, constant in self._known.items():
            kind, value = constant.type, self._constants.get(n)
            if n in self._free:
                if kind.is_boolean:
                    raise InputError(
                        f"constant {n!r} is true or false, so it can be neither an input nor "
                        f"learnt: give it a value in constants"
                    )
            elif value is None:
                if not constant.defined:
                    raise InputError(
                        f"constant {n!r} of the PRISM model has no value: give it one in constants "
                        f"(--constants {n}=5), or name it among the inputs x or the parameters "
                        f"theta"
                    )
            elif kind.is_boolean != isinstance(value, bool):
                expected = "true or false" if kind.is_boolean else "a number"
                raise InputError(f"constant {n!r} must be {expected}; got {value!r}")
            elif kind.is_integer and not float(value).is_integer():
                raise InputError(f"constant {n!r} must be a whole number; got {value!r}")

    def _formula(self, expression: Any, depth: int = 1) -> Formula:
        """Return an expression of Storm as a formula."""
        if depth > _DEEPEST:
            raise InputError(f"the PRISM model nests more than {_DEEPEST} operations: split them")
        if expression.is_variable():
            n = expression.get_identifier()
            if n in self._constants:
                return _literal(self._constants[n])
            if n in self.truths:
                return Formula("!=", (name(n), _ZERO))
            if n in self._variables or n in self._free:
                return name(n)
            return self._formula(self._known[n].definition, depth + 1)
        if expression.is_literal():
            truth = expression.has_boolean_type()
            return _literal(
                expression.evaluate_as_bool() if truth else expression.evaluate_as_double()
            )
        sign, parts = _sign(expression), _operands(expression)
        while sign in _CHAINED and _sign(parts[0]) == sign:
            parts[:1] = _operands(parts[0])  # a long sum is one operation, not many nested ones
        args = tuple(self._formula(part, depth + 1) for part in parts)
        if sign == "IMPLIES":
            return Formula("or", (Formula("not", args[:1]), args[1]))
        if sign == "MODULO":  # with the sign of the first, as in C
            below = _negative(Formula("mod", (_negative(args[0]), args[1])))
            return Formula("if", (Formula(">=", (args[0], _ZERO)), Formula("mod", args), below))
        if sign == "MINUS" and len(args) == 1:
            return _negative(args[0])
        op = _SIGNS.get(sign, sign.lower())
        if op not in OPERATORS and op not in FUNCTIONS:
            raise InputError(f"an operation of the PRISM model is not supported: {expression}")
        return Formula(op, args)

    def _of_states(self, expression: Any) -> Formula:
        """Return a formula that the state alone decides."""
        found = self._formula(expression)
        for n in self._free:
            if n in found.names:
                raise InputError(
                    f"constant {n!r} occurs in a guard, a range, an update or a label of the PRISM "
                    f"model, so it decides more than how fast it moves: give it a value in "
                    f"constants (--constants {n}=5)"
                )
        return found

    def _states(self, parts: Sequence[Any]) -> tuple[Space, int]:
        ranges, first = {}, {}
        for part in parts:
            low, high = 0, 1
            if part.name not in self.truths:
                bounds = part.lower_bound_expression, part.upper_bound_expression
                low, high = (int(_value(self._of_states(bound))) for bound in bounds)
            start = int(_value(self._of_states(part.initial_value_expression)))
            if not low <= start <= high:
                raise InputError(
                    f"variable {part.name!r} of the PRISM model starts at {start}, which is not in "
                    f"its range {low}..{high}"
                )
            ranges[part.name], first[part.name] = (low, high), start
        return Space(ranges), Space(ranges).code(first)

    def _moves(self, modules: Sequence[Any]) -> Iterator[tuple[str, Rule]]:
        together: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
        for module in modules:
            for command in module.commands:
                if command.is_labeled:
                    together[command.action_name][module.name].append(command)
                else:
                    yield from self._rules("", [command])
        for action, some in together.items():
            for commands in product(*some.values()):
                yield from self._rules(action, commands)

    def _rules(self, action: str, commands: Sequence[Any]) -> Iterator[tuple[str, Rule]]:
        """Yield a rule for each way in which commands that happen together may end."""
        guards = [self._of_states(command.guard_expression) for command in commands]
        called = f"[{action}] {' & '.join(str(each.guard_expression) for each in commands)}"
        for updates in product(*(command.updates for command in commands)):
            rate = Formula("*", tuple(self._formula(u.probability_expression) for u in updates))
            # What has no rate never happens, and may lead anywhere.
            happens = _happens(rate, frozenset(self._free))
            changes = {}
            for change in (each for update in updates for each in update.assignments):
                new = self._of_states(change.expression)
                op, args = ("if", (new, _ONE, _ZERO)) if new.boolean else (new.op, new.args)
                changes[change.variable.name] = Formula(op, args, str(change.expression))
            guard = Formula("and", (*guards, happens))
            yield action, Rule(called, guard, changes, False, False, rate)

    def _rewards(self, text: str, parser: Any) -> Iterator[tuple[str, Formula]]:
        """Yield what is earned in a state per unit of time, and at the moves out of it."""
        for called, lines in _REWARDS.findall(text):
            terms = []
            for action, condition, earned in _REWARD.findall(lines):
                where = self._of_states(parser.parse_from_string(condition))
                value = self._formula(parser.parse_from_string(earned))
                if not action:
                    terms.append(Formula("if", (where, value, _ZERO)))
                for label, rule in self.rules:
                    if action and label == action.strip("[] "):
                        happens = Formula("and", (where, rule.guard))
                        earns = Formula("*", (value, rule.rate))
                        terms.append(Formula("if", (happens, earns, _ZERO)))
            # A file may have one structure of rewards without a name.
            yield called or "reward", Formula("+", (_ZERO, *terms))


@contextmanager
def _storm() -> Iterator[tuple[Any, Any]]:
    """Storm, if it is installed, kept from writing to the terminal."""
    try:
        import stormpy
        from stormpy import developer
    except ImportError:
        raise MissingError("PRISM models need Storm: pip install 'stationary[prism]'") from None
    before = developer.get_log_level()
    developer.set_log_level(developer.LogLevel.OFF)
    try:
        yield stormpy, developer
    except RuntimeError as error:
        said = re.sub(r"^\w+Exception: ", "", str(error)).strip().rstrip(".")
        raise InputError(f"Storm cannot read the text of the PRISM model: {said}") from None
    finally:
        developer.set_log_level(before)


def _parsed(stormpy: Any, source: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.sm")
        file.write_text(source, encoding="utf-8")
        program = stormpy.parse_prism_program(file, prism_compatibility=True, simplify=False)
    kind = str(program.model_type).rpartition(".")[2].lower()
    if kind != "ctmc":
        raise InputError(
            f"the PRISM model is a {kind}; only continuous-time Markov chains (ctmc) have rates to "
            f"learn"
        )
    if program.has_initial_states_expression:
        raise InputError("the PRISM model has init ... endinit: give every variable its own init")
    if re.search(r"^system$", str(program), re.MULTILINE):
        raise InputError("the PRISM model has system ... endsystem: leave it out")
    return program.substitute_formulas()


def _sign(expression: Any) -> str:
    """Return what Storm calls an operation; nothing for others, and for what it has no name for."""
    try:
        return str(expression.operator.name) if expression.is_function_application else ""
    except ValueError:
        return ""


def _operands(expression: Any) -> list[Any]:
    return [expression.get_operand(k) for k in range(expression.arity)]


def _literal(value: float | bool) -> Formula:
    if isinstance(value, bool):
        return Formula("=", (_ONE, number(float(value))))
    return number(float(value))


def _negative(formula: Formula) -> Formula:
    return Formula("negative", (formula,))


def _happens(rate: Formula, free: frozenset[str]) -> Formula:
    """Where a rate may be other than zero, for some values of the free constants."""
    if not rate.names & free:
        return Formula("!=", (rate, _ZERO))
    if rate.op in ("*", "min"):
        return Formula("and", tuple(_happens(arg, free) for arg in rate.args))
    if rate.op in ("/", "^"):
        return _happens(rate.args[0], free)
    if rate.op in ("+", "-", "max"):
        return Formula("or", tuple(_happens(arg, free) for arg in rate.args))
    if rate.op == "if" and not rate.args[0].names & free:
        where, *ways = rate.args
        one, other = (_happens(way, free) for way in ways)
        otherwise = Formula("and", (Formula("not", (where,)), other))
        return Formula("or", (Formula("and", (where, one)), otherwise))
    return _literal(True)


def _value(formula: Formula) -> float:
    return float(on_arrays(formula, {})[0])
