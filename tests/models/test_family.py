"""What every queue of the family must do: conserve, differentiate, be learnt, saved, named."""

import pytest
import torch

import stationary as st
from stationary import models
from stationary.errors import InputError
from stationary.models import registry

FAMILY = [
    models.MMmK(servers=2, capacity=6, service_rate=6.0),
    models.StateDependent(depth=3, capacity=6, service_1=8.0, service_2=12.0, service_3=14.0),
    models.Service(capacity=6, service_rate=6.0, variability=0.6),
    models.Slowing(servers=2, capacity=6, service_rate=8.0, slowdown=0.3),
    models.UniversalScalability(capacity=6, service_rate=8.0, contention=0.4, coherency=0.1),
    models.Balking(servers=2, capacity=6, service_rate=6.0, balking=0.4),
    models.FiniteClients(servers=2, capacity=6, clients=9, service_rate=6.0),
    models.BatchArrivals(servers=2, capacity=6, service_rate=6.0, extra=0.8),
    models.OnOffArrivals(servers=2, capacity=6, service_rate=6.0, burst=0.8, switching=5.0),
    models.ErlangService(phases=3, capacity=6, service_rate=12.0),
    models.HyperexponentialService(capacity=6, service_rate=12.0, extra_variation=3.0),
    models.Resetting(servers=2, capacity=6, service_rate=6.0, reset=2.0),
    models.Leaking(servers=2, capacity=6, service_rate=6.0, leak=1.0, reset=3.0),
    models.Leaking(servers=2, capacity=6, spill=1, service_rate=6.0, leak=1.0, reset=3.0),
]
NAMES = [f"{m.name}{'-spill' if m.options.get('spill') else ''}" for m in FAMILY]
each = pytest.mark.parametrize("model", FAMILY, ids=NAMES)

PAPERS = [
    models.MultiDiagonal(depth=2, capacity=5, rate_1=3.0, rate_2=0.5),
    models.UpperTriangular(states=5),
    models.Relaxed(models.MMmK(servers=1, capacity=3), alpha=2.0),
]

UNEVEN = {"balking", "finite", "onoff"}
"""Models whose requests come more often in some states than in others."""


def measured(model, x):
    point = model.at(x, model.theta.detach())
    return {name: model.measure(name)(point)[0].item() for name in model.measures}, point.pi[0]


def found(model, x):
    """Probability of every state in the eyes of arriving requests."""
    point = model.at(x, model.theta.detach())
    arrive = model.arrivals(point)
    weighed = point.pi if arrive is None else point.pi * arrive
    return weighed / weighed.sum(-1, keepdim=True)


@each
@pytest.mark.parametrize("load", [2.0, 10.0, 80.0])
def test_what_comes_is_lost_or_served(model, load):
    value, pi = measured(model, [load])
    level = torch.tensor([0.0 if g == "overload" else float(g) for g in model.groups]).double()
    assert value["mean_queue"] == pytest.approx(float(pi @ level))
    if isinstance(model, models.StateDependent | models.Slowing | models.UniversalScalability):
        served = float(pi[1:] @ model.deaths(model.at([load]).p).detach())
    else:
        served = model.estimates["service_rate"] * model.servers * value["utilisation"]
    assert value["throughput"] == pytest.approx(served, rel=1e-10)
    offered = load
    if model.name == "finite":
        offered = load * (1 - value["mean_queue"] / 9)
    assert served == pytest.approx(offered * (1 - value["loss"]), rel=1e-10)
    assert 0 < value["loss"] < 1
    # Little's law on those that got in: what left served, and what was thrown out.
    thrown = {"resetting": 2.0, "leaking": 1.0}.get(model.name, 0.0) * value["mean_queue"]
    if model.options.get("spill"):
        thrown += load * 6 * float(pi[6])
    time = value["mean_queue"] / (served + thrown)
    assert value["response_time"] == pytest.approx(time, rel=1e-10)


def test_no_queue_of_the_command_line_is_left_out():
    assert {model.name for model in [*FAMILY, *PAPERS]} == {*registry.names(), "relaxed"}
    assert all(registry.model_class(name).name == name for name in registry.names())


@pytest.mark.parametrize("model", [*FAMILY, *PAPERS], ids=lambda m: m.name)
def test_gradients_against_finite_differences(model):
    x = model.as_inputs([4.0, 11.0])

    def log_pi(z):
        return st.steady_state(model.generator(x, model.natural(z)), gradient=st.Exact()).pi.log()

    def measures(z):
        point = model.at(x, model.natural(z))
        return torch.stack([model.measure(name)(point) for name in model.measures])

    z = model.free(model.theta.detach()).requires_grad_()
    assert torch.autograd.gradcheck(log_pi, z)
    assert torch.autograd.gradcheck(measures, z)
    weight = torch.arange(len(model.states)).double().square()  # which no symmetry cancels
    (slope,) = torch.autograd.grad((log_pi(z) * weight).sum(), z)
    assert bool((slope != 0).all())


@each
def test_parameters_are_found_again(model):
    loads = [3.0, 6.0, 9.0, 12.0, 16.0, 20.0] * 5
    windows = st.simulate(model, loads, duration=200.0, seed=3)
    assert windows.labels == model.visible
    blank = registry.build(registry.describe(model))
    fit = st.fit(blank, windows)
    assert fit.converged, fit.message
    error = fit.covariance.stderr
    off = blank.free(fit.model.theta.detach()) - blank.free(model.theta.detach())
    assert (error < 0.15).all(), error  # else finding it says nothing
    assert (off.abs().numpy() < 4 * error).all()


PLAIN = {"servers": 1, "capacity": 8}


NEUTRAL = {"finite": {"clients": 10**9}, "erlang": {"phases": 1}}
NESTING = {*registry.names()} - {"mmmk", "service", "multidiagonal", "uppertriangular"}


@pytest.mark.parametrize("name", sorted(NESTING))
def test_on_data_of_a_plain_queue_none_fits_worse_and_none_much_better(name):
    model = registry.build({"name": name, "capacity": 8, **NEUTRAL.get(name, {})})
    truth = models.MMmK(**PLAIN, service_rate=25.0)
    windows = st.simulate(truth, [10.0, 14.0, 18.0, 22.0] * 10, duration=20.0, seed=0)
    plain, richer = st.fit(models.MMmK(**PLAIN), windows), st.fit(model, windows)
    assert richer.converged, richer.message
    assert plain.nll - 5.0 < richer.nll < plain.nll + 1e-4


@each
def test_a_saved_fit_forecasts_the_same(model, tmp_path):
    windows = st.simulate(model, [3.0, 9.0, 16.0] * 4, duration=50.0, seed=4)
    fit = st.fit(registry.build(registry.describe(model)), windows)
    fit.save(tmp_path / "run")
    again = st.load(tmp_path / "run")
    one, other = fit.forecast(x=[5.0, 40.0]), again.forecast(x=[5.0, 40.0])
    assert one.equals(other)
    assert bool((one["loss_low"] < one["loss"]).all() and (one["loss"] < one["loss_high"]).all())


# Who looked.


@each
def test_only_batches_refuse_counts_by_arriving_requests(model):
    seen = st.Windows([5.0] * 3, [[9, 4], [8, 5], [7, 5]], observe=[0, 1], sampling="arrival")
    assert model.arrives_alone == (model.name != "batch")
    if model.arrives_alone:
        assert seen.observation(model).observed.sum() >= 2
        assert st.simulate(model, [5.0], scheme=st.simulation.PoissonCounts()).sampling == "arrival"
        return
    words = rf"sampling='arrival'.*{type(model).__name__}.*sampling='time'"
    with pytest.raises(InputError, match=words):
        st.fit(model, seen)
    with pytest.raises(InputError, match="sampling='arrival'"):
        st.fit(models.Relaxed(model, alpha=1.0), seen, epochs=1)
    with pytest.raises(InputError, match=rf"PoissonCounts.*{type(model).__name__}.*Events\(\)"):
        st.simulate(model, [5.0], scheme=st.simulation.PoissonCounts())


@each
def test_where_requests_arrive_the_queue_grows(model):
    point = model.at([3.0, 20.0], model.theta.detach())
    arrive = model.arrivals(point)
    assert (arrive is not None) == (model.name in UNEVEN)
    if not model.arrives_alone:
        return
    rates = model.generator(point.x, point.theta).dense()
    # A failed system is empty and grows no more, and a full one only by what it does not count.
    grows = (model.levels[None, :] > model.levels[:, None]) & (model.lost[:, None] == 0)
    grown = (rates * grows).sum(-1)
    expected = point.load.expand_as(grown) if arrive is None else arrive
    torch.testing.assert_close(grown, expected * (model.lost == 0), rtol=1e-12, atol=0)
    torch.testing.assert_close(
        (found(model, [3.0, 20.0]) * model.lost).sum(-1),
        (point.pi * expected * model.lost).sum(-1) / (point.pi * expected).sum(-1),
    )


def test_a_client_finds_what_the_others_leave():
    # The arrival theorem: the system as the clock would see it, were this client not there.
    model = models.FiniteClients(servers=2, capacity=6, clients=9, service_rate=6.0)
    others = models.FiniteClients(servers=2, capacity=6, clients=8, service_rate=6.0)
    loads = torch.tensor([3.0, 20.0], dtype=torch.float64)
    expected = others.closed_form(loads * 8 / 9)
    torch.testing.assert_close(found(model, loads), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    "model",
    [m for m in FAMILY if m.name in {*UNEVEN, "batch", "leaking"} or m.groups != m.states],
    ids=lambda m: m.name,
)
def test_arrivals_are_simulated_only_where_they_go_one_state_up(model):
    with pytest.raises(InputError, match=r"Arrivals\(\) needs"):
        # A phase of Erlang service ends at rate 36: no coincidence of rates may let it through.
        st.simulate(model, [36.0], scheme=st.simulation.Arrivals())


def test_relaxed_keeps_levels_and_measures():
    base = models.OnOffArrivals(capacity=2, service_rate=3.0)
    model = models.Relaxed(base, alpha=1.0, initial=1e-12)
    assert (model.groups, model.arrives_alone) == (base.groups, True)
    torch.testing.assert_close(found(model, [2.0]), found(base, [2.0]), rtol=1e-9, atol=0)
    plain, relaxed = measured(base, [2.0])[0], measured(model, [2.0])[0]
    assert relaxed == pytest.approx(plain, rel=1e-9)


def test_without_loss_a_forecast_still_stands():
    # As many places as clients: none is ever lost.
    truth = models.FiniteClients(servers=1, capacity=4, clients=4, service_rate=5.0)
    fit = st.fit(truth, st.simulate(truth, [3.0, 6.0] * 8, duration=50.0, seed=2))
    frame = fit.forecast(x=[4.0, 40.0])
    assert frame["loss"].tolist() == [0.0, 0.0]
    assert frame["trusted"].tolist() == [True, False]  # nothing tests a load of 40
