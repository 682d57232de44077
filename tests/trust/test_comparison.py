"""Comparisons: the right model is recommended, a wrong one is not, and pooling widens."""

from functools import cache

import numpy as np
import pytest

import stationary as st
from stationary import words
from stationary.errors import InputError
from stationary.terms.trust import Chosen
from stationary.trust.baselines import BASELINES, scalability_law, trend
from stationary.trust.ladder import ladder, ladder_of
from stationary.trust.scoring import stacking_weights

M = st.models
LOADS = np.tile(np.arange(6.0, 21.0, 2.0), 6)
TRUTHS = {
    "mmmk": M.MMmK(servers=1, capacity=10, service_rate=25.0),
    "erlang": M.ErlangService(phases=4, capacity=10, service_rate=25.0),
    "slowing": M.Slowing(servers=1, capacity=10, service_rate=22.0, slowdown=-0.5),
}


def ladder_models():
    return {
        "mmmk": M.MMmK(servers=1, capacity=10),
        "erlang": M.ErlangService(phases=4, capacity=10),
        "slowing": M.Slowing(servers=1, capacity=10),
    }


def data(truth, seed=0, duration=40.0):
    return st.simulate(truth, LOADS, duration=duration, seed=seed).observing([0, 1, 2, 3])


@cache
def compared(name):
    """Compare all models on data of one, once."""
    return st.compare(ladder_models(), data(TRUTHS[name]), starts=1, jobs=1)


@pytest.fixture
def found():
    return compared("mmmk")


@pytest.mark.parametrize("name", TRUTHS)
def test_the_true_family_is_recommended(name):
    result = compared(name)
    assert result.recommended == name
    assert words.choice(result.comparison.choice).startswith(f"Take {name}: it ")


def test_the_table_is_what_can_be_computed_by_hand(found):
    table = found.ranking().set_index("model")
    assert set(table.index) == {*TRUTHS, *BASELINES}
    fit = found.fitted["slowing"]
    assert table["nll"]["slowing"] == fit.nll
    assert table["aic"]["slowing"] == pytest.approx(2 * fit.nll + 4)
    total = float(found.windows.counts.sum())
    assert table["bic"]["slowing"] == pytest.approx(2 * fit.nll + 2 * np.log(total))
    study, scores = found.studies["slowing"], []
    for cut, part in zip(study.cuts, study.below, strict=True):
        assert part.below == cut
        held = found.windows.select((found.windows.loads > cut).numpy())
        p = part.model.closed_form(held.loads)[:, :4].numpy()
        p /= p.sum(-1, keepdims=True)
        counts = held.counts.numpy()
        scores += list(-(counts * np.log(p)).sum(-1) / counts.sum(-1))
    assert table["backtest"]["slowing"] == pytest.approx(np.mean(scores), rel=1e-9)
    assert found.ranking()["backtest"].is_monotonic_increasing
    assert sum(found.weights.values()) == pytest.approx(1.0)


def test_where_no_chain_is_right_none_is_recommended(recording_file):
    seen = st.read_windows(recording_file, x="callrate", counts="Q={}", loads=(1.0, 1000.0))
    seen = st.Windows(seen.x, seen.counts[:, :22], range(22), "arrival")
    models = [M.MMmK(servers=1, capacity=21), M.Slowing(servers=1, capacity=21)]
    result = st.compare(models, seen, starts=1, jobs=1)
    assert result.recommended is None
    assert words.choice(result.comparison.choice).startswith("None is to be trusted")
    assert result.doubt.choice == result.comparison.choice
    assert not result.forecast([900.0, 1500.0])["trusted"].any()


def test_one_load_cannot_be_backtested():
    seen = data(TRUTHS["mmmk"]).between(14.0, 14.0)
    result = st.compare(ladder_models(), seen, starts=1, jobs=1)
    assert result.recommended is None
    assert result.comparison.choice.why is Chosen.UNTESTED
    assert result.forecast([14.0])["loss_low"][0] > 0


def test_what_the_data_leaves_open_is_not_pooled():
    models = {"mmmk": M.MMmK(capacity=10), "deep": M.StateDependent(depth=8, capacity=10)}
    seen = data(TRUTHS["mmmk"]).observing([0, 1])
    result = st.compare(models, seen, starts=1, jobs=1)
    assert result.recommended == "mmmk"
    assert result.weights["deep"] == 0.0
    assert "not determined: not pooled" in result.ranking().set_index("model")["note"]["deep"]


def test_a_model_that_cannot_be_fitted_stands_in_the_table():
    models = {"mmmk": M.MMmK(capacity=10), "batch": M.BatchArrivals(capacity=10)}
    seen = data(TRUTHS["mmmk"])
    seen = st.Windows(seen.x, seen.counts, seen.observe, "arrival")
    table = st.compare(models, seen, starts=1, jobs=1).ranking().set_index("model")
    assert "sampling='arrival'" in table["note"]["batch"]
    with pytest.raises(InputError, match="no model could be fitted"):
        st.compare({"batch": models["batch"]}, seen)


TWO_INPUTS = st.Windows([[1.0, 2.0]], [[3, 4]], [0, 1], inputs=["load", "heat"])


@pytest.mark.parametrize(
    ("models", "seen", "named"),
    [
        ({}, None, "no models"),
        (ladder_models(), TWO_INPUTS, "load, heat"),
        ([M.MMmK(servers=1), M.MMmK(servers=2)], None, "same name"),
        ({"trend in the load": M.MMmK()}, None, "baseline, 'trend in the load'"),
    ],
)
def test_bad_input(models, seen, named):
    with pytest.raises(InputError, match=named):
        st.compare(models, data(TRUTHS["mmmk"]) if seen is None else seen)


def test_one_load_below_a_cut_has_no_trend():
    seen = st.Windows([1.0] * 6, [[5, 3]] * 6, [0, 1])
    np.testing.assert_allclose(
        trend(seen.counts.numpy(), seen.loads.numpy(), seen.loads.numpy()),
        np.tile([30.5, 18.5], (6, 1)) / 49,
    )


def test_limits_of_the_pool_are_checked_as_those_of_a_fit(found):
    with pytest.raises(InputError, match="name what must hold"):
        found.max_load()
    with pytest.raises(InputError, match="the present load must be positive"):
        found.max_load(loss=0.01, present=-5.0)
    assert found.max_load(response_time=1e-6).load == 0.0
    both = {"mmmk": M.MMmK(capacity=10), "usl": M.UniversalScalability(capacity=10)}
    pooled = st.compare(both, data(TRUTHS["mmmk"]), starts=1, jobs=1)
    assert all(pooled.weights.values())
    assert "utilisation" not in pooled.forecast([10.0])
    with pytest.raises(InputError, match="utilisation"):
        pooled.max_load(utilisation=0.8)


# Pooling.


def test_stacking_is_the_best_mixture():
    random = np.random.default_rng(0)
    log_density = random.normal([0.3, 0.0], size=(400, 2))
    weights = stacking_weights(log_density, np.array([1, 1]))
    grid = np.linspace(0, 1, 1001)
    density = np.exp(log_density)
    score = [np.log(w * density[:, 0] + (1 - w) * density[:, 1]).mean() for w in grid]
    assert weights[0] == pytest.approx(grid[np.argmax(score)], abs=0.03)


def test_equals_are_weighed_by_their_parameters():
    weights = stacking_weights(np.zeros((50, 3)), np.array([1, 1, 2]))
    np.testing.assert_allclose(weights[:2], weights[0])
    assert weights[2] / weights[0] == pytest.approx(np.exp(-1), rel=1e-3)


def test_the_pool_of_one_right_model_is_its_own_forecast():
    result = st.compare({"mmmk": M.MMmK(capacity=10)}, data(TRUTHS["mmmk"]), starts=1, jobs=1)
    own = st.fit(M.MMmK(capacity=10), result.windows).forecast([18.0, 30.0])
    pooled = result.having(discrepancy=None).forecast([18.0, 30.0])
    for name in ("loss", "loss_low", "loss_high", "response_time_high"):
        np.testing.assert_allclose(pooled[name], own[name], rtol=0.1)
    assert list(pooled) == list(own)


def test_models_that_differ_widen_the_pool(found):
    own = st.fit(M.MMmK(capacity=10), found.windows).forecast([30.0])
    pooled = found.forecast([30.0])
    assert pooled["loss_high"][0] - pooled["loss_low"][0] > own["loss_high"][0] - own["loss_low"][0]
    limit = found.max_load(loss=0.01)
    assert limit.low < limit.load < limit.high
    row = found.forecast([limit.load])
    assert row["loss"][0] == pytest.approx(0.01, rel=1e-3)


# Rivals and the default ladder.


def test_a_trend_is_logistic_regression():
    seen = data(TRUTHS["mmmk"]).observing([0, 1])
    p = trend(seen.counts.numpy(), seen.loads.numpy(), seen.loads.numpy())
    # In M/M/1/K the odds of the first two states go with the load itself.
    odds = np.log(p[:, 1] / p[:, 0])
    slope = np.polyfit(np.log(seen.loads.numpy()), odds, 1)[0]
    assert slope == pytest.approx(1.0, abs=0.1)


def test_a_trend_gives_categories_never_counted_equal_shares():
    loads = np.linspace(3.0, 7.0, 9)
    counts = np.pad(1000.0 * (loads[:, None] / 10) ** np.arange(4), ((0, 0), (0, 30)))
    shares = trend(counts, loads, loads)
    np.testing.assert_allclose(shares.sum(-1), 1.0)
    np.testing.assert_allclose(shares[:, 4:], shares[:, 4:5] * np.ones(30))
    # Apart, with a count that is all but none, they are fitted one by one.
    apart = trend(counts + 1e-12, loads, loads)
    np.testing.assert_allclose(shares, apart, rtol=1e-3)


def test_the_scalability_law_forecasts_what_it_describes():
    truth = M.UniversalScalability(capacity=8, service_rate=5.0, contention=0.3, coherency=0.02)
    seen = st.simulate(truth, np.tile(np.arange(2.0, 11.0), 6), 60.0, seed=1).observing(range(6))
    light, heavy = seen.between(None, 7.0), seen.between(8.0, None)
    expected = truth.closed_form(heavy.loads)[:, :6].numpy()
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(np.exp(scalability_law(light, heavy)), expected, atol=0.02)
    named = st.Windows([1.0], [[3, 4]], ["up", "down"])
    with pytest.raises(InputError, match="counts of queue lengths"):
        scalability_law(named, named)


def test_the_default_ladder_goes_with_servers_and_sampling():
    seen = data(TRUTHS["mmmk"])
    one = ladder(seen, servers=1, capacity=10)
    assert list(one) == [
        *("mmmk", "service", "slowing", "statedependent:depth=3", "batch", "onoff"),
    ]
    asked = st.Windows(seen.x, seen.counts, seen.observe, "arrival")
    assert list(ladder(asked, servers=4, capacity=10)) == ["mmmk", "service", "slowing"]
    fit = st.fit(M.ErlangService(phases=3, capacity=10), seen, method=st.Newton(starts=1))
    assert list(ladder_of(fit.model, seen)) == ["erlang", *one]
    own = st.fit(one["mmmk"], seen, method=st.Newton(starts=1))
    assert list(ladder_of(own.model, seen)) == list(one)
