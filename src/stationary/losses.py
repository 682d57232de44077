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

from stationary.data.observation import ObservationMap

# A category this unlikely is impossible; the floor keeps 0 log 0 out of the sums, and is high
# enough for any count over it to stay finite.
_TINY = 1e-290


def conditional_probabilities(pi: Tensor, observation: ObservationMap) -> Tensor:
    """Probability of each category given that one of the observed ones is seen, ``[M, C]``.

    Parameters
    ----------
    pi : Tensor [M, n]
        Steady states.
    observation : ObservationMap
        Which category covers each state.
    """
    p = observation.of(pi).clamp_min(_TINY)
    return p / p.sum(-1, keepdim=True)


def conditional_nll(pi: Tensor, counts: Tensor, observation: ObservationMap) -> Tensor:
    """Conditional negative log-likelihood of every window, ``[M]``.

    Parameters
    ----------
    pi : Tensor [M, n]
        Steady states.
    counts : Tensor [M, C]
        Counts of the observed categories.
    observation : ObservationMap
        Which category covers each state.

    Examples
    --------
    >>> import torch
    >>> pi = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    >>> first_two = ObservationMap(torch.tensor([0, 1, 2]), 2)
    >>> conditional_nll(pi, torch.tensor([[5.0, 3.0]], dtype=torch.float64), first_two)
    tensor([5.2925], dtype=torch.float64)
    """
    return -(counts * conditional_probabilities(pi, observation).log()).sum(-1)


def nll_and_gradient(
    pi: Tensor, counts: Tensor, observation: ObservationMap
) -> tuple[float, Tensor]:
    """Sum of `conditional_nll` and its gradient ``dL/dpi [M, n]`` in one compiled pass.

    At the size of a usual fit, torch's dispatch costs more than these sums.
    """
    gradient = np.empty(pi.shape)
    value = _nll(pi.numpy(), counts.numpy(), observation.category.numpy(), gradient)
    return value, torch.from_numpy(gradient)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _nll(pi, counts, category, gradient):  # type: ignore[no-untyped-def]
    windows, categories = counts.shape
    p = np.empty(categories + 1)
    g = np.empty(categories + 1)
    value = 0.0
    for m in range(windows):
        p[:] = 0.0
        for s in range(pi.shape[1]):
            p[category[s]] += pi[m, s]
        total = 0.0
        for c in range(categories):
            p[c] = max(p[c], _TINY)
            total += p[c]
        seen = counts[m].sum()
        for c in range(categories):
            value -= counts[m, c] * np.log(p[c] / total)
            g[c] = seen / total - counts[m, c] / p[c]
        g[categories] = 0.0
        for s in range(pi.shape[1]):
            gradient[m, s] = g[category[s]]
    return value
