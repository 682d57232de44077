"""Chains with transient states: zero there, right elsewhere, and exact derivatives."""

import pytest
import torch

import problems
import stationary as st
from problems import relative_error
from stationary.errors import SolverError
from stationary.solvers import GTH, Accuracy, BirthDeath, Jacobi, Multigrid

SOLVERS = [*problems.DENSE, Jacobi()]
name = repr
N = 7
CLOSED = [[0, 1, 2], [2, 4, 5], [6], [3, 4, 5, 6], list(range(N)), [1, 6]]
"""Closed classes of a batch of chains: each has its own, some without the first state."""


def batch():
    """Rates ``[2, 3, N, N]`` of chains with these closed classes, in a random pattern elsewhere."""
    Q = problems.random_rates(6, n=N, seed=4)
    for k, closed in enumerate(CLOSED):
        outside = torch.ones(N, dtype=torch.bool)
        outside[closed] = False
        Q[k, ~outside[:, None] & outside[None, :]] = 0.0
        # Not every transient state has a way of its own into the closed class.
        first = outside.nonzero()[:1, 0]
        rest = outside.clone()
        rest[first] = False
        Q[k, rest[:, None] & ~outside[None, :]] = 0.0
    Q.diagonal(dim1=-2, dim2=-1).zero_()
    return Q.reshape(2, 3, N, N)


def by_parts(Q, closed):
    """Steady state of the closed class on its own, in 60 digits."""
    return problems.steady(st.Generator.from_dense(Q[closed][:, closed]))


@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_the_steady_state_lives_on_the_closed_class(solver):
    Q = batch()
    state = st.steady_state(Q, solver)
    tolerance = 1e-13 if state.accuracy is Accuracy.ENTRYWISE else 1e-8
    for k, closed in enumerate(CLOSED):
        pi = state.pi.flatten(0, 1)[k]
        assert relative_error(pi[closed], by_parts(Q.flatten(0, 1)[k], closed)) < tolerance
        assert pi.count_nonzero() == len(closed)
    assert float(state.residual.max()) < tolerance


def sensitivities(Q, pi):
    """``dpi/dq_ij`` ``[n, n, n]`` by inverting ``1 pi - Q``: no ground, no elimination."""
    n = len(Q)
    full = Q - torch.diag(Q.sum(-1))
    inverse = torch.linalg.inv(torch.outer(torch.ones(n).double(), pi) - full)
    return pi[:, None, None] * (inverse[None, :, :] - inverse[:, None, :])


@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_gradients_are_exact_also_in_rates_that_are_zero(solver):
    Q = batch().requires_grad_()
    pi = st.steady_state(Q, solver).pi
    g = torch.linspace(-1, 2, N, dtype=torch.float64).sin()
    (pi @ g).sum().backward()
    off = ~torch.eye(N, dtype=torch.bool)
    for k in range(6):
        rates, row = Q.detach().flatten(0, 1)[k], pi.detach().flatten(0, 1)[k]
        gradient = Q.grad.flatten(0, 1)[k]
        expected = sensitivities(rates, row) @ g
        torch.testing.assert_close(gradient[off], expected[off], rtol=1e-8, atol=1e-9)
        assert not gradient[row == 0].any()  # a rate out of a transient state changes nothing


@pytest.mark.parametrize("solver", [GTH(), st.solvers.LU(), problems.TensorGTH()], ids=name)
def test_second_derivatives_with_transient_states(solver):
    Q = batch().flatten(0, 1)[:4]

    def pi(logs):
        return st.steady_state(Q * logs.exp(), solver).pi

    logs = torch.zeros_like(Q).requires_grad_()
    # Along random directions: entry by entry would take a solve for each of 784 pairs and more.
    assert torch.autograd.gradcheck(pi, logs, fast_mode=True)
    assert torch.autograd.gradgradcheck(pi, logs, atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("gradient", [st.BPTT(steps=400), st.Infinity(p=0.02, seed=1)], ids=repr)
def test_other_gradients_take_transient_states_too(gradient):
    Q = batch()[0, :2].repeat(300, 1, 1, 1)
    g = torch.arange(N).double()
    slopes = []
    for way in (st.Exact(), gradient):
        rates = Q.clone().requires_grad_()
        (st.steady_state(rates, gradient=way).pi @ g).sum().backward()
        slopes.append(rates.grad)
    exact, drawn = slopes[0][0], slopes[1]
    scatter = drawn.std(0) / len(drawn) ** 0.5
    assert bool(((drawn.mean(0) - exact).abs() <= 4.5 * scatter + 1e-6).all())


@pytest.mark.parametrize("solver", [*problems.ENTRYWISE, BirthDeath()], ids=name)
@pytest.mark.parametrize(("first", "last"), [(0, 40), (5, 40), (0, 30), (5, 30), (7, 7), (0, 0)])
def test_birth_death_chains_that_end_in_a_part_of_their_states(solver, first, last):
    inside = problems.mm1k(1.0, 5.0, last - first)
    births, deaths = torch.ones(40).double(), torch.full((40,), 5.0).double()
    births[last : last + 1] = 0.0
    deaths[:first][-1:] = 0.0
    steps = torch.arange(40)
    edges = st.Edges(torch.cat([steps, steps + 1]), torch.cat([steps + 1, steps]), 41)
    rates = torch.cat([births, deaths]).requires_grad_()
    state = st.steady_state(st.Generator(edges, rates), solver)
    assert relative_error(state.pi[first : last + 1], inside.pi) < 1e-12
    assert state.pi.count_nonzero() == last - first + 1
    g = torch.linspace(0, 3, 41).double().cos()
    (gradient,) = torch.autograd.grad(state.pi @ g, rates)
    Q = st.Generator(edges, rates.detach()).dense().fill_diagonal_(0.0)
    expected = (sensitivities(Q, state.pi.detach()) @ g)[edges.src, edges.dst]
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


def test_a_birth_death_chain_whose_rare_states_underflow_ends_in_a_part():
    births, deaths = torch.full((300,), 1e-3).double(), torch.ones(300).double()
    deaths[9], births[250] = 0.0, 0.0
    steps = torch.arange(300)
    edges = st.Edges(torch.cat([steps, steps + 1]), torch.cat([steps + 1, steps]), 301)
    generator = st.Generator(edges, torch.cat([births, deaths]))
    pi = st.steady_state(generator, BirthDeath()).pi
    torch.testing.assert_close(pi, st.steady_state(generator, GTH()).pi, rtol=1e-12, atol=0.0)
    assert pi[10] > 0.99
    assert pi[9] == 0.0


def test_chains_too_large_for_elimination():
    steps = torch.arange(2499)
    across = steps[(steps + 1) % 50 != 0]
    down = steps[steps < 2450]
    pairs = [(across, across + 1), (across + 1, across), (down, down + 50), (down + 50, down)]
    src, dst = (torch.cat(ends) for ends in zip(*pairs, strict=True))
    edges = st.Edges(src, dst, 2500)
    rates = 0.5 + torch.rand(len(edges), generator=torch.Generator().manual_seed(1)).double()
    rates[(src % 50 >= 20) & (dst % 50 < 20)] = 0.0  # a part of the plane that is left for ever
    generator = st.Generator(edges, rates.requires_grad_())
    state = st.steady_state(generator)
    exact = st.steady_state(generator, GTH())
    torch.testing.assert_close(state.pi, exact.pi, rtol=1e-9, atol=1e-12)
    assert not state.pi[torch.arange(2500) % 50 < 20].any()
    slopes = [torch.autograd.grad(s.pi[25] + s.pi[-1], rates)[0] for s in (state, exact)]
    torch.testing.assert_close(*slopes, rtol=1e-8, atol=1e-10)
    with pytest.raises(SolverError, match="transient"):
        st.steady_state(generator, Multigrid())
