"""Draws whose chains cannot be solved, and draws that are read from curves."""

import gc
import weakref

import numpy as np
import pytest
import torch

import stationary as st
from stationary import words
from stationary.learning import curve, draws
from stationary.learning.autocorrelation import sum_covariances
from stationary.planning.forecast import forecast
from stationary.terms.trust import Reason

M = st.models


@pytest.fixture(scope="module")
def windows():
    truth = M.MMmK(capacity=8, service_rate=20.0)
    return st.simulate(truth, [4.0, 6.0, 8.0, 10.0, 12.0] * 8, duration=40.0, seed=3)


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
    found = forecast(fit.draws, [12.0], None, 0.95, fit.doubt, fit.horizon)
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
