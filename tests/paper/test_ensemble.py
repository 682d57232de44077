import math
from dataclasses import replace

import pytest
import torch

import stationary as st
from stationary.learning.optimisers import Adam, RobbinsMonro
from stationary.learning.stochastic import Stochastic, Trainer
from stationary.paper.ensemble import train

SEEDS = (3, 8)
MODEL = st.models.MMmK(servers=2, capacity=5)
RELAXED = st.models.Relaxed(MODEL, alpha=5.0, initial=0.1)


def windows(seed):
    truth = st.models.MMmK(servers=2, capacity=5, service_rate=9.0)
    data = st.simulate(truth, x=[6.0, 8.0, 10.0, 12.0], duration=5.0, seed=seed)
    return data.observing([0, 1, 2])


@pytest.mark.parametrize(
    ("model", "strategy", "training"),
    [
        (MODEL, lambda s: st.Exact(), Stochastic(epochs=4, rule=RobbinsMonro(lr=0.2))),
        (MODEL, lambda s: st.Infinity(p=0.2, seed=s), Stochastic(epochs=4, batch=2, clip=0.5)),
        (
            MODEL,
            lambda s: st.Infinity(p=0.2, seed=s, series=st.gradients.Doubling(), control=True),
            Stochastic(epochs=4, clip=math.inf, average=True),
        ),
        (MODEL, lambda s: st.DivideAndConquerBPTT(steps=16), Stochastic(epochs=4)),
        (RELAXED, lambda s: st.Exact(), Stochastic(epochs=3, rule=Adam(lr=0.5))),
    ],
    ids=["exact", "infinity", "control", "dc-bptt", "relaxed"],
)
def test_every_repeat_goes_the_way_it_would_go_alone(model, strategy, training):
    data = [windows(seed) for seed in SEEDS]
    *_, together = train(
        model,
        torch.stack([d.x for d in data]),
        torch.stack([d.counts for d in data]),
        data[0].observation(model),
        model.start(data[0].x),
        replace(training, gradient=strategy(SEEDS)),
        SEEDS,
    )
    for k, seed in enumerate(SEEDS):
        alone = Trainer(model, data[k], replace(training, gradient=strategy(seed)), seed=seed)
        alone.run()
        assert torch.allclose(together[k], alone.estimate, rtol=1e-9)


def test_it_yields_the_start_and_every_epoch():
    data = windows(0)
    steps = list(
        train(
            MODEL,
            data.x[None],
            data.counts[None],
            data.observation(MODEL),
            MODEL.start(data.x),
            Stochastic(epochs=3),
            [0],
        )
    )
    assert len(steps) == 4
    assert torch.equal(steps[0][0], MODEL.start(data.x))
    assert not torch.equal(steps[1], steps[2])
