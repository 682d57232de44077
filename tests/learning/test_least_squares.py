import numpy as np
import pytest
import torch

import stationary as st
from stationary.errors import InputError
from stationary.learning.estimate import End
from stationary.learning.least_squares import conditional_least_squares, lagrangian
from stationary.learning.likelihood import Likelihood

# The paper's fast-mixing row, where the printed text says that the method fails.
TRUTH = st.models.MMmK(servers=1, capacity=19, service_rate=25.0)
WINDOWS = st.simulate(TRUTH, np.repeat([11.0, 13.0, 15.0], 10), duration=2.0, seed=0)
WINDOWS = WINDOWS.observing([0, 1])
MODEL = st.models.MMmK(servers=1, capacity=19)


def test_at_the_steady_state_the_penalty_vanishes():
    exact, z = Likelihood(MODEL, WINDOWS), torch.tensor([np.log(25.0)])
    logs = st.steady_state(TRUTH(exact.x)).pi.detach().log()
    assert lagrangian(exact, 7.0, z, logs).item() == pytest.approx(exact(z).item(), rel=1e-12)
    off = lagrangian(exact, 7.0, z + 0.1, logs) - lagrangian(exact, 7.0, z, logs)
    Q = MODEL.generator(exact.x, torch.exp(z + 0.1)).dense()
    expected = 7 * (logs.exp()[:, None] @ Q)[:, 0].norm(dim=-1).sum()
    torch.testing.assert_close(off, expected)


def test_data_and_theta_meet_only_through_the_penalty():
    z = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
    logits = torch.zeros(3, 20, dtype=torch.float64)
    (pull,) = torch.autograd.grad(lagrangian(Likelihood(MODEL, WINDOWS), 1e-9, z, logits), z)
    assert abs(pull.item()) < 1e-6


def test_it_struggles_where_the_exact_fit_does_not():
    exact = st.fit(MODEL, WINDOWS)
    assert exact.converged
    for weight in (1.0, 30.0, 1000.0):
        fit = conditional_least_squares(MODEL, WINDOWS, weight=weight, steps=1000)
        assert not fit.converged
        assert fit.nll - exact.nll > 1
        assert fit.ended.why is End.FOUND
        assert fit.ended.above > 1


def test_bad_options():
    with pytest.raises(InputError, match="weight"):
        conditional_least_squares(MODEL, WINDOWS, weight=0.0)
    with pytest.raises(InputError, match="steps"):
        conditional_least_squares(MODEL, WINDOWS, steps=0)
