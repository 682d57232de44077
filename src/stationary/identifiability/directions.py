"""Directions in which parameters can move and the data cannot tell, in words.

On the free scale a direction says how many e-folds each parameter moves. The flat space of a
Hessian has no basis of its own; the one chosen here reads well: first parameters that are open by
themselves, then groups that can be multiplied by one factor, such as all rates out of a state, then
what is left, each with as few parameters as there need be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from stationary.derivatives import jacobian
from stationary.inference import Array
from stationary.models import Model
from stationary.objective import Objective

_INSIDE = 0.9
"""Share of a candidate that must lie in the flat space for it to stand for a part of it."""

_NAMED = 0.1
"""Weight, relative to the largest, from which a parameter is named in a sentence."""

_ALONE = " alone is not known: near the best fit no observed count depends on it."

_MOST_NAMED = 4
"""Parameters that a sentence names before it only counts them."""


@dataclass(frozen=True)
class Direction:
    """A direction of the parameters that the data leaves open.

    Attributes
    ----------
    weights : dict
        E-folds that each parameter moves (units, for one that may take either sign), with squares
        that add up to one; those that stay are left out.
    curvature : float
        Second derivative of the negative log-likelihood along it, in nats.
    sentence : str
        What it means, for people.
    """

    weights: dict[str, float]
    curvature: float
    sentence: str

    def vector(self, names: Sequence[str]) -> Array:
        """Weights of all parameters, in the order of the names."""
        return np.array([self.weights.get(name, 0.0) for name in names])


def open_directions(
    hessian: Array, model: Model, groups: Sequence[Array], flat: float, nearly: float
) -> tuple[Direction, ...]:
    """Describe the flat space of a Hessian, then what is nearly flat.

    Parameters
    ----------
    hessian : ndarray [P, P]
        Second derivatives of the negative log-likelihood.
    model : Model
        Names the parameters.
    groups : sequence of ndarray of int
        Parameters that may belong together, each one alone first; those in none are left out.
    flat, nearly : float
        Curvature below which a direction is flat, and below which it is nearly so.
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
            weights = {
                name: float(w)
                for name, w in zip(model.param_names, vector, strict=True)
                if abs(w) > 1e-6
            }
            log = bool(model.positive[np.abs(vector) > 1e-6].all())
            part.append(Direction(weights, bent, _sentence(weights, low > 0, log)))
        # The curvature of flat ones is rounding, and their order is by how they read.
        found += sorted(part, key=lambda d: d.curvature) if low > 0 else part
    return tuple(found)


def groups_of(objective: Objective, z: Array, kept: Array) -> list[Array]:
    """Parameters alone, then those of the edges out of a state, into a state, and all of them.

    Parameters
    ----------
    objective : Objective
        Model and inputs.
    z : ndarray [P]
        Where to look which rates a parameter moves.
    kept : ndarray [P] of bool
        Parameters to group; the others stay as they are.
    """
    model = objective.model
    moves = jacobian(
        lambda free: model.edge_rates(objective.x[-1:], objective.scale.natural(free))[0], z
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


def _sentence(weights: dict[str, float], nearly: bool, log: bool) -> str:
    largest = max(map(abs, weights.values()))
    ranked = sorted(weights.items(), key=lambda item: -abs(item[1]))
    up = [name for name, w in ranked if w >= _NAMED * largest]
    down = [name for name, w in ranked if -w >= _NAMED * largest]
    if not up:
        up, down = down, up
    if len(up) + len(down) == 1:
        return f"{up[0]} alone is hardly known." if nearly else f"{up[0]}{_ALONE}"
    rest = "hardly changes what the data show" if nearly else "changes nothing the data show"
    sizes = [abs(weights[name]) for name in up]
    if not down and log and min(sizes) > 0.9 * max(sizes):
        return f"Multiplying {_listed(up)} by one common factor {rest}."
    what = f"{_listed(up)} while lowering {_listed(down)}" if down else f"{_listed(up)} together"
    return f"Raising {what} {rest}: only their combination is known."


def bounded(name: str, most: float) -> Direction:
    """Describe a rate that is estimated at zero, and what it can be at most; NaN if not known."""
    text = f"but anything up to {most:.3g} explains the data almost as well"
    if math.isnan(most):
        text = "and known to be small only while the others stay as they are"
    elif math.isinf(most):
        text = "but any value explains the data almost as well"
    return Direction({name: 1.0}, 0.0, f"{name} is estimated at zero, {text}.")


def described(directions: Sequence[Direction], most: int) -> list[str]:
    """Sentences for people: one for all parameters that are open alone, then some of the others."""
    alone = [next(iter(d.weights)) for d in directions if d.sentence.endswith(_ALONE)]
    lines = [d.sentence for d in directions if not d.sentence.endswith(_ALONE)]
    if len(lines) > most:
        lines = [*lines[:most], f"... and {len(lines) - most} more."]
    if len(alone) == 1:
        return [alone[0] + _ALONE, *lines]
    if alone:
        lines.insert(
            0,
            f"{_listed(alone)} are not known: near the best fit no observed count depends on them.",
        )
    return lines


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    if len(names) <= _MOST_NAMED:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{', '.join(names[: _MOST_NAMED - 1])} and {len(names) - _MOST_NAMED + 1} more"
