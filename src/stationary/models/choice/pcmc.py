r"""The pairwise choice Markov chain (Ragain and Ugander 2016).

On a menu S, one moves from item i to item j at rate ``q_ij``; how long one stays with each item in
the long run is how often it is chosen. The odds of two items depend on what else is offered, since
one may move between them by way of a third. `PlackettLuce` is the special case ``q_ij = w_j``.

Multiplying all rates by a number changes no choice. A fit makes the mean of their logarithms zero.
The published model asks for ``q_ij + q_ji >= 1``, so that one closed class is certain: any positive
rates meet that on a suitable scale, on which `PCMC.matrix` returns them, and items that are hardly
joined to one another at all are its limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np
import torch
from scipy.special import xlogy
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models._params import Param
from stationary.models._point import Point
from stationary.models.choice._menus import ChoiceModel, as_items, centred

_MOST_EDGES = 400
"""Rates up to which their second derivatives are worth computing: 20 items."""


class PCMC(ChoiceModel):
    """Choices as the steady state of a chain on the menu.

    Parameters
    ----------
    items : sequence of str
        Names of all items.
    rank : int, optional
        For many items: rates ``q_ij = sum_r u_ir v_jr`` of this rank, ``2 n rank`` parameters in
        place of ``n (n - 1)``. Rank 1 is `PlackettLuce`.
    spread : float, optional
        Standard deviation of a normal prior on the logarithms of the parameters, around zero. It
        holds what the menus do not show, and rates that would otherwise go to zero or infinity;
        with 5, rates that differ by a factor of a thousand cost one nat. None for none.
    rate : sequence of float, optional
        The rates ``q_ij``, row by row without the diagonal; or ``u``, then ``v``, row by row.

    Examples
    --------
    Three items that beat one another in a circle, each chosen equally often from all three:

    >>> import stationary as st
    >>> model = st.models.PCMC("abc", rate=[9, 1, 1, 9, 9, 1])
    >>> model.shares(model.at([[1, 1, 1], [1, 1, 0]])).detach()
    tensor([[0.3333, 0.3333, 0.3333],
            [0.1000, 0.9000, 0.0000]], dtype=torch.float64)
    """

    name = "pcmc"

    def __init__(
        self,
        items: Sequence[str | int],
        rank: int | None = None,
        spread: float | None = 5.0,
        rate: Sequence[float] | None = None,
    ) -> None:
        items = as_items(items)
        n = len(items)
        if rank is not None and rank not in range(1, n):
            raise InputError(f"rank must be a whole number from 1 to {n - 1}; got {rank!r}")
        if spread is not None and not (isinstance(spread, Real) and 0 < spread < np.inf):
            raise InputError(f"spread must be positive and finite, or None; got {spread!r}")
        edges = Edges.complete(n)
        if rank is None:
            pairs = zip(edges.src.tolist(), edges.dst.tolist(), strict=True)
            labels = [f"{items[i]} to {items[j]}" for i, j in pairs]
            start = [1.0] * len(labels)
        else:
            ends = [f"{end} {item}" for end in ("from", "to") for item in items]
            labels = [f"{end} {r}" for end in ends for r in range(rank)]
            # Different, since equal columns would have equal gradients for ever.
            start = [1.0 + (7 * k % 5) / 10 for k in range(len(labels))]
        self.rank, self.spread = rank, spread
        value = start if rate is None else list(rate)
        super().__init__(items, params={"rate": Param(value, labels=labels)}, edges=edges)

    def edge_rates(self, x: Tensor, theta: Tensor) -> Tensor:
        """``q_ij`` to every item j of the menu."""
        edges, rates = self.edges, theta
        if self.rank is not None:
            u, v = theta.unflatten(-1, (2, len(self.items), self.rank)).unbind(-3)
            rates = (u[..., edges.src, :] * v[..., edges.dst, :]).sum(-1)
        return rates * x[..., edges.dst]

    def derivatives(self, point: Point, counts: Tensor) -> tuple[float, Tensor, Tensor] | None:
        r"""Derivatives of ``L = -sum c log(pi)`` from ``pi(Q + E) = pi (I - E D)^-1``.

        ``D = (1 pi - Q)^-1 - 1 pi`` is the deviation matrix. So a change ``E`` of ``Q`` moves
        ``pi`` by ``pi E D``, and ``E`` and ``F`` together by ``pi (E D F + F D E) D`` more. With
        ``g = dL/dpi`` and ``v = D g``, a unit of rate from i to j adds ``pi_i (D_j - D_i)`` to
        ``pi`` and ``pi_i (v_j - v_i)`` to ``L``.
        """
        src, dst = self.edges.numpy
        if self.rank is not None or len(src) > _MOST_EDGES:
            return None
        pi, menus, c = point.pi.numpy(), point.x.numpy(), counts.numpy()
        Q = np.zeros((*pi.shape, pi.shape[-1]))
        Q[..., src, dst] = on_menu = menus[..., dst]  # what is not offered has no rate to change
        Q[..., src, dst] *= point.theta.numpy()
        D = np.linalg.inv(pi[..., None, :] - Q + np.eye(Q.shape[-1]) * Q.sum(-1)[..., None])
        D -= pi[..., None, :]
        per_item = np.divide(c, pi, out=np.zeros_like(pi), where=c > 0)
        v = -(D @ per_item[..., None])[..., 0]
        slope = on_menu * (v[..., dst] - v[..., src])  # [M, E]
        moved = (pi[..., src] * on_menu)[..., None] * (D[..., dst, :] - D[..., src, :])  # [M, E, n]
        twice = (moved[..., src] * slope[..., None, :]).sum(0)
        # The second derivative of -c log(pi) is c / pi^2.
        root = moved * np.divide(per_item, np.sqrt(c), out=np.zeros_like(c), where=c > 0)[:, None]
        flat = root.swapaxes(0, 1).reshape(len(src), -1)
        value = -float(xlogy(c, pi).sum())
        gradient, hessian = (pi[..., src] * slope).sum(0), twice + twice.T + flat @ flat.T
        return value, torch.from_numpy(gradient), torch.from_numpy(hessian)

    def penalty(self, theta: Tensor) -> Tensor:
        """Keep the mean logarithm at zero; with a prior, all of them near it."""
        logs = theta.log()
        prior = 0.0 if self.spread is None else (logs / self.spread).square().sum(-1) / 2
        return centred(logs) + prior

    def matrix(self) -> Tensor:
        """Rates ``[n, n]`` on the scale of the published model: the least ``q_ij + q_ji`` is 1."""
        Q = self.forward(torch.ones(1, len(self.items))).dense()[0].detach()
        Q = Q - torch.diag(Q.diagonal())
        pairs = (Q + Q.mT)[~torch.eye(len(Q), dtype=torch.bool)]
        return Q / pairs.min()
