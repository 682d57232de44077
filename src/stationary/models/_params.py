"""Parameters: declared by name, and moved by a fit as one flat vector ``theta``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from stationary._support.arguments import explained
from stationary.errors import InputError


@explained
@dataclass(frozen=True)
class Param:
    """A parameter, or a vector of parameters of one kind.

    Parameters
    ----------
    value : float or sequence of float
        Present value, or values.
    positive : bool
        Whether it must be positive; otherwise it may take either sign.
    per_time : int
        1 for a rate, -1 for a time, 0 for a plain number: what happens to it when the unit of time
        changes.
    labels : sequence of str, optional
        Names of the entries of a vector; by default the parameter's name with ``_0``, ``_1``, ...
    """

    value: float | Sequence[float]
    positive: bool = True
    per_time: int = 0
    labels: Sequence[str] | None = None

    def entries(self, name: str) -> dict[str, float]:
        """Values by label; the label of a single number is ``name``."""
        if isinstance(self.value, Real):
            return {name: float(self.value)}
        if isinstance(self.value, str) or not isinstance(self.value, Sequence):
            raise InputError(
                f"parameter {name!r} must be a number or a Param(...); got {self.value!r}"
            )
        labels = self.labels or [f"{name}_{k}" for k in range(len(self.value))]
        if len(labels) != len(self.value):
            raise InputError(
                f"parameter {name!r} has {len(self.value)} values and {len(labels)} labels"
            )
        return dict(zip(labels, self.value, strict=True))


def rate(value: float | Sequence[float] = 1.0, labels: Sequence[str] | None = None) -> Param:
    """Return a positive parameter that is a rate, or a vector of them: per unit of time."""
    return Param(value, per_time=1, labels=labels)


class Values(SimpleNamespace):
    """Parameters by name, each a tensor ``[..., size]``; an unknown name is an `InputError`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InputError(f"there is no parameter {name!r}; there are {', '.join(vars(self))}")


class Parameters:
    """The parameters that a model declares, in the order of ``theta``.

    Parameters
    ----------
    declared : mapping
        Parameters by name: a number for a positive one, or a `Param`.
    """

    def __init__(self, declared: Any) -> None:
        if not isinstance(declared, Mapping):
            raise InputError(
                f"params must give parameters by name, as in {{'wear': 0.1}}; got {declared!r}"
            )
        self.declared = {k: v if isinstance(v, Param) else Param(v) for k, v in declared.items()}
        self.places: dict[str, slice] = {}
        self.labels: tuple[str, ...] = ()
        self.values: list[float] = []
        for name, param in self.declared.items():
            entries = param.entries(name)
            self.places[name] = slice(len(self.values), len(self.values) + len(entries))
            self.labels += tuple(entries)
            self.values += entries.values()
        if len(set(self.labels)) < len(self.labels):
            raise InputError(f"two parameters have the same name: {', '.join(self.labels)}")
        self.sizes = tuple(place.stop - place.start for place in self.places.values())
        # A label wins over the parameter of the same name.
        self.names = self.places | {k: slice(i, i + 1) for i, k in enumerate(self.labels)}

    def assign(self, name: str, value: Any) -> None:
        """Set the present value of a parameter, or of one entry by its label."""
        place = self.names[name]
        entries = list(value) if isinstance(value, list | tuple) else [value]
        size = place.stop - place.start
        if len(entries) != size or not all(isinstance(entry, Real) for entry in entries):
            need = "a number" if size == 1 else f"a list of {size} numbers"
            raise InputError(f"parameter {name!r} must be {need}; got {value!r}")
        self.values[place] = entries

    def each(self, attribute: str) -> list[Any]:
        """Return ``positive`` or ``per_time`` of every entry of ``theta``."""
        sizes = zip(self.declared.values(), self.sizes, strict=True)
        return [getattr(param, attribute) for param, size in sizes for _ in range(size)]

    def split(self, theta: Tensor) -> Values:
        """Return the parameters in ``theta [..., P]`` by name, each ``[..., size]``."""
        # One split costs less than a slice per parameter; a single part needs neither.
        several = len(self.sizes) > 1
        parts = theta.split(self.sizes, -1) if several else (theta,) * len(self.sizes)
        return Values(**dict(zip(self.places, parts, strict=True)))

    def at(self, theta: Tensor) -> dict[str, Param]:
        """Return the declared parameters with the values in ``theta [P]``."""
        return {
            name: replace(
                self.declared[name], value=theta[place].tolist(), labels=self.labels[place]
            )
            for name, place in self.places.items()
        }


def few(names: Sequence[str]) -> list[str]:
    """Return names for a message: all of a few, the first and the last of many."""
    return list(names) if len(names) <= 4 else [names[0], "...", names[-1]]
