r"""A queue whose service varies as much as it likes: from clockwork to erratic.

Service times are gamma distributed, with mean ``1 / service_rate`` and squared coefficient of
variation ``variability``: 0 is deterministic, 1 exponential, more is erratic. During one service of
mean t a negative-binomial number of requests arrives, with shape ``1 / variability`` and mean
``load t``. With ``x_j`` the probability that a request leaves j others behind, the flow across the
cut between j and j + 1 balances,

    x_{j+1} a_0  =  x_0 T_{j+1} + sum_{i=1..j} x_i T_{j-i+2},

where ``a_k`` is the probability of k arrivals during a service and ``T_k`` that of k or more. All
terms are positive. The share that is lost is ``B / (1 + B)``, with B the expected number of
requests that are turned away per service.

Queue lengths of this M/G/1/K queue have the distribution of a birth-death chain: as many requests
arrive at n as leave n + 1, so the rate out of n + 1 is ``load p_n / p_{n+1}``. That chain is the
model, exact for its steady state, with gradients through the recursion. Several servers work as one
of their joint speed while all of them are busy, and each by itself below; that is exact for
exponential service, and within 1.4 % in the limit of the load where it was simulated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from stationary.models._params import Param, Values, rate
from stationary.models._point import Point
from stationary.models._rates import join_rates
from stationary.models.latency import first_come_first_served
from stationary.models.queues._birth_death import BirthDeathQueue

_MORE = 60
"""Arrivals during a service beyond the capacity that are counted one by one."""

_DEEPEST = 200
"""Queue lengths above the servers that are computed; beyond, the distribution is geometric."""

_FALLING = 0.95
"""Ratio of successive probabilities below which their rest is a geometric series."""

_SMALL = 1e-9
"""Probability below which what is left of 1 has too few digits."""

_SPREAD = 0.7
"""Standard deviation of the logarithm of the variability before any data is seen."""


class Service(BirthDeathQueue):
    """Service of any variability: gamma distributed, from deterministic to erratic.

    Parameters
    ----------
    servers, capacity : int
        As for `MMmK`.
    service_rate : float
        Requests that one busy server finishes per unit time.
    variability : float
        Squared coefficient of variation of service times: 1 for M/M/m/K.
    """

    params = {"service_rate": rate(), "variability": Param(1.0)}
    encompassing = True

    def rates(self, load: Tensor, p: Values) -> Tensor:
        """Births at the load; deaths as the embedded chain of the queue has them."""
        load, rate, variability = torch.broadcast_tensors(load, p.service_rate, p.variability)
        alone = rate * self.serving[1 : self.servers]
        together = _deaths(load, self.servers * rate, variability, self.capacity - self.servers + 1)
        return join_rates(self.births(load, p), torch.cat([alone, together], -1))

    def sojourn(self, point: Point) -> tuple[Tensor, Tensor, Tensor]:
        """Response times of accepted requests, by what they find."""
        return first_come_first_served(point, point.p.service_rate, point.p.variability)

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures that a forecast shows by default: percentiles, too."""
        return (*super().measures[:1], "p50", "p95", "p99", *super().measures[1:])

    def penalty(self, theta: Tensor) -> Tensor:
        """Services are seldom much steadier or more erratic than exponential ones."""
        return (theta[..., 1].log() / _SPREAD) ** 2 / 2


def _deaths(load: Tensor, rate: Tensor, variability: Tensor, room: int) -> Tensor:
    """Rates ``[..., room]`` out of 1 to ``room`` requests at one server of this rate."""
    deep = min(room, _DEEPEST)
    none, at_least, more = _arrivals(load / rate, variability, deep + _MORE)
    left = [torch.ones_like(none)]
    for j in range(deep - 1):
        crossing = at_least[..., j + 1]
        if j:
            others = torch.stack(left[1:], -1)
            crossing = crossing + (others * at_least[..., 2 : j + 2].flip(-1)).sum(-1)
        left.append(crossing / none)
    x = torch.stack(left, -1)
    down = load * x[..., :-1] / x[..., 1:]
    if room > deep:
        down = torch.cat([down, down[..., -1:].expand(*down.shape[:-1], room - deep)], -1)
        x = _continued(x, room)
    x = x / x.sum(-1, keepdim=True)
    # A service that begins with j requests leaves room for so many more.
    free = room - torch.arange(room).clamp_min(1)
    near = free < more.shape[-1]  # with more room than that, hardly anything is turned away
    turned_away = (x[..., near] * more[..., free[near]]).sum(-1, keepdim=True)
    # Where a full system is too rare for float64, any rate out of it will do.
    full = torch.where(x[..., -1:] > 0, load * x[..., -1:] / turned_away, down[..., -1:])
    return torch.cat([down, full], -1)


def _continued(x: Tensor, room: int) -> Tensor:
    """Probabilities ``[..., room]`` that go on as a geometric series."""
    ratio = x[..., -1:] / x[..., -2:-1]
    steps = torch.arange(1, room - x.shape[-1] + 1, dtype=x.dtype)
    return torch.cat([x, x[..., -1:] * ratio**steps], -1)


def _arrivals(mean: Tensor, variability: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """What arrives during a service, up to ``most`` requests.

    The probability of none ``[...]``, those of at least 0, 1, ... ``[..., most + 1]``, and the
    expected number beyond 0, 1, ... ``[..., most]``.
    """
    shape, k = 1 / variability, torch.arange(most + 1, dtype=mean.dtype)
    spread = mean * variability
    again = spread / (1 + spread)
    exactly = (
        torch.lgamma(shape + k)
        - torch.lgamma(shape)
        - torch.lgamma(k + 1)
        - shape * torch.log1p(spread)
        + k * again.log()
    ).exp()
    # Far out, probabilities fall like a geometric series, whose rest is known without subtracting;
    # a rest that is not small is known better by what is left of 1.
    ratio = again * (shape + most) / (most + 1)
    small = (exactly[..., -1:] < _SMALL) & (ratio < _FALLING)
    rest = torch.where(
        small,
        exactly[..., -1:] * ratio / (1 - ratio).clamp_min(1 - _FALLING),
        (1 - exactly.sum(-1, keepdim=True)).clamp_min(0.0),
    )
    at_least = exactly.flip(-1).cumsum(-1).flip(-1) + rest
    beyond = torch.where(
        small,
        rest / (1 - ratio).clamp_min(1 - _FALLING),
        (mean - at_least[..., 1:].sum(-1, keepdim=True)).clamp_min(0.0),
    )
    return exactly[..., 0], at_least, at_least[..., 1:].flip(-1).cumsum(-1).flip(-1) + beyond
