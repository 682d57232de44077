"""Choices: how often each item was chosen from each menu; comparisons and rankings are choices.

A window is a menu. Its inputs ``x`` say which items there were, its counts which were chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import torch
from torch import Tensor

from stationary._support.arguments import explained
from stationary._support.types import Array
from stationary.data._base import Counts
from stationary.data.losses import ObservationMap, conditional_nll
from stationary.data.numbers import as_counts, as_table
from stationary.data.windows import Windows
from stationary.errors import InputError, did_you_mean
from stationary.models import Model, Point


class Choices(Counts):
    """How often each item was chosen, each choice made independently of the others.

    Parameters
    ----------
    data : array_like [M, n]
        How often each item was chosen from each menu.
    items : sequence of str
        Names of the items.
    smoothing : float
        Choices that are added for every item of every different menu, as a prior: without it, an
        item that was never chosen has no finite strength.
    """

    kind = "choices"
    independent = True
    items: tuple[str, ...]
    smoothing: float
    _model: Any

    def __init__(self, data: Any, items: Sequence[str], smoothing: float = 0.0) -> None:
        names = tuple(map(str, items))
        if not 0 <= smoothing < np.inf:
            raise InputError(f"smoothing must be zero or more choices; got {smoothing!r}")
        counts = as_counts(data, names)
        self.__dict__.update(data=counts, items=names, smoothing=float(smoothing))

    @property
    def columns(self) -> tuple[str, ...]:
        """The items."""
        return self.items

    def on(self, model: Model) -> Self:
        """Return the choices as those of a model with the same items."""
        if tuple(getattr(model, "items", ())) != self.items:
            raise InputError(
                f"choices among {', '.join(self.items)} need a model of choice with the same "
                f"items, such as st.models.PCMC(items={list(self.items)}); got {model!r:.80}"
            )
        other = self.with_data(self.data)
        other.__dict__["_model"] = model
        return other

    def probabilities(self, point: Point) -> Tensor:
        """Shares of the items."""
        return point.model.shares(point)

    def nll(self, point: Point, data: Tensor) -> Tensor:
        """``-sum c log(p)``, where ``p`` is ``pi`` over its total on the items."""
        n = point.pi.shape[-1]
        items = ObservationMap.of_states(range(n - len(self.items), n), n)
        return conditional_nll(point.pi, data, items).sum()

    def derivatives(self, point: Point, data: Tensor) -> tuple[float, Tensor, Tensor] | None:
        """By a formula of the model, if it has one."""
        return point.model.derivatives(point, data)

    def prepared(self, x: Tensor, data: Tensor) -> Tensor:
        """Refuse what is impossible or says nothing, and add the smoothing."""
        off = ((x == 0) & (data > 0)).nonzero()
        if len(off):
            menu, item = off[0].tolist()
            raise InputError(
                f"{self.items[item]!r} was chosen {data[menu, item]:g} times from the menu "
                f"{self._named(x[menu].nonzero()[:, 0].tolist())}, which does not offer it"
            )
        data = data + self.smoothing * x
        # [j, i]: whether i was chosen where j could have been
        lost_to = as_sparse(x).T @ as_sparse(data)
        self._check_connected(lost_to)
        return data

    def _check_connected(self, lost_to: Any) -> None:
        groups = self._groups(lost_to, "weak")
        if len(groups) > 1:
            sets = ", ".join(map(self._named, groups))
            raise InputError(
                f"the items fall into sets that never shared a menu, {sets}, so that nothing "
                f"compares them: leave all but one set out, or add menus that join them"
            )
        if not self._model.needs_wins:
            return
        groups = self._groups(lost_to, "strong")
        if len(groups) > 1:
            inside = [set(group) for group in groups]
            moves = zip(*lost_to.nonzero(), strict=True)
            left = {k for j, i in moves for k, s in enumerate(inside) if j in s and i not in s}
            best = next(group for k, group in enumerate(groups) if k not in left)
            others = sorted(set(range(len(self.items))) - set(best))
            raise InputError(
                f"{self._named(others)} were never chosen where {self._named(best)} could be, so "
                f"that their strengths have no finite estimate: leave them out, or add choices to "
                f"every menu as a prior with smoothing=, such as smoothing=0.1"
            )

    def _groups(self, graph: Any, connection: str) -> list[list[int]]:
        count, label = scipy.sparse.csgraph.connected_components(graph, connection=connection)
        return [np.flatnonzero(label == k).tolist() for k in range(count)]

    def _named(self, places: Sequence[int], most: int = 8) -> str:
        names = [self.items[k] for k in places[:most]]
        more = f", ... {len(places)} items" if len(places) > most else ""
        return "{" + ", ".join(names) + more + "}"

    def facts(self) -> dict[str, Any]:
        """Items and smoothing."""
        return {"items": list(self.items), "smoothing": self.smoothing}


def as_sparse(table: Tensor) -> scipy.sparse.csr_array:
    """Return a table as a sparse matrix."""
    return scipy.sparse.csr_array(table.numpy())


@explained
def choices(
    menus: Any, chosen: Sequence[Any], items: Sequence[str] | None = None, smoothing: float = 0.0
) -> Windows:
    """Return windows from a table of menus, one row per choice.

    Parameters
    ----------
    menus : DataFrame or array_like [M, n]
        1 where an item was offered, otherwise 0. The columns of a DataFrame name the items.
    chosen : sequence [M]
        What was chosen each time: the name of the item, or the number of its column from 0.
    items : sequence of str, optional
        Names of the columns, where the table has none.
    smoothing : float
        See `Choices`.

    Examples
    --------
    >>> choices([[1, 1, 1], [1, 1, 0], [1, 1, 0]], ["bus", "car", "bus"], ["bus", "car", "walk"])
    Windows(2 windows, bus 1..1, categories bus, car, walk, 3 counts)
    """
    names = list(getattr(menus, "columns", ())) if items is None else list(items)
    table = as_table(getattr(menus, "to_numpy", lambda: menus)(), "menus").numpy()
    if table.ndim != 2 or table.shape != (len(chosen), len(names)):
        raise InputError(
            f"menus must have one row per choice ({len(chosen)}) and one column per item "
            f"({len(names)}, by items=); got shape {table.shape}"
        )
    places = _places(names)
    return _windows(table, [_place(item, places) for item in chosen], names, smoothing)


@explained
def rankings(
    orders: Iterable[Sequence[Any]],
    menus: Iterable[Sequence[Any]] | None = None,
    items: Sequence[str] | None = None,
    smoothing: float = 0.0,
) -> Windows:
    """Return windows from rankings, the best first: a choice of the best, then of the next, ...

    A comparison of two items is a ranking of two; a single choice is a ranking that ends with its
    first item.

    Parameters
    ----------
    orders : sequence of sequences
        Each the names of some items, the best first.
    menus : sequence of sequences, optional
        For each ranking, all items that there were; those that it does not name come after those
        that it does, in no order. By default a ranking names them all.
    items : sequence, optional
        Names of all items; by default those that occur, sorted.
    smoothing : float
        See `Choices`.

    Examples
    --------
    >>> rankings([("a", "b"), ("c", "a", "b"), ("b", "a")])
    Windows(2 windows, a 1..1, categories a, b, c, 4 counts)
    """
    ranked = [tuple(order) for order in orders]
    offered = ranked if menus is None else [tuple(menu) for menu in menus]
    if not ranked or len(offered) != len(ranked):
        raise InputError(
            f"there must be rankings, and as many menus if any; got {len(ranked)} rankings and "
            f"{len(offered)} menus"
        )
    names = sorted({item for menu in offered for item in menu}) if items is None else list(items)
    places = _places(names)
    offers, winners = [], []
    for order, menu in zip(ranked, offered, strict=True):
        rest = () if order is menu else tuple(item for item in menu if item not in order)
        row = [_place(item, places) for item in (*order, *rest)]
        if len(set(row)) < len(row) or (rest and len(row) != len(menu)):
            raise InputError(
                f"a ranking names different items of its menu; got {order!r} from {menu!r}"
            )
        for place in range(min(len(order), len(row) - 1)):
            offers.append(row[place:])
            winners.append(row[place])
    if not winners:
        raise InputError("every ranking names one item of one, and so compares nothing")
    table = np.zeros((len(winners), len(names)), dtype=bool)
    choice = np.repeat(np.arange(len(winners)), list(map(len, offers)))
    table[choice, np.concatenate(offers)] = True
    return _windows(table, winners, names, smoothing)


def _windows(
    table: Array, winners: Sequence[int], names: Sequence[Any], smoothing: float
) -> Windows:
    """Add up choices from equal menus."""
    packed = np.packbits(table != 0, axis=1)  # much faster to sort
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    x = table[first]
    counts = np.zeros(x.shape)
    np.add.at(counts, (which.ravel(), np.array(winners)), 1.0)
    kind = Choices(torch.from_numpy(counts), names, smoothing)
    return Windows(x, inputs=kind.items, observations=[kind])


def _places(names: Sequence[Any]) -> dict[Any, int]:
    return {k: k for k in range(len(names))} | {name: k for k, name in enumerate(names)}


def _place(item: Any, places: Mapping[Any, int]) -> int:
    try:
        return places[item]
    except (KeyError, TypeError):
        known = [str(name) for name in places if not isinstance(name, int)]
        raise InputError(f"there is no item {item!r}{did_you_mean(str(item), known)}") from None
