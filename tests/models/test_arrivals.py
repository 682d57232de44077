"""Batches and on/off sources: hand-written chains, limits, another simulator."""

import math

import ciw
import numpy as np
import pytest
import torch

import problems
import stationary as st
from stationary.models import BatchArrivals, MMmK, OnOffArrivals

LOAD = 3.0


def pi_of(model, load=LOAD):
    return st.steady_state(model([load])).pi.detach()[0]


def measure(model, name, load=LOAD):
    return model.measure(name)(model.at([load])).item()


def levels(model, load=LOAD):
    """Probability of every queue length."""
    pi = pi_of(model, load)
    return torch.stack([pi[model.states_of(name)].sum() for name in model.visible])


# Batches.


def batch_chain(servers, capacity, service, extra):
    """Every batch of every size up to 400, cut where the system is full."""
    p = 1 / (1 + extra)
    moves = {(n, n - 1): service * min(n, servers) for n in range(1, capacity + 1)}
    for n in range(capacity):
        for size in range(1, 400):
            to = (n, min(n + size, capacity))
            moves[to] = moves.get(to, 0.0) + LOAD * p * p * (1 - p) ** (size - 1)
    return problems.solved(moves)


@pytest.mark.parametrize(("servers", "capacity", "extra"), [(1, 6, 0.7), (3, 5, 4.0), (1, 1, 2.0)])
def test_batches_against_a_hand_written_chain(servers, capacity, extra):
    model = BatchArrivals(servers=servers, capacity=capacity, service_rate=2.0, extra=extra)
    theirs = batch_chain(servers, capacity, 2.0, extra)
    assert pi_of(model).tolist() == pytest.approx(
        [theirs[n] for n in range(capacity + 1)], abs=1e-12
    )
    # Requests lost, by the sizes of batches: those beyond the places left, over all.
    p = 1 / (1 + extra)
    lost = sum(
        theirs[n] * p * (1 - p) ** (size - 1) * max(size - (capacity - n), 0)
        for n in range(capacity + 1)
        for size in range(1, 400)
    )
    assert measure(model, "loss") == pytest.approx(lost * p, rel=1e-10)


def test_few_batches_are_single_arrivals():
    plain = MMmK(servers=2, capacity=7, service_rate=2.0)
    near = [
        pi_of(BatchArrivals(servers=2, capacity=7, service_rate=2.0, extra=extra)) - pi_of(plain)
        for extra in (1e-4, 1e-5)
    ]
    assert near[0].abs().max() < 1e-3
    torch.testing.assert_close(
        near[0] / near[1], torch.full((8,), 10.0).double(), rtol=1e-2, atol=0
    )


def test_batches_against_ciw():
    extra, capacity, service = 1.5, 5, 4.0
    ciw.seed(7)
    them = ciw.Simulation(
        ciw.create_network(
            arrival_distributions=[ciw.dists.Exponential(LOAD / (1 + extra))],
            batching_distributions=[ciw.dists.Geometric(1 / (1 + extra))],
            service_distributions=[ciw.dists.Exponential(service)],
            number_of_servers=[1],
            queue_capacities=[capacity - 1],
        )
    )
    them.simulate_until_max_time(6000.0)
    records = sorted(them.get_all_records(), key=lambda record: record.arrival_date)
    lost = np.array([record.record_type == "rejection" for record in records], dtype=float)
    blocks = lost[: len(lost) // 20 * 20].reshape(20, -1).mean(1)
    model = BatchArrivals(servers=1, capacity=capacity, service_rate=service, extra=extra)
    loss, error = measure(model, "loss"), blocks.std(ddof=1) / math.sqrt(20)
    assert abs(lost.mean() - loss) < 4 * error
    # It would tell the share of batches that find the system full apart.
    assert abs(float(pi_of(model)[-1]) - loss) > 20 * error


# On and off.


@pytest.mark.parametrize(
    ("servers", "capacity", "burst", "switching"), [(1, 5, 0.6, 0.3), (3, 4, 5.0, 2.0)]
)
def test_on_off_against_a_hand_written_mmpp(servers, capacity, burst, switching):
    share = 1 / (1 + burst)  # of the time it is on
    to_on, to_off = switching * share, switching * (1 - share)
    moves = {}
    for n in range(capacity + 1):
        moves[(n, "off"), (n, "on")] = to_on
        moves[(n, "on"), (n, "off")] = to_off
        if n < capacity:
            moves[(n, "on"), (n + 1, "on")] = LOAD / share
        if n:
            for phase in ("on", "off"):
                moves[(n, phase), (n - 1, phase)] = 2.0 * min(n, servers)
    theirs = problems.solved(moves)
    model = OnOffArrivals(
        servers=servers, capacity=capacity, service_rate=2.0, burst=burst, switching=switching
    )
    named = {f"{n}.{phase}": p for (n, phase), p in theirs.items()}
    assert pi_of(model).tolist() == pytest.approx([named[s] for s in model.states], abs=1e-12)
    on = sum(p for (_, phase), p in theirs.items() if phase == "on")
    assert on == pytest.approx(share)
    # Squared coefficient of variation of the arrival rate, and its mean.
    rate = LOAD / share
    assert on * rate == pytest.approx(LOAD)
    assert (on * rate**2 - LOAD**2) / LOAD**2 == pytest.approx(burst)
    assert measure(model, "loss") == pytest.approx(theirs[capacity, "on"] / on, rel=1e-10)
    time_full = theirs[capacity, "on"] + theirs[capacity, "off"]
    assert measure(model, "loss") > 1.1 * time_full  # arrivals see it fuller than the clock does


def test_little_burst_or_fast_switching_is_mmmk():
    plain = pi_of(MMmK(servers=2, capacity=6, service_rate=2.0))
    options = {"servers": 2, "capacity": 6, "service_rate": 2.0}
    for near in (
        OnOffArrivals(**options, burst=1e-7, switching=0.5),
        OnOffArrivals(**options, burst=2.0, switching=1e8),
    ):
        torch.testing.assert_close(levels(near), plain, rtol=1e-5, atol=0)
    assert (levels(OnOffArrivals(**options, burst=2.0, switching=0.5)) - plain).abs().max() > 0.1


def test_slow_switching_is_two_queues_taken_in_turn():
    # Either a queue at three times the load for a third of the time, or an empty one.
    model = OnOffArrivals(servers=1, capacity=4, service_rate=2.0, burst=2.0, switching=1e-7)
    busy = pi_of(MMmK(servers=1, capacity=4, service_rate=2.0), 3 * LOAD)
    idle = torch.eye(5, dtype=torch.float64)[0]
    torch.testing.assert_close(levels(model), busy / 3 + idle * 2 / 3, rtol=1e-5, atol=1e-6)
    assert measure(model, "loss") == pytest.approx(float(busy[-1]), rel=1e-5)


def test_a_start_scales_rates_and_leaves_shapes():
    x = torch.tensor([[40.0], [80.0]], dtype=torch.float64)
    model = OnOffArrivals(servers=2, service_rate=2.0, burst=0.7, switching=0.5)
    assert model.start(x).tolist() == [30.0, 0.7, 7.5]
    assert BatchArrivals(extra=0.2).start(x).tolist() == [60.0, 0.2]
