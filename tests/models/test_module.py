"""Modules of PyTorch as chains: parameters of any shape, fits, and what there is no answer to."""

import copy

import pytest
import torch
from torch import nn

import stationary as st

CAPACITY = 10
EDGES = [(k, k + 1) for k in range(CAPACITY)] + [(k + 1, k) for k in range(CAPACITY)]
THREE = [0, 1, 2]


class Queue(nn.Module):
    """Arrivals at the load; a service rate that is a network of the load."""

    def __init__(self, hidden=4):
        super().__init__()
        self.speed = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.register_buffer("unit", torch.tensor(10.0))
        nn.init.constant_(self.speed[-1].bias, 2.5)

    def forward(self, x):
        rate = self.speed(x / self.unit).exp()
        return torch.cat([part.expand(*x.shape[:-1], CAPACITY) for part in (x, rate)], -1)


def network(hidden=4, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = Queue(hidden).double()
    return st.models.FromModule(module, states=CAPACITY + 1, edges=EDGES)


@pytest.fixture(scope="module", name="windows")
def simulated():
    queue = st.models.MMmK(capacity=CAPACITY, service_rate=20.0)
    loads = torch.linspace(8.0, 16.0, 40)
    return st.simulate(queue, x=loads, duration=20.0, seed=0).observing(THREE)


def nll(model, windows):
    return st.conditional_nll(st.steady_state(model(windows.x)).pi, windows.counts, THREE).sum()


# A chain like any other


def test_rates_are_those_of_the_module_for_any_batch():
    model = network()
    x = torch.tensor([[8.0], [12.0], [16.0]], dtype=torch.float64)
    theta = torch.stack([model.theta, model.theta + 0.1, model.theta - 0.2]).detach()
    torch.testing.assert_close(model.edge_rates(x, model.theta), model.module(x))
    each = torch.stack([model.edge_rates(x, row) for row in theta])
    torch.testing.assert_close(model.edge_rates(x, theta[:, None]), each)
    torch.testing.assert_close(model.edge_rates(x, theta), each.diagonal().mT)
    torch.testing.assert_close(
        model.edge_rates(x[:, None], theta[:, None]), each.diagonal().mT[:, None]
    )


def test_one_rule_for_theta_module_and_state_dict():
    model, other = network(), network(seed=1)
    assert len(model.param_names) == 13
    assert model.param_names[0] == "speed.0.weight_0"
    assert not torch.equal(model.theta, other.theta)
    other.load_state_dict(model.state_dict())
    assert torch.equal(model.theta, other.theta)
    other.set_theta(model.theta + 1.0)
    torch.testing.assert_close(other.module.speed[2].bias, model.theta[-1:] + 1.0)
    assert "weights=13" in repr(model)


def test_frozen_parameters_stay_as_they_are(windows):
    module = Queue().double()
    module.speed[0].requires_grad_(requires_grad=False)
    model = st.models.FromModule(module, states=CAPACITY + 1, edges=EDGES)
    assert len(model.param_names) == 5
    before = module.speed[0].weight.clone()
    fitted = st.fit(model, windows).model
    assert torch.equal(fitted.module.speed[0].weight, before)
    assert not torch.equal(fitted.module.speed[2].weight, module.speed[2].weight)


class Half(nn.Module):
    """One half of the rates of a queue."""

    def __init__(self, queue, which):
        super().__init__()
        self.queue, self.which = queue, which

    def forward(self, x):
        return self.queue(x).chunk(2, -1)[self.which]


def test_rates_of_several_modules_are_joined():
    queue = Queue().double()
    one, two = (
        st.models.FromModule(module, states=CAPACITY + 1, edges=EDGES)
        for module in (queue, [Half(copy.deepcopy(queue), which) for which in (0, 1)])
    )
    x = torch.tensor([[8.0], [12.0]], dtype=torch.float64)
    torch.testing.assert_close(two(x).rates, one(x).rates)


def test_a_matrix_of_rates_needs_no_edges():
    class Matrix(nn.Module):
        def __init__(self):
            super().__init__()
            self.log_rates = nn.Parameter(torch.zeros(3, 3, dtype=torch.float64))

        def forward(self, x):
            return x[..., None] * self.log_rates.exp()

    model = st.models.FromModule(Matrix(), states=["a", "b", "c"])
    assert model([2.0]).dense().tolist() == [[[-4, 2, 2], [2, -4, 2], [2, 2, -4]]]
    assert model.measures == ("p_a", "p_b", "p_c")


# Fits


def test_a_network_finds_the_rate_and_says_what_it_does_not_know(windows, tmp_path):
    fit = st.fit(network(), windows)
    assert fit.converged
    assert str(fit.estimate.ended.why) == "settled"
    # Thirteen weights in place of one rate gain what chance explains, about one nat for two.
    queue = st.fit(st.models.MMmK(capacity=CAPACITY), windows)
    assert queue.nll - 20 < fit.nll < queue.nll + 1
    rate = fit.model([12.0]).rates[0, -1].item()
    assert rate == pytest.approx(20.0, rel=0.05)
    forecast = fit.forecast([12.0, 24.0], measures=["p_10"])
    assert forecast["p_10"].notna().all()
    assert not forecast["trusted"].any()
    assert fit.table()["std_error"].isna().all()
    assert "weights of a network" in str(fit)
    for ask in (fit.identify, lambda: fit.next_experiment(p_10=0.1)):
        with pytest.raises(st.errors.InputError, match="weights of a network"):
            ask()
    fit.report(tmp_path / "network.html")
    assert "weights of a network" in (tmp_path / "network.html").read_text(encoding="utf-8")


def test_ten_thousand_weights_make_no_hessian(windows, tmp_path):
    model = network(hidden=3400)
    assert len(model.param_names) > 10_000
    fit = st.fit(model, windows)
    fit.forecast([12.0], measures=["p_10"])
    assert fit.findings
    fit.save(tmp_path / "run")
    assert sum(file.stat().st_size for file in (tmp_path / "run").iterdir()) < 2e7
    again = st.load(tmp_path / "run", model=network(hidden=3400))
    assert again.nll == fit.nll
    assert fit.nll == pytest.approx(st.fit(network(), windows).nll, abs=5)


def test_stochastic_fits_and_a_bootstrap(windows):
    method = st.Stochastic(
        gradient=st.Exact(), epochs=30, batch=8, rule=st.optimisers.Adam(lr=0.03)
    )
    with pytest.warns(st.errors.ConvergenceWarning, match="30 epochs"):
        fit = st.fit(network(), windows, method=method)
    assert fit.nll < nll(network(), windows).item()
    assert "unknown distance" in str(fit)
    drawn = st.fit(network(), windows).bootstrap(20, jobs=1)
    row = drawn.forecast([12.0], measures=["p_0"]).iloc[0]
    assert 0 < row["p_0_low"] < row["p_0"] < row["p_0_high"] < 1


def test_an_optimiser_of_ones_own_on_mini_batches(windows):
    model = network()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    order = torch.Generator().manual_seed(0)
    for _ in range(40):
        for chosen in torch.randperm(len(windows), generator=order).split(8):
            optimiser.zero_grad()
            nll(model, windows.select(chosen)).backward()
            optimiser.step()
    best = st.fit(network(), windows).nll
    assert nll(model, windows).item() == pytest.approx(best, abs=10)


# Errors


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Queue(), r"speed\.0\.weight.*float32.*module\.double\(\)"),
        (nn.Identity(), "no parameter that requires gradients"),
        (nn.Linear(1, 21).double(), r"rates .*20\); got \(.*21\)"),
        ("network", "nn.Module"),
        (nn.Sequential(Queue(), nn.Dropout(0.5)).double(), "any batch"),
        (nn.Sequential(nn.BatchNorm1d(1), Queue()).double(), "treat each row by itself"),
    ],
)
def test_modules_that_are_no_chain(module, message):
    with pytest.raises(st.errors.InputError, match=message):
        st.models.FromModule(module, states=CAPACITY + 1, edges=EDGES)


def test_a_function_is_no_module():
    with pytest.raises(st.errors.InputError, match=r"module must be an nn\.Module"):
        st.models.FromModule(lambda x: x, states=2)


def test_negative_rates_name_their_edge():
    model = st.models.FromModule(nn.Linear(1, 2).double(), states=2, edges=[(0, 1), (1, 0)])
    model.set_theta([-1.0, 1.0, 0.0, 0.0])
    with pytest.raises(st.errors.RateError, match="from state 0 to state 1 is -5"):
        model([5.0])
