"""Erlang and hyperexponential service against the chain at departures, and known formulas."""

import math

import ciw
import numpy as np
import pytest
import scipy.stats
import torch

import stationary as st
from stationary.models import ErlangService, HyperexponentialService, MMmK

RATE = 2.0


def levels(model, load):
    pi = st.steady_state(model([load])).pi.detach()[0]
    return np.array([float(pi[model.states_of(name)].sum()) for name in model.visible])


def at_departures(arrivals, load, capacity):
    """M/G/1/K by the chain of lengths left behind, from arrivals during one service.

    ``pi_n = q_n / (q_0 + rho)`` below the capacity (Cooper, Introduction to Queueing Theory, 5.9).
    """
    P = np.zeros((capacity, capacity))
    for n in range(capacity):
        for k in range(capacity):
            to = max(n - 1, 0) + k
            P[n, min(to, capacity - 1)] += arrivals[k]
        P[n, -1] += 1 - arrivals[:capacity].sum()  # more than that fill it
    A = np.vstack([P.T - np.eye(capacity), np.ones(capacity)])
    q = np.linalg.lstsq(A, np.eye(capacity + 1)[-1], rcond=None)[0]
    rho = load / RATE
    return np.append(q / (q[0] + rho), 1 - 1 / (q[0] + rho))


def erlang_arrivals(phases, load, count):
    return scipy.stats.nbinom(phases, phases * RATE / (phases * RATE + load)).pmf(range(count))


@pytest.mark.parametrize("load", [0.8, 1.9, 5.0])
@pytest.mark.parametrize("phases", [1, 2, 7])
@pytest.mark.parametrize("capacity", [1, 2, 8])
def test_erlang_against_the_chain_at_departures(phases, capacity, load):
    model = ErlangService(phases=phases, capacity=capacity, service_rate=RATE)
    theirs = at_departures(erlang_arrivals(phases, load, capacity), load, capacity)
    assert levels(model, load) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("load", [0.8, 5.0])
@pytest.mark.parametrize("extra", [0.3, 9.0])
def test_hyperexponential_against_the_chain_at_departures(extra, load):
    model = HyperexponentialService(capacity=6, service_rate=RATE, extra_variation=extra)
    # Two moments with balanced means, as in Tijms, A First Course in Stochastic Models, appendix B.
    p = (1 + math.sqrt(extra / (extra + 2))) / 2
    mix = [(p, 2 * p * RATE), (1 - p, 2 * (1 - p) * RATE)]
    assert sum(w / mu for w, mu in mix) == pytest.approx(1 / RATE)
    assert sum(2 * w / mu**2 for w, mu in mix) * RATE**2 - 1 == pytest.approx(1 + extra)
    arrivals = sum(w * mu / (mu + load) * (load / (mu + load)) ** np.arange(6) for w, mu in mix)
    assert levels(model, load) == pytest.approx(at_departures(arrivals, load, 6), abs=1e-12)


def test_many_phases_come_near_constant_service():
    # The error against M/D/1/K falls as one over the phases.
    load, capacity = 1.8, 6
    fixed = at_departures(scipy.stats.poisson(load / RATE).pmf(range(capacity)), load, capacity)
    error = [
        np.abs(levels(ErlangService(phases=k, capacity=capacity, service_rate=RATE), load) - fixed)
        for k in (50, 100)
    ]
    assert error[1].max() < 2e-3
    assert error[0].sum() / error[1].sum() == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("model", "variation"),
    [
        (ErlangService(phases=3, capacity=150, service_rate=RATE), 1 / 3),
        (HyperexponentialService(capacity=150, service_rate=RATE, extra_variation=0.5), 1.5),
    ],
    ids=["erlang", "hyperexponential"],
)
def test_pollaczek_and_khinchine(model, variation):
    rho = 0.6
    point = model.at([rho * RATE])
    mean = rho + rho**2 * (1 + variation) / (2 * (1 - rho))
    assert model.measure("mean_queue")(point).item() == pytest.approx(mean, rel=1e-9)
    assert model.measure("response_time")(point).item() == pytest.approx(mean / (rho * RATE))


def test_they_hold_mm1k():
    plain = MMmK(servers=1, capacity=6, service_rate=RATE)
    one = ErlangService(phases=1, capacity=6, service_rate=RATE)
    assert torch.equal(one([3.0]).dense(), plain([3.0]).dense())
    near = HyperexponentialService(capacity=6, service_rate=RATE, extra_variation=1e-9)
    expected = st.steady_state(plain([3.0])).pi.detach().numpy()[0]
    assert levels(near, 3.0) == pytest.approx(expected, rel=1e-8)


def test_any_service_without_waiting_room_is_erlang_b():
    # Loss of M/G/1/1 depends on the mean of the service only.
    for model in (
        ErlangService(phases=5, capacity=1, service_rate=RATE),
        HyperexponentialService(capacity=1, service_rate=RATE, extra_variation=4.0),
    ):
        loss = model.measure("loss")(model.at([3.0]))
        assert loss.item() == pytest.approx(3 / 5, rel=1e-13)


def test_erlang_against_ciw():
    load, capacity, phases = 1.8, 4, 3
    ciw.seed(11)
    them = ciw.Simulation(
        ciw.create_network(
            arrival_distributions=[ciw.dists.Exponential(load)],
            service_distributions=[ciw.dists.Erlang(phases * RATE, phases)],
            number_of_servers=[1],
            queue_capacities=[capacity - 1],
        ),
        tracker=ciw.trackers.SystemPopulation(),
    )
    them.simulate_until_max_time(8000.0)
    times, states = np.array(them.statetracker.history).T
    spent = np.diff(times, append=8000.0)
    block = (times / 400.0).astype(int)
    share = np.zeros((20, capacity + 1))
    np.add.at(share, (block.clip(max=19), states.astype(int)), spent / 400.0)
    error = share.std(0, ddof=1) / math.sqrt(20)
    ours = levels(ErlangService(phases=phases, capacity=capacity, service_rate=RATE), load)
    assert (error < 0.1 * ours).all()  # else the comparison says nothing
    assert (np.abs(share.mean(0) - ours) < 4 * error).all()
