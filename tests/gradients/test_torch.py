"""The layer as a citizen of PyTorch: torch.func, torch.compile, autocast, workers, export."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from torch.utils.data import DataLoader, Dataset

import problems
import stationary as st
from problems import SOLVERS

# Of torch itself, in forward mode and while it compiles.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute", "ignore:`torch.jit.script")


def pi(Q, solver=None):
    return st.steady_state(Q, solver).pi


def loss(Q):
    return pi(Q)[..., -1].log().sum()


@pytest.fixture(name="Q")
def three_chains():
    return problems.random_rates(3, n=4, seed=0)


def slopes(Q):
    """Gradient by plain backpropagation."""
    leaf = Q.clone().requires_grad_()
    loss(leaf).backward()
    return leaf.grad


# torch.func


def test_transforms_agree_with_backpropagation(Q):
    torch.testing.assert_close(grad(loss)(Q), slopes(Q))
    torch.testing.assert_close(vmap(pi)(Q), pi(Q))
    torch.testing.assert_close(vmap(grad(loss))(Q), slopes(Q))
    torch.testing.assert_close(grad(lambda Q: vmap(loss)(Q).sum())(Q), slopes(Q))


def test_an_axis_anywhere_can_be_mapped(Q):
    torch.testing.assert_close(vmap(pi, in_dims=2, out_dims=1)(Q.movedim(0, 2)), pi(Q).mT)
    twice = torch.stack([Q, 2 * Q + 1])
    torch.testing.assert_close(vmap(vmap(pi))(twice), pi(twice))
    torch.testing.assert_close(vmap(vmap(grad(loss)), in_dims=1, out_dims=1)(twice), slopes(twice))


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_jacobians_in_both_modes(solver):
    n = 4
    step = torch.arange(n - 1)
    edges = st.Edges(torch.cat([step, step + 1]), torch.cat([step + 1, step]), n)
    rates = torch.linspace(1.0, 2.0, len(edges), dtype=torch.float64)

    def of(rates):
        return st.steady_state(st.Generator(edges, rates), solver).pi

    expected = torch.autograd.functional.jacobian(of, rates)
    torch.testing.assert_close(jacrev(of)(rates), expected)
    torch.testing.assert_close(jacfwd(of)(rates), expected)
    direction = torch.linspace(-1.0, 1.0, len(edges), dtype=torch.float64)
    torch.testing.assert_close(jvp(of, (rates,), (direction,))[1], expected @ direction)


@pytest.mark.parametrize("second", [hessian, lambda f: jacrev(jacrev(f))], ids=["mixed", "reverse"])
def test_second_derivatives_by_transforms(second, Q):
    expected = torch.autograd.functional.hessian(loss, Q[0])
    torch.testing.assert_close(second(loss)(Q[0]), expected)
    torch.testing.assert_close(vmap(second(loss))(Q)[0], expected)


def test_forward_over_forward_is_not_silently_wrong(Q):
    # torch switches forward mode off inside a jvp: the second derivative lost its inner part.
    expected = torch.autograd.functional.hessian(loss, Q[0])
    torch.testing.assert_close(jacfwd(jacfwd(loss))(Q[0]), expected)
    torch.testing.assert_close(jacrev(jacfwd(loss))(Q[0]), expected)


def test_gradcheck_in_all_modes(Q):
    assert torch.autograd.gradcheck(pi, Q[:2].requires_grad_(), check_forward_ad=True)
    one = Q[0].detach().requires_grad_()
    assert torch.autograd.gradgradcheck(pi, one, check_fwd_over_rev=True, check_rev_over_rev=True)


def test_bad_rates_are_refused_under_transforms_too(Q):
    with pytest.raises(st.errors.RateError, match="-1"):
        vmap(pi)(Q.index_fill(-1, torch.tensor([1]), -1.0))
    with pytest.raises(st.errors.ReducibleError):
        grad(loss)(torch.zeros_like(Q))


def test_backpropagation_through_time_can_be_transformed(Q):
    strategy = st.DivideAndConquerBPTT(16)

    def through_time(Q):
        return st.steady_state(Q, gradient=strategy).pi[..., -1].log().sum()

    leaf = Q.clone().requires_grad_()
    through_time(leaf).backward()
    torch.testing.assert_close(vmap(grad(through_time))(Q), leaf.grad)


def test_a_random_gradient_says_that_it_cannot_be_transformed(Q):
    with pytest.raises(st.errors.InputError, match=r"torch\.func.*Exact\(\)"):
        grad(lambda Q: st.steady_state(Q, gradient=st.Infinity(seed=0)).pi.sum())(Q)


# Losses


def test_losses_under_transforms_and_in_forward_mode(Q):
    counts = torch.tensor([[5.0, 3.0]], dtype=torch.float64).expand(3, 2)

    def nll(Q):
        return st.conditional_nll(pi(Q), counts, [0, 1]).sum()

    leaf = Q.clone().requires_grad_()
    nll(leaf).backward()
    torch.testing.assert_close(grad(nll)(Q), leaf.grad)
    with forward_ad.dual_level():
        value = nll(forward_ad.make_dual(Q, torch.ones_like(Q)))
        torch.testing.assert_close(forward_ad.unpack_dual(value).tangent, leaf.grad.sum())


def test_cross_entropy_is_least_at_the_shares_themselves(Q):
    shares = pi(Q)[:, :2] / pi(Q)[:, :2].sum(-1, keepdim=True)
    leaf = Q.clone().requires_grad_()
    value = st.conditional_nll(pi(leaf), shares, [0, 1])
    torch.testing.assert_close(value.detach(), -(shares * shares.log()).sum(-1))
    assert float(torch.autograd.grad(value.sum(), leaf)[0].abs().max()) < 1e-15


def test_moments_are_fitted_by_least_squares():
    # The service rate of M/M/1/K from its mean and mean square alone.
    model = st.models.MMmK(capacity=8, service_rate=12.0)
    values = torch.stack([torch.arange(9.0), torch.arange(9.0).square()]).double()
    loads = torch.tensor([[5.0], [7.0]], dtype=torch.float64)
    targets = (pi(model(loads)) @ values.mT).detach()
    model.set_theta([20.0])
    optimiser = torch.optim.LBFGS(
        model.parameters(), max_iter=50, tolerance_grad=0, tolerance_change=0
    )

    def closure():
        optimiser.zero_grad()
        value = (pi(model(loads)) @ values.mT - targets).square().sum()
        value.backward()
        return value

    optimiser.step(closure)
    assert model.estimates["service_rate"] == pytest.approx(12.0, rel=1e-6)


# Compilers, precision, processes


def test_compiled_code_breaks_the_graph_and_goes_on(Q):
    layer = torch.nn.Linear(4, 4, dtype=torch.float64)

    def network(Q):
        return (pi(layer(Q).exp()).log() * 2).sum()

    compiled = torch.compile(network, backend="aot_eager")
    torch.testing.assert_close(compiled(Q), network(Q))
    compiled(Q).backward()
    found = layer.weight.grad.clone()
    layer.zero_grad()
    network(Q).backward()
    torch.testing.assert_close(found, layer.weight.grad)


@pytest.mark.parametrize("strict", [True, False])
def test_export_is_refused_with_a_remedy(strict, Q):
    class Network(torch.nn.Module):
        def forward(self, Q):
            return pi(Q.exp())

    with pytest.raises(Exception, match="export the part of the network that computes the rates"):
        torch.export.export(Network(), (Q,), strict=strict)


def test_autocast_leaves_the_layer_in_double_precision(Q):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = pi(Q)
        through_time = st.steady_state(Q, gradient=st.DivideAndConquerBPTT(1024)).pi
        low = torch.nn.Linear(4, 4)(Q.float()).exp()
        assert low.dtype == torch.bfloat16
        with pytest.raises(st.errors.InputError, match=r"float64.*bfloat16.*\.double\(\)"):
            pi(low)
    assert torch.equal(inside, pi(Q))
    torch.testing.assert_close(through_time, inside)


class SteadyStates(Dataset):
    """Steady states that the workers of a loader compute."""

    def __init__(self):
        self.Q = problems.random_rates(6, n=4, seed=1)

    def __len__(self):
        return len(self.Q)

    def __getitem__(self, k):
        return pi(self.Q[k])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_loader_solve_chains(method):
    data = SteadyStates()
    pi(problems.random_rates(20_000, n=10, seed=2))  # which starts threads that a fork loses
    loader = DataLoader(data, batch_size=3, num_workers=2, multiprocessing_context=method)
    torch.testing.assert_close(torch.cat(list(loader)), pi(data.Q))
