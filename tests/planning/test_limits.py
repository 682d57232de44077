"""The largest load that meets all SLOs: against closed forms, and what it says of itself."""

import math

import numpy as np
import pytest
import scipy.optimize
import torch

import stationary as st
from stationary.errors import InputError
from stationary.learning.draws import Draws, from_estimate
from stationary.models.measures import Measure
from stationary.planning.limits import Status, limit
from stationary.terms.slo import Slo, as_slos

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


def closed_form(load, rate, measure):
    """Measures of M/M/1/K from its geometric weights, without a chain."""
    weight = (load / rate) ** np.arange(CAPACITY + 1)
    pi = weight / weight.sum()
    queue = pi @ np.arange(CAPACITY + 1)
    return {
        "loss": pi[-1],
        "mean_queue": queue,
        "response_time": queue / (load * (1 - pi[-1])),
        "utilisation": 1 - pi[0],
    }[measure]


def crossing(rate, measure, bound):
    return scipy.optimize.brentq(
        lambda load: closed_form(load, rate, measure) - bound, 1e-6, 1e4, xtol=1e-12
    )


CASES = [
    ("loss", 1e-6),
    ("loss", 0.001),
    ("loss", 0.5),
    ("mean_queue", 3.0),
    ("response_time", 0.1),
    ("utilisation", 0.7),
]


@pytest.mark.parametrize(("measure", "bound"), CASES)
def test_it_is_that_of_the_closed_form(fit, measure, bound):
    found = limit(fit.draws, [Slo(measure, bound)], 20.0)
    rate = fit.estimates["service_rate"]
    assert found.load == pytest.approx(crossing(rate, measure, bound), rel=1e-7)
    each = [crossing(r, measure, bound) for r in fit.draws.parts[0].theta[:, 0].tolist()]
    ends = np.quantile(each, [0.025, 0.975], method="hazen")
    assert (found.low, found.high) == pytest.approx(ends, rel=1e-7)
    assert found.failed == 0


@pytest.mark.parametrize(("measure", "bound"), CASES)
def test_the_forecast_crosses_the_bound_there(fit, measure, bound):
    found = fit.max_load(**{measure: bound})
    frame = fit.forecast([found.low, found.load, found.high], measures=[measure])
    assert frame[measure][1] == pytest.approx(bound, rel=1e-6)
    assert frame[f"{measure}_high"][0] == pytest.approx(bound, rel=1e-4)
    assert frame[f"{measure}_low"][2] == pytest.approx(bound, rel=1e-4)


@pytest.mark.parametrize("near", [1e-2, 1.0, 20.0, 1e4])
def test_it_does_not_matter_where_the_search_starts(fit, near):
    found, usual = (limit(fit.draws, [Slo("loss", 0.01)], start) for start in (near, 20.0))
    assert (found.low, found.load, found.high) == pytest.approx(
        (usual.low, usual.load, usual.high), rel=1e-7
    )


# Several.


def test_of_several_the_tightest_binds(fit):
    slos = as_slos(["loss<0.1%", "response_time<150ms", "utilisation<95%"])
    alone = {slo.measure: limit(fit.draws, [slo], 20.0) for slo in slos}
    found = limit(fit.draws, slos, 20.0)
    first = min(alone, key=lambda name: alone[name].load)
    assert found.binding.measure == first
    assert found.load == pytest.approx(alone[first].load, rel=1e-7)
    # Each draw has its own tightest: the ends are no higher than those of any alone.
    assert found.low <= min(each.low for each in alone.values()) * (1 + 1e-9)
    assert found.high <= min(each.high for each in alone.values()) * (1 + 1e-9)
    assert found.slos == slos


def test_in_what_order_they_come_does_not_matter(fit):
    one = fit.max_load("loss<0.1%", "response_time<150ms")
    other = fit.max_load(loss=0.001, response_time=0.15)
    turned = fit.max_load("response_time<150ms", "loss<0.1%")
    assert one == other
    assert (turned.load, turned.low, turned.high) == (one.load, one.low, one.high)
    assert turned.binding == one.binding


def test_a_bound_that_always_holds_binds_nothing(fit):
    alone, both = fit.max_load(loss=0.01), fit.max_load(loss=0.01, response_time=1.0)
    assert both.binding == Slo("loss", 0.01)
    assert both.load == pytest.approx(alone.load, rel=1e-7)
    assert fit.max_load(loss=0.01, response_time=1e-6).status is Status.NO_LOAD


def test_a_pool_has_the_median_of_all_draws():
    models = {"mmmk": M.MMmK(capacity=CAPACITY), "slowing": M.Slowing(1, CAPACITY)}
    pool = st.compare(models, simulated(), starts=1, jobs=1)
    found = pool.max_load(loss=0.01, mean_queue=2.0)
    assert found.low < found.load < found.high
    assert found.load == pytest.approx(
        min(pool.max_load(loss=0.01).load, pool.max_load(mean_queue=2.0).load), rel=1e-3
    )
    assert found.binding in found.slos


# None, all, and what cannot be.


def test_any_load_and_no_load(fit):
    anywhere, nowhere = fit.max_load(response_time=1.0), fit.max_load(response_time=1e-6)
    assert (anywhere.status, nowhere.status) == (Status.ANY_LOAD, Status.NO_LOAD)
    assert (anywhere.low, anywhere.load, anywhere.high) == (math.inf,) * 3
    assert (nowhere.low, nowhere.load, nowhere.high) == (0.0,) * 3
    assert fit.max_load(loss=0.01).status is Status.FOUND


def test_some_draws_without_a_limit_leave_an_end_open(fit):
    most = CAPACITY / fit.estimates["service_rate"]  # what a full system takes
    found = fit.max_load(response_time=most * 1.001)
    assert found.load == found.high == math.inf
    assert math.isfinite(found.low)
    assert not found.trusted


def test_a_measure_that_falls_has_no_largest_load(fit):
    class Spare(M.MMmK):
        name = ""
        measures = ("idle",)

        def measure(self, name):
            if name == "idle":
                return Measure(lambda point: point.pi[..., 0], 0.0, 1.0)
            return super().measure(name)

    own = st.fit(Spare(servers=1, capacity=CAPACITY), fit.windows)
    with pytest.raises(InputError, match=r"idle falls as the load grows.*forecast"):
        own.max_load(idle=0.5)


def test_the_unit_of_time_does_not_matter(fit):
    # The same data by the minute: rates and loads are sixty times, times a sixtieth.
    minute = st.fit(M.MMmK(servers=1, capacity=CAPACITY), simulated(unit=60.0))
    for bounds in ({"loss": 0.01}, {"mean_queue": 3.0}):
        one, other = fit.max_load(**bounds), minute.max_load(**bounds)
        for end in ("low", "load", "high"):
            assert getattr(other, end) == pytest.approx(60 * getattr(one, end), rel=1e-6)
    one, other = fit.max_load(response_time=0.1), minute.max_load(response_time=0.1 / 60)
    assert other.load == pytest.approx(60 * one.load, rel=1e-6)


def test_one_draw_makes_no_interval(fit):
    part = from_estimate(fit.estimate)
    centre = fit.estimate.theta[None].expand(len(part.theta), -1)
    sure = Draws((type(part)(part.model, centre, part.weights, part.scale),))
    found = limit(sure, [Slo("loss", 0.01)], 20.0)
    assert found.low == pytest.approx(found.load, rel=1e-8)
    assert found.high == pytest.approx(found.load, rel=1e-8)
    assert torch.equal(centre[0], fit.estimate.theta)
