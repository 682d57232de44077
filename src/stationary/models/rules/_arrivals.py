"""Requests that rules let in, turn away or throw out.

A rule of the arrivals brings as many requests as ``jobs`` grows by along it, and one where requests
are not counted or do not grow. Where ``else lost`` refuses, as many as it brings at most elsewhere
are turned away: a batch that does not fit is lost as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stationary.models.rules._rule import Rule
from stationary.models.rules._space import States
from stationary.models.rules.formulas import Expression

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RuleFlow:
    """Requests that come, are refused and are thrown out when a rule happens, in every state.

    Attributes
    ----------
    rate : Expression
        How often the rule happens.
    offered, refused, dropped : ndarray [n]
        Requests a time that it does.
    """

    rate: Expression
    offered: Floats
    refused: Floats
    dropped: Floats


def rule_flows(
    rules: Sequence[Rule], arrivals: Collection[str], states: States, jobs: Floats | None
) -> list[RuleFlow]:
    """Return what the rules do to requests, those apart that do nothing.

    A rule of the arrivals offers requests where its guard is true, and those of ``else lost`` also
    where it is false; what happens in other rules that say ``lost`` had been let in before.
    """
    found = []
    for rule in rules:
        if rule.name not in arrivals and not rule.lost:
            continue
        holds = rule.holds(states.columns, len(states))
        growth = np.zeros(len(states)) if jobs is None else _growth(rule, states, jobs)
        nothing = np.zeros(len(states))
        if rule.name not in arrivals:
            thrown = np.where(holds, np.maximum(-growth, 1.0), 0.0)
            found.append(RuleFlow(rule.rate, nothing, nothing, thrown))
            continue
        come = np.maximum(growth, 0.0) + rule.lost
        offered = np.where(holds, np.where(come > 0, come, 1.0), 0.0)
        refused = np.where(holds, float(rule.lost), 0.0)
        if rule.refuses:
            batch = offered.max() or 1.0
            offered, refused = np.where(holds, offered, batch), np.where(holds, refused, batch)
        found.append(RuleFlow(rule.rate, offered, refused, nothing))
    return found


def _growth(rule: Rule, states: States, jobs: Floats) -> Floats:
    """By how much the requests in the system grow along a rule, zero where it does not apply."""
    where, target = rule.moves(states.space, states.codes, states.columns)
    growth = np.zeros(len(states))
    growth[where] = jobs[np.searchsorted(states.codes, target)] - jobs[where]
    return growth
