"""The largest load that meets all SLOs: against closed forms, and what it says of itself."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

import stationary as st
from stationary import words
from stationary.errors import InputError
from stationary.learning.draws import Draws, from_estimate
from stationary.models.measures import Measure
from stationary.planning.limits import Limit, Status, limit
from stationary.terms.slo import Slo, as_slos
from stationary.terms.trust import Doubt, Reason

M = st.models
LOADS = np.tile(np.arange(8.0, 21.0, 2.0), 6)
CAPACITY = 10


def simulated(unit=1.0, seed=0):
    truth = M.MMmK(servers=1, capacity=CAPACITY, service_rate=25.0)
    windows = st.simulate(truth, LOADS, duration=10.0, seed=seed).observing([0, 1, 2])
    return st.Windows(unit * windows.x, windows.counts, windows.observe)


@pytest.fixture(scope="module")
def fit():
    return st.fit(M.MMmK(servers=1, capacity=CAPACITY), simulated())


def crossing(rate, measure, bound):
    """Load at which a measure of M/M/1/K, from its geometric weights, reaches a bound."""

    def excess(load):
        weight = (load / rate) ** np.arange(CAPACITY + 1)
        pi = weight / weight.sum()
        queue = pi @ np.arange(CAPACITY + 1)
        return {
            "loss": pi[-1],
            "mean_queue": queue,
            "response_time": queue / (load * (1 - pi[-1])),
            "utilisation": 1 - pi[0],
        }[measure] - bound

    return scipy.optimize.brentq(excess, 1e-6, 1e4, xtol=1e-12)


CASES = [
    ("loss", 1e-6),
    ("loss", 0.5),
    ("mean_queue", 3.0),
    ("response_time", 0.1),
    ("utilisation", 0.7),
]


@pytest.mark.parametrize(("measure", "bound"), CASES)
def test_it_is_that_of_the_closed_form_and_of_the_forecast(fit, measure, bound):
    found = fit.max_load(**{measure: bound})
    rate = fit.estimates["service_rate"]
    assert found.load == pytest.approx(crossing(rate, measure, bound), rel=1e-7)
    each = [crossing(r, measure, bound) for r in fit.draws.parts[0].theta[:, 0].tolist()]
    ends = np.quantile(each, [0.025, 0.975], method="hazen")
    assert (found.low, found.high) == pytest.approx(ends, rel=1e-7)
    assert (found.binding, found.level, found.failed) == (Slo(measure, bound), 0.95, 0)
    beyond = Doubt(Reason.HORIZON, horizon=fit.horizon)
    assert found.doubt == (beyond if found.load > fit.horizon.load else None)
    # Quantiles of loads and of measures interpolate between the same two draws.
    frame = fit.forecast([found.low, found.load, found.high], measures=[measure])
    assert frame[measure][1] == pytest.approx(bound, rel=1e-6)
    assert frame[f"{measure}_high"][0] == pytest.approx(bound, rel=1e-4)
    assert frame[f"{measure}_low"][2] == pytest.approx(bound, rel=1e-4)


@pytest.mark.parametrize("near", [1e-2, 1.0, 1e4])
def test_it_does_not_matter_where_the_search_starts(fit, near):
    found, usual = (limit(fit.draws, [Slo("loss", 0.01)], start) for start in (near, 20.0))
    assert (found.low, found.load, found.high) == pytest.approx(
        (usual.low, usual.load, usual.high), rel=1e-7
    )


def test_a_higher_level_gives_a_wider_limit(fit):
    narrow, wide = (fit.max_load(level=level, loss=0.01) for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.load == wide.load < narrow.high < wide.high


# Several.


def test_of_several_the_tightest_binds(fit):
    slos = as_slos(["loss<0.1%", "response_time<150ms", "utilisation<95%"])
    alone = {slo.measure: limit(fit.draws, [slo], 20.0) for slo in slos}
    found = limit(fit.draws, slos, 20.0)
    first = min(alone, key=lambda name: alone[name].load)
    assert (found.binding.measure, found.slos) == (first, slos)
    assert found.load == pytest.approx(alone[first].load, rel=1e-7)
    # Each draw has its own tightest: the ends are no higher than those of any alone.
    assert found.low <= min(each.low for each in alone.values()) * (1 + 1e-9)
    assert found.high <= min(each.high for each in alone.values()) * (1 + 1e-9)


def test_the_order_of_slos_and_those_that_always_hold_do_not_matter(fit):
    one = fit.max_load("loss<0.1%", "response_time<150ms")
    assert one == fit.max_load(loss=0.001, response_time=0.15)
    turned = fit.max_load("response_time<150ms", "loss<0.1%")
    assert replace(turned, slos=one.slos) == one
    alone, both = fit.max_load(loss=0.01), fit.max_load(loss=0.01, response_time=1.0)
    assert both.binding == Slo("loss", 0.01)
    assert both.load == pytest.approx(alone.load, rel=1e-7)


def test_a_pool_has_the_median_of_all_draws():
    models = {"mmmk": M.MMmK(capacity=CAPACITY), "slowing": M.Slowing(1, CAPACITY)}
    pool = st.compare(models, simulated(), starts=1, jobs=1).having(discrepancy=None)
    found = pool.max_load(loss=0.01, mean_queue=2.0)
    assert found.low < found.load < found.high
    tightest = min(pool.max_load(loss=0.01).load, pool.max_load(mean_queue=2.0).load)
    assert found.load == pytest.approx(tightest, rel=1e-3)
    assert found.binding in found.slos


# None, all, and what cannot be.


def test_any_load_and_no_load(fit):
    for bound, status, load in ((1.0, Status.ANY_LOAD, math.inf), (1e-6, Status.NO_LOAD, 0.0)):
        found = fit.max_load(response_time=bound)
        assert (found.low, found.load, found.high) == (load,) * 3
        assert found.status is status
        assert f"at {status}" in words.limit(found)
    assert fit.max_load(response_time=1.0).doubt.horizon == fit.horizon  # about untested loads
    assert fit.max_load(loss=0.01).status is Status.FOUND
    assert fit.max_load(loss=0.01, response_time=1e-6).status is Status.NO_LOAD


def test_no_load_breaks_a_percentile_above_that_of_a_full_system():
    truth = M.MMmK(servers=1, capacity=4, service_rate=25.0, discipline="ps")
    windows = st.simulate(truth, LOADS, duration=10.0, seed=0)
    shared = st.fit(M.MMmK(servers=1, capacity=4, discipline="ps"), windows)
    full = shared.forecast([2e3], measures=["p99"])["p99_high"][0]
    assert shared.max_load(p99=1.1 * full).status is Status.ANY_LOAD
    assert shared.max_load(p99=0.9 * full, loss=0.1).status is Status.FOUND


def test_some_draws_without_a_limit_leave_an_end_open(fit):
    most = CAPACITY / fit.estimates["service_rate"]  # response time of a full system
    found = fit.max_load(response_time=most * 1.001)
    assert found.load == found.high == math.inf
    assert math.isfinite(found.low)
    assert not found.trusted


def measuring(fit, function):
    """A fit of a model with a measure of its own."""

    class Own(M.MMmK):
        name = ""
        measures = ("own",)

        def measure(self, name):
            return Measure(function, 0.0, 1.0) if name == "own" else super().measure(name)

    return st.fit(Own(servers=1, capacity=CAPACITY), fit.windows)


def test_a_measure_that_falls_has_no_largest_load(fit):
    own = measuring(fit, lambda point: point.pi[..., 0])  # idle
    for bound in (0.1, 0.5, 0.9):
        with pytest.raises(InputError, match=r"own falls as the load grows.*forecast"):
            own.max_load(own=bound)


@pytest.mark.parametrize("near", [10.0, 20.0, 1e3])
def test_of_a_measure_that_rises_and_falls_it_is_the_first_crossing(fit, near):
    own = measuring(fit, lambda point: point.pi[..., 1])  # rarely one at light and at heavy load
    found = limit(own.draws, [Slo("own", 0.1)], near)
    assert found.low < found.load < found.high < 10
    assert found.met_again
    assert own.forecast([found.load])["own"][0] == pytest.approx(0.1, rel=1e-6)
    assert "heavier loads meet it again" in words.limit(found)
    assert limit(own.draws, [Slo("own", 0.5)], near).status is Status.ANY_LOAD


def test_of_a_measure_that_falls_and_rises_it_is_the_crossing_at_heavy_load(fit):
    own = measuring(fit, lambda point: point.pi[..., 0] + point.pi[..., -1])  # idle or full
    found = own.max_load(own=0.5)
    assert 25 < found.low < found.load < found.high
    assert own.forecast([found.load])["own"][0] == pytest.approx(0.5, rel=1e-6)
    assert not found.met_again


def test_the_unit_of_time_does_not_matter(fit):
    # The same data by the minute: rates and loads are sixty times, times a sixtieth.
    minute = st.fit(M.MMmK(servers=1, capacity=CAPACITY), simulated(unit=60.0))
    for name, bound, unit in (
        ("loss", 0.01, 1),
        ("mean_queue", 3.0, 1),
        ("response_time", 0.1, 60),
    ):
        one, other = fit.max_load(**{name: bound}), minute.max_load(**{name: bound / unit})
        for end in ("low", "load", "high"):
            assert getattr(other, end) == pytest.approx(60 * getattr(one, end), rel=1e-6)


def test_equal_draws_make_no_interval(fit):
    part = from_estimate(fit.estimate)
    sure = replace(part, theta=fit.estimate.theta[None].expand(len(part.theta), -1))
    found = limit(Draws((sure,)), [Slo("loss", 0.01)], 20.0)
    assert (found.low, found.high) == pytest.approx((found.load,) * 2, rel=1e-8)


BAD = [
    ((), {"los": 0.1}, "'los'; did you mean 'loss'"),
    ((), {"loss": 0.0}, "loss must lie between 0 and 1; got 0.0"),
    ((), {"loss": 1.0}, "got 1.0"),
    ((), {"loss": math.nan}, "got nan"),
    ((), {"mean_queue": 11.0}, "between 0 and 10; got 11"),
    ((), {}, r"as in loss=0.001"),
    (("loss<1%",), {"loss": 0.1}, "loss has two bounds"),
    (("mean_queue<1%",), {}, "mean_queue is not a share"),
    (("loss<1ms",), {}, "loss is not a time"),
    *(((), {"loss": 0.01, "present": p}, "present load .*got") for p in (0.0, -1.0, math.inf)),
]


@pytest.mark.parametrize(("slos", "bounds", "said"), BAD)
def test_bad_bounds_are_refused(fit, slos, bounds, said):
    with pytest.raises(InputError, match=said):
        fit.max_load(*slos, **bounds)


def test_a_limit_needs_a_model_of_one_input():
    def rates(load, warmth, p):
        return {(0, 1): load * warmth, (1, 0): p.service}

    inputs = {"states": 2, "params": {"service": 10.0}, "inputs": ["load", "warmth"]}
    model = M.FromFunction(rates, **inputs)
    x = np.random.default_rng(0).uniform(1, 5, size=(20, 2))
    fit = st.fit(model, st.simulate(model, x, duration=10.0, seed=2))
    with pytest.raises(InputError, match="one input; this one has load, warmth"):
        fit.max_load(p_1=0.1)


# What it says.


def made(measure, bound, *given):
    slo = Slo(measure, bound)
    return Limit((slo,), slo, *given)


def test_a_limit_reads_as_a_sentence():
    sure = made("mean_queue", 3.0, 18.551, 16.26, math.inf, 0.999)
    text = "mean queue < 3 holds up to 18.6 (99.9% interval 16.3 to any)"
    assert words.limit(sure) == text
    unsure = replace(sure, doubt=Doubt(Reason.NOT_CONVERGED))
    assert words.limit(unsure) == f"{text}; not to be trusted: the fit did not converge"
    assert (sure.trusted, unsure.trusted) == (True, False)


def test_headroom_is_over_the_heaviest_load_unless_the_present_one_is_given(fit):
    found = fit.max_load(loss=0.01)
    assert found.present == LOADS.max()
    assert found.headroom == pytest.approx(found.load / LOADS.max() - 1)
    for present in (1.0, 18.0, 100.0):  # which does not move the limit
        given = fit.max_load(loss=0.01, present=present)
        assert given == replace(found, present=present, present_given=True)


def test_a_limit_that_is_not_trusted_vouches_below_its_interval_only():
    sure = made("loss", 0.001, 20.0, 10.0, 300.0, 0.95)
    unsure = replace(sure, doubt=Doubt(Reason.OPEN))
    assert [sure.met_at(x) for x in (9.0, 10.0, 15.0, 20.0, 21.0)] == [True] * 4 + [False]
    assert [unsure.met_at(x) for x in (9.0, 10.0, 15.0, 20.0)] == [True, True, False, False]
    assert not replace(unsure, tested=0.0).met_at(9.0)  # the data contradict the model
    assert not replace(unsure, load=math.inf, low=0.0, high=math.inf).met_at(1e-3)
