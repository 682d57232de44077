"""What a fit minimises: value, gradient and Hessian against oracles, and what leaves them alone."""

import threading

import mpmath
import numpy as np
import pytest
import torch

import stationary as st
from stationary.data.losses import conditional_nll
from stationary.learning.likelihood import Likelihood
from stationary.models.chunks import steady_states
from stationary.solvers import GTH

X = [3.0, 5.0, 5.0, 8.0, 3.0]
M = st.models


def machine(load, warmth, p):
    wear = p.wear * load * torch.exp(p.heat * warmth)
    still = torch.ones_like(wear)
    return torch.cat([wear, 2 * still, (p.worsen * load).expand_as(wear), still], -1)


def two_inputs():
    return M.FromFunction(
        machine,
        states=["up", "slow", "down"],
        params={"wear": 0.3, "heat": M.Param(-0.5, positive=False), "worsen": 0.2},
        edges=[(0, 1), (1, 0), (1, 2), (2, 1)],
        inputs=["load", "warmth"],
    )


def windows(model, observe, seed=0):
    x = np.array([[load, 0.3 * load] for load in X]) if len(model.inputs) == 2 else np.array(X)
    counts = np.random.default_rng(seed).integers(1, 40, size=(len(X), len(observe)))
    return st.Windows(x, counts, observe, inputs=model.inputs)


MODELS = {
    "mmmk": (M.MMmK(servers=2, capacity=5), [0, 1, (2, 3)]),
    "multidiagonal": (M.MultiDiagonal(depth=3, capacity=5), [0, 1, 2, 5]),
    "uppertriangular": (M.UpperTriangular(states=4), [1, 2, "overload"]),
    "relaxed": (M.Relaxed(M.MMmK(servers=1, capacity=3), alpha=3.0), [0, 1]),
    "two inputs": (two_inputs(), ["up", "down"]),
}


@pytest.fixture(params=MODELS)
def case(request):
    model, observe = MODELS[request.param]
    # Away from every symmetric point, where a wrong term could vanish.
    z = np.random.default_rng(1).normal(0.5, 0.7, len(model.param_names))
    return model, windows(model, observe), z


def central(function, z, step):
    """Finite differences of a function of ``z``, one row a parameter."""
    sides = np.eye(len(z)) * step
    return np.array([(function(z + h) - function(z - h)) / (2 * step) for h in sides])


def test_gradient_is_that_of_finite_differences(case):
    model, data, z = case
    likelihood = Likelihood(model, data)
    slope = central(lambda at: likelihood.value_and_gradient(at)[0], z, 1e-5)
    np.testing.assert_allclose(likelihood.value_and_gradient(z)[1], slope, rtol=2e-7, atol=2e-7)


def test_hessian_is_that_of_finite_differences(case):
    model, data, z = case
    likelihood = Likelihood(model, data)
    H = likelihood.hessian(z)
    expected = central(lambda at: likelihood.value_and_gradient(at)[1], z, 1e-5)
    np.testing.assert_array_equal(H, H.T)
    np.testing.assert_allclose(H, expected, rtol=1e-6, atol=1e-6 * np.abs(H).max())


def arrivals(x, n):
    Q = mpmath.zeros(n)
    for k in range(n - 1):
        Q[k, k + 1] = x
    return Q


def mmmk_chain(x, theta):
    Q = arrivals(x, 6)
    for k in range(1, 6):
        Q[k, k - 1] = min(k, 2) * theta[0]
    return Q


def multidiagonal_chain(x, theta):
    Q = arrivals(x, 6)
    for k in range(1, 6):
        for d in range(1, min(k, 3) + 1):
            Q[k, k - d] = theta[d - 1]
    return Q


def oracle(chain, data, z):
    """Conditional negative log-likelihood from the linear equations, in as many digits as set."""
    theta = [mpmath.exp(value) for value in z]
    total = mpmath.mpf(0)
    for (x,), counts in zip(data.x.tolist(), data.counts.tolist(), strict=True):
        A = chain(mpmath.mpf(x), theta)
        for k in range(A.rows):
            A[k, k] = -sum(A[k, j] for j in range(A.rows))
        A = A.T
        A[0, :] = mpmath.ones(1, A.rows)
        right = mpmath.zeros(A.rows, 1)
        right[0] = 1
        pi = mpmath.lu_solve(A, right)
        members = [c if isinstance(c, tuple) else (c,) for c in data.observe]
        p = [sum(pi[s] for s in states) for states in members]
        total -= sum(y * mpmath.log(share / sum(p)) for y, share in zip(counts, p, strict=True))
    return total


@pytest.mark.parametrize(
    ("name", "chain"), [("mmmk", mmmk_chain), ("multidiagonal", multidiagonal_chain)]
)
def test_agrees_with_forty_digits(name, chain):
    model, observe = MODELS[name]
    data = windows(model, observe)
    z = np.random.default_rng(3).normal(1.0, 0.5, len(model.param_names))
    value, gradient = Likelihood(model, data).value_and_gradient(z)
    with mpmath.workdps(40):
        at = [mpmath.mpf(float(v)) for v in z]
        exact = oracle(chain, data, at)
        assert value == pytest.approx(float(exact), rel=1e-14)
        for k in range(len(z)):
            order = tuple(int(k == j) for j in range(len(z)))
            slope = mpmath.diff(lambda *zs: oracle(chain, data, zs), at, order)
            assert gradient[k] == pytest.approx(float(slope), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("solver", [st.solvers.GTH(), st.solvers.LU(), st.solvers.BirthDeath()])
def test_the_solver_does_not_change_it(solver):
    model, observe = MODELS["mmmk"]
    data, z = windows(model, observe), np.array([0.7])
    value, gradient = Likelihood(model, data).value_and_gradient(z)
    other = Likelihood(model, data, solver=solver)
    assert other.value_and_gradient(z)[0] == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(other.value_and_gradient(z)[1], gradient, rtol=1e-10)
    np.testing.assert_allclose(other.hessian(z), Likelihood(model, data).hessian(z), rtol=1e-9)


def test_penalty_is_added_once_with_its_gradient():
    base = M.MMmK(servers=1, capacity=3)
    data = windows(base, [0, 1])
    z = np.random.default_rng(4).normal(-1.0, 0.5, 1 + 6)
    extra = np.exp(z[1:])
    free, strict = (Likelihood(M.Relaxed(base, alpha=a), data) for a in (1e-300, 7.0))
    values, gradients = zip(*(o.value_and_gradient(z) for o in (free, strict)), strict=True)
    assert values[1] - values[0] == pytest.approx(7 * (extra**2).sum(), rel=1e-12)
    np.testing.assert_allclose(gradients[1][1:] - gradients[0][1:], 14 * extra**2, rtol=1e-10)
    assert gradients[1][0] == pytest.approx(gradients[0][0], rel=1e-12)
    # On the scale of the logarithm, d2/dz2 of exp(2z) is 4 exp(2z).
    difference = strict.hessian(z) - free.hessian(z)
    np.testing.assert_allclose(difference, np.diag([0, *28 * extra**2]), rtol=1e-9, atol=1e-9)


def test_pooled_windows_leave_value_and_derivatives_as_they_are(case):
    model, data, z = case
    together = Likelihood(model, data)
    assert len(together.x) < len(data)
    apart = [Likelihood(model, data.select([k])) for k in range(len(data))]
    # Every window on its own carries the penalty; together they carry it once.
    once = model.penalty(model.natural(torch.tensor(z)))
    surplus = (len(data) - 1) * float(once)
    values, gradients = zip(*(o.value_and_gradient(z) for o in apart), strict=True)
    assert together.value_and_gradient(z)[0] == pytest.approx(sum(values) - surplus, rel=1e-13)
    if not surplus:
        gradient = together.value_and_gradient(z)[1]
        np.testing.assert_allclose(gradient, sum(gradients), rtol=1e-11, atol=1e-11)
        H = sum(o.hessian(z) for o in apart)
        np.testing.assert_allclose(together.hessian(z), H, rtol=1e-10, atol=1e-10)


def test_value_is_the_sum_of_the_windows_likelihoods(case):
    model, data, z = case
    theta = model.natural(torch.tensor(z))
    pi = st.steady_state(model.generator(data.x, theta)).pi
    nll = conditional_nll(pi, data.counts, data.observation(model)).sum() + model.penalty(theta)
    assert Likelihood(model, data).value_and_gradient(z)[0] == pytest.approx(float(nll), rel=1e-13)


def test_log_terms_are_of_the_distinct_inputs():
    model, observe = MODELS["mmmk"]
    data = windows(model, observe)
    likelihood = Likelihood(model, data)
    logs = likelihood.log_terms(torch.zeros(1, dtype=torch.float64), likelihood.x)
    assert logs.shape == (3, 3)
    pi = M.MMmK(servers=2, capacity=5, service_rate=1.0).closed_form([3.0, 5.0, 8.0])
    p = torch.stack([pi[:, 0], pi[:, 1], pi[:, 2] + pi[:, 3]], -1)
    torch.testing.assert_close(logs, (p / p.sum(-1, keepdim=True)).log(), rtol=1e-12, atol=0)


def test_counts_its_evaluations_and_leaves_the_model_alone():
    model = M.MMmK(capacity=4, service_rate=3.0)
    likelihood = Likelihood(model, windows(model, [0, 1]))
    z = np.array([2.0])
    likelihood.value_and_gradient(z)
    likelihood.value_and_gradient(z)
    assert likelihood.evaluations == 2
    assert model.estimates == {"service_rate": 3.0}
    assert z.tolist() == [2.0]


def test_large_chains_go_a_few_inputs_at_a_time(case, monkeypatch):
    model, data, z = case
    whole = Likelihood(model, data)
    value, gradient = whole.value_and_gradient(z)
    hessian, slopes = whole.hessian(z), whole.slopes(z)
    monkeypatch.setattr("stationary.models.chunks._SPARSE", 1)
    monkeypatch.setattr("stationary.models.chunks._NUMBERS", 1)
    parts = Likelihood(model, data)
    again = parts.value_and_gradient(z)
    assert again[0] == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(again[1], gradient, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parts.hessian(z), hessian, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(parts.slopes(z), slopes, rtol=1e-9, atol=1e-9)


def test_the_hessian_of_a_large_chain_takes_no_factor_of_its_own(monkeypatch):
    model, observe = MODELS["mmmk"]
    monkeypatch.setattr("stationary.models.chunks._SPARSE", 1)
    monkeypatch.setattr("stationary.models.chunks._NUMBERS", 1)
    batches = []

    class Watched(GTH):
        def factor(self, generator):
            batches.append(len(generator.rates))
            return super().factor(generator)

    likelihood = Likelihood(model, windows(model, observe), Watched())
    z = np.zeros(1)
    likelihood.value_and_gradient(z)
    likelihood.hessian(z)
    assert batches == [1, 1, 1]  # one chain at a time, each once
    likelihood.value_and_gradient(z + 0.1)
    assert len(batches) == 6


def test_parts_of_large_chains_run_in_threads(monkeypatch):
    model, observe = MODELS["mmmk"]
    data, z = windows(model, observe), np.array([0.3])
    expected = Likelihood(model, data).hessian(z)
    monkeypatch.setattr("stationary.models.chunks._SPARSE", 1)
    monkeypatch.setattr("stationary.models.chunks._NUMBERS", 1)
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    names = set()

    class Watched(GTH):
        def factor(self, generator):
            names.add(threading.current_thread().name)
            return super().factor(generator)

    found = Likelihood(model, data, Watched()).hessian(z)
    assert threading.main_thread().name not in names
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    pi = steady_states(model, model.as_inputs([3.0, 5.0]), solver=Watched())
    assert not pi.requires_grad
