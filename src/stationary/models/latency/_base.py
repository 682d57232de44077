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
from typing import Self

import torch
from torch import Tensor

from stationary.errors import InputError

_STEPS = 100
_CLOSE = 1e-5
"""Relative step at which a root is close: one more step, with derivatives, squares its error."""

_VARIES = 0.1
"""By which share of itself a delay varies, both ways."""

_NARROW = 5e-6
"""By which share of the mean time a delay varies at least."""


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
        """Mean ``[..., T]`` of how much longer than ``t [..., T]`` a time is, zero if it is not."""
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
        return type(self)(*(getattr(self, field.name).detach() for field in fields(self)))

    def _near(self, share: float) -> Tensor:
        """Where the search for a percentile starts: at that of a normal distribution."""
        normal = statistics.NormalDist().inv_cdf(share)
        return (self.mean + normal * self.variance.sqrt()).maximum(share * self.mean)[..., None]

    def _root(self, share: float) -> Tensor:
        """Solve ``F(t) = share`` by Newton steps inside a bracket."""
        t = self._near(share)
        low, high = torch.zeros_like(t), torch.full_like(t, torch.inf)
        left = self.survival(low) > 1 - share  # for others, no time at all is enough
        t = torch.where(left, t, 0.0)
        for _ in range(_STEPS):
            if not bool(left.any()):
                break
            excess = 1 - share - self.survival(t)
            low, high = torch.where(excess < 0, t, low), torch.where(excess < 0, high, t)
            newton = t - excess / self.density(t)
            # A step out of the bracket halves it, or doubles t where there is no upper end yet.
            halved = torch.where(high.isinf(), 2 * t, (low + high) / 2)
            new = torch.where((newton > low) & (newton < high), newton, halved)
            t, left = torch.where(left, new, t), left & ((new - t).abs() > _CLOSE * t)
        return t


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
        """Least and largest delay, so far apart that differences between them keep digits.

        At all loads the same, if the delay is: then tails are the same, too, and computed once.
        """
        mean, shift = torch.broadcast_tensors(self.times.mean[..., None].detach(), self.shift)
        mean = mean.sum_to_size(self.shift.shape) * (self.shift.numel() / shift.numel())
        away = (_VARIES * self.shift).maximum(_NARROW * mean)
        return self.shift - away, self.shift + away

    def _mean_slope(self, of: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
        """Mean over the delays of minus a function's slope: its difference between their ends."""
        least, most = self._ends
        late, early = of(torch.cat([t - most, t - least], -1)).chunk(2, -1)
        return (late - early) / (most - least)

    def _tail(self, t: Tensor) -> Tensor:
        return torch.where(t > 0, self.times.survival(t.clamp_min(0.0)), 1.0)

    def _excess(self, t: Tensor) -> Tensor:
        """Mean excess of the times without delay, also over times below zero."""
        inside = self.times.excess(t.clamp_min(0.0))
        return torch.where(t > 0, inside, self.times.mean[..., None] - t)

    def survival(self, t: Tensor) -> Tensor:
        """Mean of the tail over all delays."""
        return torch.where(t > self._ends[0], self._mean_slope(self._excess, t), 1.0)

    def density(self, t: Tensor) -> Tensor:
        """Mean of the density over all delays."""
        return torch.where(t > self._ends[0], self._mean_slope(self._tail, t), 0.0)

    @property
    def mean(self) -> Tensor:
        """Mean time, ``[...]``."""
        return self.times.mean + self.shift[..., 0]

    @property
    def variance(self) -> Tensor:
        """Variance of the time, ``[...]``."""
        return self.times.variance + (_VARIES * self.shift[..., 0]) ** 2 / 3

    def _near(self, share: float) -> Tensor:
        return self.times._root(share) + self.shift
