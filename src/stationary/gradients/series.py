r"""Series that sum to the solution of the Poisson equation ``-Q v = h``, where ``pi . h = 0``.

Each is a splitting: with an invertible ``M`` near ``-Q`` and ``T = I + M^-1 Q``,

    v = sum_l T^l M^-1 h.

The paper takes ``M = gamma I``, so that ``T`` is the uniformized chain ``P`` and far terms shrink
by ``1 - delta``, with ``delta`` its spectral gap. The factor of a nearby chain as ``M`` shrinks
them fast whatever the gap. Doubling adds the paper's terms in blocks of ``1, 1, 2, 4, 8, ...``, by
``sum_{l < 2^(k+1)} P^l = (I + P^(2^k)) sum_{l < 2^k} P^l``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from stationary._support.arguments import Checked
from stationary.errors import InputError, SolverError
from stationary.generator import Generator
from stationary.gradients._kernels import stopped_powers
from stationary.solvers import Factor
from stationary.solvers.device import Products
from stationary.spectrum import spectral_gap

_MOST_STATES = 2_000
"""States up to which a gap is computed, because it takes dense eigenvalues of every window."""

_NOTHING = 1e-14
"""Size of a block, over the sum so far, at which it is taken for rounding."""


def generator_times(generator: Generator, v: Tensor) -> Tensor:
    """``Q v`` in one pass over the edges, ``sum_j q_ij (v_j - v_i)``, outside the graph."""
    return Products(generator).times(v)


@dataclass(frozen=True)
class Series(Checked, ABC):
    """A convergent series for ``v``. A new one overrides `terms` and `stop`.

    Examples
    --------
    Jacobi's splitting, ``M`` the diagonal of ``-Q``:

    >>> import torch
    >>> from stationary import Generator, Infinity, steady_state
    >>> class Jacobi(Series):
    ...     def terms(self, generator, h):
    ...         diagonal = generator.exit_rates().detach()
    ...         term = h / diagonal
    ...         while True:
    ...             yield term
    ...             term = term + generator_times(generator, term) / diagonal
    ...     def stop(self, generator):
    ...         return torch.tensor(0.2)
    >>> Q = torch.rand(4, 4, dtype=torch.float64, requires_grad=True)
    >>> gradient = Infinity(p="auto", seed=0, series=Jacobi())
    >>> steady_state(Generator.from_dense(Q), gradient=gradient).pi[0].backward()
    """

    @abstractmethod
    def terms(self, generator: Generator, h: Tensor) -> Iterator[Tensor]:
        """Yield the terms ``[..., n]`` one after the other; a series may end when all is summed."""

    @abstractmethod
    def stop(self, generator: Generator) -> Tensor:
        """A stopping probability ``[...]`` or scalar at which the variance is finite."""

    def beside(self, factor: Factor) -> Series:
        """Return the series to sum beside this factor of the forward pass; itself by default."""
        del factor
        return self

    def largest_stop(self, generator: Generator) -> Tensor:
        """Stopping probability below which the variance is known to be finite; 1 if always."""
        return torch.ones((), dtype=generator.rates.dtype, device=generator.rates.device)

    def stopped(
        self, generator: Generator, h: Tensor, stop: Tensor, p: Tensor, least: int
    ) -> tuple[Tensor, Tensor]:
        """Sums of the first terms: weighted and averaged over draws, and plain.

        Draws take ``stop [draws, ...]`` terms, of which the first ``least`` are always taken. Term
        l, counted from 0, weighs one over the probability that it is taken: one for the first
        ``least``, and ``(1 - p)^-(l + 1 - least)`` after them. The plain sum goes as far as the
        longest draw.
        """
        total, plain = torch.zeros_like(h), torch.zeros_like(h)
        for k, term in zip(range(int(stop.max())), self.terms(generator, h), strict=False):
            going = (stop > k).to(h)
            # A weight may overflow for chains that stopped long ago, where it is not used.
            inverse = (1 - p) ** -max(k + 1 - least, 0)
            weight = torch.where(going.any(0), going.mean(0) * inverse, 0.0)
            total.addcmul_(term, weight[..., None])
            plain.addcmul_(term, going.amax(0)[..., None])
        return total, plain


@dataclass(frozen=True)
class Powers(Series):
    """The paper's series ``(1 / gamma) sum_l P^l h``: one pass over the edges per term.

    Parameters
    ----------
    margin : float
        How far ``gamma`` lies above the largest exit rate. A larger one narrows the gap.
    """

    margin: float = 0.0

    def __post_init__(self) -> None:
        if not self.margin >= 0:
            raise InputError(f"margin must not be negative; got {self.margin!r}")

    def gamma(self, generator: Generator) -> Tensor:
        """Uniformization rate ``[...]``."""
        return generator.event_rate().detach() + self.margin

    def terms(self, generator: Generator, h: Tensor) -> Iterator[Tensor]:
        """``P^l h / gamma``."""
        gamma, Q = self.gamma(generator), Products(generator)
        term = h / gamma[..., None]
        while True:
            yield term
            term = term + Q.times(term) / gamma[..., None]

    def stopped(
        self, generator: Generator, h: Tensor, stop: Tensor, p: Tensor, least: int
    ) -> tuple[Tensor, Tensor]:
        """The same sums, compiled, where the chains are on the CPU."""
        if h.device.type != "cpu":
            return super().stopped(generator, h, stop, p, least)
        edges, n = generator.edges, generator.n
        flat = h.reshape(-1, n)
        total, plain = flat.new_empty(flat.shape), flat.new_empty(flat.shape)
        stopped_powers(
            edges.src.numpy(),
            edges.dst.numpy(),
            generator.rates.detach().reshape(-1, len(edges.src)).numpy(),
            self.gamma(generator).reshape(-1).numpy(),
            flat.numpy(),
            stop.reshape(len(stop), -1).numpy(),
            p.reshape(-1).numpy(),
            least,
            total.numpy(),
            plain.numpy(),
        )
        return total.reshape(h.shape), plain.reshape(h.shape)

    def largest_stop(self, generator: Generator) -> Tensor:
        """Stopping probability ``[...]`` below which the variance is finite, ``delta (2 - delta)``.

        Term l has size ``(1 - delta)^l`` and weight ``(1 - p)^-l`` with probability ``(1 - p)^l``,
        so the second moment is a geometric series of ratio ``(1 - delta)^2 / (1 - p)``. The paper
        asks for ``p < delta``, which is enough but not needed. Zero where the chain is too large
        for its gap to be known.
        """
        if generator.n > _MOST_STATES:
            return generator.rates.new_zeros(generator.batch_shape)
        delta = spectral_gap(generator, self.gamma(generator))
        return delta * (2 - delta)

    def stop(self, generator: Generator) -> Tensor:
        """Half of `largest_stop`.

        Work times variance grows with p as ``1 / (largest - p)``, so half the largest costs twice
        the unattainable best of p = 0, and a larger p soon costs much more.
        """
        if generator.n > _MOST_STATES:
            raise SolverError(
                f'p="auto" needs the spectral gap, which takes too long to find for '
                f"{generator.n:,} states: choose p, or series=Preconditioned()"
            )
        return self.largest_stop(generator) / 2


@dataclass(frozen=True)
class Doubling(Series):
    """The paper's series in blocks that double: one product of dense matrices per block.

    For small chains. Blocks grow until the chain has mixed and vanish at once after it, so that any
    stopping probability gives a finite variance. The series ends with the first block that is lost
    in rounding, so that a small probability costs no more than mixing does. A mode slower than the
    rest may then lack: at most the rounding of a block over the spectral gap.
    """

    def terms(self, generator: Generator, h: Tensor) -> Iterator[Tensor]:
        """``h / gamma``, then ``P^(2^k)`` times the sum so far, for k = 0, 1, ..."""
        power, gamma = generator.uniformize()
        power = power.detach()
        total = h / gamma.detach()[..., None]
        yield total
        while True:
            term = (power @ total[..., None])[..., 0]
            # A constant in v means nothing, but would double with every block.
            term = term - term.mean(-1, keepdim=True)
            yield term
            total = total + term
            if bool((term.abs() <= _NOTHING * total.abs().amax(-1, keepdim=True)).all()):
                return
            power = power @ power
            power = power / power.sum(-1, keepdim=True)  # or rounding would be squared on and on

    def stop(self, generator: Generator) -> Tensor:
        """Stop such that half of the draws reach the block in which the chain mixes."""
        blocks = 2 - spectral_gap(generator).log2()
        return 1 - 0.5 ** (1 / blocks)


@dataclass(frozen=True, eq=False)
class Preconditioned(Series):
    """The series of a factor of a nearby chain, which converges fast whatever the spectral gap.

    Parameters
    ----------
    factor : Factor, optional
        Of the same chains, or of all the windows of a fit, at parameters not far away, as in
        ``GTH().factor(model.generator(windows.x, theta))``. By default what the solver of the
        forward pass has at hand: `Factor.precondition`.
    p : float
        Stopping probability for ``p="auto"``; finite variance needs ``p < 1 - rho(T)^2``.
    """

    factor: Factor | None = None
    p: float = 0.5
    selected: bool = field(default=False, repr=False)
    """Whether the factor is of the very chains of a step, and not of all the windows of a fit."""

    def beside(self, factor: Factor) -> Series:
        """Take the forward pass's factor where none was given."""
        return self if self.factor is not None else replace(self, factor=factor, selected=True)

    def terms(self, generator: Generator, h: Tensor) -> Iterator[Tensor]:
        """``T^l M^-1 h``, with ``M^-1`` the factor's solution on vectors centred by its own pi."""
        factor = self.factor
        if factor is None:
            raise InputError("a series without a factor is summed beside a forward pass only")
        if generator.index is not None and not self.selected:
            factor = factor.select(generator.index)
        if h.shape != factor.pi.shape:
            raise InputError(
                f"the factor is of chains of shape {tuple(factor.pi.shape)}, the gradient of "
                f"shape {tuple(h.shape)}; make the factor from the same windows"
            )
        # What is left of the equation, and not T of the last term: a cycle need not be linear.
        left, Q = h, Products(generator)
        while True:
            term = factor.precondition(left)
            yield term
            left = left + Q.times(term)

    def stop(self, generator: Generator) -> Tensor:
        """The given one."""
        return generator.rates.new_tensor(self.p)
