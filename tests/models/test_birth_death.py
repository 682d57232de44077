"""Queues with a product form: exact fractions, textbook formulas, limits, another simulator."""

import math
from fractions import Fraction

import ciw
import mpmath
import numpy as np
import pytest
import torch

import problems
import stationary as st
from stationary.errors import InputError
from stationary.models import (
    Balking,
    FiniteClients,
    MMmK,
    Slowing,
    StateDependent,
    UniversalScalability,
)

LOAD = 3.0


def pi_of(model, load=LOAD):
    return st.steady_state(model([load])).pi.detach()[0]


# Births at the load 3 and deaths of each model, written out.
CASES = [
    (
        StateDependent(depth=3, capacity=5, service_1=1.0, service_2=2.5, service_3=4.0),
        [LOAD] * 5,
        [1.0, 2.5, 4.0, 4.0, 4.0],
    ),
    (
        Slowing(servers=2, capacity=4, service_rate=2.0, slowdown=0.5),
        [LOAD] * 4,
        [2.0, 4 / math.sqrt(2), 4 / math.sqrt(3), 4 / 2],
    ),
    (
        UniversalScalability(capacity=4, service_rate=2.0, contention=0.25, coherency=0.125),
        [LOAD] * 4,
        [2.0, 4 / 1.5, 6 / 2.25, 8 / 3.25],
    ),
    (
        Balking(servers=2, capacity=5, service_rate=1.5, balking=0.25),
        [LOAD, LOAD, LOAD / 1.25, LOAD / 1.5, LOAD / 1.75],
        [1.5, 3.0, 3.0, 3.0, 3.0],
    ),
    (
        FiniteClients(servers=2, capacity=4, clients=6, service_rate=1.0),
        [LOAD, LOAD * 5 / 6, LOAD * 4 / 6, LOAD * 3 / 6],
        [1.0, 2.0, 2.0, 2.0],
    ),
]


@pytest.mark.parametrize(("model", "births", "deaths"), CASES, ids=[c[0].name for c in CASES])
def test_steady_states_in_exact_fractions(model, births, deaths):
    exact = problems.birth_death(births, deaths).pi
    assert problems.relative_error(pi_of(model), exact) < 1e-14
    assert problems.relative_error(model.closed_form([LOAD])[0], exact) < 1e-14


@pytest.mark.parametrize("slowdown", [-1.5, -1.0, 0.3, 2.0])
def test_slowing_is_conway_maxwell(slowdown):
    # Conway and Maxwell: pi_n ~ rho^n / (n!)^c with service mu n^c, here c = -slowdown.
    model = Slowing(servers=1, capacity=30, service_rate=4.0, slowdown=slowdown)
    weight = [
        (mpmath.mpf(LOAD) / 4) ** n * mpmath.factorial(n) ** mpmath.mpf(slowdown) for n in range(31)
    ]
    expected = torch.tensor([float(w / mpmath.fsum(weight)) for w in weight], dtype=torch.float64)
    torch.testing.assert_close(pi_of(model), expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(model.closed_form([LOAD])[0], expected, rtol=1e-12, atol=0)


def usl(capacity, contention, coherency):
    return UniversalScalability(capacity, 2.0, contention, coherency)


def test_scalability_law_between_its_textbook_ends():
    # Nothing shared: a server for each place, Erlang's loss system. All shared: one server.
    alone, together = MMmK(12, 12, service_rate=2.0), MMmK(1, 12, service_rate=2.0)
    for end, model in [(alone, usl(12, 1e-12, 1e-13)), (together, usl(12, 1.0, 1e-13))]:
        torch.testing.assert_close(pi_of(model), pi_of(end), rtol=1e-9, atol=0)
        assert not torch.equal(pi_of(model), pi_of(end))


def test_scalability_law_peaks_where_gunther_says():
    model = usl(60, 0.19, 0.01)
    speed = model.deaths(model.at([LOAD]).p)
    assert int(speed.argmax()) + 1 == 9  # sqrt((1 - 0.19) / 0.01)
    long = usl(10**5, 0.19, 1e-15)
    assert long.deaths(long.at([LOAD]).p)[-1].item() == pytest.approx(2.0 / 0.19, rel=1e-3)


def test_without_servers_it_is_busy_while_there_is_work():
    model = usl(12, 0.3, 0.02)
    assert model.options == {"capacity": 12}
    assert "utilisation" not in model.measures
    with pytest.raises(InputError, match=r"no measure 'utilisation'.*busy"):
        model.measure("utilisation")
    busy = model.measure("busy")(model.at([LOAD]))
    assert busy.item() == pytest.approx(1 - float(pi_of(model)[0]), rel=1e-14)


def test_discouraged_arrivals_are_a_poisson_distribution():
    # One server and joins at 1 / (n + 1): a truncated Poisson distribution of mean load / rate.
    model = Balking(servers=1, capacity=9, service_rate=2.0, balking=1.0)
    weight = [Fraction(3, 2) ** n / math.factorial(n) for n in range(10)]
    exact = [w / sum(weight) for w in weight]
    assert problems.relative_error(pi_of(model), exact) < 1e-14


@pytest.mark.parametrize(("servers", "clients"), [(1, 1), (3, 8), (10, 12)])
def test_loss_of_finite_clients_is_engset(servers, clients):
    # Engset: what the other clients leave behind, C(N-1, m) a^m over the sum, a per client.
    model = FiniteClients(servers=servers, capacity=servers, clients=clients, service_rate=2.0)
    a = Fraction(3, 2) / clients
    term = [math.comb(clients - 1, n) * a**n for n in range(servers + 1)]
    loss = model.measure("loss")(model.at([LOAD]))
    assert loss.item() == pytest.approx(float(term[servers] / sum(term)), rel=1e-13, abs=0)


# What they become when nothing is special.


@pytest.mark.parametrize("servers", [1, 3])
def test_they_hold_mmmk(servers):
    plain = MMmK(servers=servers, capacity=8, service_rate=2.0)
    rates = {f"service_{n}": 2.0 * n for n in range(1, servers + 1)}
    options = {"servers": servers, "capacity": 8, "service_rate": 2.0}
    same = [
        StateDependent(depth=servers, capacity=8, **rates),
        StateDependent(
            depth=8, capacity=8, **{f"service_{n}": 2.0 * min(n, servers) for n in range(1, 9)}
        ),
        Slowing(**options, slowdown=0.0),
    ]
    for model in same:
        assert torch.equal(model([LOAD]).dense(), plain([LOAD]).dense())
    for model in [Balking(**options, balking=1e-9), FiniteClients(**options, clients=10**9)]:
        torch.testing.assert_close(pi_of(model), pi_of(plain), rtol=1e-6, atol=0)
        assert not torch.equal(pi_of(model), pi_of(plain))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: StateDependent(depth=4, capacity=3), "depth must be .* to 3, the capacity"),
        (lambda: StateDependent(depth=2, service_3=1.0), "option 'service_3'"),
        (
            lambda: FiniteClients(capacity=5, clients=4),
            "clients must be .* from 5 .*the capacity",
        ),
        (lambda: Balking(balking=0.0), "balking must be positive; got 0"),
        (lambda: UniversalScalability(coherency=0.0), "coherency must be positive; got 0"),
        (lambda: Slowing(capacity=0), "capacity must be a whole number"),
        (lambda: Slowing(slowdown=math.nan), "slowdown must be finite"),
    ],
)
def test_bad_options_are_named(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_a_start_keeps_up_with_the_load_in_its_own_units():
    x = torch.tensor([[40.0], [80.0]], dtype=torch.float64)
    assert Slowing(servers=2, slowdown=0.5).start(x).tolist() == [30.0, 0.5]
    assert StateDependent(depth=2, service_1=1.0, service_2=2.0).start(x).tolist() == [60.0, 120.0]


def test_balking_against_ciw():
    servers, capacity, service, balking = 2, 6, 2.0, 0.4
    ciw.seed(5)
    them = ciw.Simulation(
        ciw.create_network(
            arrival_distributions=[ciw.dists.Exponential(6.0)],
            service_distributions=[ciw.dists.Exponential(service)],
            number_of_servers=[servers],
            queue_capacities=[capacity - servers],
            baulking_functions=[lambda n, **_: 1 - 1 / (1 + balking * max(n - servers + 1, 0))],
        )
    )
    them.simulate_until_max_time(3000.0)
    records = sorted(them.get_all_records(), key=lambda record: record.arrival_date)
    away = np.array([r.record_type in ("baulk", "rejection") for r in records], dtype=float)
    blocks = away[: len(away) // 20 * 20].reshape(20, -1).mean(1)
    model = Balking(servers=servers, capacity=capacity, service_rate=service, balking=balking)
    loss = model.measure("loss")(model.at([6.0])).item()
    error = blocks.std(ddof=1) / math.sqrt(20)
    assert error < 0.02 * loss  # else the comparison says nothing
    assert abs(away.mean() - loss) < 4 * error
