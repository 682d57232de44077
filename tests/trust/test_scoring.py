"""Which chain to take: the simplest within its noise, unless a rival is clearly better."""

import numpy as np
import pytest

import stationary as st
from stationary.data._base import Misplaced
from stationary.terms.trust import Chosen
from stationary.trust.scoring import Score, recommend

HELD = [st.Windows(np.arange(10.0, 26.0), [[5, 5]] * 16, [0, 1])]
NOISE = np.tile([-0.1, 0.1], 8)


def score(mean, noise=0.0, wrong=0.01):
    return Score(1.0 + mean + noise * NOISE, Misplaced(wrong, 0.0))


def chosen(rival=0.5, simple=0.01, noise=1.0, wrong=0.01, fitting=("simple", "rich")):
    scores = {"simple": score(simple, noise, wrong), "rich": score(0.0), "trend": score(rival)}
    return recommend(scores, {"simple": 1, "rich": 3}, fitting, HELD)


def test_the_simplest_chain_within_the_noise_of_the_best_is_taken():
    assert chosen().model == "simple"  # 0.01 behind, give or take 0.1 / sqrt(16)
    assert chosen(simple=0.05).model == "rich"
    assert chosen(noise=0.0).model == "rich"


@pytest.mark.parametrize(("rival", "name"), [(-0.2, None), (0.2, "simple")])
def test_a_rival_that_is_clearly_better_leaves_none(rival, name):
    found = chosen(rival=rival)
    assert (found.model, found.rival) == (name, "trend")
    assert (found.why is Chosen.RIVAL) == (name is None)


def test_a_chain_that_is_wrong_or_does_not_fit_is_not_taken():
    assert chosen(wrong=0.3).model == "rich"
    assert chosen(fitting=("rich",)).model == "rich"
    found = chosen(fitting=())
    assert (found.model, found.why) == (None, Chosen.MISFIT)
