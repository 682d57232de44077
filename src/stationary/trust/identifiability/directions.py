"""Directions in which parameters can move without an effect on the data.

On the free scale a direction says how many e-folds each parameter moves. The flat space of a
Hessian has many bases. The one chosen here is easy to read: first parameters that are open by
themselves, then groups that can be multiplied by one factor, such as all rates out of a state, then
the rest, each with as few parameters as possible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import scipy.linalg

from stationary._support.types import Array
from stationary.learning.derivatives import value_and_jacobian
from stationary.learning.likelihood import Likelihood
from stationary.models import Model

_INSIDE = 0.9
"""Share of a candidate that must lie in the flat space for it to stand for a part of it."""

_NAMED = 0.1
"""Weight, relative to the largest, from which a parameter counts as moving along a direction."""

_EQUAL = 0.9  # smallest weight, relative to the largest, of parameters that one factor multiplies


class DirectionKind(StrEnum):
    """What moves along a direction that the data leaves open."""

    ALONE = "alone"
    """One parameter."""
    COMMON_FACTOR = "common factor"
    """Several positive parameters, multiplied by one factor."""
    COMBINATION = "combination"
    """Several parameters, each by an amount of its own."""
    AT_ZERO = "at zero"
    """One parameter estimated at zero, which the data bound from above only."""


@dataclass(frozen=True)
class Direction:
    """A direction of the parameters that the data leaves open."""

    kind: DirectionKind
    weights: dict[str, float]
    """E-folds that each parameter moves (units, for one that may take either sign), with squares
    that add up to one; those that stay are left out."""
    curvature: float
    """Second derivative of the negative log-likelihood along it, in nats."""
    nearly: bool = False
    """Whether the data say a little about it, rather than nothing."""
    raised: tuple[str, ...] = ()
    lowered: tuple[str, ...] = ()
    """Parameters that move noticeably up and down, the most first."""
    at_most: float = math.nan
    """Largest value of a parameter estimated at zero that explains the data almost as well as the
    best fit; infinite if any does, NaN if that is not known."""

    def vector(self, names: Sequence[str]) -> Array:
        """Weights of all parameters, in the order of the names."""
        return np.array([self.weights.get(name, 0.0) for name in names])


def open_directions(
    hessian: Array, model: Model, groups: Sequence[Array], flat: float, nearly: float
) -> tuple[Direction, ...]:
    """Return a readable basis of the flat space of a Hessian, then of what is nearly flat.

    The Hessian is of the negative log-likelihood, and a direction is flat where its curvature is
    below ``flat``. Groups are parameters that may belong together, each one alone first; those in
    none are left out.
    """
    kept = np.unique(np.concatenate(groups)) if groups else np.zeros(0, dtype=int)
    curvature, inner = np.linalg.eigh(hessian[np.ix_(kept, kept)])
    basis = np.zeros((len(hessian), len(kept)))
    basis[kept] = inner
    found: list[Direction] = []
    for low, high in ((-math.inf, flat), (flat, nearly)):
        space = basis[:, (curvature >= low) & (curvature < high)]
        part = []
        for vector in _readable(space, hessian, groups, high):
            bent = max(float(vector @ hessian @ vector), 0.0)
            part.append(_direction(vector, bent, low > 0, model))
        # The curvature of flat ones is rounding noise: they stay in the order that reads well.
        found += sorted(part, key=lambda d: d.curvature) if low > 0 else part
    return tuple(found)


def groups_of(likelihood: Likelihood, z: Array, kept: Array) -> list[Array]:
    """Parameters alone, then those of the edges out of a state, into a state, and all of them.

    Which rates a parameter moves is seen at ``z``. Parameters that are not ``kept`` are in no
    group.
    """
    model = likelihood.model
    _, moves = value_and_jacobian(
        lambda free: model.edge_rates(likelihood.x[-1:], likelihood.scale.natural(free))[0], z
    )
    ends = []
    for states in (model.edges.src.numpy(), model.edges.dst.numpy()):
        touched = np.zeros((model.edges.n, len(z)), dtype=bool)
        edge, parameter = moves.nonzero()
        touched[states[edge], parameter] = True
        own = touched & (touched.sum(0) == 1) & kept
        ends += [np.flatnonzero(row) for row in own[own.any(1)]]
    alone = [np.array([k]) for k in np.flatnonzero(kept)]
    positive = model.positive.numpy()
    together = [group for group in [*ends, np.flatnonzero(kept)] if len(group) > 1]
    return alone + [group for group in together if positive[group].all()]


def common_factor(group: Array, size: int) -> Array:
    """Return the unit vector that multiplies a group of parameters by one factor."""
    vector = np.zeros(size)
    vector[group] = 1 / math.sqrt(len(group))
    return vector


def _readable(space: Array, hessian: Array, groups: Sequence[Array], most: float) -> list[Array]:
    """Return a basis of a space, made of common factors of groups as far as it goes."""
    chosen: list[Array] = []
    alone = np.zeros(len(space), dtype=bool)
    for group in groups:
        members = group[~alone[group]]
        if not space.shape[1] or not len(members) or (len(members) == 1 and len(group) > 1):
            continue
        vector = common_factor(members, len(space))
        inside = space.T @ vector
        if inside @ inside < _INSIDE or vector @ hessian @ vector >= most:
            continue
        chosen.append(vector)
        alone[members] |= len(members) == 1
        space = space @ scipy.linalg.null_space(inside[None])
    return chosen + _sparse(space)


def _sparse(space: Array) -> list[Array]:
    """Return a basis in which each vector has a parameter that no other has."""
    size = space.shape[1]
    if not size:
        return []
    _, R, order = scipy.linalg.qr(space.T, mode="economic", pivoting=True)
    vectors = np.zeros((size, len(space)))
    vectors[:, order] = np.linalg.solve(R[:, :size], R)
    return list(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _direction(vector: Array, curvature: float, nearly: bool, model: Model) -> Direction:
    moves = np.abs(vector) > 1e-6
    names = [(name, float(w)) for name, w in zip(model.param_names, vector, strict=True)]
    weights = {name: w for (name, w), moved in zip(names, moves, strict=True) if moved}
    largest = max(map(abs, weights.values()))
    ranked = sorted(weights.items(), key=lambda item: -abs(item[1]))
    up = tuple(name for name, w in ranked if w >= _NAMED * largest)
    down = tuple(name for name, w in ranked if -w >= _NAMED * largest)
    if not up:  # either sign is the same direction
        up, down = down, up
    equal = min(abs(weights[name]) for name in up) > _EQUAL * largest
    kind = DirectionKind.COMBINATION
    if len(up) + len(down) == 1:
        kind = DirectionKind.ALONE
    elif not down and equal and bool(model.positive[moves].all()):
        kind = DirectionKind.COMMON_FACTOR
    return Direction(kind, weights, curvature, nearly, up, down)


def rate_at_zero(name: str, at_most: float) -> Direction:
    """Return the direction of a rate that is estimated at zero, and what it can be at most."""
    return Direction(DirectionKind.AT_ZERO, {name: 1.0}, 0.0, raised=(name,), at_most=at_most)
