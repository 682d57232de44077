"""Requests that rules let in, turn away or throw out, and whether they find what the clock sees.

A rule of the arrivals brings as many requests as ``jobs`` grows by along it, and one where requests
are not counted or do not grow. Where ``else lost`` refuses, as many as it brings at most elsewhere
are turned away: a batch that does not fit is lost as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stationary.expressions import Apply, Expression, on_arrays, postfix
from stationary.models._rule import Rule
from stationary.models._space import Columns, States

Floats = NDArray[np.float64]

_Terms = dict[tuple[str, ...], Floats]
"""A sum of products: factors without variables, and what the sum has of their product in each
state."""

_MOST_TERMS = 100


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


def sees_time_averages(flows: Sequence[RuleFlow], columns: Columns) -> bool:
    """Whether requests come alone, and equally often in every state.

    Decided on the formulas: rates are written as sums of products, and what multiplies a product of
    inputs and parameters must add up to the same in every state. A formula that mixes state and
    inputs otherwise, such as ``min(load, n)``, counts as one that differs.
    """
    total: _Terms = {}
    for flow in flows:
        if not flow.offered.any():
            continue
        if not np.isin(flow.offered, (0.0, 1.0)).all():
            return False
        terms = _terms(flow.rate, columns)
        if terms is None:
            return False
        total = _sum(total, {key: flow.offered * weight for key, weight in terms.items()})
    return all(bool(np.ptp(w) <= 1e-9 * np.abs(w).max()) for w in total.values())


def _terms(expression: Expression, columns: Columns) -> _Terms | None:
    """Return an expression as a sum of products, or None if it is none."""
    variables = columns.keys()
    if expression.names <= variables:
        return {(): np.asarray(on_arrays(postfix(expression), columns), dtype=np.float64)}
    alone: _Terms = {(str(expression),): np.ones(len(next(iter(columns.values()))))}
    free = not expression.names & variables
    if not isinstance(expression, Apply):
        return alone
    args = expression.args
    if expression.op == "if" and args[0].names <= variables:
        holds = np.asarray(on_arrays(postfix(args[0]), columns), dtype=bool)
        branches = _terms(args[1], columns), _terms(args[2], columns)
        if branches[0] is None or branches[1] is None:
            return None
        return _sum(_masked(branches[0], holds), _masked(branches[1], ~holds))
    if expression.op in ("+", "-", "negative", "*", "/"):
        parts = [_terms(arg, columns) for arg in args]
        if any(part is None for part in parts):
            return None
        found = _combined(expression.op, [part for part in parts if part is not None], args[-1])
        if found is not None:
            return found
    return alone if free else None


def _combined(op: str, parts: Sequence[_Terms], last: Expression) -> _Terms | None:
    """Return the sum, product or quotient of sums of products, or None if it is none itself."""
    if op == "+":
        return _sum(*parts)
    if op in ("-", "negative"):
        *first, second = parts
        return _sum(*first, {key: -weight for key, weight in second.items()})
    left, right = parts
    if op == "/":
        if right.keys() != {()}:
            return {(*key, f"1 / ({last})"): w for key, w in left.items()} if _free(right) else None
        with np.errstate(all="ignore"):
            right = {(): 1 / right[()]}
    if len(left) * len(right) > _MOST_TERMS:
        return None
    with np.errstate(all="ignore"):
        return _sum(
            *(
                {tuple(sorted((*one, *other))): left[one] * right[other]}
                for one in left
                for other in right
            )
        )


def _free(terms: _Terms) -> bool:
    """Whether a sum of products is the same in every state."""
    return all(not np.ptp(weight) for weight in terms.values())


def _sum(*parts: _Terms) -> _Terms:
    total: _Terms = {}
    for part in parts:
        for key, weight in part.items():
            total[key] = total[key] + weight if key in total else weight
    return total


def _masked(terms: _Terms, where: NDArray[np.bool_]) -> _Terms:
    # Not by a product: what cannot be computed elsewhere, such as log(0), must not come in.
    return {key: np.where(where, weight, 0.0) for key, weight in terms.items()}
