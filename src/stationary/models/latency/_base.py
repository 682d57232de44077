r"""The interface of a distribution of times, and its percentiles.

A percentile is the root t of ``F(t) = q``. Its derivatives follow from the implicit function
theorem, ``dt = -dF / f(t)``, so that no step of the root search is differentiated: one Newton step
from the root, which leaves it where it is, has them.
"""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from stationary.errors import InputError
from stationary.models._rates import in_rows

_STEPS = 100
_CLOSE = 1e-5
"""Relative step at which a root is close: one more step, with derivatives, squares its error."""

_VARIES = 0.1
"""By which share of itself a delay varies, both ways."""

_NARROW = 1e-5
"""Delays within this share of the mean time count as one: a difference between functions at their
ends would lose its digits."""


@dataclass(frozen=True, eq=False)
class Times(ABC):
    """A distribution of non-negative times for every row of a batch ``[...]``.

    A subclass is a frozen dataclass whose fields are tensors ``[..., k]`` with batches that
    broadcast. Everything is differentiable in them.

    Examples
    --------
    Exponential times, complete:

    >>> from dataclasses import dataclass
    >>> import torch
    >>> @dataclass(frozen=True, eq=False)
    ... class Exponential(Times):
    ...     rate: torch.Tensor
    ...     def survival(self, t):
    ...         return (-self.rate * t).exp()
    ...     def density(self, t):
    ...         return self.rate * self.survival(t)
    ...     def excess(self, t):
    ...         return self.survival(t) / self.rate
    ...     @property
    ...     def mean(self):
    ...         return 1 / self.rate[..., 0]
    ...     @property
    ...     def variance(self):
    ...         return self.mean**2
    >>> times = Exponential(torch.tensor([[1.0], [2.0]], dtype=torch.float64))
    >>> times.percentile(0.5)
    tensor([0.6931, 0.3466], dtype=torch.float64)
    """

    @abstractmethod
    def survival(self, t: Tensor) -> Tensor:
        """Probability ``[..., T]`` of a time longer than each of ``t [..., T]``, zero or more."""

    @abstractmethod
    def density(self, t: Tensor) -> Tensor:
        """Density ``[..., T]`` at positive times."""

    def excess(self, t: Tensor) -> Tensor:
        """Mean ``[..., T]`` of how much longer than ``t [..., T]`` a time is, zero if it is not.

        Only times to which an overhead may be added need it.
        """
        del t
        raise InputError(f"{type(self).__name__} must define excess(t) to have an overhead added")

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """Mean time, ``[...]``."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """Variance of the time, ``[...]``."""

    def cdf(self, t: Tensor) -> Tensor:
        """Probability ``[..., T]`` of a time of at most ``t [..., T]``."""
        return 1 - self.survival(t)

    def percentile(self, share: float) -> Tensor:
        """The time ``[...]`` that a share of all requests does not exceed."""
        # On a copy: what a distribution keeps from here would have no derivatives later.
        plain = self.detach()
        t = plain._root(share)
        if not torch.is_grad_enabled():
            return t[..., 0]
        density = plain.density(t)
        # Where more than the share takes no time at all, the percentile stays zero.
        per_excess = torch.where((t > 0) & (density > 0), 1 / density, 0.0)
        return (t - (1 - share - self.survival(t)) * per_excess)[..., 0]

    def detach(self) -> Self:
        """Return the same distributions outside the graph."""
        return type(self)(*(part.detach() for part in self._fields()))

    def _fields(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)]

    def _root(self, share: float) -> Tensor:
        """Solve ``F(t) = share`` by Newton steps inside a bracket, for rows not done."""
        batch, rows_of = in_rows(*self._fields())
        times = type(self)(*rows_of)
        normal = statistics.NormalDist().inv_cdf(share)
        t = (times.mean + normal * times.variance.sqrt()).maximum(share * times.mean)[:, None]
        low, high = torch.zeros_like(t), torch.full_like(t, torch.inf)
        found, rows = low.clone(), torch.arange(len(t))
        left = times.survival(low)[:, 0] > 1 - share  # for others, no time at all is enough
        for _ in range(_STEPS):
            if not bool(left.any()):
                break
            if not bool(left.all()):
                times = type(times)(*(part[left] for part in times._fields()))
                rows, t, low, high = rows[left], t[left], low[left], high[left]
            excess = 1 - share - times.survival(t)
            low, high = torch.where(excess < 0, t, low), torch.where(excess < 0, high, t)
            newton = t - excess / times.density(t)
            # A step out of the bracket halves it, or doubles t where there is no upper end yet.
            halved = torch.where(high.isinf(), 2 * t, (low + high) / 2)
            new = torch.where((newton > low) & (newton < high), newton, halved)
            left = ((new - t).abs() > _CLOSE * t)[:, 0]
            found[rows], t = new, new
        return found.reshape(*batch, 1)


_Function = Callable[["Shifted", Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Shifted(Times):
    """Times with a delay on top, such as an overhead outside the queue, that varies a little.

    The delay is uniformly distributed within a tenth of its mean, the shift. A delay that never
    varies would make the likelihood of latency buckets jump where it crosses an edge.
    """

    times: Times
    shift: Tensor

    @cached_property
    def _ends(self) -> tuple[Tensor, Tensor]:
        return self.shift * (1 - _VARIES), self.shift * (1 + _VARIES)

    @cached_property
    def _mean(self) -> Tensor:
        return self.times.mean[..., None]

    def _mean_over_delays(self, of: _Function, slope: _Function, t: Tensor) -> Tensor:
        """Mean over the delays of a function's slope: its difference between their ends."""
        least, most = self._ends
        narrow = most - least <= _NARROW * self._mean
        if bool(narrow.all()):
            return slope(self, t - self.shift)
        if not bool(narrow.any()):
            return self._over_wide(of, t)
        # Row by row, because both ways cost far more than finding out which one a row needs.
        batch, (t, narrow, shift, *fields) = in_rows(t, narrow, self.shift, *self.times._fields())
        which = narrow[:, 0]
        flat, wide = (
            Shifted(type(self.times)(*(part[rows] for part in fields)), shift[rows])
            for rows in (which, ~which)
        )
        found = torch.cat([slope(flat, t[which] - flat.shift), wide._over_wide(of, t[~which])])
        back = torch.cat([which.nonzero(), (~which).nonzero()])[:, 0].argsort()
        return found[back].reshape(*batch, -1)

    def _over_wide(self, of: _Function, t: Tensor) -> Tensor:
        least, most = self._ends
        late, early = of(self, torch.cat([t - most, t - least], -1)).chunk(2, -1)
        return (late - early) / (most - least)

    def _tail(self, t: Tensor) -> Tensor:
        return torch.where(t > 0, self.times.survival(t.clamp_min(0.0)), 1.0)

    def survival(self, t: Tensor) -> Tensor:
        """Mean of the tail over all delays."""
        mean = self._mean_over_delays(Shifted._excess, Shifted._tail, t)
        return torch.where(t > self._ends[0], mean, 1.0)

    def _slope(self, t: Tensor) -> Tensor:
        return torch.where(t > 0, self.times.density(t.clamp_min(0.0)), 0.0)

    def _excess(self, t: Tensor) -> Tensor:
        """Mean excess of the times without delay, also over times below zero."""
        inside = self.times.excess(t.clamp_min(0.0))
        return torch.where(t > 0, inside, self._mean - t)

    def density(self, t: Tensor) -> Tensor:
        """Mean of the density over all delays."""
        mean = self._mean_over_delays(Shifted._tail, Shifted._slope, t)
        return torch.where(t > self._ends[0], mean, 0.0)

    @property
    def mean(self) -> Tensor:
        """Mean time, ``[...]``."""
        return self.times.mean + self.shift[..., 0]

    @property
    def variance(self) -> Tensor:
        """Variance of the time, ``[...]``."""
        return self.times.variance + (_VARIES * self.shift[..., 0]) ** 2 / 3

    def _root(self, share: float) -> Tensor:
        """From that of the times without delay, which is close, by Newton steps."""
        times = self.times._root(share)
        low, high = (times + end for end in self._ends)
        t = times + self.shift
        for _ in range(_STEPS):
            step = (1 - share - self.survival(t)) / self.density(t)
            new = torch.where(step.isfinite(), t - step, t).clamp(low, high)
            done = (step.abs() <= _CLOSE * t) | (new == t)
            t = new
            if bool(done.all()):
                break
        return t
