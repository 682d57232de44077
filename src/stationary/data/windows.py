r"""Windows: the one observation type.

A window ``w`` has inputs ``x_w`` (the load first), and counts ``y_wc`` of how often the system was
seen in category ``c``. A category is a set ``S_c`` of states, and the sets are disjoint; the
observation map is the 0/1 matrix ``A_cj = [j in S_c]``, so that ``A pi`` holds the probability of
every category. The paper's ``S'`` is the case of one state a category.
"""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from stationary.atomic import replacing
from stationary.data.categories import (
    Category,
    Observed,
    as_categories,
    find_categories,
    label,
    members,
    parse_category,
)
from stationary.data.checks import (
    as_duration,
    as_table,
    check_shapes,
    find_bad_count,
    find_bad_input,
    input_names,
    load_mask,
    name_rows,
)
from stationary.data.moments import Moments, Pool
from stationary.data.observation import ObservationMap
from stationary.data.tables import sampling_facts, write_facts
from stationary.errors import DataWarning, InputError

if TYPE_CHECKING:
    import pandas as pd

    from stationary.models import Model


class Sampling(StrEnum):
    """Who looked: the clock (``TIME``) or the arriving requests (``ARRIVAL``)."""

    TIME = "time"
    ARRIVAL = "arrival"


class Windows:
    """Counts of observed categories of states, with the inputs of every window. Immutable.

    Parameters
    ----------
    x : array_like [M, d] or [M]
        Inputs of each window, finite; the first column is the load.
    counts : array_like [M, C]
        How often each category was seen in each window: whole numbers, zero or more.
    observe : sequence
        What each column of ``counts`` counts: a state (its name or its number), or a sequence of
        states, any of which counts.
    sampling : Sampling or str
        ``"time"`` for looks at times that do not depend on the system, ``"arrival"`` for the states
        arriving requests found.
    inputs : sequence of str
        Names of the columns of ``x``.
    drop_empty : bool
        Leave out windows in which no category was seen, with a `DataWarning`; otherwise they are an
        error, since they say nothing about the chain.
    duration : float, optional
        Length of every window, in the unit of time of the loads: how long the counts took tells how
        much they are worth, since the system takes its time to change.
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
    counts: Tensor
    observe: tuple[Observed, ...]
    sampling: Sampling
    inputs: tuple[str, ...]
    duration: float | None
    moments: Moments | None

    def __init__(
        self,
        x: Any,
        counts: Any,
        observe: Iterable[Category],
        sampling: Sampling | str = Sampling.TIME,
        inputs: Sequence[str] = ("load",),
        drop_empty: bool = False,
        duration: float | None = None,
        moments: Moments | None = None,
    ) -> None:
        categories = as_categories(observe)
        names = input_names(inputs)
        x, counts = as_table(x, "x"), as_table(counts, "counts")
        if x.ndim == 1:
            x = x[:, None]
        check_shapes(x, counts, categories, names)
        if moments is not None and moments.squares.shape[:2] != counts.shape:
            raise InputError(
                f"moments are of {tuple(moments.squares.shape[:2])} rows and categories, counts "
                f"of {tuple(counts.shape)}: give moments of the same windows"
            )
        bad_x, bad_count = find_bad_input(x.numpy()), find_bad_count(counts.numpy())
        if bad_x:
            row, column, problem = bad_x
            raise InputError(f"window {row}, input {names[column]!r}: {problem}")
        if bad_count:
            row, column, problem = bad_count
            raise InputError(f"window {row}, category {label(categories[column])!r}: {problem}")
        empty = (counts.sum(-1) == 0).nonzero()[:, 0].tolist()
        if empty:
            observed = ", ".join(map(label, categories))
            if len(empty) == len(x):
                raise InputError(f"no window has any counts in the observed categories {observed}")
            if not drop_empty:
                raise InputError(
                    f"{name_rows('window', empty)} {'has' if len(empty) == 1 else 'have'} no "
                    f"counts in the observed categories {observed}; pass drop_empty=True to leave "
                    f"{'it' if len(empty) == 1 else 'them'} out"
                )
            warnings.warn(
                f"dropped {name_rows('window', empty)}: no counts in the observed categories "
                f"{observed}",
                DataWarning,
                stacklevel=2,
            )
            kept = counts.sum(-1) > 0
            x, counts = x[kept], counts[kept]
            moments = None if moments is None else moments.select(kept)
        self.__dict__.update(
            x=x,
            counts=counts,
            observe=categories,
            sampling=as_sampling(sampling),
            inputs=names,
            duration=None if duration is None else as_duration(duration),
            moments=moments,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Windows are immutable; make new ones instead of setting {name!r}")

    def __len__(self) -> int:
        return len(self.x)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Windows):
            return NotImplemented
        return (
            self.observe == other.observe
            and self.sampling == other.sampling
            and self.inputs == other.inputs
            and self.duration == other.duration
            and self.moments == other.moments
            and torch.equal(self.x, other.x)
            and torch.equal(self.counts, other.counts)
        )

    def __repr__(self) -> str:
        shown = ", ".join(self.labels[:8]) + (", ..." if len(self.labels) > 8 else "")
        low, high = self.loads.min(), self.loads.max()
        rows = "" if self.moments is None else f"pooled into {len(self)}, "
        return (
            f"Windows({self.recorded} windows, {rows}{self.inputs[0]} {low:g}..{high:g}, "
            f"categories {shown}, {self.counts.sum():.0f} counts, sampling={self.sampling}"
            f"{'' if self.duration is None else f', duration={self.duration:g}'})"
        )

    @property
    def loads(self) -> Tensor:
        """The first input of every window, ``[M]``."""
        return self.x[:, 0]

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
        """Sum over recorded windows of ``(weights . counts) ** 2``, with weights ``[M, C]``."""
        weights = torch.as_tensor(weights)
        if self.moments is None:
            return float(((weights * self.counts).sum(-1) ** 2).sum())
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
        """One readable label a category: ``0``, ``overload``, ``1+3`` or ``1..20``."""
        return tuple(map(label, self.observe))

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
        moments = None if self.moments is None else self.moments.select(rows)
        return self._with(self.x[rows], self.counts[rows], moments)

    def between(self, low: float | None = None, high: float | None = None) -> Windows:
        """Windows whose load lies in ``[low, high]``; None leaves an end open."""
        return self.select(load_mask(self.loads.numpy(), low, high, self.inputs[0]))

    def observing(self, categories: Iterable[Category], drop_empty: bool = False) -> Windows:
        """Keep these categories only, in this order; each by its states or by its label."""
        # Which windows have none of the kept categories is not known any more.
        self.check_single("a choice of categories")
        index = find_categories(categories, self.observe)
        return Windows(
            self.x,
            self.counts[:, index],
            [self.observe[k] for k in index],
            self.sampling,
            self.inputs,
            drop_empty,
            self.duration,
        )

    def observation(self, model: Model) -> ObservationMap:
        """Observation map onto a model: which category covers each of its states.

        A state is looked up by its name first; a number that names no state is a position. Where
        the model groups its states, the name of a group covers all of them.
        """
        if self.sampling is Sampling.ARRIVAL and not model.arrives_alone:
            raise InputError(
                f"the windows count what arriving requests found (sampling='arrival'), but in "
                f"{type(model).__name__} those of one batch find one another: count at times that "
                f"do not depend on the system (sampling='time'), or take a model whose requests "
                f"arrive one at a time"
            )
        count = len(self.observe)
        owner = np.full(len(model.states), count)
        for row, category in enumerate(self.observe):
            for name in members(category):
                try:
                    covered = np.asarray(model.states_of(str(name)))
                except InputError as error:
                    raise InputError(f"category {label(category)!r}: {error}") from None
                taken = covered[(owner[covered] != count) & (owner[covered] != row)]
                if len(taken):
                    state = int(taken[0])
                    raise InputError(
                        f"categories {self.labels[owner[state]]!r} and {label(category)!r} are "
                        f"both state {model.states[state]!r} of the model: use its own names, or "
                        f"conditions that do not overlap"
                    )
                owner[covered] = row
        return ObservationMap(torch.from_numpy(owner), count)

    def pooled(self, moments: bool = False) -> Windows:
        """Windows of equal inputs added up, sorted by input: the same likelihood, fewer rows.

        With ``moments``, what a sandwich covariance needs to know of the single ones is kept, so
        that a fit to these is the same in all.
        """
        if moments:
            if self.moments is not None:
                return self
            pool = Pool(self.x.shape[1], self.counts.shape[1])
            pool.add(self.x.numpy(), self.counts.numpy())
            return self._with(*pool.sums())
        x, where = torch.unique(self.x, dim=0, return_inverse=True)
        zero = self.counts.new_zeros(len(x), self.counts.shape[1])
        counts = zero.index_add(0, where, self.counts)
        return Windows(x, counts, self.observe, self.sampling, self.inputs)

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame: a column per input, then one per category label."""
        import pandas as pd  # here, because the fitting path does without it

        x = pd.DataFrame(self.x.numpy(), columns=list(self.inputs))
        counts = pd.DataFrame(self.counts.to(torch.int64).numpy(), columns=list(self.labels))
        return pd.concat([x, counts], axis=1)

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
        header = [*self.inputs, *(f"Q={text}" for text in self.labels)]
        if len(set(header)) != len(header):
            raise InputError(f"an input has the name of a count column; rename it: {header}")
        try:
            with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
                file.write(f"{write_facts(sampling_facts(self.sampling, self.duration))}\n")
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(header)
                for x, counts in zip(self.x.tolist(), self.counts.tolist(), strict=True):
                    writer.writerow([*x, *map(int, counts)])
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error

    def _with(self, x: Any, counts: Any, moments: Moments | None = None) -> Windows:
        return Windows(
            x,
            counts,
            self.observe,
            self.sampling,
            self.inputs,
            duration=self.duration,
            moments=moments,
        )


def as_sampling(value: Sampling | str) -> Sampling:
    """Return the sampling a name stands for."""
    try:
        return Sampling(value)
    except ValueError:
        raise InputError(f'sampling must be "time" or "arrival"; got {value!r}') from None
