import pytest
import torch

import stationary as st
from problems import finite_gradient
from stationary.errors import InputError
from stationary.gradients import BPTT, DivideAndConquerBPTT, Exact

MODEL = st.models.MultiDiagonal(2, 6, rate_1=4.0, rate_2=2.0)
GENERATOR = MODEL([2.0, 5.0])
G = torch.randn(2, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def gradient(strategy):
    rates = GENERATOR.rates.detach().requires_grad_()
    pi = st.steady_state(st.Generator(GENERATOR.edges, rates), gradient=strategy).pi
    return pi, torch.autograd.grad((pi * G).sum(), rates)[0]


@pytest.mark.parametrize("steps", [1, 2, 16, 128])
def test_both_are_matrix_powers_with_autograds_gradient(steps):
    rates = GENERATOR.rates.detach().requires_grad_()
    P, _ = st.Generator(GENERATOR.edges, rates).uniformize()
    value = torch.linalg.matrix_power(P, steps).mean(-2)
    expected = torch.autograd.grad((value * G).sum(), rates)[0]
    for strategy in (BPTT(steps), DivideAndConquerBPTT(steps)):
        pi, found = gradient(strategy)
        torch.testing.assert_close(pi, value.detach(), rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-13)


def test_lemma_1_is_the_gradient_at_fixed_gamma():
    gamma = GENERATOR.event_rate().detach()
    rates = GENERATOR.rates.detach().requires_grad_()
    P = torch.eye(7) + st.Generator(GENERATOR.edges, rates).dense() / gamma[:, None, None]
    p0 = torch.full((2, 7), 1 / 7, dtype=torch.float64)
    value = (p0[:, None] @ torch.linalg.matrix_power(P, 12))[:, 0]
    expected = torch.autograd.grad((value * G).sum(), rates)[0]
    found = finite_gradient(st.Generator(GENERATOR.edges, rates.detach()), 12, p0, G)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-14)


def test_finite_gradient_tends_to_the_exact_one():
    """Proposition 1, and a deliberately short horizon that has not got there."""
    exact = gradient(Exact())[1]
    p0 = torch.full((2, 7), 1 / 7, dtype=torch.float64)
    fixed = st.Generator(GENERATOR.edges, GENERATOR.rates.detach())
    errors = [
        (finite_gradient(fixed, steps, p0, G) - exact).abs().max().item()
        for steps in (4, 32, 256, 2048)
    ]
    assert errors[0] > 1e-3
    assert errors[0] > errors[1] > errors[2]
    assert errors[3] < 1e-13
    torch.testing.assert_close(gradient(BPTT(2048))[1], exact, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        *((lambda steps=steps: BPTT(steps), "steps must be") for steps in (0, -1, 1.5, True)),
        (lambda: DivideAndConquerBPTT(100), "power of two"),
        (lambda: BPTT(4, margin=-1.0), "margin"),
    ],
)
def test_bad_options_are_named(make, words):
    with pytest.raises(InputError, match=words):
        make()
