"""Plans of a user's own models, and input of the wrong type."""

import numpy as np
import pytest
import torch

import stationary as st
from stationary.errors import InputError
from stationary.planning.roots import Excess

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


def test_a_root_that_cannot_be_solved_is_unknown():
    class Stub:
        """Excess of zero at a load of 12.6; no value from 12 to 12.8."""

        theta = torch.zeros(4, 1)
        model = M.MMmK()

        def centre(self, x, names):
            return self.drawn(x, names)

        def drawn(self, x, names, which=None):
            load = x.numpy()[..., :1]
            return np.where((load > 12.0) & (load < 12.8), np.nan, (load / 12.6) ** 3 / 100)

    found, _ = Excess(Stub(), [st.Slo("response_time", 0.01)]).roots(np.log(10.0))
    assert np.isnan(found).all()


def test_print_of_a_bootstrap_shows_its_own_intervals(windows):
    fit = st.fit(M.MMmK(capacity=8), windows).bootstrap(20, jobs=1)
    high = fit.table()["high"][0]
    assert f"{high:.5g}" in str(fit)
    assert "bootstrap, 20 refits" in str(fit)


def test_a_limit_needs_positive_loads():
    model = M.FromFunction(
        lambda load, p: {("a", "b"): (load / 9).exp() * p.k, ("b", "a"): p.k * 0 + 1.0},
        states=["a", "b"],
        params={"k": 1.0},
    )
    seen = st.Windows([-3.0, -2.0, -1.0] * 4, [[60, 40]] * 12, ["a", "b"])
    with pytest.raises(InputError, match="positive loads"):
        st.fit(model, seen).max_load(p_b=0.9)


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
