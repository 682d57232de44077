"""How fast a chain forgets: spectral gap and mixing time of its uniformized chain."""

from __future__ import annotations

import torch
from torch import Tensor

from stationary._support.arguments import explained
from stationary._support.threads import one_thread
from stationary.errors import InputError
from stationary.generator import Generator, as_generator
from stationary.solvers import Auto

_LONGEST = 2**60

MOST_STATES = 10_000
"""States up to which a spectrum is computed, because it takes dense matrices."""


@explained
def spectral_gap(generator: Generator | Tensor, gamma: Tensor | float | None = None) -> Tensor:
    """``1 - |lambda_2|`` of ``P = I + Q / gamma``, ``[...]``.

    Parameters
    ----------
    generator : Generator or Tensor [..., n, n]
        Irreducible chains, solved densely.
    gamma : Tensor or float, optional
        Uniformization rate; just above the largest exit rate by default.

    Examples
    --------
    >>> import torch
    >>> Q = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    >>> spectral_gap(Q, gamma=4.0)
    tensor(0.5000, dtype=torch.float64)
    """
    generator = as_generator(generator)
    _check_size(generator)
    P, _ = generator.uniformize(gamma)
    # Scaled by sqrt(pi), a reversible chain is a symmetric matrix and any other closer to one.
    # Unscaled, an M/M/1/K at low load is so far from normal that half the digits are lost.
    pi = Auto().factor(generator).pi.clamp_min(torch.finfo(P.dtype).tiny)
    scale = pi.sqrt()[..., :, None] / pi.sqrt()[..., None, :]
    with one_thread():
        eigenvalues = torch.linalg.eigvals(P.detach() * scale)
    modulus = eigenvalues.abs().sort(-1, descending=True).values
    # The first is 1, the eigenvalue of the steady state itself.
    return 1 - modulus[..., 1] if generator.n > 1 else modulus[..., 0]


@explained
def mixing_time(
    generator: Generator | Tensor, eps: float = 1e-5, gamma: Tensor | float | None = None
) -> Tensor:
    """The paper's ``mix(P, eps)`` (Appendix A2): steps until the rows of ``P^t`` agree, ``[...]``.

    The smallest ``t >= 1`` with ``max_i sum_j (P^t_ij - mean_k P^t_kj)^2 <= eps``, found by
    repeated squaring and bisection, in ``O(log t)`` matrix products. That supposes that the
    distance falls with t, which it does but for the first few steps of some chains.

    Parameters
    ----------
    generator : Generator or Tensor [..., n, n]
        Irreducible chains.
    eps : float
        Largest squared distance of a row from the mean row.
    gamma : Tensor or float, optional
        Uniformization rate; just above the largest exit rate by default.

    Examples
    --------
    The fast example of the paper's appendix:

    >>> import torch
    >>> Q = torch.diag(torch.full((19,), 25.0), 1) + torch.diag(torch.full((19,), 1.0), -1)
    >>> mixing_time(Q.double())
    tensor(27)
    """
    if not (isinstance(eps, int | float) and eps > 0):
        raise InputError(f"eps must be positive; got {eps!r}")
    generator = as_generator(generator)
    _check_size(generator)
    generator.check_irreducible()
    P, _ = generator.uniformize(gamma)
    flat = P.detach().reshape(-1, generator.n, generator.n)
    steps = [_steps_until(chain, eps) for chain in flat]
    return torch.tensor(steps, dtype=torch.long).reshape(generator.batch_shape)


def _check_size(generator: Generator) -> None:
    if generator.n > MOST_STATES:
        raise InputError(
            f"the spectrum of a chain takes dense matrices, which are made for up to "
            f"{MOST_STATES:,} states; got {generator.n:,}"
        )


def _steps_until(P: Tensor, eps: float) -> int:
    def mixed(power: Tensor) -> bool:
        return bool((power - power.mean(0)).square().sum(-1).max() <= eps)

    if mixed(P):
        return 1
    powers = [P]  # P^(2^k), all but the last not mixed
    while not mixed(powers[-1]):
        if 2 ** len(powers) > _LONGEST:
            raise InputError(f"the chain does not mix to eps={eps:g} within {_LONGEST:.0e} steps")
        powers.append(powers[-1] @ powers[-1])
    # The largest t that is not mixed, built up from its binary digits.
    steps, power = 2 ** (len(powers) - 2), powers[-2]
    for k in range(len(powers) - 3, -1, -1):
        further = power @ powers[k]
        if not mixed(further):
            steps, power = steps + 2**k, further
    return steps + 1
