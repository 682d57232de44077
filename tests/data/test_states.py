"""The conditional likelihood, by hand, by scipy and by autograd."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

import stationary as st
from stationary.data.states import (
    ObservationMap,
    States,
    conditional_nll,
    conditional_probabilities,
)

FIRST_TWO = ObservationMap.of_states([0, 1], 4)
LUMPED = ObservationMap(torch.tensor([0, 1, 1, 2]), 2)
SCATTERED = ObservationMap(torch.tensor([1, 2, 1, 0]), 2)
MAPS = [FIRST_TWO, LUMPED, SCATTERED]


def nll_and_gradient(pi, counts, observation):
    """The compiled pass of `States`, on steady states of one's own."""
    model = st.models.MMmK(capacity=len(observation.category) - 1)
    names = [tuple((observation.category == k).nonzero()[:, 0].tolist()) for k in range(2)]
    seen = States(counts, names).on(model)
    assert seen.map.category.tolist() == observation.category.tolist()
    x = torch.ones(len(pi), 1, dtype=torch.float64)
    value, by_pi, by_theta = seen.nll_and_gradient(model.at(x).with_pi(pi), counts)
    assert by_theta is None
    return value, by_pi


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


def test_by_hand():
    pi, counts = tensor([0.5, 0.3, 0.1, 0.1]), tensor([5.0, 3.0])
    expected = -5 * math.log(0.5 / 0.8) - 3 * math.log(0.3 / 0.8)
    assert conditional_nll(pi, counts, FIRST_TWO).tolist() == pytest.approx([expected])
    value, gradient = nll_and_gradient(pi, counts, FIRST_TWO)
    assert value == pytest.approx(expected)
    assert gradient[0].tolist() == pytest.approx([8 / 0.8 - 5 / 0.5, 8 / 0.8 - 3 / 0.3, 0.0, 0.0])


def test_the_map_is_a_matrix_of_disjoint_rows():
    A = LUMPED.dense()
    assert A.tolist() == [[1, 0, 0, 0], [0, 1, 1, 0]]
    assert LUMPED.observed.tolist() == [True, True, True, False]
    random = torch.Generator().manual_seed(0)
    for one in MAPS:
        pi = torch.rand(3, 4, generator=random, dtype=torch.float64)
        values = torch.rand(3, one.count, generator=random, dtype=torch.float64)
        torch.testing.assert_close(one.of(pi), pi @ one.dense().mT)
        torch.testing.assert_close(one.to_states(values), values @ one.dense())


def test_lumped_states_add_up():
    pi, counts = tensor([0.5, 0.3, 0.1, 0.1]), tensor([5.0, 4.0])
    expected = -5 * math.log(0.5 / 0.9) - 4 * math.log(0.4 / 0.9)
    assert conditional_nll(pi, counts, LUMPED).tolist() == pytest.approx([expected])
    assert conditional_probabilities(pi, LUMPED)[0].tolist() == pytest.approx([5 / 9, 4 / 9])


@pytest.mark.parametrize("observation", MAPS)
def test_equals_the_multinomial_likelihood_up_to_its_constant(observation):
    pi, counts, observation = random_case(observation)
    shares = conditional_probabilities(pi, observation).numpy()
    log_likelihood = scipy.stats.multinomial.logpmf(
        counts.numpy(), counts.sum(-1).numpy().astype(int), shares
    )
    # The constant is the number of orders the counts may come in.
    orders = scipy.special.gammaln(counts.sum(-1).numpy() + 1)
    orders -= scipy.special.gammaln(counts.numpy() + 1).sum(-1)
    ours = conditional_nll(pi, counts, observation).numpy()
    np.testing.assert_allclose(ours, orders - log_likelihood, rtol=1e-10)


@pytest.mark.parametrize("observation", MAPS)
def test_the_compiled_pass_equals_autograd(observation):
    pi, counts, observation = random_case(observation, seed=1)
    leaf = pi.clone().requires_grad_()
    loss = conditional_nll(leaf, counts, observation)
    loss.sum().backward()
    value, gradient = nll_and_gradient(pi, counts, observation)
    assert value == pytest.approx(loss.sum().item(), rel=1e-13)
    torch.testing.assert_close(gradient, leaf.grad, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("observation", MAPS)
def test_derivatives(observation):
    pi, counts, observation = random_case(observation, seed=2, windows=2)
    pi.requires_grad_()
    assert torch.autograd.gradcheck(lambda pi: conditional_nll(pi, counts, observation), pi)
    assert torch.autograd.gradgradcheck(lambda pi: conditional_nll(pi, counts, observation), pi)


@pytest.mark.parametrize("observation", MAPS)
def test_a_scale_of_pi_does_not_matter(observation):
    # Conditioned on being observed, only ratios count: the gradient is orthogonal to pi.
    pi, counts, observation = random_case(observation, seed=3)
    _, gradient = nll_and_gradient(pi, counts, observation)
    assert float((gradient * pi).sum(-1).abs().max()) < 1e-12
    torch.testing.assert_close(
        conditional_nll(pi, counts, observation), conditional_nll(pi / 7, counts, observation)
    )


def test_no_count_of_an_impossible_category_costs_nothing():
    pi, counts = tensor([1.0, 0.0, 0.0, 0.0]), tensor([5.0, 0.0])
    leaf = pi.clone().requires_grad_()
    loss = conditional_nll(leaf, counts, FIRST_TWO)
    loss.sum().backward()
    assert loss.tolist() == [0.0]
    assert bool(leaf.grad.isfinite().all())
    value, gradient = nll_and_gradient(pi, counts, FIRST_TWO)
    assert value == 0.0
    assert bool(gradient.isfinite().all())


def test_a_count_of_an_impossible_category_is_costly_but_finite():
    # An optimiser that strays there can come back.
    pi, counts = tensor([1.0, 0.0, 0.0, 0.0]), tensor([5.0, 1.0])
    loss = conditional_nll(pi, counts, FIRST_TWO)
    value, gradient = nll_and_gradient(pi, counts, FIRST_TWO)
    assert 600 < float(loss) < 710
    assert value == pytest.approx(loss.item())
    assert float(gradient[0, 1]) < -1e280


def test_every_category_impossible_stays_finite():
    pi, counts = tensor([0.0, 0.0, 0.5, 0.5]), tensor([5.0, 1.0])
    leaf = pi.clone().requires_grad_()
    loss = conditional_nll(leaf, counts, FIRST_TWO)
    loss.sum().backward()
    value, gradient = nll_and_gradient(pi, counts, FIRST_TWO)
    assert value == pytest.approx(loss.item())
    for result in (loss, leaf.grad, gradient):
        assert bool(result.isfinite().all())


def test_rare_categories_keep_their_digits():
    # Two states of probability 1e-200 and 3e-200, of which only the ratio is seen.
    pi, counts = tensor([1e-200, 3e-200, 0.5, 0.5]), tensor([1.0, 1.0])
    expected = -math.log(0.25) - math.log(0.75)
    assert conditional_nll(pi, counts, FIRST_TWO).tolist() == pytest.approx([expected], rel=1e-14)
    value, _ = nll_and_gradient(pi, counts, FIRST_TWO)
    assert value == pytest.approx(expected, rel=1e-14)


def test_a_window_with_no_counts_says_nothing():
    pi, _, _ = random_case(FIRST_TWO, windows=1)
    value, gradient = nll_and_gradient(pi, tensor([0.0, 0.0]), FIRST_TWO)
    assert value == 0.0
    assert not bool(gradient.any())


def test_no_windows():
    pi, counts = torch.empty(0, 4, dtype=torch.float64), torch.empty(0, 2, dtype=torch.float64)
    assert conditional_nll(pi, counts, FIRST_TWO).shape == (0,)
    value, gradient = nll_and_gradient(pi, counts, FIRST_TWO)
    assert value == 0.0
    assert gradient.shape == (0, 4)
