"""What if: the changed fit forecasts as a model of that size with those parameters does."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st
from stationary import words
from stationary.errors import InputError
from stationary.learning.draws import Draws, from_estimate
from stationary.models.scales import Scale
from stationary.planning.forecast import forecast

M = st.models
LOADS = [20.0, 30.0, 40.0, 50.0] * 8
AHEAD = [10.0, 60.0, 90.0, 150.0]


def fitted(model, observe=(0, 1, 2), truth=None):
    windows = st.simulate(truth or model, LOADS, duration=20.0, seed=1)
    return st.fit(model, windows.observing(observe, drop_empty=True), method=st.Newton(starts=1))


@pytest.fixture(scope="module")
def fit():
    return fitted(M.MMmK(servers=2, capacity=10), truth=M.MMmK(2, 10, service_rate=30.0))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"servers": 3}, "3 servers instead of 2"),
        ({"servers": 1, "capacity": 4}, "1 server instead of 2, capacity 4 instead of 10"),
        ({"capacity": 30}, "capacity 30 instead of 10"),
        (
            {"capacity": 30, "faster": 1.5},
            "capacity 30 instead of 10, every server 1.5 times as fast",
        ),
        ({"faster": 0.8}, "every server 0.8 times as fast"),
    ],
)
def test_it_forecasts_as_that_queue_at_those_parameters(fit, options, text):
    new = fit.what_if(**options)
    sizes = {"servers": 2, "capacity": 10} | {k: v for k, v in options.items() if k != "faster"}
    rate = fit.estimates["service_rate"] * options.get("faster", 1.0)
    queue = M.MMmK(**sizes, service_rate=rate)
    pi = queue.closed_form(AHEAD).numpy()
    frame = new.forecast(AHEAD)
    np.testing.assert_allclose(frame["loss"], pi[:, -1], rtol=1e-11)
    np.testing.assert_allclose(frame["mean_queue"], pi @ np.arange(sizes["capacity"] + 1))
    # As sure as the fit was, about the parameters it has.
    queue_draws = Draws((from_estimate(replace(fit.estimate, model=queue)),))
    expected = forecast(queue_draws, AHEAD, horizon=new.horizon)
    for k, name in enumerate(expected.names):
        np.testing.assert_allclose(frame[name], expected.value[:, k], rtol=1e-9)
        np.testing.assert_allclose(frame[f"{name}_low"], expected.low[:, k], rtol=1e-9)
        np.testing.assert_allclose(frame[f"{name}_high"], expected.high[:, k], rtol=1e-9)
    assert frame["trusted"].tolist() == [doubt is None for doubt in expected.doubts]
    assert words.change(new.change) == text
    assert fit.change is None


@pytest.mark.parametrize("faster", [0.5, 1.2, 7.0])
def test_twice_the_speed_carries_twice_the_load(fit, faster):
    new = fit.what_if(faster=faster)
    now, then = fit.forecast(AHEAD), new.forecast([faster * x for x in AHEAD])
    for end in ("", "_low", "_high"):
        np.testing.assert_allclose(then[f"loss{end}"], now[f"loss{end}"], rtol=1e-9)
    one, other = fit.max_load(loss=0.01), new.max_load(loss=0.01)
    for end in ("load", "low", "high"):
        assert getattr(other, end) == pytest.approx(faster * getattr(one, end), rel=1e-6)


def test_speed_on_a_linear_scale_moves_its_unit(fit):
    rate = fit.estimates["service_rate"]
    linear = Scale(torch.tensor([False]), torch.tensor([7.0], dtype=torch.float64))
    spread = fit.covariance.matrix * (rate / 7.0) ** 2
    cov = replace(fit.covariance, scale=linear, matrix=spread)
    estimate = replace(fit.estimate, covariance=cov)
    now = st.Plan(fit.windows, {"mmmk": estimate}, known_studies=fit.studies)
    then = now.what_if(faster=1.5)
    ends = [plan.draws.parts[0].theta.std() for plan in (now, then)]
    assert float(ends[1]) == pytest.approx(1.5 * float(ends[0]))
    one, other = now.forecast(AHEAD), then.forecast([1.5 * x for x in AHEAD])
    np.testing.assert_allclose(other["loss_high"], one["loss_high"], rtol=1e-9)


def test_everything_else_is_the_fits_own(fit):
    new = fit.what_if(servers=3)
    assert new.estimates == fit.estimates
    assert (new.nll, new.windows, new.converged) == (fit.nll, fit.windows, fit.converged)
    assert new.model.options == {"servers": 3, "capacity": 10}
    assert fit.model.options == {"servers": 2, "capacity": 10}
    pd.testing.assert_frame_equal(new.table(), fit.table())
    faster = fit.what_if(faster=2.0)
    (name,) = fit.estimates
    assert faster.estimates[name] == pytest.approx(2 * fit.estimates[name])
    assert faster.table()["high"][0] == pytest.approx(2 * fit.table()["high"][0])


def test_it_says_so_wherever_it_is_read(fit, tmp_path):
    new = fit.what_if(servers=3)
    note = words.what_if(new.change)
    assert "3 servers instead of 2; not observed" in note
    assert words.sentence(note) in str(new)
    new.save(tmp_path / "run")
    again = st.load(tmp_path / "run")
    assert again.change == new.change
    assert again.max_load(loss=0.01) == new.max_load(loss=0.01)
    assert note in again.warnings()


def test_changes_add_up_and_a_change_to_what_is_there_is_none(fit):
    both = fit.what_if(servers=3, faster=1.2)
    one_by_one = fit.what_if(servers=3).what_if(faster=1.2)
    assert one_by_one.change == both.change
    assert one_by_one.max_load(loss=0.01) == both.max_load(loss=0.01)
    for options in ({"servers": 2}, {"faster": 1.0, "capacity": 10.0}):
        assert fit.what_if(**options) is fit


@pytest.mark.parametrize(
    ("model", "options", "estimates"),
    [
        (
            M.StateDependent(depth=2, capacity=6, service_1=40.0, service_2=60.0),
            {"capacity": 9, "faster": 2.0},
            {"service_1": 2.0, "service_2": 2.0},
        ),
        (
            M.MultiDiagonal(depth=2, capacity=6, rate_1=40.0, rate_2=20.0),
            {"faster": 3.0},
            {"rate_1": 3.0, "rate_2": 3.0},
        ),
        (
            M.Resetting(servers=2, capacity=6, service_rate=25.0, reset=2.0),
            {"servers": 3, "faster": 2.0},
            {"service_rate": 2.0, "reset": 1.0},
        ),
        (
            M.FiniteClients(servers=2, capacity=6, clients=9, service_rate=25.0),
            {"clients": 12},
            {"service_rate": 1.0},
        ),
        (
            M.UniversalScalability(6, service_rate=40.0, contention=0.4, coherency=0.05),
            {"capacity": 8, "faster": 1.5},
            {"service_rate": 1.5, "contention": 1.0, "coherency": 1.0},
        ),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_only_service_gets_faster(model, options, estimates):
    fit = fitted(model, observe=range(7))
    new = fit.what_if(**options)
    for name, factor in estimates.items():
        then = new.model.estimates[name]
        assert then == pytest.approx(factor * fit.estimates[name], rel=1e-12)
    sizes = {k: v for k, v in options.items() if k != "faster"}
    again = type(model)(**{**model.options, **sizes}, **new.model.estimates)
    torch.testing.assert_close(new.model([50.0]).dense(), again([50.0]).dense())


def test_a_relaxed_model_keeps_its_free_rates():
    truth = M.MMmK(2, 4, service_rate=30.0)
    fit = fitted(M.Relaxed(M.MMmK(2, 4), alpha=50.0), observe=range(5), truth=truth)
    new = fit.what_if(servers=3, faster=2.0)
    base = M.MMmK(3, 4, service_rate=2 * fit.estimates["service_rate"])
    base = base([50.0]).dense()[0].detach()
    dense = new.model([50.0]).dense()[0].detach()
    for (i, j), extra in {(0, 2): "extra_0_2", (4, 1): "extra_4_1"}.items():
        assert float(dense[i, j]) == pytest.approx(fit.estimates[extra])
    assert float(dense[3, 2]) == pytest.approx(float(base[3, 2]))
    assert new.model.alpha == 50.0


class Own(M.MMmK):
    """A model of one's own."""


def up_and_down(load, p):
    return {(0, 1): load, (1, 0): p.service_rate}


def of(fit, model):
    """The same fit, of another model."""
    size, scale = len(model.theta), model.scale()
    cov = replace(fit.covariance, matrix=np.eye(size), flat=np.zeros((size, 0)), scale=scale)
    estimate = replace(fit.estimate, model=model, covariance=cov)
    return st.Plan(fit.windows, {"own": estimate}, known_studies={"own": fit.studies["mmmk"]})


def test_a_model_of_ones_own_changes_as_its_options_say(fit):
    changed = of(fit, Own(servers=2, capacity=10)).what_if(servers=3, faster=2.0)
    assert type(changed.model) is Own
    assert changed.model.options == {"servers": 3, "capacity": 10}
    assert changed.model.estimates["service_rate"] == 2 * Own(2, 10).estimates["service_rate"]


MMMK = M.MMmK(2, 10)
FUNCTION = M.FromFunction(up_and_down, states=2, params={"service_rate": 30.0})
BAD = [
    (MMMK, {}, "such as servers=5"),
    (MMMK, {"server": 3}, "MMmK has no option 'server'.*servers, capacity, faster"),
    (MMMK, {"service_rate": 3.0}, "service_rate is learnt: MMmK has no option"),
    (MMMK, {"servers": 0}, "servers must be a whole number from 1"),
    (MMMK, {"servers": 2.5}, "servers must be .*got 2.5"),
    (MMMK, {"servers": "+1"}, r"servers must be .*got '\+1'"),
    (MMMK, {"faster": 0.0}, "faster must be positive and finite, as in 1.2.*got 0.0"),
    (MMMK, {"faster": math.nan}, "faster must be positive.*got nan"),
    (MMMK, {"faster": "20%"}, "faster must be positive.*got '20%'"),
    (FUNCTION, {"servers": 3}, "FromFunction has no option 'servers' to change"),
    (M.StateDependent(depth=2, capacity=6), {"depth": 3}, "depth=3 .*fit the other"),
    (M.UpperTriangular(states=4), {"faster": 1.2}, "UpperTriangular has no service rate"),
    (M.Relaxed(M.MMmK(2, 4)), {"capacity": 5}, "capacity.*fit the other model"),
    (M.Relaxed(M.MMmK(2, 4)), {"alpha": 1.0}, "Relaxed of MMmK has no option 'alpha'"),
]


@pytest.mark.parametrize(("model", "options", "said"), BAD)
def test_changes_that_make_no_sense(fit, model, options, said):
    with pytest.raises(InputError, match=said):
        of(fit, model).what_if(**options)
