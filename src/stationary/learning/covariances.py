r"""Ways to the covariance of the estimates; a fit takes one as ``covariance=``.

On the free scale ``z``, with ``H`` the Hessian of the likelihood at its minimum, each of them is

    H^-1 J H^-1,      J a guess at the covariance of the score, the gradient summed over windows.

| kind          | J                                                   | supposes                  |
| ------------- | --------------------------------------------------- | ------------------------- |
| `Information` | ``H``                                               | all counts independent    |
| `Dispersed`   | ``phi H``, phi the overdispersion of the counts     | all scatter phi times it  |
| `Correlated`  | from the chain's own autocorrelation                | the model is right        |
| `Sandwich`    | from the scores of the windows, or blocks of them   | windows (blocks)          |
|               |                                                     | independent               |

`AutoCovariance`, the default, is a sandwich where there are enough windows of like length, else
`Correlated` where the chain allows it, else `Dispersed`, or `Information` for observations that are
not counts, and for those that are independent by themselves, such as choices.

Directions along which the likelihood is flat get a standard deviation of `UNDETERMINED` in all of
them: there the scores vanish too, and a sandwich would call them known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from stationary._support.arguments import Checked
from stationary._support.types import Array
from stationary.data import Counts
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.autocorrelation import obstacle, score_covariance
from stationary.learning.inference import FLAT, UNDETERMINED, Covariance, finite_hessian
from stationary.learning.likelihood import Likelihood, log_terms
from stationary.learning.solvable import UNSOLVABLE
from stationary.models import Model
from stationary.models.chunks import is_large
from stationary.models.scales import Scale

_FEWEST_SPARE = 8
"""Windows beyond the number of parameters from which a sandwich is worth more than its noise."""


_MOST_AXES = 40
"""Directions up to which it is tried which scale suits draws."""

_ZERO = 1e-2
"""Share of where its fit started below which a rate that is not felt counts as zero."""


class Minimum:
    """A minimum of the likelihood, and the directions that the data determines there.

    Attributes
    ----------
    likelihood : Likelihood
        On a scale on which the minimum is not at a boundary.
    curvature : ndarray [R]
        Second derivatives along the determined directions.
    basis, flat : ndarray [P, R], [P, P - R]
        Unit vectors along the determined directions, and along the others.
    """

    def __init__(self, likelihood: Likelihood, windows: Windows, theta: Tensor) -> None:
        scale = likelihood.scale
        hessian = finite_hessian(likelihood, scale.free(theta).numpy())
        unit = likelihood.start
        felt = torch.from_numpy(np.diag(hessian) >= FLAT)
        at_zero = scale.log & (theta < _ZERO * unit) & ~felt
        if bool(at_zero.any()):
            scale = Scale(scale.log & ~at_zero, torch.where(at_zero, unit, scale.unit))
            likelihood = likelihood.on(scale)
            hessian = finite_hessian(likelihood, scale.free(theta).numpy())
        curvature, basis = np.linalg.eigh(hessian)
        open_ = curvature < FLAT
        self.likelihood, self.windows, self.theta = likelihood, windows, theta
        self.curvature, self.basis, self.flat = curvature[~open_], basis[:, ~open_], basis[:, open_]

    @cached_property
    def slopes(self) -> Array:
        """``[U, C, R]``: derivatives of the log-probabilities, at every distinct input."""
        z = self.likelihood.scale.free(self.theta).numpy()
        return self.likelihood.slopes(z) @ self.basis

    @cached_property
    def group(self) -> Array:
        """Distinct input of every window."""
        _, group = np.unique(self.windows.x.numpy(), axis=0, return_inverse=True)
        return group.ravel()

    def scatter(self) -> Array:
        """``[R, R]``: the outer products of the windows' scores, added up.

        The score of a window scatters in proportion to its length, so that where lengths differ
        much, one long window would stand for the scatter of all of them, and it has none: the fit
        follows it. Then every window says equally much about the scatter per unit of length. The
        larger of the two is taken: what differs between windows, whatever their length, adds up.
        """
        slopes, windows = self.slopes[self.group], self.windows
        total = np.einsum("mc,mcp->p", windows.data.numpy(), slopes)
        each = windows.roots.numpy() @ slopes
        centre = np.outer(total, total) / windows.recorded
        lengths = windows.lengths.clamp_min(1e-300).numpy()
        found = []
        for weight in (np.ones_like(lengths), lengths.mean() / lengths):
            scores = np.concatenate(each * np.sqrt(weight)[:, None, None])
            found.append(np.asarray(scores.T @ scores - centre))
        return max(found, key=lambda J: float((np.diag(J) / self.curvature**2).sum()))

    def scores(self) -> Array:
        """``[M, R]``: gradient of every window's negative log-likelihood, less their mean."""
        self.windows.check_single("the score of every window")
        counts = self.windows.data.numpy()
        scores: Array = -np.einsum("mc,mcp->mp", counts, self.slopes[self.group])
        return scores - scores.mean(0)

    def covariance(self, J: Array, df: int, kind: str, block: int = 1) -> Covariance:
        """Return the covariance for a covariance ``J [R, R]`` of the score."""
        inner = J / self.curvature[:, None] / self.curvature
        matrix = self.basis @ inner @ self.basis.T + UNDETERMINED**2 * self.flat @ self.flat.T
        more = float((np.diag(J) / self.curvature).mean()) if len(J) else 1.0
        scale, linear = self.likelihood.scale, self._is_linear(inner)
        return Covariance(matrix, df, kind, self.flat, scale, more, block, linear)

    def _is_linear(self, inner: Array) -> bool:
        """Whether the parameters themselves are a better scale for draws than the coordinates.

        By how far the likelihood is from the parabola of its curvature, two standard deviations to
        either side along the principal axes of the covariance.
        """
        scale = self.likelihood.scale
        few = 1 < len(inner) <= _MOST_AXES and not is_large(self.likelihood.model.edges)
        if not few or not bool(scale.log.any()) or not np.isfinite(inner).all():
            return False
        spread, axes = np.linalg.eigh(inner)
        steps = 2 * np.sqrt(np.maximum(spread, 0.0)) * (self.basis @ axes)  # [P, R]
        steps = torch.from_numpy(np.concatenate([steps, -steps], 1).T.copy())
        rise = ((steps.numpy() @ self.basis) ** 2 @ self.curvature) / 2
        straight = self.theta + steps / scale.slope(self.theta)
        inside = (straight[:, scale.log] > 0).all(-1)  # a draw outside moves logarithms anyway
        if not bool(inside.any()):
            return False
        straight, steps, rise = straight[inside], steps[inside], rise[inside.numpy()]
        z = scale.free(self.theta)
        lowest = self.likelihood.value_and_gradient(z.numpy())[0]

        def off(points: Tensor) -> float:
            values = [self.likelihood.value_and_gradient(point.numpy())[0] for point in points]
            return float(np.abs(np.array(values) - lowest - rise).sum())

        try:
            return off(scale.free(straight)) < off(z + steps)
        except UNSOLVABLE:
            return False


class CovarianceKind(Checked, ABC):
    """A way to the covariance of the estimates; a new one says how the score scatters.

    Examples
    --------
    One that takes every count for a tenth of an independent one:

    >>> import stationary as st
    >>> class Tenfold(CovarianceKind):
    ...     def at(self, minimum):
    ...         return minimum.covariance(10 * np.diag(minimum.curvature), 0, "tenfold")
    >>> windows = st.Windows(x=[10.0, 12.0], counts=[[60, 24], [52, 25]], observe=[0, 1])
    >>> fit = st.fit(st.models.MMmK(capacity=5), windows, covariance=Tenfold())
    >>> plain = st.fit(st.models.MMmK(capacity=5), windows, covariance=Information())
    >>> round((fit.covariance.stderr / plain.covariance.stderr).item() ** 2, 6)
    10.0
    """

    @abstractmethod
    def at(self, minimum: Minimum) -> Covariance:
        """Covariance of the estimates at a minimum."""


@dataclass(frozen=True)
class Information(CovarianceKind):
    """The inverse of the observed information: every count taken for an independent one."""

    def at(self, minimum: Minimum) -> Covariance:
        """``H^-1``."""
        return minimum.covariance(np.diag(minimum.curvature), 0, "information")


@dataclass(frozen=True)
class Dispersed(CovarianceKind):
    """The inverse of the observed information, times the overdispersion of the counts."""

    def at(self, minimum: Minimum) -> Covariance:
        """``phi H^-1``, with a t quantile of the degrees of freedom of ``phi``."""
        phi, df = overdispersion(minimum.likelihood.model, minimum.windows, minimum.theta)
        return minimum.covariance(max(phi, 1.0) * np.diag(minimum.curvature), df, "dispersed")


@dataclass(frozen=True)
class Correlated(CovarianceKind):
    """The covariance that the fitted chain's own autocorrelation gives the score.

    For windows too few for a `Sandwich`. It needs to know how much time lay between samples:
    from ``windows.duration``, or from the load where requests were counted on arrival.
    """

    def at(self, minimum: Minimum) -> Covariance:
        """See `stationary.learning.autocorrelation`."""
        model, windows = minimum.likelihood.model, minimum.windows
        J = score_covariance(model, windows, minimum.theta, minimum.slopes, minimum.group)
        return minimum.covariance(J, 0, "correlated")


@dataclass(frozen=True)
class Sandwich(CovarianceKind):
    """What the scores of windows, or of blocks of successive windows, say.

    Parameters
    ----------
    block : int
        Successive windows that are taken as one, where they hang together: in the order in which
        they were recorded.
    """

    block: int = 1

    def __post_init__(self) -> None:
        if self.block < 1:
            raise InputError(f"block must be at least 1 window; got {self.block!r}")

    def spare(self, minimum: Minimum) -> int:
        """Blocks beyond the number of determined directions."""
        return -(-minimum.windows.recorded // self.block) - len(minimum.curvature)

    def at(self, minimum: Minimum) -> Covariance:
        """``H^-1 (B / (B - R) sum_b s_b s_b^T) H^-1`` over blocks b."""
        windows, spare = minimum.windows.recorded, self.spare(minimum)
        if spare < 1:
            raise InputError(
                f"a sandwich covariance needs more windows than parameters; got {windows} windows "
                f"in blocks of {self.block}: take another covariance="
            )
        if self.block == 1:
            return minimum.covariance(minimum.scatter() * (windows / spare), spare, "sandwich")
        minimum.windows.check_single(f"a sandwich over blocks of {self.block} windows")
        scores = np.add.reduceat(minimum.scores(), np.arange(0, windows, self.block))
        J = scores.T @ scores * (len(scores) / spare)
        return minimum.covariance(J, spare, "sandwich", self.block)


@dataclass(frozen=True)
class AutoCovariance(CovarianceKind):
    """The decision table in the docstring of this module."""

    def at(self, minimum: Minimum) -> Covariance:
        """Covariance of the first kind that the data support."""
        windows = minimum.windows
        if all(kind.independent for kind in windows.observations):
            return Information().at(minimum)
        enough = Sandwich().spare(minimum) >= _FEWEST_SPARE
        # One long window shows no scatter, since the fit follows it. Short ones show too little of
        # what lasts longer than they do.
        lengths = windows.lengths * windows.multiplicity
        weighing = float(lengths.sum() ** 2 / (lengths * windows.lengths).sum())
        if enough and weighing - len(minimum.curvature) >= _FEWEST_SPARE / 2:
            return Sandwich().at(minimum)
        if obstacle(minimum.likelihood.model, windows, minimum.theta) is None:
            correlated = Correlated().at(minimum)
            if np.isfinite(correlated.matrix).all():
                return correlated
        if enough:
            return Sandwich().at(minimum)
        counts = all(isinstance(kind, Counts) for kind in windows.observations)
        return (Dispersed() if counts else Information()).at(minimum)


def covariance(
    likelihood: Likelihood, windows: Windows, theta: Tensor, kind: CovarianceKind | None = None
) -> Covariance:
    """Covariance of the estimates.

    A positive parameter estimated at zero has no logarithm to be uncertain about: it is taken on a
    linear scale, in units of where its fit started, as if it could go either way. Weights of a
    network have no covariance, unless one is asked for.
    """
    if kind is None and likelihood.model.weights:
        return Covariance.none(likelihood.scale)
    return (kind or AutoCovariance()).at(Minimum(likelihood, windows, theta))


def overdispersion(model: Model, windows: Windows, theta: Tensor) -> tuple[float, int]:
    """How many times as much as independent counts the counts scatter; degrees of freedom.

    Pearson's statistic over its degrees of freedom. Categories expected less than once in a window
    are taken together, since a single count there would weigh like many elsewhere.

    Of windows that were pooled, all at one input are weighed by their mean number of counts. That
    is Pearson's statistic where they have equally many, and has the same expectation elsewhere.
    """
    terms = log_terms(model, windows, theta)
    squares, cells, place = 0.0, 0, 0
    for kind in windows.observations:
        columns = slice(place, place + kind.data.shape[1])
        place = columns.stop
        if not isinstance(kind, Counts):
            raise InputError(
                f"overdispersion is of counts, and {', '.join(kind.columns)} are none: take "
                f"another covariance="
            )
        roots = windows.roots[..., columns].numpy()
        p, windows_at = np.exp(terms[:, columns]), windows.multiplicity.numpy()
        more, used = _pearson(kind.size.numpy(), p, windows_at, roots)
        squares, cells = squares + more, cells + used
    df = max(cells - len(theta), 1)
    return float(squares / df), df


def _pearson(counts: Array, p: Array, windows: Array, roots: Array) -> tuple[float, int]:
    """Pearson's statistic, and how many cells it sums over.

    Of counts ``[M]`` in rows that stand for so many recorded ``windows [M]``, with probabilities
    ``p [M, C]``; for ``roots [M, K, C]`` see `Windows.roots`.
    """
    expected = (counts / windows)[:, None] * p
    rare = expected < 1
    together = (expected * rare).sum(-1)
    use = together >= 1
    off = roots - roots.sum(-1, keepdims=True) * p[:, None]
    apart, joint = (off**2).sum(1), ((off * rare[:, None]).sum(-1) ** 2).sum(1)
    squares = np.where(rare, 0.0, apart / np.where(rare, 1.0, expected)).sum()
    squares += (joint[use] / together[use]).sum()
    return float(squares), int((windows * ((~rare).sum(-1) + use - 1)).sum())
