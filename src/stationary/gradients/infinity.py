r"""Infinity-SGD: the gradient as a randomly stopped series, unbiased (Theorem 1, corrected).

The exact gradient is ``dL/dq_ij = pi_i (v_j - v_i)`` with ``v = sum_l t_l`` a series of
`stationary.gradients.series` for ``-Q v = h``, ``h = g - (pi . g) 1``. Draw ``X`` on {1, 2, ...}
with ``Pr[X > l] = (1 - p)^l`` and use

    v_hat = sum_{l < X} t_l / (1 - p)^l,

whose mean is ``v``, since term l is there with probability ``(1 - p)^l``. It costs ``X - 1``
mat-vecs. (More terms than the first may be taken always, with ``Pr[X > l] = 1`` and weight one.)
The printed theorem sums to ``X`` and divides by ``Pr[X > l]``, one term too many; its authors'
program makes every term too large by ``1 / (1 - p)``. Centring ``g`` changes nothing in exact
arithmetic, but keeps the growing weights from amplifying the rounding of the constant part.

With a guess ``v0`` the series is summed for what is left of the equation,

    v_hat = v0 + sum_{l < X} t_l(r) / (1 - p)^l,    r = h + Q v0,

still unbiased for any ``v0`` chosen before X is drawn, with a variance that vanishes as ``v0``
nears ``v``. The guess is the last one for the same window plus the unweighted terms of the last
draw: steps of the convergent iteration, which carry none of the weights' noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from stationary._support.functions import is_transforming
from stationary.errors import InputError, SolverError
from stationary.generator import Generator
from stationary.gradients._base import Gradient
from stationary.gradients.series import Powers, Series, generator_times
from stationary.solvers import Factor, Solver

_SMALLEST = 1e-6
"""Stopping probability below which a gradient costs more terms than anybody waits for."""


@dataclass(frozen=True)
class Infinity(Gradient):
    """Randomly stopped, unbiased gradients at the price of a few mat-vecs.

    Parameters
    ----------
    p : float, callable or "auto"
        Stopping probability; ``1 / p`` terms on average. A function of the number of gradients
        taken so far gives a schedule; ``"auto"`` asks the series for one of finite variance.
    seed : int or tuple of int, optional
        Of the draws. Without it every run differs. Several seeds share the batch out in equal,
        consecutive parts, so that fits run side by side draw what each would draw alone.
    series : Series
        What is summed: `Powers` (the paper's), `Doubling` or `Preconditioned`.
    least : int
        Terms that are always taken; only after them is the series stopped at random. Where partial
        sums are far larger than the whole, as on overloaded chains of which only idle states are
        seen, nothing else keeps the variance down.
    draws : int
        Independent draws that are averaged.
    control : bool
        Sum only what is left of the last guess for the same window (see the module).

    Notes
    -----
    First derivatives only. Gradients change the strategy's random state; fits work on fresh copies.
    """

    p: float | Callable[[int], float] | Literal["auto"] = 0.1
    seed: int | tuple[int, ...] | None = None
    series: Series = field(default_factory=Powers)
    least: int = 1
    draws: int = 1
    control: bool = False
    state: _State = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.p, str):
            if self.p != "auto":
                raise InputError(f'p must be a number, a function or "auto"; got {self.p!r}')
        elif not callable(self.p):
            _check_probability(self.p)
        for name in ("draws", "least"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1; got {value!r}")
        if not isinstance(self.seed, int | None) and not (
            isinstance(self.seed, tuple) and self.seed
        ):
            raise InputError(f"seed must be an int, or a tuple of some; got {self.seed!r}")
        object.__setattr__(self, "state", _State(self.seed))

    def apply(self, generator: Generator, solver: Solver) -> tuple[Tensor, Factor]:
        """Exact steady state with a random way back."""
        if is_transforming():
            raise InputError(
                "Infinity() works with backward() and torch.autograd.grad, not under torch.func: "
                "use Exact() there"
            )
        factor = solver.factor(generator)
        return _RandomlyStopped.apply(generator.rates, generator, factor, self), factor

    def estimate(
        self, generator: Generator, pi: Tensor, g: Tensor, factor: Factor | None = None
    ) -> Tensor:
        """One unbiased estimate of ``v [..., n]``, up to a constant; beside a factor, if given."""
        h = g - (pi * g).sum(-1, keepdim=True)
        guess = torch.zeros_like(h)
        windows = generator.windows() if self.control else []
        if self.control:
            guess = self.state.guess(windows, h)
            h = h + generator_times(generator, guess)
        p = self.probability(generator)
        stop = self._draw(p)
        series = self.series if factor is None else self.series.beside(factor)
        total, plain = series.stopped(generator, h, stop, p, self.least)
        if not bool(total.isfinite().all()):
            raise SolverError(
                f"the randomly stopped gradient is not finite after {int(stop.max())} terms: the "
                f"weights outgrew the series; use a smaller p, p='auto', or series=Doubling()"
            )
        if self.control:
            after = (guess + plain).reshape(-1, h.shape[-1])
            self.state.guesses.update(zip(windows, after, strict=True))
        return guess + total

    def _draw(self, p: Tensor) -> Tensor:
        """``X [draws, ...]`` with ``Pr[X >= least + l] = (1 - p)^l``, by inversion."""
        streams = self.state.random
        if p.numel() % len(streams):
            raise InputError(f"{len(streams)} seeds cannot share a batch of {p.numel()} chains")
        each = (self.draws, p.numel() // len(streams))
        parts = [torch.rand(each, generator=stream, dtype=torch.float64) for stream in streams]
        uniform = torch.cat(parts, -1).reshape(self.draws, *p.shape)
        # 1 - uniform lies in (0, 1]; its logarithm is finite.
        stop = self.least + ((1 - uniform).log() / torch.log1p(-p.cpu())).floor()
        self.state.draws, self.state.steps = stop, self.state.steps + 1
        return stop.long().to(p.device)

    def probability(self, generator: Generator) -> Tensor:
        """Stopping probability of each chain ``[...]`` at this step."""
        if self.p == "auto":
            p = self.series.stop(generator)
            if not bool((p > _SMALLEST).all()):
                raise SolverError(
                    f"p='auto' comes to {p.min().item():.1e}: the chain mixes so slowly that a "
                    f"gradient would take {1 / _SMALLEST:.0e} terms or more; use Exact(), or "
                    f"series=Doubling() or Preconditioned(...) with a p of your own"
                )
        else:
            given = self.p(self.state.steps) if callable(self.p) else self.p
            p = torch.tensor(_check_probability(given))
        return p.to(generator.rates.detach()).expand(generator.batch_shape)

    def has_heavy_tails(self, generator: Generator) -> bool:
        """Whether the variance is infinite on some chain of the batch."""
        largest = self.series.largest_stop(generator)
        return bool((self.probability(generator) >= largest).any())

    def terms_taken(self) -> float:
        """Mean number of terms that were drawn for the last gradient; a series may end before."""
        return self.state.draws.mean().item()

    def fresh(self) -> Infinity:
        """Return the same strategy at the beginning of its random numbers, with no guesses."""
        return replace(self)

    def export(self) -> dict[str, Any]:
        """Return what it remembers, for a checkpoint."""
        return {
            "random": torch.stack([stream.get_state() for stream in self.state.random]),
            "steps": self.state.steps,
            "guesses": {str(window): guess for window, guess in self.state.guesses.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `export` returned."""
        if len(state["random"]) != len(self.state.random):
            raise InputError(
                f"the saved state has {len(state['random'])} random streams; this strategy has "
                f"{len(self.state.random)} seeds"
            )
        for stream, saved in zip(self.state.random, state["random"], strict=True):
            stream.set_state(saved)
        self.state.steps = state["steps"]
        self.state.guesses = {int(key): guess for key, guess in state["guesses"].items()}


class _RandomlyStopped(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rates: Tensor, generator: Generator, factor: Factor, strategy: Infinity
    ) -> Tensor:
        ctx.generator, ctx.factor, ctx.strategy = generator, factor, strategy
        ctx.save_for_backward(rates)
        return factor.pi.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
        if torch.is_grad_enabled():
            raise SolverError(
                "Infinity() gives first derivatives only; for create_graph=True use Exact()"
            )
        _ = ctx.saved_tensors  # raises if the rates were changed in place since
        pi = ctx.factor.pi
        v = ctx.strategy.estimate(ctx.generator, pi, g, ctx.factor)
        return ctx.generator.edges.rate_gradient(pi, v), None, None, None


class _State:
    """What a strategy remembers from step to step: random numbers, steps taken, guesses."""

    def __init__(self, seed: int | tuple[int, ...] | None) -> None:
        seeds = seed if isinstance(seed, tuple) else (seed,)
        self.random = [torch.Generator() for _ in seeds]
        for stream, value in zip(self.random, seeds, strict=True):
            if value is None:
                stream.seed()
            else:
                stream.manual_seed(value)
        self.steps = 0
        self.draws = torch.empty(0, dtype=torch.float64)
        self.guesses: dict[int, Tensor] = {}

    def guess(self, windows: list[int], like: Tensor) -> Tensor:
        """Return the last guess of each window; zero where there is none."""
        zero = like.new_zeros(like.shape[-1])
        return torch.stack([self.guesses.get(each, zero) for each in windows]).reshape(like.shape)


def _check_probability(p: float) -> float:
    if not _SMALLEST < p < 1:
        raise InputError(
            f"a stopping probability lies between {_SMALLEST:g} and 1, both left out; got {p!r}"
        )
    return float(p)
