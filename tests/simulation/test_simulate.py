"""Simulation: against steady states, exact variances and an independent simulator.

Windows that start in steady state are independent of each other, so a mean over M of them has the
standard error ``sd / sqrt(M)`` whatever the correlation within a window. Seeds are fixed, and 4.5
standard errors keep a right simulator from failing on the draw.
"""

import math

import ciw
import numpy as np
import pytest
import scipy.stats
import torch

import stationary as st
from stationary.errors import DataWarning, InputError
from stationary.models import FromFunction, MMmK, MultiDiagonal, Relaxed, UpperTriangular
from stationary.simulation import (
    Arrivals,
    Events,
    PoissonCounts,
    Responses,
    Trajectory,
    simulate,
    trajectory,
)

SCHEMES = [Events(), Events(gamma=60.0), Arrivals(), PoissonCounts()]
MODELS = [
    MMmK(servers=1, capacity=4, service_rate=25.0),
    MMmK(servers=3, capacity=5, service_rate=6.0),
    MultiDiagonal(depth=2, capacity=4, rate_1=9.0, rate_2=6.0),
    UpperTriangular(states=4, rate_1_0=20.0, rate_2_1=11.0, rate_3_0=5.0, rate_3_2=4.0),
]
QUEUE = MODELS[0]


def assert_mean(samples, expected):
    """Mean of independent rows within 4.5 of its own standard errors."""
    samples = np.asarray(samples, dtype=float)
    error = samples.std(0, ddof=1) / math.sqrt(len(samples))
    assert (error > 0).all()
    assert (np.abs(samples.mean(0) - expected) < 4.5 * error).all()


def steady(model, x):
    return st.steady_state(model([x])).pi[0].detach().numpy()


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_the_seed_fixes_everything(scheme):
    x = [11.0, 12.0, 13.0]
    one = simulate(QUEUE, x, duration=2.0, seed=5, scheme=scheme)
    np.random.seed(0)  # noqa: NPY002 - a global seed must not matter
    torch.manual_seed(1)
    assert one == simulate(QUEUE, x, 2.0, seed=np.random.default_rng(5), scheme=scheme)
    assert one != simulate(QUEUE, x, 2.0, seed=6, scheme=scheme)
    assert (one.observe, one.inputs) == ((0, 1, 2, 3, 4), QUEUE.inputs)
    assert one.x.tolist() == [[11], [12], [13]]
    assert one.duration.tolist() == [2, 2, 2]
    assert one.by_arrivals == isinstance(scheme, Arrivals | PoissonCounts)


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_frequencies_are_the_steady_state(model, scheme):
    x = 14.0
    counts = simulate(model, [x] * 4000, duration=1.0, seed=11, scheme=scheme).counts.numpy()
    pi = steady(model, x)
    # A ratio of means, made linear: y_j - pi_j y has mean 0 exactly when y_j / y tends to pi_j.
    assert_mean(counts - pi * counts.sum(1, keepdims=True), 0.0)


def test_events_count_gamma_t_plus_one():
    duration, gamma = 0.7, np.repeat([50.0, 80.0], 3000)
    made = simulate(QUEUE, [11.0] * 6000, duration, seed=2, scheme=Events(gamma=gamma))
    total = made.counts.sum(1).numpy()
    assert_mean(total[:3000], 50.0 * duration + 1)
    assert_mean(total[3000:], 80.0 * duration + 1)
    assert total[:3000].var(ddof=1) == pytest.approx(50.0 * duration, rel=0.12)
    just_above = simulate(QUEUE, [11.0] * 3000, duration, seed=3).counts.sum(1)
    assert_mean(just_above, 36.0 * duration + 1)


def test_events_have_the_exact_variance():
    """Variance of the counts from powers of P: what Algorithm 1 implies, correlation and all."""
    x, gamma = 14.0, 60.0
    counts = simulate(QUEUE, [x] * 20_000, seed=4, scheme=Events(gamma)).counts.numpy()
    P, _ = QUEUE([x]).uniformize(gamma)
    P, pi = P[0].detach().numpy(), steady(QUEUE, x)
    events = np.arange(200)
    weight = scipy.stats.poisson.pmf(events, gamma)
    expected = (gamma + 1) * pi * (1 - pi) + gamma * pi**2
    power = np.eye(len(pi))
    for lag in range(1, 200):
        power = power @ P
        pairs = weight @ np.clip(events + 1 - lag, 0, None)
        expected = expected + 2 * pairs * pi * (np.diag(power) - pi)
    assert_mean((counts - counts.mean(0)) ** 2, expected)
    independent = (gamma + 1) * pi  # what uncorrelated samples would have, about
    assert expected[0] > 2 * independent[0]


def test_arrivals_are_a_poisson_stream_and_losses_match_the_closed_form():
    model, x, duration = MMmK(servers=2, capacity=5, service_rate=6.0), 13.0, 2.0
    counts = simulate(model, [x] * 6000, duration, seed=7, scheme=Arrivals()).counts.numpy()
    total = counts.sum(1)
    assert_mean(total, x * duration)
    assert_mean((total - total.mean()) ** 2, x * duration)
    loss = float(model.closed_form([x])[0, -1])
    assert loss > 0.1
    assert_mean(counts[:, -1] - loss * total, 0.0)
    # Arrivals see a correlated queue, with far more spread than independent Poisson counts.
    shortcut = simulate(model, [x] * 6000, duration, seed=7, scheme=PoissonCounts()).counts.numpy()
    assert counts[:, -1].var() > 2 * shortcut[:, -1].var()
    mean = x * duration * steady(model, x)
    assert_mean(shortcut, mean)
    assert_mean((shortcut - mean) ** 2, mean)


# --- an independent simulator -------------------------------------------------------------------


def occupancy_by_window(times, states, n, edges):
    """Time in each state between edges, by the exact integral of a step function: ``[W, n]``."""
    ends = np.append(times[1:], edges[-1])
    share = np.zeros((len(edges) - 1, n))
    for state in range(n):
        spent = np.where(states == state, ends - times, 0.0)
        so_far = np.interp(edges, np.append(times, ends[-1]), np.append(0.0, np.cumsum(spent)))
        share[:, state] = np.diff(so_far)
    return share


def assert_same_spread_and_mean(ours, theirs, block=10):
    """Compare means and variances of two runs of windows, neighbours perhaps correlated."""
    for one, other in (
        (ours, theirs),
        ((ours - ours.mean(0)) ** 2, (theirs - theirs.mean(0)) ** 2),
    ):
        blocks = [
            v[: len(v) // block * block].reshape(-1, block, v.shape[1]).mean(1)
            for v in (one, other)
        ]
        error = np.sqrt(sum(v.var(0, ddof=1) / len(v) for v in blocks))
        assert (np.abs(one.mean(0) - other.mean(0)) < 4.5 * error).all()
        assert (error < 0.25 * other.mean(0)).all()  # else the comparison says nothing


@pytest.mark.parametrize(
    ("servers", "capacity", "load", "service"), [(1, 5, 8.0, 10.0), (3, 6, 9.0, 4.0)]
)
def test_agrees_with_ciw(servers, capacity, load, service):
    n, length, count = capacity + 1, 2.0, 3000
    edges = 10.0 + length * np.arange(count + 1)  # ciw starts empty; 10 is many relaxation times
    ciw.seed(21)
    theirs = ciw.Simulation(
        ciw.create_network(
            arrival_distributions=[ciw.dists.Exponential(load)],
            service_distributions=[ciw.dists.Exponential(service)],
            number_of_servers=[servers],
            queue_capacities=[capacity - servers],
        ),
        tracker=ciw.trackers.SystemPopulation(),
    )
    theirs.simulate_until_max_time(edges[-1] + 50.0)  # records exist for those who left only
    times, states = np.array(theirs.statetracker.history).T
    keep = times < edges[-1]
    their_time = occupancy_by_window(times[keep], states[keep], n, edges)
    records = theirs.get_all_records()
    their_counts, _, _ = np.histogram2d(
        [record.arrival_date for record in records],
        [record.queue_size_at_arrival for record in records],
        bins=(edges, np.arange(n + 1) - 0.5),
    )

    model = MMmK(servers=servers, capacity=capacity, service_rate=service)
    path = trajectory(model, load, duration=edges[-1], seed=22)
    our_time = occupancy_by_window(path.times, path.states, n, edges)
    counts = simulate(model, [load] * count, length, seed=23, scheme=Arrivals()).counts.numpy()
    assert_same_spread_and_mean(our_time, their_time)
    assert_same_spread_and_mean(counts, their_counts)
    np.testing.assert_allclose(path.occupancy(n), their_time.sum(0) / their_time.sum(), atol=0.02)


# --- trajectories -------------------------------------------------------------------------------


def test_trajectory_reads_like_a_step_function():
    path = Trajectory(np.array([0.0, 1.0, 3.0]), np.array([0, 2, 1]), 4.0)
    assert path.occupancy(4).tolist() == [0.25, 0.25, 0.5, 0.0]
    assert path.at([0.0, 0.5, 1.0, 2.9, 3.0, 4.0]).tolist() == [0, 0, 2, 2, 1, 1]
    for ask, part in [
        (lambda: path.occupancy(2), "n=2 .* state 2"),
        (lambda: path.at([4.5]), r"\[0, 4\]; got \[4\.5\]"),
        (lambda: path.at(math.nan), r"\[0, 4\]; got nan"),
    ]:
        with pytest.raises(InputError, match=part):
            ask()


def test_trajectory_moves_along_edges_and_follows_its_seed():
    model = MMmK(servers=2, capacity=3, service_rate=5.0)
    path = trajectory(model, [8.0], duration=500.0, seed=1)
    again = trajectory(model([8.0]), duration=500.0, seed=1)
    assert np.array_equal(path.times, again.times)
    assert np.array_equal(path.states, again.states)
    assert path.times[0] == 0
    assert (np.diff(path.times) > 0).all()
    assert path.times[-1] < path.duration == 500.0
    assert set(np.abs(np.diff(path.states))) == {1}
    assert not np.array_equal(path.states[:9], trajectory(model, 8.0, duration=500.0).states[:9])
    with pytest.raises(ValueError, match="read-only"):
        path.times[0] = 1.0


def test_trajectory_starts_where_asked_and_stays_where_absorbed():
    model = UpperTriangular(states=4)
    assert trajectory(model, 5.0, duration=1.0, start="overload").states[0] == 3
    assert trajectory(model, 5.0, duration=1.0, start=1).states[0] == 1
    absorbing = st.Generator.from_dense(torch.tensor([[0.0, 5.0], [0.0, 0.0]], dtype=torch.float64))
    assert trajectory(absorbing, duration=100.0, start=0).states.tolist() == [0, 1]
    assert trajectory(absorbing, duration=2.0, start=1).states.tolist() == [1]


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [Arrivals(), PoissonCounts()], ids=repr)
def test_windows_without_counts_are_dropped_and_named(scheme):
    with pytest.warns(DataWarning, match="windows .* dropped"):
        made = simulate(QUEUE, [11.0] * 50, duration=0.05, seed=1, scheme=scheme)
    assert 0 < len(made) < 50
    with pytest.raises(InputError, match=r"nothing was seen in 3 windows .* lengthen"):
        simulate(QUEUE, [11.0] * 3, duration=1e-9, scheme=scheme)
    assert len(simulate(QUEUE, [11.0] * 3, duration=1e-9)) == 3


def _plain(load, p):
    return {("up", "down"): load.exp(), ("down", "up"): p.r}


class Balking(MMmK):
    def rates(self, load, p):
        return super().rates(0.5 * load, p)


PLAIN = FromFunction(_plain, states=["up", "down"], params={"r": 2.0})


def test_any_model_can_be_simulated_with_its_state_names():
    assert simulate(PLAIN, [3.0] * 4).observe == ("up", "down")
    assert simulate(Relaxed(QUEUE), [11.0]).observe == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"duration": 0.0}, "duration must be positive and finite; got 0.0"),
        ({"duration": math.nan}, "got nan"),
        ({"duration": "long"}, "got 'long'"),
        ({"duration": 1e12}, r"events, more than .* shorten"),
        ({"duration": 1e12, "scheme": Arrivals()}, "arrivals and departures, more than"),
        ({"duration": 1e18, "scheme": PoissonCounts()}, r"above 2\*\*53; shorten"),
        ({"seed": -1}, "seed must be a whole number from 0 up; got -1"),
        ({"seed": 1.5}, "seed .* got 1.5"),
        ({"seed": None}, "seed .* got None"),
        ({"seed": True}, "seed .* got True"),
        ({"x": []}, "x is empty"),
        ({"x": [11.0, -1.0]}, "load must be positive and finite; got -1"),
        ({"x": ["many"]}, "inputs must be numbers"),
        ({"x": [[1.0, 2.0]]}, r"1 input column\(s\)"),
        ({"x": [math.inf], "model": PLAIN}, r"x must be finite; got \[inf\] in window 0"),
        ({"x": [3.0], "model": "mmmk"}, "takes a model; got str"),
        ({"scheme": "events"}, r"Events\(\), Arrivals\(\), .*; got 'events'"),
        ({"scheme": Events(gamma=3.0)}, "above the largest exit rate of chain"),
        ({"scheme": Events(gamma=[90.0, 90.0])}, r"one for each chain"),
        ({"scheme": Events(gamma=math.inf)}, "gamma must be finite"),
        ({"scheme": Events(gamma="fast")}, "gamma must be a number .* got 'fast'"),
        ({"scheme": Arrivals(), "model": PLAIN}, r"needs a queue.*FromFunction.*use Events\(\)"),
        ({"scheme": Responses(), "model": PLAIN}, r"Responses\(\) needs a queue; got FromFunction"),
        ({"scheme": Arrivals(), "model": Relaxed(QUEUE)}, r"needs a queue.*Relaxed.*use Events"),
        ({"scheme": Arrivals(), "model": Balking()}, r"one state up .* the load.* Balking.*use"),
        (
            {"scheme": PoissonCounts(), "model": PLAIN, "x": [1.0, -1.0]},
            "positive loads; got -1 in window 1",
        ),
    ],
)
def test_bad_simulations_are_named(changes, part):
    with pytest.raises(InputError, match=part):
        simulate(**{"model": QUEUE, "x": [11.0], **changes})


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"x": None}, "needs x="),
        ({"x": [8.0, 9.0]}, r"one chain; got a batch of shape \(2,\)"),
        ({"model": "queue"}, "model or a generator; got str"),
        ({"model": QUEUE([8.0])}, "x= goes with a model"),
        ({"model": QUEUE([8.0]), "x": None, "start": 9}, r"a state 0\.\.4; got 9"),
        ({"model": QUEUE([8.0]), "x": None, "start": "up"}, r"a state 0\.\.4; got 'up'"),
        ({"start": 9}, "state '9' is not in the model"),
        ({"start": 1.5}, "1.5"),
        ({"duration": 0}, "duration must be positive"),
        ({"duration": 1e9}, "jumps, more than"),
        ({"seed": -3}, "seed .* got -3"),
    ],
)
def test_bad_trajectories_are_named(changes, part):
    with pytest.raises(InputError, match=part):
        trajectory(**{"model": QUEUE, "x": 8.0, "duration": 5.0, **changes})


RESPONDING = {
    "plain": st.models.MMmK(3, 9),
    "sharing": st.models.MMmK(3, 9, discipline="ps"),
    "erlang": st.models.ErlangService(phases=3, capacity=6),
    "onoff": st.models.OnOffArrivals(2, 6),
    "batch": st.models.BatchArrivals(2, 6, extra=0.8),
    "resetting": st.models.Resetting(2, 6, reset=0.3),
    "slowing": st.models.Slowing(2, 6, slowdown=0.3, overhead=0.5),
    "usl": st.models.UniversalScalability(capacity=6),
}


@pytest.mark.parametrize("name", RESPONDING)
def test_simulated_response_times_are_those_of_the_model(name):
    model = RESPONDING[name]
    loads = [0.4, 1.5]
    windows = st.simulate(model, loads, 20_000.0, 1, Responses())
    states, latencies = windows.observations
    point = model.at(loads)
    expected = latencies.on(model).probabilities(point).detach().cumsum(-1)
    found = (latencies.data / latencies.size[:, None]).cumsum(-1)
    # Response times of neighbours are alike, so fewer count than there are.
    assert (expected - found).abs().max() < 8 / latencies.size.min().sqrt()
    if model.arrives_alone:
        expected = states.on(model).probabilities(point).detach()
        found = states.data / states.size[:, None]
        assert (expected - found).abs().max() < 8 / states.size.min().sqrt()
