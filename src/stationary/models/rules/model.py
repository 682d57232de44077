"""Models from rules: variables with ranges, and what may happen to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stationary.errors import InputError, RateError
from stationary.generator import Generator
from stationary.models._base import Model, Param, Point
from stationary.models.measures import FLOW_MEASURES, Flows, Measure
from stationary.models.rules._arrivals import rule_flows
from stationary.models.rules._description import Description, read_description
from stationary.models.rules._flows import counted, flow_programs, in_states, state_reward
from stationary.models.rules._parts import formula
from stationary.models.rules._rates import Tables, compiled
from stationary.models.rules._reach import explored
from stationary.models.rules._space import States
from stationary.models.rules.formulas import TORCH, Program, on_arrays, postfix, run


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
    >>> tandem.measures
    ('loss', 'throughput', 'response_time', 'mean_queue', 'mean_q1', 'mean_q2')
    >>> tandem.states_of("q1 >= 9 and q2 = 0")
    [99, 110]
    """

    name = "rules"
    states: States
    levels: Tensor
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
            params={
                name: Param(value, positive=name not in description.real)
                for name, value in description.params.items()
            },
            inputs=description.inputs,
            groups=groups,
        )
        self._plain, self._constants = description.plain, description.constants
        self._visible = values
        tables = Tables()
        self._programs = {
            rule.name: (compiled(rule.rate, states.space.columns(source), tables), len(source))
            for rule, source in zip(description.rules, moves, strict=True)
        }
        self.register_buffer("_edge", where, persistent=False)
        self._read_measures(description, tables)
        self._tables = tuple(tables.arrays)
        for key, table in tables.arrays.items():
            self.register_buffer(key, table, persistent=False)

    def rates(self, *args: Any) -> Tensor:
        """Each rule's rate on its own edges; those of one edge added up."""
        *inputs, p = args
        found = self._by_rule(inputs, p)
        if self._edge is None:
            return found
        zero = found.new_zeros((*found.shape[:-1], len(self.edges)))
        return zero.index_add(-1, self._edge, found)

    def _by_rule(self, inputs: Sequence[Tensor], p: Any) -> Tensor:
        names = self._names(inputs, p)
        batch = np.broadcast_shapes(*(v.shape[:-1] for v in (*inputs, *vars(p).values())))
        return torch.cat(
            [
                # A rate that is a plain number lies on the CPU, whatever the device.
                run(program, names, TORCH).to(inputs[0]).expand((*batch, size))
                for program, size in self._programs.values()
            ],
            -1,
        )

    def _names(self, inputs: Sequence[Tensor], p: Any) -> dict[str, Tensor]:
        """What the names in programs stand for."""
        tables = {key: getattr(self, key) for key in self._tables}
        return dict(zip(self.inputs, inputs, strict=True)) | vars(p) | tables

    def _evaluated(self, program: Program, point: Point) -> Tensor:
        found = run(program, self._names(point.x.split(1, -1), point.p), TORCH)
        return torch.as_tensor(found).to(point.x)

    def generator(self, x: Tensor, theta: Tensor, index: Tensor | None = None) -> Generator:
        """Generators; an invalid rate is blamed on its rule."""
        try:
            return super().generator(x, theta, index)
        except RateError:
            with torch.no_grad():
                found = self._by_rule(x.split(1, -1), self.named(theta))
                raise self._bad_rate(found, x, theta) from None

    def _bad_rate(self, found: Tensor, x: Tensor, theta: Tensor) -> RateError:
        *window, place = (~(found.isfinite() & (found >= 0))).nonzero()[0].tolist()
        edge = place if self._edge is None else int(self._edge[place])
        ends = np.cumsum([size for _, size in self._programs.values()])
        rule = list(self._programs)[int(np.searchsorted(ends, place, side="right"))]
        batch, which = found.shape[:-1], tuple(window)
        x, theta = x.expand(*batch, -1)[which], theta.expand(*batch, -1)[which]
        at = [f"{k}={v:g}" for k, v in zip(self.inputs, x.tolist(), strict=True)]
        at += [f"{k}={v:g}" for k, v in zip(self.param_names, theta.tolist(), strict=True)]
        return RateError(
            f"rule {rule!r} has the rate {float(found[(*which, place)]):g} in state "
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

    def _read_measures(self, given: Description, tables: Tables) -> None:
        """Compile what `measure` may be asked for, once."""
        columns = self.states.columns
        jobs = None if given.jobs is None else in_states(given.jobs, self.states, "jobs")
        if jobs is not None:
            self.register_buffer("levels", torch.from_numpy(np.array(jobs)), persistent=False)
        self._flow_programs: tuple[Program, ...] = ()
        names: list[str] = []
        if given.arrivals:
            of_rules = rule_flows(given.rules, given.arrivals, self.states, jobs)
            self._flow_programs = flow_programs(of_rules, columns, tables)
            self.arrives_alone = all(
                bool(np.isin(flow.offered, (0.0, 1.0)).all()) for flow in of_rules
            )
            names += ["loss", "throughput"] + ["response_time"] * (jobs is not None)
        names += ["mean_queue"] * (jobs is not None) + [f"mean_{name}" for name in columns]
        self._own: dict[str, tuple[Program | NDArray[Any], bool, str]] = {}
        for name, expression in given.measures.items():
            if name in names:
                raise InputError(f"measure {name!r} is there already; give yours another name")
            found: Program | NDArray[Any]
            if expression.names <= columns.keys():
                found = in_states(expression, self.states, "measures", name)
            else:
                found = compiled(expression, columns, tables)
            self._own[name] = found, expression.boolean, str(expression)
        self._measures = (*names, *self._own)

    def flows(self, point: Point) -> Flows:
        """Requests that the rules let in, turn away or throw out."""
        return Flows(*(self._evaluated(program, point) for program in self._flow_programs))

    def arrivals(self, point: Point) -> Tensor | None:
        """Requests of the rules of arrivals; None where the model names none."""
        if not self._flow_programs:
            return None
        return self._evaluated(self._flow_programs[0], point)

    @property
    def measures(self) -> tuple[str, ...]:
        """Those that follow from arrivals and jobs, the mean of every variable, and one's own."""
        return self._measures

    def measure(self, name: str) -> Measure:
        """Return a measure by name, or the probability of a state."""
        if name not in self._measures:
            return super().measure(name)
        if name in self._own:
            found, boolean, about = self._own[name]
            if isinstance(found, tuple):
                program = found
                return Measure(
                    lambda point: point.mean(self._evaluated(program, point)), about=about
                )
            return state_reward(found, boolean, about)
        if name in FLOW_MEASURES:
            return FLOW_MEASURES[name]
        if name == "mean_queue":
            return state_reward(self.levels.numpy(), False, "mean requests in the system")
        variable = name.removeprefix("mean_")
        return state_reward(self.states.columns[variable], False, f"mean of {variable}")

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
