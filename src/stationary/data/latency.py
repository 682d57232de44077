r"""Latency histograms: how many answered requests had a response time in each bucket.

With S the tail of the model's response times, a request is in the bucket from ``a`` to ``b`` with
probability ``S(a) - S(b)``. That likelihood is exact for the model, whatever the width of the
buckets; no time is rounded or divided into a queue length. Requests without an answer are not in
the histogram. Where longer times than the last edge were not counted, probabilities are those of
requests that are answered before it.

Response times contain the time outside the queue, its *overhead*. It is a parameter where the model
was made with one, as in ``MMmK(overhead=0.001)``; without it the service rate is biased. One
request in a thousand may have taken any time. Otherwise the fastest request alone would decide how
long the overhead is, and times that are impossible in a model would leave only rounding to fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.data._base import Counts
from stationary.data.numbers import as_table
from stationary.errors import InputError
from stationary.models import Model, Point
from stationary.terms.spans import parse_span
from stationary.words import seconds

_PATTERN = "rt_{}"
_MORE = ("more", "inf", "+inf")

_IMPOSSIBLE = 3.0
"""How many times the capacity a mean number of requests must be for the unit to be wrong."""

_STRAY = 1e-3  # share of the requests that may have taken any time, whatever the model says
_ENOUGH = 4  # buckets from which counts that never fall are taken as cumulative


class Latencies(Counts):
    """Counts of response times by bucket.

    Parameters
    ----------
    data : array_like [M, B]
        Requests in each bucket, in every window: those up to the first edge, those from there to
        the second, and so on. One column more than there are edges counts those beyond the last.
    edges : sequence of float
        Upper edges of the buckets, increasing, in the unit of time of the loads.

    Examples
    --------
    >>> seen = Latencies([[60, 30, 8, 2], [40, 35, 18, 7]], edges=[0.01, 0.02, 0.04])
    >>> seen.columns
    ('rt_10ms', 'rt_20ms', 'rt_40ms', 'rt_more')
    >>> import stationary as st
    >>> windows = st.Windows(x=[20.0, 40.0], observations=[seen])
    >>> round(st.fit(st.models.MMmK(capacity=9), windows).estimates["service_rate"])
    109
    """

    kind = "latencies"
    rank = 2
    edges: tuple[float, ...]
    open: bool
    """Whether times beyond the last edge were counted, too."""

    def __init__(self, data: Any, edges: Sequence[float]) -> None:
        self.__dict__["edges"] = _increasing(edges)
        counts = as_table(data, "latency").numpy()
        width = counts.shape[-1] if counts.ndim else 0
        if width not in (len(self.edges), len(self.edges) + 1):
            raise InputError(
                f"a latency histogram has one column per edge, and perhaps one more for longer "
                f"times; got {len(self.edges)} edges and {width} columns"
            )
        self.__dict__["open"] = width > len(self.edges)
        super().__init__(counts)
        rises = (self.data.diff() >= 0).all() & (self.data[:, 0] < self.data[:, -1]).all()
        if width >= _ENOUGH and bool(rises):
            raise InputError(
                "latency counts never fall from one bucket to the next in any window, as "
                "cumulative counts do (Prometheus' le buckets): give the count of each bucket "
                "alone, as np.diff(counts, prepend=0) makes them"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names as in files: ``rt_10ms`` counts times up to 10 ms and above the edge before."""
        return bucket_names((*self.edges, math.inf) if self.open else self.edges)

    @property
    def labels(self) -> tuple[str, ...]:
        """What each bucket holds: ``up to 10 ms``, ``10 ms to 20 ms``, ..., ``over 1 s``."""
        ends = [seconds(edge) for edge in self.edges]
        between = (f"{a} to {b}" for a, b in pairwise(ends))
        return (f"up to {ends[0]}", *between, *([f"over {ends[-1]}"] if self.open else []))

    def percentile(self, share: float) -> Array:
        """Return the time ``[M]`` that so large a share of the requests stays below.

        Inside its bucket it is interpolated; NaN where it lies beyond the last edge.

        Examples
        --------
        >>> Latencies([[50, 50, 0], [10, 0, 90]], edges=[0.01, 0.03]).percentile(0.75)
        array([0.02,  nan])
        """
        counts = self.data.numpy()
        places = np.cumsum(counts, -1) / counts.sum(-1, keepdims=True)
        ends = np.array([*self.edges, np.nan])[: counts.shape[1]]
        begins = np.array([0.0, *self.edges])[: counts.shape[1]]
        which = (places < share - 1e-12).sum(-1, keepdims=True).clip(max=counts.shape[1] - 1)
        high = np.take_along_axis(places, which, -1)
        low = high - np.take_along_axis(counts, which, -1) / counts.sum(-1, keepdims=True)
        inside = (share - low) / np.where(high > low, high - low, np.nan)
        return np.asarray((begins[which] + inside * (ends - begins)[which])[:, 0])

    @classmethod
    def find_columns(cls, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of a histogram, ``rt_0.1ms`` and so on, in order of their edges."""
        found = {name: edge for name in names if (edge := _edge(name)) is not None}
        return tuple(sorted(found, key=found.__getitem__)) if len(found) > 1 else ()

    @classmethod
    def from_columns(cls, columns: Mapping[str, Array], metadata: Mapping[str, str]) -> Self:
        """Return the histograms in columns of a file."""
        del metadata
        edges = [edge for edge in map(_edge, columns) if edge is not None]
        return cls(np.stack(list(columns.values()), -1), edges)

    def explained_by(self, model: Model) -> bool:
        """Whether a model knows its response times."""
        try:
            self.on(model)
        except InputError:
            return False
        return True

    def on(self, model: Model) -> Self:
        """Return these latencies of a model that knows its response times."""
        if not hasattr(model, "response_times"):
            raise InputError(
                f"the windows hold response times, of which {type(model).__name__} says nothing: "
                f"fit counts of states (observations=['states']), or take a queue model"
            )
        model.measure("p99")  # which says why not, if it does not know them
        return self

    def start(self, point: Point) -> Tensor:
        """Start below the shortest time; raise where times plainly contradict the loads."""
        counts, total = self.data, self.size.clamp_min(1.0)
        begins = counts.new_tensor([0.0, *self.edges])[: counts.shape[1]]
        inside = (counts @ begins) / total * point.load[..., 0]
        room = float(getattr(point.model, "levels", counts.new_tensor([math.inf])).max())
        if bool(inside.median() > _IMPOSSIBLE * room):
            raise InputError(
                f"response times of {float((counts @ begins / total).median()):g} at a load of "
                f"{float(point.load.median()):g} mean {float(inside.median()):.0f} requests in the "
                f"system, which has room for {room:.0f}: are the edges ({self.edges[0]:g} to "
                f"{self.edges[-1]:g}) in the unit of time of the loads, seconds for loads per "
                f"second?"
            )
        if "overhead" not in vars(point.p):
            return point.theta
        ends = counts.new_tensor([*self.edges, math.inf])[: counts.shape[1]]
        shortest = float(ends[counts.sum(0) > 0].min())
        # A fit that starts above a time that was seen has nowhere to go.
        place = point.model.param_names.index("overhead")
        start = point.theta.clone()
        start[place] = start[place].clamp_max(shortest / 2)
        return start

    def probabilities(self, point: Point) -> Tensor:
        """Differences of the tail between the edges, ``[..., M, B]``."""
        return self._between(point, self.edges)

    def log_terms(self, point: Point) -> Tensor:
        """Logarithms of the probabilities; neighbours that are empty in all windows share theirs.

        Buckets without a count do not enter the likelihood, so a fit need not tell them apart.
        """
        empty = (self.data.sum(0) == 0).numpy()
        run = np.cumsum(np.append(True, ~(empty[1:] & empty[:-1]))) - 1
        ends = np.flatnonzero(np.diff(run))  # the last bucket of each run of them but the last
        edges = [self.edges[k] for k in ends] + ([] if self.open else [self.edges[-1]])
        if not edges:
            return super().log_terms(point)
        each = (1 - _STRAY) * self._between(point, edges) + _STRAY / (run[-1] + 1)
        return (each / torch.from_numpy(np.bincount(run))).log()[..., run]

    def _between(self, point: Point, edges: Sequence[float]) -> Tensor:
        tail = point.response_times.survival(point.x.new_tensor(edges))
        before = torch.nn.functional.pad(tail[..., :-1], (1, 0), value=1.0)
        inside = (before - tail).clamp_min(0.0)  # rounding may leave less than nothing
        if self.open:
            return torch.cat([inside, tail[..., -1:].clamp_min(0.0)], -1)
        return inside / inside.sum(-1, keepdim=True)

    def facts(self) -> dict[str, Any]:
        """Edges, and whether longer times were counted."""
        return {"edges": list(self.edges)}


def bucket_names(edges: Sequence[float]) -> tuple[str, ...]:
    """Return the names of the columns in files, from the upper ends of buckets in seconds.

    Examples
    --------
    >>> bucket_names([0.01, 0.02, float("inf")])
    ('rt_10ms', 'rt_20ms', 'rt_more')
    """
    ends = ("more" if edge == math.inf else f"{1e3 * edge:.9g}ms" for edge in edges)
    return tuple(map(_PATTERN.format, ends))


def _increasing(edges: Sequence[float]) -> tuple[float, ...]:
    try:
        found = tuple(map(float, edges))
    except (TypeError, ValueError):
        raise InputError(f"edges must be numbers, the ends of buckets; got {edges!r:.80}") from None
    if found and found[-1] == math.inf:
        found = found[:-1]
    wrong = [b for a, b in zip((0.0, *found), found, strict=False) if not a < b < math.inf]
    if wrong or not found:
        raise InputError(
            f"edges of latency buckets must be positive and increasing; got "
            f"{', '.join(f'{edge:g}' for edge in found[:12]) or 'none'}"
        )
    return found


def as_buckets(names: Sequence[str], pattern: str | None) -> dict[str, str]:
    """Return columns of a file by the names that ours have, where a user says theirs.

    ``pattern`` has ``{}`` in place of the edge; where it is given, other names are no buckets.
    """
    if pattern is None:
        return {name: name for name in names}
    before, place, after = pattern.partition("{}")
    if not place:
        raise InputError(
            f"latency: the pattern {pattern!r} needs one {{}} where the edge stands: 'rt_{{}}'"
        )
    parts = {
        name: re.fullmatch(f"{re.escape(before)}(.*){re.escape(after)}", name) for name in names
    }
    ours = {_PATTERN.format(part[1]): name for name, part in parts.items() if part}
    found = {bucket: name for bucket, name in ours.items() if _edge(bucket) is not None}
    if not found:
        raise InputError(
            f"no column matches latency={pattern!r} with a time in place of {{}}, as in "
            f"{_PATTERN.format('0.1ms')}; the columns are: {', '.join(names[:30])}"
        )
    others = (name for name in names if _edge(name) is None and name not in found.values())
    return found | {name: name for name in others}


def _edge(name: str) -> float | None:
    """Return the upper edge that a column's name says; None where it is no bucket."""
    before, _, text = name.partition(_PATTERN.format(""))
    if before:
        return None
    if text.lower() in _MORE:
        return math.inf
    try:
        return parse_span(text.lower(), name)
    except InputError:
        return None
