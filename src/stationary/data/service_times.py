r"""Service times of requests: how long a server worked on each, added up per window.

The requests of a log, in order of arrival ``A_i`` with departures ``D_i``, show their service times
where ``m`` servers take them first come, first served: the i-th begins at ``B_i = max(A_i,
D_(i-m))``, with ``D_(j)`` the j-th departure in order of time, and takes ``S_i = D_i - B_i``. Those
that found an idle server also spent the *overhead* of the way there and back, which the queue does
not see; those that waited did not.

Kept are, for each window, for those that found an idle server and those that waited, and for each
number of requests in the system when the service began (the *level*), the number of services, their
sum and the sum of their squares. With mean ``u`` and variance ``v`` from the model, the likelihood
is that of normal distributions,

    log L = - n/2 log v - (squares - 2 u sum + n u^2) / (2 v),

whose maximum has the observed mean and variance whatever the distribution is. Arrivals do not enter
it, so that bunched ones cannot bias it. Standard errors come from the scatter of the windows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.data._base import Misplaced, Observation
from stationary.errors import InputError
from stationary.models import Model, Point

SUMS = ("n", "sum", "sq")
"""Columns of each cell: number, sum and sum of squares."""

OVERTAKING = 0.01
"""Share of negative service times, of requests that waited, that no service in order has."""

_HARDLY = 0.05  # error of a mean service time that model error allows for
_STEEP = 0.1  # share of a service by which an overhead may hardly exceed the shortest time
_SHARING = re.compile(r"sharing(\d*)")  # of one server, where files say no number
_COLUMN = re.compile(r"S(\d+)\.(idle|wait)(\d+)\.(n|sum|sq)")


class Cell(NamedTuple):
    """Services that are added up together.

    Attributes
    ----------
    servers : int
        Servers for which the times were read off the requests.
    idle : bool
        Whether the request found an idle server.
    level : int
        Requests in the system when its service began, itself included.
    """

    servers: int
    idle: bool
    level: int

    def __str__(self) -> str:
        return f"S{self.servers}.{'idle' if self.idle else 'wait'}{self.level}"


class ServiceTimes(Observation):
    """Numbers, sums and sums of squares of service times, by what a request found.

    A log does not say how many servers there are, so a table may hold the times for several numbers
    of servers; a model reads those for its own.

    Parameters
    ----------
    data : array_like [M, 3 C]
        For each cell the number of services, the sum of their times, and that of their squares.
    cells : sequence of Cell
        What each three columns add up.
    shortest : float
        A time that hardly any request that found an idle server was faster than: the overhead
        cannot be longer. Infinite where that is not known.
    sharing : mapping of int to float
        Share of the requests that waited whose service times are negative, by number of servers;
        by default none. Above 0.01 requests overtake each other more than such servers allow.

    Examples
    --------
    Two windows of a server; 30 and 20 requests found it idle, 10 and 30 waited:

    >>> import stationary as st
    >>> cells = [Cell(1, idle=True, level=1), Cell(1, idle=False, level=1)]
    >>> seen = ServiceTimes([[30, 3.3, 0.7, 10, 1.0, 0.2], [20, 2.2, 0.5, 30, 3.0, 0.6]], cells)
    >>> seen.columns[:3]
    ('S1.idle1.n', 'S1.idle1.sum', 'S1.idle1.sq')
    >>> windows = st.Windows(x=[4.0, 5.0], observations=[seen])
    >>> round(1 / st.fit(st.models.MMmK(capacity=20), windows).estimates["service_rate"], 2)
    0.11
    """

    kind = "service times"
    rank = 3
    cells: tuple[Cell, ...]
    shortest: float
    sharing: Mapping[int, float]
    read_for: int
    """Servers of the model that this is an observation of."""

    def __init__(
        self,
        data: Any,
        cells: Sequence[tuple[int, bool, int]],
        shortest: float = math.inf,
        sharing: Mapping[int, float] | None = None,
    ) -> None:
        super().__init__(data)
        cells = tuple(Cell(int(m), bool(idle), int(level)) for m, idle, level in cells)
        shares = {int(m): float(share) for m, share in (sharing or {}).items()}
        self.__dict__.update(cells=cells, shortest=float(shortest), sharing=shares)
        if not cells or self.data.ndim != 2 or self.data.shape[1] != len(SUMS) * len(cells):
            raise InputError(
                f"service times have {len(SUMS)} columns for each of the {len(cells)} cells "
                f"({', '.join(map(str, cells[:8]))}); got data of shape {tuple(self.data.shape)}"
            )
        # Where requests overtake each other, or for too few servers, times come out negative.
        sign = torch.tensor([False, True, False]).repeat(len(cells))
        bad = (~self.data.isfinite() | ((self.data < 0) & ~sign)).nonzero()
        if len(bad):
            row, column = bad[0].tolist()
            raise InputError(
                f"window {row}, {self.columns[column]}: numbers of service times and sums of their "
                f"squares must be zero or more; got {float(self.data[row, column]):g}"
            )

    @classmethod
    def find_columns(cls, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that hold service times, such as ``S4.wait7.sum``."""
        return tuple(name for name in names if _COLUMN.fullmatch(name))

    @classmethod
    def from_columns(cls, columns: Mapping[str, Array], metadata: Mapping[str, str]) -> Self:
        """Return the service times in columns of a file."""
        found = [match for match in map(_COLUMN.fullmatch, columns) if match]
        cells = sorted(
            {Cell(int(m[1]), m[2] == "idle", int(m[3])) for m in found},
            key=lambda cell: (cell.servers, not cell.idle, cell.level),
        )
        wanted = [f"{cell}.{of}" for cell in cells for of in SUMS]
        for name in wanted:
            if name not in columns:
                raise InputError(
                    f"service times need the columns {', '.join(f'*.{of}' for of in SUMS)} of "
                    f"each kind; there is no column {name!r}"
                )
        shares = {name: match[1] for name in metadata if (match := _SHARING.fullmatch(name))}
        return cls(
            np.stack([columns[name] for name in wanted], -1),
            cells,
            float(metadata.get("shortest", math.inf)),
            {int(m or 1): float(metadata[name]) for name, m in shares.items()},
        )

    def metadata(self) -> dict[str, str]:
        """Return what holds for all windows."""
        shares = {f"sharing{m}": repr(share) for m, share in self.sharing.items()}
        return {"shortest": repr(self.shortest), **shares}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names as in files: ``S4.wait7.sum`` is the sum for four servers, at level 7."""
        return tuple(f"{cell}.{of}" for cell in self.cells for of in SUMS)

    @property
    def labels(self) -> tuple[str, ...]:
        """What was added up."""
        return ("service times",)

    @property
    def servers(self) -> tuple[int, ...]:
        """Numbers of servers for which there are service times."""
        return tuple(dict.fromkeys(cell.servers for cell in self.cells))

    @property
    def size(self) -> Tensor:
        """Number of services in each window, ``[M]``."""
        servers = self.__dict__.get("read_for", self.servers[0])
        return self.of(servers).data[:, :: len(SUMS)].sum(-1)

    def of(self, servers: int) -> ServiceTimes:
        """Return the service times for one number of servers alone."""
        kept = [k for k, cell in enumerate(self.cells) if cell.servers == servers]
        data = self.data.unflatten(-1, (-1, len(SUMS)))[:, kept].flatten(-2)
        return ServiceTimes(data, [self.cells[k] for k in kept], self.shortest, self.sharing)

    @property
    def sums(self) -> Tensor:
        """Numbers, sums and sums of squares, ``[M, C, 3]``."""
        return self.data.unflatten(-1, (-1, len(SUMS)))

    @property
    def idle(self) -> Tensor:
        """1 for cells of requests that found an idle server, otherwise 0, ``[C]``."""
        return torch.tensor([float(cell.idle) for cell in self.cells], dtype=torch.float64)

    @property
    def levels(self) -> Tensor:
        """Requests in the system when the services of a cell began, ``[C]``."""
        return torch.tensor([float(cell.level) for cell in self.cells], dtype=torch.float64)

    def explained_by(self, model: Model) -> bool:
        """Whether a model has service times, and there are some for its number of servers.

        Those of one server mean nothing where requests overtake each other, as they do where it
        works on several at a time.
        """
        known = hasattr(model, "service_times") and model.servers in self.servers
        return known and not (model.servers == 1 and self.overtake(1))

    def overtake(self, servers: int) -> bool:
        """Whether requests overtake each other more than so many servers in order allow."""
        return self.sharing.get(servers, 0.0) > OVERTAKING

    def on(self, model: Model) -> Self:
        """Return these service times, to be read for the servers of a model."""
        if not hasattr(model, "service_times"):
            raise InputError(
                f"the windows hold service times, of which {type(model).__name__} says nothing: "
                f"fit counts of states (observations=['states']), or take the model Service"
            )
        if model.servers not in self.servers:
            raise InputError(
                f"the windows hold service times for {', '.join(map(str, self.servers))} servers, "
                f"and {type(model).__name__} has {model.servers}: ingest the requests again with "
                f"--servers {model.servers}, or fit counts of states (observations=['states'])"
            )
        mapped = self.with_data(self.data)
        mapped.__dict__["read_for"] = model.servers
        return mapped

    def _moments(self, point: Point) -> tuple[Tensor, Tensor]:
        """Mean and variance ``[..., C]`` of the times in each cell."""
        mean, variance = point.model.service_times(point, self.levels)
        if "overhead" in vars(point.p):
            mean = mean + point.p.overhead * self.idle
        return mean, variance

    def log_terms(self, point: Point) -> Tensor:
        """What numbers, sums and sums of squares are multiplied by, ``[..., M, 3 C]``."""
        mean, variance = self._moments(point)
        none = -(variance.log() + mean**2 / variance) / 2
        if "overhead" in vars(point.p):  # as good as impossible where requests were faster
            longer = (point.p.overhead - self.shortest).clamp_min(0.0)
            none = none - self.idle * (longer / (_STEEP * mean)) ** 2
        terms = torch.stack([none, mean / variance, -1 / (2 * variance)], -1)
        read = torch.tensor([cell.servers == self.read_for for cell in self.cells])
        terms = torch.where(read[:, None], terms, 0.0).flatten(-2)
        return terms.expand(*point.x.shape[:-1], -1)

    def misplaced(self, terms: Array, roots: Array, recorded: int) -> Misplaced:
        """By which share the mean service time is off, and the standard error of that."""
        terms = terms.reshape(len(terms), -1, len(SUMS))
        read = terms[..., 2] < 0  # terms of other numbers of servers are zero
        mean = np.where(read, -terms[..., 1] / np.where(read, 2 * terms[..., 2], 1.0), 0.0)
        number, seconds = (self.sums[..., k].numpy() * read for k in (0, 1))
        expected = (number * mean).sum()
        off = (seconds.sum() - expected) / expected
        # How much a window adds is linear in its data, so its square is one of `roots`.
        weight = np.stack([-(1 + off) * mean, 1.0 * read, 0.0 * mean], -1).reshape(
            len(terms), 1, -1
        )
        each = (roots * weight).sum(-1) / expected
        error = np.sqrt((each**2).sum() * recorded / max(recorded - 1, 1))
        share = float(abs(off))
        return Misplaced(share, float(error), by_chance=share <= max(2 * error, _HARDLY))

    def draw(self, point: Point, random: np.random.Generator) -> Self:
        """Gamma distributed times, as many as were observed."""
        number = self.sums[..., 0]
        with torch.no_grad():
            moments = self._moments(point)
            mean, variance = (part.expand(number.shape).numpy() for part in moments)
        sums = np.zeros((*number.shape, len(SUMS)))
        for place in zip(*np.nonzero(number.numpy()), strict=True):
            count = int(number[place])
            u, v = mean[place], variance[place]
            times = random.gamma(u**2 / v, v / u, count)
            sums[place] = count, times.sum(), (times**2).sum()
        return self.with_data(torch.from_numpy(sums).flatten(-2))

    def facts(self) -> dict[str, Any]:
        """Cells, and what holds for all windows."""
        known = {} if self.shortest == math.inf else {"shortest": self.shortest}
        return {"cells": [list(cell) for cell in self.cells], "sharing": self.sharing, **known}
