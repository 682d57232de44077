"""Spectral gap and mixing time: closed forms and naive loops."""

import math

import numpy as np
import pytest
import torch

import problems
import stationary as st
from stationary.errors import InputError, ReducibleError


def mm1k(arrivals, service, states):
    model = st.models.MMmK(servers=1, capacity=states - 1, service_rate=service)
    return model(arrivals)


@pytest.mark.parametrize("arrival", [1.0, 11.0, 24.0, 25.0, 60.0])
@pytest.mark.parametrize("states", [2, 3, 20])
@pytest.mark.parametrize("gamma", [None, 200.0])
def test_gap_of_mm1k_in_closed_form(arrival, states, gamma):
    # The eigenvalues of Q are 0 and -(a + s) + 2 sqrt(a s) cos(k pi / n), k = 1..n-1.
    gen = mm1k([arrival], 25.0, states)
    k = np.arange(1, states)
    decay = -(arrival + 25) + 2 * math.sqrt(arrival * 25) * np.cos(k * math.pi / states)
    rate = float(gen.event_rate(gamma).detach())
    expected = 1 - np.abs(1 + decay / rate).max()
    gap = st.spectral_gap(gen, gamma)
    assert gap.tolist() == pytest.approx([expected], abs=1e-13)


def test_gap_of_a_chain_that_is_not_reversible():
    gen = st.Generator.from_dense(problems.random_rates(4, n=6, seed=0))
    P, _ = gen.uniformize()
    modulus = np.sort(np.abs(np.linalg.eigvals(P.numpy())))
    np.testing.assert_allclose(st.spectral_gap(gen).numpy(), 1 - modulus[:, -2], atol=1e-13)


def test_gap_of_a_cycle_with_complex_eigenvalues():
    # P = I - (I - C) / 2 with the shift C: |lambda_2| = |1 + exp(2 pi i / n)| / 2 = cos(pi / n).
    Q = torch.eye(5, dtype=torch.float64).roll(1, 1)
    assert float(st.spectral_gap(st.Generator.from_dense(Q), 2.0)) == pytest.approx(
        1 - math.cos(math.pi / 5), abs=1e-13
    )


def test_gap_needs_an_irreducible_chain():
    gen = st.Generator.from_dense(torch.zeros(2, 2, dtype=torch.float64))
    for function in (st.spectral_gap, st.mixing_time):
        with pytest.raises(ReducibleError, match="reducible"):
            function(gen)


@pytest.mark.parametrize("eps", [10.0, 0.3, 1e-2, 1e-5, 1e-9])
def test_mixing_time_agrees_with_a_loop_over_powers(eps):
    Q = problems.random_rates(2, 3, n=5, seed=1)
    Q[..., 0, 1:] *= 0.02  # a state that is left slowly, so that mixing takes a while
    gen = st.Generator.from_dense(Q)
    expected = []
    for P in gen.uniformize()[0].reshape(-1, 5, 5):
        power, steps = P, 1
        while (power - power.mean(0)).square().sum(-1).max() > eps:
            power, steps = power @ P, steps + 1
        expected.append(steps)
    assert st.mixing_time(gen, eps).flatten().tolist() == expected
    assert st.mixing_time(gen, eps).shape == (2, 3)


def test_a_larger_event_rate_takes_more_steps():
    gen = mm1k([10.0, 20.0], 25.0, 20)
    assert bool((st.mixing_time(gen, gamma=500.0) > st.mixing_time(gen)).all())


@pytest.mark.parametrize("eps", [0.0, -1.0, math.nan])
def test_eps_must_be_positive(eps):
    with pytest.raises(InputError, match="eps must be positive"):
        st.mixing_time(mm1k([10.0], 25.0, 5), eps)


def test_an_eps_below_rounding_is_refused_not_looped_on():
    with pytest.raises(InputError, match="does not mix"):
        st.mixing_time(mm1k([10.0], 25.0, 20), 1e-300)


@pytest.mark.parametrize("batch", [(), (3,), (0,)])
def test_a_single_state_is_mixed_at_once(batch):
    gen = st.Generator.from_dense(torch.zeros(*batch, 1, 1, dtype=torch.float64))
    assert torch.equal(st.mixing_time(gen), torch.ones(batch, dtype=torch.long))
    assert torch.equal(st.spectral_gap(gen), torch.ones(batch, dtype=torch.float64))
