r"""A queue whose service varies as much as it likes: from clockwork to erratic.

Service times are gamma distributed, with mean ``1 / service_rate`` and squared coefficient of
variation ``variability``: 0 is deterministic, 1 exponential, more is erratic. During one service of
mean t a negative-binomial number of requests arrives, with shape ``1 / variability`` and mean
``load t``. With ``x_j`` the probability that a request leaves j others behind, the flow across the
cut between j and j + 1 balances,

    x_{j+1} a_{j+1,0}  =  x_0 T_{1,j+1} + sum_{i=1..j} x_i T_{i,j-i+2},

where ``a_{i,k}`` is the probability of k arrivals during a service that begins with i requests and
``T_{i,k}`` that of k or more. All terms are positive, so that rare states keep their digits. The
share that is lost is ``B / (1 + B)``, with B the expected number of requests that are turned away
per service.

Queue lengths of this M/G/1/K queue have the distribution of a birth-death chain: as many requests
arrive at n as leave n + 1, so the rate out of n + 1 is ``load p_n / p_{n+1}``. That chain is the
model, exact for its steady state, with gradients through the recursion. Several servers work as one
of their joint speed while all of them are busy, and each by itself below; that is exact for
exponential service, and within 1.4 % in the limit of the load where it was simulated.

Service may take longer where more requests are in the system: by the factor ``min(n, servers) **
contention``, for servers that share something, and by ``1 + slowing (n - 1)``, for one that is
slowed down by its queue. A service keeps the speed at which it began.

A request that would wait longer than its *patience* is given up: it is lost, and takes no server's
time. Waits up to there are as likely, one against the other, as in a queue without end (exactly so
for any service with one server), so that with ``x_n`` from the recursion and ``W_n`` the wait of a
request that finds n, ``x_n P(W_n <= patience)`` says what those that are let in find. What is let
in is what is served, which tells the loss. With exponential service both are exact; in simulations
of other service losses of 1 % and more were within 11 %, and mean times within 10 %. The states of
the chain end where a mean wait reaches the patience; capacity must be about four times that, or
else it cuts waits off in heavy overload.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from stationary.errors import InputError
from stationary.models._params import Param, Values, rate
from stationary.models._point import Point
from stationary.models._rates import in_rows, join_rates
from stationary.models.latency import Gammas, Times, incomplete_gamma
from stationary.models.measures import Measure
from stationary.models.queues._birth_death import BirthDeathQueue
from stationary.models.queues._complex_steps import by_complex_steps
from stationary.models.queues._kernels import TINY
from stationary.models.queues._kernels import deaths as compiled_deaths

_LEAN = 0.05
"""Least skewness of a wait that is cut off by patience."""

_SLOWEST = 50.0
"""Requests in the queue from which on more of them do not slow service down further: no recording
reached such queues, and one of two thousand would seem to stop its server."""

_SPREAD = 0.7
"""Standard deviation of the logarithm of the variability before any data is seen."""

_OVERHEAD = 0.04, 0.03
"""Overhead before any data is seen, as a share of the time that a request without a wait takes:
mean and standard deviation. It matters only where few requests waited."""


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
    overhead : float, optional
        Time that every request spends outside the queue. Where it is given, it is a parameter of
        the model; observations of times determine it.
    contention : float, optional
        Servers get in each other's way: service with n requests in the system takes ``min(n,
        servers) ** contention`` times as long. A parameter where it is given.
    slowing : float, optional
        The queue slows service down: by the factor ``1 + slowing * (n - 1)``, up to 50 requests. A
        parameter where it is given.
    full : float, optional
        Most requests that are let in, where that is less than the capacity and differs between
        draws. A parameter where it is given, which data at light load do not determine.
    patience : float, optional
        Longest time that a request waits before it is lost; infinite by default.
    """

    params = {"service_rate": rate(), "variability": Param(1.0)}
    encompassing = True
    can_share = False
    slowed = False
    patience: float | None

    def __init__(
        self,
        servers: int = 1,
        capacity: int = 20,
        *,
        overhead: float | None = None,
        contention: float | None = None,
        slowing: float | None = None,
        full: float | None = None,
        patience: float | None = None,
        **values: Any,
    ) -> None:
        if patience is not None and not patience > 0:
            raise InputError(f"patience must be a positive time; got {patience!r}")
        optional = {
            "overhead": overhead,
            "contention": contention,
            "slowing": slowing,
            "full": full,
        }
        more = {
            name: Param(value, per_time=-1 if name == "overhead" else 0)
            for name, value in optional.items()
            if value is not None
        }
        self.patience = None if patience == math.inf else patience
        # Where every level has a service time of its own, so has every sum over arrivals.
        self.seconds_per_state = 1e-7 if slowing is None else 1.5e-6
        super().__init__(servers, capacity, params={**self.params, **more}, **values)
        least = min(self.capacity, math.inf if full is None else full)
        if least < self.servers:
            raise InputError(
                f"capacity counts the requests in service, too: it must be at least the number of "
                f"servers, {self.servers}; got {least:g}"
            )

    @property
    def changeable(self) -> dict[str, int | float]:
        """Numbers of the system; the patience among them, where requests wait for ever, too."""
        waits = math.inf if self.patience is None else self.patience
        return {**super().changeable, "patience": waits}

    def with_parameter(self, name: str, value: float) -> Service:
        """Return the same model with one more of its optional parameters, behind the others."""
        arguments: dict[str, Any] = {**self._given, **self.estimates, name: value}
        return type(self)(**arguments)

    def slowdown(self, p: Values, levels: Tensor) -> Tensor | None:
        """How many times as long service takes that begins at these levels; None for never."""
        named, factor = vars(p), None
        if "contention" in named:
            factor = levels.clamp(1, self.servers) ** p.contention
        if "slowing" in named:
            queue = 1 + p.slowing * (levels - 1).clamp(0.0, _SLOWEST)
            factor = queue if factor is None else factor * queue
        return factor

    def service_times(self, point: Point, levels: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance ``[..., L]`` of service times that begin at these levels."""
        factor = self.slowdown(point.p, levels)
        mean = (torch.ones_like(levels) if factor is None else factor) / point.p.service_rate
        return mean, point.p.variability * mean**2

    def rates(self, load: Tensor, p: Values) -> Tensor:
        """Births at the load; deaths as the embedded chain of the queue has them."""
        slower, stays = self.slowdown(p, self.levels[1 : self.servers]), self.stays(p)
        alone = p.service_rate * self.serving[1 : self.servers]
        top = load.new_full((1,), self.capacity - self.servers + 1)
        if stays is not None:
            top = (stays[..., self.servers - 1 : -1] > TINY).sum(-1, keepdim=True).to(load)
        named = tuple(name for name in ("contention", "slowing") if name in vars(p))
        # Derivatives need numbers away from zero.
        more = (1 + vars(p)[name] for name in named)
        batch, (top, *rows) = in_rows(top, load, p.service_rate, p.variability, *more)
        deaths = by_complex_steps(partial(self._together, top, named), *rows)
        return join_rates(
            self.births(load, p),
            alone if slower is None else alone / slower,
            deaths.reshape(*batch, -1),
        )

    def _together(
        self,
        top: Tensor,
        named: Sequence[str],
        load: Tensor,
        rate: Tensor,
        c2: Tensor,
        *more: Tensor,
    ) -> Tensor:
        """Rates ``[R, room]`` out of m, m + 1, ... requests, with room for ``top [R, 1]``."""
        factors = {name: factor - 1 for name, factor in zip(named, more, strict=True)}
        slower = self.slowdown(Values(**factors), self.levels[self.servers :])
        turn = 1 / (rate * self.servers) * (1.0 if slower is None else slower)
        out = load.new_empty(len(load), self.capacity - self.servers + 1)
        at, variability, most = (part[:, 0].numpy() for part in (load, c2, top))
        compiled_deaths(turn.numpy(), at, variability, most, out.numpy())
        return out

    def births(self, load: Tensor, p: Values) -> Tensor:
        """The load, less those that would wait too long."""
        stays = self.stays(p)
        return super().births(load, p) if stays is None else load * stays[..., :-1]

    def stays(self, p: Values) -> Tensor | None:
        """Probability ``[..., n]`` that a request is let in and waits; None if all are and do."""
        # Whole requests: the rates out of the last states are those of a queue that ends there.
        let_in = None
        if "full" in vars(p):
            let_in = self.levels < p.full.round()
        if self.patience is not None:
            before = self.levels - self.servers
            waits = (before < 0) | (before + 0.5 <= self.patience / self._turn(p))
            let_in = waits if let_in is None else let_in & waits
        return None if let_in is None else let_in.to(self.levels).clamp_min(TINY)

    def measure(self, name: str) -> Measure:
        """Return a measure of the queue; with patience, losses and times are those of the waits."""
        usual = super().measure(name)
        if self.patience is None or name not in ("loss", "response_time"):
            return usual
        if name == "loss":
            return replace(usual, function=self._given_up)
        return replace(usual, function=lambda point: point.response_times.mean)

    def times_in_order(self, point: Point, waiting: bool) -> Times:
        """Wait, and service, of accepted requests.

        Wait and service together are taken as shifted gamma distributed, with the first three
        moments of their sum, and the rest of the service that goes on as it is at any time: exact
        for one exponential server. What is left in truth depends on how many are found, most of
        all in a small system and in heavy overload; `docs/models.md` has the errors.
        """
        weights, (mean, variance, third) = self._accepted(point)
        if waiting:
            # What takes no time has no spread: any small one will do.
            small = (1e-6 / point.p.service_rate) * torch.ones_like(mean)
            waits = self.levels[:-1] >= self.servers
            mean, variance = torch.where(waits, mean, small), torch.where(waits, variance, small**2)
            third = torch.where(waits, third, 2 * small**3)
            if self.patience is None:
                return Gammas.of_moments(weights, mean, variance, third)
            longest = mean.new_tensor(self.patience)
            return _UpTo.of_moments(weights, mean, variance, third, longest)
        slower = self.slowdown(point.p, self.levels[:-1] + 1)
        own = (1.0 if slower is None else slower) / point.p.service_rate
        c2 = point.p.variability
        return Gammas.of_moments(
            weights, mean + own, variance + c2 * own**2, third + 2 * c2**2 * own**3
        )

    def _accepted(self, point: Point) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """What accepted requests find ``[..., K]``, and three central moments of their waits."""
        moments = tuple(part[..., :-1] for part in self._waits(point.p))
        if self.patience is not None:
            moments = _truncated(moments[0], moments[1], self.patience)
            weights = self._found(point)[1].softmax(-1)
        else:
            stays = self.stays(point.p)
            weights = point.pi[..., :-1] if stays is None else (point.pi * stays)[..., :-1]
        return weights / weights.sum(-1, keepdim=True), moments  # type: ignore[return-value]

    def _found(self, point: Point) -> tuple[Tensor, Tensor]:
        """Logarithms ``[..., K]`` of how often a level is found, and found with a short wait.

        Up to a factor. The wait of those that are let in is that of a queue without end, up to the
        patience: levels that the chain leaves out count as far as their waits may still be short.
        """
        assert self.patience is not None  # noqa: S101 - checked by the callers
        levels, stays = self.levels[:-1], self.stays(point.p)
        assert stays is not None  # noqa: S101
        log_pi = point.pi.clamp_min(TINY).log()
        last = (stays > TINY).sum(-1, keepdim=True).clamp_min(2) - 1
        last = last.expand(*log_pi.shape[:-1], 1)
        end = log_pi.gather(-1, last)
        beyond = end + (levels - last) * (end - log_pi.gather(-1, last - 1))
        found = torch.where(levels <= last, log_pi[..., :-1], beyond)
        mean, variance, _ = (part[..., :-1] for part in self._waits(point.p))
        short = incomplete_gamma(mean**2 / variance, self.patience * mean / variance)
        short = torch.where(levels < self.servers, 1.0, short.clamp_min(TINY))
        if "full" in vars(point.p):
            short = torch.where(levels < point.p.full.round(), short, TINY)
        return found, found + short.log()

    def _given_up(self, point: Point) -> Tensor:
        """Share of requests that would wait too long: what is served tells how many are let in."""
        found, accepted = self._found(point)
        unit = accepted.amax(-1, keepdim=True)
        busy = self.levels >= self.servers
        speed = 1 / self._turn(point.p)
        weights = point.pi * busy
        full = ((weights * speed).sum(-1) / weights.sum(-1).clamp_min(TINY))[..., None]
        share = self.serving / self.servers
        idle = ((full - share * speed)[..., :-1] * ~busy[:-1] * (found - unit).exp()).sum(-1)
        let_in = (accepted - unit).exp().sum(-1)
        full = full[..., 0]
        return 1 - full * let_in / (point.load[..., 0] * let_in + idle)

    def start(self, x: Tensor) -> Tensor:
        """Service that just keeps up with the mean load."""
        start = super().start(x)
        if "overhead" in self.declared():
            start[self.param_names.index("overhead")] = _OVERHEAD[0] / start[0]
        return start

    def penalty(self, theta: Tensor) -> Tensor:
        """What is known before any data is seen.

        Services are seldom much steadier or more erratic than exponential ones, and the overhead is
        a small part of the time that a request without a wait takes.
        """
        p = self.named(theta)
        penalty = (theta[..., 1].log() / _SPREAD) ** 2 / 2
        if "overhead" in vars(p):
            share = p.overhead / (p.overhead + 1 / p.service_rate)
            penalty = penalty + ((share[..., 0] - _OVERHEAD[0]) / _OVERHEAD[1]) ** 2 / 2
        return penalty

    def _turn(self, p: Values) -> Tensor:
        """Mean time ``[..., n]`` between services that end while all servers are busy."""
        slower = self.slowdown(p, self.levels)
        turn = 1 / (p.service_rate * self.servers)
        return turn * torch.ones_like(self.levels) if slower is None else turn * slower

    def _waits(self, p: Values) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance and third central moment ``[..., n]`` of the wait at each level found.

        A request that finds all servers busy waits for what is left of one service, and then for
        one full service after the other, at the speed of all servers.
        """
        turn, c2 = self._turn(p), p.variability
        waits = self.levels >= self.servers
        before = (self.levels - self.servers).clamp_min(0.0)
        # Moments of what is left of a gamma service: E S^(k+1) / ((k + 1) E S).
        first, second = (1 + c2) / 2, (1 + c2) * (1 + 2 * c2) / 3
        cubes = (1 + c2) * (1 + 2 * c2) * (1 + 3 * c2) / 4
        left = second - first**2, cubes - 3 * first * second + 2 * first**3
        mean = waits * turn * (first + before)
        variance = waits * turn**2 * (left[0] + before * c2)
        third = waits * turn**3 * (left[1] + before * 2 * c2**2)
        # A wait of zero has no distribution: any scale will do.
        return mean.clamp_min(TINY), variance.clamp_min(TINY**2), third


@dataclass(frozen=True, eq=False)
class _UpTo(Gammas):
    """Waits of those that are let in, which the moments alone would let exceed the longest."""

    longest: Tensor

    def survival(self, t: Tensor) -> Tensor:
        return torch.where(t < self.longest, super().survival(t), 0.0)

    def density(self, t: Tensor) -> Tensor:
        return torch.where(t < self.longest, super().density(t), 0.0)

    def percentile(self, share: float) -> Tensor:
        return super().percentile(share).minimum(self.longest)


def _truncated(mean: Tensor, variance: Tensor, longest: float) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and third central moment of gamma distributed times up to the longest."""
    shape, scale = mean**2 / variance, variance / mean
    all_ = incomplete_gamma(shape, longest / scale).clamp_min(TINY)
    rising = torch.ones_like(shape)
    raw = []
    for k in range(3):
        rising = rising * (shape + k) * scale
        raw.append(rising * incomplete_gamma(shape + k + 1, longest / scale) / all_)
    first, second, cubes = raw
    spread = (second - first**2).clamp_min(TINY)
    # Cut off sharply, the distribution may lean the other way, which no gamma does.
    return first, spread, (cubes - 3 * first * second + 2 * first**3).clamp_min(_LEAN * spread**1.5)
