"""What models of choice share: the input is a menu, and the chain lives on what it offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError, did_you_mean
from stationary.models._base import Model
from stationary.models._params import Param
from stationary.models._point import Point
from stationary.models.measures import Measure

_STIFFNESS = 1e4
"""Curvature of the penalty that fixes what no choice depends on, per parameter."""


class ChoiceModel(Model):
    """A chain whose steady state on a menu says how often each item of the menu is chosen.

    A model of choice has one input per item: 1 where the menu offers it, otherwise 0. Rates into
    items that are not on the menu are zero, so that these are transient. It overrides `edge_rates`,
    whose ``x`` are the menus.

    Parameters
    ----------
    items : sequence of str
        Names of all items.
    states : sequence of str
        Names of the states; the items come last.
    params, edges
        As for `Model`.

    Attributes
    ----------
    items : tuple of str
        Names of all items.
    """

    needs_wins: ClassVar[bool] = False
    """Whether the estimates are finite only if every item was chosen over others, and they over
    it, by way of other items at least."""

    items: tuple[str, ...]

    def __init__(
        self,
        items: Sequence[str | int],
        *,
        states: Sequence[str] = (),
        params: Mapping[str, Param],
        edges: Edges,
    ) -> None:
        items = as_items(items)
        super().__init__(states=(*states, *items), params=params, edges=edges, inputs=items)
        self.items = items

    def menu(self, *items: str) -> list[float]:
        """Return the input for a menu of these items."""
        unknown = [item for item in items if item not in self.items]
        if unknown:
            raise InputError(
                f"there is no item {unknown[0]!r}{did_you_mean(unknown[0], self.items)}"
            )
        return [float(item in items) for item in self.items]

    def check_inputs(self, x: Tensor) -> None:
        """Raise unless every entry is 0 or 1 and every menu offers something."""
        wrong = x[(x != 0) & (x != 1)]
        if len(wrong):
            raise InputError(
                f"a menu has 1 for an item that it offers and 0 for another; got {wrong[0]:g}"
            )
        if not bool(x.any(-1).all()):
            raise InputError("a menu must offer at least one item; got one that is all 0")

    def shares(self, point: Point) -> Tensor:
        """How often each item is chosen, ``[..., items]``; zero where the menu has it not."""
        chosen = point.pi[..., -len(self.items) :]
        return chosen / chosen.sum(-1, keepdim=True)

    def derivatives(self, point: Point, counts: Tensor) -> tuple[float, Tensor, Tensor] | None:
        """Negative log-likelihood of ``counts [M, items]`` with derivatives ``[P]`` and ``[P, P]``.

        None where there is no formula, or it would take too much memory.
        """
        del point, counts
        return None

    @property
    def measures(self) -> tuple[str, ...]:
        """The share of every item."""
        return tuple(f"p_{item}" for item in self.items)

    def measure(self, name: str) -> Measure:
        """Return how often an item is chosen, by ``p_NAME``."""
        if name not in self.measures:
            raise InputError(
                f"{type(self).__name__} has no measure {name!r}{did_you_mean(name, self.measures)}"
            )
        place = self.measures.index(name)
        about = f"share of choices that are {self.items[place]}"
        return Measure(lambda point: self.shares(point)[..., place], 0.0, 1.0, about)


def centred(logs: Tensor) -> Tensor:
    """Penalty that makes the mean of logarithms ``[..., P]`` zero, where no choice depends on it.

    It is zero at the optimum. Being stiff, it leaves the estimates no freedom along that direction.
    """
    return _STIFFNESS / 2 * logs.mean(-1).square() * logs.shape[-1]


def as_items(items: Iterable[Any]) -> tuple[str, ...]:
    """Return names of items, checked; of a string, its letters."""
    if not isinstance(items, Iterable):
        raise InputError(f"items must be names, as in ['car', 'bus']; got {items!r}")
    names = tuple(map(str, items))
    if len(names) < 2 or len(set(names)) < len(names):
        raise InputError(f"items must be two or more different names; got {list(names)!r:.80}")
    return names
