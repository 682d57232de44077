"""Models from rules, against closed forms, dense constructions and brute force."""

import itertools
import json
import math

import numpy as np
import pytest
import torch

import stationary as st
from rule_models import TANDEM, seen_by_arrivals, value
from stationary.data.losses import conditional_nll
from stationary.errors import InputError
from stationary.models import RuleModel, registry


def dense_tandem(load, mu1, mu2, K=4, L=3, servers=2):
    """The same chain, written down state by state."""
    place = {pair: k for k, pair in enumerate(itertools.product(range(K + 1), range(L + 1)))}
    rates = np.zeros((len(place), len(place)))
    for (a, b), k in place.items():
        if a < K:
            rates[k, place[a + 1, b]] += load
        if a and b < L:
            rates[k, place[a - 1, b + 1]] += mu1
        if b:
            rates[k, place[a, b - 1]] += mu2 * min(b, servers)
    return rates


def test_one_variable_is_an_mmmk():
    truth = st.models.MMmK(servers=3, capacity=10, service_rate=2.0)
    model = RuleModel(
        {"n": (0, "K")},
        {
            "arrive": "n < K -> n += 1 else lost at load",
            "serve": "n > 0 -> n -= 1 at mu * min(n, 3)",
        },
        {"mu": 2.0},
        constants={"K": 10},
        jobs="n",
        measures={"utilisation": "min(n, 3) / 3"},
    )
    x = [1.0, 4.0, 9.0]
    torch.testing.assert_close(
        st.steady_state(model(x)).pi, truth.closed_form(x), rtol=1e-12, atol=0
    )
    for name in ("loss", "throughput", "response_time", "mean_queue", "utilisation"):
        torch.testing.assert_close(value(model, name, x), value(truth, name, x))
    assert model.visible == truth.visible
    assert model.states_of(7) == [7]
    torch.testing.assert_close(seen_by_arrivals(model.at(x)), truth.closed_form(x))


def test_a_tandem_is_the_chain_written_by_hand():
    model = RuleModel(**TANDEM)
    dense = model([[5.0]]).dense()[0].detach().numpy()
    expected = dense_tandem(5.0, 3.0, 2.0)
    np.testing.assert_allclose(dense - np.diag(dense.diagonal()), expected)
    assert model.states[5] == "q1=1,q2=1"
    by_hand = st.models.FromFunction(
        lambda load, p: torch.tensor(expected).expand(*load.shape[:-1], -1, -1),
        states=list(model.states),
        params={},
    )
    torch.testing.assert_close(
        st.steady_state(model([5.0])).pi, st.steady_state(by_hand([5.0])).pi, rtol=1e-12, atol=0
    )


def test_a_closed_network_has_the_product_form_of_gordon_and_newell():
    # Three stations in a ring with a shortcut; visit ratios solve v = v P.
    jobs, mu = 6, np.array([3.0, 2.0, 5.0])
    model = RuleModel(
        {"a": (0, "N"), "b": (0, "N"), "c": (0, "N")},
        {
            "ab": "a > 0 -> a -= 1, b += 1 at 0.7 * mu_a",
            "ac": "a > 0 -> a -= 1, c += 1 at 0.3 * mu_a",
            "bc": "b > 0 -> b -= 1, c += 1 at mu_b",
            "ca": "c > 0 -> c -= 1, a += 1 at mu_c * min(c, 2)",
        },
        {"mu_a": mu[0], "mu_b": mu[1], "mu_c": mu[2]},
        constants={"N": jobs},
        start={"a": "N"},
    )
    assert len(model.states) == math.comb(jobs + 2, 2)
    visits = np.array([1.0, 0.7, 1.0])
    columns = model.states.columns
    weight = np.ones(len(model.states))
    for k, name in enumerate("abc"):
        n = columns[name].astype(int)
        servers = 2 if name == "c" else 1
        work = [np.prod([min(j, servers) for j in range(1, m + 1)]) for m in n]
        weight *= (visits[k] / mu[k]) ** n / np.array(work, dtype=float)
    pi = st.steady_state(model([1.0])).pi[0].detach().numpy()
    np.testing.assert_allclose(pi, weight / weight.sum(), rtol=1e-11)


def test_rules_of_one_edge_add_up():
    split = {**TANDEM, "rules": dict(TANDEM["rules"])}
    split["rules"]["move"] = "q1 > 0 and q2 < L -> q1 -= 1, q2 += 1 at 0.25 * mu1"
    split["rules"]["move_too"] = "q1 > 0 and q2 < L -> q2 = q2 + 1, q1 = q1 - 1 at 3 * mu1 / 4"
    split["rules"]["nothing"] = "q1 > 2 -> q1 = max(q1, 3) at 7"  # moves from nowhere to elsewhere
    one, two = RuleModel(**TANDEM), RuleModel(**split)
    torch.testing.assert_close(one([[5.0], [6.0]]).dense(), two([[5.0], [6.0]]).dense())


def test_changes_see_the_state_before_the_rule():
    model = RuleModel(
        {"a": (0, 1), "b": (0, 1)},
        {"swap": "a != b -> a = b, b = a at 1", "set": "a = b -> a = 1, b = 0 at 1",
         "clear": "a = 1 and b = 0 -> a = 0 at 2"},
        {},
    )  # fmt: skip
    rates = model([[1.0]]).dense()[0]
    names = list(model.states)
    assert rates[names.index("a=0,b=1"), names.index("a=1,b=0")] == 1
    assert rates[names.index("a=1,b=0"), names.index("a=0,b=1")] == 1


HARD = {
    "variables": {"n": (0, 6), "up": (0, 1)},
    "rules": {
        "arrive": "n < 6 -> n += 1 at load / (1 + balk * n) * if(up = 1, 1, 0.5)",
        "serve": "n > 0 -> n -= 1 at if(up = 1, sqrt(mu * n - mu), mu / 10) + mu * n ^ (-slow)",
        "more": "n > 0 and n < 4 -> n -= 1 at min(mu, load) * exp(slow * up) / n",
        "fail": "up = 1 -> up = 0 at 0.1 + if(up = 0, mu, max(balk, n) / 10)",
        "mend": "up = 0 -> up = 1 at if(up = 0, if(load > 2, mu, 2 * mu), balk)",
    },
    "params": {"mu": 1.7, "balk": 0.3, "slow": 0.2},
    "real": ["slow"],
}


def brute_rate(rule, n, up, load, mu, balk, slow):
    rates = {
        "arrive": load / (1 + balk * n) * (1.0 if up else 0.5),
        "serve": (math.sqrt(mu * n - mu) if up else mu / 10) + mu * max(n, 1) ** -slow if n else 0,
        "more": min(mu, load) * math.exp(slow * up) / max(n, 1),
        "fail": 0.1 + max(balk, n) / 10,
        "mend": mu if load > 2 else 2 * mu,
    }
    return rates[rule]


def brute_rates(load, mu, balk, slow):
    moves = {"arrive": (1, 0), "serve": (-1, 0), "more": (-1, 0), "fail": (0, -1), "mend": (0, 1)}
    rates = np.zeros((14, 14))
    for n, up in itertools.product(range(7), range(2)):
        for rule, (dn, du) in moves.items():
            to, then = n + dn, up + du
            if 0 <= to <= 6 and 0 <= then <= 1 and (rule != "more" or 0 < n < 4):
                rate = brute_rate(rule, n, up, load, mu, balk, slow)
                rates[2 * n + up, 2 * to + then] += rate
    return rates


def test_rates_of_every_form_are_those_computed_state_by_state():
    model = RuleModel(**HARD)
    for load in (1.3, 2.5):
        rates = model([[load]]).dense()[0].detach().numpy()
        np.fill_diagonal(rates, 0.0)
        np.testing.assert_allclose(rates, brute_rates(load, 1.7, 0.3, 0.2), rtol=1e-13)


def test_rates_are_differentiable_twice_and_batched():
    # The root has an infinite slope at n = 1, which the other branch is there for.
    root = "n > 0 -> n -= 1 at if(up = 1 and n > 1, sqrt(mu * n - mu), mu / 10)"
    model = RuleModel(**{**HARD, "rules": {**HARD["rules"], "serve": root}})
    x = torch.tensor([[1.3], [2.5]], dtype=torch.float64)
    theta = model.theta.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda t: model.edge_rates(x, t), theta)
    assert torch.autograd.gradgradcheck(lambda t: model.edge_rates(x, t), theta)
    thetas = theta.detach() * torch.tensor([[1.0], [1.1], [0.9]])
    xs = x * torch.tensor([1.0, 2.0, 3.0])[:, None, None]
    batched = model.edge_rates(xs, thetas[:, None])
    each = torch.stack([model.edge_rates(a, b) for a, b in zip(xs, thetas, strict=True)])
    torch.testing.assert_close(batched, each)
    jacobian = torch.func.jacrev(lambda t: model.edge_rates(x, t))(theta.detach())
    assert bool(jacobian.isfinite().all())


def test_the_likelihood_of_lumped_counts_is_that_of_the_sums():
    model = RuleModel(**{**TANDEM, "count": "min(q1 + q2, 4)"})
    assert model.visible == ("0", "1", "2", "3", "4")
    x = [4.0, 6.0]
    windows = st.Windows(x, [[5, 3, 7], [2, 8, 1]], observe=[0, (1, 2), 4])
    pi = [np.linalg.svd(_generator(dense_tandem(load, 3.0, 2.0)).T)[2][-1] for load in x]
    expected = 0.0
    for p, counts in zip(pi, windows.counts.numpy(), strict=True):
        p = p / p.sum()
        total = [a + b for a, b in itertools.product(range(5), range(4))]
        lumped = np.array([
            sum(p[k] for k, t in enumerate(total) if min(t, 4) in members)
            for members in ([0], [1, 2], [4])
        ])  # fmt: skip
        expected -= (counts * np.log(lumped / lumped.sum())).sum()
    steady = st.steady_state(model(x)).pi
    found = conditional_nll(steady, windows.counts, windows.observation(model)).sum()
    assert float(found.detach()) == pytest.approx(expected, rel=1e-10)


def _generator(rates):
    return rates - np.diag(rates.sum(1))


def test_conditions_name_all_states_that_meet_them():
    model = RuleModel(**TANDEM)
    windows = st.Windows([5.0], [[3, 2, 1]], observe=["q1 = 0", "q1 = 1", "q1 >= K - 1 & q2 < 2"])
    pairs = list(itertools.product(range(5), range(4)))
    for row, holds in zip(
        windows.observation(model).dense().tolist(),
        (lambda a, b: a == 0, lambda a, b: a == 1, lambda a, b: a >= 3 and b < 2),
        strict=True,
    ):
        assert row == [float(holds(a, b)) for a, b in pairs]
    for wrong, reason in {
        "q3 = 1": "there is no 'q3' here; did you mean 'q2'",
        "q1 > 40": "no state of the model has q1 > 40",
        "q1 + 1": "must be a condition",
        9: r"state '9' is not in the model.*counted as 0..3; or",
    }.items():
        with pytest.raises(InputError, match=reason):
            model.states_of(wrong)


def test_states_are_named_when_asked_for():
    model = RuleModel(**TANDEM)
    assert model.state_index("q1=3,q2=2") == model.state_index("q2 = 2, q1 = 3") == 14
    assert list(model.states)[14] == model.states[14] == "q1=3,q2=2"
    assert model.states[-2:] == ["q1=4,q2=2", "q1=4,q2=3"]
    for wrong in ("q1=3", "q1=3,q2=9", "q1=3,q1=3", "q1=3,q2=x", "3", ""):
        assert wrong not in model.states
        with pytest.raises(InputError, match="is not in the model: its 20 states are"):
            model.state_index(wrong)
    assert st.simulation.trajectory(model, 5.0, duration=1.0, start="q2=1,q1=2").states[0] == 9


def test_lost_requests_are_counted_by_flows():
    # Impatience: what leaves unserved had been let in; M/M/2 + M has a closed form.
    load, mu, leave, K = 3.0, 1.0, 0.5, 8
    model = RuleModel(
        {"n": (0, "K")},
        {
            "arrive": "n < K -> n += 1 else lost at load",
            "serve": "n > 0 -> n -= 1 at mu * min(n, 2)",
            "give_up": "n > 2 -> n -= 1, lost at leave * (n - 2)",
        },
        {"mu": mu, "leave": leave},
        constants={"K": K},
        jobs="n",
    )
    weight = [1.0]
    for n in range(1, K + 1):
        weight.append(weight[-1] * load / (mu * min(n, 2) + leave * max(n - 2, 0)))
    p = np.array(weight) / sum(weight)
    n = np.arange(K + 1)
    served = mu * (np.minimum(n, 2) @ p)
    assert value(model, "loss", load) == pytest.approx(1 - served / load)
    assert value(model, "throughput", load) == pytest.approx(served)
    let_in = load * (1 - p[-1])
    assert value(model, "response_time", load) == pytest.approx((n @ p) / let_in)


def test_measures_of_ones_own():
    wanted = {"blocked": "q1 > 0 and q2 = L", "cost": "2 * q1 + load / mu1", "late": "q1 * q2"}
    model = RuleModel(**TANDEM, measures=wanted)
    x = torch.tensor([[5.0]], dtype=torch.float64)
    pi = st.steady_state(model(x)).pi
    p, pairs = pi[0].detach().numpy(), list(itertools.product(range(5), range(4)))
    blocked = sum(v for v, (a, b) in zip(p, pairs, strict=True) if a and b == 3)
    assert value(model, "blocked", x) == pytest.approx(blocked)
    mean = sum(v * a for v, (a, _) in zip(p, pairs, strict=True))
    assert value(model, "cost", x) == pytest.approx(2 * mean + 5.0 / 3.0)
    assert (model.measure("blocked").low, model.measure("blocked").high) == (0.0, 1.0)
    assert model.measure("late").high == 12.0
    assert value(model, "mean_q1", x) == pytest.approx(mean)
    with pytest.raises(InputError, match="'loss' is there already"):
        RuleModel(**TANDEM, measures={"loss": "q1 = K"})


def test_simulated_counts_are_those_of_the_expression_and_a_fit_finds_the_truth():
    truth = RuleModel(**TANDEM)
    windows = st.simulate(truth, [1.0, 2.0, 3.0] * 30, duration=200.0, seed=3)
    assert windows.labels == ("0", "1", "2", "3")
    pi = st.steady_state(truth([3.0])).pi[0].detach().numpy()
    share = windows.counts[windows.loads == 3.0].sum(0).numpy()
    expected = [pi[truth.states_of(k)].sum() for k in range(4)]
    np.testing.assert_allclose(share / share.sum(), expected, atol=0.01)
    fit = st.fit(RuleModel(**TANDEM, mu1=1.0, mu2=1.0), windows.observing([0, 1, 2]))
    assert fit.converged
    assert fit.estimates["mu1"] == pytest.approx(3.0, rel=0.15)
    assert fit.estimates["mu2"] == pytest.approx(2.0, rel=0.05)
    assert fit.max_load(loss=0.05).load == pytest.approx(
        st.fit(truth, windows.observing([0, 1, 2])).max_load(loss=0.05).load, rel=1e-4
    )


def test_a_fit_is_saved_and_loaded_and_changed(tmp_path):
    truth = RuleModel(**TANDEM)
    windows = st.simulate(truth, [1.0, 2.0, 3.0] * 5, duration=50.0, seed=4)
    fit = st.fit(RuleModel(**TANDEM), windows.observing([0, 1]))
    fit.save(tmp_path / "run")
    again = st.load(tmp_path / "run")
    assert again.estimates == fit.estimates
    assert again.forecast([4.0]).equals(fit.forecast([4.0]))
    larger = again.what_if(K=9)
    assert larger.change.options == {"K": (4, 9)}
    assert len(larger.model.states) == 40
    assert float(larger.forecast([4.0])["loss"][0]) < float(again.forecast([4.0])["loss"][0])
    assert registry.can_rebuild(fit.model)


def test_a_hundred_thousand_states_are_built_and_named_when_asked_for(monkeypatch):
    model = RuleModel(**{**TANDEM, "count": None}, K=399, L=249)
    assert len(model.states) == 100_000
    assert len(model.edges) == 250 * 399 + 399 * 249 + 400 * 249
    assert model.states[123_4] == "q1=4,q2=234"
    rates = model.edge_rates(torch.tensor([[2.0]], dtype=torch.float64), model.theta)
    assert rates.shape == (1, len(model.edges))
    monkeypatch.setattr("stationary.models.rules.states.States.__getitem__", None)
    assert model.visible is model.states
    assert model.state_index("q1=399,q2=249") == 99_999
    np.testing.assert_array_equal(model.group_index, np.arange(100_000))
    assert model.states_of("q1=3,q2=4") == [3 * 250 + 4]


def test_variables_may_be_negative():
    model = RuleModel(
        {"d": (-2, np.int64(2))},
        {"up": "d < 2 -> d += 1 at load", "down": "d > -2 -> d -= 1 at mu"},
        {"mu": np.float64(2.0)},
        start={"d": 1},
        count="abs(d)",
    )
    assert list(model.states) == ["d=-2", "d=-1", "d=0", "d=1", "d=2"]
    assert model.states_of(2) == [0, 4]
    assert model.state_index("d=-1") == 1
    again = registry.build(json.loads(json.dumps(registry.describe(model))))
    torch.testing.assert_close(again([3.0]).dense(), model([3.0]).dense())


def test_a_space_too_large_for_flags_is_explored_as_well():
    names = [f"s{k}" for k in range(12)]  # 9^12 combinations, of which few are reached
    rules = {
        f"hop{k}": f"{a} > 0 -> {a} -= 1, {b} += 1 at mu"
        for k, (a, b) in enumerate(zip(names, names[1:] + names[:1], strict=True))
    }
    model = RuleModel(dict.fromkeys(names, (0, 8)), rules, {"mu": 1.0}, start={"s0": 3})
    assert len(model.states) == math.comb(3 + 11, 11)
    assert model.states[0] == "s0=0," + ",".join(f"s{k}={3 * (k == 11)}" for k in range(1, 12))
    pi = st.steady_state(model([1.0])).pi[0]
    torch.testing.assert_close(pi, torch.full_like(pi, 1 / len(pi)))


def test_a_relaxed_model_knows_conditions_and_counts():
    model = RuleModel(**TANDEM)
    relaxed = st.models.Relaxed(model)
    assert relaxed.states_of("q1 >= 2 and q2 = 0") == model.states_of("q1 >= 2 and q2 = 0")
    assert relaxed.states_of(2) == model.states_of(2)
    assert relaxed.visible == model.visible
    np.testing.assert_array_equal(relaxed.group_index, model.group_index)
    assert relaxed.changeable == {"K": 4, "L": 3, "servers": 2}
