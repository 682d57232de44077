r"""Measures of one large chain around its estimates, all from a single factor.

Along a line ``z + t s`` of parameters the generator is a power series ``Q(t) = sum_k t^k Q_k``, and
so is the steady state ``pi(t) = sum_k t^k pi_k``. Comparing powers of ``pi(t) Q(t) = 0``,

    -pi_k Q_0 = sum_{j=1..k} pi_{k-j} Q_j,    sum(pi_k) = 0:

each term costs one substitution with the factor of ``Q_0``, where another chain would cost a factor
of its own, of about forty substitutions at a million states. Measures are read off the series near
``t = 0`` and expanded on their links, on which a loss that falls by orders of magnitude is nearly a
line: their series settles long before that of the rare states themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.learning.derivatives import value_and_jacobian
from stationary.learning.inference import Link
from stationary.models import Model, Point
from stationary.models.measures import Measure
from stationary.models.scales import Scale
from stationary.steady import steady_state

_SHORT = 1e-3
"""Displacement, in e-folds, for slopes of rates: its square is their relative error."""

_NEAR = 0.005
"""Where measures are read off the series, as a share of the line."""

_SETTLED = 0.02
"""Size of the last term, on the link, at which a series is cut: what follows is far smaller."""


class Series(NamedTuple):
    """Levels along a line: the second term ``[K]``, both ends ``[K]``, and whether they settled."""

    second: Array
    below: Array
    above: Array
    settled: bool


class Expansion:
    """A chain at one input ``[1, d]`` and the coordinates ``z`` of its estimates.

    Attributes
    ----------
    level : ndarray [K]
        Measures on their links.
    slope, in_load : ndarray [K, P], [K]
        Their slopes in the coordinates, and in the logarithm of the load.
    accuracy : Accuracy
        Of the steady state.
    """

    def __init__(
        self, model: Model, pairs: Sequence[tuple[Measure, Link]], scale: Scale, x: Tensor, z: Array
    ) -> None:
        self._model, self._pairs, self._scale = model, pairs, scale
        self._x, self._z = x, torch.from_numpy(z)
        with torch.no_grad():
            generator = model.generator(x, scale.natural(self._z))
            state = steady_state(generator)
            self._factor, self._pi, self._middle = state.factor, state.pi, generator.rates[0]
            short = _SHORT * torch.eye(len(z) + 1, dtype=torch.float64)
            slopes = [(self._rates(s) - self._rates(-s)) / (2 * _SHORT) for s in short]
            self._tangents = torch.cat([self._next([q], [self._pi]) for q in slopes])
        self.accuracy = state.accuracy

        def levels(moved: Tensor) -> Tensor:
            return self._levels(moved, self._pi + moved @ self._tangents)

        self.level, slope = value_and_jacobian(levels, np.zeros(len(z) + 1))
        self.slope, self.in_load = slope[:, :-1], slope[:, -1]

    @torch.no_grad()
    def along(self, step: Array, leading: Sequence[int]) -> Series:
        """Expand the levels along the line from ``z - step`` to ``z + step``."""
        line = torch.from_numpy(np.append(step, 0.0))
        rates, pi = self._two_terms(line, 4)
        pi.append(self._next(rates, pi))
        first = self.slope @ step
        second, odd = self._read(line, pi, _NEAR)
        third, fourth = (odd - first) / _NEAR**2, np.zeros_like(first)
        settled = _is_small(4 * third[leading])
        if not settled:
            pi.append(self._next(rates, pi))
            near, far = (self._read(line, pi, h)[0] for h in (_NEAR, 2 * _NEAR))
            fourth = (far - near) / (3 * _NEAR**2)
            second = near - fourth * _NEAR**2
            settled = _is_small(fourth[leading])
        ends = self._scale.natural(self._z + torch.stack([-line, line])[:, :-1])
        # Beyond a rate of zero there is no chain, and the series does not know.
        settled &= bool((ends[:, self._model.positive] > 0).all())
        even, odd = second + fourth, first + third
        return Series(second, self.level + even - odd, self.level + even + odd, settled)

    @torch.no_grad()
    def second(self, step: Array) -> Array:
        """The second term ``[K]`` alone of the series along a line."""
        line = torch.from_numpy(np.append(step, 0.0))
        return self._read(line, self._two_terms(line, 2)[1], _NEAR)[0]

    def _two_terms(self, line: Tensor, count: int) -> tuple[Tensor, list[Tensor]]:
        """So many terms of the rates along a line, ``[count, E]``; two of the steady state."""
        places = np.linspace(-1.0, 1.0, count + 1)
        read = [self._rates(t * line) if t else self._middle for t in places]
        # The polynomial through rates at these places.
        terms = torch.from_numpy(np.linalg.inv(np.vander(places, increasing=True))[1:])
        rates = terms @ torch.stack(read)
        pi = [self._pi, (line @ self._tangents)[None]]
        return rates, [*pi, self._next(rates, pi)]

    def _at(self, moved: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and parameters some way from the estimates, the last of it in the log load."""
        x = torch.cat([self._x[:, :1] * moved[-1].exp(), self._x[:, 1:]], -1)
        return x, self._scale.natural(self._z + moved[:-1])

    def _rates(self, moved: Tensor) -> Tensor:
        """Rates ``[E]`` there."""
        return self._model.edge_rates(*self._at(moved))[0]

    def _next(self, rates: Iterable[Tensor], pi: Sequence[Tensor]) -> Tensor:
        """The next term ``[1, n]`` of the steady state, from those of the rates and of itself."""
        src, dst = self._model.edges.src, self._model.edges.dst
        flow = torch.zeros(len(src), dtype=torch.float64)
        for q, p in zip(rates, reversed(pi), strict=False):
            flow.addcmul_(q, p[0, src])
        b = torch.zeros(self._model.edges.n, dtype=torch.float64)
        b.index_add_(0, dst, flow).index_add_(0, src, flow, alpha=-1)
        u = self._factor.solve_transposed(b[None])
        return u - u.sum() * self._pi

    def _levels(self, moved: Tensor, pi: Tensor) -> Tensor:
        point = Point(self._model, *self._at(moved)).with_pi(pi)
        return torch.stack([link.level(measure(point))[0] for measure, link in self._pairs])

    def _read(self, line: Tensor, pi: Sequence[Tensor], h: float) -> tuple[Array, Array]:
        """Second and first differences of the levels ``[K]`` over ``2 h``, off the series."""
        powers = torch.from_numpy(np.vander([-h, h], len(pi), increasing=True))
        series = powers @ torch.cat(list(pi))
        below, above = self._levels(-h * line, series[:1]), self._levels(h * line, series[1:])
        even = ((below + above) / 2).numpy() - self.level
        return even / h**2, ((above - below) / (2 * h)).numpy()


def _is_small(term: Array) -> bool:
    return bool((np.abs(term) <= _SETTLED).all())
