"""One battery for gradients: against finite differences, autograd, closed forms, high precision."""

import itertools
from decimal import Decimal, localcontext

import hypothesis
import pytest
import torch
from hypothesis import strategies as some

import problems
import stationary as st
from problems import ENTRYWISE, SOLVERS, TensorGTH, mm1k
from stationary.errors import SolverError

name = repr  # of a solver, in test ids

# Sparse LU factors one chain after the other, which takes long for every entry of a large batch.
# Its batches of two axes are compared with autograd's derivatives below.
BATCHES = [
    (solver, batch)
    for solver in SOLVERS
    for batch in ([(), (2,)] if isinstance(solver, st.solvers.SparseLU) else [(), (3,), (2, 2)])
]


def pi_of(solver, n):
    """Steady state as a function of dense rates, on the edges the solver can take."""
    step = torch.arange(n - 1)
    edges = st.Edges.complete(n)
    if isinstance(solver, st.solvers.BirthDeath):
        edges = st.Edges(torch.cat([step, step + 1]), torch.cat([step + 1, step]), n)

    def pi(Q):
        gen = st.Generator(edges, Q[..., edges.src, edges.dst])
        return st.steady_state(gen, solver, st.Exact()).pi

    return pi


def by_linalg_solve(Q):
    """Steady state by a dense solve that autograd differentiates by itself."""
    n = Q.shape[-1]
    off = Q * (1 - torch.eye(n, dtype=Q.dtype))
    A = off - torch.diag_embed(off.sum(-1))
    A = torch.cat([torch.ones_like(A[..., :1]), A[..., 1:]], -1)
    unit = torch.eye(n, dtype=Q.dtype)[0].expand(Q.shape[:-1])
    return torch.linalg.solve(A.mT, unit)


def rates(*batch, n, seed=0):
    return problems.random_rates(*batch, n=n, seed=seed).requires_grad_()


# Finite differences, to the third order.


@pytest.mark.parametrize(("solver", "batch"), BATCHES, ids=name)
def test_first_derivatives(solver, batch):
    assert torch.autograd.gradcheck(pi_of(solver, 4), rates(*batch, n=4))


@pytest.mark.parametrize(("solver", "batch"), BATCHES, ids=name)
def test_second_derivatives(solver, batch):
    assert torch.autograd.gradgradcheck(pi_of(solver, 3), rates(*batch, n=3))


@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_third_derivatives(solver):
    pi = pi_of(solver, 3)

    def hessian_product(Q):
        (first,) = torch.autograd.grad(pi(Q)[1].log(), Q, create_graph=True)
        weight = torch.arange(9, dtype=torch.float64).reshape(3, 3)
        return torch.autograd.grad((first * weight).sum(), Q, create_graph=True)[0]

    assert torch.autograd.gradcheck(hessian_product, rates(n=3))


def test_derivatives_where_the_ground_is_not_the_first_state():
    # A rare first state makes the elimination start over from the likeliest one.
    scale = torch.ones(4, dtype=torch.float64)
    scale[2] = 1e4
    for solver in (st.solvers.GTH(), TensorGTH()):
        pi = pi_of(solver, 4)
        Q = rates(2, n=4, seed=2)
        assert float(pi(Q * scale)[..., 0].detach().max()) < 1e-3
        assert torch.autograd.gradcheck(lambda Q, pi=pi: pi(Q * scale).log(), Q)
        assert torch.autograd.gradgradcheck(lambda Q, pi=pi: pi(Q * scale).log(), Q)


# Autograd through another algorithm.


@pytest.mark.parametrize("solver", problems.DENSE, ids=name)
def test_equals_autograd_through_a_dense_solve(solver):
    Q = rates(2, 3, n=8, seed=3)
    weight = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    (ours,) = torch.autograd.grad((pi_of(solver, 8)(Q) * weight).sum(), Q)
    (theirs,) = torch.autograd.grad((by_linalg_solve(Q) * weight).sum(), Q)
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)
    # Not bit by bit: two different computations really ran.
    assert not torch.equal(ours, theirs)


@pytest.mark.parametrize("solver", SOLVERS, ids=name)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_the_fused_path_equals_the_differentiable_one(solver, batch):
    Q = rates(*batch, n=6, seed=5)
    loss = pi_of(solver, 6)(Q).log().square().sum()
    (fused,) = torch.autograd.grad(loss, Q, retain_graph=True)
    (differentiable,) = torch.autograd.grad(loss, Q, create_graph=True)
    assert not fused.requires_grad
    assert differentiable.requires_grad
    torch.testing.assert_close(fused, differentiable.detach(), rtol=1e-11, atol=1e-13)


# Identities.


@pytest.mark.parametrize("solver", [st.solvers.GTH(), st.solvers.LU(), TensorGTH()], ids=name)
def test_the_gradient_of_a_zero_rate(solver):
    # An edge at rate 0 can still be opened; compare with one that hardly is.
    Q = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]], dtype=torch.float64)
    Q.requires_grad_()
    pi_of(solver, 3)(Q)[1].backward()
    opened = Q.detach().clone()
    opened[0, 2] = 1e-40
    gen = st.Generator(
        st.Edges.from_pairs([(0, 1), (1, 2), (2, 0), (0, 2)], 3), torch.ones(4).double()
    )
    gen.rates[:] = opened[gen.edges.src, gen.edges.dst]
    exact = float(problems.elasticities(gen)[3][1] * problems.steady(gen)[1] / Decimal("1e-40"))
    assert float(Q.grad[0, 2]) == pytest.approx(exact, rel=1e-13)


def test_rates_shared_by_a_batch_collect_its_gradients():
    one = torch.tensor([1.0, 3.0], dtype=torch.float64, requires_grad=True)
    edges = st.Edges.from_pairs([(0, 1), (1, 0)], 2)
    st.steady_state(st.Generator(edges, one.expand(4, 2))).pi[:, 1].sum().backward()
    assert one.grad.tolist() == pytest.approx([4 * 3 / 16, -4 * 1 / 16])


def test_no_graph_where_none_is_asked_for():
    gen = st.Generator.from_dense(problems.random_rates(n=4, seed=0))
    assert not st.steady_state(gen).pi.requires_grad
    with torch.no_grad():
        assert not pi_of(st.solvers.Auto(), 4)(rates(n=4)).requires_grad


@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_rates_changed_in_place_are_noticed(solver):
    Q = rates(n=3)
    edges = st.Edges.from_pairs([(0, 1), (1, 2), (1, 0), (2, 1)], 3)
    leaf = Q.detach()[edges.src, edges.dst].requires_grad_()
    loss = st.steady_state(st.Generator(edges, leaf), solver).pi[0]
    with torch.no_grad():
        leaf.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# Rare states: log pi of M/M/1/K, whose derivatives are tails and moments of its own pi.


def derivative_of_log_pi(problem, state):
    """``d log pi_state / d log q`` for every birth, then every death."""
    tails = [float(sum(problem.pi[k + 1 :])) for k in range(len(problem.pi) - 1)]
    births = [(state > k) - tail for k, tail in enumerate(tails)]
    return torch.tensor(births + [-b for b in births], dtype=torch.float64)


RARE = [
    (solver, capacity, seed)
    for solver, capacity, seed in itertools.product(
        [*ENTRYWISE, st.solvers.BirthDeath()], [20, 100, 300], [None, 0]
    )
    # A shuffled chain is not a birth-death one; tensors show the same at 100 states, and sooner.
    if not (seed is not None and isinstance(solver, st.solvers.BirthDeath))
    and not (capacity == 300 and isinstance(solver, TensorGTH))
]


@pytest.mark.parametrize(("solver", "capacity", "seed"), RARE)
@pytest.mark.parametrize(("arrival", "service"), [(1.0, 10.0), (10.0, 1.0)])
def test_gradient_of_a_rare_states_log_probability(solver, capacity, arrival, service, seed):
    natural = mm1k(arrival, service, capacity)
    problem = natural if seed is None else natural.shuffled(seed)
    log_rates = problem.generator.rates.log().requires_grad_()
    pi = st.steady_state(st.Generator(problem.generator.edges, log_rates.exp()), solver).pi
    loss = pi[pi.argmin()].log()
    exact = derivative_of_log_pi(natural, capacity if arrival < service else 0)
    for create_graph in (False, True):
        (ours,) = torch.autograd.grad(loss, log_rates, retain_graph=True, create_graph=create_graph)
        assert float((ours.detach() - exact).abs().max()) < 1e-13


@pytest.mark.parametrize("solver", [*ENTRYWISE, st.solvers.BirthDeath()], ids=name)
@pytest.mark.parametrize(("arrival", "service"), [(1.0, 10.0), (10.0, 1.0), (1.0, 1.0)])
@pytest.mark.parametrize("state", [0, 100])
def test_second_derivative_of_a_rare_states_log_probability(solver, arrival, service, state):
    # d^2 log pi_k / d(log service)^2 = -Var(length), for every k. (Below 1e-154 torch's own
    # derivative of the logarithm overflows: 1 / pi^2.)
    problem = mm1k(arrival, service, 100)
    mean = sum(k * p for k, p in enumerate(problem.pi))
    variance = float(sum((k - mean) ** 2 * p for k, p in enumerate(problem.pi)))
    z = torch.zeros((), dtype=torch.float64, requires_grad=True)
    births, deaths = problem.generator.rates.split(100)
    gen = st.Generator(problem.generator.edges, torch.cat([births, deaths * z.exp()]))
    loss = st.steady_state(gen, solver).pi[state].log()
    (first,) = torch.autograd.grad(loss, z, create_graph=True)
    (second,) = torch.autograd.grad(first, z)
    assert first.item() == pytest.approx(float(mean) - state, rel=1e-13, abs=1e-13)
    assert second.item() == pytest.approx(-variance, rel=1e-8)


# Random chains, rates over 24 decades, against high precision.
#
# An error is measured on the scale of log-rates and against the largest entry. A fit sees the
# gradient on that scale; entrywise accuracy is not to be had, since entries are signed sums.


def check_gradients(solver, gen, weight, target, tolerance, create_graph=False):
    leaf = gen.rates.clone().requires_grad_()
    pi = st.steady_state(st.Generator(gen.edges, leaf), solver).pi
    exact_pi, rows = problems.steady(gen), problems.elasticities(gen)
    with localcontext() as context:
        context.prec = 60
        weighted = [Decimal(w) * p for w, p in zip(weight.tolist(), exact_pi, strict=True)]
        linear = [sum(w * d for w, d in zip(weighted, row, strict=True)) for row in rows]
    for loss, exact in (
        ((pi * weight).sum(), problems.floats(linear)),
        (pi[target].log(), problems.floats([row[target] for row in rows])),
    ):
        (gradient,) = torch.autograd.grad(loss, leaf, retain_graph=True, create_graph=create_graph)
        error = (gradient.detach() * gen.rates - exact).abs().max()
        assert float(error) <= tolerance * float(exact.abs().max())


@some.composite
def chains_and_losses(draw, decades=12.0):
    gen = draw(problems.ergodic_chains(decades))
    random = torch.Generator().manual_seed(draw(some.integers(0, 2**32)))
    weight = torch.randn(gen.n, generator=random, dtype=torch.float64)
    return gen, weight, draw(some.integers(0, gen.n - 1))


@pytest.mark.parametrize(
    ("solver", "tolerance"), [(st.solvers.GTH(), 1e-11), (TensorGTH(), 1e-13)], ids=name
)
@hypothesis.given(case=chains_and_losses())
@hypothesis.settings(max_examples=150)
def test_gradients_with_rates_over_24_decades(solver, tolerance, case):
    check_gradients(solver, *case, tolerance)


@hypothesis.given(
    rates=some.lists(
        some.tuples(some.floats(-12, 12), some.floats(-12, 12)), min_size=1, max_size=11
    ),
    target=some.integers(0, 11),
)
@hypothesis.settings(max_examples=150)
def test_birth_death_gradients_with_rates_over_24_decades(rates, target):
    births, deaths = ([10.0 ** pair[k] for pair in rates] for k in (0, 1))
    gen = problems.birth_death(births, deaths).generator
    weight = torch.randn(gen.n, generator=torch.Generator().manual_seed(target)).double()
    check_gradients(st.solvers.BirthDeath(), gen, weight, target % gen.n, 1e-13)


@pytest.mark.parametrize("solver", [st.solvers.BirthDeath(), st.solvers.GTH()], ids=name)
def test_derivatives_beyond_float64_are_refused_and_the_chain_is_named(solver):
    # Two likely states on either side of one of probability 1e-320: v differs by 1e320.
    edges = st.Edges.from_pairs([(0, 1), (1, 2), (1, 0), (2, 1)], 3)
    rates = torch.tensor(
        [[1.0, 1.0, 1.0, 1.0], [1e-160, 1e160, 1e160, 1e-160]], dtype=torch.float64
    ).requires_grad_()
    pi = st.steady_state(st.Generator(edges, rates), solver).pi
    assert pi[1, [0, 2]].tolist() == pytest.approx([0.5, 0.5])
    with pytest.raises(SolverError, match="chain 1 of the batch is known, but its derivatives"):
        torch.autograd.grad(pi[:, 0].sum(), rates)
    (gradient,) = torch.autograd.grad(pi[:, 0].sum() * torch.nan, rates)
    assert not gradient.isfinite().any()  # a loss that is no number is no fault of the chain


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    "solver", [st.solvers.GTH(), st.solvers.SparseGTH(), TensorGTH()], ids=name
)
def test_gradients_where_sets_of_states_hardly_communicate(solver, create_graph):
    # v is near 1e15 on one side and 0 on the other, its differences within a side near 1e-3:
    # subtracting would leave no digit of them.
    fast = [(i, j, 1e3) for s in (0, 3) for i in range(s, s + 3) for j in range(s, s + 3) if i != j]
    pairs = [*fast, (0, 3, 1e-15), (5, 1, 2e-15)]
    edges = st.Edges.from_pairs([(i, j) for i, j, _ in pairs], 6)
    gen = st.Generator(edges, torch.tensor([q for _, _, q in pairs], dtype=torch.float64))
    weight = torch.tensor([1.0, -2.0, 0.5, 0.3, 2.0, -1.0], dtype=torch.float64)
    check_gradients(solver, gen, weight, 4, 1e-13, create_graph)


def test_gradients_of_a_large_chain():
    # Above 96 states the elimination is blocked; the solve of its factor must not notice.
    problem = problems.balanced(150, seed=1, decades=1.0)
    Q = problem.generator.dense().detach().requires_grad_()
    (ours,) = torch.autograd.grad(st.steady_state(st.Generator.from_dense(Q)).pi[7].log(), Q)
    (theirs,) = torch.autograd.grad(by_linalg_solve(Q)[7].log(), Q)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
