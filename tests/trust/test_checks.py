"""Checks of a fit: each warns of data with exactly that flaw, and not of right data."""

import json
import warnings
from collections import Counter

import numpy as np
import pytest
import scipy.stats
import torch

import stationary as st
from stationary import words
from stationary.errors import ConvergenceWarning
from stationary.learning.likelihood import Likelihood
from stationary.paper.testbed import read_recording
from stationary.terms.findings import Verdict
from stationary.trust.checks import Residuals, diagnose, residuals, shares_by_load
from stationary.trust.checks._case import Case
from stationary.trust.checks._rank_tests import association, smooth
from stationary.trust.checks.lack_of_fit import load_groups
from stationary.trust.checks.serial_correlation import block_length
from stationary.trust.checks.service_rate import implied_steps
from stationary.trust.checks.steady_state import slowest

M = st.models
OK, WARNING, UNKNOWN = Verdict.OK, Verdict.WARNING, Verdict.UNKNOWN
CHECKS = [
    *("bursts", "drift", "hysteresis", "lack of fit", "overtaking", "serial correlation"),
    *("servers", "service rate", "steady state"),
]
MIXED = np.random.default_rng(1000).permutation(np.repeat(np.arange(11.0, 16.0), 10))
WIDE = np.random.default_rng(1001).permutation(np.repeat([4.0, 6.0, 8.0, 10.0, 12.0, 14.0], 10))
TRUTH = M.MMmK(servers=1, capacity=20, service_rate=25.0)


def fitted(windows, model=None):
    with warnings.catch_warnings():
        # One start may stop at 1e-8 nats per count, which is near enough for any check.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return st.fit(model or M.MMmK(servers=1, capacity=20), windows, method=st.Newton(starts=1))


def case_of(fit):
    return Case(fit.estimate, fit.windows)


def checked(windows, model=None):
    fit = fitted(windows, model)
    return {finding.check: finding for finding in diagnose(fit.estimate, fit.windows)}


def ended(windows, check, model=None):
    """How one check ends: the verdict and the code."""
    finding = checked(windows, model)[check]
    return finding.verdict, finding.code


def warned(windows, model=None):
    return {name for name, found in checked(windows, model).items() if found.verdict is WARNING}


def paper_windows(seed):
    """The paper's M/M/1/K: Algorithm 1, windows of one second, states 0 and 1 observed."""
    scheme = st.simulation.Events(gamma=(MIXED + 65).tolist())
    windows = st.simulate(TRUTH, MIXED, duration=1.0, seed=seed, scheme=scheme)
    return windows.select((windows.counts[:, :2].sum(-1) > 0).numpy()).observing([0, 1])


def arriving(seed):
    return st.simulate(TRUTH, MIXED, duration=1.0, seed=seed, scheme=st.simulation.Arrivals())


def one_run(loads, length, seed, looks=50):
    """Windows cut from one trajectory, in which the state is carried over."""
    rng, state, counts = np.random.default_rng(seed), 0, []
    for load in loads:
        path = st.simulation.trajectory(TRUTH, load, duration=length, seed=rng, start=state)
        counts.append(np.bincount(path.at(np.linspace(0, length, looks)), minlength=21))
        state = int(path.states[-1])
    return st.Windows(loads, counts, range(21), duration=length)


# Right data.


@pytest.mark.slow
@pytest.mark.parametrize("draw", [paper_windows, arriving])
def test_right_data_is_rarely_warned_of(draw):
    hits, sets = Counter(), 200
    for seed in range(sets):
        hits.update(warned(draw(seed)))
    # A window of one second is 1.3 relaxation times at load 15, which is a fact and no chance.
    assert hits.pop("steady state") > 0.9 * sets
    assert all(count <= 0.03 * sets for count in hits.values()), hits


def test_long_windows_of_the_right_model_pass_every_check():
    windows = st.simulate(TRUTH, WIDE, duration=20.0, seed=0, scheme=st.simulation.Arrivals())
    found = {name: each.verdict for name, each in checked(windows).items()}
    # These two read service times, which counts do not have.
    assert {found.pop(name) for name in ("overtaking", "servers")} == {UNKNOWN}
    assert found == dict.fromkeys([name for name in CHECKS if name in found], OK)


# Each flaw.


def test_windows_shorter_than_the_system_remembers():
    finding = checked(st.simulate(TRUTH, MIXED, duration=0.05, seed=0))["steady state"]
    assert (finding.verdict, finding.code) == (WARNING, "too_short")
    facts = finding.facts
    assert facts["duration"] == 0.05
    assert facts["times"] == pytest.approx(0.05 / facts["relaxation"])
    assert facts["enough"] == pytest.approx(10 * facts["relaxation"])


@pytest.mark.parametrize(
    "model", [M.MMmK(1, 20, 25.0), M.ErlangService(3, 8, 25.0), M.MultiDiagonal(1, 8)]
)
def test_the_relaxation_time_is_that_of_the_slowest_eigenvalue(model):
    fit = fitted(st.simulate(model, MIXED, duration=2.0, seed=0), model)
    slow = {}
    for load in (11.0, 12.0, 13.0, 14.0, 15.0):
        Q = fit.model([load]).dense()[0].detach().numpy()
        slow[load] = -1 / np.sort(np.linalg.eigvals(Q).real)[-2]
    load, time = slowest(case_of(fit))
    assert load == max(slow, key=slow.get)
    assert time == pytest.approx(slow[load], rel=1e-3)


def test_arrivals_tell_how_long_a_window_was():
    windows = st.simulate(TRUTH, WIDE, duration=7.0, seed=0, scheme=st.simulation.Arrivals())
    unsaid = st.Windows(windows.x, windows.counts, windows.observe, "arrival").observing([0, 1, 2])
    facts = checked(unsaid)["steady state"].facts
    assert facts["estimated"]
    assert facts["duration"] == pytest.approx(7.0, rel=0.05)
    by_the_clock = st.Windows(windows.x, windows.counts, windows.observe, "time")
    assert ended(by_the_clock, "steady state") == (UNKNOWN, "duration_unknown")


def test_a_server_that_tires():
    counts = [
        st.simulate(M.MMmK(1, 20, rate), [load], duration=10.0, seed=k).counts[0].numpy()
        for k, (load, rate) in enumerate(zip(MIXED, np.linspace(27, 20, 50), strict=True))
    ]
    finding = checked(st.Windows(MIXED, counts, range(21), duration=10.0))["drift"]
    assert (finding.verdict, finding.code) == (WARNING, "drifted")
    assert (finding.facts["more"], finding.facts["unit"]) == (True, "requests")
    assert 0.1 < finding.facts["size"] < 3.0
    back = checked(st.Windows(MIXED[::-1], counts[::-1], range(21), duration=10.0))["drift"]
    assert (back.code, back.facts["more"]) == ("drifted", False)
    order = np.argsort(MIXED)
    by_load = st.Windows(MIXED[order], np.array(counts)[order], range(21), duration=10.0)
    assert ended(by_load, "drift") == (UNKNOWN, "ordered_by_load")


def test_windows_cut_from_one_run_resemble_one_another():
    found = checked(one_run([15.0] * 150, 0.3, seed=0))
    serial = found["serial correlation"]
    assert (serial.verdict, serial.code) == (WARNING, "correlated")
    rho = serial.facts["autocorrelation"]
    assert 0.2 < rho < 1.0
    assert serial.facts["block"] == block_length(rho, 150)
    assert found["drift"].verdict is OK  # though neighbours agree
    shuffled = one_run([15.0] * 150, 0.3, seed=0).select(np.random.default_rng(0).permutation(150))
    assert ended(shuffled, "serial correlation") == (OK, "uncorrelated")


@pytest.mark.slow
def test_a_run_without_trend_is_not_said_to_drift():
    assert sum("drift" in warned(one_run([15.0] * 80, 0.5, seed, 20)) for seed in range(30)) <= 2


def test_blocks_are_as_long_as_theory_says():
    # Politis and White's 2 G^2 / D for R(k) = rho^|k|, by sums.
    k = np.arange(-2000, 2001)
    for rho in (0.3, 0.6):
        R = rho ** np.abs(k)
        best = (2 * (np.abs(k) * R).sum() ** 2 / (4 / 3 * R.sum() ** 2) * 1000) ** (1 / 3)
        assert block_length(rho, 1000) == np.ceil(best)
    assert block_length(1.0, 40) == 10
    assert block_length(0.0, 40) == 2


@pytest.mark.slow
def test_windows_that_remember_the_load_before():
    carried, fresh = [], []
    for seed in range(12):
        loads = np.random.default_rng(1000 + seed).choice([10.0, 22.0], 120)
        carried.append(checked(one_run(loads, 2.0, seed, looks=20))["hysteresis"])
        own = st.simulate(TRUTH, loads, duration=2.0, seed=seed)
        fresh.append(checked(own)["hysteresis"])
    alarms = [finding for finding in carried if finding.verdict is WARNING]
    assert len(alarms) >= 8  # nine in ten were seen over many seeds
    assert {finding.code for finding in alarms} == {"remembers"}
    assert not any(finding.facts["more"] for finding in alarms)
    assert sum(finding.verdict is WARNING for finding in fresh) <= 1
    by_load = one_run(np.sort(loads), 2.0, seed=0, looks=20)
    finding = checked(by_load)["hysteresis"]
    assert (finding.verdict, finding.code) == (UNKNOWN, "few_moves")
    assert (finding.facts["rises"], finding.facts["falls"]) == (1, 0)


@pytest.mark.parametrize(
    ("model", "loads"),
    [(M.BatchArrivals(1, 20, 25.0, 2.0), WIDE / 3), (M.OnOffArrivals(1, 20, 25.0, 3.0, 3.0), WIDE)],
    ids=["batches", "on and off"],
)
def test_arrivals_in_bursts(model, loads):
    windows = st.simulate(model, loads, duration=20.0, seed=0).observing(range(8))
    finding = checked(windows)["bursts"]
    assert (finding.verdict, finding.code) == (WARNING, "long_queues")
    (part,) = finding.facts["parts"]
    assert part["code"] == "long_queues"
    assert part["observed"] > 1.5 * part["expected"]
    assert part["arrives_alone"]
    assert "bursts" not in warned(windows, model)


@pytest.mark.parametrize(
    ("totals", "verdict", "code"),
    [
        (
            lambda rng, mean: rng.poisson(mean * rng.gamma(4, 1 / 4, len(mean))),
            WARNING,
            "totals_vary",
        ),
        (lambda rng, mean: rng.poisson(mean), OK, "totals_poisson"),
        (lambda rng, mean: mean.round().astype(int), OK, "load_counted"),
    ],
    ids=["bursts", "Poisson", "counted"],
)
def test_totals_that_vary_more_than_poisson_ones(totals, verdict, code):
    rng = np.random.default_rng(0)
    counts = rng.multinomial(totals(rng, 20 * WIDE), TRUTH.closed_form(WIDE).numpy())
    finding = checked(st.Windows(WIDE, counts, range(21), "arrival", duration=20.0))["bursts"]
    assert (finding.verdict, finding.code) == (verdict, code)
    # What is calm is said of both parts, an alarm alone.
    said = [code] if verdict is WARNING else [code, "usual_queues"]
    assert [part["code"] for part in finding.facts["parts"]] == said


def test_a_service_rate_that_grows_with_load():
    truth = M.Slowing(servers=1, capacity=20, service_rate=12.0, slowdown=-0.5)
    windows = st.simulate(truth, WIDE, duration=20.0, seed=0).observing([0, 1, 2, 3])
    finding = checked(windows)["service rate"]
    assert (finding.verdict, finding.code) == (WARNING, "rate_changes")
    assert finding.facts["parameter"] == "service_rate"
    assert finding.facts["relative"]
    assert 0.05 < finding.facts["change"] < 5.0
    assert "service rate" not in warned(windows, M.Slowing(servers=1, capacity=20))


def test_implied_steps_are_what_refits_to_single_windows_say():
    truth = M.Slowing(servers=1, capacity=20, service_rate=24.0, slowdown=-0.03)
    fit = fitted(st.simulate(truth, WIDE[:20], duration=2000.0, seed=0).observing(range(4)))
    steps, information = implied_steps(case_of(fit), np.ones(1))
    alone = [fitted(fit.windows.select([k])) for k in range(20)]
    refits = np.log(
        [one.estimates["service_rate"] / fit.estimates["service_rate"] for one in alone]
    )
    np.testing.assert_allclose(steps, refits, atol=0.1 * np.abs(refits).max())
    z = np.log([fit.estimates["service_rate"]])
    assert information.sum() == pytest.approx(
        Likelihood(fit.model, fit.windows).hessian(z)[0, 0], rel=0.02
    )


def test_steady_service_does_not_look_like_exponential_service():
    windows = st.simulate(M.ErlangService(8, 20, 25.0), MIXED, duration=20.0, seed=0)
    finding = checked(windows.observing(range(6)))["lack of fit"]
    assert (finding.verdict, finding.code) == (WARNING, "misfit")
    assert abs(finding.facts["observed"] - finding.facts["predicted"]) > 0.01
    assert finding.facts["category"] in {"0", "1", "2", "3", "4", "5"}
    right = M.ErlangService(phases=8, capacity=20)
    assert ended(windows.observing(range(6)), "lack of fit", right) == (OK, "fits")


def test_the_papers_recording(recording_file):
    fit = st.fit(M.MMmK(servers=1, capacity=21), read_recording(recording_file).light)
    found = {each.check: each for each in diagnose(fit.estimate, fit.windows)}
    bad = {name for name, each in found.items() if each.verdict is WARNING}
    assert bad == {"bursts", "service rate", "lack of fit"}
    parts = {part["code"]: part for part in found["bursts"].facts["parts"]}
    assert parts["long_queues"]["sampling"] == "arrival"
    assert parts["long_queues"]["arrives_alone"]


# Where the data does not say enough.


@pytest.mark.parametrize(
    "windows",
    [
        st.Windows([3.0], [[5, 2]], [0, 1]),
        st.Windows([3.0] * 7, [[5, 2]] * 7, [0, 1]),
        st.Windows([3.0] * 9, [[5, 2]] * 9, [0, 1]),
        st.Windows([3.0, 4.0] * 5, [[5, 2]] * 10, [0, 1]),
        st.Windows(np.arange(1.0, 10.0), [[9, 1, 1]] * 9, [0, 1, (2, 3)], "arrival"),
        st.Windows([3.0] * 19 + [4.0], [[5, 2, 0], [4, 3, 1]] * 10, [0, 1, 2], duration=1.0),
        st.Windows(np.arange(1.0, 21.0), np.eye(2)[[0, 1] * 10], [0, 5]),
    ],
    ids=["one", "seven", "one load", "two loads", "lumped", "one apart", "single counts"],
)
@pytest.mark.parametrize("model", [M.MMmK(1, 20), M.UpperTriangular(6), M.MultiDiagonal(2, 8)])
def test_little_data_is_no_error(windows, model):
    found = list(checked(windows, model).values())
    assert [finding.check for finding in found] == CHECKS
    for finding in found:
        json.dumps(dict(finding.facts), allow_nan=False)  # facts are saved
        said = words.finding(finding)
        assert said.endswith(".")
        assert not {"nan", "inf", "None", "unknown"} & set(said.split())
    if len(windows) < 8:
        assert {finding.verdict for finding in found} == {UNKNOWN}


def test_models_that_are_no_queues_and_models_with_phases():
    def rates(load, p):
        return {
            ("idle", "busy"): load * p.use,
            ("busy", "broken"): p.mend,
            ("broken", "idle"): p.wear,
        }

    machine = M.FromFunction(
        rates,
        states=["idle", "busy", "broken"],
        params={"use": 1.0, "mend": 2.0, "wear": 0.5},
    )
    windows = st.simulate(machine, np.tile([-2.0, 1.0, 4.0], 8) + 3.0, duration=50.0, seed=0)
    found = checked(windows, machine)
    assert (found["bursts"].verdict, found["bursts"].code) == (UNKNOWN, "not_a_queue")
    assert found["service rate"].verdict is OK
    for model in (M.ErlangService(2, 5, 25.0), M.HyperexponentialService(5, 25.0)):
        assert not warned(st.simulate(model, MIXED, duration=20.0, seed=0), model) - {
            "steady state"
        }


def test_windows_that_counted_no_states_are_left_out():
    """Windows may have seen other things, such as latencies, and no state."""
    fit = fitted(arriving(0))
    estimate = fit.estimate

    class Pings(st.Counts):
        """Another kind, which sees no state."""

        columns = ("answered", "lost")

        def on(self, model):
            return self

        def probabilities(self, point):
            return torch.cat([1 - point.pi[..., -1:], point.pi[..., -1:]], -1)

    def beside(counts, duration):
        states = st.States(counts, fit.windows.observe, fit.windows.sampling)
        pings = Pings(np.tile([50, 1], (len(counts), 1)))
        return st.Windows(fit.windows.x, observations=[states, pings], duration=duration)

    some = fit.windows.counts.clone()
    some[::7] = 0
    seconds = torch.linspace(0.5, 1.5, len(fit.windows), dtype=torch.float64)
    mixed = beside(some, seconds)
    kept = Residuals.of(estimate, mixed)
    assert kept.position.tolist() == [k for k in range(50) if k % 7]
    assert kept.duration.tolist() == seconds[kept.position].tolist()
    found = diagnose(estimate, mixed)
    assert [finding.check for finding in found] == CHECKS
    assert found[-1].facts["duration"] == pytest.approx(1.0)  # the median
    *others, steady = diagnose(estimate, beside(torch.zeros_like(some), seconds))
    assert (steady.check, steady.code) == ("steady state", "too_short")
    assert {(finding.verdict, finding.code) for finding in others} == {
        (UNKNOWN, "no_states"),
        (UNKNOWN, "no_requests"),
    }


def test_pooled_windows_cannot_be_checked():
    fit = fitted(arriving(0))
    found = diagnose(fit.estimate, fit.windows.pooled())
    assert [finding.check for finding in found] == CHECKS
    assert {(finding.verdict, finding.code) for finding in found} == {(UNKNOWN, "pooled")}
    assert found[0].facts == {"recorded": 50}


# What the checks are made of.


def test_the_table_of_residuals():
    windows = st.Windows([2.0, 4.0], [[6, 4], [1, 1]], [0, 1])
    fit = fitted(windows, M.MMmK(1, 1, 5.0))
    mu = fit.estimates["service_rate"]
    frame = residuals(fit.estimate, fit.windows)
    assert frame["position"].tolist() == [0, 0, 1, 1]
    assert frame["load"].tolist() == [2, 2, 4, 4]
    assert frame["category"].tolist() == ["0", "1", "0", "1"]
    np.testing.assert_allclose(frame["observed"], [0.6, 0.4, 0.5, 0.5])
    np.testing.assert_allclose(
        frame["predicted"], [mu / (mu + 2), 2 / (mu + 2), mu / (mu + 4), 4 / (mu + 4)]
    )
    by_sign = np.sign(frame["observed"] - frame["predicted"])
    np.testing.assert_array_equal(np.sign(frame["standardised"]), by_sign)


def test_standardised_residuals_have_the_spread_of_the_windows():
    fit = fitted(st.simulate(TRUTH, MIXED, duration=5.0, seed=3))
    frame = residuals(fit.estimate, fit.windows)
    common = frame[frame["predicted"] > 0.1].groupby("category")["standardised"].std()
    assert common.between(0.7, 1.3).all()
    never = frame[frame["category"] == "20"]
    assert (never["observed"] == 0).all()
    assert never["standardised"].abs().max() < 0.5  # it was not seen, as was to be expected


def test_shares_pooled_by_load():
    fit = fitted(arriving(0))
    table = shares_by_load(case_of(fit).residuals)
    groups = [fit.windows.between(low, low) for low in (11.0, 12.0, 13.0, 14.0, 15.0)]
    for k, group in enumerate(groups):
        part = table[table["group"] == k]
        share = group.counts.sum(0) / group.counts.sum()
        np.testing.assert_allclose(part["observed"], share)
        pi = fit.model.closed_form(group.loads[:1])[0].detach()
        np.testing.assert_allclose(part["predicted"], pi, rtol=1e-9)
        # The error of a ratio over windows, for a category that is often seen.
        counts, totals = group.counts[:, 0], group.counts.sum(-1)
        left = counts - totals * share[0]
        by_hand = (left.square().sum() * 10 / 9).sqrt() / totals.sum()
        assert part["stderr"].iloc[0] >= by_hand - 1e-12


@pytest.mark.parametrize(
    ("loads", "sizes"),
    [
        (np.arange(40.0), [8, 8, 8, 8, 8]),
        (np.repeat([1.0, 2.0], 20), [20, 20]),
        (np.full(30, 3.0), [30]),
        (np.array([1.0] * 36 + [2.0, 3.0, 4.0, 5.0]), [40]),
    ],
)
def test_groups_of_load(loads, sizes):
    order = np.random.default_rng(0).permutation(len(loads))
    groups = load_groups(loads[order])
    assert [len(rows) for rows in groups] == sizes
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(loads)))
    tops = [loads[order][rows].max() for rows in groups]
    assert all(top < loads[order][rows].min() for top, rows in zip(tops, groups[1:], strict=False))


def test_the_rank_test_is_a_rank_test():
    rng = np.random.default_rng(0)
    flat, x = smooth(np.ones((200, 1))), rng.normal(size=200)
    y = np.exp(3 * (0.15 * x + rng.normal(size=200)))  # ranks do not mind
    ours = association(y, scipy.stats.rankdata(x), flat).p_value
    assert np.log(ours) == pytest.approx(np.log(scipy.stats.spearmanr(x, y).pvalue), abs=0.5)


def test_the_rank_test_keeps_its_level_on_correlated_noise():
    rng, position, hits = np.random.default_rng(0), np.arange(100.0), 0
    flat = smooth(np.ones((100, 1)))
    for _ in range(300):
        noise = scipy.signal.lfilter([1.0], [1.0, -0.5], rng.normal(size=200))[100:]
        hits += association(noise, position, flat).p_value < 0.05
    assert hits <= 0.1 * 300  # independent noise assumed, it would be a quarter


def test_what_is_counted_orders_the_categories():
    # The states are in the order of the servers that are up, the counts are of requests.
    model = M.RuleModel(
        {"down": (0, 2), "n": (0, 4)},
        {
            "arrive": "n < 4 -> n += 1 else lost at load",
            "serve": "n > 0 -> n -= 1 at mu * (3 - down)",
            "fail": "down < 2 and n > 1 -> down += 1 at 1",
            "mend": "down > 0 and n < 4 -> down -= 1 at 1",
        },
        {"mu": 2.0},
        count="4 - n",
    )
    windows = st.simulate(model, [2.0, 3.0, 4.0] * 8, duration=20.0, seed=3)
    found = case_of(fitted(windows, model)).residuals
    assert found.labels == ("0", "1", "2", "3", "4")
    assert found.depth.tolist() == [0, 1, 2, 3, 4]
    assert found.unit == "categories"
