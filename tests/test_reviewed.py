"""Defects that a review found, each held by the example that showed it."""

import gc
import weakref

import numpy as np
import pytest
import torch

import stationary as st
from stationary import words
from stationary.errors import InputError
from stationary.learning import curve, draws
from stationary.learning.autocorrelation import sum_covariances
from stationary.learning.estimate import End, Ended
from stationary.planning.roots import Excess
from stationary.terms.findings import Finding, Verdict
from stationary.terms.trust import Choice, Chosen, Doubt, Horizon, Reach, Reason

M = st.models


class Mine(st.Model):
    """A queue of one's own, which a saved plan cannot make again."""

    states = range(9)
    params = {"speed": st.Param(20.0, per_time=1)}
    edges = [(k, k + 1) for k in range(8)] + [(k + 1, k) for k in range(8)]

    def rates(self, load, p):
        batch = np.broadcast_shapes(load.shape[:-1], p.speed.shape[:-1])
        return torch.cat([load.expand(*batch, 8), p.speed.expand(*batch, 8)], -1)


@pytest.fixture(scope="module")
def windows():
    truth = M.MMmK(capacity=8, service_rate=20.0)
    return st.simulate(truth, [4.0, 6.0, 8.0, 10.0, 12.0] * 8, duration=40.0, seed=3)


def test_a_model_of_ones_own_takes_no_others_place(windows, tmp_path):
    plan = st.compare({"mine": Mine(), "mmmk": M.MMmK(capacity=8)}, windows, jobs=1)
    plan.save(tmp_path / "run")
    with pytest.raises(st.errors.RunError, match="Mine"):
        st.load(tmp_path / "run")
    again = st.load(tmp_path / "run", model=Mine())
    assert [type(each.model).__name__ for each in again.fitted.values()] == ["Mine", "MMmK"]
    asked = {"x": [15.0], "measures": ["p_8"]}
    assert again.forecast(**asked).equals(plan.forecast(**asked))


def test_a_pooled_plan_is_not_compared_again(windows):
    plan = st.compare({"my": M.MMmK(capacity=8)}, windows, jobs=1)
    assert plan.compared() is plan
    alone = st.fit(M.MMmK(capacity=8), windows)
    beside = alone.compared(jobs=1)
    assert len(beside.fitted) > 3
    assert beside.name == alone.name
    assert beside.max_load(loss=0.01) == alone.max_load(loss=0.01)
    assert len({(e.model.name, str(e.model.options)) for e in beside.fitted.values()}) == len(
        beside.fitted
    )


def test_a_subclass_does_not_take_the_name_of_its_kind():
    class MyStates(st.States):
        pass

    assert st.Observation.kinds["states"] is st.States
    with pytest.raises(InputError, match="states"):

        class Others(st.States):
            kind = "states"


def test_a_root_that_cannot_be_solved_is_unknown():
    class Stub:
        """Excess of zero at a load of 12.6; no value from 12 to 12.8."""

        theta = torch.zeros(4, 1)
        model = M.MMmK()

        def centre(self, x, names):
            return self.drawn(x, names)

        def drawn(self, x, names):
            load = x.numpy()[..., :1]
            return np.where((load > 12.0) & (load < 12.8), np.nan, (load / 12.6) ** 3 / 100)

    found, _ = Excess(Stub(), [st.Slo("response_time", 0.01)]).roots(np.log(10.0))
    assert np.isnan(found).all()


@pytest.mark.parametrize(
    "counts", [[[60, -40]], [[60, 0.5]], [[60, np.nan]], [60, 40], [[1, 2, 3]]]
)
def test_counts_of_any_kind_are_checked(counts):
    class Two(st.Counts):
        columns = ("idle", "busy")

        def on(self, model):
            return self

        def probabilities(self, point):
            return torch.cat([point.pi[..., :1], 1 - point.pi[..., :1]], -1)

    with pytest.raises(InputError, match="count"):
        Two(counts)


def test_windows_have_one_table_of_states():
    one = st.States([[3, 4]], [0, 1])
    with pytest.raises(InputError, match="one table of counts of states"):
        st.Windows([1.0], observations=[one, one])
    for wrong in ([5], 5):
        with pytest.raises(InputError, match="observations"):
            st.Windows([1.0], observations=wrong)


def test_a_draw_that_fails_at_one_load_is_known_at_the_others(windows, monkeypatch):
    fit = st.fit(M.MMmK(capacity=8), windows)
    solve = draws._measured

    def failing(model, x, theta, names):
        if float(x.max()) > 100 and float(theta.max()) > 20.2:
            raise st.errors.SolverError("too far")
        return solve(model, x, theta, names)

    monkeypatch.setattr(draws, "_measured", failing)
    part = fit.draws.parts[0]
    found = part.drawn(torch.tensor([[[10.0], [200.0]]], dtype=torch.float64), ["loss"])
    assert not np.isnan(found[:, 0]).any()
    assert np.isnan(found[:, 1]).any()


def test_too_many_draws_that_fail_are_not_trusted(windows, monkeypatch):
    fit = st.fit(M.MMmK(capacity=8), windows)
    solve = draws._measured

    def failing(model, x, theta, names):
        if len(theta) and float(theta.max()) > float(fit.model.theta.detach()) * 1.02:
            raise st.errors.SolverError("no")
        return solve(model, x, theta, names)

    monkeypatch.setattr(draws, "_measured", failing)
    found = fit.forecast_of([12.0])
    assert found.failed > 20
    assert found.doubts[0].reason is Reason.UNSOLVED
    limit = fit.max_load(loss=0.01)
    assert limit.failed > 20
    assert limit.doubt.reason is Reason.UNSOLVED
    assert "could not be solved" in words.limit(limit)


def test_curves_are_forgotten(windows, monkeypatch):
    monkeypatch.setattr(draws, "is_costly", lambda edges, solves: True)
    models = []
    for _ in range(curve._MOST_KEPT + 2):
        fit = st.fit(M.MMmK(capacity=8), windows)
        fit.forecast([12.0])
        models.append(weakref.ref(fit.draws.parts[0].model))
        del fit
    gc.collect()
    assert sum(model() is not None for model in models) <= curve._MOST_KEPT


def test_a_measure_that_mixes_units_has_no_common_factor(windows, monkeypatch):
    class Costly(M.MMmK):
        @property
        def measures(self):
            return (*super().measures, "cost")

        def measure(self, name):
            if name == "cost":
                return st.Measure(
                    lambda q: 100 * q.pi[..., -1] + q.p.service_rate[..., 0] * (1 - q.pi[..., 0]),
                    0.0,
                )
            return super().measure(name)

    fit = st.fit(Costly(capacity=8), windows)
    exact = fit.forecast([14.0], measures=["cost"])
    monkeypatch.setattr(draws, "is_costly", lambda edges, solves: True)
    other = fit.having(
        known_draws=fit.draws.__class__(
            tuple(
                part.__class__(part.model, part.theta, part.weights, part.scale)
                for part in fit.draws.parts
            )
        )
    )
    curved = other.forecast([14.0], measures=["cost"])
    for end in ("cost_low", "cost_high"):
        assert curved[end][0] == pytest.approx(exact[end][0], rel=2e-3)


def test_print_of_a_bootstrap_shows_its_own_intervals(windows):
    fit = st.fit(M.MMmK(capacity=8), windows).bootstrap(20, jobs=1)
    high = fit.table()["high"][0]
    assert f"{high:.5g}" in str(fit)
    assert "bootstrap, 20 refits" in str(fit)


def test_windows_of_other_lengths_keep_their_own():
    model = M.MMmK(capacity=4, service_rate=10.0)
    seen = st.Windows([4.0, 8.0], [[30, 20], [3000, 2500]], [0, 1], duration=[1.0, 100.0])
    inputs, samples = model.as_inputs([4.0, 8.0]), np.array([60.0, 6000.0])
    f = np.tile(np.arange(5.0)[None, :, None], (2, 1, 1))
    theta = model.theta.detach()
    both = sum_covariances(model, seen, theta, inputs, samples, f)
    for k in range(2):
        part = slice(k, k + 1)
        alone = sum_covariances(
            model, seen.select([k]), theta, inputs[part], samples[part], f[part]
        )
        np.testing.assert_allclose(both[k], alone[0])


def test_a_limit_needs_positive_loads():
    model = M.FromFunction(
        lambda load, p: {("a", "b"): (load / 9).exp() * p.k, ("b", "a"): p.k * 0 + 1.0},
        states=["a", "b"],
        params={"k": 1.0},
    )
    seen = st.Windows([-3.0, -2.0, -1.0] * 4, [[60, 40]] * 12, ["a", "b"])
    with pytest.raises(InputError, match="positive loads"):
        st.fit(model, seen).max_load(p_b=0.9)


WRONG = {
    "epochs": lambda w: st.fit(M.MMmK(), w, epochs="ten"),
    "epochs none": lambda w: st.Stochastic(epochs=None),
    "clip": lambda w: st.Stochastic(clip="a"),
    "rule": lambda w: st.Stochastic(rule="adam"),
    "starts": lambda w: st.Newton(starts="3"),
    "half a start": lambda w: st.Newton(starts=2.5),
    "servers": lambda w: st.plan(w, servers="a"),
    "level": lambda w: st.plan(w, level=2.0),
    "slo of nothing": lambda w: st.plan(w, slo="lost<1%"),
    "folder": lambda w: st.load(None),
    "params": lambda w: M.FromFunction(lambda load, p: {}, states=2, params=5),
    "a parameter": lambda w: M.FromFunction(lambda load, p: {}, states=2, params={"k": "x"}),
    "rates": lambda w: M.FromFunction(lambda load, p: [1], states=2, params={"k": 1.0}),
    "bound": lambda w: st.Slo("loss", "a"),
    "text": lambda w: st.Slo.parse(5),
    "measure": lambda w: M.MMmK().measure(3),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_types_get_a_sentence(name, windows):
    with pytest.raises(InputError):
        WRONG[name](windows)


def test_present_may_be_a_number_of_numpy(windows):
    fit = st.fit(M.MMmK(capacity=8), windows)
    assert fit.max_load(loss=0.01, present=np.int64(10)).present == 10
    with pytest.raises(InputError, match="SLO"):
        fit.next_experiment("loss<1%")


def test_an_option_may_have_the_name_of_a_method():
    class Fined(st.Model):
        states = ["up", "down"]
        params = {"wear": 0.1}

        def __init__(self, penalty=0.1, **values):
            self.fine = penalty
            super().__init__(**values)

        def rates(self, load, p):
            return {("up", "down"): load * p.wear, ("down", "up"): p.wear * 0 + 1.0}

    model = Fined(penalty=0.3)
    assert model.options == {"penalty": 0.3}
    assert "penalty=0.3" in repr(model)


@pytest.mark.parametrize("why", list(End))
def test_every_end_has_words(why):
    assert words.ended(Ended(why, False, "mu", 1.0, 3, 2, 0.1, "stuck"), 1e-3)


@pytest.mark.parametrize("why", list(Reach))
def test_every_horizon_has_words(why):
    facts = {"cut": 5.0, "share": 0.02, "low": 1.0, "high": 9.0, "states": 30.0}
    finding = None
    if why is Reach.FINDING:
        finding = Finding("drift", Verdict.OK, "no_drift", {"windows": 9})
    assert words.horizon(Horizon(9.0, why, facts, 9.0, finding))


@pytest.mark.parametrize("why", list(Chosen))
def test_every_choice_has_words(why):
    assert words.choice(Choice(why, "a", "b", "c", 0.01, 1.0, 9.0))


@pytest.mark.parametrize("why", list(Reason))
def test_every_doubt_has_words(why):
    horizon = Horizon(9.0, Reach.TOO_FEW, {}, 9.0)
    assert words.doubt(Doubt(why, "loss", horizon, Choice(Chosen.RIVAL, None, "b", "c", 0.1, 1, 9)))
