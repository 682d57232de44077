"""Response times of every named queue against a chain that is written down here, by hand.

Each queue is told once more, as its moves: how the number of requests and a phase change, and
whether requests arrive, are served or are dropped. One request is then followed by its place in the
order of arrival, and its chain is solved by the exponential of a dense matrix.
"""

from collections import defaultdict

import numpy as np
import pytest
import scipy.linalg
import torch

import stationary as st
from stationary.models import queues

M = st.models
LOADS = [0.7, 2.5]
TIMES = [0.1, 1.0, 3.0, 10.0]
UNLIKE = {"uppertriangular", "service"}
"""The one knows no response times, those of the other have a test of their own."""


def exponential(load, servers=1, speed=lambda n: 1.0, births=lambda n: 1.0, capacity=5):
    def moves(n, phase):
        if n < capacity:
            yield (n + 1, phase), load * births(n), "arrive"
        if n:
            yield (n - 1, phase), min(n, servers) * speed(n), "serve"

    return moves


def batch(load, capacity=5, p=1 / 1.7):
    def moves(n, phase):
        for k in range(n + 1, capacity + 1):
            some = (1 - p) ** (k - n - 1) * (p if k < capacity else 1.0)
            yield (k, phase), load * p * some, "arrive"
        if n:
            yield (n - 1, phase), min(n, 2), "serve"

    return moves


def onoff(load, capacity=5, burst=0.8, switching=0.3):
    def moves(n, phase):
        yield (n, 1 - phase), switching / (1 + burst) * (burst if phase else 1.0), ""
        if n < capacity and phase:
            yield (n + 1, phase), load * (1 + burst), "arrive"
        if n:
            yield (n - 1, phase), min(n, 2), "serve"

    return moves


def emptied(load, to, spill=0.0, capacity=5):
    def moves(n, phase):
        if phase == "failed":
            yield (0, 0), 0.1, ""
            return
        yield from exponential(load, 2)(n, phase)
        if n or to:
            yield (0, to), 0.2, "drop"
        if n == capacity and spill:
            yield (0, to), load, "drop"

    return moves


def phased(load, first, speed, capacity=5):
    """Serve one at a time, in phases; ``first`` are the chances of those with which it begins."""

    def moves(n, phase):
        if n < capacity:
            for k, chance in enumerate(first) if n == 0 else [(phase, 1.0)]:
                yield (n + 1, k), load * chance, "arrive"
        if n and len(first) == 1 and phase < len(speed) - 1:
            yield (n, phase + 1), speed[phase], ""
        elif n:
            for k, chance in enumerate(first) if n > 1 else [(0, 1.0)]:
                yield (n - 1, k), speed[phase] * chance, "serve"

    return moves


def several(load, rates, capacity=5):
    def moves(n, phase):
        if n < capacity:
            yield (n + 1, phase), load, "arrive"
        for k, rate in enumerate(rates[:n], 1):
            yield (n - k, phase), rate, "serve"

    return moves


SHARE = (1 + 0.5**0.5) / 2  # of a squared coefficient of variation of 3: s^2 = 2 / 4

TWO = {"servers": 2, "capacity": 5}
TABLE = {
    "mmmk": (M.MMmK(**TWO), lambda x: exponential(x, 2)),
    "balking": (
        M.Balking(**TWO, balking=0.5),
        lambda x: exponential(x, 2, births=lambda n: 1 / (1 + 0.5 * max(n - 1, 0))),
    ),
    "batch": (M.BatchArrivals(**TWO, extra=0.7), batch),
    "finite": (
        M.FiniteClients(**TWO, clients=7),
        lambda x: exponential(x, 2, births=lambda n: (7 - n) / 7),
    ),
    "onoff": (M.OnOffArrivals(**TWO, burst=0.8, switching=0.3), onoff),
    "resetting": (M.Resetting(**TWO, reset=0.2), lambda x: emptied(x, 0)),
    "leaking": (M.Leaking(**TWO, leak=0.2), lambda x: emptied(x, "failed")),
    "spilling": (M.Leaking(**TWO, leak=0.2, spill=1), lambda x: emptied(x, "failed", 1)),
    "erlang": (M.ErlangService(phases=3, capacity=5), lambda x: phased(x, [1.0], [3.0] * 3)),
    "hyperexponential": (
        M.HyperexponentialService(capacity=5, extra_variation=2.0),
        lambda x: phased(x, [SHARE, 1 - SHARE], [2 * SHARE, 2 - 2 * SHARE]),
    ),
    "slowing": (
        M.Slowing(**TWO, slowdown=0.3),
        lambda x: exponential(x, 2, lambda n: n**-0.3),
    ),
    "statedependent": (
        M.StateDependent(depth=3, capacity=5, service=[1.0, 1.5, 1.7]),
        lambda x: exponential(x, speed=lambda n: [1.0, 1.5, 1.7][min(n, 3) - 1]),
    ),
    "usl": (
        M.UniversalScalability(capacity=5, discipline="fcfs"),
        lambda x: exponential(x, speed=lambda n: n / (1 + 0.1 * (n - 1) + 0.01 * n * (n - 1))),
    ),
    "multidiagonal": (M.MultiDiagonal(depth=2, capacity=5), lambda x: several(x, [1.0, 1.0])),
}


def explored(start, moves):
    """Rates between all states that can be reached."""
    rates, left = defaultdict(float), [start]
    seen = {start}
    while left:
        state = left.pop()
        for target, rate in moves(state):
            rates[state, target] += rate
            if target not in seen:
                seen.add(target)
                left.append(target)
    return rates, {state: k for k, state in enumerate(sorted(seen, key=repr))}


def generator(rates, place):
    Q = np.zeros((len(place), len(place)))
    for (source, target), rate in rates.items():
        Q[place[source], place[target]] += rate
    return Q - np.diag(Q.sum(1))


def steady(moves):
    """Probability of every state of the whole system."""
    rates, place = explored((0, 0), lambda s: ((t, rate) for t, rate, _ in moves(*s)))
    Q = generator(rates, place)
    pi = np.linalg.lstsq(np.vstack([Q.T, np.ones(len(Q))]), np.eye(len(Q) + 1)[-1])[0]
    return {state: pi[k] for state, k in place.items()}


def served_by(moves, servers, share, waiting, times):
    """Probability of being served by each time, of a request that is let in and served."""

    def place_after(n, m, k, what):
        """Where the tagged request at place k is when n requests become m: chances by place."""
        if what == "drop":
            return {"dropped": 1.0}
        if what != "serve":
            return {k: 1.0}
        gone, working = n - m, n if share else min(n, servers)
        if share:
            return {"served": gone / n, k: 1 - gone / n}
        if gone > 1 or working == 1:  # the oldest leave
            return {"served" if k <= gone else k - gone: 1.0}
        own, ahead = (k <= working) / working, min(k - 1, working) / working
        return {"served": own, k - 1: ahead, k: 1 - own - ahead}

    def followed(state):
        if state in ("served", "dropped"):
            return
        n, phase, k = state
        for (m, then), rate, what in moves(n, phase):
            for where, chance in place_after(n, m, k, what).items():
                if not chance:
                    continue
                if not isinstance(where, str):
                    where = "served" if waiting and where <= servers else (m, then, where)
                yield where, rate * chance

    arriving = defaultdict(float)
    for (n, phase), here_now in steady(moves).items():
        for (m, then), rate, what in moves(n, phase):
            for k in range(n + 1, m + 1) if what == "arrive" else ():
                here = "served" if waiting and k <= servers else (m, then, k)
                arriving[here] += here_now * rate
    tagged, place = explored("start", lambda s: arriving.items() if s == "start" else followed(s))
    Q = generator({pair: rate for pair, rate in tagged.items() if pair[0] != "start"}, place)
    start = np.zeros(len(place))
    for state, flow in arriving.items():
        start[place[state]] = flow / sum(arriving.values())
    end = place["served"]
    ever = (start @ scipy.linalg.expm(1e4 * Q))[end]
    return [(start @ scipy.linalg.expm(t * Q))[end] / ever for t in times]


def test_every_named_queue_is_in_the_table():
    assert {*queues.names()} == {*TABLE} - {"spilling"} | UNLIKE


@pytest.mark.parametrize("name", TABLE)
def test_the_steady_state_is_that_of_the_chain_by_hand(name):
    model, by_hand = TABLE[name]
    for load in LOADS:
        expected = defaultdict(float)
        for (n, phase), share in steady(by_hand(load)).items():
            expected["overload" if phase == "failed" else str(n)] += share
        pi = model.at([load]).pi.detach()[0]
        found = {group: pi[model.states_of(group)].sum().item() for group in model.visible}
        assert found == pytest.approx(dict(expected), abs=1e-12)


CASES = [
    (name, how)
    for name, (model, _) in TABLE.items()
    for how in ("fcfs", "ps", "waiting")
    if how != "ps" or model.can_share
]


@pytest.mark.parametrize(("name", "how"), CASES)
def test_the_distribution_is_that_of_a_chain_by_hand(name, how):
    model, by_hand = TABLE[name]
    model = model.changed(discipline="ps" if how == "ps" else "fcfs")
    point = model.at(LOADS)
    times = point.waiting_times if how == "waiting" else point.response_times
    found = times.cdf(torch.tensor(TIMES, dtype=torch.float64)).detach().numpy()
    for load, row in zip(LOADS, found, strict=True):
        expected = served_by(by_hand(load), model.servers, how == "ps", how == "waiting", TIMES)
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("name", "how"), CASES)
def test_percentiles_have_the_slopes_of_differences(name, how):
    model = TABLE[name][0].changed(discipline="ps" if how == "ps" else "fcfs")
    x, theta = torch.tensor([LOADS]).double().mT, model.theta.detach()
    measure = model.measure("wait_p97.5" if how == "waiting" else "p97.5")
    (found,) = torch.autograd.functional.jacobian(lambda t: measure(model.at(x, t)), (theta,))
    for k, step in enumerate(1e-6 * torch.eye(len(theta), dtype=torch.float64)):
        up, down = (measure(model.at(x, theta + sign * step)) for sign in (1, -1))
        torch.testing.assert_close(found[:, k], (up - down) / 2e-6, rtol=1e-5, atol=1e-6)
