"""What a page shows of a plan, as plain records: numbers for charts, and sentences of `words`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from stationary import words
from stationary.data import Latencies, Losses
from stationary.errors import InputError
from stationary.facade import Plan
from stationary.learning.draws import Draws
from stationary.models.latency import percentile_of
from stationary.output.report import Answer, answer, measured
from stationary.planning.limits import Limit
from stationary.planning.record import Question
from stationary.planning.what_if import what_if
from stationary.terms.slo import Slo, as_slos

_CHARTED = {"answer": ("loss", "p50", "p95", "p99"), "what-if": ("loss", "p99")}
"""Measures that a page draws, where the model shows them; it also draws those with a bound."""

_FINE, _COARSE = 41, 25  # loads of a curve, and of one with intervals
_BINS = 24  # ranges of load over which measured values are pooled
_FARTHEST = 10.0  # a chart ends at so many times the heaviest load of the data
_BEYOND = 1.6  # how far beyond the limit a chart shows what happens

_LABELS = {
    "--servers": "Servers",
    "--capacity": "Capacity",
    "--patience": "Patience",
    "--window": "Window",
    "--unit": "Unit of times",
    "--status-lost": "Lost requests",
}
"""What options of the command line are called on the page of a new plan."""

_CHANGES: Mapping[str, type] = {"servers": int, "capacity": int, "faster": float, "patience": float}

MOST = {"servers": 1000, "capacity": 5000}
"""The largest changed system, whose curves of M/M/m/K take 0.2 s of processor time."""


@dataclass(frozen=True)
class Asked:
    """What a page asks of a plan."""

    slos: tuple[Slo, ...] = ()
    """What must hold; the plan's own where there is none."""
    changes: tuple[tuple[str, float], ...] = ()
    """Arguments of `Plan.what_if`."""

    @classmethod
    def of(cls, query: Iterable[tuple[str, str]]) -> Asked:
        """Read the parameters of an address; others are not ours."""
        pairs = list(query)
        changes = []
        for name, text in pairs:
            if name in _CHANGES and text:
                try:
                    value = _CHANGES[name](text)
                except ValueError:
                    raise InputError(f"{name} must be a number; got {text!r}") from None
                changes.append((name, value))
        return cls(as_slos([text for name, text in pairs if name == "slo"]), tuple(changes))


class View:
    """A plan, of one input and with measures, and what its pages show, computed once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._now: dict[Any, dict[str, list[float]]] = {}
        self._limits: dict[Question, Limit] = {}
        inputs = plan.model.inputs
        if len(inputs) != 1:
            raise InputError(
                f"the studio draws measures over the load, and this plan has the inputs "
                f"{', '.join(inputs)}: use 'stationary report'"
            )
        if not plan.draws.measures:
            raise InputError(
                "the model of this plan has no measures, so that there is nothing to draw"
            )

    @cached_property
    def centre(self) -> Draws:
        """The estimates of the model of most weight, as draws: quick, and without intervals."""
        part = max(self.plan.draws.parts, key=lambda part: part.weights.sum())
        theta = part.model.theta.detach()[None]
        return Draws((replace(part, theta=theta, weights=np.ones(1)),))

    @cached_property
    def sketch(self) -> Answer:
        """The answer without its interval; it also says what must hold where the plan does not."""
        return answer(self.plan.having(known_draws=self.centre, discrepancy=None))

    @property
    def slos(self) -> tuple[Slo, ...]:
        """What must hold."""
        return self.sketch.question.slos

    def charted(self, page: str, asked: Asked) -> list[str]:
        """Return the measures that a page draws."""
        bounds = [slo.measure for slo in asked.slos or self.slos]
        usual = [name for name in _CHARTED[page] if name in self.plan.draws.measures]
        return list(dict.fromkeys([*usual, *bounds]))

    def measures(self, asked: Asked) -> list[str]:
        """Return the measures to compute: of a what-if only those that its page draws."""
        if asked.changes:
            return self.charted("what-if", asked)
        return list(dict.fromkeys([*self.charted("answer", asked), *self.plan.draws.measures]))

    def facts(self, page: str, asked: Asked) -> dict[str, Any]:
        """Return what a page shows beside the curves."""
        names, slos = self.measures(Asked(asked.slos)), asked.slos or self.slos
        others = {} if slos == self.slos else {"limit": None, "answer": words.COMPUTING}
        return {
            **self._known,
            **others,
            "slos": [{"measure": slo.measure, "bound": slo.bound} for slo in slos],
            "measures": {name: _measure(self.plan, name) for name in names},
            "charted": self.charted(page, asked),
        }

    @cached_property
    def _known(self) -> dict[str, Any]:
        plan, loads, found = self.plan, self.plan.windows.loads, self.sketch.limit
        speed, unit = {"faster": 1.0} if plan.model.speed else {}, plan.recipe.get("unit", "")
        answer = self.sketch.sentence
        if found is not None:  # whose ends differ by rounding alone, which is no interval
            answer = words.plan_answer(replace(found, low=found.load, high=found.load), (), unit)
        return {
            "unit": unit,
            "level": plan.question.level,
            "limit": None if found is None else _limit(found),
            "answer": answer,
            "present": self.sketch.present,
            "seen": [float(loads.min()), plan.heaviest],
            "tested": plan.horizon.load,
            "points": points(self),
            "most": MOST,
            "at_load": words.AT_LOAD,
            "options": {**plan.draws.first.changeable, **speed},
        }

    def loads(self, asked: Asked, count: int) -> list[float]:
        """Return loads from below the lightest of the data to well above the limit."""
        lightest, heaviest = float(self.plan.windows.loads.min()), self.plan.heaviest
        found = heaviest if self.sketch.limit is None else self.sketch.limit.load
        top = _BEYOND * min(max(found, heaviest), _FARTHEST * heaviest)
        changes = dict(asked.changes)
        now = self.plan.draws.first.changeable.get("servers", 1)
        factor = float(changes.get("servers", now) / now * changes.get("faster", 1.0))
        ends = lightest / 2, top * max(factor, 1.0)
        return [float(f"{load:.6g}") for load in np.linspace(*ends, count)]

    def check(self, asked: Asked) -> None:
        """Raise for a changed system that there cannot be, or that takes too long."""
        changes = dict(asked.changes)
        system = {**self.plan.draws.first.changeable, **changes}
        for name, most in MOST.items():
            if name in changes and not 1 <= changes[name] <= most:
                raise InputError(f"{name} must be 1 to {most}; got {changes[name]:g}")
        if changes and system.get("capacity", math.inf) < system.get("servers", 1):
            raise InputError(
                f"capacity counts the requests in service, too: it must be at least the servers, "
                f"{system['servers']:g}; got {system['capacity']:g}"
            )

    def curves(self, asked: Asked) -> dict[str, Any]:
        """Return the curves at the estimates: at once, and without intervals.

        Of a what-if, also those of the system as it is, at the same loads.
        """
        self.check(asked)
        loads = self.loads(asked, _FINE)
        names = self.measures(asked)
        key = (loads[-1], *names)
        if key not in self._now:  # it is the same while a slider changes the system
            self._now = {key: _values(self.centre, loads, names)}
        curves = {"load": loads, "now": self._now[key]}
        if asked.changes:
            changes = dict(asked.changes)
            speed = changes.pop("faster", None)
            system, _ = what_if(self.centre, changes, speed)
            curves["changed"] = _values(system, loads, names)
        return curves

    def limit_now(self, question: Question) -> Limit:
        """Return the limit of the unchanged system, which stays while a slider moves."""
        if question not in self._limits:
            self._limits = {question: self.plan.having(question=question).limit}
        return self._limits[question]

    def asked(self, asked: Asked) -> Plan:
        """Return the plan of the system and the SLOs that are asked for."""
        self.check(asked)
        question = replace(self.plan.question, slos=asked.slos or self.slos)
        plan = self.plan.what_if(**dict(asked.changes)) if asked.changes else self.plan
        return plan.having(question=question)


def labelled(text: str) -> str:
    """Return a sentence that names fields of the page where it named options."""
    return re.sub(r"--[a-z]+(-[a-z]+)*", lambda found: _LABELS.get(found[0], found[0]), text)


def bands(view: View, asked: Asked) -> dict[str, Any]:
    """Return measures with their intervals over the loads of the charts."""
    names = view.measures(asked)
    frame = view.asked(asked).forecast(view.loads(asked, _COARSE), measures=names)
    ends = {"value": "", "low": "_low", "high": "_high"}
    curves = {
        name: {end: frame[f"{name}{column}"].tolist() for end, column in ends.items()}
        for name in names
    }
    return {"load": frame["load"].tolist(), "curves": curves}


def said(view: View, asked: Asked) -> dict[str, Any]:
    """Return the answer: sentences, and the limit of all SLOs and of each."""
    then, unit = view.asked(asked), view.plan.recipe.get("unit", "")
    if not then.question.slos:
        return {"answer": view.sketch.sentence, "headroom": view.sketch.headroom}
    found, alone = then.limit, then.limits
    record = {
        "answer": words.plan_answer(found, alone, unit),
        "headroom": words.headroom(found),
        "cautions": list(filter(None, [words.untrusted(found)])),
        "facts": words.limit_facts(found),
        "limit": _limit(found),
        "alone": {each.binding.measure: _limit(each) for each in alone},
    }
    if then.change is not None:
        now = view.limit_now(then.question)
        record["answer"] = words.changed_limit(now, found, then.change)
        record["headroom"] = words.plan_answer(found, alone, unit)
        record["cautions"] = [words.sentence(words.what_if(then.change)), *record["cautions"]]
    return record


def points(view: View) -> dict[str, list[list[float]]]:
    """Return pairs of load and measured value for each measure that the windows show.

    Percentiles are those of the requests of neighbouring windows together.
    """
    plan = view.plan
    if plan.change is not None or plan.windows.is_pooled:
        return {}
    windows, found, names = plan.windows, measured(plan), view.measures(Asked())
    known = {
        name: found[["load", name]].dropna().to_numpy().tolist()
        for name in found.columns[1:]
        if name in names
    }
    loads = windows.loads.numpy()
    ranges = np.linspace(loads.min(), loads.max(), _BINS)
    group = np.digitize(loads, ranges)
    groups = [group == k for k in np.unique(group)]
    for kind in windows.every:
        counts = kind.data.numpy()
        sums = [(loads[rows].mean(), counts[rows].sum(0)) for rows in groups]
        sums = [(load, total) for load, total in sums if total.sum() > 0]
        if isinstance(kind, Losses) and "loss" not in known:
            known["loss"] = [[load, lost / (lost + served)] for load, (lost, served) in sums]
        if isinstance(kind, Latencies):
            pooled = kind.with_data(torch.from_numpy(np.stack([total for _, total in sums])))
            shares = {name: percentile_of(name) for name in names}
            for name, share in ((name, share) for name, share in shares.items() if share):
                values = pooled.percentile(share)
                pairs = [[load, at] for (load, _), at in zip(sums, values, strict=True)]
                known[name] = [pair for pair in pairs if math.isfinite(pair[1])]
    return known


def _values(draws: Draws, loads: list[float], names: Sequence[str]) -> dict[str, list[float]]:
    (part,) = draws.parts
    values = part.centre(part.model.as_inputs(loads, least=1)[None], names)[0]
    return dict(zip(names, values.T.tolist(), strict=True))


def _measure(plan: Plan, name: str) -> dict[str, Any]:
    made = plan.model.measure(name)
    return {
        "name": words.plain(name),
        "time": made.time,
        "share": made.low == 0 and made.high == 1,
    }


def _limit(found: Limit) -> dict[str, float]:
    return {"load": found.load, "low": found.low, "high": found.high}
