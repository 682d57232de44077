r"""Windows: inputs and what was observed at them.

A window ``w`` has inputs ``x_w`` (the load first), one or more observations, such as counts of the
states the system was seen in, and a duration.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from stationary._support.arguments import explained
from stationary.data._base import Counts, Observation, as_observations
from stationary.data.columns import Columns
from stationary.data.latency import Latencies
from stationary.data.losses import ObservationMap
from stationary.data.moments import Moments, Pool
from stationary.data.numbers import (
    as_durations,
    as_range,
    as_table,
    drop_or_refuse,
    find_bad,
    input_names,
)
from stationary.data.rows import Rows, name_rows, no_load
from stationary.data.states import Sampling, States
from stationary.data.tables import FrameTable
from stationary.data.writers import write_windows
from stationary.errors import InputError
from stationary.models import Model
from stationary.terms.categories import Category, Observed, members

if TYPE_CHECKING:
    import pandas as pd

K = TypeVar("K", bound=Observation)

_UNEQUAL = 30.0
"""Ratio of the amounts of data in two windows that no difference of their loads explains."""


@explained
class Windows:
    """What was observed in every window, with the window's inputs. Immutable.

    Parameters
    ----------
    x : array_like [M, d] or [M]
        Inputs of each window, finite; the first column is the load.
    counts : array_like [M, C], optional
        How often each category of states was seen in each window: whole numbers, zero or more.
    observe : sequence, optional
        What each column of ``counts`` counts: a state (its name or its number), or a sequence of
        states, any of which counts.
    sampling : Sampling or str
        ``"time"`` for samples at times that do not depend on the system, ``"arrival"`` for the
        states that arriving requests found.
    inputs : sequence of str
        Names of the columns of ``x``.
    drop_empty : bool
        Leave out windows in which nothing was observed, with a `DataWarning`; otherwise they are an
        error, since they say nothing about the chain.
    duration : float or sequence [M], optional
        Length of every window, in the unit of time of the loads. It tells how much the counts are
        worth, since samples close together in time find nearly the same state.
    observations : sequence of Observation, optional
        Other kinds of observations of the same windows.
    moments : Moments, optional
        What is left of single windows where each row adds up several, see `pooled`.
    aside : sequence of Observation, optional
        Observations of the same windows that a fit does not use, see `informing`.
    latency : array_like [M, B], optional
        A histogram of response times in each window, see `Latencies`.
    edges : sequence of float, optional
        Upper edges of its buckets.

    Examples
    --------
    Two windows at loads 11 and 12; one column counts idle, the other one to three requests:

    >>> windows = Windows(x=[11, 12], counts=[[30, 25], [28, 31]], observe=[0, (1, 2, 3)])
    >>> windows
    Windows(2 windows, load 11..12, categories 0, 1..3, 114 counts, sampling=time)
    """

    x: Tensor
    observations: tuple[Observation, ...]
    aside: tuple[Observation, ...]
    inputs: tuple[str, ...]
    duration: Tensor | None
    moments: Moments | None
    chosen: bool
    """Whether `using` said which observations a fit uses; `informing` then keeps them."""
    weights: Tensor | None
    """How much each window counts in a fit, ``[M]``, see `weighed`; None where all count fully."""

    def __init__(
        self,
        x: Any,
        counts: Any = None,
        observe: Iterable[Category] | None = None,
        sampling: Sampling | str = Sampling.TIME,
        inputs: Sequence[str] = ("load",),
        drop_empty: bool = False,
        duration: Any = None,
        observations: Iterable[Observation] = (),
        moments: Moments | None = None,
        aside: Sequence[Observation] = (),
        latency: Any = None,
        edges: Sequence[float] | None = None,
    ) -> None:
        if (counts is None) != (observe is None):
            raise InputError("counts= and observe= go together: what was counted, and of what")
        if (latency is None) != (edges is None):
            raise InputError("latency= and edges= go together: a histogram and its buckets' ends")
        given: list[Observation] = [] if observe is None else [States(counts, observe, sampling)]
        given += [] if edges is None else [Latencies(latency, edges)]
        kinds = as_observations(observations, given)
        x, names = as_table(x, "x"), input_names(inputs)
        x = x[:, None] if x.ndim == 1 else x
        rows = len(kinds[0].data)
        if not x.numel() and not rows:
            raise InputError("there are no windows: x and counts are empty")
        if x.shape != (rows, len(names)):
            raise InputError(
                f"x must have a row for each of the {rows} windows and a column for each input "
                f"({', '.join(names)}); got shape {tuple(x.shape)}: inputs= names the columns"
            )
        bad = find_bad(x.numpy(), inputs=len(names))
        if bad:
            row, column, problem = bad
            raise InputError(f"window {row}, input {names[column]!r}: {problem}")
        durations = None if duration is None else as_durations(duration, len(x))
        self.__dict__.update(
            x=x,
            observations=kinds,
            aside=as_observations(aside, kinds)[len(kinds) :] if aside else (),
            inputs=names,
            duration=durations,
            moments=moments,
            chosen=False,
            weights=None,
        )
        # What was set aside also shows that something was seen, such as requests that all got lost.
        seen = self._recorded_size + sum((kind.size for kind in self.aside), torch.zeros(()))
        empty = (seen == 0).nonzero()[:, 0].tolist()
        if empty:
            why = f"no counts in the observed categories {', '.join(self._columns)}"
            if len(empty) == len(x):
                raise InputError(f"every window has {why}")
            where = name_rows("window", empty, len(empty))
            drop_or_refuse(where, why, drop_empty, stacklevel=3)
            self.__dict__.update(self.select(seen > 0).__dict__)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        x: str | Sequence[str] = "load",
        counts: Columns = "Q={}",
        observe: Iterable[Category] | None = None,
        sampling: Sampling | str = Sampling.TIME,
        drop_empty: bool = False,
        duration: Any = None,
        latency: str | None = None,
    ) -> Windows:
        """Return the windows in a DataFrame, one row per window; see `read_windows`.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"load": [11, 12], "n0": [30, 28], "n1": [25, 31]})
        >>> Windows.from_frame(frame, counts=["n0", "n1"])
        Windows(2 windows, load 11..12, categories 0, 1, 114 counts, sampling=time)
        """
        rows = Rows(FrameTable(frame), x, counts, observe, None, drop_empty, latency)
        lengths = {} if duration is None else {"duration": duration}
        return cls(**rows.windows() | lengths, sampling=sampling)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Windows are immutable; make new ones instead of setting {name!r}")

    def __len__(self) -> int:
        return len(self.x)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Windows):
            return NotImplemented
        mine, theirs = (
            [None if each is None else each.tolist() for each in (w.duration, w.weights)]
            for w in (self, other)
        )
        return (
            self.inputs == other.inputs
            and mine == theirs
            and self.moments == other.moments
            and torch.equal(self.x, other.x)
            and self.observations == other.observations
            and self.aside == other.aside
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_frame().to_html(max_rows=10, max_cols=12)}"

    def __repr__(self) -> str:
        low, high = self.loads.min(), self.loads.max()
        rows = f"pooled into {len(self)}, " if self.is_pooled else ""
        parts = [f"{self.recorded} windows, {rows}{self.inputs[0]} {low:g}..{high:g}"]
        for kind in self.observations:
            parts.append(f"categories {kind.shown}, {kind.size.sum():.0f} counts")
            if isinstance(kind, States):
                parts.append(f"sampling={kind.sampling}")
        if self.duration is not None:
            ends = dict.fromkeys(f"{end:g}" for end in self.duration.aminmax())
            parts.append(f"duration={'..'.join(ends)}")
        return f"Windows({', '.join(parts)})"

    @property
    def loads(self) -> Tensor:
        """The first input of every window, ``[M]``."""
        return self.x[:, 0]

    @cached_property
    def data(self) -> Tensor:
        """Columns of all observations side by side, ``[M, S]``, as a fit weighs them."""
        found = torch.cat([kind.data for kind in self.observations], -1)
        return found if self.weights is None else self.weights[:, None] * found

    @cached_property
    def size(self) -> Tensor:
        """How much each window holds, ``[M]``: its counts, of all observations, as weighed."""
        return self._recorded_size if self.weights is None else self.weights * self._recorded_size

    @property
    def _recorded_size(self) -> Tensor:
        return torch.stack([kind.size for kind in self.observations]).sum(0)

    @property
    def every(self) -> tuple[Observation, ...]:
        """All observations, those that a fit does not use last."""
        return (*self.observations, *self.aside)

    def find(self, kind: type[K]) -> K | None:
        """Return the first observation of a kind, whether a fit uses it or not."""
        return next((each for each in self.every if isinstance(each, kind)), None)

    @property
    def _columns(self) -> list[str]:
        return [name for kind in self.observations for name in kind.columns]

    @property
    def counted(self) -> Counts | None:
        """The counts that checks read: of states, else of another kind; None without counts."""
        kinds = (kind for kind in self.every if isinstance(kind, Counts))
        return max(kinds, key=lambda kind: (isinstance(kind, States), kind.rank), default=None)

    @property
    def longest_queue(self) -> int | None:
        """Most requests that were counted in the system; None where nobody counted them."""
        if not isinstance(self.counted, States):
            return None
        seen = zip(self.counted.observe, self.counted.data.any(0).tolist(), strict=True)
        found = (members(category)[-1] for category, was_seen in seen if was_seen)
        return max((state for state in found if isinstance(state, int)), default=None)

    @property
    def states(self) -> States:
        """The counts of states; an error if there are none."""
        if isinstance(self.counted, States):
            return self.counted
        raise InputError(f"these windows have no counts of states, only {', '.join(self._columns)}")

    @property
    def has_states(self) -> bool:
        """Whether all observations are counts of states."""
        return all(isinstance(kind, States) for kind in self.observations)

    @property
    def by_arrivals(self) -> bool:
        """Whether states were sampled by arriving requests."""
        return isinstance(self.counted, States) and self.sampling is Sampling.ARRIVAL

    @property
    def counts(self) -> Tensor:
        """Counts of states, ``[M, C]``."""
        return self.states.data

    @property
    def observe(self) -> tuple[Observed, ...]:
        """What each column of the counts of states counts."""
        return self.states.observe

    @property
    def labels(self) -> tuple[str, ...]:
        """One readable label per category of states: ``0``, ``overload``, ``1+3``, ``1..20``."""
        return self.states.labels

    @property
    def sampling(self) -> Sampling:
        """When the state was sampled."""
        return self.states.sampling

    @property
    def is_pooled(self) -> bool:
        """Whether rows stand for several recorded windows."""
        return self.moments is not None

    @property
    def multiplicity(self) -> Tensor:
        """Recorded windows that each row stands for, ``[M]``: one, unless they were pooled."""
        return torch.ones_like(self.loads) if self.moments is None else self.moments.multiplicity

    @property
    def lengths(self) -> Tensor:
        """How long each recorded window of a row was, ``[M]``, up to a factor.

        Where that is not known, they count as equally long unless their amounts of data differ by
        more than loads do.
        """
        if self.duration is not None:
            return self.duration
        each = self._recorded_size / self.multiplicity
        return each if each.max() > _UNEQUAL * each.min() else torch.ones_like(each)

    @property
    def recorded(self) -> int:
        """Number of recorded windows."""
        return int(self.multiplicity.sum())

    @property
    def roots(self) -> Tensor:
        """``[M, K, S]``: K rows of data whose outer products add up to those of the windows.

        The data themselves, with K = 1, unless windows were pooled. Sums of squares over recorded
        windows are sums over these rows.
        """
        return self.data[:, None] if self.moments is None else self.moments.roots

    def check_single(self, what: str) -> None:
        """Raise where windows were pooled, because then single ones and their order are lost."""
        if self.is_pooled:
            raise InputError(
                f"{what} needs the single windows in their order, and these {self.recorded} were "
                f"pooled into {len(self)} as they were read: read them without pooled=True "
                f"(--pool), or a part of them, as with loads= (--loads)"
            )

    def select(self, which: Any) -> Windows:
        """Windows where a mask of length M is true, or at the given positions."""
        index = np.arange(len(self))[which] if isinstance(which, slice) else np.asarray(which)
        try:
            rows = np.arange(len(self))[index.astype(index.dtype if index.size else int)]
            if rows.ndim != 1:
                raise IndexError
        except IndexError:
            raise InputError(
                f"select takes a mask with one entry per window, or a list of positions in "
                f"0..{len(self) - 1}; got {which!r}"
            ) from None
        if not len(rows):
            raise InputError(f"the selection leaves no window of {len(self)}; got {which!r:.80}")
        return self._changed(
            x=self.x[rows],
            observations=[kind.with_data(kind.data[rows]) for kind in self.observations],
            aside=[kind.with_data(kind.data[rows]) for kind in self.aside],
            duration=None if self.duration is None else self.duration[rows],
            moments=None if self.moments is None else self.moments.select(rows),
            weights=None if self.weights is None else self.weights[rows],
        )

    def weighed(self, weights: Any) -> Windows:
        """Windows that count more or less in a fit, such as odd ones that shall hardly move it.

        Parameters
        ----------
        weights : array_like [M]
            What a count in each window is worth, positive; 1 is a full count.
        """
        self.check_single("a weight")
        found = as_table(weights, "weights")
        if found.shape != (len(self),) or not bool(((found > 0) & (found < torch.inf)).all()):
            raise InputError(
                f"weights must be a positive number for each of the {len(self)} windows; got "
                f"{weights!r:.80}"
            )
        return self._changed(weights=found)

    def between(self, low: float | None = None, high: float | None = None) -> Windows:
        """Windows whose load lies in ``[low, high]``; None leaves an end open."""
        least, most = as_range((low, high))
        inside = (self.loads >= least) & (self.loads <= most)
        if not bool(inside.any()):
            lightest, heaviest = self.loads.aminmax()
            raise InputError(no_load(self.inputs[0], least, most, float(lightest), float(heaviest)))
        return self.select(inside)

    def observing(self, categories: Iterable[Category], drop_empty: bool = True) -> Windows:
        """Keep these categories of states only, in this order; by states or by label.

        Windows in which nothing is left to be seen are skipped with a `DataWarning`, or refused.
        """
        # Which of the pooled windows have counts in the kept categories is lost.
        self.check_single("a choice of categories")
        chosen = self.states.observing(categories)
        kinds, aside = (
            [chosen if isinstance(kind, States) else kind for kind in group]
            for group in (self.observations, self.aside)
        )
        return self._changed(observations=kinds, aside=aside, drop_empty=drop_empty, weights=None)

    def informing(self, models: Iterable[Model]) -> Windows:
        """Windows with the observation that tells most about these models; the others aside.

        States, latencies and service times of the same requests depend on one another. Multiplying
        their likelihoods would count the same data several times, and gains nothing: the service
        times alone determine a server better than all of them together. Losses are used beside
        latencies, which are those of served requests. Kinds of a user's own are always used.

        What `using` chose stays as it is.
        """
        if self.chosen:
            return self
        models = list(models)
        usable = [kind for kind in self.every if all(map(kind.explained_by, models))]
        best = max((kind.rank for kind in usable), default=0)
        chosen = {kind.kind for kind in usable if kind.rank == best}
        used = [k for k in usable if k.rank in (0, best) or not chosen.isdisjoint(k.beside)]
        return self._keeping(used) if used else self

    def using(self, kinds: Iterable[Observation | str]) -> Windows:
        """Windows of which a fit uses these observations, each by name or itself; others aside.

        Several of them make a composite likelihood, whose standard errors come from the scatter of
        the windows. `fit`, `compare` and `plan` keep to this choice.
        """
        made = self._keeping(kinds)
        return made if made.chosen else made._changed(chosen=True)

    def _keeping(self, kinds: Iterable[Observation | str]) -> Windows:
        every, chosen = self.every, [kinds] if isinstance(kinds, str) else list(kinds)
        names = {kind.kind for kind in every}
        for kind in chosen:
            if isinstance(kind, str) and kind not in names:
                raise InputError(
                    f"these windows have no {kind!r}; they have {', '.join(sorted(names))}"
                )
        used = [kind for kind in every if any(kind is c or kind.kind == c for c in chosen)]
        aside = [kind for kind in every if not any(kind is other for other in used)]
        if not used:
            raise InputError(f"name at least one of {', '.join(sorted(names))}")
        if [id(kind) for kind in used] == [id(kind) for kind in self.observations]:
            return self
        if self.moments is None:
            return self._changed(observations=used, aside=aside)
        if not all(any(kind is other for other in self.observations) for kind in used):
            self.check_single("a choice of observations that were set aside")
        widths = [kind.data.shape[1] for kind in self.observations]
        places = torch.arange(sum(widths)).split(widths)
        own = zip(self.observations, places, strict=True)
        kept = torch.cat([place for kind, place in own if any(kind is c for c in used)])
        moments = Moments(self.moments.multiplicity, self.moments.squares[:, kept][:, :, kept])
        return self._changed(observations=used, aside=aside, moments=moments)

    def observation(self, model: Model) -> ObservationMap:
        """Which category covers each state of a model."""
        return self.states.on(model).map

    def pooled(self) -> Windows:
        """Windows of equal inputs added up, sorted by input: the same fit, fewer rows.

        What a sandwich covariance needs to know of the single ones is kept.
        """
        if self.is_pooled:
            return self
        pool = Pool(self.x.shape[1], self.data.shape[1])
        pool.add(self.x.numpy(), self.data.numpy())
        x, sums, moments = pool.sums()
        parts = torch.from_numpy(sums).split([kind.data.shape[1] for kind in self.observations], -1)
        kinds = [k.with_data(part) for k, part in zip(self.observations, parts, strict=True)]
        _, group = torch.unique(self.x, dim=0, return_inverse=True)
        mean = self.duration
        if mean is not None:
            same = len(mean.unique()) == 1  # a mean of equal lengths would be off by rounding
            mean = mean[0] if same else torch.bincount(group, mean) / moments.multiplicity
        aside = []
        for kind in self.aside:
            nothing = kind.data.new_zeros(len(x), kind.data.shape[1])
            aside.append(kind.with_data(nothing.index_add(0, group, kind.data)))
        return self._changed(
            x=x, observations=kinds, aside=aside, duration=mean, moments=moments, weights=None
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame: one column per input, then those of the observations."""
        import pandas as pd  # here, because a fit does without it

        parts = [pd.DataFrame(self.x.numpy(), columns=list(self.inputs))]
        for kind in self.every:
            whole = bool((kind.data == kind.data.round()).all())
            values = kind.data.to(torch.int64) if whole else kind.data
            parts.append(pd.DataFrame(values.numpy(), columns=list(kind.columns)))
        return pd.concat(parts, axis=1)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write columns ``load``, ``Q=0``, ...; ``read_windows(path)`` reads them back.

        A first line says how the counts were sampled, and how long a window was. The file appears
        whole or not at all.
        """
        write_windows(self, Path(path))

    def _changed(self, chosen: bool | None = None, **changes: Any) -> Windows:
        kept = ("x", "inputs", "duration", "observations", "moments", "aside")
        weights = changes.pop("weights", self.weights)
        made = Windows(**{name: getattr(self, name) for name in kept} | changes)
        made.__dict__["chosen"] = self.chosen if chosen is None else chosen
        made.__dict__["weights"] = weights
        return made
