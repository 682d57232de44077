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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from stationary.errors import InputError
from stationary.models._params import Param, Values, rate
from stationary.models._point import Point
from stationary.models._rates import in_rows, join_rates
from stationary.models.latency import Gammas, Times, incomplete_gamma
from stationary.models.measures import Measure
from stationary.models.queues._birth_death import BirthDeathQueue
from stationary.models.queues._kernels import FALLING, SMALL, STEPS, TINY
from stationary.models.queues._kernels import deaths as compiled_deaths

_MORE = 60
"""Arrivals during a service beyond the capacity that are counted one by one."""

_DEEPEST = 200
"""Queue lengths above the servers that are computed; beyond, the distribution is geometric."""

_LEAN = 0.05
"""Least skewness of a wait that is cut off by patience."""

_BLOCK = 32
_RAREST = 200.0
"""Minus the logarithm of the smallest probability of no arrival during a service: float64 holds its
products over a queue."""

_LEAST_ARRIVALS = 1e-6
"""Fewest arrivals during a service that the recursion is asked for."""

_AT_ONCE = 4_000_000
"""Entries of the recursions that are solved at once: 32 megabytes."""

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
        given = {
            "overhead": (overhead, -1),
            "contention": (contention, 0),
            "slowing": (slowing, 0),
            "full": (full, 0),
        }
        more = {
            name: Param(value, per_time=per_time)
            for name, (value, per_time) in given.items()
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
    def options(self) -> dict[str, Any]:
        """Constructor arguments; those of optional parameters say that there are these."""
        more = {name: value for name, value in self.estimates.items() if name not in self.params}
        return {**super().options, **more}

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
        load, rate, variability = torch.broadcast_tensors(load, p.service_rate, p.variability)
        slower = self.slowdown(p, self.levels[1:])
        alone = rate * self.serving[1 : self.servers]
        together = 1 / (rate * self.servers)
        if slower is not None:
            alone = alone / slower[..., : self.servers - 1]
            together = together * slower[..., self.servers - 1 :]
        room = self.capacity - self.servers + 1
        stays = self.stays(p)
        top = torch.full_like(load, room)
        if stays is not None:
            top = (stays[..., self.servers - 1 : -1] > TINY).sum(-1, keepdim=True).to(load)
        deaths = _deaths(load, together, variability, top, room)
        return join_rates(self.births(load, p), alone, deaths)

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
            moments = torch.where(waits, mean, small), torch.where(waits, variance, small**2)
            times = Gammas.of_moments(weights, *moments, torch.where(waits, third, 2 * small**3))
            return times if self.patience is None else _UpTo(times, self.patience)
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
class _UpTo(Times):
    """Waits of those that are let in, which the moments alone would let exceed the longest."""

    times: Times
    longest: float

    def survival(self, t: Tensor) -> Tensor:
        return torch.where(t < self.longest, self.times.survival(t), 0.0)

    def density(self, t: Tensor) -> Tensor:
        return torch.where(t < self.longest, self.times.density(t), 0.0)

    def percentile(self, share: float) -> Tensor:
        return self.times.percentile(share).clamp_max(self.longest)

    @property
    def mean(self) -> Tensor:
        return self.times.mean

    @property
    def variance(self) -> Tensor:
        return self.times.variance


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


def _deaths(load: Tensor, turn: Tensor, variability: Tensor, top: Tensor, room: int) -> Tensor:
    """Rates ``[..., room]`` out of 1 to ``room`` requests at one server.

    Parameters
    ----------
    load, variability : Tensor [..., 1]
        As for the model.
    turn : Tensor [..., 1] or [..., room]
        Mean service time, by the number of requests with which a service begins.
    top : Tensor [..., 1]
        Most requests that there can be.
    room : int
        Largest of those for any row.
    """
    deep = min(room, _DEEPEST)
    # Beyond, the system is always full, or always empty, and its rates change no more.
    most = torch.expm1((_RAREST * variability).clamp_max(30.0)) / variability
    longest = turn.amax(-1, keepdim=True)
    load = torch.minimum(load, most / longest).maximum(_LEAST_ARRIVALS / longest)
    batch, rows = in_rows(load, turn, variability, top)
    if not (torch.is_grad_enabled() and any(part.requires_grad for part in rows)):
        out = np.empty((len(rows[0]), room))
        at, turns, c2, most_in = (part.detach().contiguous().numpy() for part in rows)
        compiled_deaths(at[:, 0], turns, c2[:, 0], most_in[:, 0], deep, deep + _MORE, out)
        return torch.from_numpy(out).reshape(*batch, room)
    some = max(_AT_ONCE // (deep + _MORE) // deep, 1)
    solved = map(partial(_recursion, room=room, deep=deep), *(part.split(some) for part in rows))
    return torch.cat(list(solved)).reshape(*batch, room)


def _recursion(
    load: Tensor, turn: Tensor, variability: Tensor, top: Tensor, room: int, deep: int
) -> Tensor:
    """Solve the recursion for rows of loads, services, variabilities and largest numbers."""
    kinds = turn.shape[-1]
    most = deep + _MORE
    # Services that begin in the middle of a long queue end there: nothing of them is asked.
    high = max(deep, min(kinds, int(top.min()) - most))
    asked = torch.cat([turn[..., :deep], turn[..., high:]], -1)
    none, log_at_least, log_more = _arrivals(load * asked, variability[..., None], most)
    log_growth = _growth(load * turn, variability).log()
    # Probabilities of long queues over- and underflow; scaled by how fast they grow they do not.
    scaled = log_growth[..., : deep - 1].expand(-1, deep - 1).cumsum(-1)
    row, column = torch.arange(deep - 1)[:, None], torch.arange(deep - 1)
    kind = column.clamp_max(kinds - 1)
    crossing = log_at_least[..., kind, (row - column + 1).clamp_min(0)]
    crossing = crossing + scaled[..., None, :] - scaled[..., None]
    matrix = -torch.where(row > column, crossing, -torch.inf).exp()
    matrix = matrix + torch.diag_embed(none[..., kind].expand(-1, deep - 1))
    right = (log_at_least[..., 0, 1:deep] - scaled).exp()
    # Every product in this substitution is added: the matrix is negative below its diagonal.
    y = torch.linalg.solve_triangular(matrix, right[..., None], upper=False)[..., 0]
    y = pad(y, (1, 0), value=1.0)
    down = load * y[..., :-1] / y[..., 1:] * (-log_growth[..., : deep - 1]).exp()
    if room > deep:
        ratio = (turn[..., deep - 1 : deep] / turn[..., deep - 1 : -1]) if kinds > 1 else 1.0
        down = torch.cat([down, down[..., -1:] * ratio * torch.ones(room - deep)], -1)
    log_x = pad((load / down).log().cumsum(-1), (1, 0))
    # A service that begins with j requests leaves room for so many more.
    begins = torch.arange(room).clamp_min(1)
    free = (top.long() - begins).clamp_min(0)
    near = (free > 0) & (free < log_more.shape[-1])  # with more room, hardly any is turned away
    near |= (top == 1) & (torch.arange(room) == 0)
    place = (begins - 1).clamp_max(kinds - 1)
    place = torch.where(place < high, place.clamp_max(deep - 1), place - high + deep)
    place = place.clamp_max(log_more.shape[-2] - 1).expand_as(free)
    some = free.clamp_max(log_more.shape[-1] - 1)
    rows = torch.arange(len(load))[:, None]
    turned_away = torch.where(near, log_x + log_more[rows, place, some], -torch.inf)
    last = log_x.gather(-1, top.long() - 1)
    full = load * (last - turned_away.logsumexp(-1, True)).exp()
    down = torch.cat([down, down[..., -1:] if room > 1 else full], -1)
    return torch.where(torch.arange(1, room + 1) == top, full, down)


@torch.no_grad()
def _growth(mean: Tensor, variability: Tensor) -> Tensor:
    """Ratio of successive probabilities of long queues, with so many arrivals during a service.

    The inverse of the root, other than 1, of ``y = G(y)``, with G the generating function of the
    arrivals during a service. Iterating G from below finds the smaller root, which overload has;
    iterating its inverse from above the larger one. It need not be exact.
    """
    spread = mean * variability
    low, high = torch.zeros_like(spread), 1 + 1 / spread
    for _ in range(STEPS):
        low = (1 + spread * (1 - low)) ** (-1 / variability)
        high = 1 + (1 - high ** (-variability)) / spread
    return 1 / torch.where(mean > 1, low, high).clamp(1e-100, 1e100)


def _arrivals(mean: Tensor, variability: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """What arrives during services of several kinds, up to ``most`` requests.

    The probability of none ``[..., I]``, and the logarithms of the probabilities of at least 0, 1,
    ... ``[..., I, most + 1]`` and of the expected number beyond 0, 1, ... ``[..., I, most]``.
    """
    shape, k = 1 / variability, torch.arange(most + 1, dtype=mean.dtype)
    mean = mean[..., None]
    spread = mean * variability
    again = spread / (1 + spread)
    ways = torch.lgamma(shape + k) - torch.lgamma(shape) - torch.lgamma(k + 1)
    exactly = ways - shape * torch.log1p(spread) + k * again.log()
    # Far out, probabilities fall like a geometric series, whose rest is known without subtracting;
    # a rest that is not small is known better by what is left of 1.
    last = exactly[..., -1:]
    ratio = again * (shape + most) / (most + 1)
    small = (last < math.log(SMALL)) & (ratio < FALLING)
    odds = torch.where(small, ratio, 0.5)
    rest = torch.where(
        small,
        last + (odds / (1 - odds)).log(),
        (1 - exactly.exp().sum(-1, keepdim=True)).clamp_min(TINY).log(),
    )
    at_least = _log_sum(_log_tails(exactly), rest)
    beyond = torch.where(
        small,
        rest - (1 - odds).log(),
        (mean - at_least[..., 1:].exp().sum(-1, keepdim=True)).clamp_min(TINY).log(),
    )
    more = _log_sum(_log_tails(at_least[..., 1:]), beyond)
    return exactly[..., 0].exp(), at_least, more


def _log_sum(first: Tensor, second: Tensor) -> Tensor:
    """Logarithm of a sum; second derivatives of `torch.logaddexp` are NaN from e^709 apart."""
    return torch.stack(torch.broadcast_tensors(first, second)).logsumexp(0)


def _log_tails(logs: Tensor) -> Tensor:
    """Logarithms of the sums from each entry to the last, with derivatives of every order.

    Block by block from the end, each in units of its largest entry: over all entries the sums span
    more than float64 holds.
    """
    parts, carried = [], torch.full_like(logs[..., :1], -torch.inf)
    for block in reversed(logs.split(_BLOCK, -1)):
        unit = torch.maximum(block.amax(-1, keepdim=True), carried).detach()
        sums = (block - unit).exp().flip(-1).cumsum(-1).flip(-1) + (carried - unit).exp()
        parts.append(sums.clamp_min(TINY).log() + unit)
        carried = parts[-1][..., :1]
    return torch.cat(parts[::-1], -1)
