"""The conditional likelihood, by hand, by scipy and by autograd."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from stationary.data.losses import ObservationMap, conditional_nll, conditional_probabilities

FIRST_TWO = ObservationMap.of_states([0, 1], 4)
LUMPED = ObservationMap(torch.tensor([0, 1, 1, 2]), 2)
SCATTERED = ObservationMap(torch.tensor([1, 2, 1, 0]), 2)
MAPS = [FIRST_TWO, LUMPED, SCATTERED]


def tensor(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def random_case(observation, seed=0, windows=5):
    random = torch.Generator().manual_seed(seed)
    pi = 0.05 + torch.rand(
        windows, len(observation.category), generator=random, dtype=torch.float64
    )
    shape = (windows, observation.count)
    counts = torch.randint(0, 50, shape, generator=random).to(torch.float64)
    return pi / pi.sum(-1, keepdim=True), counts, observation


@pytest.mark.parametrize(
    ("observation", "counts", "p"),
    [(FIRST_TWO, [5.0, 3.0], [0.5, 0.3]), (LUMPED, [5.0, 4.0], [0.5, 0.4])],
)
def test_by_hand(observation, counts, p):
    pi, y, p = tensor([0.5, 0.3, 0.1, 0.1]), np.array(counts), np.array(p)
    expected = -(y * np.log(p / p.sum())).sum()
    leaf = pi.requires_grad_()
    loss = conditional_nll(leaf, tensor(counts), observation)
    assert loss.tolist() == pytest.approx([expected])
    loss.sum().backward()
    slopes = np.append(y.sum() / p.sum() - y / p, 0.0)  # and zero for the states not observed
    assert leaf.grad[0].tolist() == pytest.approx(slopes[observation.category].tolist())


def test_the_map_is_a_matrix_of_disjoint_rows():
    assert LUMPED.dense().tolist() == [[1, 0, 0, 0], [0, 1, 1, 0]]
    assert LUMPED.observed.tolist() == [True, True, True, False]
    random = torch.Generator().manual_seed(0)
    for one in MAPS:
        pi = torch.rand(3, 4, generator=random, dtype=torch.float64)
        values = torch.rand(3, one.count, generator=random, dtype=torch.float64)
        torch.testing.assert_close(one.of(pi), pi @ one.dense().mT)
        torch.testing.assert_close(one.to_states(values), values @ one.dense())


@pytest.mark.parametrize("observation", MAPS)
def test_equals_the_multinomial_likelihood_up_to_its_constant(observation):
    pi, counts, observation = random_case(observation)
    shares, y = conditional_probabilities(pi, observation).numpy(), counts.numpy()
    log_likelihood = scipy.stats.multinomial.logpmf(y, y.sum(-1).astype(int), shares)
    # The constant is the number of orders the counts may come in.
    orders = scipy.special.gammaln(y.sum(-1) + 1) - scipy.special.gammaln(y + 1).sum(-1)
    ours = conditional_nll(pi, counts, observation).numpy()
    np.testing.assert_allclose(ours, orders - log_likelihood, rtol=1e-10)


@pytest.mark.parametrize("observation", MAPS)
def test_derivatives(observation):
    pi, counts, observation = random_case(observation, seed=2, windows=2)
    leaf = pi.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda pi: conditional_nll(pi, counts, observation), leaf)
    assert torch.autograd.gradgradcheck(lambda pi: conditional_nll(pi, counts, observation), leaf)
    conditional_nll(leaf, counts, observation).sum().backward()
    # Conditioned on being observed, only ratios count: the gradient is orthogonal to pi.
    assert float((leaf.grad * pi).sum(-1).abs().max()) < 1e-12


@pytest.mark.parametrize(
    ("pi", "counts", "low", "high"),
    [
        ([1.0, 0.0, 0.0, 0.0], [5.0, 0.0], 0.0, 0.0),  # no count of what is impossible
        ([1.0, 0.0, 0.0, 0.0], [5.0, 1.0], 600.0, 710.0),  # costly, so that a fit comes back
        ([0.0, 0.0, 0.5, 0.5], [5.0, 1.0], 1.0, 10.0),  # every category is impossible
        ([1e-200, 3e-200, 0.5, 0.5], [1.0, 1.0], math.log(16 / 3), math.log(16 / 3)),
        ([0.4, 0.3, 0.2, 0.1], [0.0, 0.0], 0.0, 0.0),  # a window without counts
    ],
)
def test_rare_and_impossible_categories_stay_finite(pi, counts, low, high):
    leaf = tensor(pi).requires_grad_()
    loss = conditional_nll(leaf, tensor(counts), FIRST_TWO)
    loss.sum().backward()
    assert low * (1 - 1e-14) <= loss.item() <= high * (1 + 1e-14)
    assert bool(leaf.grad.isfinite().all())
    assert any(counts) or not bool(leaf.grad.any())
    assert (float(leaf.grad[0, 1]) < -1e280) == (low == 600.0)


def test_no_windows():
    pi, counts = torch.empty(0, 4, dtype=torch.float64), torch.empty(0, 2, dtype=torch.float64)
    assert conditional_nll(pi, counts, FIRST_TWO).shape == (0,)


def test_the_likelihood_of_counts_is_a_number_in_single_precision():
    pi = torch.tensor([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]], requires_grad=True)
    nll = conditional_nll(pi, torch.tensor([[5.0, 3.0], [5.0, 3.0]]), [0, 1])
    exact = -(5 * math.log(5 / 8) + 3 * math.log(3 / 8))
    assert nll[0].item() == pytest.approx(exact, rel=1e-6)
    assert 100 < nll[1].item() < 1000  # what was counted is impossible
    nll[0].backward()
    assert bool(pi.grad[0].isfinite().all())
