"""Inverting a steady state, on graphs with known scores."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import stationary as st
from stationary.errors import InputError, SolverError
from stationary.models import navigation_scores


def graph(n, degree, seed):
    """A strongly connected graph with random links."""
    random = np.random.default_rng(seed)
    src = np.concatenate([np.arange(n), np.repeat(np.arange(n), degree - 1)])
    dst = np.concatenate([(np.arange(n) + 1) % n, random.integers(0, n, n * (degree - 1))])
    links = np.unique(src * n + dst)
    links = torch.from_numpy(links[links // n != links % n])
    return st.Edges(links // n, links % n, n)


def walk(edges, scores):
    to = scores[edges.dst]
    total = torch.zeros(edges.n, dtype=torch.float64).index_add(0, edges.src, to)
    return st.Generator(edges, to / total[edges.src])


def random_scores(n, seed):
    return torch.from_numpy(np.random.default_rng(seed).lognormal(0.0, 1.5, n))


@pytest.mark.parametrize(("n", "degree"), [(5, 3), (60, 4), (800, 6)])
def test_known_scores_are_found(n, degree):
    edges, scores = graph(n, degree, seed=n), random_scores(n, seed=1)
    pi = st.steady_state(walk(edges, scores)).pi
    found = navigation_scores(edges, 1e6 * pi)
    assert found.residual < 1e-10
    assert found.sets.tolist() == [0] * n
    ratio = found.scores / scores
    torch.testing.assert_close(ratio, ratio.mean().expand(n), rtol=1e-8, atol=0.0)
    assert abs(float(found.scores.log().mean())) < 1e-12
    torch.testing.assert_close(st.steady_state(found.walk).pi, pi, rtol=1e-9, atol=0.0)


def test_any_views_on_a_complete_graph_without_a_majority():
    edges, views = st.Edges.complete(6), torch.tensor([5.0, 1.0, 2.0, 3.0, 4.0, 1.0]).double()
    found = navigation_scores(edges, views)
    pi = st.steady_state(found.walk).pi
    torch.testing.assert_close(pi, views / views.sum(), rtol=1e-9, atol=0.0)

    def loss(t):  # the concave function of the docstring, by another optimiser
        total = torch.zeros(6).double().index_add(0, edges.src, t.exp()[edges.dst])
        return -(views * (t - total.log())).sum()

    def both(z):
        t = torch.tensor(z, requires_grad=True)
        value = loss(t)
        return value.item(), torch.autograd.grad(value, t)[0].numpy()

    best = minimize(both, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-9})
    t = torch.from_numpy(best.x - best.x.mean())
    torch.testing.assert_close(found.scores.log(), t, rtol=0.0, atol=1e-6)


def test_scores_of_pages_without_common_predecessors_are_not_comparable():
    # Two and two in turn: from either side one may only go to the other.
    edges = st.Edges.from_pairs(
        [(a, b) for a in (0, 1) for b in (2, 3)] + [(b, a) for a in (0, 1) for b in (2, 3)], 4
    )
    pi = st.steady_state(walk(edges, torch.tensor([1.0, 2.0, 3.0, 4.0]).double())).pi
    found = navigation_scores(edges, pi)
    assert found.sets[0] == found.sets[1] != found.sets[2] == found.sets[3]
    assert float(found.scores[1] / found.scores[0]) == pytest.approx(2.0)
    assert float(found.scores[3] / found.scores[2]) == pytest.approx(4 / 3)
    assert float(found.scores[0] * found.scores[1]) == pytest.approx(1.0)


def test_pages_that_are_never_viewed_have_no_score():
    edges, scores = graph(30, 5, seed=2), random_scores(30, seed=3)
    scores[7] = 0.0
    state = st.steady_state(walk(edges, scores))
    assert float(state.pi[7]) == 0.0
    found = navigation_scores(edges, state.pi)
    assert float(found.scores[7]) == 0.0
    assert int(found.sets[7]) == -1
    torch.testing.assert_close(st.steady_state(found.walk).pi, state.pi, rtol=1e-9, atol=0.0)


def test_views_that_no_walk_has_are_refused():
    edges = st.Edges.from_pairs([(0, 1), (1, 0), (1, 2), (2, 0)], 3)
    with pytest.raises(SolverError, match=r"no scores were found.*leave out links"):
        navigation_scores(edges, torch.tensor([1.0, 5.0, 1.0]).double())
    with pytest.raises(InputError, match="page 2 is viewed, but has no link from"):
        navigation_scores(st.Edges.from_pairs([(0, 1), (1, 0), (2, 0)], 3), torch.ones(3))
    with pytest.raises(InputError, match=r"one number per page \(3\)"):
        navigation_scores(edges, torch.ones(4))
    with pytest.raises(InputError, match="not negative"):
        navigation_scores(edges, torch.tensor([1.0, -1.0, 1.0]))
    with pytest.raises(InputError, match="tensor of numbers"):
        navigation_scores(edges, [1.0, 1.0, 1.0])
    with pytest.raises(InputError, match="tolerance must be positive"):
        navigation_scores(edges, torch.ones(3), tolerance=0.0)


@pytest.mark.parametrize("views", [[1.0, 2.0], [4.0, 1.0, 1.0, 1.0, 1.0], [9.0, 1.0, 1.0, 1.0]])
def test_a_majority_of_the_views_on_one_page_has_no_scores(views):
    # They run away, which must end in the same error.
    with pytest.raises(SolverError, match=r"no scores were found.*leave out links"):
        navigation_scores(st.Edges.complete(len(views)), torch.tensor(views).double())


@pytest.mark.parametrize("unit", [1e-320, 1e300, 4e307])
def test_the_unit_of_views_does_not_matter(unit):
    edges = st.Edges.from_pairs([(0, 1), (0, 2), (1, 0), (2, 0), (1, 2)], 3)
    found = navigation_scores(edges, unit * torch.tensor([4.0, 2.0, 3.0]).double())
    torch.testing.assert_close(found.scores, torch.ones(3).double(), rtol=1e-3, atol=0.0)


@pytest.mark.slow
def test_a_million_links():
    n = 100_000
    edges, scores = graph(n, 10, seed=0), random_scores(n, seed=1)
    truth = walk(edges, scores)
    pi = torch.full((n,), 1 / n, dtype=torch.float64)
    for _ in range(300):  # a walk that mixes fast; half of the time it stays
        pi = (pi + torch.zeros_like(pi).index_add(0, edges.dst, pi[edges.src] * truth.rates)) / 2
    found = navigation_scores(edges, pi)
    ratio = found.scores / scores
    torch.testing.assert_close(ratio, ratio.mean().expand(n), rtol=1e-8, atol=0.0)
