"""Queues against exact answers: fractions, hand-written chains, textbook formulas."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
import torch

import problems
import stationary as st
from stationary.errors import InputError
from stationary.models import measures
from stationary.models.queues._birth_death import BirthDeathQueue
from stationary.models.queues._queue import ServerQueue

M = st.models

LOAD = 3.0
PLAIN = {"servers": 2, "capacity": 6, "service_rate": 2.0}


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def pi_of(model, load=LOAD):
    return st.steady_state(model([load])).pi.detach()[0]


def measure(model, name, load=LOAD):
    return model.measure(name)(model.at([load])).item()


def levels(model, load=LOAD):
    """Probability of every queue length."""
    pi = pi_of(model, load)
    return torch.stack([pi[model.states_of(name)].sum() for name in model.visible])


# M/M/m/K.


@pytest.mark.parametrize(("servers", "capacity"), [(1, 1), (1, 20), (5, 20), (20, 20), (30, 20)])
def test_mmmk_against_its_closed_form(servers, capacity):
    model = M.MMmK(servers=servers, capacity=capacity, service_rate=2.5)
    x = [0.01, 1.0, 2.5, 60.0]
    pi = st.steady_state(model(x)).pi.detach()
    torch.testing.assert_close(pi, model.closed_form(x), rtol=1e-12, atol=0)
    n = torch.arange(capacity + 1).double()
    few = n.clamp(max=servers)
    served = torch.lgamma(few + 1) + (n - few) * math.log(servers)
    textbook = torch.softmax(n * (tensor(x)[:, None] / 2.5).log() - served, -1)
    torch.testing.assert_close(pi, textbook, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("servers", "room"), [(1, 0), (5, 0), (60, 0), (1, 19), (5, 15), (10, 90)])
@pytest.mark.parametrize("load", [Fraction(1, 8), Fraction(3), Fraction(50)])
def test_loss_of_mmmk_in_exact_fractions(servers, room, load):
    # a^m / m! (a / m)^r over the sum of all its terms: Erlang B without waiting room.
    terms = [load**k / math.factorial(k) for k in range(servers)]
    terms += [terms[-1] * load / servers * (load / servers) ** r for r in range(room + 1)]
    model = M.MMmK(servers=servers, capacity=servers + room, service_rate=4.0)
    loss = pi_of(model, float(4 * load))[-1:]
    assert problems.relative_error(loss, [terms[-1] / sum(terms)]) < 1e-13


# Births and deaths.

BIRTHS_AND_DEATHS = [
    (
        M.StateDependent(depth=3, capacity=5, service_1=1.0, service_2=2.5, service_3=4.0),
        [LOAD] * 5,
        [1.0, 2.5, 4.0, 4.0, 4.0],
    ),
    (
        M.Slowing(servers=2, capacity=4, service_rate=2.0, slowdown=0.5),
        [LOAD] * 4,
        [2.0, 4 / math.sqrt(2), 4 / math.sqrt(3), 4 / 2],
    ),
    (
        M.UniversalScalability(capacity=4, service_rate=2.0, contention=0.25, coherency=0.125),
        [LOAD] * 4,
        [2.0, 4 / 1.5, 6 / 2.25, 8 / 3.25],
    ),
    (
        M.Balking(servers=2, capacity=5, service_rate=1.5, balking=0.25),
        [LOAD, LOAD, LOAD / 1.25, LOAD / 1.5, LOAD / 1.75],
        [1.5, 3.0, 3.0, 3.0, 3.0],
    ),
    (
        M.FiniteClients(servers=2, capacity=4, clients=6, service_rate=1.0),
        [LOAD, LOAD * 5 / 6, LOAD * 4 / 6, LOAD * 3 / 6],
        [1.0, 2.0, 2.0, 2.0],
    ),
]


@pytest.mark.parametrize(
    ("model", "births", "deaths"), BIRTHS_AND_DEATHS, ids=[c[0].name for c in BIRTHS_AND_DEATHS]
)
def test_steady_states_in_exact_fractions(model, births, deaths):
    exact = problems.birth_death(births, deaths).pi
    assert problems.relative_error(pi_of(model), exact) < 1e-14
    assert problems.relative_error(model.closed_form([LOAD])[0], exact) < 1e-14


def usl(capacity, contention, coherency):
    return M.UniversalScalability(capacity, 2.0, contention, coherency)


def test_scalability_law_peaks_where_gunther_says():
    model = usl(60, 0.19, 0.01)
    assert int(model.deaths(model.at([LOAD]).p).argmax()) + 1 == 9  # sqrt((1 - 0.19) / 0.01)
    long = usl(10**5, 0.19, 1e-15)
    assert long.deaths(long.at([LOAD]).p)[-1].item() == pytest.approx(2.0 / 0.19, rel=1e-3)


def test_a_system_without_servers_is_busy_while_there_is_work():
    model = usl(12, 0.3, 0.02)
    assert model.options == {"capacity": 12}
    with pytest.raises(InputError, match=r"no measure 'utilisation'.*busy"):
        model.measure("utilisation")
    assert measure(model, "busy") == pytest.approx(1 - float(pi_of(model)[0]), rel=1e-14)


@pytest.mark.parametrize(("servers", "clients"), [(1, 1), (3, 8), (10, 12)])
def test_loss_of_finite_clients_is_engset(servers, clients):
    # Engset: what the other clients leave behind, C(N-1, m) a^m over the sum, a per client.
    model = M.FiniteClients(servers=servers, capacity=servers, clients=clients, service_rate=2.0)
    a = Fraction(3, 2) / clients
    term = [math.comb(clients - 1, n) * a**n for n in range(servers + 1)]
    assert measure(model, "loss") == pytest.approx(float(term[-1] / sum(term)), rel=1e-13, abs=0)


# Requests from a source.


def test_the_loss_of_an_on_off_source_is_what_requests_meet():
    model = M.OnOffArrivals(3, 4, 2.0, burst=5.0, switching=2.0)
    on, off = pi_of(model).reshape(-1, 2).T
    assert float(on.sum()) == pytest.approx(1 / 6)
    point = model.at([LOAD])
    rate, mean = model.arrivals(point)[0].detach(), LOAD
    assert float(pi_of(model) @ rate) == pytest.approx(mean)
    assert float(pi_of(model) @ rate**2) / mean**2 - 1 == pytest.approx(5.0)  # the burst
    assert measure(model, "loss") == pytest.approx(float(on[-1] / on.sum()), rel=1e-10)
    assert measure(model, "loss") > 1.1 * float(on[-1] + off[-1])  # fuller than the time average


# Service in phases: M/G/1/K.


def at_departures(arrivals, load, capacity):
    """M/G/1/K by the chain of lengths left behind, from arrivals during one service.

    ``pi_n = q_n / (q_0 + rho)`` below the capacity (Cooper, Introduction to Queueing Theory, 5.9).
    """
    P = np.zeros((capacity, capacity))
    for n in range(capacity):
        for k in range(capacity):
            P[n, min(max(n - 1, 0) + k, capacity - 1)] += arrivals[k]
        P[n, -1] += 1 - arrivals[:capacity].sum()  # more than that fill it
    A = np.vstack([P.T - np.eye(capacity), np.ones(capacity)])
    q = np.linalg.lstsq(A, np.eye(capacity + 1)[-1], rcond=None)[0]
    rho = load / 2.0
    return np.append(q / (q[0] + rho), 1 - 1 / (q[0] + rho))


def erlang(phases, capacity):
    return M.ErlangService(phases=phases, capacity=capacity, service_rate=2.0)


def hyperexponential(extra, capacity):
    return M.HyperexponentialService(capacity=capacity, service_rate=2.0, extra_variation=extra)


@pytest.mark.parametrize("load", [0.8, 1.9, 5.0])
@pytest.mark.parametrize("phases", [1, 2, 7])
@pytest.mark.parametrize("capacity", [1, 2, 8])
def test_erlang_against_the_chain_at_departures(phases, capacity, load):
    arrivals = scipy.stats.nbinom(phases, phases * 2.0 / (phases * 2.0 + load)).pmf(range(capacity))
    theirs = at_departures(arrivals, load, capacity)
    assert levels(erlang(phases, capacity), load).numpy() == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("load", [0.8, 5.0])
@pytest.mark.parametrize("extra", [0.3, 9.0])
def test_hyperexponential_against_the_chain_at_departures(extra, load):
    # Two moments with balanced means, as in Tijms, A First Course in Stochastic Models, appendix B.
    p = (1 + math.sqrt(extra / (extra + 2))) / 2
    mix = [(p, 4 * p), (1 - p, 4 * (1 - p))]
    assert sum(w / mu for w, mu in mix) == pytest.approx(1 / 2)
    assert sum(2 * w / mu**2 for w, mu in mix) * 4 - 1 == pytest.approx(1 + extra)
    arrivals = sum(w * mu / (mu + load) * (load / (mu + load)) ** np.arange(6) for w, mu in mix)
    theirs = at_departures(arrivals, load, 6)
    assert levels(hyperexponential(extra, 6), load).numpy() == pytest.approx(theirs, abs=1e-12)


# What they become when nothing is special.


@pytest.mark.parametrize("servers", [1, 3])
def test_queues_that_contain_mmmk_exactly(servers):
    plain = M.MMmK(servers=servers, capacity=8, service_rate=2.0)
    rates = {f"service_{n}": 2.0 * min(n, servers) for n in range(1, 9)}
    few = {name: rate for name, rate in rates.items() if int(name[-1]) <= servers}
    same = [
        M.StateDependent(depth=servers, capacity=8, **few),
        M.StateDependent(depth=8, capacity=8, **rates),
        M.Slowing(servers=servers, capacity=8, service_rate=2.0, slowdown=0.0),
        *([erlang(1, 8), M.MultiDiagonal(1, 8, rate_1=2.0)] if servers == 1 else []),
    ]
    for model in same:
        assert torch.equal(model([LOAD]).dense(), plain([LOAD]).dense())


ONE = {"servers": 1, "capacity": 6, "service_rate": 2.0}
LIMITS = [
    (M.Balking(**PLAIN, balking=1e-9), PLAIN),
    (M.FiniteClients(**PLAIN, clients=10**9), PLAIN),
    (M.BatchArrivals(**PLAIN, extra=1e-9), PLAIN),
    (M.OnOffArrivals(**PLAIN, burst=1e-8, switching=0.5), PLAIN),
    (M.OnOffArrivals(**PLAIN, burst=2.0, switching=1e9), PLAIN),
    (M.Resetting(**PLAIN, reset=1e-8), PLAIN),
    (M.Leaking(**PLAIN, leak=1e-8, reset=1.0), PLAIN),
    (hyperexponential(1e-9, 6), ONE),
    (usl(6, 1e-12, 1e-13), {**ONE, "servers": 6}),
    (usl(6, 1.0, 1e-13), ONE),
]


@pytest.mark.parametrize(("model", "plain"), LIMITS, ids=[str(m) for m, _ in LIMITS])
def test_queues_that_contain_mmmk_as_a_limit(model, plain):
    expected = pi_of(M.MMmK(**plain))
    torch.testing.assert_close(levels(model)[: len(expected)], expected, rtol=1e-6, atol=0)


class GivingUp:
    params = {"service_rate": 1.0, "giving_up": 1.0}

    def flows(self, point):
        waiting = (self.levels - self.servers).clamp(min=0)
        return super().flows(point)._replace(dropped=point.p.giving_up * waiting)


class Impatient(GivingUp, BirthDeathQueue):
    def deaths(self, p):
        return super().deaths(p) + p.giving_up * (self.levels[1:] - self.servers).clamp(min=0)


class ImpatientMoves(GivingUp, ServerQueue):
    def moves(self):
        yield from super().moves()
        for n in range(self.servers + 1, self.capacity + 1):
            yield n, n - 1, "giving_up", n - self.servers


@pytest.mark.parametrize("kind", [Impatient, ImpatientMoves])
def test_requests_that_give_up_are_lost_and_their_times_are_not_guessed(kind):
    model = kind(servers=2, capacity=5, service_rate=1.5, giving_up=0.5)
    pi = problems.birth_death([LOAD] * 5, [1.5, 3.0, 3.5, 4.0, 4.5]).pi
    given_up = sum(Fraction(n - 2, 2) * pi[n] for n in (3, 4, 5))
    assert measure(model, "loss") == pytest.approx(float(pi[5] + given_up / 3), rel=1e-14)
    for discipline in ("fcfs", "ps"):
        with pytest.raises(InputError, match=r"Impatient\w* .*unserved.*ask for loss"):
            measure(model.changed(discipline=discipline), "p99")


# Measures.

QUEUE = st.models.MMmK(servers=2, capacity=3)
POINT = QUEUE.at([4.0]).with_pi(tensor([[0.1, 0.2, 0.3, 0.4]]))


@pytest.mark.parametrize(
    ("name", "value", "high"),
    [
        ("loss", 0.4, 1.0),
        ("mean_queue", 0.2 + 2 * 0.3 + 3 * 0.4, 3.0),
        ("throughput", 4.0 * 0.6, math.inf),
        ("response_time", 2.0 / 2.4, math.inf),
        ("utilisation", 0.5 * 0.2 + 0.3 + 0.4, 1.0),
    ],
)
def test_measures_and_their_ranges_by_hand(name, value, high):
    named = QUEUE.measure(name)
    assert (named.low, named.high) == (0.0, high)
    assert named(POINT).tolist() == pytest.approx([value])
    assert named.about


def test_rewards_and_probabilities():
    profit = measures.reward(tensor([-5.0, 1.0, 2.0, 3.0]))
    assert profit(POINT).tolist() == pytest.approx([-0.5 + 0.2 + 0.6 + 1.2])
    assert (profit.low, profit.high) == (-math.inf, math.inf)
    ends = measures.probability(torch.tensor([1, 0, 0, 1]))
    assert ends(POINT).tolist() == pytest.approx([0.5])
    assert (ends.low, ends.high) == (0.0, 1.0)


def test_a_rare_loss_keeps_its_digits():
    # 1 - throughput / load would have none left.
    model = st.models.MMmK(servers=1, capacity=30, service_rate=10.0)
    loss = model.measure("loss")(model.at([1.0]))
    assert loss.tolist() == pytest.approx([0.9e-30 / (1 - 1e-31)], rel=1e-13)


def test_a_measure_of_ones_own():
    model = st.models.MMmK(servers=1, capacity=3)
    idle = measures.Measure(lambda point: point.pi[..., 0], 0.0, 1.0, "nobody here")
    assert idle(model.at([1.0])).tolist() == pytest.approx([0.25])
    assert idle(model.at([1.0])).tolist() == model.measure("p_0")(model.at([1.0])).tolist()


def test_what_is_no_measure_is_told_which_there_are():
    with pytest.raises(InputError, match=r"MMmK.*'waiting'.*loss, response_time, p50"):
        st.models.MMmK().measure("waiting")
