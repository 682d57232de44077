r"""Draws: weighted draws of models and their parameters, from which every interval is made.

A covariance, a bootstrap and a pool of several models each make draws; `values` turns them into one
array of measures over loads, and everything above reads quantiles of it.

Draws from a covariance are those of a scrambled Sobol sequence, so that answers are reproducible
and vary smoothly: with 1,024 of them the ends of an interval of a limit have a noise of about
0.01 %, where as many pseudo-random ones leave 0.05 %.

A model that is not quite right drifts as the load grows. What its parameters moved between the fits
to the lightest windows and the fit to all, over the logarithm of the stretch, is how much they may
move again on the way to a load beyond the heaviest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from scipy.stats import chi2, norm, qmc
from torch import Tensor

from stationary._support.types import Array
from stationary.learning.curve import Curves, is_costly
from stationary.learning.estimate import Estimate
from stationary.learning.solved_points import FAR, UNSOLVABLE, within
from stationary.models import Model, Point
from stationary.models.chunks import chunk_size, in_chunks, is_large
from stationary.models.scales import Scale
from stationary.solvers import Accuracy

COUNT = 1024
"""Draws of each model: a power of two, as Sobol sequences have it."""

_CHANCE = 3.0
"""Square of a difference, in variances of it, from which chance does not explain it."""

_SHORT = 0.95
"""Share of the way to zero that a rate may go in a draw that moves rates, not logarithms."""

_LOADS = 20
"""Loads of a usual forecast, by which it is decided whether to solve the chain for every draw: a
limit must go the same way as the forecast beside it."""

_EDGE = 1e-9
"""Probability at which a draw is cut off: its quantile would be infinite."""


@dataclass(frozen=True, eq=False)
class Part:
    """Draws of the parameters of one model.

    Attributes
    ----------
    model : Model
        The model, at the estimates: the centre of the draws.
    theta : Tensor [B, P]
        Parameters up to the heaviest load of the data.
    weights : ndarray [B]
        Weight of every draw; those of all parts add up to one.
    scale : Scale
        Coordinates on which draws drift.
    drift : Tensor [B, P], optional
        How far the coordinates of each draw move when the load grows e-fold beyond ``heaviest``.
    heaviest : float
        The heaviest load of the data.
    """

    model: Model
    theta: Tensor
    weights: Array
    scale: Scale
    drift: Tensor | None = None
    heaviest: float = np.inf

    def at(self, x: Tensor) -> Tensor:
        """Parameters ``[B, 1 or G, P]`` of every draw at inputs ``[1 or B, G, d]``."""
        if self.drift is None:
            return self.theta[:, None]
        beyond = torch.from_numpy(reach(self.heaviest, x[..., 0].numpy()))
        moved = self.scale.free(self.theta)[:, None] + self.drift[:, None] * beyond[..., None]
        return within(self.model, self.scale, self.scale.natural(moved))

    def first(self, count: int) -> Part:
        """Return the first draws alone."""
        drift = None if self.drift is None else self.drift[:count]
        theta, weights = self.theta[:count], self.weights[:count]
        return replace(self, theta=theta, weights=weights, drift=drift)

    @cached_property
    def costly(self) -> bool:
        """Whether the chain is too large to be solved for every draw."""
        return is_costly(self.model.edges, _LOADS * len(self.theta))

    def centre(self, x: Tensor, names: Sequence[str]) -> Array:
        """Measures ``[1, G, K]`` of the estimates at inputs ``[1, G, d]``."""
        if self.costly:
            known = self._curves(names).at_centre(x[0], names)
            if known is not None:
                return known[None]
        # This may fail only for a reason that the caller must hear of.
        return _measured(self.model, x, self.model.theta.detach()[None, None], names)

    def is_entrywise(self, x: Tensor) -> bool:
        """Whether the chain's rare states, too, are solved accurately at inputs ``[G, d]``."""
        with torch.no_grad():
            accuracy = Point(self.model, x, self.model.theta.detach()).accuracy
        return accuracy is Accuracy.ENTRYWISE

    def drawn(self, x: Tensor, names: Sequence[str]) -> Array:
        """Measures ``[B, G, K]`` of every draw at inputs ``[1 or B, G, d]``: NaN if unsolvable."""
        theta = self.at(x)
        if self.costly:
            return self._curves(names).values(x, theta, names)
        return _solvable(self.model, x.expand(len(theta), -1, -1), theta, names)

    def _curves(self, names: Sequence[str]) -> Curves:
        return Curves.of(self.model, tuple(names), self.scale, self.theta)


@dataclass(frozen=True, eq=False)
class Draws:
    """Weighted draws of (model, parameters).

    Attributes
    ----------
    parts : tuple of Part
        One for each model; their weights add up to one.
    """

    parts: tuple[Part, ...]

    @property
    def first(self) -> Model:
        """The model of most weight, which speaks for the others on inputs and ranges."""
        return max(self.parts, key=lambda part: part.weights.sum()).model

    @property
    def weights(self) -> Array:
        """Weights of all draws, ``[B]``."""
        return np.concatenate([part.weights for part in self.parts])

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

    def values(self, x: Tensor, names: Sequence[str]) -> tuple[Array | None, Array]:
        """Measures of the estimates ``[G, K]``, if of one model, and of all draws ``[B, G, K]``."""
        # Draws first: where a chain is large, they have solved the centre.
        drawn = np.concatenate([part.drawn(x[None], names) for part in self.parts])
        return (None if len(self.parts) > 1 else self.parts[0].centre(x[None], names)[0]), drawn


def from_estimate(
    estimate: Estimate,
    below: Sequence[Estimate] = (),
    heaviest: float = np.inf,
    weight: float = 1.0,
    seed: int = 0,
) -> Part:
    """Draw from an estimate's covariance, and from how its parameters drift.

    Parameters
    ----------
    estimate : Estimate
        Of all windows.
    below : sequence of Estimate
        Of the lightest windows, which show how far the parameters drift; none for no drift.
    heaviest : float
        The heaviest load of the data, from which on they do.
    weight : float
        Of all of these draws together.
    seed : int
        Of the scrambling.
    """
    cov, model = estimate.covariance, estimate.model
    scale = common_scale([estimate, *below])
    size = len(estimate.theta)
    drifts = drift(estimate, below, heaviest) if below else np.zeros((size, size))
    moving = bool(drifts.any())
    uniform = qmc.Sobol(size * (1 + moving) + bool(cov.df), seed=seed).random(COUNT)
    uniform = uniform.clip(_EDGE, 1 - _EDGE)
    chance = norm.ppf(uniform[:, :size]) @ _root(cov.on(scale, estimate.theta)).T
    if cov.df:  # a t distribution: the covariance itself is not known better
        chance *= np.sqrt(cov.df / chi2.ppf(uniform[:, -1:], cov.df))
    chance = _bounded(chance, estimate, scale)
    z = _moved(estimate, scale, torch.from_numpy(chance))
    more = None
    if moving:
        more = torch.from_numpy(norm.ppf(uniform[:, size : 2 * size]) @ _root(drifts).T)
    return Part(
        model,
        within(model, scale, scale.natural(z)),
        np.full(COUNT, weight / COUNT),
        scale,
        more,
        heaviest,
    )


def from_refits(estimate: Estimate, thetas: Tensor) -> Part:
    """Take the parameters of a bootstrap's refits as equally likely draws."""
    weights = np.full(len(thetas), 1 / len(thetas))
    return Part(estimate.model, thetas, weights, estimate.covariance.scale)


def faster(part: Part, which: Tensor, factor: float) -> Part:
    """Return the draws with some parameters multiplied by a factor."""
    times = torch.ones(len(which), dtype=part.theta.dtype).masked_fill(which, factor)
    model = part.model.changed()
    model.set_theta(part.model.theta.detach() * times)
    unit = torch.where(part.scale.log, part.scale.unit, part.scale.unit * times)
    return replace(part, model=model, theta=part.theta * times, scale=Scale(part.scale.log, unit))


def drift(estimate: Estimate, below: Sequence[Estimate], heaviest: float) -> Array:
    """Covariance ``[P, P]`` of how far the parameters move when the load grows e-fold.

    What they moved between fits, where that is more than chance explains: the variance of the
    difference between a fit to some windows and one to all is the difference of their variances.
    """
    scale = common_scale([estimate, *below])
    whole = estimate.theta
    total, stretch = np.zeros((len(whole),) * 2), 0.0
    for part in below:
        moved = (scale.free(part.theta) - scale.free(whole)).numpy()
        own = part.covariance.on(scale, part.theta)
        # Estimated from few windows the difference may come out negative: no less than a tenth of
        # the larger variance is left to chance.
        stretch += float(reach(part.below, np.array(heaviest))) ** 2
        if not (part.covariance.computed and estimate.covariance.computed):
            total += np.outer(moved, moved)  # nothing is known that chance would explain
            continue
        values, basis = np.linalg.eigh(own - estimate.covariance.on(scale, whole))
        least = 0.1 * np.linalg.eigvalsh(own).max()
        along = basis.T @ moved
        if (along**2 / np.maximum(values, least)).sum() > _CHANCE * len(moved):
            total += np.outer(moved, moved)
    return total / stretch if stretch else total


def reach(most: float, loads: Array) -> Array:
    """How far loads lie beyond the heaviest: in e-folds, or in its own size where that is not."""
    if most > 0:
        return np.asarray(np.log(np.maximum(loads / most, 1.0)))
    return np.asarray(np.maximum(loads - most, 0.0) / (abs(most) or 1.0))


def common_scale(estimates: Sequence[Estimate]) -> Scale:
    """Logarithms where no estimate is at zero, the unit of the first elsewhere."""
    first = estimates[0].covariance.scale
    log = torch.stack([each.covariance.scale.log for each in estimates]).all(0)
    units = torch.stack([each.covariance.scale.unit for each in estimates])
    return Scale(log, torch.where(first.log, units.amax(0), first.unit))


def _moved(estimate: Estimate, scale: Scale, chance: Tensor) -> Tensor:
    """Coordinates ``[B, P]`` of draws, on the scale that suits the likelihood.

    A draw that would make a rate negative is shortened, in its direction: the data may know sums of
    rates, which a detour along logarithms would change.
    """
    z, theta = scale.free(estimate.theta), estimate.theta
    if not estimate.covariance.linear:
        return z + chance
    step = chance / scale.slope(theta)
    most = torch.where(scale.log & (step < 0), -_SHORT * theta / step, torch.inf).amin(-1)
    return scale.free(theta + step * most.clamp_max(1.0)[:, None])


def _root(matrix: Array) -> Array:
    """A square root whose first columns hold most: a Sobol sequence fills those best.

    NaN for a covariance that could not be computed, so that every draw counts as unsolved.
    """
    if not np.isfinite(matrix).all():
        return np.full_like(matrix, np.nan)
    values, basis = np.linalg.eigh(matrix)
    return np.asarray((basis * np.sqrt(np.maximum(values, 0.0)))[:, ::-1])


def _bounded(chance: Array, estimate: Estimate, scale: Scale) -> Array:
    """Shorten draws along the directions that the data leave open, to what `within` lets pass.

    As vectors: cut off one coordinate at a time, two rates of which only the ratio is known would
    come out with a ratio that is known exactly.
    """
    cov = estimate.covariance
    if not cov.flat.size:
        return chance
    factor = (scale.slope(estimate.theta) / cov.scale.slope(estimate.theta)).numpy()
    along = (chance / factor) @ cov.flat @ cov.flat.T * factor
    known, log = chance - along, scale.log.numpy()
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
    return torch.cat([of_part(*part) for part in parts]).numpy()


def _solvable(model: Model, x: Tensor, theta: Tensor, names: Sequence[str]) -> Array:
    """Measures of every draw; NaN for draws whose chain cannot be solved."""
    try:
        return _measured(model, x, theta, names)
    except UNSOLVABLE:
        if x.shape[:2] == (1, 1):
            return np.full((1, 1, len(names)), np.nan)
    # Draws first; then the loads of one draw, because it may fail at one of them alone.
    axis = 0 if len(x) > 1 else 1
    theta = theta if axis == 0 else theta.expand(-1, x.shape[1], -1)
    half = x.shape[axis] // 2
    pairs = zip(x.tensor_split([half], axis), theta.tensor_split([half], axis), strict=True)
    return np.concatenate([_solvable(model, a, b, names) for a, b in pairs], axis)
