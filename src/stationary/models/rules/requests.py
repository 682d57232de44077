"""Requests in a model of rules: how many come and are lost, and how they move from place to place.

A rule among the arrivals brings as many requests as ``jobs`` grows by when it happens, or one where
requests are not counted or do not grow. Where ``else lost`` refuses, the largest number that the
rule brings elsewhere is turned away: a batch that does not fit is lost as a whole.

The discipline names the variables that count requests, its stations, each with its order of
service. The rules themselves then say how a request moves: one that lowers a station and raises
another moves a request on, one that only lowers a station lets requests go, and one among the
arrivals brings them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from stationary._support.types import Array
from stationary.errors import did_you_mean
from stationary.models.latency.orders import SHARED, Follower, Moves
from stationary.models.measures import Flows
from stationary.models.rules.description import Description
from stationary.models.rules.errors import DescriptionError
from stationary.models.rules.formulas import Columns, Formula
from stationary.models.rules.rates import StateFormulas, weighted_sum
from stationary.models.rules.reach import Applied
from stationary.models.rules.rule import Rule
from stationary.models.rules.states import Floats, Ints, States


def request_flows(
    applied: Sequence[Applied],
    arrivals: Collection[str],
    columns: Columns,
    jobs: Floats | None,
) -> tuple[StateFormulas, bool]:
    """Return requests offered, refused and dropped per unit time, and whether they come singly.

    ``arrivals`` are the rules by which requests arrive, and ``jobs`` says how many requests are in
    the system in every state, if they are counted.
    """
    n = len(next(iter(columns.values())))
    weights: list[tuple[Formula, tuple[Floats, Floats, Floats]]] = []
    nothing = np.zeros(n)
    for rule, source, target in applied:
        growth = np.zeros(len(source)) if jobs is None else jobs[target] - jobs[source]
        if rule.name in arrivals:
            weights.append((rule.rate, (*_arriving(rule, source, growth, n), nothing)))
        elif rule.lost:
            # These requests had been let in before.
            dropped = np.zeros(n)
            dropped[source] = np.maximum(-growth, 1.0)
            weights.append((rule.rate, (nothing, nothing, dropped)))
    alone = all(bool(np.isin(flows[0], (0.0, 1.0)).all()) for _, flows in weights)
    formulas = {}
    for k, key in enumerate(Flows._fields):
        here = dict(columns)
        formulas[key] = weighted_sum([(rate, flows[k]) for rate, flows in weights], here), here
    return StateFormulas(formulas), alone


def _arriving(rule: Rule, source: Ints, growth: Floats, n: int) -> tuple[Floats, Floats]:
    """Return requests that a rule offers and refuses in every state when it happens."""
    come = np.maximum(growth, 0.0) + rule.lost
    come = np.where(come > 0, come, 1.0)
    # A batch that meets a false guard is as large as the largest one that is let in.
    batch = come.max(initial=0.0) or 1.0
    offered = np.full(n, batch if rule.refuses else 0.0)
    refused = offered.copy()
    offered[source], refused[source] = come, float(rule.lost)
    return offered, refused


def read_servers(given: Description) -> dict[str, int]:
    """Return the servers of every station: ``fcfs`` has one, ``fcfs m`` has m, ``ps`` all."""
    found = {}
    for name, text in given.discipline.items():
        if name not in given.variables:
            raise DescriptionError(
                f"there is no variable {name!r}{did_you_mean(name, given.variables)}", "discipline"
            )
        if given.space.ranges[name][0] < 0:
            raise DescriptionError(
                "it counts requests, so its range begins at 0 or more", "discipline", name
            )
        word, _, number = text.strip().partition(" ")
        if word not in ("fcfs", "ps") or (word == "ps" and number):
            raise DescriptionError(
                f"write 'fcfs' (first come, first served, by one server), 'fcfs 4' (by four) or "
                f"'ps' (each request is as likely to go next); got {text!r}",
                "discipline",
                name,
            )
        found[name] = SHARED if word == "ps" else given.whole(number or 1, "discipline", name)
        if found[name] < 1:
            raise DescriptionError(f"it needs a server; got {text!r}", "discipline", name)
    return found


def follower(given: Description, states: States, applied: Sequence[Applied]) -> Follower:
    """Return what follows a request through all moves of the rules, in their order."""
    servers = read_servers(given)
    levels = np.stack([np.asarray(states.columns[name], dtype=int) for name in servers])
    parts = []
    for each in applied:
        rule, (source, target) = each.rule, each.moves
        arrives = rule.name in given.arriving
        to = _destination(rule.name, arrives, levels[:, target] - levels[:, source])
        flags = np.full((2, len(source)), [[arrives], [rule.lost and not arrives]])
        parts.append((source, target, *flags, to))
    return Follower(
        Moves(*map(np.concatenate, zip(*parts, strict=True))), levels, [*servers.values()]
    )


def _destination(rule: str, arrives: bool, change: Array) -> Array:
    """Return the station that requests go to, or -1; raise if the rule leaves it open."""
    up, down = np.maximum(change, 0), np.maximum(-change, 0)
    comes, goes = up.sum(0), down.sum(0)
    if arrives:
        if bool(goes.any()):
            raise DescriptionError(
                "it brings requests and takes others away, so that no request can be followed: "
                "make it two rules",
                "rules",
                rule,
            )
        return np.full(change.shape[1], -1)
    if bool((comes > goes).any()):
        raise DescriptionError(
            "it raises the number of requests and is not among the arrivals: name it in arrivals=, "
            "or name the variable that the requests come from in discipline=",
            "rules",
            rule,
        )
    if bool(((comes > 0) & ((comes != 1) | (goes != 1))).any()):
        raise DescriptionError(
            "it moves several requests at once, so that none can be followed: make several rules",
            "rules",
            rule,
        )
    return np.where(comes > 0, up.argmax(0), -1)
