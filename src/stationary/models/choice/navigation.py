r"""Scores of pages from how often they are viewed: inverting a steady state (Kumar et al. 2015).

A visitor of page u goes on to a page v that u links to with probability ``s_v / S_u``, where
``S_u`` is the sum of the scores of all pages that u links to: a choice from the menu of u's links.
Given the graph and the steady state ``pi`` of this walk, find the scores. They balance

    sum_{u -> v} pi_u s_v / S_u = pi_v    for every page v,

so the flows ``X_uv = pi_u s_v / S_u`` have ``pi`` as their row and their column sums: a matrix with
the pattern of the graph is to be scaled to given sums. With ``t = log s`` this is the maximum of
the concave ``sum_v pi_v t_v - sum_u pi_u log S_u``. Newton steps find it, each by conjugate
gradients on products with sparse matrices, in time proportional to the edges.

Scores exist if and only if some flow that uses every edge has these sums. They are unique up to a
factor for each set of pages that are joined by common predecessors; the walk is always unique.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, cg
from torch import Tensor

from stationary._support.arguments import explained
from stationary._support.types import Array
from stationary.edges import Edges
from stationary.errors import InputError, SolverError
from stationary.generator import Generator

_SWEEPS = 20
_STEPS = 60
_INNER = 400
_LEAST = 1e-13


@dataclass(frozen=True, eq=False)
class Navigation:
    """Scores of pages, and the walk that they make.

    Attributes
    ----------
    scores : Tensor [n]
        With a mean logarithm of zero in every set; zero for pages that are never viewed.
    walk : Generator
        The walk, with one jump per unit of time on average: its steady state are the views.
    sets : Tensor [n]
        Scores of pages are comparable within a set only. Usually there is one, number 0; pages
        that are never viewed have -1.
    residual : float
        Largest difference between the views of a page and the flow into it, over its views.
    """

    scores: Tensor
    walk: Generator
    sets: Tensor
    residual: float


@explained
def navigation_scores(edges: Edges, views: Tensor, tolerance: float = 1e-10) -> Navigation:
    """Find scores whose random walk on a graph has given page views as its steady state.

    Parameters
    ----------
    edges : Edges
        Links between pages; links of a page to itself are left out.
    views : Tensor [n]
        How often each page is viewed, in any unit.
    tolerance : float
        The residual to reach; 1e-13, near rounding, at best.

    Examples
    --------
    >>> edges = Edges.from_pairs([(0, 1), (0, 2), (1, 0), (2, 0), (1, 2)], 3)
    >>> found = navigation_scores(edges, torch.tensor([4.0, 2.0, 3.0], dtype=torch.float64))
    >>> found.scores.round(decimals=6)
    tensor([1., 1., 1.], dtype=torch.float64)
    """
    if not isinstance(views, Tensor):
        raise InputError(f"views must be a tensor of numbers, one per page; got {views!r:.80}")
    if not tolerance > 0:
        raise InputError(f"tolerance must be positive; got {tolerance!r}")
    pi = views.detach().to(torch.float64).numpy()
    if pi.shape != (edges.n,) or not (np.isfinite(pi).all() and (pi >= 0).all() and pi.any()):
        raise InputError(
            f"views must be one number per page ({edges.n}), finite, not negative and not all "
            f"zero; got shape {tuple(views.shape)}"
        )
    pi = pi / pi.max()  # views in any unit, also where their sum overflows
    pi = pi / pi.sum()
    src, dst = edges.numpy
    used = (pi[src] > 0) & (pi[dst] > 0)
    links = csr_array((np.ones(used.sum()), (src[used], dst[used])), shape=(edges.n, edges.n))
    seen = pi > 0
    lonely = np.flatnonzero(seen & ((links.sum(0) == 0) | (links.sum(1) == 0)))
    if len(lonely):
        raise InputError(
            f"page {lonely[0]} is viewed, but has no link from or no link to another page that is: "
            f"no walk along the links has these views"
        )
    count, sets = _comparable(links, seen)
    with np.errstate(all="ignore"):  # where there are no scores, they run away
        logs, residual = _balance(links, pi, seen, max(tolerance, _LEAST))
    means = np.bincount(sets[seen], logs[seen], count) / np.bincount(sets[seen], minlength=count)
    scores = torch.from_numpy(np.where(seen, np.exp(logs - means[sets]), 0.0))
    to = scores[edges.dst]
    total = torch.zeros(edges.n, dtype=torch.float64).index_add(0, edges.src, to)[edges.src]
    walk = Generator(edges, torch.where(total > 0, to / total, 0.0))
    return Navigation(scores, walk, torch.from_numpy(sets), residual)


def _comparable(links: csr_array, seen: Array) -> tuple[int, Array]:
    """Number the sets of pages that share predecessors, directly or by way of others."""
    rows, columns = links.nonzero()
    n = len(seen)
    both = csr_array((np.ones(len(rows)), (rows, n + columns)), shape=(2 * n, 2 * n))
    _, label = connected_components(both, directed=False)
    sets = np.full(n, -1, dtype=np.int64)
    found, sets[seen] = np.unique(label[n:][seen], return_inverse=True)
    return len(found), sets


def _balance(links: csr_array, pi: Array, seen: Array, tolerance: float) -> tuple[Array, float]:
    """Maximise ``sum_v pi_v t_v - sum_u pi_u log S_u``; return ``t`` and what is left."""
    back = links.T.tocsr()
    weight = np.where(seen, pi, 1.0)

    def flows(t: Array) -> tuple[Array, Array, Array]:
        s = np.where(seen, np.exp(t), 0.0)
        leaving = np.divide(pi, links @ s, out=np.zeros_like(pi), where=seen)
        return s, leaving, s * (back @ leaving)

    def value(t: Array) -> float:
        total = links @ np.where(seen, np.exp(t), 0.0)
        return float(pi @ (t - np.log(np.where(seen, total, 1.0))))

    t = np.log(weight)
    for _ in range(_SWEEPS):  # each makes the sums of columns right, and those of rows nearly
        t = t + np.log(weight / np.where(seen, flows(t)[2], 1.0))
        t -= t[seen].mean()
    for _ in range(_STEPS):
        s, leaving, into = flows(t)
        gradient = pi - into
        residual = float(np.abs(gradient[seen] / pi[seen]).max())
        if residual <= tolerance:
            return t, residual
        if not residual < np.inf:
            break
        # Minus the second derivatives, scaled so that all pages count alike, few or many views.
        root, pull = np.sqrt(np.where(seen, into, 1.0)), leaving**2 / weight

        def curvature(d: Array, s: Array = s, pull: Array = pull, root: Array = root) -> Array:
            return np.where(seen, d, 0.0) - s / root * (back @ (pull * (links @ (s / root * d))))

        bend, slope = LinearOperator(links.shape, curvature, dtype=float), gradient / root
        rtol = min(1e-2, float(np.linalg.norm(slope)))
        step = cg(bend, slope, rtol=rtol, maxiter=_INNER)[0] / root
        here, gain, size = value(t), float(gradient @ step), 1.0
        while size > 1e-6 and not value(t + size * step) >= here + 1e-4 * size * gain - 1e-15:
            size /= 2
        t = t + size * step
    worst = int(np.abs(np.where(seen, gradient / weight, 0.0)).argmax())
    left = f"the flow into page {worst} still differs from its views by {residual:.1e} of them"
    raise SolverError(
        f"no scores were found: {left if residual < np.inf else 'they grow without bound'}. "
        f"Probably none exist, because no flow that uses every link has these views: leave out "
        f"links that are never used"
    )
