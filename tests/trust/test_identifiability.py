"""What the data determine: against scans and grids of the likelihood in closed form."""

import math
import warnings

import numpy as np
import pytest
import torch

import stationary as st
from stationary import words
from stationary.errors import ConvergenceWarning, InputError
from stationary.learning.likelihood import Likelihood
from stationary.models import Param
from stationary.models.measures import Measure, probability, reward
from stationary.paper.settings import SETTINGS
from stationary.paper.testbed import problems, read_recording
from stationary.steady import steady_state
from stationary.terms.findings import Verdict
from stationary.trust.identifiability import DirectionKind
from stationary.trust.identifiability.directions import open_directions

M = st.models
LOADS = np.repeat(np.arange(11.0, 16.0), 10)
COLUMNS = ["load", "measure", "value", "low", "high", "determined", "searched"]


@pytest.fixture(scope="module")
def light():
    """The paper's M/M/1/K at light load: 50 windows of one second, states 0 and 1 observed."""
    truth = M.MMmK(servers=1, capacity=19, service_rate=25.0)
    windows = st.simulate(truth, LOADS, duration=1.0, seed=0).observing([0, 1])
    return st.fit(M.MMmK(servers=1, capacity=19), windows)


@pytest.fixture(scope="module")
def light_known(light):
    return light.identify()


# One parameter, against a scan.


def mm1k_loss(load, service):
    step = np.log(load / service)[..., None] * np.arange(20)
    weight = np.exp(step - step.max(-1, keepdims=True))
    return weight[..., -1] / weight.sum(-1)


def scanned(windows, nats):
    """Service rates of M/M/1/K within some nats, by the binomial likelihood on a dense scan."""
    z = np.linspace(math.log(10.0), math.log(100.0), 400_001)
    ratio = windows.loads.numpy()[:, None] / np.exp(z)  # pi_1 / pi_0
    counts = windows.counts.numpy()
    nll = (counts.sum(1)[:, None] * np.log1p(ratio) - counts[:, 1:] * np.log(ratio)).sum(0)
    inside = z[nll <= nll.min() + nats]
    return np.exp(inside[[0, -1]])


@pytest.mark.parametrize("nats", [0.1, 2.0, 8.0])
def test_the_range_of_one_parameter_is_that_of_a_scan(light, nats):
    found = light.identify([20.0, 40.0], nats, ["loss"], dispersion=1.0)
    ends = scanned(light.windows.pooled(), nats)
    for load, row in zip((20.0, 40.0), found.ranges.itertuples(), strict=True):
        low, high = mm1k_loss(load, ends)[::-1]
        assert row.low == pytest.approx(low, rel=1e-3)
        assert row.high == pytest.approx(high, rel=1e-3)
        assert row.value == pytest.approx(mm1k_loss(load, light.estimates["service_rate"]))


def test_mm1k_at_light_load_is_determined(light_known):
    assert light_known.determined
    assert (light_known.parameters, light_known.rank, light_known.condition) == (1, 1, 1.0)
    assert light_known.directions == ()
    assert all(finding.verdict is Verdict.OK for finding in light_known.findings())
    assert {finding.code for finding in light_known.findings()} == {"determined"}
    assert [f.facts["measure"] for f in light_known.findings()[1:]] == ["loss", "response_time"]


def test_what_is_asked_by_default(light_known):
    ranges = light_known.ranges
    assert list(ranges) == COLUMNS
    assert ranges["load"].tolist() == [15.0, 18.75, 22.5, 30.0] * 2
    assert ranges["measure"].tolist() == ["loss"] * 4 + ["response_time"] * 4
    assert ((ranges["low"] < ranges["value"]) & (ranges["value"] < ranges["high"])).all()


def test_dispersion_divides_the_nats(light):
    asked = {"x": [40.0], "measures": ["loss"]}
    divided = light.identify(nats=1.0, dispersion=4.0, **asked).ranges
    plain = light.identify(nats=4.0, dispersion=1.0, **asked).ranges
    np.testing.assert_allclose(divided[["low", "high"]], plain[["low", "high"]], rtol=1e-6)
    assert light.identify(dispersion=4.0, **asked).dispersion == 4.0


# Two parameters, against a grid.


def slowing(load, p):
    down = [p.first * p.further**k for k in range(3)]
    return torch.cat([part.broadcast_to((load + p.first).shape) for part in [load] * 3 + down], -1)


def slowing_pi(load, first, further):
    steps = [np.log(load / (first * further**k)) for k in range(3)]
    weight = np.exp(np.cumsum([np.zeros_like(first), *steps], 0))
    return weight / weight.sum(0)


def test_the_range_of_two_parameters_is_that_of_a_grid():
    model = M.FromFunction(
        slowing,
        states=4,
        params={"first": 20.0, "further": 1.0},
        edges=[(0, 1), (1, 2), (2, 3), (1, 0), (2, 1), (3, 2)],
    )
    counts = {10.0: (240, 130, 70), 14.0: (180, 125, 95)}
    fit = st.fit(model, st.Windows(list(counts), list(counts.values()), [0, 1, 2]))
    found = fit.identify(x=[30.0], measures=["p_3", "p_0"])
    a, b = np.log(fit.estimates["first"]), np.log(fit.estimates["further"])
    first, further = np.exp(
        np.meshgrid(np.linspace(a - 0.5, a + 0.5, 1501), np.linspace(b - 0.8, b + 0.8, 1501))
    )
    nll = np.zeros_like(first)
    for load, seen in counts.items():
        pi = slowing_pi(load, first, further)[:3]
        nll -= np.tensordot(seen, np.log(pi / pi.sum(0)), 1)
    inside = nll <= nll.min() + 2.0
    edge = np.concatenate([inside[0], inside[-1], inside[:, 0], inside[:, -1]])
    assert not edge.any()
    pi = slowing_pi(30.0, first, further)
    for row, state in zip(found.ranges.itertuples(), (3, 0), strict=True):
        assert row.low == pytest.approx(pi[state][inside].min(), rel=3e-3)
        assert row.high == pytest.approx(pi[state][inside].max(), rel=3e-3)
    assert found.determined
    assert found.rank == 2


# A rate estimated at zero, against a grid.


def batch_rates(load, one, two):
    """Generators ``[..., 5, 5]`` of MultiDiagonal(depth=2, capacity=4)."""
    Q = np.zeros((*one.shape, 5, 5))
    for k in range(4):
        Q[..., k, k + 1] = load
        Q[..., k + 1, k] = one
    for k in range(3):
        Q[..., k + 2, k] = two
    Q[..., range(5), range(5)] = -Q.sum(-1)
    return Q


def solved_pi(load, one, two):
    A = np.swapaxes(batch_rates(load, one, two), -1, -2)
    A[..., -1, :] = 1.0
    return np.linalg.solve(A, np.broadcast_to(np.eye(5)[-1][:, None], (*one.shape, 5, 1)))[..., 0]


def test_a_rate_at_zero_is_bounded_as_on_a_grid():
    counts = {10.0: (520, 250, 118), 20.0: (280, 262, 275)}
    windows = st.Windows(list(counts), list(counts.values()), [0, 1, 2])
    fit = st.fit(M.MultiDiagonal(depth=2, capacity=4), windows)
    assert fit.estimates["rate_2"] < 1e-4
    found = fit.identify(x=[40.0], measures=["loss"])
    one, two = np.meshgrid(np.linspace(15.0, 26.0, 500), np.linspace(0.0, 5.0, 500))
    nll = np.zeros_like(one)
    for load, seen in counts.items():
        pi = solved_pi(load, one, two)[..., :3]
        nll -= np.log(pi / pi.sum(-1, keepdims=True)) @ np.array(seen)
    inside = nll <= nll.min() + 2.0
    assert not inside[-1].any()
    assert not inside[:, [0, -1]].any()
    loss = solved_pi(40.0, one, two)[..., -1]
    row = found.ranges.iloc[0]
    assert row["low"] == pytest.approx(loss[inside].min(), rel=3e-3)
    assert row["high"] == pytest.approx(loss[inside].max(), rel=3e-3)
    assert row["determined"]
    assert found.rank == 1
    (direction,) = found.directions
    assert (direction.kind, direction.raised) == (DirectionKind.AT_ZERO, ("rate_2",))
    assert direction.at_most == pytest.approx(two[inside].max(), rel=1e-2)


# What is not determined.

A1 = SETTINGS["examples"]["unidentifiable"]
STEPS = [(i, j) for i in range(4) for j in range(4) if abs(i - j) == 1]
OBSERVED = Measure(lambda point: point.pi[..., 0] / point.pi[..., :2].sum(-1), 0.0, 1.0)


def free_chain(measures):
    """The paper's example A1: all rates of a four-state chain free."""
    names = [f"q_{i}_{j}" for i, j in STEPS]
    return M.FromFunction(
        lambda load, p: torch.cat([getattr(p, name) for name in names], -1),
        states=4,
        params=dict.fromkeys(names, 0.5),
        edges=STEPS,
        measures=measures,
    )


def test_the_papers_example_a1_is_undetermined():
    pi = steady_state(st.Generator.from_dense(torch.tensor(A1["first"], dtype=torch.float64))).pi
    seen = pi[A1["observe"]] / pi[A1["observe"]].sum()
    counts = np.random.default_rng(1).multinomial(700, seen.numpy(), size=4)
    last = probability(torch.tensor([0.0, 0.0, 0.0, 1.0]))
    model = free_chain({"last": last, "observed": OBSERVED})
    fit = st.fit(model, st.Windows(np.ones(4), counts, A1["observe"]))
    found = fit.identify(x=[1.0], dispersion=1.0)  # these counts are independent
    ranges = found.ranges.set_index("measure")
    assert ranges.loc["last", "low"] < 1e-6
    assert ranges.loc["last", "high"] > 1 - 1e-6  # the paper's answers, 0.1 and 0.2, lie between
    assert not ranges.loc["last", "determined"]
    # The observed part is fitted: its range is that of a share of 2800.
    share, total = counts[:, 0].sum() / counts.sum(), counts.sum()
    spread = math.sqrt(4.0 * share * (1 - share) / total)  # 2 nats are two standard errors
    assert ranges.loc["observed", "determined"]
    assert ranges.loc["observed", "value"] == pytest.approx(share, rel=1e-6)
    assert ranges.loc["observed", "low"] == pytest.approx(share - spread, rel=2e-3)
    assert ranges.loc["observed", "high"] == pytest.approx(share + spread, rel=2e-3)
    assert not found.determined
    assert (found.parameters, found.rank) == (6, 1)
    kinds = [(d.kind, d.raised) for d in found.directions]
    assert (DirectionKind.ALONE, ("q_3_2",)) in kinds
    assert (DirectionKind.COMMON_FACTOR, ("q_0_1", "q_1_0")) in kinds
    parameters, *measures = found.findings()
    assert (parameters.check, parameters.code) == ("parameters", "undetermined")
    assert parameters.verdict is Verdict.WARNING
    assert parameters.facts == {"rank": 1, "parameters": 6, "barely": 0}
    assert [(f.check, f.facts["measure"], f.code, f.verdict) for f in measures] == [
        ("measure", "last", "undetermined", Verdict.WARNING),
        ("measure", "observed", "determined", Verdict.OK),
    ]
    assert "last at load 1 lies between 0 and 1: NOT determined" in str(found)


def test_the_papers_model_on_its_recording_is_undetermined(recording_file):
    problem = problems(read_recording(recording_file))["testbed"]
    with warnings.catch_warnings():
        # How far rates run that the data do not bound depends on the processor's rounding.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = st.fit(M.UpperTriangular(states=22), problem.observed())
    found = fit.identify()
    assert found.parameters == 231
    assert found.rank <= 4
    assert not found.determined
    assert not found.ranges["determined"].any()
    loss = found.ranges[found.ranges["measure"] == "loss"]
    assert (loss["low"] < 1e-6).all()
    assert (loss["high"] > 1 - 1e-6).all()
    alone = [d.weights for d in found.directions if len(d.weights) == 1]
    assert {"rate_1_0": 1.0} in alone  # it moves state 0 only, which was not observed
    assert len(str(found).splitlines()) < 25


@pytest.fixture(scope="module")
def third_open():
    truth = M.MultiDiagonal(depth=3, capacity=20, rate_1=10.0, rate_2=8.0, rate_3=5.0)
    x = np.arange(11.0, 16.0)
    seen = steady_state(truth(x)).pi.detach().numpy()[:, :2]
    windows = st.Windows(x, np.round(20_000 * seen), [0, 1])
    return st.fit(M.MultiDiagonal(depth=3, capacity=20), windows)


def test_two_states_leave_the_third_rate_open(third_open):
    found = third_open.identify(x=[30.0])
    direction = found.directions[0]
    assert max(direction.weights, key=lambda name: abs(direction.weights[name])) == "rate_3"
    assert direction.kind is DirectionKind.COMBINATION
    assert direction.nearly
    assert (direction.raised, direction.lowered) == (("rate_3",), ("rate_2",))
    assert words.direction(direction) in str(found)
    assert not found.determined
    # The direction is as flat as it says.
    vector = direction.vector(third_open.model.param_names)
    likelihood = Likelihood(third_open.model, third_open.windows)
    z = np.log(third_open.model.theta.detach().numpy())
    slopes = [likelihood.value_and_gradient(z + h * vector)[1] @ vector for h in (-1e-4, 1e-4)]
    assert direction.curvature == pytest.approx((slopes[1] - slopes[0]) / 2e-4, rel=1e-2)
    assert found.condition > 1e5


def test_no_wandering_in_the_region_leaves_the_range(third_open):
    found = third_open.identify(x=[30.0]).ranges
    likelihood = Likelihood(third_open.model, third_open.windows)
    model, x = third_open.model, torch.tensor([[30.0]], dtype=torch.float64)
    z = np.log(model.theta.detach().numpy())
    bound = likelihood.value_and_gradient(z)[0] + 2.0
    curvature, basis = np.linalg.eigh(likelihood.hessian(z))
    step = basis / np.sqrt(curvature)
    random = np.random.default_rng(0)
    seen = []
    for _ in range(3000):
        there = z + step @ random.normal(size=3) * 10 ** random.uniform(-2, 0.5)
        if likelihood.value_and_gradient(there)[0] <= bound:
            z = there
            theta = torch.from_numpy(np.exp(z))
            with torch.no_grad():
                point = model.at(x, theta)
                seen.append([float(model.measure(name)(point)) for name in found["measure"]])
    low, high = np.min(seen, 0), np.max(seen, 0)
    assert (high / low > 2).all()  # it did wander
    assert (found["low"] <= low * (1 + 1e-5)).all()
    assert (found["high"] >= high * (1 - 1e-5)).all()


def ratio_model(measures=None):
    def rates(load, p):
        return {("up", "down"): p.fail, ("down", "up"): p.repair}

    return M.FromFunction(
        rates,
        states=["up", "down"],
        params={"fail": 1.0, "repair": 1.0},
        measures=measures,
    )


RATIO = st.Windows([1.0] * 3, [[34, 16], [36, 14], [35, 15]], ["up", "down"])


def test_only_a_ratio_is_known():
    found = st.fit(ratio_model(), RATIO).identify(x=[1.0])
    (direction,) = found.directions
    assert direction.weights == pytest.approx({"fail": math.sqrt(0.5), "repair": math.sqrt(0.5)})
    assert direction.curvature == pytest.approx(0.0, abs=1e-8)
    assert (direction.kind, direction.nearly) == (DirectionKind.COMMON_FACTOR, False)
    assert direction.raised == ("fail", "repair")
    assert (found.parameters, found.rank) == (2, 1)
    assert found.determined  # nothing that was asked for hangs on it
    assert found.findings()[0].code == "answers_determined"
    assert found.findings()[0].verdict is Verdict.OK


def test_a_model_without_measures_is_asked_for_its_states():
    found = st.fit(ratio_model({}), RATIO).identify(x=[1.0])
    assert found.ranges["measure"].tolist() == ["p_up", "p_down"]
    assert found.ranges["value"].tolist() == pytest.approx([0.7, 0.3])
    ratio = math.log(0.7 / 0.3)
    spread = np.log(found.ranges["high"] / (1 - found.ranges["high"])) - [ratio, -ratio]
    assert spread.tolist() == pytest.approx([2 / math.sqrt(150 * 0.21)] * 2, rel=0.05)


def test_a_measure_of_either_sign():
    profit = reward(torch.tensor([10.0, -20.0], dtype=torch.float64))
    found = st.fit(ratio_model({"profit": profit}), RATIO).identify(x=[1.0])
    shares = st.fit(ratio_model(), RATIO).identify(x=[1.0]).ranges
    down = shares[shares["measure"] == "p_down"].iloc[0]
    row = found.ranges.iloc[0]
    assert row["value"] == pytest.approx(10.0 - 30.0 * down["value"], rel=1e-6)
    assert row["low"] == pytest.approx(10.0 - 30.0 * down["high"], abs=1e-4)
    assert row["high"] == pytest.approx(10.0 - 30.0 * down["low"], abs=1e-4)
    assert row["low"] < 0 < row["high"]
    assert not row["determined"]


def test_two_inputs_have_their_columns():
    def rates(load, warmth, p):
        wear = p.wear * load * torch.exp(p.heat * warmth)
        return {("up", "down"): wear, ("down", "up"): torch.ones_like(wear)}

    model = M.FromFunction(
        rates,
        states=["up", "down"],
        params={"wear": 0.1, "heat": Param(0.2, positive=False)},
        inputs=["load", "warmth"],
    )
    x = np.random.default_rng(0).uniform(1, 5, size=(20, 2))
    fit = st.fit(model, st.simulate(model, x, duration=30.0, seed=2))
    found = fit.identify(measures=["p_down"])
    heaviest = x[x[:, 0].argmax()]
    assert list(found.ranges) == ["load", "warmth", *COLUMNS[1:]]
    np.testing.assert_allclose(found.ranges["load"], heaviest[0] * np.array([1, 1.25, 1.5, 2]))
    np.testing.assert_allclose(found.ranges["warmth"], heaviest[1])
    assert found.rank == 2
    assert found.determined


def test_a_fit_that_ran_away_says_so():
    windows = st.Windows(LOADS, [[30, 0]] * len(LOADS), [0, 1])
    with pytest.warns(ConvergenceWarning):
        fit = st.fit(M.MMmK(servers=1, capacity=10), windows)
    found = fit.identify(x=[20.0], measures=["loss"])
    # 1500 empty looks and no other: with a ratio r of the two, 1500 log(1 + r) = 2 nats at most.
    ratio = math.expm1(2.0 / (30 * len(LOADS)))  # at one load of about 13
    row = found.ranges.iloc[0]
    assert row["low"] == 0.0
    assert row["high"] == pytest.approx((20.0 / 13.0 * ratio) ** 10, rel=0.2)
    assert not found.determined
    verdicts = [finding.verdict for finding in found.findings()]
    assert verdicts == [Verdict.UNKNOWN, Verdict.UNKNOWN, Verdict.WARNING]
    assert found.findings()[-1].check == "convergence"
    assert not found.converged
    assert "did not converge" in str(found)


def test_the_work_of_a_search_is_bounded(monkeypatch):
    truth = M.StateDependent(depth=3, capacity=10)
    windows = st.simulate(truth, np.tile([0.5, 1.0, 1.5], 20), duration=200.0, seed=0)
    fit = st.fit(M.StateDependent(depth=3, capacity=10), windows)
    assert fit.identify(x=[2.0]).determined
    monkeypatch.setattr("stationary.trust.identifiability.region._MOST_EVALUATIONS", 40)
    found = fit.identify(x=[2.0])
    assert not found.determined
    assert not found.ranges["searched"].any()
    assert {(each.verdict, each.code) for each in found.findings()} == {
        (Verdict.UNKNOWN, "not_searched")
    }
    assert "Whether the data determine all of this is not known" in str(found)
    assert "do not determine" not in str(found)


# Directions.


def open_of(hessian, names, groups):
    model = M.FromFunction(
        lambda load, p: torch.ones(*load.shape[:-1], 2, dtype=torch.float64),
        states=2,
        params=dict.fromkeys(names, 1.0),
        edges=[(0, 1), (1, 0)],
    )
    alone = [np.array([k]) for k in range(len(names))]
    return open_directions(np.array(hessian), model, [*alone, *groups], 1e-4, 0.5)


def test_a_readable_basis_of_a_flat_space():
    # Only a + b - c - d, and e, are seen: of a flat space with four dimensions.
    seen = np.array([1.0, 1.0, -1.0, -1.0, 0.0, 0.0])
    hessian = 100 * np.outer(seen, seen) + np.diag([0, 0, 0, 0, 50.0, 0])
    found = open_of(hessian, "abcdef", [np.arange(6), np.array([0, 2])])
    assert len(found) == 4
    assert not any(direction.nearly for direction in found)
    assert (found[0].kind, found[0].raised) == (DirectionKind.ALONE, ("f",))
    assert found[1].weights == pytest.approx({"a": math.sqrt(0.5), "c": math.sqrt(0.5)})
    assert (found[1].kind, found[1].raised) == (DirectionKind.COMMON_FACTOR, ("a", "c"))
    for direction in found:
        assert direction.vector("abcdef") @ hessian @ direction.vector("abcdef") < 1e-9
    span = np.stack([d.vector("abcdef") for d in found])
    assert np.linalg.matrix_rank(span) == 4


def test_what_is_nearly_flat_is_marked():
    (direction,) = open_of(np.diag([0.2, 30.0]), ("slow", "fast"), [])
    assert (direction.kind, direction.nearly) == (DirectionKind.ALONE, True)
    assert direction.raised == ("slow",)
    assert direction.curvature == pytest.approx(0.2)
    tilted = np.array([1.0, 2.0])
    (direction,) = open_of(30 * np.outer(tilted, tilted) + 0.1 * np.eye(2), ("a", "b"), [])
    assert direction.weights == pytest.approx({"a": 2 / math.sqrt(5), "b": -1 / math.sqrt(5)})
    assert (direction.kind, direction.nearly) == (DirectionKind.COMBINATION, True)
    assert (direction.raised, direction.lowered) == (("a",), ("b",))


def test_all_parameters_together_are_one_direction():
    hessian = np.eye(9) * 50.0 - 50.0 / 9  # all together are free
    (direction,) = open_of(hessian, [f"r{k}" for k in range(9)], [np.arange(9)])
    assert direction.kind is DirectionKind.COMMON_FACTOR
    assert sorted(direction.raised) == [f"r{k}" for k in range(9)]


# Bad input.


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"nats": 0.0}, r"nats .*0\.0"),
        ({"nats": math.inf}, "nats .*inf"),
        ({"dispersion": -1.0}, r"dispersion .*-1\.0"),
        ({"measures": ["lost"]}, "lost.*loss, "),
        ({"measures": []}, r"measures .*loss.*\[\]"),
        ({"x": []}, "x is empty"),
        ({"x": [-3.0]}, "a load must be positive"),
    ],
)
def test_bad_questions_are_refused(light, asked, message):
    with pytest.raises(InputError, match=message):
        light.identify(**asked)
