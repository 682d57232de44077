"""Chains on a CUDA device give what they give on the CPU; skipped where there is none.

Relaxation runs on the CPU, too, and is held to elimination there.
"""

import pytest
import torch

import problems
import stationary as st
from stationary.errors import InputError, ReducibleError, SolverError
from stationary.gradients.series import generator_times
from stationary.solvers import Jacobi, fused
from stationary.solvers.device import Products

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = [pytest.param("cuda", marks=cuda), "cpu"]
# Either side of every number of lanes a chain, and of registers and shared memory.
STATES = [2, 3, 8, 16, 17, 21, 32, 33, 64]


def random_rates(batch, edges, seed, decades=0.0):
    random = torch.Generator().manual_seed(seed)
    spread = 2 * torch.rand(batch, edges, generator=random, dtype=torch.float64) - 1
    return (0.1 + torch.rand(batch, edges, generator=random, dtype=torch.float64)) * (
        10 ** (decades * spread)
    )


def some_edges(n, seed):
    """A cycle and as many edges again, in no order."""
    random = torch.Generator().manual_seed(seed)
    order = torch.randperm(n, generator=random)
    pairs = {(int(order[k]), int(order[(k + 1) % n])) for k in range(n)}
    for i, j in torch.randint(n, (n, 2), generator=random).tolist():
        if i != j:
            pairs.add((i, j))
    shuffled = sorted(pairs, key=lambda pair: (7 * pair[0] + 5 * pair[1]) % 11)
    return st.Edges.from_pairs(shuffled, n)


def lattice(side):
    """Two queues in a row, each with room for side - 1."""
    return problems.tandem((side, side), 1.0, [1.0, 1.0]).edges


def gradients(edges, rates, device, g, solver):
    """Steady states and ``dL/drates`` for ``dL/dpi = g``, back on the CPU."""
    rates = rates.detach().clone().to(device).requires_grad_()
    state = st.steady_state(st.Generator(edges, rates), solver=solver)
    state.pi.backward(g.to(device))
    return state.pi.detach().cpu(), rates.grad.cpu()


def assert_equal_entrywise(edges, rates, seed):
    g = torch.randn(len(rates), edges.n, generator=torch.Generator().manual_seed(seed)).double()
    pi, gradient = gradients(edges, rates, "cuda", g, st.solvers.GTH())
    exact, expected = gradients(edges, rates, "cpu", g, st.solvers.GTH())
    seen = exact > 0  # transient states are exactly zero, on both
    assert torch.equal(pi > 0, seen)
    assert float((pi[seen] / exact[seen] - 1).abs().max()) < 1e-12
    # Both promise digits of the largest q_ij dL/dq_ij of a chain.
    error = ((gradient - expected) * rates).abs().amax(-1)
    assert float((error / (expected * rates).abs().amax(-1)).max()) < 1e-11


@cuda
@pytest.mark.parametrize("n", STATES)
def test_dense_chains(n):
    edges = st.Edges.complete(n)
    # Not a multiple of the chains a block, so that some lanes have none.
    assert_equal_entrywise(edges, random_rates(133, len(edges), seed=n), seed=n)


@cuda
@pytest.mark.parametrize("n", STATES[1:])
def test_rates_of_many_sizes(n):
    edges = st.Edges.complete(n)
    assert_equal_entrywise(edges, random_rates(70, len(edges), seed=n, decades=4.0), seed=n)


@cuda
@pytest.mark.parametrize("n", [3, 9, 21, 32, 40])
def test_few_edges_in_any_order(n):
    edges = some_edges(n, seed=n)
    assert_equal_entrywise(edges, random_rates(70, len(edges), seed=n, decades=1.0), seed=n)


@cuda
@pytest.mark.parametrize("n", [5, 21, 32, 40, 64])
def test_a_kernel_did_it(n):
    rates = random_rates(3, n * (n - 1), seed=0).cuda()
    factor = st.solvers.GTH().factor(st.Generator(st.Edges.complete(n), rates))
    assert isinstance(factor, fused.FusedFactor)


@cuda
@pytest.mark.parametrize("n", [20, 60])
def test_rare_first_state(n):
    # M/M/1/K at a load of ten: the ground of the adjoint must not be state 0.
    step = torch.arange(n - 1)
    edges = st.Edges(torch.cat([step, step + 1]), torch.cat([step + 1, step]), n)
    rates = torch.cat([torch.full((n - 1,), 10.0), torch.ones(n - 1)]).double()
    pi = st.steady_state(st.Generator(edges, rates.cuda()), solver=st.solvers.GTH()).pi.cpu()
    exact = 10.0 ** torch.arange(n, dtype=torch.float64)
    assert float((pi / (exact / exact.sum()) - 1).abs().max()) < 1e-12
    assert_equal_entrywise(edges, rates.expand(5, -1).contiguous(), seed=0)


@cuda
@pytest.mark.parametrize("n", [12, 40])
def test_sets_that_hardly_communicate(n):
    # v is nearly constant on each half and large: its differences cancel unless built up.
    edges = st.Edges.complete(n)
    across = (edges.src < n // 2) != (edges.dst < n // 2)
    rates = random_rates(40, len(edges), seed=1) * torch.where(across, 1e-11, 1.0).double()
    assert_equal_entrywise(edges, rates, seed=2)


@cuda
@pytest.mark.parametrize("n", [6, 21, 48])
def test_reducible_chains_raise_and_say_which(n):
    edges = st.Edges.complete(n)
    rates = random_rates(4, len(edges), seed=0)
    rates[2, edges.src >= n - 2] = 0.0
    with pytest.raises(ReducibleError, match=r"chain \(2,\).*closed class"):
        st.steady_state(st.Generator(edges, rates.cuda()), solver=st.solvers.GTH())


@cuda
@pytest.mark.parametrize("n", [6, 21, 48])
def test_transient_states_have_no_probability(n):
    edges = st.Edges.complete(n)
    rates = random_rates(4, len(edges), seed=0)
    rates[2, (edges.src > 1) & (edges.dst < 2)] = 0.0  # states 0 and 1 are left for ever
    assert_equal_entrywise(edges, rates, seed=3)
    pi = st.steady_state(st.Generator(edges, rates.cuda()), solver=st.solvers.GTH()).pi
    assert pi[2, :2].tolist() == [0.0, 0.0]


@cuda
def test_probabilities_beyond_the_kernels_are_still_right():
    n = 40
    step = torch.arange(n - 1)
    edges = st.Edges(torch.cat([step, step + 1]), torch.cat([step + 1, step]), n)
    rates = torch.cat([torch.full((n - 1,), 1e-5, dtype=torch.float64), torch.ones(n - 1).double()])
    pi = st.steady_state(st.Generator(edges, rates.cuda()), solver=st.solvers.GTH()).pi.cpu()
    exact = 1e-5 ** torch.arange(n, dtype=torch.float64)
    assert float((pi / exact / (1 - 1e-5) - 1).abs().max()) < 1e-10


@cuda
def test_second_derivatives():
    rates = random_rates(2, 20, seed=3).cuda().requires_grad_()
    edges = st.Edges.complete(5)

    def last(rates):
        return st.steady_state(st.Generator(edges, rates), solver=st.solvers.GTH()).pi[..., -1]

    assert torch.autograd.gradcheck(last, rates)
    assert torch.autograd.gradgradcheck(last, rates)


@cuda
def test_odd_shapes():
    edges = st.Edges.complete(7)
    rates = random_rates(12, 42, seed=0)
    exact = st.steady_state(st.Generator(edges, rates)).pi
    for shape in [(3, 4), (12,), (2, 1, 6)]:
        pi = st.steady_state(st.Generator(edges, rates.reshape(*shape, 42).cuda())).pi
        torch.testing.assert_close(pi.cpu(), exact.reshape(*shape, 7), rtol=1e-12, atol=0)
    one = st.steady_state(st.Generator(edges, rates[0].cuda())).pi
    torch.testing.assert_close(one.cpu(), exact[0], rtol=1e-12, atol=0)
    assert st.steady_state(st.Generator(edges, rates[:0].cuda())).pi.shape == (0, 7)
    # Rates that are a view into something larger.
    wide = torch.stack([rates, rates], -1).cuda()[..., 0]
    torch.testing.assert_close(
        st.steady_state(st.Generator(edges, wide)).pi.cpu(), exact, rtol=1e-12, atol=0
    )


@cuda
def test_some_of_the_chains():
    edges = st.Edges.complete(6)
    factor = st.solvers.GTH().factor(st.Generator(edges, random_rates(8, 30, seed=0).cuda()))
    h = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)).double().cuda()
    h -= (factor.pi * h).sum(-1, keepdim=True)
    chains = torch.tensor([5, 2], device="cuda")
    torch.testing.assert_close(factor.select(chains).solve(h[chains]), factor.solve(h)[chains])
    torch.testing.assert_close(
        factor.select(chains).rate_gradient(h[chains]), factor.rate_gradient(h)[chains]
    )


# Large sparse chains.


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("edges", [some_edges(50, seed=0), st.Edges.complete(40), lattice(9)])
def test_products_are_those_of_the_dense_matrix(device, batch, edges):
    rates = random_rates(4, len(edges), seed=0)[: torch.Size(batch).numel()]
    generator = st.Generator(edges, rates.reshape(*batch, len(edges)).to(device))
    x = torch.randn(*batch, edges.n, generator=torch.Generator().manual_seed(1)).double().to(device)
    Q = generator.dense()
    torch.testing.assert_close(generator_times(generator, x), (Q @ x[..., None])[..., 0])
    into = (x[..., None, :] @ (Q - torch.diag_embed(Q.diagonal(dim1=-2, dim2=-1))))[..., 0, :]
    torch.testing.assert_close(Products(generator).inflow(x), into)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("edges", [some_edges(30, seed=4), lattice(6)])
def test_relaxation_agrees_with_elimination(device, edges):
    # A lattice alternates between the even and the odd: without damping it would not settle.
    rates = random_rates(3, len(edges), seed=5)
    g = torch.randn(3, edges.n, generator=torch.Generator().manual_seed(6)).double()
    pi, gradient = gradients(edges, rates, device, g, Jacobi(tolerance=1e-12))
    exact, expected = gradients(edges, rates, "cpu", g, st.solvers.GTH())
    assert float((pi / exact - 1).abs().max()) < 1e-9
    assert float((gradient - expected).abs().max() / expected.abs().max()) < 1e-9


@pytest.mark.parametrize("device", DEVICES)
def test_relaxation_solves_the_transposed_equation(device):
    edges = some_edges(20, seed=0)
    generator = st.Generator(edges, random_rates(2, len(edges), seed=0).to(device))
    b = torch.randn(2, 20, generator=torch.Generator().manual_seed(0)).double().to(device)
    b -= b.mean(-1, keepdim=True)
    factor = Jacobi(tolerance=1e-12).factor(generator)
    balance = -(factor.solve_transposed(b)[..., None, :] @ generator.dense())[..., 0, :]
    torch.testing.assert_close(balance, b, rtol=0, atol=1e-9)
    chosen = torch.tensor([1], device=device)
    torch.testing.assert_close(
        factor.select(chosen).solve_transposed(b[1:]), factor.solve_transposed(b)[1:]
    )


@pytest.mark.parametrize("device", DEVICES)
def test_relaxation_gives_up_and_refuses(device):
    edges = lattice(12)
    slow = st.Generator(edges, torch.full((len(edges),), 1.0, dtype=torch.float64, device=device))
    with pytest.raises(SolverError, match=r"did not settle within 128 steps"):
        st.steady_state(slow, solver=Jacobi(most=128))
    two_ends = st.Edges.from_pairs([(1, 0), (1, 2)], 3)
    with pytest.raises(ReducibleError):
        st.steady_state(st.Generator(two_ends, torch.ones(2).double().to(device)), solver=Jacobi())
    with pytest.raises(InputError, match="damping"):
        Jacobi(damping=1.0)
    with pytest.raises(InputError, match="tolerance"):
        Jacobi(tolerance=0.0)


def test_relaxation_refuses_sets_that_hardly_communicate():
    # It used to settle within each set, at the share of probability it had started with.
    pairs = [(0, 1), (1, 0), (2, 3), (3, 2), (1, 2), (3, 0)]
    rates = torch.tensor([1.0, 1.0, 1.0, 1.0, 1e-18, 3e-18], dtype=torch.float64)
    generator = st.Generator(st.Edges.from_pairs(pairs, 4), rates)
    with pytest.raises(SolverError, match=r"hardly communicate.*\{0, 1\}, \{2, 3\}"):
        st.steady_state(generator, solver=Jacobi())


@pytest.mark.parametrize("device", DEVICES)
def test_randomly_stopped_gradients_of_a_sparse_chain(device):
    edges = some_edges(200, seed=1)
    rates = random_rates(1, len(edges), seed=1)[0]
    g = torch.randn(200, generator=torch.Generator().manual_seed(2)).double()
    exact = gradients(edges, rates, "cpu", g, st.solvers.GTH())[1]
    gradient = st.Infinity(p=0.05, seed=0, control=True, draws=8)
    leaf = rates.to(device).requires_grad_()
    for _ in range(60):  # the control variate closes in on the exact gradient
        state = st.steady_state(st.Generator(edges, leaf), solver=Jacobi(), gradient=gradient)
        (last,) = torch.autograd.grad(state.pi, leaf, g.to(device))
    assert float((last.cpu() - exact).abs().max() / exact.abs().max()) < 1e-3
