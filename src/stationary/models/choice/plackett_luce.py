r"""The Plackett-Luce model of choice, a star of a chain (Luce 1959; Plackett 1975).

From a menu S, item i is chosen with probability ``w_i / sum_{j in S} w_j``, whatever else is on the
menu: the odds of two items are the same on every menu (independence of irrelevant alternatives).

As a chain, somebody is undecided, takes item i of the menu at rate ``w_i``, and is undecided again
after a while. What is chosen does not depend on what was chosen before; in `PCMC` it does. The
steady state given that a choice was made is the formula above.

A comparison of two items is a choice from a menu of two (Bradley and Terry), and a ranking is a
choice of the best, then of the best of the others, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.models._params import Param
from stationary.models._point import Point
from stationary.models.choice._menus import ChoiceModel, as_items, centred


class PlackettLuce(ChoiceModel):
    """Choices in proportion to a strength of each item.

    Parameters
    ----------
    items : sequence of str
        Names of all items.
    strength : sequence of float, optional
        Logarithms of the weights ``w_i``. Only their differences matter; a fit makes their mean
        zero.

    Examples
    --------
    >>> import stationary as st
    >>> windows = st.data.rankings([("a", "b"), ("b", "c"), ("c", "a"), ("a", "c", "b")])
    >>> fit = st.fit(st.models.PlackettLuce("abc"), windows)
    >>> {item: round(strength, 3) for item, strength in fit.estimates.items()}
    {'a': 0.656, 'b': -0.694, 'c': 0.038}
    """

    name = "plackett_luce"
    needs_wins = True

    def __init__(self, items: Sequence[str | int], strength: Sequence[float] | None = None) -> None:
        items = as_items(items)
        value = [0.0] * len(items) if strength is None else list(strength)
        leaves = range(1, len(items) + 1)
        super().__init__(
            items,
            states=("undecided",),
            params={"strength": Param(value, positive=False, labels=items)},
            edges=Edges.from_pairs(
                [*((0, i) for i in leaves), *((i, 0) for i in leaves)], len(items) + 1
            ),
        )

    def edge_rates(self, x: Tensor, theta: Tensor) -> Tensor:
        """``w_i`` to every item of the menu, 1 back from each."""
        taken = theta.exp() * x
        return torch.cat([taken, torch.ones_like(taken)], -1)

    def derivatives(self, point: Point, counts: Tensor) -> tuple[float, Tensor, Tensor]:
        """``-sum c log(p)``, ``sum_S n_S p - c`` and ``sum_S n_S (diag(p) - p p^T)``."""
        p = self.shares(point)
        expected = counts.sum(-1, keepdim=True) * p
        hessian = torch.diag(expected.sum(0)) - p.mT @ expected
        return -float(torch.xlogy(counts, p).sum()), (expected - counts).sum(0), hessian

    def penalty(self, theta: Tensor) -> Tensor:
        """Keep the mean strength at zero."""
        return centred(theta)
