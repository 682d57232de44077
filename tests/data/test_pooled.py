"""Pooled windows: the same fit as that of single ones, and a clear answer where they are needed."""

import numpy as np
import pytest

import stationary as st
from stationary.errors import DataWarning, InputError
from stationary.learning.covariances import Minimum, overdispersion
from stationary.learning.likelihood import Likelihood, log_terms
from stationary.planning.forecast import forecast
from stationary.trust.backtest import cuts, horizon, misplaced
from stationary.trust.study import study

M = st.models
TRUTH = M.Slowing(servers=1, capacity=9, service_rate=30.0, slowdown=0.15)
MODEL = M.Slowing(servers=1, capacity=9)
ONE_START = st.Newton(starts=1)


@pytest.fixture(scope="module")
def single():
    # Uneven numbers of windows per load, in mixed order, with correlated counts.
    loads = np.random.default_rng(3).choice(np.arange(8.0, 20.0), size=600)
    scheme = st.simulation.Arrivals()
    return st.simulate(TRUTH, loads, 5.0, seed=4, scheme=scheme).observing(range(5))


@pytest.fixture(scope="module")
def fits(single):
    return [st.fit(MODEL, data, method=ONE_START) for data in (single, single.pooled())]


@pytest.fixture(params=["csv", "parquet"])
def file(request, single, tmp_path):
    path = tmp_path / f"windows.{request.param}"
    if request.param == "csv":
        single.to_csv(path)
    else:  # pandas keeps an index as a column of its own
        single.to_frame().set_index("load").to_parquet(path)
    return path


def test_rows_are_sums_over_windows(single):
    pooled = single.pooled()
    assert (len(pooled), pooled.recorded) == (12, 600)
    assert pooled.is_pooled
    assert pooled.pooled() is pooled
    for row, load in enumerate(pooled.loads.tolist()):
        counts = single.counts[single.loads == load].numpy()
        assert pooled.multiplicity[row] == len(counts)
        np.testing.assert_array_equal(pooled.counts[row], counts.sum(0))
        squares = counts.T @ counts
        np.testing.assert_array_equal(pooled.moments.squares[row], squares)
        roots = pooled.roots[row].numpy()
        np.testing.assert_allclose(roots.T @ roots, squares, rtol=1e-12, atol=1e-8)
    assert "600 windows, pooled into 12, load 8..19" in repr(pooled)
    assert pooled.between(10, 14) == single.between(10, 14).pooled()


def test_several_inputs_and_durations_are_pooled():
    x, duration = [[1, 3], [1, 2], [1, 3]], [1.0, 2.0, 4.0]
    data = st.Windows(
        x, [[1, 2], [3, 4], [5, 6]], [0, 1], inputs=["load", "heat"], duration=duration
    ).pooled()
    assert data.x.tolist() == [[1, 2], [1, 3]]
    assert data.counts.tolist() == [[3, 4], [6, 8]]
    assert data.duration.tolist() == [2.0, 2.5]


# --- the same answers ---------------------------------------------------------------------------


def test_the_likelihood_is_the_same_to_the_last_bit(single):
    z = np.log(TRUTH.theta.detach().numpy())
    one, other = (
        Likelihood(TRUTH, data).value_and_gradient(z) for data in (single, single.pooled())
    )
    assert one[0] == other[0]
    np.testing.assert_array_equal(one[1], other[1])


def test_estimates_and_their_covariance_are_those_of_single_windows(fits):
    one, other = fits
    assert other.nll == pytest.approx(one.nll, rel=1e-13)
    assert other.estimates == pytest.approx(one.estimates, rel=1e-9)
    np.testing.assert_allclose(other.covariance.matrix, one.covariance.matrix, rtol=1e-8)
    assert other.covariance.kind == one.covariance.kind == "sandwich"
    assert other.covariance.df == one.covariance.df
    assert "600 windows pooled into 12, loads 8 to 19" in str(other)


def test_the_scatter_is_not_that_of_long_windows(single, fits):
    """Rows taken for windows would scatter otherwise."""
    sums = single.pooled()
    long = st.Windows(sums.x, sums.counts, sums.observe, sums.sampling)
    rows = st.fit(MODEL, long, method=ONE_START)
    assert (rows.covariance.kind, rows.covariance.df) == ("sandwich", 12 - 2)
    ratio = rows.covariance.matrix[0, 0] / fits[0].covariance.matrix[0, 0]
    assert abs(np.log(ratio)) > 0.1


@pytest.mark.parametrize("kind", [st.covariances.Correlated(), st.covariances.Information()])
def test_other_covariances_are_the_same(single, kind):
    one, other = (
        st.fit(MODEL, data, method=ONE_START, covariance=kind).covariance.matrix
        for data in (single, single.pooled())
    )
    np.testing.assert_allclose(other, one, rtol=1e-8)


def test_the_scatter_of_scores_is_about_their_mean(single):
    """Away from the minimum, as with a penalty, scores do not add up to zero."""
    theta = 1.3 * TRUTH.theta.detach()
    one, other = (
        Minimum(Likelihood(TRUTH, data), data, theta) for data in (single, single.pooled())
    )
    scores = one.scores()
    np.testing.assert_allclose(scores.sum(0), 0.0, atol=1e-7)
    np.testing.assert_allclose(one.scatter(), scores.T @ scores, rtol=1e-9)
    np.testing.assert_allclose(other.scatter(), scores.T @ scores, rtol=1e-9)


@pytest.mark.parametrize("samples", [12, 200], ids=["rare categories", "all frequent"])
def test_the_overdispersion_of_equally_many_counts_is_pearsons(single, samples):
    rng = np.random.default_rng(1)
    shares = [rng.dirichlet(20 * row) for row in np.exp(log_terms(TRUTH, single))]
    counts = [rng.multinomial(samples, share) for share in shares]
    data = st.Windows(single.x, counts, single.observe, single.sampling)
    one, other = (
        overdispersion(TRUTH, part, TRUTH.theta.detach()) for part in (data, data.pooled())
    )
    assert one[0] > 1.3
    assert other[0] == pytest.approx(one[0], rel=1e-10)
    assert other[1] == one[1]


def test_the_overdispersion_of_unequally_many_counts_is_the_same_but_for_chance():
    """Independent counts have overdispersion 1, and 6 where each is counted six times."""
    rng = np.random.default_rng(5)
    loads = rng.choice([10.0, 14.0, 18.0], size=900)
    blank = st.Windows(loads, np.ones((900, 5), dtype=int), range(5), "arrival")
    p = np.exp(log_terms(TRUTH, blank))
    draws = [rng.multinomial(n, row) for n, row in zip(rng.integers(100, 500, 900), p, strict=True)]
    for times in (1, 6):
        data = st.Windows(loads, times * np.array(draws), range(5), "arrival")
        phi, df = overdispersion(TRUTH, data.pooled(), TRUTH.theta.detach())
        assert df == 900 * 4 - 2
        assert phi == pytest.approx(times, rel=0.1)


def test_few_windows_are_fitted_pooled_as_they_are_single():
    """Too few for a sandwich, and of unknown duration."""
    counts = [[50, 30, 9], [55, 27, 11], [40, 30, 20]]
    data = st.Windows([10.0, 10.0, 13.0], counts, range(3), "time")
    one, other = (
        st.fit(M.MMmK(capacity=9), part, method=ONE_START).covariance
        for part in (data, data.pooled())
    )
    assert one.kind == other.kind == "dispersed"
    assert other.df == one.df
    np.testing.assert_allclose(other.matrix, one.matrix, rtol=0.02)


def test_forecasts_and_their_horizon_are_the_same(fits):
    one, other = (study(fit.estimate, fit.windows) for fit in fits)
    assert other.cuts == one.cuts
    for single, pooled in zip(one.below, other.below, strict=True):
        assert pooled.model.estimates == pytest.approx(single.model.estimates, rel=1e-6)
    # The checks need single windows; what the refits say of the horizon does not.
    bare = [
        horizon(fit.estimate, s.scores, s.cuts, fit.windows)
        for fit, s in zip(fits, (one, other), strict=True)
    ]
    assert bare[1].load == pytest.approx(bare[0].load)
    tables = [forecast(fit.draws, [10.0, 25.0]) for fit in fits]
    for name in ("value", "low", "high"):
        one, other = (getattr(table, name) for table in tables)
        np.testing.assert_allclose(other, one, rtol=1e-6)


def test_cuts_and_misplaced_counts_are_the_same(single):
    pooled = single.pooled()
    assert cuts(pooled, 2) == cuts(single, 2)
    wrong = M.MMmK(servers=1, capacity=9, service_rate=25.0)
    one, other = (misplaced(log_terms(wrong, data), data) for data in (single, pooled))
    assert one.share > 0.01
    assert tuple(other) == pytest.approx(tuple(one))


def test_the_next_experiment_is_the_same(fits):
    one, other = (fit.next_experiment([15.0, 25.0], loss=0.01) for fit in fits)
    assert str(other) == str(one)


# --- files and runs -----------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [7, 100, 10_000])
def test_files_are_pooled_a_batch_at_a_time(file, single, monkeypatch, batch):
    monkeypatch.setattr("stationary.data.tables.BATCH", batch)
    monkeypatch.setattr("stationary.data.tables.BLOCK", 40 * batch)
    how = {"sampling": "arrival", "duration": 5.0}
    assert st.read_windows(file, pooled=True, **how) == single.pooled()
    assert st.read_windows(file, **how) == single


def test_rows_are_left_out_or_refused_as_without_pooling(tmp_path, monkeypatch):
    monkeypatch.setattr("stationary.data.tables.BLOCK", 20)
    path = tmp_path / "w.csv"
    path.write_text("load,Q=0,Q=1,Q=2\n11,3,1,0\n0,0,0,0\n12,0,0,5\n11,2,2,1\n13,1,1,0\n")
    with pytest.warns(DataWarning) as said:
        found = st.read_windows(path, observe=[0, 1], drop_empty=True, pooled=True)
    for each, line in zip(said, (3, 4), strict=True):
        assert f"w.csv, line {line}: dropped" in str(each.message)
    assert (found.recorded, found.counts.tolist()) == (3, [[5, 3], [1, 1]])
    assert st.read_windows(path, loads=(11, 11), pooled=True).recorded == 2
    with pytest.raises(InputError, match=r"w.csv: no window has a load in \[20, 30\]; .* 0 to 13"):
        st.read_windows(path, loads=(20, 30), pooled=True)
    path.write_text("load,Q=0,Q=1\n11,3,1\n12,1,1\n12,1,-4\n")
    with pytest.raises(InputError, match=r"line 4, column 'Q=1': the count is -4"):
        st.read_windows(path, pooled=True)
    path.write_text("load,Q=0,Q=1\n11,3,1\n12,1,1\n")
    monkeypatch.setattr("stationary.data.moments._MOST_NUMBERS", 7)
    with pytest.raises(InputError, match=r"w\.csv: .* 2 different inputs .* round the load"):
        st.read_windows(path, pooled=True)


def test_what_needs_single_windows_says_so(fits, tmp_path):
    fit, blocks = fits[1], st.covariances.Sandwich(block=5)
    needs = "needs the single windows in their order, and these 600 were pooled into 12"
    for what, ask in [
        ("a bootstrap", lambda: fit.bootstrap(20)),
        ("blocks of 5 windows", lambda: st.fit(MODEL, fit.windows, covariance=blocks)),
        ("a choice of categories", lambda: fit.windows.observing([0, 1])),
        ("one line per window", lambda: fit.windows.to_csv(tmp_path / "w.csv")),
    ]:
        with pytest.raises(InputError, match=f"{what} {needs}"):
            ask()
    assert {finding.verdict for finding in fit.findings} == {"unknown"}
    assert fit.findings[0].facts["recorded"] == 600


def test_a_run_keeps_them(fits, tmp_path):
    fits[1].save(tmp_path / "run")
    again = st.load(tmp_path / "run")
    assert again.windows == fits[1].windows
    np.testing.assert_array_equal(again.covariance.matrix, fits[1].covariance.matrix)


def test_the_command_line_pools(file, call):
    options = ["--model", "slowing:capacity=9", "--sampling", "arrival", "--duration", "5"]
    code, one, _ = call("fit", file, *options)
    assert code == 0
    code, other, _ = call("fit", file, *options, "--pool")
    assert code == 0
    assert "600 windows pooled into 12" in other
    assert other.replace(" pooled into 12", "").splitlines()[:6] == one.splitlines()[:6]
    for more in (["--bootstrap", "50"], ["--errors", "sandwich:block=5"]):
        code, _, said = call("fit", file, *options, "--pool", *more)
        assert code == 2
        assert "--pool" in said
