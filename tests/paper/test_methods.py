import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import stationary as st
from stationary.learning.stochastic import Trainer
from stationary.paper.columns import METHODS, TABLE
from stationary.paper.methods import MaximumLikelihood, train
from stationary.paper.settings import draw, rows

FAST, SLOW = rows()["mm1k-fast"], rows()["mm1k-slow"]
MODEL = FAST.family()
RELAXED = st.models.Relaxed(MODEL, alpha=5.0, initial=0.1)


def outcome(name, row=FAST, seed=0, share=0.1):
    return METHODS[name].run([draw(row, seed)], [seed], share)[0]


@pytest.mark.parametrize(
    ("model", "strategy", "training"),
    [
        (MODEL, lambda s: st.Exact(), {"rule": st.optimisers.RobbinsMonro(lr=0.2)}),
        (MODEL, lambda s: st.Infinity(p=0.2, seed=s), {"batch": 3, "clip": 0.5}),
        (
            MODEL,
            lambda s: st.Infinity(p=0.2, seed=s, series=st.gradients.Doubling(), control=True),
            {"clip": math.inf, "average": True},
        ),
        (MODEL, lambda s: st.DivideAndConquerBPTT(steps=16), {}),
        (RELAXED, lambda s: st.Exact(), {"rule": st.optimisers.Adam(lr=0.5)}),
    ],
    ids=["exact", "infinity", "control", "dc-bptt", "relaxed"],
)
def test_every_repeat_side_by_side_goes_the_way_it_would_go_alone(model, strategy, training):
    seeds = (3, 8)
    # With most states observed no window is without counts, which a fit alone would leave out.
    problems = [draw(replace(FAST, observe=list(range(19))), seed) for seed in seeds]
    start = model.start(problems[0].windows.x)
    training = st.Stochastic(epochs=2, **training)
    paths = train(model, problems, replace(training, gradient=strategy(seeds)), seeds)
    assert paths.shape == (2, 3, len(start))  # the start and two epochs
    assert torch.equal(paths[:, 0], start.expand(2, -1))
    for seed, problem, path in zip(seeds, problems, paths, strict=True):
        alone = replace(training, gradient=strategy(seed))
        alone = Trainer(model, problem.observed(), alone, seed=seed)
        alone.run()
        assert torch.allclose(path[-1], alone.estimate, rtol=1e-9)


def test_the_exact_column_is_the_maximum_of_the_likelihood():
    problem, found = draw(FAST, 0), outcome("mle")
    fit = st.fit(st.models.MMmK(servers=1, capacity=19), problem.observed())
    assert found.theta == pytest.approx([fit.estimates["service_rate"]], rel=1e-6)
    assert found.nll[-1] * 50 == pytest.approx(fit.nll, rel=1e-12)
    loss = st.steady_state(fit.estimate.model(problem.x)).pi[:, -1]
    assert torch.allclose(found.predicted[-1], loss, rtol=1e-6)


@pytest.mark.parametrize(
    "name", [m.name for m in METHODS.values() if not isinstance(m, MaximumLikelihood)]
)
def test_no_method_beats_its_exact_optimum(name):
    found, column = outcome(name), METHODS[name]
    floor = outcome(column.exact)
    assert found.predicted.shape[-1] == 30
    assert bool(((found.predicted >= 0) & (found.predicted <= 1)).all())
    if found.nll:
        assert found.nll[-1] >= floor.nll[-1] - (1e-9 if column.alpha is None else 0.01)


def test_ours_comes_nearer_to_the_optimum_than_the_papers_setting():
    problems = [draw(FAST, seed) for seed in range(4)]
    nll = {
        name: np.array([o.nll[-1] for o in METHODS[name].run(problems, range(4), 1.0)])
        for name in ("infinity", "ours", "mle")
    }
    ours, paper = ((nll[name] - nll["mle"]) * 50 for name in ("ours", "infinity"))
    assert ours.max() < 0.05
    assert ours.mean() < paper.mean()


def test_backpropagation_through_time_forecasts_by_its_own_steps():
    """Sixteen steps from a uniform start, not the steady state of the chain it learnt."""
    problem, found = draw(FAST, 0), outcome("dc16")
    rates = st.models.MMmK(servers=1, capacity=19, service_rate=found.theta[0])(problem.x)
    P, _ = rates.uniformize(rates.event_rate().detach() + FAST.margin)
    own = torch.linalg.matrix_power(P.detach(), 16).mean(-2)[:, -1]
    assert torch.allclose(found.predicted[-1], own, rtol=1e-6)
    assert not torch.allclose(found.predicted[-1], st.steady_state(rates).pi[:, -1], rtol=0.1)


def test_baselines_by_hand():
    problem = draw(SLOW, 1)
    counts = problem.windows.counts
    assert outcome("zero").predicted.abs().max() == 0
    mean = METHODS["mean"].run([problem], [0], 1.0)[0].predicted
    assert torch.allclose(mean, (counts[:, -1].sum() / counts.sum()).expand_as(mean))


def test_every_column_has_a_name_of_its_own():
    assert len(METHODS) == len({m.title for m in METHODS.values()})
    assert [m.name for m in TABLE] == list(METHODS)[: len(TABLE)]
    assert all(m.exact in METHODS for m in METHODS.values())
