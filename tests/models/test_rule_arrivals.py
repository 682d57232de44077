"""Requests that rules bring: how many at a time, and what they find."""

from pathlib import Path

import numpy as np
import pytest
import torch

import stationary as st
from rule_models import seen_by_arrivals, value
from stationary.models import RuleModel, read_model

EXAMPLES = Path(__file__).parents[2] / "examples"


def sees_time_averages(model, loads=(2.0, 6.0), theta=None):
    point = model.at(list(loads), theta)
    return torch.allclose(seen_by_arrivals(point), point.pi, rtol=1e-12, atol=0)


def queue(arrive, serve="n > 0 -> n -= 1 at mu", variables=None, **rest):
    return RuleModel(
        variables or {"n": (0, 10)},
        {"arrive": arrive, "serve": serve},
        **{"params": {"mu": 5.0}, "jobs": "n", **rest},
    )


@pytest.mark.parametrize(
    ("rate", "same", "by_hand"),
    [
        ("load", True, lambda x, n, mu, a: x),
        ("2 * load / 4 + load / 2", True, lambda x, n, mu, a: x),
        ("load * (n + 2) - n * load", True, lambda x, n, mu, a: 2 * x),
        ("if(n > 3, 2 * load, load + load)", True, lambda x, n, mu, a: 2 * x),
        ("min(load, 10)", True, lambda x, n, mu, a: min(x, 10)),
        ("a * load - load / mu", True, lambda x, n, mu, a: a * x - x / mu),
        ("load * (1 + a * n)", False, lambda x, n, mu, a: x * (1 + a * n)),
        ("if(n > 3, min(load, 10), load)", False, lambda x, n, mu, a: min(x, 10) if n > 3 else x),
        ("min(load, 10 * (n + 1))", False, lambda x, n, mu, a: min(x, 10 * (n + 1))),
        ("load / (mu + a * n)", False, lambda x, n, mu, a: x / (mu + a * n)),
        ("if(load > n + 50, 2 * load, load)", False, lambda x, n, mu, a: x * (1 + (x > n + 50))),
        (
            "load + max(0, load - 100) * if(n = 0, 1, 0)",
            False,
            lambda x, n, mu, a: x + (max(0, x - 100) if n == 0 else 0),
        ),
    ],
)
def test_requests_find_a_state_as_often_as_they_arrive_there(rate, same, by_hand):
    model = queue(f"n < 10 -> n += 1 else lost at {rate}", params={"mu": 5.0, "a": 0.0}, real=["a"])
    loads, (mu, a) = [3.0, 55.0, 150.0], (50.0, 0.7)
    theta = torch.tensor([mu, a], dtype=torch.float64)
    assert sees_time_averages(model, loads, theta) is same
    assert model.arrives_alone
    for k, load in enumerate(loads):
        arrive = [by_hand(load, n, mu, a) for n in range(11)]
        weight = [1.0]  # a birth-death chain
        for n in range(10):
            weight.append(weight[-1] * arrive[n] / mu)
        expected = np.array(weight) * arrive
        np.testing.assert_allclose(
            seen_by_arrivals(model.at(loads, theta))[k], expected / expected.sum(), rtol=1e-10
        )


def test_rules_that_take_turns_make_one_stream():
    retrials = read_model(EXAMPLES / "retrials.toml")
    assert sees_time_averages(retrials)
    slower = RuleModel(
        {"n": (0, 3)},
        {
            "first": "n = 0 -> n += 1 at load * mu",
            "later": "n > 0 and n < 3 -> n += 1 at mu * load",
            "full": "n = 3 -> lost at load",
            "serve": "n > 0 -> n -= 1 at mu",
        },
        {"mu": 1.0},
        arrivals=["first", "later", "full"],
    )
    assert sees_time_averages(slower)
    mu = torch.tensor([3.0], dtype=torch.float64)
    assert not sees_time_averages(slower, theta=mu)
    # Three come where there is room for each that comes where there is none.
    point = slower.at([2.0], mu)
    weighed = point.pi[0] * torch.tensor([3.0, 3.0, 3.0, 1.0])
    torch.testing.assert_close(seen_by_arrivals(point)[0], weighed / weighed.sum())


def test_pairs_of_requests_count_twice():
    # By Little's law, with twice the pairs that are let in, on the chain written by hand.
    model = queue("n <= 8 -> n += 2 else lost at load")
    load, mu = 2.0, 5.0
    rates = np.zeros((11, 11))
    for n in range(11):
        if n <= 8:
            rates[n, n + 2] = load
        if n:
            rates[n, n - 1] = mu
    Q = rates - np.diag(rates.sum(1))
    p = np.linalg.solve(np.vstack([Q.T[:-1], np.ones(11)]), np.eye(11)[-1])
    refused = p[9] + p[10]
    assert value(model, "loss", load) == pytest.approx(refused)
    assert value(model, "throughput", load) == pytest.approx(mu * (1 - p[0]))
    assert value(model, "throughput", load) == pytest.approx(2 * load * (1 - refused))
    let_in = 2 * load * (1 - refused)
    assert value(model, "response_time", load) == pytest.approx(np.arange(11) @ p / let_in)
    assert not model.arrives_alone
    alone = queue("n < 10 -> n += 1 else lost at load")
    assert alone.arrives_alone
    assert sees_time_averages(alone)


def test_batches_that_are_cut_lose_nothing_that_is_not_said():
    model = queue("n < 10 -> n = min(n + 3, 10) else lost at load")
    served = 5.0 * (1 - st.steady_state(model([3.0])).pi[0, 0].item())
    assert value(model, "throughput", 3.0) == pytest.approx(served)
    assert not model.arrives_alone


def test_what_is_not_counted_in_jobs_arrives_one_by_one():
    model = RuleModel(
        {"q1": (0, 4), "q2": (0, 4)},
        {
            "arrive": "q1 < 4 -> q1 += 1 else lost at load",
            "move": "q1 > 0 and q2 < 4 -> q1 -= 1, q2 += 1 at 3",
            "leave": "q2 > 0 -> q2 -= 1 at 4",
        },
        {},
        jobs="q2",
    )
    assert model.arrives_alone
    assert sees_time_averages(model)
    pi = st.steady_state(model([2.0])).pi[0]
    served = 4 * float(pi[model.states_of("q2 > 0")].sum())
    assert value(model, "throughput", 2.0) == pytest.approx(served)
    assert value(model, "response_time", 2.0) == pytest.approx(
        value(model, "mean_q2", 2.0) / served
    )


def test_a_rule_loses_as_many_as_it_throws_out():
    truth = st.models.Resetting(servers=1, capacity=6, service_rate=3.0, reset=0.4)
    model = RuleModel(
        {"n": (0, 6)},
        {
            "arrive": "n < 6 -> n += 1 else lost at load",
            "serve": "n > 0 -> n -= 1 at 3",
            "reset": "n > 0 -> n = 0, lost at reset",
        },
        {"reset": 0.4},
        jobs="n",
    )
    for name in ("loss", "throughput", "response_time"):
        assert value(model, name, 2.5) == pytest.approx(value(truth, name, 2.5)), name
    assert model.arrives_alone
    assert sees_time_averages(model)


def test_a_request_that_takes_the_place_of_another_is_one():
    model = RuleModel(
        {"old": (0, 3), "new": (0, 3)},
        {
            "arrive": "old + new < 3 -> new += 1 at load",
            "push": "old + new = 3 and old > 0 -> old -= 1, new += 1, lost at load",
            "full": "old + new = 3 and old = 0 -> lost at load",
            "age": "new > 0 -> new -= 1, old += 1 at 1",
            "serve": "old > 0 -> old -= 1 at 2",
        },
        {},
        jobs="old + new",
        arrivals=["arrive", "push", "full"],
    )
    assert model.arrives_alone
    assert sees_time_averages(model)
    pi = st.steady_state(model([2.0])).pi[0]
    served = 2 * float(pi[model.states_of("old > 0")].sum())
    assert value(model, "throughput", 2.0) == pytest.approx(served)


@pytest.mark.parametrize("rate", ["10", "if(n > 3, 2, mu)", "if(n > 3, mu, 2)"])
def test_numbers_in_rates_follow_the_device(rate):
    model = queue(f"n < 10 -> n += 1 else lost at {rate}", inputs=["load"]).to("meta")
    x = torch.ones(2, 1, dtype=torch.float64, device="meta")
    rates = model.edge_rates(x, model.theta)
    assert (rates.device.type, rates.shape) == ("meta", (2, 20))
