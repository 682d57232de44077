"""Percentiles of models made of rules: how a request moves through their variables."""

import ciw
import numpy as np
import pytest
import torch

import stationary as st
from stationary.errors import InputError
from stationary.models import MMmK, RuleModel

TIMES = torch.tensor([0.05, 0.3, 1.0, 3.0], dtype=torch.float64)
LOADS = [0.7, 2.5]

QUEUE = {
    "variables": {"q": (0, "K")},
    "rules": {
        "arrive": "q < K -> q += 1 else lost at load",
        "serve": "q > 0 -> q -= 1 at mu * min(q, m)",
    },
    "params": {"mu": 0.8},
    "constants": {"K": 6, "m": 2},
}
TANDEM = {
    "variables": {"q1": (0, "K"), "q2": (0, "K")},
    "rules": {
        "arrive": "q1 < K -> q1 += 1 else lost at load",
        "move": "q1 > 0 and q2 < K -> q1 -= 1, q2 += 1 at mu1",
        "leave": "q2 > 0 -> q2 -= 1 at mu2",
    },
    "params": {"mu1": 1.0, "mu2": 1.5},
    "constants": {"K": 12},
    "discipline": {"q1": "fcfs", "q2": "fcfs"},
}


def tail(model, loads=LOADS):
    return model.at(loads).response_times.survival(TIMES)


@pytest.mark.parametrize(
    ("given", "discipline", "servers"),
    [("fcfs m", "fcfs", 2), ("fcfs 2", "fcfs", 2), ("fcfs", "fcfs", 1), ("ps", "ps", 2)],
)
def test_one_queue_has_the_times_of_mmmk(given, discipline, servers):
    rules = RuleModel(**QUEUE, discipline={"q": given}, m=servers)
    queue = MMmK(servers, 6, service_rate=0.8, discipline=discipline)
    torch.testing.assert_close(tail(rules), tail(queue), rtol=0, atol=1e-10)
    for name in ("p50", "p99", "slower_2.0", "response_time"):
        found, expected = (m.measure(name)(m.at(LOADS)) for m in (rules, queue))
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=0)


def test_an_overhead_is_a_parameter():
    params = {"mu": 0.8, "overhead": 0.1}
    rules = RuleModel(**QUEUE | {"params": params}, discipline={"q": "fcfs m"})
    queue = MMmK(2, 6, service_rate=0.8, overhead=0.1)
    torch.testing.assert_close(tail(rules), tail(queue), rtol=0, atol=1e-10)


def test_requests_that_a_rule_loses_do_not_count():
    # Each request is served at rate 2, or gives up at rate 3: those served stay 1/5.
    model = RuleModel(
        variables={"q": (0, 4)},
        rules={
            "arrive": "q < 4 -> q += 1 else lost at load",
            "serve": "q > 0 -> q -= 1 at 2 * q * speed",
            "give_up": "q > 0 -> q -= 1, lost at 3 * q",
        },
        params={"speed": 1.0},
        discipline={"q": "ps"},
    )
    torch.testing.assert_close(tail(model), torch.exp(-5 * TIMES).expand(2, -1), rtol=1e-9, atol=0)


@pytest.mark.parametrize("servers", [1, 2])
def test_impatient_requests_leave_from_any_place(servers):
    # A reset drops everyone; one by one, each waiting request may also give up.
    model = RuleModel(
        variables={"q": (0, 5)},
        rules={
            "arrive": "q < 5 -> q += 1 else lost at load",
            "serve": f"q > 0 -> q -= 1 at mu * min(q, {servers})",
            "reset": "q > 0 -> q = 0, lost at 0.3",
        },
        params={"mu": 1.0},
        discipline={"q": f"fcfs {servers}"},
    )
    known = st.models.Resetting(servers=servers, capacity=5, service_rate=1.0, reset=0.3)
    torch.testing.assert_close(tail(model), tail(known), rtol=0, atol=1e-10)
    impatient = RuleModel(
        **{
            **model.options,
            "rules": model.options["rules"] | {"reset": "q > 0 -> q -= 1, lost at 0.3 * q"},
        }
    )
    found = impatient.at(LOADS).response_times.mean
    np.testing.assert_allclose(found.detach(), simulated_impatience(servers), rtol=0.02)


def simulated_impatience(servers, number=200_000):
    """Mean stay of those served, of which each gives up at rate 0.3, in service or not."""
    rng, means = np.random.default_rng(1), []
    for load in LOADS:
        inside, now, stays = [], 0.0, []
        while len(stays) < number / 4:
            rates = [load, min(len(inside), servers), 0.3 * len(inside)]
            now += rng.exponential(1 / sum(rates))
            what = rng.choice(3, p=np.array(rates) / sum(rates))
            if what == 0 and len(inside) < 5:
                inside.append(now)
            elif what == 1:
                stays.append(now - inside.pop(rng.integers(min(len(inside), servers))))
            elif what == 2:
                inside.pop(rng.integers(len(inside)))
        means.append(np.mean(stays))
    return means


def test_two_stations_are_those_of_a_simulation():
    model = RuleModel(**TANDEM)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(0.5), None],
        service_distributions=[ciw.dists.Exponential(1.0), ciw.dists.Exponential(1.5)],
        routing=[[0.0, 1.0], [0.0, 0.0]],
        number_of_servers=[1, 1],
    )
    ciw.seed(3)
    run = ciw.Simulation(network)
    run.simulate_until_max_time(40_000)
    stays: dict[int, float] = {}
    for record in run.get_all_records():
        stays[record.id_number] = stays.get(record.id_number, 0.0) + (
            record.exit_date - record.arrival_date
        )
    times = model.at([0.5]).response_times
    for share in (0.5, 0.95):
        expected = np.quantile(list(stays.values()), share)
        assert times.percentile(share).item() == pytest.approx(expected, rel=0.05)


def test_two_stations_keep_littles_law_and_have_exact_derivatives():
    model = RuleModel(**TANDEM, K=3)
    point = model.at(LOADS)
    expected = model.measure("response_time")(point)
    torch.testing.assert_close(point.response_times.mean, expected, rtol=1e-11, atol=0)
    x = torch.tensor([[0.7], [2.5]], dtype=torch.float64)
    theta = model.theta.detach().clone().requires_grad_()

    def survival(theta):
        return model.at(x, theta).response_times.survival(TIMES)

    assert torch.autograd.gradcheck(survival, theta, eps=1e-6, atol=1e-8)


def test_those_who_try_again_are_followed():
    model = st.models.read_model("examples/retrials.toml", agents=2, most=5)
    options = model.options | {"discipline": {"busy": "ps", "waiting": "ps"}}
    rules = options["rules"] | {"give_up": "waiting > 0 -> waiting -= 1 at patience * waiting"}
    model = RuleModel(**{**options, "rules": rules})  # who gives up has left, too
    point = model.at(LOADS)
    expected = model.measure("response_time")(point)
    torch.testing.assert_close(point.response_times.mean, expected, rtol=1e-10, atol=0)


def test_limits_and_fits_to_latencies_follow():
    truth = RuleModel(**TANDEM | {"params": {"mu1": 10.0, "mu2": 15.0}}, K=4)
    edges = np.geomspace(0.01, 5.0, 30)
    loads = np.linspace(1.0, 6.0, 8)
    empty = st.data.Latencies(np.full((8, 31), 60), edges)
    seen = empty.draw(truth.at(loads), np.random.default_rng(2))
    plan = st.fit(truth, st.Windows(x=loads, observations=[seen]))
    assert plan.estimates["mu1"] == pytest.approx(10.0, rel=0.15)
    load = plan.max_load(p99=0.8).load
    assert truth.measure("p99")(truth.at([load])).item() == pytest.approx(0.8, rel=0.1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"discipline": {"q3": "fcfs"}}, "no variable 'q3'"),
        ({"discipline": {"q1": "lifo", "q2": "ps"}}, "'fcfs 4'.*got 'lifo'"),
        ({"discipline": {"q1": "fcfs 0", "q2": "ps"}}, "needs a server"),
        ({"discipline": {"q1": "fcfs 0.5", "q2": "ps"}}, "whole number"),
        ({"discipline": {"q2": "fcfs"}}, "rule 'move'.*not among the arrivals"),
        ({"discipline": {"q1": "fcfs"}, "jobs": "q1 + q2"}, "name all variables"),
        ({"discipline": {"q1": 3}}, "must be a text"),
    ],
)
def test_what_cannot_be_followed_is_named(changes, says):
    with pytest.raises(InputError, match=says):
        RuleModel(**TANDEM | changes)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("q1 > 1 and q2 < K - 1 -> q1 -= 2, q2 += 2 at mu1", "several requests at once"),
        ("q1 > 0 and q2 < K - 1 -> q1 -= 1, q2 += 2 at mu1", "not among the arrivals"),
    ],
)
def test_rules_that_move_several_requests_are_named(rule, says):
    with pytest.raises(InputError, match=f"rule 'move'.*{says}"):
        RuleModel(**TANDEM | {"rules": TANDEM["rules"] | {"move": rule}})


def test_models_that_do_not_say_it_name_what_to_add():
    with pytest.raises(InputError, match=r"discipline=\{'q': 'fcfs'\}"):
        RuleModel(**QUEUE).measure("p99")
    with pytest.raises(InputError, match="not how long requests wait"):
        RuleModel(**TANDEM).measure("wait_p99")
    function = st.models.FromFunction(
        lambda load, p: {("a", "b"): load, ("b", "a"): p.mu}, states=["a", "b"], params={"mu": 1.0}
    )
    with pytest.raises(InputError, match=r"FromFunction does not say.*response_times\(point\)"):
        function.measure("p99")
    assert st.models.Prism.how_to_say_times.endswith("(RuleModel)")
