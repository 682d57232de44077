"""Models in the language of PRISM, read by Storm."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from stationary._support.arguments import explained
from stationary.errors import InputError
from stationary.models._base import Model
from stationary.models.measures import Measure, mean_of_states
from stationary.models.prism import _storm
from stationary.models.rules.base import FormulaModel
from stationary.models.rules.files import read_source
from stationary.models.rules.formulas import Columns, Formula, on_arrays
from stationary.models.rules.reach import explored


class Prism(FormulaModel):
    """A chain written in the PRISM language, some of whose constants are inputs or parameters.

    States are named by the values of the variables, ``s=0,q=3``. The labels of the file are
    categories and measures; its rewards are measures, long-run means per unit time.

    Parameters
    ----------
    source : str
        The text of a PRISM file; `from_prism` reads one.
    x : sequence of str, or str
        Constants that are inputs; the first is the load.
    theta : sequence of str, or mapping
        Constants to learn, all positive; a mapping gives present values, which otherwise (and for
        None) are those in the file, or 1.
    constants : mapping, optional
        Values of other constants, also of those to which the file gives another one.
    count : str, optional
        The variable whose values people count: 0, 1, 2, ... of the queue length. By default the
        only variable, if there is only one; otherwise states go by their full names.

    Examples
    --------
    >>> source = '''ctmc
    ... const int capacity;
    ... const double load;
    ... const double service;
    ... module queue
    ...   q : [0..capacity] init 0;
    ...   [] q < capacity -> load : (q' = q + 1);
    ...   [] q > 0 -> service : (q' = q - 1);
    ... endmodule
    ... label "loss" = q = capacity;'''
    >>> queue = Prism(source, x="load", theta={"service": 2.0}, constants={"capacity": 2})
    >>> queue([1.0]).rates.tolist(), queue.states_of("loss"), list(queue.states)
    ([[1.0, 2.0, 1.0, 2.0]], [2], ['q=0', 'q=1', 'q=2'])
    """

    name = "prism"
    how_to_count = "name a variable with count= (--group-by) for numbers to have a meaning"
    how_to_say_times = (
        "its commands do not tell requests apart; write them as rules with discipline= (RuleModel)"
    )

    def __init__(
        self,
        source: str,
        x: Sequence[str] | str,
        theta: Sequence[str] | Mapping[str, float | None] | str,
        constants: Mapping[str, float] | None = None,
        count: str | None = None,
    ) -> None:
        inputs, learnt = _names(x, "x"), _names(theta, "theta")
        fixed = dict(constants or {})
        _check_roles(inputs, learnt, fixed)
        program = _storm.Program(source, fixed, [*inputs, *learnt])
        states, applied = explored(
            program.space, program.first, [rule for _, rule in program.rules]
        )
        columns = states.columns
        for name in columns:
            columns[name] = columns[name].astype(bool if name in program.truths else np.int64)
        used = set().union(*(rule.rate.names for rule, source, _ in applied if len(source)))
        for name in learnt:
            if name not in used:
                raise InputError(
                    f"theta: no rate of the PRISM model depends on {name!r}, so there is nothing "
                    f"to learn of it: give it a value in constants"
                )
        starts = {name: program.defined.get(name, 1.0) for name in learnt}
        given = theta if isinstance(theta, Mapping) else {}
        for name, value in given.items():
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Real):
                raise InputError(f"theta: {name!r} must be a number; got {value!r}")
            starts[name] = float(value)
        if count is None and len(columns) == 1:
            count = next(iter(columns))
        if count is not None and count not in columns:
            raise InputError(
                f"count: the PRISM model has no variable {count!r}; it has {', '.join(columns)}"
            )
        super().__init__(
            states,
            applied,
            None if count is None else columns[count],
            params=starts,
            inputs=inputs,
        )
        self.labels = {
            name: np.flatnonzero(on_arrays(condition, columns))
            for name, condition in program.labels.items()
        }
        self.constants = fixed
        self._own = self._make_measures(program, count)

    def _make_measures(self, program: _storm.Program, count: str | None) -> dict[str, Measure]:
        columns, found = self.states.columns, dict[str, Measure]()
        for name, condition in program.labels.items():
            if 0 < len(self.labels[name]) < len(self.states):  # else there is nothing to forecast
                about = f"long-run probability of the label {name}"
                found[name] = self._measure_of(name, condition, about)
        for name, earned in program.rewards.items():
            about = f"long-run mean of the reward {name} per unit time"
            low = 0.0 if _never_negative(earned, columns) else -math.inf
            shown = name if name not in found else f"{name}_reward"
            found[shown] = self._measure_of(name, earned, about, low)
        # In a file without labels and rewards, the variables are all there is to measure.
        for name in [count] if count is not None else [] if found else list(columns):
            level = columns[name].astype(np.float64)
            if level.min() < level.max():
                mean = mean_of_states(level, f"long-run mean of {name}")
                found.setdefault(f"mean_{name}", mean)
        return found

    def changed(self, **options: Any) -> Model:
        """Return the model with other values of its constants."""
        return super().changed(constants={**self.constants, **options})

    @property
    def options(self) -> dict[str, Any]:
        """Constructor arguments, names in lists, as JSON has them."""
        given = super().options
        return {k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}


@explained
def from_prism(
    path: str | os.PathLike[str],
    *,
    x: Sequence[str] | str,
    theta: Sequence[str] | Mapping[str, float | None] | str,
    constants: Mapping[str, float] | None = None,
    count: str | None = None,
) -> Prism:
    """Read a continuous-time Markov chain from a PRISM file; arguments as for `Prism`."""
    return Prism(read_source(Path(path)), x, theta, constants, count)


def _names(given: Any, argument: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InputError(
            f"{argument} must name at least one constant of the PRISM model; got {given!r}"
        )
    return names


def _check_roles(inputs: Sequence[str], learnt: Sequence[str], fixed: Mapping[str, Any]) -> None:
    roles = [*inputs, *learnt, *fixed]
    twice = [name for name in roles if roles.count(name) > 1]
    if twice:
        raise InputError(
            f"constant {twice[0]!r} is named twice in x, theta and constants: it is an input, a "
            f"parameter or fixed"
        )
    for name, value in fixed.items():
        if not isinstance(value, Real) or not math.isfinite(value):
            raise InputError(f"constants: {name!r} must be a finite number; got {value!r}")


def _never_negative(formula: Formula, columns: Columns) -> bool:
    """Whether a formula of the state and of positive constants is seen to be never negative."""
    if formula.names <= columns.keys():
        return bool((on_arrays(formula, columns) >= 0).all())
    if formula.op == "name":
        return True
    safe = formula.op in ("+", "*", "/", "^", "min", "max", "if")
    return safe and all(_never_negative(arg, columns) for arg in formula.args)
