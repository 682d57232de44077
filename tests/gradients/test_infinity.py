import math

import pytest
import torch

import stationary as st
from problems import TensorGTH, tandem
from stationary.errors import InputError, SolverError
from stationary.gradients import Doubling, Exact, Infinity, Powers, Preconditioned
from stationary.gradients.series import generator_times

DRAWS = 3000


def chains():
    """One batch of every model, dense and sparse edges, mixing well enough for p = 0.05."""
    load = torch.tensor([3.0, 5.0], dtype=torch.float64)
    upper = st.models.UpperTriangular(states=5)
    upper.set_theta(1 + torch.arange(10.0))
    wheel = st.models.FromFunction(  # a cycle: not reversible
        lambda load, p: {(0, 1): load, (1, 2): 2 * load, (2, 0): p.back},
        states=3,
        params={"back": 4.0},
    )
    queue = st.models.MMmK(servers=2, capacity=4, service_rate=3.0)
    ring = torch.arange(71).repeat(3)  # large enough for passes over the edges
    jump = torch.tensor([1, 7, 23]).repeat_interleave(71)
    random = torch.Generator().manual_seed(4)
    return {
        "sparse": st.Generator(
            st.Edges(ring, (ring + jump) % 71, 71),
            1 + torch.rand(1, 213, generator=random, dtype=torch.float64),
        ),
        "mmmk": queue(load),
        "multidiagonal": st.models.MultiDiagonal(2, 4, rate_1=4.0, rate_2=2.0)(load),
        "uppertriangular": upper(load),
        "relaxed": st.models.Relaxed(queue, alpha=1.0, initial=0.2)(load),
        "function": wheel(load),
        "dense": st.Generator.from_dense(
            torch.rand(2, 4, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        ),
    }


CHAINS = chains()


def weights(generator):
    random = torch.Generator().manual_seed(11)
    return torch.randn(*generator.batch_shape, generator.n, generator=random, dtype=torch.float64)


def gradient(generator, strategy):
    rates = generator.rates.detach().requires_grad_()
    pi = st.steady_state(st.Generator(generator.edges, rates), gradient=strategy).pi
    return torch.autograd.grad((pi * weights(generator)).sum(), rates)[0]


def many(generator, draws):
    """The same chains again and again as one batch: as many independent draws."""
    rates = generator.rates.detach()
    return st.Generator(generator.edges, rates.expand(draws, *rates.shape).contiguous())


def samples_of(generator, strategy, draws):
    rates = many(generator, draws).rates.requires_grad_()
    pi = st.steady_state(st.Generator(generator.edges, rates), gradient=strategy).pi
    return torch.autograd.grad((pi * weights(generator)).sum(), rates)[0]


def nearby(generator):
    random = torch.Generator().manual_seed(5)
    moved = generator.rates.detach() * (
        1 + 0.1 * torch.rand(generator.rates.shape, generator=random, dtype=torch.float64)
    )
    return st.solvers.GTH().factor(st.Generator(generator.edges, moved))


STRATEGIES = {
    "plain": lambda generator: Infinity(p=0.05, seed=1),
    "auto": lambda generator: Infinity(p="auto", seed=1),
    "several draws": lambda generator: Infinity(p="auto", seed=1, draws=3),
    "margin": lambda generator: Infinity(p="auto", seed=1, series=Powers(margin=5.0)),
    "doubling": lambda generator: Infinity(p="auto", seed=1, series=Doubling()),
    "least": lambda generator: Infinity(p=0.05, seed=1, least=3),
    "least doubling": lambda generator: Infinity(p=0.3, seed=1, series=Doubling(), least=2),
    "preconditioned": lambda generator: Infinity(
        p="auto", seed=1, series=Preconditioned(nearby(generator))
    ),
}


def deviation(samples, exact):
    """Largest distance of a mean from the truth, in standard errors."""
    error = samples.std(0) / math.sqrt(len(samples)) + 1e-14 * exact.abs().max()
    return ((samples.mean(0) - exact).abs() / error).max().item()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("chain", CHAINS)
def test_unbiased(chain, strategy):
    generator = CHAINS[chain]
    draws = DRAWS if generator.n < 10 else DRAWS // 10
    samples = samples_of(generator, STRATEGIES[strategy](many(generator, draws)), draws)
    assert deviation(samples, gradient(generator, Exact())) < 4.5


def test_schedules_follow_the_steps():
    generator, seen = CHAINS["mmmk"], []
    strategy = Infinity(p=lambda step: seen.append(step) or 0.1 / (1 + step), seed=1)
    samples = torch.cat([samples_of(generator, strategy, 1000) for _ in range(3)])
    assert seen == [0, 1, 2]
    assert deviation(samples, gradient(generator, Exact())) < 4.5


def test_a_wrong_survival_weight_is_found_out(monkeypatch):
    """The authors' program divides by Pr[X > l + 1]: all terms 1 / (1 - p) too large."""
    generator, strategy = CHAINS["mmmk"], Infinity(p=0.05, seed=1)
    right = strategy.estimate

    def wrong(*arguments):
        return right(*arguments) / (1 - 0.05)

    monkeypatch.setattr(Infinity, "estimate", lambda self, *arguments: wrong(*arguments))
    samples = samples_of(generator, strategy, DRAWS)
    assert deviation(samples, gradient(generator, Exact())) > 4.5


def test_control_variate_is_unbiased_and_quieter():
    """At each step the guess is fixed before the draw, so every step alone is unbiased."""
    generator = CHAINS["mmmk"]
    exact = gradient(generator, Exact())
    strategy = Infinity(p="auto", seed=1, control=True)
    first, *_, fifth = (samples_of(generator, strategy, DRAWS) for _ in range(5))
    assert deviation(first, exact) < 4.5
    assert deviation(fifth, exact) < 4.5
    assert fifth.std(0).norm() < 0.1 * first.std(0).norm()


def test_guesses_belong_to_windows():
    """A window's guess is found again whatever batch it comes in."""
    generator = CHAINS["mmmk"]
    strategy = Infinity(p=0.01, seed=0, control=True)
    for _ in range(40):
        gradient(generator, strategy)
    second = st.Generator(generator.edges, generator.rates.detach()[1:], index=torch.tensor([1]))
    factor = st.solvers.GTH().factor(second)
    g = weights(generator)[1:]
    v = strategy.estimate(second, factor.pi, g)
    h = g - (factor.pi * g).sum(-1, keepdim=True)
    assert generator_times(second, v).add(h).abs().max() < 1e-6 * h.abs().max()


def two_states(delta):
    """P has eigenvalues 1 and 1 - delta at gamma = 1."""
    rates = torch.tensor([delta / 2, delta / 2], dtype=torch.float64)
    return st.Generator(torch.tensor([[0, 1], [1, 0]]), rates, n=2)


class AtOne(Powers):
    def gamma(self, generator):
        return torch.ones(generator.batch_shape, dtype=torch.float64)


def test_variance_has_its_predicted_value():
    """Two states have one mode: E[v^2] = v^2 (1 - c^2) / (1 - c^2 / (1 - p)), c = 1 - delta."""
    delta, p, draws = 0.4, 0.3, 40_000
    largest = AtOne().largest_stop(two_states(delta))
    torch.testing.assert_close(largest, torch.tensor(delta * (2 - delta), dtype=torch.float64))
    generator, c = two_states(delta), 1 - delta
    strategy = Infinity(p=p, seed=0, series=AtOne(), draws=1)
    g = torch.tensor([1.0, -1.0], dtype=torch.float64)
    batch = st.Generator(generator.edges, generator.rates.expand(draws, 2))
    pi = torch.full((draws, 2), 0.5, dtype=torch.float64)
    v = strategy.estimate(batch, pi, g.expand(draws, 2))[:, 0]
    exact = 1 / delta
    predicted = exact**2 * (1 - c**2) / (1 - c**2 / (1 - p))
    moment = v.square()
    assert abs(v.mean() - exact) < 4 * v.std() / math.sqrt(draws)
    assert abs(moment.mean() - predicted) < 4 * moment.std() / math.sqrt(draws)


def test_seeds_repeat_and_differ():
    generator = CHAINS["mmmk"]
    same = [gradient(generator, Infinity(seed=7)) for _ in range(2)]
    assert torch.equal(*same)
    assert not torch.equal(same[0], gradient(generator, Infinity(seed=8)))


def test_forward_value_is_exact():
    generator = CHAINS["mmmk"]
    pi = st.steady_state(generator, gradient=Infinity(seed=0)).pi
    torch.testing.assert_close(pi, st.steady_state(generator).pi, rtol=0, atol=0)


def test_weights_that_outgrow_the_series_raise():
    slow = two_states(1e-9)
    strategy = Infinity(p=lambda step: 1e-3, seed=0, series=AtOne())
    monster = Infinity(p=0.999999, seed=0, series=AtOne(), draws=1)
    rates = slow.rates.clone().requires_grad_()
    pi = st.steady_state(st.Generator(slow.edges, rates), gradient=strategy).pi
    torch.autograd.grad(pi[0], rates)
    object.__setattr__(monster, "_draw", lambda p: torch.full((1,), 80))
    pi = st.steady_state(st.Generator(slow.edges, rates), gradient=monster).pi
    with pytest.raises(SolverError, match="p='auto'"):
        torch.autograd.grad(pi[0], rates)


def test_second_derivatives_are_refused_with_a_reason():
    rates = CHAINS["mmmk"].rates.detach().requires_grad_()
    pi = st.steady_state(st.Generator(CHAINS["mmmk"].edges, rates), gradient=Infinity(seed=0)).pi
    with pytest.raises(SolverError, match="first derivatives only"):
        torch.autograd.grad(pi[:, 0].sum(), rates, create_graph=True)


def one_window():
    chain = CHAINS["mmmk"]
    return st.solvers.GTH().factor(st.Generator(chain.edges, chain.rates.detach()[0]))


WHOLE = "must be a whole number of at least 1"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        *((lambda p=p: Infinity(p=p), r"probability|p must be") for p in (0, 1, -0.1, 2, "fast")),
        *((lambda least=least: Infinity(least=least), f"least {WHOLE}") for least in (0, 1.5)),
        *((lambda draws=draws: Infinity(draws=draws), f"draws {WHOLE}") for draws in (0, True)),
        *((lambda seed=seed: Infinity(seed=seed), "seed must be an") for seed in ((), [1, 2], 1.5)),
        (lambda: Infinity(seed=(1, 2, 3)), "3 seeds cannot share a batch of 2 chains"),
        (lambda: Infinity(p=lambda step: 1.5), "probability"),
        (lambda: Infinity(series=Powers(margin=-1.0)), "margin"),
        (lambda: Infinity(series=Preconditioned(one_window()), p=0.5), "same windows"),
    ],
)
def test_bad_options_are_named(make, words):
    with pytest.raises(InputError, match=words):
        gradient(CHAINS["mmmk"], make())


@pytest.mark.parametrize(
    "solver",
    [
        st.solvers.GTH(),
        st.solvers.LU(),
        st.solvers.SparseLU(),
        st.solvers.BirthDeath(),
        TensorGTH(),
    ],
)
def test_a_factor_of_all_windows_serves_any_of_them(solver):
    model = st.models.MMmK(servers=1, capacity=5, service_rate=4.0)
    everything = model([1.0, 2.0, 3.0, 5.0])
    chosen = torch.tensor([3, 1])
    some = st.Generator(everything.edges, everything.rates.detach()[chosen], index=chosen)
    series = Preconditioned(solver.factor(everything))
    h = torch.randn(2, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    h = h - (st.steady_state(some).pi * h).sum(-1, keepdim=True)
    first, second = (term for term, _ in zip(series.terms(some, h), range(2), strict=False))
    # The factor is of these very chains: its first term solves the equation, the second is nothing.
    torch.testing.assert_close(generator_times(some, first), -h, rtol=1e-9, atol=1e-9)
    assert second.sub(second.mean(-1, keepdim=True)).abs().max() < 1e-9


@pytest.mark.parametrize("name", CHAINS)
def test_compiled_series_equals_the_loop_over_terms(name):
    chain = CHAINS[name]
    pi = st.steady_state(chain).pi.detach()
    g = weights(chain)
    h = g - (pi * g).sum(-1, keepdim=True)
    random = torch.Generator().manual_seed(5)
    stop = torch.randint(1, 40, (3, *chain.batch_shape), generator=random)
    p = torch.full(chain.batch_shape, 0.05, dtype=torch.float64)
    series = Powers(margin=0.5)
    for compiled, plain in zip(
        series.stopped(chain, h, stop, p, least=4),
        super(Powers, series).stopped(chain, h, stop, p, least=4),
        strict=True,
    ):
        assert torch.allclose(compiled, plain, rtol=1e-11, atol=1e-12)


def test_several_seeds_draw_what_each_would_draw_alone():
    chain = st.Generator(CHAINS["mmmk"].edges, CHAINS["mmmk"].rates.detach().repeat(3, 1))
    together = gradient(chain, Infinity(p=0.1, seed=(4, 5, 6)))
    for k, seed in enumerate((4, 5, 6)):
        part = slice(2 * k, 2 * k + 2)
        rates = chain.rates[part].clone().requires_grad_()
        alone = st.steady_state(
            st.Generator(chain.edges, rates), gradient=Infinity(p=0.1, seed=seed)
        )
        (slope,) = torch.autograd.grad((alone.pi * weights(chain)[part]).sum(), rates)
        assert torch.equal(together[part], slope)


def test_few_certain_terms_keep_the_variance_of_an_overloaded_queue_down():
    """Only idle states are seen of a queue that is hardly ever idle: partial sums are huge."""
    model = st.models.MMmK(servers=1, capacity=19, service_rate=10.0)
    rates = model([20.0]).rates.detach().requires_grad_()

    def spread(least):
        strategy = Infinity(p=0.05, seed=1, series=Doubling(), least=least)
        found = []
        for _ in range(300):
            pi = st.steady_state(st.Generator(model.edges, rates), gradient=strategy).pi
            found.append(torch.autograd.grad((pi[0, 0] / pi[0, 1]).log(), rates)[0])
        return torch.stack(found).std(0).max().item()

    assert spread(8) < spread(1) / 10


def test_doubling_ends_when_all_chains_have_mixed():
    chain = CHAINS["mmmk"]
    h = torch.randn(2, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pi = st.steady_state(chain).pi.detach()
    h = h - (pi * h).sum(-1, keepdim=True)
    terms = list(Doubling().terms(chain, h))
    assert 4 < len(terms) < 20
    v = sum(terms)
    assert torch.allclose(-generator_times(chain, v), h, rtol=1e-9, atol=1e-12)


def test_a_state_of_other_seeds_is_refused():
    with pytest.raises(InputError, match="2 random streams; this strategy has 1 seeds"):
        Infinity(seed=1).restore(Infinity(seed=(1, 2)).export())


def test_the_gap_of_a_large_chain_is_not_known(monkeypatch):
    monkeypatch.setattr("stationary.gradients.series._MOST_STATES", 3)
    generator = CHAINS["sparse"]
    assert Infinity(p=0.1).has_heavy_tails(generator)
    assert not Infinity(p=0.1, series=Preconditioned()).has_heavy_tails(generator)
    with pytest.raises(SolverError, match=r'p="auto" needs the spectral gap.* 71 states'):
        gradient(generator, Infinity(p="auto"))
    monkeypatch.setattr("stationary.spectrum.MOST_STATES", 3)
    with pytest.raises(InputError, match="up to 3 states; got"):
        st.spectral_gap(generator)


def test_series_beside_an_iterated_factor_are_unbiased():
    lattice = tandem((20, 20), 0.8, [1.0, 1.1])
    rates = lattice.rates.detach().requires_grad_()

    def one(strategy, solver):
        pi = st.steady_state(st.Generator(lattice.edges, rates), solver, strategy).pi
        return torch.autograd.grad(pi[..., :20].sum(), rates)[0]

    exact = one(Exact(), st.solvers.GTH())
    strategy = Infinity(p=0.5, seed=0, series=Preconditioned())
    draws = torch.stack([one(strategy, st.solvers.Multigrid()) for _ in range(60)])
    error = (draws.mean(0) - exact).abs().max()
    assert error <= 4 * draws.std(0).max() / 60**0.5 + 1e-9 * exact.abs().max()
    assert not torch.equal(draws[0], exact)
