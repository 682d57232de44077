"""Multigrid beyond the battery of `test_large.py`: random, long and slow chains, and starts."""

import numpy as np
import pytest
import scipy.sparse.linalg
import torch

import problems
import stationary as st
from stationary.errors import InputError, ReducibleError, SolverError
from stationary.solvers import Accuracy, multigrid
from stationary.solvers._aggregation import COARSEST, group_states

LIGHT, SATURATED = (0.5, 0.6, 0.7), (0.98, 1.0, 1.02)


def lattice(queues, capacity, loads):
    """Queues in series with room for ``capacity`` each, arrivals at rate 1."""
    return problems.tandem((capacity + 1,) * queues, 1.0, [1 / load for load in loads[:queues]])


def random_chain(n, each, decades, seed):
    """Draw a sparse chain without any structure, made irreducible by a cycle through all states."""
    random = np.random.default_rng(seed)
    src = np.concatenate([np.repeat(np.arange(n), each), np.arange(n)])
    dst = np.concatenate([random.integers(0, n, n * each), (np.arange(n) + 1) % n])
    pairs = np.unique((src * n + dst)[src != dst])
    edges = st.Edges(torch.from_numpy(pairs // n), torch.from_numpy(pairs % n), n)
    rates = 10 ** (decades * (random.random(len(pairs)) - 0.5))
    return st.Generator(edges, torch.from_numpy(rates))


class Reference:
    """Scipy's LU without the first state, refined: independent of our solvers."""

    def __init__(self, generator):
        self.Q = generator.sparse()
        self.edges = generator.edges
        self.lu = scipy.sparse.linalg.splu(-self.Q[1:, 1:].tocsc())
        pi = np.ones(generator.n)
        pi[1:] = self.lu.solve(self.Q[[0]].toarray()[0, 1:], trans="T")
        for _ in range(3):
            pi[1:] += self.lu.solve((pi @ self.Q)[1:], trans="T")
        self.pi = pi / pi.sum()

    def solve(self, h):
        v = np.zeros(len(h))
        for _ in range(4):
            v[1:] += self.lu.solve((h + self.Q @ v)[1:])
        return v

    def elasticities(self, g):
        v = self.solve(g - self.pi @ g)
        src, dst = self.edges.numpy
        return self.pi[src] * (v[dst] - v[src])


def error(pi, exact):
    return float(np.abs(pi.numpy() - exact).sum())


# Steady states.


@pytest.mark.parametrize("load", [0.8, 1.0])
@pytest.mark.parametrize("capacity", [99, 199])
def test_errors_not_only_residuals_are_small_where_the_chain_hardly_mixes(capacity, load):
    chain = lattice(2, capacity, (load, load))
    factor = st.solvers.Multigrid().factor(chain)
    reference = Reference(chain)
    assert error(factor.pi, reference.pi) < 1e-9
    g = np.arange(chain.n) // (capacity + 1) / capacity  # the mean number in the first queue
    ours = factor.rate_gradient(torch.from_numpy(g)).numpy()
    exact = reference.elasticities(g)
    assert np.abs(ours - exact).sum() < 1e-9 * np.abs(exact).sum()


@pytest.mark.parametrize(("each", "decades"), [(1, 1.0), (3, 6.0), (8, 3.0)])
def test_random_sparse_chains(each, decades):
    chain = random_chain(2000, each, decades, seed=each)
    state = st.steady_state(chain, st.solvers.Multigrid())
    assert error(state.pi, st.steady_state(chain, st.solvers.GTH()).pi.numpy()) < 1e-11
    assert bool((state.pi > 0).all())
    assert state.accuracy is Accuracy.NORMWISE


def test_a_ring_in_one_direction():
    n = 3000
    rates = 0.1 + torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    step = torch.arange(n)
    chain = st.Generator(st.Edges(step, (step + 1) % n, n), rates)
    assert (
        error(st.solvers.Multigrid().factor(chain).pi, (1 / rates / (1 / rates).sum()).numpy())
        < 1e-12
    )


@pytest.mark.parametrize("load", [0.1, 0.9, 1.0])
def test_a_long_queue_and_its_tail(load):
    problem = problems.mm1k(load, 1.0, 500)
    pi = st.solvers.Multigrid().factor(problem.generator).pi
    exact = problems.floats(problem.pi)
    assert error(pi, exact.numpy()) < 1e-12
    seen = exact > 1e-12
    assert float((pi / exact - 1)[seen].abs().max()) < 1e-8


def test_small_chains_are_eliminated_and_keep_their_tails():
    problem = problems.mm1k(1.0, 10.0, 100).shuffled(0)
    state = st.steady_state(problem.generator, st.solvers.Multigrid())
    assert problem.generator.n <= COARSEST
    assert state.accuracy is Accuracy.ENTRYWISE
    assert problems.relative_error(state.pi, problem.pi) < 1e-12


# The equations behind derivatives.


def test_second_derivatives_agree_with_elimination():
    chain = lattice(2, 19, LIGHT)
    weight = torch.rand(len(chain.edges), generator=torch.Generator().manual_seed(1)).double()

    def curvature(solver):
        rates = chain.rates.clone().requires_grad_()
        pi = st.steady_state(st.Generator(chain.edges, rates), solver).pi
        (first,) = torch.autograd.grad((pi * torch.arange(400)).sum(), rates, create_graph=True)
        (second,) = torch.autograd.grad((first * weight).sum(), rates)
        return second

    exact = curvature(st.solvers.GTH())
    assert float((curvature(st.solvers.Multigrid()) - exact).abs().max() / exact.abs().max()) < 1e-8


def test_nothing_to_solve_has_solution_zero():
    factor = st.solvers.Multigrid().factor(lattice(2, 19, LIGHT))
    nothing = torch.zeros(400, dtype=torch.float64)
    assert torch.equal(factor.solve(nothing), nothing)
    assert torch.equal(factor.solve_transposed(nothing), nothing)
    constant = factor.solve(nothing + 3.0)  # pi . h is taken off
    assert float(constant.abs().max()) < 1e-12


# Starts, batches, groups.


@pytest.fixture
def cycles(monkeypatch):
    """Count the cycles that bring a start near."""
    count = []
    original = multigrid._Chain._approach
    monkeypatch.setattr(
        multigrid._Chain, "_approach", lambda *args: (count.append(1), original(*args))
    )
    return count


def test_a_start_is_used(cycles):
    chain = lattice(2, 29, SATURATED)
    near = lattice(2, 29, [1.02 * load for load in SATURATED])
    start = st.steady_state(near, st.solvers.Multigrid()).pi
    assert len(cycles) == 1
    warm = st.steady_state(chain, st.solvers.Multigrid(start=start)).pi
    assert len(cycles) == 1
    assert error(warm, st.steady_state(chain, st.solvers.GTH()).pi.numpy()) < 1e-11


@pytest.mark.parametrize("small", [0.0, 1e-300, 1e-30])
def test_a_bad_start_costs_time_only(small):
    chain = lattice(2, 29, LIGHT)
    start = torch.full((900,), small, dtype=torch.float64)
    start[-1] = 1.0
    pi = st.steady_state(chain, st.solvers.Multigrid(start=start)).pi
    assert error(pi, st.steady_state(chain, st.solvers.GTH()).pi.numpy()) < 1e-11


def test_batches_start_every_chain_from_the_one_before(cycles):
    chain = lattice(2, 19, LIGHT)
    scale = torch.tensor([1.0, 1.1, 1.2], dtype=torch.float64)
    is_arrival = torch.arange(len(chain.edges)) < 19 * 20
    rates = torch.where(is_arrival, chain.rates * scale[:, None], chain.rates)
    batch = st.Generator(chain.edges, rates)
    factor = st.solvers.Multigrid().factor(batch)
    assert len(cycles) == 1
    exact = st.solvers.GTH().factor(batch)
    torch.testing.assert_close(factor.pi, exact.pi, rtol=0, atol=1e-12)
    g = torch.arange(400, dtype=torch.float64).expand(3, 400)
    torch.testing.assert_close(factor.rate_gradient(g), exact.rate_gradient(g), rtol=0, atol=1e-7)
    last = factor.select(torch.tensor([2]))
    torch.testing.assert_close(last.rate_gradient(g[:1]), factor.rate_gradient(g)[2:])


def test_groups_cover_all_states_and_keep_all_flow_between_them():
    chain = lattice(3, 6, SATURATED)
    start, index, order = chain.edges.rows
    values = chain.rates.numpy()[order]
    out = chain.exit_rates().numpy()
    columns = multigrid.kernels.transpose(start, index, values, chain.n)
    group, coarse, coarse_out = group_states((start, index, values), columns, out)
    count = len(coarse_out)
    assert sorted(set(group.tolist())) == list(range(count))
    assert chain.n / 5 < count < chain.n / 3
    src, dst = chain.edges.numpy
    dense = np.zeros((count, count))
    np.add.at(dense, (group[src], group[dst]), chain.rates.numpy())
    np.fill_diagonal(dense, 0.0)
    ours = scipy.sparse.csr_array((coarse[2], coarse[1], coarse[0]), shape=(count, count))
    np.testing.assert_allclose(ours.toarray(), dense, rtol=1e-13)
    np.testing.assert_allclose(coarse_out, dense.sum(1), rtol=1e-13)


# What it refuses.


def test_reducible_chains_are_refused():
    chain = lattice(2, 29, LIGHT)
    rates = chain.rates.clone()
    rates[chain.edges.src == 899] = 0.0
    with pytest.raises(SolverError, match=r"transient.*SparseLU"):
        st.steady_state(st.Generator(chain.edges, rates), st.solvers.Multigrid())
    rates[chain.edges.src == 0] = 0.0
    with pytest.raises(ReducibleError, match=r"closed classes are \{0\}, \{899\}"):
        st.steady_state(st.Generator(chain.edges, rates), st.solvers.Multigrid())


def test_sets_that_hardly_communicate_are_refused_not_guessed():
    births, deaths = [0.9] * 250 + [1.0] * 250, [1.0] * 250 + [0.9] * 250
    with pytest.raises(SolverError, match=r"GTH\(\)|start="):
        st.steady_state(problems.birth_death(births, deaths).generator, st.solvers.Multigrid())


def test_a_tolerance_below_rounding_gives_what_rounding_allows():
    chain = lattice(2, 49, SATURATED)
    pi = st.steady_state(chain, st.solvers.Multigrid(tolerance=1e-17)).pi
    assert error(pi, Reference(chain).pi) < 1e-11


@pytest.mark.parametrize("tolerance", [0.0, 1.0, float("nan")])
def test_tolerances_out_of_range(tolerance):
    with pytest.raises(InputError, match="between 0 and 1"):
        st.solvers.Multigrid(tolerance=tolerance)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (torch.ones(3, dtype=torch.float64), r"shape \(900,\); got shape \(3,\)"),
        (-torch.ones(900, dtype=torch.float64), "negative"),
        (torch.zeros(900, dtype=torch.float64), "finite probabilities"),
    ],
)
def test_starts_that_are_no_distributions(start, words):
    with pytest.raises(InputError, match=words):
        st.steady_state(lattice(2, 29, LIGHT), st.solvers.Multigrid(start=start))
