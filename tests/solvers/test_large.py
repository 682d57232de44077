"""Solvers for large chains: every load, rare states, and what Auto tries."""

import gc
import logging
import weakref
from dataclasses import dataclass

import hypothesis
import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.sparse.linalg import splu

import problems
import stationary as st
from problems import mm1k, tandem
from stationary.errors import SolverError
from stationary.solvers import Accuracy, Factor, Solver, _dissection, auto, sparse
from stationary.solvers._chain import SparseChain

name = repr
LARGE = [st.solvers.SparseLU(), st.solvers.Multigrid()]

LATTICES = [
    tandem((40, 40), 0.7, [1.0, 1.0]),
    tandem((40, 40), 0.99, [1.0, 1.0]),
    tandem((40, 40), 1.05, [1.1, 1.0]),
    tandem((12, 12, 12), 0.99, [1.0, 1.0, 1.0]),
]
load = ["moderate", "near saturation", "overloaded", "solid, near saturation"]


@pytest.fixture(scope="module")
def exact():
    """Dense elimination of every lattice, once."""
    return [st.solvers.GTH().factor(lattice) for lattice in LATTICES]


def normal(n, seed):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# Against elimination and closed forms.


@pytest.mark.parametrize("which", range(len(LATTICES)), ids=load)
@pytest.mark.parametrize("solver", [*LARGE, st.solvers.Auto()], ids=name)
def test_lattices_against_dense_elimination(solver, which, exact):
    lattice, truth = LATTICES[which], exact[which]
    factor = solver.factor(lattice)
    assert float((factor.pi - truth.pi).abs().max() / truth.pi.max()) < 1e-11
    g = normal(lattice.n, seed=1)
    gradient = truth.rate_gradient(g)
    error = (factor.rate_gradient(g) - gradient).abs().max() / gradient.abs().max()
    assert float(error) < 1e-10


@pytest.mark.parametrize("which", range(len(LATTICES)), ids=load)
@pytest.mark.parametrize("solver", LARGE, ids=name)
def test_both_equations_are_solved_to_ten_digits(solver, which):
    lattice = LATTICES[which]
    Q = lattice.sparse()
    factor = solver.factor(lattice)
    h = normal(lattice.n, seed=2)
    h = h - (factor.pi * h).sum()
    v = factor.solve(h)
    assert np.linalg.norm(Q @ v.numpy() + h.numpy()) < 1e-10 * float(h.norm())
    b = normal(lattice.n, seed=3)
    b = b - b.mean()
    u = factor.solve_transposed(b)
    assert np.linalg.norm(Q.T @ u.numpy() + b.numpy()) < 1e-10 * float(b.norm())


@pytest.mark.parametrize("solver", LARGE, ids=name)
def test_a_tandem_with_room_has_jacksons_product_form(solver):
    # Loads of 0.2 and 0.3 in rooms of 50: what a wider room would hold is 0.3^50 = 7e-27.
    shape = (50, 50)
    pi = solver.factor(tandem(shape, 0.3, [1.5, 1.0])).pi.reshape(shape)
    first = 0.8 * 0.2 ** torch.arange(50, dtype=torch.float64)
    second = 0.7 * 0.3 ** torch.arange(50, dtype=torch.float64)
    torch.testing.assert_close(pi, first[:, None] * second, rtol=0, atol=1e-13)


@pytest.mark.parametrize("solver", LARGE, ids=name)
def test_second_derivatives(solver):
    lattice = tandem((4, 3), 0.9, [1.0, 1.1])
    rates = lattice.rates.clone().requires_grad_()

    def last(rates):
        return st.steady_state(st.Generator(lattice.edges, rates), solver).pi[[0, -1]]

    assert torch.autograd.gradgradcheck(last, rates, atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("solver", LARGE, ids=name)
@hypothesis.given(gen=problems.ergodic_chains())
@hypothesis.settings(max_examples=60)
def test_right_normwise_or_refused(solver, gen):
    try:
        pi = solver.factor(gen).pi
    except SolverError:
        return
    assert float((pi - problems.floats(problems.steady(gen))).abs().max()) < 1e-8


# What each says of rare states.


def test_sparse_lu_is_right_normwise_and_says_so():
    problem = mm1k(1.0, 10.0, 100).shuffled(0)
    state = st.steady_state(problem.generator, st.solvers.SparseLU())
    assert state.accuracy is Accuracy.NORMWISE
    assert float((state.pi - problems.floats(problem.pi)).abs().max()) < 1e-13


# Failures are said, not hidden.


def test_sparse_lu_refuses_factors_that_do_not_fit(monkeypatch):
    monkeypatch.setattr(sparse, "half_the_memory", lambda: 1e5)
    with pytest.raises(SolverError, match=r"would take .* GiB, more than the .* GiB"):
        st.solvers.SparseLU().factor(LATTICES[0])


# The order, its cost, and the ground.


@pytest.mark.parametrize("shape", [(30, 30), (9, 9, 9)])
def test_the_count_of_a_factor_is_what_superlu_finds(shape):
    lattice = tandem(shape, 0.9, [1.0] * len(shape))
    dissection = lattice.edges.remembered(_dissection.Dissection)
    chain = SparseChain(lattice.edges, lattice.rates.numpy())
    matrix = dissection.grounded(chain.rates, chain.exits, 0)
    options = {"SymmetricMode": True}
    found = splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options).nnz
    # The count is of a symmetric pattern; a tandem moves one way along its diagonals.
    assert found <= dissection.memory / _dissection._BYTES < 1.3 * found


def test_an_order_is_found_once_and_goes_with_its_edges():
    lattice = tandem((5, 4), 0.9, [1.0, 1.2])
    assert lattice.edges.remembered(_dissection.Dissection) is lattice.edges.remembered(
        _dissection.Dissection
    )
    order = weakref.ref(lattice.edges.remembered(_dissection.Dissection))
    del lattice
    gc.collect()
    assert order() is None


def test_nested_dissection_keeps_factors_small():
    lattice = tandem((60, 60), 0.9, [1.0, 1.0])
    chain = SparseChain(lattice.edges, lattice.rates.numpy())
    natural = scipy.sparse.csc_array(-lattice.sparse() + 1e-6 * scipy.sparse.eye_array(lattice.n))
    ours = lattice.edges.remembered(_dissection.Dissection).grounded(chain.rates, chain.exits, 0)
    settings = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    entries = [splu(matrix, permc_spec="NATURAL", **settings).nnz for matrix in (ours, natural)]
    assert entries[0] < 0.4 * entries[1]


@pytest.mark.parametrize("which", range(len(LATTICES)), ids=load)
def test_the_ground_is_a_likely_state(which, exact):
    lattice, pi = LATTICES[which], exact[which].pi
    chain = SparseChain(lattice.edges, lattice.rates.numpy())
    ground = sparse.likely_state(chain)
    assert float(pi[ground]) > 1e-2 * float(pi.max())


def impatient(side):
    """A tandem whose far states are too rare for float64."""
    return st.models.RuleModel(
        variables={"q1": (0, side - 1), "q2": (0, side - 1)},
        rules={
            "arrive": f"q1 < {side - 1} -> q1 += 1 at load",
            "move": f"q1 > 0 and q2 < {side - 1} -> q1 -= 1, q2 += 1 at 12",
            "leave": "q2 > 0 -> q2 -= 1 at 9 + patience * q2",
        },
        params={"patience": 1.0},
    )


@pytest.mark.parametrize("solver", [st.solvers.SparseLU(), st.solvers.Multigrid()], ids=name)
def test_far_states_too_rare_for_float64(solver):
    # Poisson-like in one direction: 1e-700 and less at the far end.
    generator = impatient(300)([7.0])
    state = st.steady_state(generator, solver)
    small = impatient(40)([7.0])
    expected = st.solvers.GTH().factor(small).pi.reshape(40, 40)
    found = state.pi.detach().reshape(300, 300)[:40, :40]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def clusters(eps, n=1000, seed=0):
    """Two sets of states, every other one in each, that hardly communicate."""
    rng = np.random.default_rng(seed)
    rates = {}
    for first in (0, 1):
        states = np.arange(first, n, 2)
        for k, state in enumerate(states):
            for other in (states[k - 1], states[(k + 1) % len(states)], rng.choice(states)):
                if other != state:
                    rates[int(state), int(other)] = rng.uniform(0.5, 2.0)
    rates |= {(0, 1): eps, (1, 0): 3 * eps}
    edges = torch.tensor(list(rates)).T
    return st.Generator(edges, torch.tensor(list(rates.values())).double(), n=n)


@pytest.mark.parametrize("eps", [1e-6, 1e-9, 1e-13, 1e-15])
def test_sets_that_hardly_communicate_are_right_or_refused(eps):
    generator = clusters(eps)
    mass = float(st.solvers.GTH().factor(generator).pi[::2].sum())
    solvers = [
        st.solvers.SparseLU(),
        st.solvers.Multigrid(),
        st.solvers.Auto(),
    ]
    answers = []
    for solver in solvers:
        try:
            answers.append(float(solver.factor(generator).pi[::2].sum()))
        except SolverError:
            continue
    assert answers  # somebody dares
    np.testing.assert_allclose(answers, mass, rtol=0, atol=1e-7)


def test_rates_of_zero_are_no_neighbours():
    random = torch.Generator().manual_seed(0)
    Q = torch.rand(400, 400, generator=random, dtype=torch.float64)
    Q = torch.where(torch.rand(400, 400, generator=random) < 0.05, Q, 0.0)
    Q[:, 0] = Q[0, :] = 1e-3
    pi = st.solvers.Multigrid().factor(st.Generator.from_dense(Q)).pi
    torch.testing.assert_close(pi, st.solvers.GTH().factor(st.Generator.from_dense(Q)).pi)


# What Auto does when a solver fails.


@dataclass(frozen=True)
class Failing(Solver):
    error: Exception

    def factor(self, generator: st.Generator) -> Factor:
        raise self.error


@pytest.mark.parametrize("error", [SolverError("it is too hard"), MemoryError()], ids=repr)
def test_a_failure_falls_to_the_next_row_and_is_logged(error, monkeypatch, caplog):
    lattice = tandem((50, 50), 0.9, [1.0, 1.0])
    monkeypatch.setattr(auto, "_entrywise", lambda edges: [])
    monkeypatch.setattr(auto, "SparseLU", lambda: Failing(error))
    state = st.steady_state(lattice)
    assert state.solver == st.solvers.Multigrid()
    assert "Multigrid" in state.status
    [record] = [r for r in caplog.records if r.name == auto.__name__]
    assert record.levelno == logging.WARNING
    reason = str(error) or "out of memory"
    assert f"({reason}); trying Multigrid" in record.getMessage()
    torch.testing.assert_close(
        state.pi, st.solvers.SparseLU().factor(lattice).pi, rtol=0, atol=1e-12
    )


def test_an_adjoint_that_fails_falls_through_too(monkeypatch, caplog):
    lattice = tandem((50, 50), 0.9, [1.0, 1.0])

    class HalfWay(st.solvers.SparseLU):
        def factor(self, generator):
            factor = super().factor(generator)
            factor.solve = lambda h: Failing(SolverError("lost the way")).factor(generator)
            return factor

    monkeypatch.setattr(auto, "_entrywise", lambda edges: [])
    monkeypatch.setattr(auto, "SparseLU", HalfWay)
    rates = lattice.rates.clone().requires_grad_()
    state = st.steady_state(st.Generator(lattice.edges, rates))
    (found,) = torch.autograd.grad(state.pi[..., :50].sum(), rates)
    assert "(lost the way); trying Multigrid" in caplog.text
    assert state.solver == HalfWay()  # which did find the steady state
    rates = lattice.rates.clone().requires_grad_()
    exact = st.steady_state(st.Generator(lattice.edges, rates), solver=st.solvers.GTH())
    (expected,) = torch.autograd.grad(exact.pi[..., :50].sum(), rates)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-8 * expected.abs().max())


def test_if_all_fail_each_is_named(monkeypatch):
    failures = {"SparseGTH": "too rare", "SparseLU": "no room", "Multigrid": "far off"}
    for solver, why in failures.items():
        monkeypatch.setattr(auto, solver, lambda why=why: Failing(SolverError(why)))
    with pytest.raises(SolverError, match=r"2,500 states.*too rare.*no room.*far off"):
        st.solvers.Auto().factor(tandem((50, 50), 0.9, [1.0, 1.0]))


def test_auto_puts_multigrid_first_where_factors_grow_too_large(monkeypatch):
    multigrid = st.solvers.Multigrid()
    plane, solid = tandem((300, 300), 0.9, [1.0] * 2), tandem((50, 50, 50), 0.9, [1.0] * 3)
    assert next(st.solvers.Auto().candidates(plane)) == st.solvers.SparseLU()
    assert list(st.solvers.Auto().candidates(plane))[1] == multigrid
    monkeypatch.setattr(auto, "_MOST_OPERATIONS", 2e10)  # the same lattices, ten times as large
    assert next(st.solvers.Auto().candidates(plane)) == st.solvers.SparseLU()
    assert next(st.solvers.Auto().candidates(solid)) == multigrid
    monkeypatch.setattr(auto, "half_the_memory", lambda: 1e6)
    assert next(st.solvers.Auto().candidates(plane)) == multigrid


def test_memory_is_some():
    assert sparse.half_the_memory() > 1e8
