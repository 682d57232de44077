"""Models from rules: variables with ranges, and what may happen to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import InputError
from stationary.models._params import Param
from stationary.models._point import Point
from stationary.models.latency import Times
from stationary.models.latency.tagged import Tagged
from stationary.models.measures import (
    FLOW_MEASURES,
    Flows,
    Measure,
    mean_of_states,
)
from stationary.models.rules.base import FormulaModel, finite
from stationary.models.rules.description import Description, read_description
from stationary.models.rules.errors import DescriptionError
from stationary.models.rules.rates import StateFormulas
from stationary.models.rules.reach import Applied, check_irreducible, explored
from stationary.models.rules.requests import follower, read_servers, request_flows


class RuleModel(FormulaModel):
    """A chain written as rules: ``q1 < K -> q1 += 1 else lost at load``.

    Its states are those that the rules reach from the first state, in lexicographic order, and are
    called ``q1=3,q2=0``. Rates of rules that lead from one state to the same other one are added.
    ``docs/models.md`` describes the language.

    Parameters
    ----------
    variables : mapping
        Lowest and highest value of every variable: whole numbers, or formulas of constants.
    rules : mapping
        Rules by name, each ``GUARD -> CHANGES [else lost] at RATE``.
    params : mapping, optional
        Parameters, and where a fit starts.
    inputs : sequence of str
        Names of the columns of ``x``; the first is the load.
    constants : mapping, optional
        Numbers that formulas call by name.
    start : mapping, optional
        Value of variables in the first state; the lowest by default.
    count : str, optional
        What people count, a formula of variables: ``q2`` or ``min(q1 + q2, 5)``. A number in
        windows is then its value. By default the variable, if there is only one.
    jobs : str, optional
        Requests in the system, a formula of variables; gives the measures ``mean_queue`` and
        ``response_time``. A rule among the arrivals brings as many requests as it grows by, a rule
        that says ``lost`` loses as many as it falls by; one, where it does not change or is left
        out.
    arrivals : str or sequence of str, optional
        Rules by which requests arrive; by default those that say ``else lost``. They give the
        measures ``loss`` and ``throughput``.
    discipline : mapping, optional
        Variables that count requests, each with its order of service: ``fcfs`` for first come,
        first served by one server, ``fcfs m`` by m servers, ``ps`` where each request is as likely
        to go next. The rules then say how a request moves, which gives percentiles, and ``jobs`` is
        the sum of these variables. A rule that says ``lost`` takes any request of its variable. A
        parameter called ``overhead`` is a time outside the system.
    measures : mapping, optional
        Further measures: the long-run mean of a formula, or the probability of a condition.
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
    how_to_count = "give count=, a formula, for numbers to have a meaning"
    levels: Tensor
    _follower: Any = None  # a Follower, where the rules say how a request moves

    def __init__(
        self,
        variables: Mapping[str, tuple[int | str, int | str]],
        rules: Mapping[str, str],
        params: Mapping[str, float] | None = None,
        *,
        inputs: Sequence[str] = ("load",),
        constants: Mapping[str, float] | None = None,
        start: Mapping[str, int | str] | None = None,
        count: str | None = None,
        jobs: str | None = None,
        arrivals: str | Sequence[str] | None = None,
        discipline: Mapping[str, str] | None = None,
        measures: Mapping[str, str] | None = None,
        real: Sequence[str] = (),
        **changes: float,
    ) -> None:
        parts = Description.model_fields
        given = {part: value for part, value in locals().items() if part in parts}
        self._description = description = read_description(given, changes)
        self.constants = description.constants
        states, applied = explored(description.space, description.first, description.parsed_rules)
        counted = None
        if description.counted is not None:
            # Adding zero makes -0 into 0, which needs no name of its own.
            counted = finite(description.formula(description.counted, "count"), states, "count")
            counted = counted + 0.0
        super().__init__(
            states,
            applied,
            counted,
            params={
                name: Param(
                    value, name not in description.real, per_time=-1 if name == "overhead" else 0
                )
                for name, value in description.params.items()
            },
            inputs=description.inputs,
        )
        check_irreducible(self.edges, states)
        self._own = self._make_measures(applied)

    def _make_measures(self, applied: Sequence[Applied]) -> dict[str, Measure]:
        """Make the measures that follow from arrivals, jobs and variables, and the user's own."""
        given, columns = self._description, self.states.columns
        found: dict[str, Measure] = {}
        jobs = None
        counting = given.jobs or " + ".join(read_servers(given))
        if counting:
            jobs = finite(given.formula(counting, "jobs"), self.states, "jobs")
            self.register_buffer("levels", torch.from_numpy(jobs), persistent=False)
        self._flows: StateFormulas | None = None
        if given.arriving:
            flows = request_flows(applied, given.arriving, columns, jobs)
            self._flows, self.arrives_alone = flows
            if given.discipline:
                self._follower = follower(given, self.states, applied)
                self._check_jobs(self._follower.levels.sum(0))
            # A mean response time follows from the number of requests in the system.
            found = {k: v for k, v in FLOW_MEASURES.items() if jobs is not None or not v.time}
        if jobs is not None:
            found["mean_queue"] = mean_of_states(jobs, "mean requests in the system")
        for name, column in columns.items():
            found[f"mean_{name}"] = mean_of_states(column, f"mean of {name}")
        for name, text in given.measures.items():
            if name in found:
                raise InputError(f"measure {name!r} is there already; give yours another name")
            known = [*given.inputs, *given.params]
            formula = given.formula(text, "measures", name, known, condition=None)
            found[name] = self._measure_of(name, formula, text)
        return found

    def _check_jobs(self, followed: Array) -> None:
        """Raise if the discipline leaves requests out."""
        wrong = np.flatnonzero(self.levels.numpy() != followed)
        if len(wrong):
            k = int(wrong[0])
            raise DescriptionError(
                f"it names variables that count {followed[k]} requests in state {self.states[k]}, "
                f"where jobs = {self._description.jobs} has {float(self.levels[k]):g}: name all "
                f"variables that requests are counted in, or correct jobs",
                "discipline",
            )

    def check_times(self, waiting: bool) -> None:
        """Raise unless the description says how a request moves."""
        if waiting:
            raise InputError("a model of rules knows response times, not how long requests wait")
        if self._follower is None:
            raise InputError(
                "the model does not say how a request moves, so it knows no response times: name "
                "the variables that count requests and their order of service, as in discipline="
                f"{{'{next(iter(self.states.columns))}': 'fcfs'}}, and the rules by which requests "
                "arrive (arrivals=, if none says 'else lost')"
            )

    @cached_property
    def _tagged(self) -> Tagged:
        self.check_times(waiting=False)
        return self._follower.chain()

    def response_times(self, point: Point) -> Times:
        """How long accepted requests that are served stay, by following one of them."""
        tagged = self._tagged
        rates = self.rule_rates(*point.x.split(1, -1), point.p)[..., : self._moving]
        flow = rates * point.pi[..., self._follower.moves.source]
        return tagged.times(rates, flow, present=point.mean(self.levels))

    def flows(self, point: Point) -> Flows:
        """Requests that the rules let in, turn away or throw out."""
        if self._flows is None:
            raise InputError("no rule of the model says 'else lost': name rules in arrivals=")
        given = point.values
        return Flows(*(self._flows.value(key, given) for key in Flows._fields))

    def arrivals(self, point: Point) -> Tensor | None:
        """Requests that arrive in each state; None where the model names no arrivals."""
        return None if self._flows is None else self._flows.value("offered", point.values)

    @property
    def options(self) -> dict[str, Any]:
        """The whole description; constants also one by one, as options that can be changed."""
        plain = self._description.model_dump(mode="json", exclude_defaults=True)
        return {**plain, **self.constants}
