"""Elimination of sparse chains: every digit, at the cost of the levels; and what used to fail."""

import numpy as np
import pytest
import torch

import problems
import stationary as st
from problems import relative_error
from stationary.errors import SolverError
from stationary.solvers import sparse_gth
from stationary.solvers._base import Accuracy


def levels(seed, count=7, size=3, decades=8.0):
    """A random chain on levels of states, each joined to its own level and those next to it."""
    random = np.random.default_rng(seed)
    n = count * size
    rates = {}
    for i in range(n):
        for j in range(n):
            near = abs(i // size - j // size) <= 1
            if i != j and near and (abs(i - j) == 1 or random.random() < 0.4):
                rates[i, j] = 10.0 ** random.uniform(-decades / 2, decades / 2)
    edges = st.Edges.from_pairs(list(rates), n)
    return st.Generator(edges, torch.tensor(list(rates.values()), dtype=torch.float64))


@pytest.mark.parametrize("seed", range(20))
def test_every_probability_of_a_chain_of_levels_is_right(seed):
    generator = levels(seed)
    factor = st.solvers.SparseGTH().factor(generator)
    assert factor.accuracy is Accuracy.ENTRYWISE
    assert relative_error(factor.pi, problems.steady(generator)) < 1e-13


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 220))
def test_many_chains_of_levels_against_700_digits(seed):
    random = np.random.default_rng(seed)
    generator = levels(seed, int(random.integers(2, 7)), int(random.integers(1, 5)), 60.0)
    pi = st.solvers.SparseGTH().factor(generator).pi
    assert relative_error(pi, problems.steady(generator, digits=700)) < 1e-13


@pytest.mark.parametrize("seed", range(4))
def test_derivatives_are_those_of_the_dense_elimination(seed):
    dense, sparse = (levels(seed, 12, 3, 4.0) for _ in range(2))
    found = []
    for generator, solver in [(dense, st.solvers.GTH()), (sparse, st.solvers.SparseGTH())]:
        rates = generator.rates.clone().requires_grad_()
        pi = st.steady_state(st.Generator(generator.edges, rates), solver).pi
        (first,) = torch.autograd.grad(pi.log().sum(), rates, create_graph=True)
        (second,) = torch.autograd.grad((first * rates.detach()).square().sum(), rates)
        found.append((first.detach(), second))
    for expected, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-9 * expected.abs().max())


def test_chains_of_a_batch_have_their_own_grounds():
    model = st.models.ErlangService(phases=4, capacity=60, service_rate=10.0)
    x = [0.1, 3.0, 9.5, 40.0, 400.0]
    batch = st.steady_state(model(x), st.solvers.SparseGTH()).pi
    for load, pi in zip(x, batch, strict=True):
        alone = st.steady_state(model([load]), st.solvers.GTH()).pi[0]
        torch.testing.assert_close(pi, alone, rtol=1e-11, atol=0)


def test_factors_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(sparse_gth, "_MOST_ENTRIES", 10)
    with pytest.raises(SolverError, match=r"36 states.*entries.*SparseLU"):
        st.solvers.SparseGTH().factor(levels(0, 12, 3))


# Good answers that used to be thrown away, or bad ones given.


def star(n):
    random = torch.Generator().manual_seed(n)
    hub, leaf = torch.zeros(n - 1, dtype=torch.long), torch.arange(1, n)
    rates = 10 ** (10 * torch.rand(2 * (n - 1), generator=random, dtype=torch.float64) - 5)
    return st.Generator(st.Edges(torch.cat([hub, leaf]), torch.cat([leaf, hub]), n), rates)


def blocks(count, size, between):
    """Rings of states that hardly communicate."""
    random = np.random.default_rng(size)
    rates = {}
    for b in range(count):
        for i in range(size):
            rates[b * size + i, b * size + (i + 1) % size] = random.uniform(0.5, 2.0)
        rates[b * size, (b + 1) % count * size] = between * random.uniform(0.5, 2.0)
    edges = st.Edges.from_pairs(list(rates), count * size)
    return st.Generator(edges, torch.tensor(list(rates.values()), dtype=torch.float64))


@pytest.mark.parametrize(
    "generator",
    [
        st.models.BatchArrivals(capacity=600, service_rate=15.0)([60.0]),
        st.models.ErlangService(phases=4, capacity=450, service_rate=1.0)([60.0]),
        star(1500),
        star(2500),
        blocks(50, 30, 1e-9),
        blocks(50, 60, 1e-9),
    ],
    ids=["batches", "erlang", "star 1500", "star 2500", "blocks 1500", "blocks 3000"],
)
def test_auto_solves_what_elimination_can_solve(generator):
    rates = generator.rates.detach().clone().requires_grad_()
    state = st.steady_state(st.Generator(generator.edges, rates))
    assert state.accuracy is Accuracy.ENTRYWISE
    assert float(state.residual.max()) < 1e-12
    (gradient,) = torch.autograd.grad(state.pi.square().sum(), rates)
    # A common factor of all rates changes nothing.
    flows = (gradient * rates).detach()
    assert abs(float(flows.sum())) < 1e-9 * float(flows.abs().max())


def test_birth_death_rates_that_are_farther_apart_than_float64():
    edges = st.Edges.from_pairs([(0, 1), (1, 0)], 2)
    rates = torch.tensor([2.9e112, 1.6e-216], dtype=torch.float64)
    pi = st.steady_state(st.Generator(edges, rates)).pi
    torch.testing.assert_close(pi, torch.tensor([0.0, 1.0], dtype=torch.float64))
    swapped = st.steady_state(st.Generator(edges, rates.flip(0))).pi
    torch.testing.assert_close(swapped, torch.tensor([1.0, 0.0], dtype=torch.float64))
