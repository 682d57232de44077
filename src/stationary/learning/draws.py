r"""Draws: weighted draws of models and their parameters, from which every interval is made.

A covariance, a bootstrap and a pool of several models each make draws; `values` turns them into one
array of measures over loads, and everything above reads quantiles of it.

Draws from a covariance are those of a scrambled Sobol sequence, so that answers are reproducible
and vary smoothly: with 1,024 of them the ends of an interval of a limit have a noise of about
0.01 %, where as many pseudo-random ones leave 0.05 %.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from scipy.special import gammaincinv, ndtri
from torch import Tensor
from torch.quasirandom import SobolEngine

from stationary._support.threads import one_thread
from stationary._support.types import Array
from stationary.learning.curve import Curves, is_costly
from stationary.learning.estimate import Estimate
from stationary.learning.inference import Covariance
from stationary.learning.solvable import FAR, UNSOLVABLE, each_solvable, within
from stationary.models import Model, Point
from stationary.models.chunks import chunk_size, in_chunks, is_large
from stationary.models.scales import Scale
from stationary.solvers import Accuracy

COUNT = 1024
"""Draws of each model: a power of two, as Sobol sequences have it."""

_SHORT = 0.95
"""Share of the way to zero that a rate may go in a draw that moves rates, not logarithms."""

_LOADS = 20
"""Loads of a usual forecast, by which it is decided whether to solve the chain for every draw: a
limit must go the same way as the forecast beside it."""

_EDGE = 1e-9
"""Probability at which a draw is cut off: its quantile would be infinite."""


@dataclass(frozen=True, eq=False)
class Part:
    """Draws ``theta [B, P]`` of the parameters of one model, which stands at their centre.

    Weights of all parts add up to one. Curves of a large chain follow the draws on ``scale``;
    ``name`` is that of the model in its plan.
    """

    model: Model
    theta: Tensor
    weights: Array
    scale: Scale
    name: str = ""

    def first(self, count: int) -> Part:
        """Return the first draws alone, with the weight of all."""
        weights = self.weights[:count]
        weights = weights * (self.weights.sum() / weights.sum())
        return replace(self, theta=self.theta[:count], weights=weights)

    def with_parameter(self, model: Model, values: Tensor) -> Part:
        """Return the draws of a model with one more parameter, behind the others."""
        log, unit = self.scale.log, self.scale.unit
        return replace(
            self,
            model=model,
            theta=torch.cat([self.theta, values[:, None]], -1),
            scale=Scale(torch.cat([log, log.new_ones(1)]), torch.cat([unit, unit.new_ones(1)])),
        )

    @cached_property
    def costly(self) -> bool:
        """Whether the chain is too large to be solved for every draw."""
        return is_costly(self.model, _LOADS * len(self.theta))

    def centre(self, x: Tensor, names: Sequence[str]) -> Array:
        """Measures ``[1, G, K]`` of the estimates at inputs ``[1, G, d]``."""
        theta = self.model.theta.detach()[None, None]
        if self.costly:
            known = self._curves(names).values(x, theta, names)
            if not np.isnan(known).any():
                return known
        # This may fail only for a reason that the caller must hear of.
        return _measured(self.model, x, theta, names)

    def is_entrywise(self, x: Tensor) -> bool:
        """Whether the chain's rare states, too, are solved accurately at inputs ``[G, d]``."""
        accuracy = self._curves(()).accuracy if self.costly else None
        if accuracy is None:
            with torch.no_grad():
                accuracy = Point(self.model, x, self.model.theta.detach()).accuracy
        return accuracy is Accuracy.ENTRYWISE

    def drawn(self, x: Tensor, names: Sequence[str], which: Array | None = None) -> Array:
        """Measures ``[B, G, K]`` of every draw at inputs ``[1 or B, G, d]``: NaN if unsolvable.

        Of ``which`` draws, if that is given.
        """
        theta = (self.theta if which is None else self.theta[which])[:, None]
        if self.costly:
            return self._curves(names).values(x, theta, names)
        return _solvable(self.model, x.expand(len(theta), -1, -1), theta, names)

    def _curves(self, names: Sequence[str]) -> Curves:
        return Curves.of(self.model, tuple(names), self.scale, self.theta)


@dataclass(frozen=True, eq=False)
class Draws:
    """Weighted draws of (model, parameters), a part for each model."""

    parts: tuple[Part, ...]

    @property
    def first(self) -> Model:
        """The model of most weight, which speaks for the others on inputs and ranges."""
        return max(self.parts, key=lambda part: part.weights.sum()).model

    @property
    def weights(self) -> Array:
        """Weights of all draws, ``[B]``."""
        return np.concatenate([part.weights for part in self.parts])

    def thinned(self, count: int) -> Draws:
        """Return the first draws of every model alone, with its weight."""
        return Draws(tuple(part.first(count) for part in self.parts))

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures that all models have by default."""
        others = [part.model.measures for part in self.parts]
        return tuple(name for name in self.first.measures if all(name in o for o in others))

    def check_measures(self, names: Sequence[str]) -> None:
        """Raise unless every model has these measures."""
        for part in self.parts:
            for name in names:
                part.model.measure(name)

    def is_entrywise(self, x: Tensor) -> bool:
        """Whether rare states, too, are solved accurately by every model at inputs ``[G, d]``."""
        return all(part.is_entrywise(x) for part in self.parts)

    def centre(self, x: Tensor, names: Sequence[str]) -> Array | None:
        """Measures ``[G, K]`` of the estimates, if of one model."""
        return None if len(self.parts) > 1 else self.parts[0].centre(x[None], names)[0]

    def values(self, x: Tensor, names: Sequence[str]) -> Array:
        """Measures ``[B, G, K]`` of all draws."""
        return np.concatenate([part.drawn(x[None], names) for part in self.parts])


def from_estimate(estimate: Estimate, weight: float = 1.0, seed: int = 0, name: str = "") -> Part:
    """Draw from an estimate's covariance, with so much weight in all."""
    cov, model = estimate.covariance, estimate.model
    scale = cov.scale
    size = len(estimate.theta)
    if not cov.computed:  # one draw that cannot be solved leaves every interval open
        nothing = torch.full((1, size), torch.nan, dtype=torch.float64)
        return Part(model, nothing, np.array([weight]), scale, name)
    uniform = _scrambled(COUNT, size + bool(cov.df), seed)
    uniform = uniform.clip(_EDGE, 1 - _EDGE)
    chance = ndtri(uniform[:, :size]) @ _root(cov.matrix).T
    if cov.df:  # a t distribution: the covariance itself is not known better
        chance *= np.sqrt(cov.df / (2 * gammaincinv(cov.df / 2, uniform[:, -1:])))
    z = _moved(estimate, torch.from_numpy(_bounded(chance, cov)))
    theta = within(model, scale, scale.natural(z))
    return Part(model, theta, np.full(COUNT, weight / COUNT), scale, name)


def shuffled_points(count: int, dimensions: int, seed: int) -> Array:
    """Points ``[count, dimensions]`` of a Sobol sequence, to stand beside draws.

    Shuffled, because draws are Sobol points as well, and two such sequences side by side are
    correlated.
    """
    # Sobol points want a power of two.
    points = _scrambled(1 << (count - 1).bit_length(), dimensions, seed)
    return np.random.default_rng(seed).permutation(points)[:count]


def _scrambled(count: int, dimensions: int, seed: int) -> Array:
    """Points ``[count, dimensions]`` of a scrambled Sobol sequence."""
    sequence = SobolEngine(dimensions, scramble=True, seed=seed)
    return np.asarray(sequence.draw(count, dtype=torch.float64).numpy())


def from_refits(estimate: Estimate, thetas: Tensor, name: str = "") -> Part:
    """Take the parameters of a bootstrap's refits as equally likely draws."""
    weights = np.full(len(thetas), 1 / len(thetas))
    return Part(estimate.model, thetas, weights, estimate.covariance.scale, name)


def faster(part: Part, which: Tensor, factor: float) -> Part:
    """Return the draws with some parameters multiplied by a factor."""
    times = torch.ones(len(which), dtype=part.theta.dtype).masked_fill(which, factor)
    model = copy.deepcopy(part.model)
    model.set_theta(part.model.theta.detach() * times)
    unit = torch.where(part.scale.log, part.scale.unit, part.scale.unit * times)
    return replace(part, model=model, theta=part.theta * times, scale=Scale(part.scale.log, unit))


def _moved(estimate: Estimate, chance: Tensor) -> Tensor:
    """Coordinates ``[B, P]`` of draws, on the scale that suits the likelihood.

    A draw that would make a rate negative is shortened, in its direction: the data may know sums of
    rates, which a detour along logarithms would change.
    """
    scale, theta = estimate.covariance.scale, estimate.theta
    if not estimate.covariance.linear:
        return scale.free(theta) + chance
    step = chance / scale.slope(theta)
    most = torch.where(scale.log & (step < 0), -_SHORT * theta / step, torch.inf).amin(-1)
    return scale.free(theta + step * most.clamp_max(1.0)[:, None])


def _root(matrix: Array) -> Array:
    """A square root whose first columns hold most: a Sobol sequence fills those best."""
    values, basis = np.linalg.eigh(matrix)
    return np.asarray((basis * np.sqrt(np.maximum(values, 0.0)))[:, ::-1])


def _bounded(chance: Array, cov: Covariance) -> Array:
    """Shorten draws along the directions that the data leave open, to what `within` lets pass.

    As vectors: cut off one coordinate at a time, two rates of which only the ratio is known would
    come out with a ratio that is known exactly.
    """
    if not cov.flat.size:
        return chance
    along = chance @ cov.flat @ cov.flat.T
    known, log = chance - along, cov.scale.log.numpy()
    room = np.maximum(np.log(FAR) - np.abs(known[:, log]).max(-1, initial=0.0), 0.0)
    reached = np.abs(along[:, log]).max(-1, initial=0.0)
    return np.asarray(known + along * np.minimum(room / np.maximum(reached, 1.0), 1.0)[:, None])


def _measured(model: Model, x: Tensor, theta: Tensor, names: Sequence[str]) -> Array:
    """Measures ``[B, G, K]`` at inputs ``[B, G, d]`` and parameters ``[B, 1 or G, P]``."""
    measures = [model.measure(name) for name in names]
    batch = np.broadcast_shapes(x.shape[:-1], theta.shape[:-1])

    def of_part(x: Tensor, theta: Tensor) -> Tensor:
        with torch.no_grad():  # which does not reach into threads
            point = Point(model, x, theta)
            found = [measure(point).clamp(measure.low, measure.high) for measure in measures]
            return torch.stack(found, -1)

    side_by_side = chunk_size(model.edges)
    if is_large(model.edges) or batch[-1] > side_by_side:  # so that memory holds few factors
        rows = (part.expand(*batch, -1).flatten(0, -2) for part in (x, theta))
        return torch.cat(in_chunks(of_part, model.edges, *rows)).reshape(*batch, -1).numpy()
    some = side_by_side // batch[-1]
    parts = zip(x.split(some), theta.split(some), strict=True)
    with one_thread():
        return torch.cat([of_part(*part) for part in parts]).numpy()


def _solvable(model: Model, x: Tensor, theta: Tensor, names: Sequence[str]) -> Array:
    """Measures of every draw; NaN for draws whose chain cannot be solved."""
    try:
        return _measured(model, x, theta, names)
    except UNSOLVABLE:
        batch = np.broadcast_shapes(x.shape[:-1], theta.shape[:-1])
    # A draw may fail at one load alone.
    rows = (part.expand(*batch, -1).flatten(0, 1)[:, None] for part in (x, theta))
    found = each_solvable(
        lambda x, theta: _measured(model, x, theta, names)[:, 0], len(names), *rows
    )
    return found.reshape(*batch, -1)
