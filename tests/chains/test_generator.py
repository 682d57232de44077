"""Generators: views of one chain, uniformization, classes, and what is refused."""

import math

import numpy as np
import pytest
import torch

import problems
import stationary as st
from stationary.errors import InputError, RateError, ReducibleError

CYCLE = [(0, 1), (1, 2), (2, 0)]


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def cycle(*rates):
    return st.Generator(st.Edges.from_pairs(CYCLE, 3), tensor(*rates))


# Views.


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_views_agree(batch):
    Q = problems.random_rates(*batch, n=4, seed=0)
    gen = st.Generator.from_dense(Q)
    dense = gen.dense()
    off = ~torch.eye(4, dtype=torch.bool)
    assert torch.equal(dense[..., off], Q[..., off])
    assert torch.equal(-dense.diagonal(dim1=-2, dim2=-1), gen.exit_rates())
    assert float(dense.sum(-1).abs().max()) < 1e-15
    index = (0,) * len(batch)
    sparse = gen.sparse(index)
    np.testing.assert_allclose(sparse.toarray(), dense[index].numpy(), rtol=1e-15)
    assert sparse.format == "csr"


def test_sparse_needs_one_chain():
    gen = st.Generator.from_dense(problems.random_rates(2, n=3, seed=0))
    with pytest.raises(InputError, match=r"index in the batch \(2,\)"):
        gen.sparse()
    assert gen.sparse(1).shape == (3, 3)


def test_from_dense_ignores_the_diagonal():
    Q = problems.random_rates(n=4, seed=0)
    other = Q.clone()
    other.diagonal()[:] = tensor(-7.0, math.nan, math.inf, 3.0)
    assert torch.equal(st.Generator.from_dense(Q).rates, st.Generator.from_dense(other).rates)


def test_the_dense_view_carries_gradients():
    rates = tensor(1.0, 2.0, 3.0).requires_grad_()
    st.Generator(st.Edges.from_pairs(CYCLE, 3), rates).dense()[0, 0].backward()
    assert rates.grad.tolist() == [-1.0, 0.0, 0.0]


def test_birth_death_edges_are_recognised_in_any_order_of_listing():
    edges = st.Edges.from_pairs([(2, 1), (0, 1), (1, 2), (1, 0)], 3)
    up, down = edges.birth_death
    assert up.tolist() == [1, 2]
    assert down.tolist() == [3, 0]


@pytest.mark.parametrize(
    "pairs",
    [
        CYCLE,
        [(0, 1), (1, 0), (1, 2), (0, 2)],  # a step of two
        [(0, 1), (1, 0), (1, 2)],  # one death missing
        [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0)],  # one edge more
    ],
)
def test_other_edges_are_not_birth_death(pairs):
    assert st.Edges.from_pairs(pairs, 3).birth_death is None


# Uniformization.


@pytest.mark.parametrize("batch", [(), (2,), (2, 2)])
@pytest.mark.parametrize("above", [None, 1.0001, 1.5, 100.0])
def test_uniformized_chains_keep_the_steady_state(batch, above):
    gen = st.Generator.from_dense(problems.random_rates(*batch, n=5, seed=1))
    largest = gen.exit_rates().amax(-1)
    P, gamma = gen.uniformize(None if above is None else above * largest)
    assert gamma.shape == batch
    assert bool((gamma > largest).all())
    assert bool((P >= 0).all())
    assert bool((P.diagonal(dim1=-2, dim2=-1) > 0).all())  # aperiodic
    torch.testing.assert_close(P.sum(-1), torch.ones(*batch, 5, dtype=torch.float64))
    pi = st.steady_state(gen).pi[..., None, :]
    torch.testing.assert_close(pi @ P, pi, rtol=1e-13, atol=0)


def test_the_default_event_rate_is_just_above_the_largest_exit_rate():
    gen = st.Generator.from_dense(problems.random_rates(3, n=5, seed=1))
    ratio = gen.event_rate() / gen.exit_rates().amax(-1)
    assert bool((ratio > 1).all())
    assert float(ratio.max()) < 1 + 1e-8


@pytest.mark.parametrize("gamma", [0.0, -1.0, 2.9, 3.0, math.nan, math.inf])
def test_an_event_rate_not_above_every_exit_rate_is_refused(gamma):
    with pytest.raises(InputError, match="finite and above the largest exit rate, 3; got"):
        cycle(1.0, 2.0, 3.0).uniformize(gamma)


def test_an_event_rate_too_small_for_one_chain_of_a_batch_is_refused():
    gen = st.Generator(
        st.Edges.from_pairs(CYCLE, 3), torch.stack([tensor(1, 1, 1), tensor(1, 1, 9)])
    )
    gen.uniformize(tensor(2.0, 10.0))
    with pytest.raises(InputError, match="largest exit rate"):
        gen.uniformize(tensor(10.0, 2.0))


def test_the_gradient_flows_through_uniformization():
    Q = problems.random_rates(n=4, seed=2).requires_grad_()

    def uniformized(Q):
        return st.Generator.from_dense(Q).uniformize(10.0)[0]

    assert torch.autograd.gradcheck(uniformized, Q)


def test_a_single_state_stays_where_it_is():
    gen = st.Generator.from_dense(torch.zeros(1, 1, dtype=torch.float64))
    P, gamma = gen.uniformize()
    assert P.tolist() == [[1.0]]
    assert float(gamma) > 0
    assert gen.closed_class() == [0]
    gen.check_irreducible()


# Communicating classes.


def test_classes_follow_positive_rates():
    edges = st.Edges.from_pairs([(0, 1), (1, 0), (1, 2), (2, 3), (3, 2), (3, 4)], 5)
    everything = st.Generator(edges, torch.ones(6, dtype=torch.float64))
    assert everything.closed_class() == [4]
    without_the_last = st.Generator(edges, tensor(1.0, 1.0, 1.0, 1.0, 1.0, 0.0))
    with pytest.raises(ReducibleError) as error:
        without_the_last.closed_class()
    assert (error.value.closed, error.value.transient) == ([[2, 3], [4]], [0, 1])


def test_classes_of_one_chain_of_a_batch():
    rates = torch.stack([tensor(1, 1, 1), tensor(1, 1, 0)])
    gen = st.Generator(st.Edges.from_pairs(CYCLE, 3), rates)
    assert gen.closed_class((0,)) == [0, 1, 2]
    assert gen.closed_class((1,)) == [2]
    assert gen.recurrent().tolist() == [[True] * 3, [False, False, True]]


def test_tiny_rates_still_connect():
    assert cycle(1e-300, 1.0, 1e300).closed_class() == [0, 1, 2]


def test_check_irreducible_names_the_first_reducible_chain():
    rates = torch.ones(2, 3, 3, dtype=torch.float64)
    rates[1, 0, 2] = 0.0
    gen = st.Generator(st.Edges.from_pairs(CYCLE, 3), rates)
    with pytest.raises(ReducibleError, match=r"chain \(1, 0\).*closed class \{2\}") as error:
        gen.check_irreducible()
    assert error.value.closed == [[2]]
    assert error.value.transient == [0, 1]


def test_check_irreducible_passes_where_other_edges_connect():
    # Some rates are zero and differ between the chains, and yet each is irreducible.
    Q = torch.ones(2, 3, 3, dtype=torch.float64)
    Q[0, 0, 1] = Q[1, 2, 0] = 0.0
    st.Generator.from_dense(Q).check_irreducible()


# What is refused.


def cycle_of(rates):
    return st.Generator(st.Edges.from_pairs(CYCLE, 3), rates)


@pytest.mark.parametrize("bad", [-1.0, -1e-300, math.nan, math.inf, -math.inf])
def test_bad_rates_are_named(bad):
    with pytest.raises(RateError, match=f"from state 1 to state 2 is {bad:g}; rates must be"):
        cycle(1.0, bad, 1.0)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_bad_rates_of_a_batch_are_named_with_their_chain(bad):
    rates = torch.ones(2, 2, 3, dtype=torch.float64)
    rates[1, 0, 2] = bad
    with pytest.raises(RateError, match=r"from state 2 to state 0 .* in chain \(1, 0\)"):
        st.Generator(st.Edges.from_pairs(CYCLE, 3), rates)


def test_minus_zero_is_zero():
    assert cycle(1.0, 1.0, -0.0).closed_class() == [2]


def ones(*shape, **kind):
    return torch.ones(shape, **{"dtype": torch.float64, **kind})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        *(
            (lambda kind=kind: cycle_of(ones(3, dtype=kind)), r"float64.*\.double\(\)")
            for kind in (torch.float32, torch.int64)
        ),
        *(
            (lambda shape=shape: cycle_of(ones(*shape)), r"one entry per edge \(3\)")
            for shape in ((), (2,), (3, 2), (4,))
        ),
        *(
            (lambda shape=shape: st.Generator.from_dense(ones(*shape)), r"\[\.\.\., n, n\]")
            for shape in ((3,), (2, 3), (3, 3, 2))
        ),
        (lambda: st.Generator(torch.tensor(CYCLE), ones(3), n=3), r"\[2, E\] and come with n="),
        (lambda: st.Generator(torch.tensor(CYCLE).mT, ones(3)), "n=None"),
        (lambda: st.Edges.from_pairs([(0, 1), (1, 1)], 3), "edge 1 is a self-loop on state 1"),
        (lambda: st.Edges.from_pairs([(0, 1), (1, 0), (0, 1)], 3), "listed twice"),
        (
            lambda: st.Edges.from_pairs([(0, 1), (1, 3)], 3),
            r"edge 1 goes from 1 to 3, but the states are 0\.\.2",
        ),
        (lambda: st.Edges.from_pairs([(-1, 1)], 3), "edge 0 goes from -1 to 1"),
        (lambda: st.Edges.from_pairs([], 0), "states, 1 or more; got n=0"),
        (lambda: st.Edges(torch.tensor([0, 1]), torch.tensor([1]), 2), "equally long"),
    ],
)
def test_what_is_no_chain_is_said(make, words):
    with pytest.raises(InputError, match=words):
        make()
