"""Models of choice: against choix, against the published formulas, against brute force."""

import subprocess
import sys

import choix
import numpy as np
import pytest
import torch

import stationary as st
from stationary.data import Choices, choices, rankings
from stationary.errors import InputError
from stationary.learning.ilsr import ILSR
from stationary.learning.likelihood import Likelihood
from stationary.learning.ranks import ranks
from stationary.models import PCMC, PlackettLuce

METHODS = [ILSR(), st.Newton(starts=1)]
PAIRS = [(1, 0), (0, 4), (3, 1), (0, 2), (2, 4), (4, 3)]  # of choix's introduction


def strengths(fit):
    return np.array(list(fit.estimates.values()))


def random_rates(n, seed):
    return np.random.default_rng(seed).lognormal(0.0, 1.0, n * (n - 1)).tolist()


def travellers(seed=0, menus=8, people=4000, items="abcd"):
    """Choices that a PCMC model made, from menus of any size."""
    random = np.random.default_rng(seed)
    truth = PCMC(items, rate=random_rates(len(items), seed + 100))
    x = np.unique(random.integers(0, 2, (4 * menus, len(items))), axis=0)
    x = x[x.sum(1) > 1][:menus]
    p = truth.shares(truth.at(x)).detach().numpy()
    counts = random.multinomial(people // len(x), p)
    windows = st.Windows(x, inputs=truth.items, observations=[Choices(counts, truth.items)])
    return truth, windows


# Plackett-Luce, against choix.


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_comparisons_as_in_choix(method):
    random = np.random.default_rng(3)
    noise = np.linspace(0, 2, 12) + random.gumbel(size=(400, 12))
    chosen = random.permuted(np.tile(np.arange(12), (400, 1)), axis=1)[:, :2]
    better = np.take_along_axis(noise, chosen, 1).argsort(1)[:, ::-1]
    many = [tuple(map(int, pair)) for pair in np.take_along_axis(chosen, better, 1)]
    for n, pairs in ((5, PAIRS), (12, many)):
        fit = st.fit(PlackettLuce(range(n)), rankings(pairs, items=range(n)), method=method)
        assert fit.converged
        expected = choix.ilsr_pairwise(n, pairs, tol=1e-12)
        np.testing.assert_allclose(strengths(fit), expected, atol=1e-8)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_rankings_and_first_choices_as_in_choix(method):
    random = np.random.default_rng(5)
    orders = [tuple(map(int, random.permutation(8)[:4])) for _ in range(120)]
    fit = st.fit(PlackettLuce(range(8)), rankings(orders, items=range(8)), method=method)
    np.testing.assert_allclose(strengths(fit), choix.ilsr_rankings(8, orders, tol=1e-12), atol=1e-8)
    first = [(order[0], order[1:]) for order in orders]
    windows = rankings([order[:1] for order in orders], menus=orders, items=range(8))
    fit = st.fit(PlackettLuce(range(8)), windows, method=method)
    np.testing.assert_allclose(strengths(fit), choix.ilsr_top1(8, first, tol=1e-12), atol=1e-8)


def test_menus_that_occur_twice_are_added_up():
    random = np.random.default_rng(2)
    menus = np.ones((6, 12))
    menus[random.random((6, 12)) < 0.3] = 0.0
    counts = random.integers(1, 9, (6, 12)) * menus
    items = [f"item {k}" for k in range(12)]
    fits = []
    for times in (1, 3):
        kind = Choices(np.tile(counts, (times, 1)), items)
        windows = st.Windows(np.tile(menus, (times, 1)), inputs=items, observations=[kind])
        likelihood = Likelihood(PlackettLuce(items), windows)
        assert likelihood.x.shape == (6, 12)
        fits.append(ILSR().run(likelihood, windows, 0))
    assert fits[1].nll == pytest.approx(3 * fits[0].nll, rel=1e-12)
    np.testing.assert_allclose(fits[1].theta, fits[0].theta, atol=1e-9)
    value, _ = likelihood.value_and_gradient(fits[1].theta.numpy())
    assert fits[1].nll == pytest.approx(value, rel=1e-12)


def test_partial_rankings_leave_the_rest_in_no_order():
    windows = rankings([("c", "a")], menus=[("a", "b", "c", "d")])
    assert windows.x.tolist() == [[1, 1, 0, 1], [1, 1, 1, 1]]
    assert windows.data.tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]


def test_intervals_of_strengths_cover_and_ranks_follow():
    truth = np.linspace(1.0, -1.0, 6)
    random = np.random.default_rng(1)
    hits, ranked = 0.0, 0.0
    for _ in range(20):
        noise = random.gumbel(size=(120, 6))
        orders = [tuple(map(int, row)) for row in (-(truth + noise)).argsort(1)[:, :3]]
        windows = rankings(orders, menus=[range(6)] * len(orders), items=range(6))
        fit = st.fit(PlackettLuce(range(6)), windows)
        table = fit.table()
        hits += ((table["low"] <= truth) & (truth <= table["high"])).mean()
        found = ranks(fit.draws).sort_values("item")
        place = np.arange(1, 7)
        ranked += ((found["rank_low"] <= place) & (found["rank_high"] >= place)).mean()
        assert found["best"].sum() == pytest.approx(1.0)
    assert 0.88 < hits / 20 <= 1.0
    assert ranked / 20 > 0.9


def test_odds_do_not_depend_on_the_menu_for_plackett_luce_alone():
    luce = PlackettLuce("abc", strength=[0.3, -0.2, 0.7])
    chain = PCMC("abc", rate=[9, 1, 1, 9, 9, 1])
    for model, same in ((luce, True), (chain, False)):
        p = model.shares(model.at([[1, 1, 1], [1, 1, 0]])).detach()
        odds = (p[:, 0] / p[:, 1]).tolist()
        assert (odds[0] == pytest.approx(odds[1])) is same
    one = PCMC("abc", rank=1, rate=[1, 2, 3, 4, 5, 6])
    p = one.shares(one.at([[1, 1, 1], [1, 1, 0]])).detach()
    assert (p[:, 0] / p[:, 1]).tolist() == pytest.approx([(4 / 1) / (5 / 2)] * 2)


# PCMC, against the published formulas and brute force.


def published(q, n, menu):
    """Shares as the published code computes them: a linear system on the menu alone."""
    Q = np.zeros((n, n))
    Q[~np.eye(n, dtype=bool)] = q
    A = Q[np.ix_(menu, menu)]
    A[np.diag_indices_from(A)] = -A.sum(1)
    A[:, -1] = 1.0
    return np.linalg.solve(A.T, np.eye(len(menu))[-1])


def test_shares_are_those_of_the_published_formula():
    q = random_rates(5, 2)
    model = PCMC("abcde", rate=q)
    for menu in ([0, 1, 2, 3, 4], [1, 3], [0, 2, 4], [3]):
        x = np.isin(np.arange(5), menu).astype(float)
        p = model.shares(model.at(x[None])).detach()[0]
        np.testing.assert_allclose(p[menu], published(q, 5, menu), rtol=1e-12)
        assert p.count_nonzero() == len(menu)


def test_rates_on_the_published_scale():
    Q = PCMC("abc", rate=[9, 1, 1, 9, 9, 1]).matrix()
    pairs = (Q + Q.mT)[[0, 0, 1], [1, 2, 2]]
    assert float(pairs.min()) == 1.0
    assert Q.diagonal().tolist() == [0.0, 0.0, 0.0]
    assert float(Q[0, 1] / Q[0, 2]) == pytest.approx(9.0)


@pytest.mark.parametrize(
    "model",
    [PlackettLuce("abcd"), PCMC("abcd"), PCMC("abcd", spread=None), PCMC("abcd", rank=2)],
    ids=str,
)
def test_derivatives_with_items_off_the_menu(model):
    _, windows = travellers()
    likelihood = Likelihood(model, windows)
    z = np.random.default_rng(0).normal(size=len(model.theta))
    _, gradient = likelihood.value_and_gradient(z)
    steps = 1e-6 * np.eye(len(z))
    values = [[likelihood.value_and_gradient(z + s * step) for s in (1, -1)] for step in steps]
    slopes = [(up[0] - down[0]) / 2e-6 for up, down in values]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-4)
    H = likelihood.hessian(z)
    rows = [(up[1] - down[1]) / 2e-6 for up, down in values]
    np.testing.assert_allclose(H, rows, rtol=1e-4, atol=1e-5 * np.abs(H).max())
    exact = torch.autograd.functional.hessian(likelihood, torch.from_numpy(z)).numpy()
    np.testing.assert_allclose(H, exact, atol=1e-10 * np.abs(H).max())


def test_a_fit_finds_the_shares_of_every_menu():
    truth, windows = travellers(people=200_000, menus=11)
    fit = st.fit(PCMC("abcd"), windows)
    assert fit.converged
    x = windows.x
    off = fit.model.shares(fit.model.at(x)) - truth.shares(truth.at(x))
    assert float(off.detach().abs().max()) < 0.01
    baseline = st.fit(PlackettLuce("abcd"), windows)
    assert baseline.nll > fit.nll + 100  # the odds do depend on the menu
    logs = fit.model.theta.detach().log()
    assert abs(float(logs.mean())) < 1e-8  # the scale


def test_a_lower_rank_lies_between():
    _, windows = travellers(people=50_000, menus=11)
    nll = [
        st.fit(model, windows, method=st.Newton(starts=2)).nll
        for model in (PCMC("abcd"), PCMC("abcd", rank=2), PlackettLuce("abcd"))
    ]
    assert nll[0] < nll[1] < nll[2]


def test_intervals_of_choices_drawn_again():
    truth, windows = travellers(people=30_000, menus=11)
    fit = st.fit(PCMC("abcd"), windows).bootstrap(repeats=60, seed=1, jobs=1)
    unseen = [1.0, 1.0, 1.0, 1.0]
    assert unseen not in windows.select(slice(0, 6)).x.tolist()
    table = fit.forecast(x=windows.x.numpy())
    p = truth.shares(truth.at(windows.x)).detach().numpy()
    low, high = (
        np.array([table[f"p_{item}_{end}"] for item in "abcd"]).T for end in ("low", "high")
    )
    offered = (windows.x == 1).numpy()
    covered = ((low <= p) & (p <= high))[offered].mean()
    assert covered > 0.85
    assert (high - low)[offered].max() < 0.1


# What is refused, and regularisation.


def test_menus_of_one_say_nothing_and_do_no_harm():
    windows = choices(
        [[1, 0, 0], [1, 1, 0], [1, 1, 0], [0, 1, 1], [0, 1, 1]], [0, 0, 1, 1, 2], "abc"
    )
    fit = st.fit(PlackettLuce("abc"), windows)
    assert strengths(fit) == pytest.approx([0.0, 0.0, 0.0], abs=1e-9)
    p = fit.model.shares(fit.model.at([[0, 0, 1]])).tolist()
    assert p == [[0.0, 0.0, 1.0]]


def test_items_never_chosen_need_a_prior_that_is_asked_for():
    pairs = [("a", "b"), ("b", "a"), ("a", "c"), ("b", "c")]
    with pytest.raises(InputError, match=r"\{c\} were never chosen where \{a, b\}.*smoothing="):
        st.fit(PlackettLuce("abc"), rankings(pairs))
    with pytest.raises(InputError, match="smoothing="):
        st.fit(PlackettLuce("abc"), rankings(pairs), method=ILSR())
    fit = st.fit(PlackettLuce("abc"), rankings(pairs, smoothing=0.5))
    # Three menus of two, each with half a choice more of either item.
    again = st.fit(
        PlackettLuce("abc"),
        rankings(
            [*pairs * 2, *(("b", "a"), ("a", "b"), ("a", "c"), ("c", "a"), ("b", "c"), ("c", "b"))]
        ),
    )
    np.testing.assert_allclose(strengths(fit), strengths(again), atol=1e-7)
    chain = st.fit(PCMC("abc"), rankings(pairs))  # which has a prior of its own, and says so
    assert chain.converged
    assert "spread=5" in str(chain)


def test_sets_that_were_never_compared_are_named():
    pairs = [("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]
    for model in (PlackettLuce("abcd"), PCMC("abcd")):
        with pytest.raises(InputError, match=r"never shared a menu, \{a, b\}, \{c, d\}"):
            st.fit(model, rankings(pairs))
    with pytest.raises(InputError, match=r"\{a, b\}, \{z\}"):
        st.fit(PlackettLuce("abz"), rankings(pairs[:2], items="abz"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: choices([[1, 1]], ["z"], "ab"), "no item 'z'"),
        (lambda: choices([[1, 1]], [0, 1], "ab"), "one row per choice"),
        (lambda: rankings([("a", "a")]), "different items"),
        (lambda: rankings([]), "there must be rankings"),
        (lambda: rankings([("a",), ("b",)]), "compares nothing"),
        (lambda: rankings([("a", "b")], items="ac"), "no item 'b'"),
        (lambda: rankings([("a",)], menus=[("b", "c")], items="abc"), "of its menu"),
        (lambda: Choices([[1, 2]], "ab", smoothing=-1), "smoothing must be zero or more"),
        (lambda: PCMC(["a"]), "two or more"),
        (lambda: PCMC("abc", rank=3), "rank must be"),
        (lambda: PCMC("abc", rank="2"), "rank must be"),
        (lambda: PCMC("abc", rank=1.5), "rank must be"),
        (lambda: PCMC("abc", spread=0.0), "spread must be positive"),
        (lambda: PCMC("abc", spread="wide"), "spread must be positive"),
        (lambda: PCMC(3), "items must be names"),
        (lambda: PlackettLuce(3), "items must be names"),
        (lambda: PCMC("abc").at([[1, 0.5, 0]]), "got 0.5"),
        (lambda: PCMC("abc").at([[0, 0, 0]]), "at least one item"),
        (lambda: PCMC("abc").menu("d"), "no item 'd'"),
        (lambda: PCMC("abc").measure("p_d"), "no measure 'p_d'"),
        (lambda: st.fit(PCMC("abc"), rankings([("a", "b")], items="acb")), "same items"),
        (lambda: st.fit(st.models.MMmK(capacity=3), rankings([("a", "b")])), "same items|input"),
        (
            lambda: st.fit(PCMC("ab"), rankings([("a", "b"), ("b", "a")]), method=ILSR()),
            "ILSR.. fits st.models.PlackettLuce",
        ),
    ],
)
def test_what_is_wrong_is_said(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_a_choice_that_the_menu_does_not_offer_is_named():
    windows = choices([[1, 1, 0], [1, 1, 1]], ["c", "a"], "abc")
    with pytest.raises(InputError, match=r"'c' was chosen 1 times from the menu \{a, b\}"):
        st.fit(PCMC("abc"), windows)


def test_a_fit_is_saved_and_read_again(tmp_path):
    _, windows = travellers()
    for model in (PCMC("abcd"), PlackettLuce("abcd"), PCMC("abcd", rank=2)):
        fit = st.fit(model, windows, method=st.Newton(starts=1))
        folder = tmp_path / f"{model.name}-{getattr(model, 'rank', None)}"
        fit.save(folder)
        again = st.load(folder)
        assert again.estimates == fit.estimates
        assert again.windows == windows
        x = [[1, 1, 0, 1]]
        assert again.forecast(x=x).equals(fit.forecast(x=x))


def test_a_saved_fit_is_read_by_a_program_that_made_no_choices(tmp_path):
    _, windows = travellers()
    st.fit(PlackettLuce("abcd"), windows).save(tmp_path / "run")
    program = "import sys, stationary as st; print(st.load(sys.argv[1]).windows)"
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "run"], capture_output=True, check=True
    )
    assert "categories a, b, c, d" in done.stdout.decode()


def test_second_derivatives_reach_the_shares():
    model = PCMC("abc")

    def shares(theta):
        x = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
        return model.shares(model.at(x, theta))

    theta = torch.tensor(random_rates(3, 1), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(shares, theta)
    assert torch.autograd.gradgradcheck(shares, theta)
