r"""What a fit minimises: the conditional negative log-likelihood of the observed counts.

Let ``p_c`` be the probability of category c (its states' ``pi`` added up) and ``y_c`` its count.
Given that only the observed categories can be seen, a window costs

    L = - sum_c y_c log( p_c / sum_c' p_c' ),

with the denominator over the observed categories: the paper's Eq. (2) prints it over all states,
which its own text and its Eq. (3) contradict. Its gradient is

    dL/dp_c = - y_c / p_c + sum(y) / sum(p).
"""

from __future__ import annotations

import numba
import numpy as np
import torch
from torch import Tensor

# A category this unlikely is impossible in float64; the floor keeps 0 log 0 out of the sums.
_TINY = float(np.finfo(np.float64).tiny)


def conditional_probabilities(pi: Tensor, observation: Tensor) -> Tensor:
    """Probability of each category given that one of the observed ones is seen, ``[M, C]``.

    Parameters
    ----------
    pi : Tensor [M, n]
        Steady states.
    observation : Tensor [C, n]
        1 where a category covers a state.
    """
    p = (pi @ observation.mT).clamp_min(_TINY)
    return p / p.sum(-1, keepdim=True)


def conditional_nll(pi: Tensor, counts: Tensor, observation: Tensor) -> Tensor:
    """Conditional negative log-likelihood of every window, ``[M]``.

    Parameters
    ----------
    pi : Tensor [M, n]
        Steady states.
    counts : Tensor [M, C]
        Counts of the observed categories.
    observation : Tensor [C, n]
        1 where a category covers a state.

    Examples
    --------
    >>> import torch
    >>> pi = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    >>> first_two = torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=torch.float64)
    >>> conditional_nll(pi, torch.tensor([[5.0, 3.0]], dtype=torch.float64), first_two)
    tensor([5.2925], dtype=torch.float64)
    """
    return -(counts * conditional_probabilities(pi, observation).log()).sum(-1)


def nll_and_gradient(pi: Tensor, counts: Tensor, observation: Tensor) -> tuple[Tensor, Tensor]:
    """`conditional_nll` and its gradient ``dL/dpi [M, n]`` in one compiled pass, outside autograd.

    At the size of a usual fit, torch's dispatch costs more than these sums.
    """
    # Categories do not overlap, so a state's category is one index; C marks an unobserved state.
    category = torch.where(observation.any(0), observation.argmax(0), len(observation))
    value, gradient = np.empty(len(pi)), np.empty(pi.shape)
    _nll(pi.numpy(), counts.numpy(), category.numpy(), value, gradient)
    return torch.from_numpy(value), torch.from_numpy(gradient)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _nll(pi, counts, category, value, gradient):  # type: ignore[no-untyped-def]
    windows, categories = counts.shape
    p = np.empty(categories + 1)
    g = np.empty(categories + 1)
    for m in range(windows):
        p[:] = 0.0
        for s in range(pi.shape[1]):
            p[category[s]] += pi[m, s]
        total = p[:categories].sum()
        seen = counts[m].sum()
        value[m] = 0.0
        for c in range(categories):
            share = max(p[c], _TINY)
            value[m] -= counts[m, c] * np.log(share / total)
            g[c] = seen / total - counts[m, c] / share
        g[categories] = 0.0
        for s in range(pi.shape[1]):
            gradient[m, s] = g[category[s]]
