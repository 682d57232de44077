import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit

import stationary as st
from stationary.paper.baselines import logistic
from stationary.paper.columns import METHODS, TABLE
from stationary.paper.methods import MaximumLikelihood
from stationary.paper.settings import draw, rows

FAST = rows()["mm1k-fast"]


def outcome(name, row=FAST, seed=0, share=0.1):
    return METHODS[name].run([draw(row, seed)], [seed], share)[0]


def test_the_floor_is_the_maximum_of_the_likelihood():
    problem = draw(FAST, 0)
    found = outcome("mle")
    fit = st.fit(st.models.MMmK(servers=1, capacity=19), problem.observed())
    assert found.theta == pytest.approx([fit.estimates["service_rate"]], rel=1e-6)
    assert found.nll[-1] * 50 == pytest.approx(fit.nll, rel=1e-12)
    loss = st.steady_state(fit.estimate.model(problem.x)).pi[:, -1]
    assert torch.allclose(found.predicted[-1], loss, rtol=1e-6)


@pytest.mark.parametrize(
    "name", [m.name for m in METHODS.values() if not isinstance(m, MaximumLikelihood)]
)
def test_no_method_beats_the_floor(name):
    """The exact optimum of the parametric likelihood, or of the relaxed one for relaxed chains."""
    found = outcome(name)
    relaxed = METHODS[name].alpha is not None
    floor = outcome(f"mle-{name}" if relaxed else "mle")
    assert found.predicted.shape[-1] == 30
    assert bool(((found.predicted >= 0) & (found.predicted <= 1)).all())
    if found.nll:
        assert found.nll[-1] >= floor.nll[-1] - (0.01 if relaxed else 1e-9)


def test_ours_comes_nearer_to_the_floor_than_the_papers_setting():
    problems = [draw(FAST, seed) for seed in range(4)]
    gaps = {
        name: np.array([o.nll[-1] for o in METHODS[name].run(problems, range(4), 1.0)])
        for name in ("infinity", "ours", "mle")
    }
    ours = (gaps["ours"] - gaps["mle"]) * 50
    paper = (gaps["infinity"] - gaps["mle"]) * 50
    assert ours.max() < 0.05
    assert ours.mean() < paper.mean()


def test_backpropagation_through_time_forecasts_by_its_own_steps():
    """Sixteen steps from a uniform start, not the steady state of the chain it learnt."""
    problem = draw(FAST, 0)
    found = outcome("dc16")
    rates = st.models.MMmK(servers=1, capacity=19, service_rate=found.theta[0])(problem.x)
    P, _ = rates.uniformize(rates.event_rate().detach() + FAST.margin)
    own = torch.linalg.matrix_power(P.detach(), 16).mean(-2)[:, -1]
    assert torch.allclose(found.predicted[-1], own, rtol=1e-6)
    assert not torch.allclose(found.predicted[-1], st.steady_state(rates).pi[:, -1], rtol=0.1)


def test_baselines_by_hand():
    problem = draw(rows()["mm1k-slow"], 1)
    counts = problem.windows.counts
    assert outcome("zero").predicted.abs().max() == 0
    mean = METHODS["mean"].run([problem], [0], 1.0)[0].predicted
    assert torch.allclose(mean, (counts[:, -1].sum() / counts.sum()).expand_as(mean))


def test_logistic_regression_against_a_direct_fit():
    problem = draw(rows()["mm1k-slow"], 1)
    load = problem.windows.loads.numpy()
    lost = problem.windows.counts[:, -1].numpy()
    seen = problem.windows.counts.sum(-1).numpy()

    def nll(b):
        eta = b[0] + b[1] * load
        half = b[0] + b[1] * load.mean()
        return (seen * np.logaddexp(0, eta) - lost * eta).sum() + np.logaddexp(0, half) - half / 2

    b = minimize(nll, [-4.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12}).x
    found = logistic(problem.windows, torch.tensor([20.0, 30.0], dtype=torch.float64))
    assert found.numpy() == pytest.approx(expit(b[0] + b[1] * np.array([20.0, 30.0])), rel=1e-4)


def test_logistic_regression_without_a_single_failure_stays_near_zero():
    windows = st.Windows(x=[10.0, 20.0], counts=[[50, 0], [60, 0]], observe=[0, 1])
    found = logistic(windows, torch.tensor([10.0, 30.0], dtype=torch.float64))
    assert bool(((found > 0) & (found < 0.05)).all())


def test_every_column_has_a_name_of_its_own():
    assert len(METHODS) == len({m.title for m in METHODS.values()})
    assert [m.name for m in TABLE] == list(METHODS)[: len(TABLE)]
