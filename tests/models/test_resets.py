"""Resets and leaks: hand-written chains, known formulas, what is lost."""

import math

import pytest
import torch

import problems
import stationary as st
from stationary.errors import InputError
from stationary.models import Leaking, MMmK, Resetting

LOAD = 3.0


def pi_of(model, load=LOAD):
    return st.steady_state(model([load])).pi.detach()[0]


def queue_moves(servers, capacity, service):
    moves = {(n, n + 1): LOAD for n in range(capacity)}
    return moves | {(n + 1, n): service * min(n + 1, servers) for n in range(capacity)}


@pytest.mark.parametrize(("servers", "capacity"), [(1, 1), (1, 6), (3, 5)])
def test_resetting_against_a_hand_written_chain(servers, capacity):
    moves = queue_moves(servers, capacity, 2.0)
    for n in range(1, capacity + 1):
        moves[n, 0] = moves.get((n, 0), 0.0) + 0.4
    theirs = problems.solved(moves)
    model = Resetting(servers=servers, capacity=capacity, service_rate=2.0, reset=0.4)
    assert pi_of(model).tolist() == pytest.approx(
        [theirs[n] for n in range(capacity + 1)], abs=1e-12
    )


def test_a_long_queue_with_resets_is_geometric():
    # M/M/1 with catastrophes: ratio the root below 1 of mu z^2 - (load + mu + reset) z + load.
    service, reset = 2.0, 0.5
    b = LOAD + service + reset
    z = (b - math.sqrt(b * b - 4 * LOAD * service)) / (2 * service)
    pi = pi_of(Resetting(servers=1, capacity=400, service_rate=service, reset=reset))
    expected = (1 - z) * z ** torch.arange(100, dtype=torch.float64)
    torch.testing.assert_close(pi[:100], expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("spill", [0, 1])
@pytest.mark.parametrize(("servers", "capacity"), [(1, 1), (2, 6)])
def test_leaking_against_a_hand_written_chain(servers, capacity, spill):
    moves = queue_moves(servers, capacity, 2.0)
    moves |= {(n, "overload"): 0.3 for n in range(capacity + 1)} | {("overload", 0): 0.7}
    moves[capacity, "overload"] += spill * LOAD
    theirs = problems.solved(moves)
    model = Leaking(
        servers=servers, capacity=capacity, spill=spill, service_rate=2.0, leak=0.3, reset=0.7
    )
    expected = [theirs[n] for n in range(capacity + 1)] + [theirs["overload"]]
    assert pi_of(model).tolist() == pytest.approx(expected, abs=1e-12)
    assert model.states[-1] == "overload"


def test_a_leak_is_independent_of_the_queue():
    # It fails and comes back as a two-state chain; while it works it is a queue with resets.
    model = Leaking(servers=2, capacity=6, service_rate=2.0, leak=0.3, reset=0.7)
    between = Resetting(servers=2, capacity=6, service_rate=2.0, reset=0.3)
    for load in (1.0, 30.0):
        pi = pi_of(model, load)
        assert float(pi[-1]) == pytest.approx(0.3, rel=1e-13)
        torch.testing.assert_close(pi[:-1] / 0.7, pi_of(between, load), rtol=1e-12, atol=0)


def test_rare_resets_and_leaks_are_mmmk():
    plain = pi_of(MMmK(servers=2, capacity=6, service_rate=2.0))
    options = {"servers": 2, "capacity": 6, "service_rate": 2.0}
    for model in (Resetting(**options, reset=1e-8), Leaking(**options, leak=1e-8, reset=1.0)):
        torch.testing.assert_close(pi_of(model)[:7], plain, rtol=1e-6, atol=0)


def test_what_a_reset_throws_away_is_lost():
    # A server that never finishes: what comes is lost at the door or by a reset.
    model = Resetting(servers=1, capacity=3, service_rate=1e-12, reset=0.5)
    point = model.at([LOAD])
    assert model.measure("loss")(point).item() == pytest.approx(1.0, rel=1e-9)
    assert model.measure("throughput")(point).item() == pytest.approx(0.0, abs=1e-9)
    # One that is let in waits for the next reset.
    assert model.measure("response_time")(point).item() == pytest.approx(2.0, rel=1e-9)


def test_spill_is_yes_or_no():
    with pytest.raises(InputError, match="spill must be a whole number from 0 to 1; got 2"):
        Leaking(spill=2)
