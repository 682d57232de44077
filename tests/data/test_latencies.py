"""Latency histograms as data."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st
from stationary.data import Latencies
from stationary.errors import InputError
from stationary.learning.likelihood import Likelihood

M = st.models
EDGES = np.geomspace(1e-3, 1.0, 30)
LOADS = np.linspace(10.0, 60.0, 12)


def truth(**options):
    return M.MMmK(servers=2, capacity=12, service_rate=50.0, overhead=0.002, **options)


def histogram(model, number=2000, edges=EDGES, seed=1, loads=LOADS):
    """Latencies of independent requests, drawn from the model."""
    empty = Latencies(np.ones((len(loads), len(edges) + 1)), edges)
    many = empty.with_data(torch.full_like(empty.data, number / (len(edges) + 1)).round())
    return many.draw(model.at(loads), np.random.default_rng(seed))


def windows(model, **options):
    return st.Windows(x=LOADS, observations=[histogram(model, **options)])


def test_probabilities_are_differences_of_the_distribution():
    model, edges = truth(), [0.001, 0.01, 0.05]
    point = model.at([20.0, 90.0])
    cdf = point.response_times.cdf(torch.tensor(edges, dtype=torch.float64))
    found = Latencies([[1, 1, 1, 1]] * 2, edges).on(model).probabilities(point)
    assert bool((found[:, 0] == 0).all())  # below the overhead
    torch.testing.assert_close(found[:, 1], cdf[:, 1])
    torch.testing.assert_close(found[:, 2], cdf[:, 2] - cdf[:, 1])
    torch.testing.assert_close(found.sum(-1), torch.ones(2, dtype=torch.float64))
    given = Latencies([[1, 1, 1]] * 2, edges).on(model).probabilities(point)
    torch.testing.assert_close(given[:, 2], found[:, 2] / cdf[:, 2])


@pytest.mark.parametrize("discipline", ["fcfs", "ps"])
def test_a_fit_finds_the_service_rate_and_the_overhead(discipline):
    seen = windows(truth(discipline=discipline))
    fit = st.fit(M.MMmK(servers=2, capacity=12, overhead=0.001, discipline=discipline), seen)
    errors = dict(zip(fit.table()["parameter"], fit.table()["std_error"], strict=True))
    for name, value in {"service_rate": 50.0, "overhead": 0.002}.items():
        assert fit.estimates[name] == pytest.approx(value, abs=4 * errors[name])
        assert errors[name] < 0.05 * value
    ahead = fit.forecast([120.0], measures=["p99"])
    expected = truth(discipline=discipline).measure("p99")(truth(discipline=discipline).at([120.0]))
    assert ahead["p99"][0] == pytest.approx(expected.item(), rel=0.05)


def test_without_an_overhead_the_service_rate_is_biased():
    fit = st.fit(M.MMmK(servers=2, capacity=12), windows(truth()))
    assert fit.estimates["service_rate"] < 48.0


@pytest.mark.parametrize(
    "model",
    [
        truth(),
        M.Slowing(capacity=4, service_rate=50.0, slowdown=0.2),
        M.HyperexponentialService(capacity=4, service_rate=50.0),
        M.Service(capacity=4, service_rate=50.0, variability=0.8, overhead=5e-4),
    ],
)
def test_gradients_and_curvatures_are_those_of_differences(model):
    likelihood = Likelihood(model, windows(M.MMmK(capacity=4, service_rate=50.0)))
    z = model.free(model.theta.detach()).numpy()
    value, gradient = likelihood.value_and_gradient(z)
    hessian = likelihood.hessian(z)
    assert math.isfinite(value)
    for k, step in enumerate(1e-5 * np.eye(len(z))):
        up, down = (likelihood.value_and_gradient(z + s) for s in (step, -step))
        assert gradient[k] == pytest.approx((up[0] - down[0]) / 2e-5, rel=1e-5, abs=1e-3)
        np.testing.assert_allclose(hessian[k], (up[1] - down[1]) / 2e-5, rtol=1e-3, atol=1.0)


def test_a_start_above_the_shortest_time_is_lowered():
    seen = windows(truth())
    fit = st.fit(M.MMmK(servers=2, capacity=12, overhead=100.0), seen)
    assert fit.estimates["overhead"] == pytest.approx(0.002, rel=0.05)


def test_the_more_informative_kind_is_used_and_another_on_request():
    model = truth()
    states = st.simulate(model, LOADS, duration=30.0, seed=3)
    both = st.Windows(x=LOADS, observations=[*states.observations, histogram(model)])
    start = M.MMmK(servers=2, capacity=12, overhead=0.001)
    fit = st.fit(start, both)
    assert [kind.kind for kind in fit.windows.observations] == ["latencies"]
    assert [kind.kind for kind in fit.windows.aside] == ["states"]
    assert "of the same requests, so set aside: states" in str(fit)
    plain = M.MMmK(servers=2, capacity=12)
    counted = st.fit(plain, both, observations=["states"])
    assert counted.nll == pytest.approx(st.fit(plain, states).nll)
    together = st.fit(start, both, observations=["states", "latencies"])
    assert together.estimates["service_rate"] == pytest.approx(50.0, rel=0.05)


def test_a_model_without_response_times_falls_back_to_states():
    seen = histogram(truth())
    model = M.UpperTriangular(states=5)
    with pytest.raises(InputError, match=r"UpperTriangular.*response times"):
        st.fit(model, st.Windows(x=LOADS, observations=[seen]))
    function = M.FromFunction(
        lambda load, p: {("a", "b"): load, ("b", "a"): p.mu}, states=["a", "b"], params={"mu": 1.0}
    )
    with pytest.raises(InputError, match=r"FromFunction says nothing.*observations="):
        st.fit(function, st.Windows(x=LOADS, observations=[seen]))


# Files.


def test_files_keep_histograms(tmp_path):
    seen = windows(truth(), edges=[0.001, 0.0025, 0.02, 0.3])
    seen.to_csv(tmp_path / "w.csv")
    again = st.read_windows(tmp_path / "w.csv")
    assert again == seen
    assert again.observations[0].columns == ("rt_1ms", "rt_2.5ms", "rt_20ms", "rt_300ms", "rt_more")


def test_columns_by_a_pattern_in_any_order():
    frame = pd.DataFrame(
        {"load": [5.0], "t<1s": [1], "t<50ms": [7], "t<inf": [2], "t<x": [9], "t<200us": [4]}
    )

    seen = st.Windows.from_frame(frame, latency="t<{}").observations[0]
    assert seen.edges == pytest.approx((2e-4, 0.05, 1.0))
    assert seen.data.tolist() == [[4, 7, 1, 2]]


def test_saved_fits_keep_histograms(tmp_path):
    fit = st.fit(M.MMmK(servers=2, capacity=12, overhead=0.001), windows(truth()))
    fit.save(tmp_path / "run")
    again = st.load(tmp_path / "run")
    assert again.windows == fit.windows
    assert again.estimates == fit.estimates


def test_windows_take_a_histogram_directly():
    seen = st.Windows(x=[1.0, 2.0], latency=[[3, 4, 1], [2, 2, 2]], edges=[0.1, 0.2])
    assert seen.observations == (Latencies([[3, 4, 1], [2, 2, 2]], [0.1, 0.2]),)
    assert "up to 100 ms, 100 ms to 200 ms, over 200 ms" in repr(seen)


# What is wrong.

RISING = [[1, 3, 8, 9, 9], [2, 5, 6, 9, 12]]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Latencies([[1, 2, 3]], [0.1, 0.3, 0.2]), "positive and increasing.*0.3, 0.2"),
        (lambda: Latencies([[1, 2]], [-1.0, 0.2]), "positive and increasing; got -1"),
        (lambda: Latencies([[1, 2]], []), "got none"),
        (lambda: Latencies([[1, 2]], "ab"), "edges must be numbers"),
        (lambda: Latencies([[1, 2, 3, 4]], [0.1, 0.2]), "2 edges and 4 columns"),
        (lambda: Latencies([[1, -2, 3]], [0.1, 0.2]), "-2"),
        (lambda: Latencies(RISING, [1, 2, 3, 4]), "never fall.*cumulative.*np.diff"),
        (lambda: Latencies([[-1, 2, 3, 4]], [1, 2, 3, 4]), "the count is -1"),
        (lambda: st.Windows(x=[1.0], latency=[[1, 2]]), "latency= and edges= go together"),
        (
            lambda: st.fit(M.MMmK(capacity=12), windows_in_milliseconds()),
            "room for 12.*unit of time of the loads",
        ),
        (
            lambda: st.Windows.from_frame(pd.DataFrame({"load": [1.0], "a": [1]}), latency="b_{}"),
            "no column matches latency='b_{}'.*load|a",
        ),
    ],
)
def test_bad_histograms_are_named(make, says):
    with pytest.raises(InputError, match=says):
        make()


def windows_in_milliseconds():
    seen = histogram(truth())
    return st.Windows(x=LOADS, observations=[Latencies(seen.data, [1e3 * e for e in EDGES])])


def test_the_command_line_chooses_what_to_learn_from(call, tmp_path):
    states = st.simulate(truth(), LOADS, duration=30.0, seed=3)
    both = st.Windows(x=LOADS, observations=[*states.observations, histogram(truth())])
    both.to_csv(tmp_path / "w.csv")
    ask = ("fit", tmp_path / "w.csv", "--model", "mmmk:servers=2,capacity=12", "--json")
    for wanted, seen in (("states", ["states"]), ("states, latencies", ["states", "latencies"])):
        code, _, err = call(*ask, "--observations", wanted, "-o", tmp_path / wanted)
        assert code == 0, err
        kinds = st.load(tmp_path / wanted).windows.observations
        assert [kind.kind for kind in kinds] == seen
    code, _, err = call(*ask, "--observations", "times")
    assert code == 2
    assert "have no 'times'" in err
