"""Chains with known exact answers, and high-precision oracles for the others.

Every oracle works on the float64 rates as they are, so a difference is the solver's error alone.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import torch
from hypothesis import strategies as some
from torch import Tensor

import stationary as st
from stationary.gradients.series import generator_times
from stationary.solvers import Factor, Solver
from stationary.solvers.gth import _TensorFactor

Exact = Sequence[Fraction] | Sequence[Decimal]


@dataclass(frozen=True)
class TensorGTH(Solver):
    """The elimination that other devices get, made to run on this one."""

    def factor(self, generator: st.Generator) -> Factor:
        return _TensorFactor(generator)


DENSE = [
    st.solvers.GTH(),
    st.solvers.SparseGTH(),
    st.solvers.LU(),
    st.solvers.SparseLU(),
    TensorGTH(),
    st.solvers.Auto(),
]
SOLVERS = [*DENSE, st.solvers.BirthDeath()]
ENTRYWISE = [st.solvers.GTH(), st.solvers.SparseGTH(), TensorGTH(), st.solvers.Auto()]


@dataclass(frozen=True)
class Problem:
    """A chain and its exact steady state."""

    generator: st.Generator
    pi: Exact

    def shuffled(self, seed: int) -> Problem:
        """Return the same chain with its states in another order."""
        n = self.generator.n
        place = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
        edges = self.generator.edges
        pi = [self.pi[0]] * n
        for state, position in enumerate(place.tolist()):
            pi[position] = self.pi[state]
        moved = st.Edges(place[edges.src], place[edges.dst], n)
        return Problem(st.Generator(moved, self.generator.rates), pi)


def birth_death(births: Sequence[float], deaths: Sequence[float]) -> Problem:
    """Chain ``k -> k+1`` at ``births[k]``, ``k+1 -> k`` at ``deaths[k]``; exact by products."""
    n = len(births) + 1
    weight = [Fraction(1)]
    for up, down in zip(births, deaths, strict=True):
        weight.append(weight[-1] * Fraction(up) / Fraction(down))
    total = sum(weight)
    steps = [(k, k + 1) for k in range(n - 1)]
    edges = st.Edges.from_pairs(steps + [(j, i) for i, j in steps], n)
    rates = torch.tensor([*births, *deaths], dtype=torch.float64)
    return Problem(st.Generator(edges, rates), [w / total for w in weight])


def mm1k(arrival: float, service: float, capacity: int) -> Problem:
    return birth_death([arrival] * capacity, [service] * capacity)


def balanced(n: int, seed: int, decades: float) -> Problem:
    """Dense, not reversible, and yet with a known answer, at any size.

    Flows that are a circulant plus a symmetric matrix balance in every state, so rates
    ``flow_ij / pi_i`` have the steady state ``pi`` up to rounding, whatever ``pi`` is.
    """
    random = torch.Generator().manual_seed(seed)
    circle = torch.rand(n, generator=random, dtype=torch.float64)
    step = (torch.arange(n)[None, :] - torch.arange(n)[:, None]) % n
    symmetric = torch.rand(n, n, generator=random, dtype=torch.float64)
    flow = circle[step] + symmetric + symmetric.mT
    weight = 10 ** (decades * torch.rand(n, generator=random, dtype=torch.float64))
    exact = [Fraction(w) for w in weight.tolist()]
    total = sum(exact)
    generator = st.Generator.from_dense(flow / weight[:, None])
    return Problem(generator, [w / total for w in exact])


def tandem(shape: Sequence[int], arrival: float, services: Sequence[float]) -> st.Generator:
    """Queues in a row: served by one, a request joins the next; a full one blocks who serves it.

    Their lengths, each below its entry of ``shape``, are the state, counted row by row.
    """
    length = np.indices(shape).reshape(len(shape), -1).T
    room = np.array(shape) - 1
    src, dst, rates = [], [], []
    for k, rate in enumerate([arrival, *services]):
        step = np.zeros(len(shape), dtype=int)  # from queue k - 1, or outside, to queue k, or out
        if k > 0:
            step[k - 1] = -1
        if k < len(shape):
            step[k] += 1
        after = length + step
        may = ((after >= 0) & (after <= room)).all(axis=1)
        src.append(np.ravel_multi_index(tuple(length[may].T), tuple(shape)))
        dst.append(np.ravel_multi_index(tuple(after[may].T), tuple(shape)))
        rates.append(np.full(int(may.sum()), rate))
    edges = torch.from_numpy(np.array([np.concatenate(src), np.concatenate(dst)]))
    return st.Generator(edges, torch.from_numpy(np.concatenate(rates)), n=int(np.prod(shape)))


def random_rates(*batch: int, n: int, seed: int) -> Tensor:
    """Well-conditioned dense rates ``[*batch, n, n]``."""
    random = torch.Generator().manual_seed(seed)
    return 0.1 + torch.rand(*batch, n, n, generator=random, dtype=torch.float64)


@some.composite
def ergodic_chains(draw: some.DrawFn, decades: float = 12.0) -> st.Generator:
    """Draw a sparse chain made irreducible by a cycle, its rates log-uniform over the decades."""
    n = draw(some.integers(2, 12))
    order = draw(some.permutations(range(n)))
    cycle = {(order[k], order[(k + 1) % n]) for k in range(n)}
    state = some.integers(0, n - 1)
    more = draw(some.sets(some.tuples(state, state), max_size=2 * n))
    pairs = sorted(cycle | {(i, j) for i, j in more if i != j})
    random = torch.Generator().manual_seed(draw(some.integers(0, 2**32)))
    exponents = decades * (2 * torch.rand(len(pairs), generator=random, dtype=torch.float64) - 1)
    return st.Generator(st.Edges.from_pairs(pairs, n), 10**exponents)


def steady(generator: st.Generator, digits: int = 60) -> list[Decimal]:
    """Steady state of one chain by GTH elimination in decimal arithmetic, right to all digits.

    Nothing is subtracted, so ``digits`` in are ``digits`` out, however far apart the rates.
    """
    with localcontext() as context:
        context.prec = digits + 10
        rates = [Decimal(rate) for rate in generator.rates.tolist()]
        return _eliminate(generator, rates)


def elasticities(generator: st.Generator) -> list[list[Decimal]]:
    """``d log pi_j / d log q_e`` for every edge e and state j, to about 40 digits.

    By finite differences, hence independent of any adjoint: with 100 digits and a step of 1e-45
    neither rounding nor the second derivative is seen.
    """
    with localcontext() as context:
        context.prec = 100
        step = Decimal("1e-45")
        rates = [Decimal(rate) for rate in generator.rates.tolist()]
        base = _eliminate(generator, rates)
        rows = []
        for e, rate in enumerate(rates):
            moved = [*rates[:e], rate * (1 + step), *rates[e + 1 :]]
            rows.append(
                [
                    (p / q - 1) / step
                    for p, q in zip(_eliminate(generator, moved), base, strict=True)
                ]
            )
        return rows


def _eliminate(generator: st.Generator, rates: list[Decimal]) -> list[Decimal]:
    n = generator.n
    Q: list[dict[int, Decimal]] = [{} for _ in range(n)]
    for i, j, rate in zip(
        generator.edges.src.tolist(), generator.edges.dst.tolist(), rates, strict=True
    ):
        Q[i][j] = rate
    for k in range(n - 1, 0, -1):
        row = {j: rate for j, rate in Q[k].items() if j < k}
        pivot = sum(row.values())
        for i in range(k):
            if k in Q[i]:
                Q[i][k] /= pivot
                share = Q[i][k]
                for j, rate in row.items():
                    if j != i:
                        Q[i][j] = Q[i].get(j, Decimal(0)) + share * rate
    pi = [Decimal(1)]
    for k in range(1, n):
        pi.append(sum((pi[i] * Q[i][k] for i in range(k) if k in Q[i]), Decimal(0)))
    total = sum(pi)
    return [p / total for p in pi]


def solved(moves: Mapping[tuple[Hashable, Hashable], float]) -> dict[Hashable, float]:
    """Steady state of a chain written down as ``{(from, to): rate}``, by NumPy's least squares."""
    states = list(dict.fromkeys(state for pair in moves for state in pair))
    place = {state: k for k, state in enumerate(states)}
    Q = np.zeros((len(states), len(states)))
    for (i, j), rate in moves.items():
        Q[place[i], place[j]] += rate
        Q[place[i], place[i]] -= rate
    A = np.vstack([Q.T, np.ones(len(states))])
    pi = np.linalg.lstsq(A, np.eye(len(states) + 1)[-1], rcond=None)[0]
    return dict(zip(states, pi.tolist(), strict=True))


def relative_errors(got: Tensor, exact: Exact) -> list[float]:
    """Relative error of every entry, computed without rounding."""
    kind = type(exact[0])
    with localcontext() as context:
        context.prec = 60
        return [float(abs(kind(g) - e) / e) for g, e in zip(got.tolist(), exact, strict=True)]


def relative_error(got: Tensor, exact: Exact) -> float:
    """Return the largest relative error of an entry; NaN counts as infinite."""
    worst = max(relative_errors(got, exact))
    return math.inf if math.isnan(worst) else worst


def floats(exact: Exact) -> Tensor:
    return torch.tensor([float(e) for e in exact], dtype=torch.float64)


def finite_gradient(generator: st.Generator, steps: int, p0: Tensor, g: Tensor) -> Tensor:
    """Gradient of ``p0 P^t g`` with respect to every rate ``[..., E]``, by Lemma 1.

    The event rate ``gamma`` is held fixed, as in the lemma; with many steps it drops out.
    """
    gamma = generator.event_rate().detach()[..., None]
    forwards = [p0]
    Q = generator.dense().detach()
    for _ in range(steps - 1):
        last = forwards[-1]
        forwards.append(last + (last[..., None, :] @ Q)[..., 0, :] / gamma)
    total = torch.zeros_like(generator.rates)
    backward = g
    for forward in reversed(forwards):
        total = total + generator.edges.rate_gradient(forward, backward) / gamma
        backward = backward + generator_times(generator, backward) / gamma
    return total
