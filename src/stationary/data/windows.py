r"""Windows: inputs and what was observed at them.

A window ``w`` has inputs ``x_w`` (the load first), one or more observations, such as counts of the
states the system was seen in, and a duration.
"""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from stationary._support.files import replacing
from stationary.data._base import Counts, Observation
from stationary.data.checks import (
    as_durations,
    check_shapes,
    find_bad_input,
    input_names,
    load_mask,
    name_rows,
)
from stationary.data.moments import Moments, Pool
from stationary.data.numbers import as_table
from stationary.data.observation import ObservationMap
from stationary.data.states import Sampling, States
from stationary.data.tables import sampling_facts, write_facts
from stationary.errors import DataWarning, InputError
from stationary.models import Model
from stationary.terms.categories import Category, Observed, parse_category

if TYPE_CHECKING:
    import pandas as pd


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
        Length of every window, in the unit of time of the loads: how long the counts took tells how
        much they are worth, since the system takes its time to change.
    observations : sequence of Observation, optional
        Other kinds of observations of the same windows.
    moments : Moments, optional
        What is left of single windows where each row adds up several, see `pooled`.

    Examples
    --------
    Two windows at loads 11 and 12; one column counts idle, the other one to three requests:

    >>> windows = Windows(x=[11, 12], counts=[[30, 25], [28, 31]], observe=[0, (1, 2, 3)])
    >>> windows
    Windows(2 windows, load 11..12, categories 0, 1..3, 114 counts, sampling=time)
    """

    x: Tensor
    observations: tuple[Observation, ...]
    inputs: tuple[str, ...]
    duration: Tensor | None
    moments: Moments | None

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
    ) -> None:
        if isinstance(observations, Observation):
            observations = (observations,)
        if not isinstance(observations, Iterable):
            raise InputError(f"observations must be a list of them; got {observations!r}")
        if not isinstance(moments, Moments | None):
            raise InputError(f"moments must be those of pooled windows; got {moments!r}")
        kinds = tuple(observations)
        if counts is not None or observe is not None:
            if counts is None or observe is None:
                raise InputError("counts= and observe= go together: what was counted, and of what")
            kinds = (States(counts, observe, sampling), *kinds)
        names = input_names(inputs)
        x = as_table(x, "x")
        if x.ndim == 1:
            x = x[:, None]
        check_shapes(x, kinds, names)
        data = torch.cat([kind.data for kind in kinds], -1)
        if moments is not None and moments.squares.shape[:2] != data.shape:
            raise InputError(
                f"moments are of {tuple(moments.squares.shape[:2])} rows and columns, the data "
                f"of {tuple(data.shape)}: give moments of the same windows"
            )
        bad = find_bad_input(x.numpy())
        if bad:
            row, column, problem = bad
            raise InputError(f"window {row}, input {names[column]!r}: {problem}")
        lasts = None if duration is None else as_durations(duration, len(x))
        seen = torch.stack([kind.size for kind in kinds]).sum(0)
        empty = (seen == 0).nonzero()[:, 0].tolist()
        if empty:
            self._check_empty(empty, len(x), kinds, drop_empty)
            kept = seen > 0
            x, kinds = x[kept], tuple(kind.of(kind.data[kept]) for kind in kinds)
            lasts = None if lasts is None else lasts[kept]
            moments = None if moments is None else moments.select(kept)
        self.__dict__.update(x=x, observations=kinds, inputs=names, duration=lasts, moments=moments)

    @staticmethod
    def _check_empty(
        empty: list[int], rows: int, kinds: Sequence[Observation], drop_empty: bool
    ) -> None:
        columns = ", ".join(name for kind in kinds for name in kind.columns)
        if len(empty) == rows:
            raise InputError(f"no window has any counts in the observed categories {columns}")
        if not drop_empty:
            raise InputError(
                f"{name_rows('window', empty)} {'has' if len(empty) == 1 else 'have'} no counts "
                f"in the observed categories {columns}; pass drop_empty=True to leave "
                f"{'it' if len(empty) == 1 else 'them'} out"
            )
        warnings.warn(
            f"dropped {name_rows('window', empty)}: no counts in the observed categories {columns}",
            DataWarning,
            stacklevel=3,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Windows are immutable; make new ones instead of setting {name!r}")

    def __len__(self) -> int:
        return len(self.x)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Windows):
            return NotImplemented
        return (
            self.inputs == other.inputs
            and _equal(self.duration, other.duration)
            and self.moments == other.moments
            and torch.equal(self.x, other.x)
            and self.observations == other.observations
        )

    def __repr__(self) -> str:
        low, high = self.loads.min(), self.loads.max()
        rows = "" if self.moments is None else f"pooled into {len(self)}, "
        parts = [f"{self.recorded} windows, {rows}{self.inputs[0]} {low:g}..{high:g}"]
        for kind in self.observations:
            names = kind.labels if isinstance(kind, States) else kind.columns
            shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            parts.append(f"categories {shown}, {kind.size.sum():.0f} counts")
            if isinstance(kind, States):
                parts[-1] += f", sampling={kind.sampling}"
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
        """Columns of all observations side by side, ``[M, S]``."""
        return torch.cat([kind.data for kind in self.observations], -1)

    @cached_property
    def size(self) -> Tensor:
        """How much each window holds, ``[M]``: its counts, of all observations."""
        return torch.stack([kind.size for kind in self.observations]).sum(0)

    @property
    def states(self) -> States:
        """The counts of states; an error if there are none."""
        for kind in self.observations:
            if isinstance(kind, States):
                return kind
        raise InputError(
            f"these windows have no counts of states, only "
            f"{', '.join(name for kind in self.observations for name in kind.columns)}"
        )

    @property
    def counted(self) -> Counts | None:
        """The counts that checks read: of states, else of another kind; None if there are none."""
        kinds = [kind for kind in self.observations if isinstance(kind, Counts)]
        states = [kind for kind in kinds if isinstance(kind, States)]
        return next(iter([*states, *kinds]), None)

    @property
    def by_arrivals(self) -> bool:
        """Whether states were sampled by arriving requests."""
        return isinstance(self.counted, States) and self.sampling is Sampling.ARRIVAL

    @property
    def has_states(self) -> bool:
        """Whether all that was observed is counts of states."""
        return all(isinstance(kind, States) for kind in self.observations)

    @property
    def counts(self) -> Tensor:
        """Counts of states, ``[M, C]``."""
        return self.states.data

    @property
    def observe(self) -> tuple[Observed, ...]:
        """What each column of the counts of states counts."""
        return self.states.observe

    @property
    def sampling(self) -> Sampling:
        """When the state was sampled."""
        return self.states.sampling

    @property
    def many(self) -> Tensor:
        """Recorded windows that each row stands for, ``[M]``: one, unless they were pooled."""
        ones = torch.ones(len(self), dtype=torch.float64)
        return ones if self.moments is None else self.moments.many

    @property
    def recorded(self) -> int:
        """Windows that were recorded: the rows, unless they were pooled."""
        return int(self.many.sum())

    def squares_of(self, weights: Any) -> float:
        """Sum over recorded windows of ``(weights . data) ** 2``, with weights ``[M, S]``."""
        weights = torch.as_tensor(weights)
        if self.moments is None:
            return float(((weights * self.data).sum(-1) ** 2).sum())
        return float(torch.einsum("uc,ucd,ud->", weights, self.moments.squares, weights))

    def check_single(self, what: str) -> None:
        """Raise where windows were pooled, so that single ones and their order are gone."""
        if self.moments is not None:
            raise InputError(
                f"{what} needs the single windows in their order, and these {self.recorded} were "
                f"pooled into {len(self)} as they were read: read them without pooled=True "
                f"(--pool), or a part of them, as with loads= (--loads)"
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """One readable label per category of states: ``0``, ``overload``, ``1+3``, ``1..20``."""
        return self.states.labels

    def select(self, which: Any) -> Windows:
        """Windows where a mask of length M is true, or at the given positions."""
        index = np.arange(len(self))[which] if isinstance(which, slice) else np.asarray(which)
        if index.dtype == bool and index.shape != (len(self),):
            raise InputError(
                f"a mask must have one entry per window ({len(self)},); got shape {index.shape}"
            )
        if index.ndim != 1 or (index.size and index.dtype.kind not in "biu"):
            raise InputError(f"select takes a mask or a list of positions; got {which!r}")
        try:
            rows = np.arange(len(self))[index if index.size else slice(0)]
        except IndexError:
            raise InputError(f"positions must lie in 0..{len(self) - 1}; got {which!r}") from None
        if not len(rows):
            raise InputError(f"the selection leaves none of the {len(self)} windows")
        return self._of_rows(rows)

    def between(self, low: float | None = None, high: float | None = None) -> Windows:
        """Windows whose load lies in ``[low, high]``; None leaves an end open."""
        return self.select(load_mask(self.loads.numpy(), low, high, self.inputs[0]))

    def observing(self, categories: Iterable[Category], drop_empty: bool = False) -> Windows:
        """Keep these categories of states only, in this order; by states or by label."""
        # Which windows have none of the kept categories is not known any more.
        self.check_single("a choice of categories")
        chosen = self.states.observing(categories)
        kinds = [chosen if isinstance(kind, States) else kind for kind in self.observations]
        return self._with(self.x, kinds, self.duration, drop_empty=drop_empty)

    def observation(self, model: Model) -> ObservationMap:
        """Which category covers each state of a model."""
        return self.states.on(model).map

    def pooled(self) -> Windows:
        """Windows of equal inputs added up, sorted by input: the same fit, fewer rows.

        What a sandwich covariance needs to know of the single ones is kept.
        """
        if self.moments is not None:
            return self
        pool = Pool(self.x.shape[1], self.data.shape[1])
        pool.add(self.x.numpy(), self.data.numpy())
        x, sums, moments = pool.sums()
        lasts = self._mean_duration(torch.from_numpy(x))
        return self._with(x, self._kinds_of(torch.from_numpy(sums)), lasts, moments)

    def _mean_duration(self, x: Tensor) -> Tensor | None:
        """Mean length of the single windows at each of the distinct inputs."""
        if self.duration is None:
            return None
        if len(self.duration.unique()) == 1:
            return self.duration[:1].expand(len(x))
        _, where = torch.unique(self.x, dim=0, return_inverse=True)
        zero = self.duration.new_zeros(len(x))
        sums = zero.index_add(0, where, self.duration)
        return sums / zero.index_add(0, where, torch.ones_like(self.duration))

    def _kinds_of(self, data: Tensor) -> list[Observation]:
        """Observations with the columns of other data."""
        parts = data.split([kind.data.shape[1] for kind in self.observations], -1)
        return [kind.of(part) for kind, part in zip(self.observations, parts, strict=True)]

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame: a column per input, then the columns of the observations.

        Those of counts of states are called by their labels.
        """
        import pandas as pd  # here, because the fitting path does without it

        parts = [pd.DataFrame(self.x.numpy(), columns=list(self.inputs))]
        for kind in self.observations:
            names = kind.labels if isinstance(kind, States) else kind.columns
            whole = bool((kind.data == kind.data.round()).all())
            values = kind.data.to(torch.int64) if whole else kind.data
            parts.append(pd.DataFrame(values.numpy(), columns=list(names)))
        return pd.concat(parts, axis=1)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write columns ``load``, ``Q=0``, ...; ``read_windows(path)`` reads them back.

        A first line says how the counts were sampled, and how long a window was. The file appears
        whole or not at all.
        """
        self.check_single("a file of one line a window")
        path = Path(path)
        if path.suffix.lower() != ".csv":
            raise InputError(f"{path}: to_csv writes .csv files; give the file that ending")
        for category, text in zip(self.observe, self.labels, strict=True):
            if parse_category(text) != category:
                raise InputError(
                    f"category {text!r} cannot be a column name: it would read back as "
                    f"{parse_category(text)!r}; rename the state"
                )
        if not self.has_states:
            raise InputError("a file of windows holds counts of states only; use save() of a fit")
        header = [*self.inputs, *self.states.columns]
        if len(set(header)) != len(header):
            raise InputError(f"an input has the name of a count column; rename it: {header}")
        try:
            with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
                file.write(f"{write_facts(sampling_facts(self.sampling, self._one_duration()))}\n")
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(header)
                for x, counts in zip(self.x.tolist(), self.counts.tolist(), strict=True):
                    writer.writerow([*x, *map(int, counts)])
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error

    def _one_duration(self) -> float | None:
        """Length of every window, which must be the same for all."""
        if self.duration is None:
            return None
        if len(self.duration.unique()) > 1:
            raise InputError(
                "a file of windows has one duration for all of them; write those of each length "
                "to a file of their own"
            )
        return float(self.duration[0])

    def _of_rows(self, rows: Any) -> Windows:
        kinds = [kind.of(kind.data[rows]) for kind in self.observations]
        lasts = None if self.duration is None else self.duration[rows]
        moments = None if self.moments is None else self.moments.select(rows)
        return self._with(self.x[rows], kinds, lasts, moments)

    def _with(
        self,
        x: Any,
        kinds: Iterable[Observation],
        duration: Tensor | None = None,
        moments: Moments | None = None,
        drop_empty: bool = False,
    ) -> Windows:
        return Windows(
            x,
            inputs=self.inputs,
            drop_empty=drop_empty,
            duration=duration,
            observations=kinds,
            moments=moments,
        )


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)
