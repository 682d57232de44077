"""Aggregate panels: conditional least squares, its noise correction, and what determines what."""

import numpy as np
import pytest
from scipy.optimize import minimize

from stationary.errors import InputError
from stationary.learning.panels import panel_transitions

P = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.3, 0.0, 0.7]])


def panel(random, people, times, P=P):
    """Counts of a population of independent chains, from an even start."""
    counts = [random.multinomial(people, np.full(len(P), 1 / len(P)))]
    for _ in range(times):
        counts.append(random.multinomial(counts[-1], P).sum(0))
    return np.array(counts, dtype=float)


def errors(counts, noise=0.0):
    return np.abs(panel_transitions(counts, noise).numpy() - P)


def test_counts_without_chance_give_the_chain_itself():
    counts = [np.array([600.0, 300.0, 100.0])]
    for _ in range(6):
        counts.append(counts[-1] @ P)
    np.testing.assert_allclose(panel_transitions(counts), P, atol=1e-8)


def test_the_unit_of_counts_does_not_matter():
    counts = panel(np.random.default_rng(5), 40, 30)
    np.testing.assert_allclose(panel_transitions(1e200 * counts), panel_transitions(counts))


def test_it_is_the_least_sum_of_squares_among_stochastic_matrices():
    counts = panel(np.random.default_rng(3), 40, 30)
    found = panel_transitions(counts).numpy()
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-12)
    assert found.min() == 0.0  # a constraint binds, or there would be nothing to test

    def squares(p):
        return ((counts[1:] - counts[:-1] @ p.reshape(3, 3)) ** 2).sum()

    rows = [{"type": "eq", "fun": lambda p, k=k: p[3 * k : 3 * k + 3].sum() - 1} for k in range(3)]
    best = minimize(
        squares,
        np.full(9, 1 / 3),
        method="SLSQP",
        bounds=[(0, 1)] * 9,
        constraints=rows,
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert squares(found) <= best.fun + 1e-6
    np.testing.assert_allclose(found, best.x.reshape(3, 3), atol=1e-4)


def test_more_times_bring_it_closer():
    random = np.random.default_rng(0)
    means = [
        np.mean([errors(panel(random, 200, T)).mean() for _ in range(8)])
        for T in (200, 3200, 51200)
    ]
    # Four times closer for sixteen times as many; consistency with a fixed population.
    assert means[1] < means[0] / 2.5
    assert means[2] < means[1] / 2.5


@pytest.mark.parametrize(("noise", "share"), [(1.0, None), (0.6, 0.4)])
def test_noise_biases_it_unless_it_is_subtracted(noise, share):
    random = np.random.default_rng(1)
    exact = panel(random, 500, 40_000)
    seen = random.poisson(exact) if share is None else random.binomial(exact.astype(int), share)
    assert errors(seen).max() > 0.1
    assert errors(seen, noise).max() < 0.03


def test_several_panels_are_added_up():
    random = np.random.default_rng(2)
    panels = [panel(random, 100, 500) for _ in range(6)]
    assert errors(panels).max() < np.mean([errors(one).max() for one in panels])


@pytest.mark.parametrize(
    ("counts", "noise", "words"),
    [
        ([[1, 2]], 0.0, "two or more"),
        ([[1, 2], [-1, 4]], 0.0, "not negative"),
        ([[0, 0], [1, 4]], 0.0, "not all zero"),
        ([[1, 2], [2, 1]], 1.5, "between 0"),
        ([], 0.0, "two or more"),
        ([[5, 5]] * 4, 0.0, "vary in 1 of 2 directions"),
        ([[5, 5, 0], [4, 6, 0], [6, 4, 0]], 0.0, "vary in 2 of 3 directions"),
        ([[1, 0], [0, 1], [1, 0]], 1.0, "explains all of the counts"),
    ],
)
def test_what_is_wrong_is_said(counts, noise, words):
    with pytest.raises(InputError, match=words):
        panel_transitions(counts, noise)
