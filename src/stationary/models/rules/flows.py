"""Requests that rules let in, turn away or throw out.

A rule among the arrivals brings as many requests as ``jobs`` grows by when it happens, or one where
requests are not counted or do not grow. Where ``else lost`` refuses, the largest number that the
rule brings elsewhere is turned away: a batch that does not fit is lost as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from stationary.models.measures import Flows
from stationary.models.rules.formulas import Columns, Formula
from stationary.models.rules.rates import StateFormulas, weighted_sum
from stationary.models.rules.reach import Applied
from stationary.models.rules.rule import Rule
from stationary.models.rules.states import Floats, Ints


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
