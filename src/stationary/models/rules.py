"""Models from rules: variables with ranges, and what may happen to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary.errors import InputError, RateError
from stationary.expressions import TORCH, Program, on_arrays, postfix, run
from stationary.generator import Generator
from stationary.measures import Flows, Measure
from stationary.models._arrivals import rule_flows, sees_time_averages
from stationary.models._base import Model
from stationary.models._description import Description, read_description
from stationary.models._flows import (
    counted,
    flow_measures,
    flow_programs,
    in_states,
    rate_reward,
    state_reward,
)
from stationary.models._parts import formula
from stationary.models._rates import Tables, compiled
from stationary.models._reach import explored
from stationary.models._space import States


class RuleModel(Model):
    """A chain written as rules: ``q1 < K -> q1 += 1 else lost at load``.

    Its states are what the rules reach from the first state, in lexicographic order, and are called
    ``q1=3,q2=0``. Rules that lead from one state to the same other one add up. ``docs/models.md``
    has the language.

    Parameters
    ----------
    variables : mapping
        Lowest and highest value of every variable: whole numbers, or expressions of constants.
    rules : mapping
        Rules by name, each ``GUARD -> CHANGES [else lost] at RATE``.
    params : mapping
        Parameters, and where a fit starts.
    inputs : sequence of str
        Names of the columns of ``x``; the first is the load.
    constants : mapping, optional
        Numbers that expressions call by name.
    start : mapping, optional
        Value of variables in the first state; the lowest by default.
    count : str, optional
        What people count, an expression of variables: ``q2`` or ``min(q1 + q2, 5)``. A number in
        windows is then its value. The variable, if there is only one.
    jobs : str, optional
        Requests in the system, an expression of variables; gives the measures ``mean_queue`` and
        ``response_time``. A rule of the arrivals brings as many requests as it grows by, a rule
        that says ``lost`` loses as many as it falls by; one, where it does not change or is left
        out.
    arrivals : str or sequence of str, optional
        Rules by which requests arrive; by default those that say ``else lost``. They give the
        measures ``loss`` and ``throughput``.
    measures : mapping, optional
        Further measures: the long-run mean of an expression, or the probability of a condition.
    real : sequence of str
        Parameters that may take either sign; the others are positive.
    **changes
        New values of constants and parameters.

    Examples
    --------
    Two servers in a row, of which people count the second queue only:

    >>> tandem = RuleModel(
    ...     variables={"q1": (0, "K"), "q2": (0, "K")},
    ...     rules={
    ...         "arrive": "q1 < K -> q1 += 1 else lost at load",
    ...         "move": "q1 > 0 and q2 < K -> q1 -= 1, q2 += 1 at mu1",
    ...         "leave": "q2 > 0 -> q2 -= 1 at mu2",
    ...     },
    ...     params={"mu1": 12.0, "mu2": 15.0}, constants={"K": 10}, count="q2", jobs="q1 + q2",
    ... )
    >>> len(tandem.states), tandem.states[12], tandem.visible[-1]
    (121, 'q1=1,q2=1', '10')
    >>> list(tandem.measures)
    ['loss', 'throughput', 'response_time', 'mean_queue', 'mean_q1', 'mean_q2']
    >>> tandem.states_of("q1 >= 9 and q2 = 0")
    [99, 110]
    """

    name = "rules"
    states: States
    _edge: Tensor | None

    def __init__(
        self,
        variables: Mapping[str, tuple[int | str, int | str]],
        rules: Mapping[str, str],
        params: Mapping[str, float],
        *,
        inputs: Sequence[str] = ("load",),
        constants: Mapping[str, float] | None = None,
        start: Mapping[str, int | str] | None = None,
        count: str | None = None,
        jobs: str | None = None,
        arrivals: str | Sequence[str] | None = None,
        measures: Mapping[str, str] | None = None,
        real: Sequence[str] = (),
        **changes: float,
    ) -> None:
        given = {
            "inputs": inputs,
            "count": count,
            "jobs": jobs,
            "arrivals": arrivals,
            "start": start,
            "real": real,
            "constants": constants,
            "variables": variables,
            "params": params,
            "rules": rules,
            "measures": measures,
        }
        description = read_description(given, changes)
        states, moves, edges, where = explored(description)
        values, groups = counted(description.count, states)
        super().__init__(
            states=states,
            edges=edges,
            params=description.params,
            inputs=description.inputs,
            real=description.real,
            groups=groups,
        )
        self._plain, self._constants = description.plain, description.constants
        self._visible = values
        tables = Tables()
        self._programs = {
            rule.name: (compiled(rule.rate, states.space.columns(source), tables), len(source))
            for rule, source in zip(description.rules, moves, strict=True)
        }
        self._tables = tuple(tables.arrays)
        for key, table in tables.arrays.items():
            self.register_buffer(key, table, persistent=False)
        self.register_buffer("_edge", where, persistent=False)
        self._add_measures(description)

    def rates(self, x: Tensor, theta: Tensor) -> Tensor:
        """Each rule's rate on its own edges; those of one edge added up."""
        found = self._by_rule(x, theta)
        if self._edge is None:
            return found
        zero = found.new_zeros((*found.shape[:-1], len(self.edges)))
        return zero.index_add(-1, self._edge, found)

    def _by_rule(self, x: Tensor, theta: Tensor) -> Tensor:
        names = _names(x, theta, self.inputs, self.param_names)
        names |= {key: getattr(self, key) for key in self._tables}
        return torch.cat(
            [
                # A rate that is a plain number lies on the CPU, whatever the device.
                run(program, names, TORCH).to(x).expand((*x.shape[:-1], size))
                for program, size in self._programs.values()
            ],
            -1,
        )

    def generator(self, x: Any, theta: Tensor) -> Generator:
        """Generator of every window; a rate that is none is blamed on its rule."""
        x = self.as_inputs(x)
        try:
            return Generator(self.edges, self.rates(x, theta))
        except RateError:
            with torch.no_grad():
                raise self._bad_rate(self._by_rule(x, theta), x, theta) from None

    def _bad_rate(self, found: Tensor, x: Tensor, theta: Tensor) -> RateError:
        window, place = (~(found.isfinite() & (found >= 0))).nonzero()[0].tolist()
        edge = place if self._edge is None else int(self._edge[place])
        ends = np.cumsum([size for _, size in self._programs.values()])
        rule = list(self._programs)[int(np.searchsorted(ends, place, side="right"))]
        at = [f"{k}={v:g}" for k, v in zip(self.inputs, x[window].tolist(), strict=True)]
        at += [f"{k}={v:g}" for k, v in zip(self.param_names, theta.tolist(), strict=True)]
        return RateError(
            f"rule {rule!r} has the rate {float(found[window, place]):g} in state "
            f"{self.states[int(self.edges.src[edge])]!r} at {', '.join(at)}; rates must be finite "
            f"and not negative"
        )

    @property
    def visible(self) -> Sequence[str]:
        """What people count: the values of ``count`` in order, or the states."""
        return super().visible if self._visible is None else self._visible

    def states_of(self, name: int | str) -> list[int]:
        """Positions of the states that a name, a counted number or a condition stands for."""
        text = str(name)
        found = self.states.find(text)
        if found is not None:
            return [found]
        if self._visible is not None and text in self._members:
            return self._members[text].tolist()
        if text.isdecimal() or text.isidentifier():
            raise InputError(self._unknown(text))
        condition = formula(
            text, self.states.space.names, self._constants, f"condition {text!r}", boolean=True
        )
        where = np.flatnonzero(on_arrays(postfix(condition), self.states.columns))
        if not len(where):
            raise InputError(f"no state of the model has {text}")
        return where.tolist()

    def state_index(self, state: int | str) -> int:
        """Position of one state by name, such as ``q1=3,q2=0``, its variables in any order."""
        found = self.states.find(str(state))
        if found is None:
            raise InputError(self._unknown(str(state)))
        return found

    def _unknown(self, text: str) -> str:
        how = "give count=, an expression, for numbers to have a meaning"
        if self._visible is not None:
            how = f"counted as {self._visible[0]}..{self._visible[-1]}"
        return (
            f"state {text!r} is not in the model: its {len(self.states)} states are "
            f"{self.states[0]}..{self.states[-1]}, {how}; or write a condition, such as "
            f"'{self.states.space.names[0]} >= 1'"
        )

    def _add_measures(self, given: Description) -> None:
        columns, tables = self.states.columns, Tables()
        evaluate = partial(_evaluated, self.inputs, self.param_names, tables)
        jobs = None if given.jobs is None else in_states(given.jobs, self.states, "jobs")
        found: dict[str, Measure] = {}
        if given.arrivals:
            of_rules = rule_flows(given.rules, given.arrivals, self.states, jobs)
            programs = flow_programs(of_rules, columns, tables)

            def flows(x: Tensor, theta: Tensor) -> Flows:
                return Flows(*(evaluate(program, x, theta) for program in programs))

            found |= flow_measures(flows, jobs)
            self.sees_time_averages = sees_time_averages(of_rules, columns)
        if jobs is not None:
            found["mean_queue"] = state_reward(jobs, False, "mean requests in the system")
        for name, values in columns.items():
            found[f"mean_{name}"] = state_reward(values, False, f"mean of {name}")
        for name, expression in given.measures.items():
            if name in found:
                raise InputError(f"measure {name!r} is there already; give yours another name")
            about = str(expression)
            if expression.names <= columns.keys():
                values = in_states(expression, self.states, "measures", name)
                found[name] = state_reward(values, expression.boolean, about)
            else:
                program = compiled(expression, columns, tables)
                found[name] = rate_reward(program, evaluate, about)
        self.measures = found

    @property
    def options(self) -> dict[str, Any]:
        """The whole description; constants also one by one, as options that can be changed."""
        return {**self._plain, **self._constants}

    @property
    def changeable(self) -> dict[str, int | float]:
        """The constants."""
        return dict(self._constants)

    def extra_repr(self) -> str:
        """Size, constants and parameters, for ``print(model)``."""
        rules = ", ".join(self._programs)
        shown = {"states": len(self.states), **self._constants, **self.estimates}
        return f"rules={rules}, " + ", ".join(f"{k}={v:g}" for k, v in shown.items())


def _names(
    x: Tensor, theta: Tensor, inputs: Sequence[str], params: Sequence[str]
) -> dict[str, Tensor]:
    named = {name: x[..., k : k + 1] for k, name in enumerate(inputs)}
    return named | {name: theta[k] for k, name in enumerate(params)}


def _evaluated(
    inputs: Sequence[str],
    params: Sequence[str],
    tables: Tables,
    program: Program,
    x: Tensor,
    theta: Tensor,
) -> Tensor:
    names = _names(x, theta, inputs, params)
    names |= {key: table.to(x.device) for key, table in tables.arrays.items()}
    return run(program, names, TORCH)
