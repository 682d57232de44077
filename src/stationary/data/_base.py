r"""Observations: what was counted or summed up in every window, and how a model explains it.

Every kind is a table ``data [M, S]`` in which its log-likelihood is linear,

    log L_m = sum_s data[m, s] * log_terms[m, s],

with terms that depend on the model at the window's inputs. So windows of equal inputs can be added
up, bootstraps and held-out loads are weights of rows, and the score of a window is its row times
the slopes of the terms. Code that works on likelihoods need not know which kind it has.
"""

from __future__ import annotations

import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from stationary._support.arguments import Checked
from stationary._support.types import Array
from stationary.data.numbers import as_counts, as_table
from stationary.errors import InputError
from stationary.models import Model, Point

TINY = 1e-290
"""Probabilities below this count as zero. The floor keeps 0 log 0 out of the sums, and any count
divided by it stays finite."""

_MOST_SHOWN = 8


class Misplaced(NamedTuple):
    """Share of what was observed that a forecast gets wrong, and its standard error."""

    share: float
    error: float
    by_chance: bool = False
    """Whether chance explains the share, where every interval allows for that chance: then a lack
    of data is no reason to doubt the forecast."""


class Observation(Checked, ABC):
    """One kind of thing that was observed in every window. Immutable.

    Parameters
    ----------
    data : array_like [M, S]
        Counts or sums, one row per window.

    Examples
    --------
    Numbers and sums of service times that are exponential, with the likelihood
    ``n log(mu) - mu * sum``:

    >>> import torch
    >>> import stationary as st
    >>> class ServiceSums(st.Observation):
    ...     columns = ("served", "seconds")
    ...     def on(self, model):
    ...         return self
    ...     def log_terms(self, point):
    ...         mu = point.p.service_rate.expand(*point.x.shape[:-1], 1)
    ...         return torch.cat([mu.log(), -mu], -1)
    ...     def draw(self, point, random):
    ...         served = self.data[:, :1].numpy()
    ...         seconds = random.gamma(served, 1 / point.p.service_rate.detach().numpy())
    ...         return self.with_data(torch.tensor(seconds).expand(-1, 2))
    >>> seen = st.Windows(x=[4.0, 8.0], observations=[ServiceSums([[40, 4.1], [80, 7.9]])])
    >>> round(st.fit(st.models.MMmK(capacity=20), seen).estimates["service_rate"], 6)
    10.0
    """

    kind: ClassVar[str] = ""
    """Name of this kind in saved runs, different for every kind; without it, no run is saved."""

    independent: ClassVar[bool] = False
    """Whether what is counted is independent by itself, as choices of different people are."""

    kinds: ClassVar[dict[str, type[Observation]]] = {}
    """Every kind by name."""

    rank: ClassVar[int] = 0
    """Which of several kinds that tell of the same requests a fit uses: that of the highest rank
    alone. A kind of rank 0 is always used, one of a negative rank only without others.
    """

    beside: ClassVar[tuple[str, ...]] = ()
    """Kinds that leave out what this one tells: together with them it is used, too."""

    data: Tensor

    def __init__(self, data: Any) -> None:
        self.__dict__["data"] = as_table(data, "data")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__ and cls.kind:
            other = Observation.kinds.setdefault(cls.kind, cls)
            if other.__qualname__ != cls.__qualname__:
                raise InputError(
                    f"{cls.__name__}: {other.__name__} has the kind {cls.kind!r} already; give "
                    f"another name"
                )
            Observation.kinds[cls.kind] = cls

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, as in files of windows."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the columns for messages and tables."""
        return self.columns

    @property
    def shown(self) -> str:
        """The labels in a line; of many, the first and the last."""
        names = self.labels
        if len(names) <= _MOST_SHOWN:
            return ", ".join(names)
        return f"{names[0]}, ..., {names[-1]} ({len(names)} in all)"

    def explained_by(self, model: Model) -> bool:
        """Whether a model says how likely this is; `on` says why not."""
        del model
        return True

    @abstractmethod
    def on(self, model: Model) -> Self:
        """Return this observation of a model: names are looked up, and what does not fit refused.

        Methods that take a point of the model are called on what this returns.
        """

    def prepared(self, x: Tensor, data: Tensor) -> Tensor:
        """Return data at different inputs ``x [U, d]`` as a fit takes it, by default unchanged.

        A kind may refuse what is impossible, and add a prior, which counts once per input.
        """
        del x
        return data

    def start(self, point: Point) -> Tensor:
        """Return parameters ``[P]`` to start a fit from that the data allow, near those of a point.

        Raise where the data plainly contradict the inputs, as they do in another unit of time.
        """
        return point.theta

    @abstractmethod
    def log_terms(self, point: Point) -> Tensor:
        """What each column's data is multiplied by in the log-likelihood, ``[..., M, S]``."""

    @abstractmethod
    def draw(self, point: Point, random: np.random.Generator) -> Self:
        """Return independent data of the same size from a model."""

    @property
    def size(self) -> Tensor:
        """How much each window holds, ``[M]``; likelihoods are compared per unit of it."""
        return self.data.sum(-1)

    def saturated(self) -> Tensor | None:
        """Largest log-likelihood ``[M]`` that any model could have; None where it is not known."""
        return None

    def misplaced(self, terms: Array, roots: Array, recorded: int) -> Misplaced | None:
        """How much of the data a forecast gets wrong; None where that has no meaning.

        It is given what `log_terms` returns, ``[M, S]``, this observation's columns of
        `Windows.roots`, ``[M, K, S]``, and the number of recorded windows.
        """
        del terms, roots, recorded
        return None

    def nll(self, point: Point, data: Tensor) -> Tensor:
        """Negative log-likelihood of some data, for first derivatives.

        A kind may have a faster way, which may be steep where what was seen is impossible.
        """
        return -(data * self.log_terms(point)).sum()

    def derivatives(self, point: Point, data: Tensor) -> tuple[float, Tensor, Tensor] | None:
        """Negative log-likelihood of some data, its slope ``[P]`` and Hessian ``[P, P]`` in theta.

        By a formula, where a kind knows one; None by default.
        """
        del point, data
        return None

    def facts(self) -> dict[str, Any]:
        """Arguments of the constructor besides the data, in the types of JSON."""
        return {}

    @classmethod
    def find_columns(cls, names: Sequence[str]) -> tuple[str, ...]:
        """Return which columns of a file of windows hold this kind; none, unless a kind says so."""
        del names
        return ()

    @classmethod
    def from_columns(cls, columns: Mapping[str, Array], metadata: Mapping[str, str]) -> Self:
        """Return the observation in those columns, one number per window in each.

        A file is read in parts, so the columns of the result follow from the names and from the
        ``metadata`` (the first line of the file) alone.
        """
        raise NotImplementedError

    def metadata(self) -> dict[str, str]:
        """Return what `from_columns` needs of the first line of a file, without spaces."""
        return {}

    def with_data(self, data: Tensor) -> Self:
        """Return the same kind of observation with other data, such as some of the rows."""
        other = object.__new__(type(self))
        other.__dict__.update({**self.__dict__, "data": data})
        return other

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"observations are immutable; make a new one instead of setting {name!r}"
        )

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Observation):
            return NotImplemented
        return self.facts() == other.facts() and torch.equal(self.data, other.data)

    __hash__ = None  # type: ignore[assignment]


class Counts(Observation):
    """Counts of disjoint categories; a kind says how likely each category is.

    Examples
    --------
    A kind that counts whether the system was idle, complete but for saving:

    >>> import torch
    >>> import stationary as st
    >>> class Idle(st.Counts):
    ...     columns = ("idle", "busy")
    ...     def on(self, model):
    ...         return self
    ...     def probabilities(self, point):
    ...         idle = point.pi[..., :1]
    ...         return torch.cat([idle, 1 - idle], -1)
    >>> seen = st.Windows(x=[4.0, 8.0], observations=[Idle([[60, 40], [20, 80]])])
    >>> round(st.fit(st.models.MMmK(capacity=20), seen).estimates["service_rate"], 1)
    10.0
    """

    def __init__(self, data: Any) -> None:
        self.__dict__["data"] = as_counts(data, self.columns)

    @abstractmethod
    def probabilities(self, point: Point) -> Tensor:
        """Probability of every category, given that one of them is seen, ``[..., M, S]``."""

    def log_terms(self, point: Point) -> Tensor:
        """Logarithms of the probabilities."""
        return self.probabilities(point).clamp_min(TINY).log()

    def draw(self, point: Point, random: np.random.Generator) -> Self:
        """Multinomial counts."""
        p = self.probabilities(point).detach().numpy()
        p = p / p.sum(-1, keepdims=True)
        counts = random.multinomial(self.size.to(torch.int64).numpy(), p)
        return self.with_data(torch.from_numpy(counts).to(torch.float64))

    def saturated(self) -> Tensor:
        """The log-likelihood of the observed shares themselves."""
        share = self.data / self.size[:, None].clamp_min(1.0)
        return torch.special.xlogy(self.data, share).sum(-1)

    def misplaced(self, terms: Array, roots: Array, recorded: int) -> Misplaced:
        """Share of all counts that are in the wrong category.

        It is that of the sum over all windows, in which the excess of one window may cancel the
        deficit of another. The error follows from the scatter of the windows around their mean.
        """
        counts, p = self.data.numpy(), np.exp(terms)
        off = counts / counts.sum() - counts.sum(-1, keepdims=True) / counts.sum() * p
        total = off.sum(0)  # of [M, S], which adds up to the error
        sign = np.sign(total)
        # The excess of a window is linear in its counts, so its square is one of `roots`.
        weight = (sign - (p + total) @ sign[:, None]) / (2 * counts.sum())
        squares = ((roots * weight[:, None]).sum(-1) ** 2).sum()
        error = float(np.sqrt(squares * recorded / max(recorded - 1, 1)))
        return Misplaced(float(np.abs(total).sum() / 2), error)


def known_kinds() -> dict[str, type[Observation]]:
    """Return every kind by name: those in the files of this folder, and those defined elsewhere."""
    for file in pkgutil.iter_modules(sys.modules[__package__].__path__):
        import_module(f"{__package__}.{file.name}")
    return Observation.kinds


def as_observations(
    value: Iterable[Observation], first: Iterable[Observation] = ()
) -> tuple[Observation, ...]:
    """Return observations of the same windows, checked."""
    if isinstance(value, Observation) or not isinstance(value, Iterable):
        value = [value]
    kinds = (*first, *value)
    if not kinds:
        raise InputError("nothing was observed: give counts= and observe=, or observations=")
    for kind in kinds:
        if not isinstance(kind, Observation):
            raise InputError(
                f"observations must be objects such as States(counts, observe=[0, 1]); got {kind!r}"
            )
        if len(kind.data) != len(kinds[0].data):
            raise InputError(
                f"observations must have the same windows; got {len(kinds[0].data)} rows of "
                f"{', '.join(kinds[0].columns)} and {len(kind.data)} of {', '.join(kind.columns)}"
            )
    if [kind.kind for kind in kinds].count("states") > 1:
        raise InputError(
            "windows have one table of counts of states: put all categories into one States"
        )
    return kinds
