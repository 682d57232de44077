"""The interface as it was designed: these lines work, and wrong types get a sentence."""

import contextlib
import inspect
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st

LOADS = np.tile(np.arange(11.0, 20.0, 2.0), 8)


@pytest.fixture(scope="module")
def model():
    return st.models.MMmK(servers=1, capacity=20)


@pytest.fixture(scope="module")
def windows():
    truth = st.models.MMmK(servers=1, capacity=20, service_rate=25.0)
    return st.simulate(truth, x=LOADS, duration=10.0, seed=0)


@pytest.fixture(scope="module")
def fit(model, windows):
    return st.fit(model, windows)


def test_windows_are_read(windows, tmp_path):
    frame = windows.to_frame()
    frame = frame.rename(columns={"load": "callrate"})
    frame.to_csv(tmp_path / "windows.csv", index=False)
    read = st.read_windows(tmp_path / "windows.csv", x="callrate", counts="Q={}", observe=[0, 1])
    assert read.counts.tolist() == windows.counts[:, :2].tolist()
    columns = {"load": LOADS, "n0": windows.counts[:, 0], "n1": windows.counts[:, 1]}
    framed = st.Windows.from_frame(pd.DataFrame(columns), x="load", counts=["n0", "n1"])
    assert framed.counts.tolist() == read.counts.tolist()
    made = st.Windows(x=LOADS[:, None], counts=windows.counts[:, :2], observe=[0, 1], duration=10.0)
    assert len(made) == len(LOADS)


def test_a_plan(windows, tmp_path):
    slos = ["response_time < 500ms", "loss < 0.1%"]
    plan = st.plan(windows, servers=1, capacity=20, slo=slos)
    assert str(plan)
    assert plan.limit.low < plan.limit.load < plan.limit.high
    assert plan.limit.binding.measure in ("response_time", "loss")
    assert plan.what_if(servers=5).limit.load > plan.limit.load
    assert {"loss", "loss_low", "trusted"} <= set(plan.forecast([80, 100, 120], measures="loss"))
    plan.save(tmp_path / "plan")
    assert st.load(tmp_path / "plan").limit.load == plan.limit.load


def test_a_fit(fit, tmp_path):
    assert "service_rate" in str(fit)
    assert "<table" in fit._repr_html_()
    forecast = fit.forecast(x=range(30, 61))
    assert isinstance(forecast, pd.DataFrame)
    assert {"load", "loss", "loss_low", "loss_high", "trusted"} <= set(forecast)
    limit = fit.max_load(loss=0.001, p99=0.2)
    assert limit.binding in limit.slos
    fit.report(tmp_path / "report.html", compare=False)
    fit.save(tmp_path / "run")
    assert st.load(tmp_path / "run").estimates == fit.estimates
    assert list(fit.table())[:5] == ["parameter", "estimate", "std_error", "low", "high"]
    assert fit.nll > 0


def test_the_papers_way(model, windows):
    with pytest.warns(st.errors.ConvergenceWarning, match="nats above the optimum"):
        paper = st.fit(model, windows, gradient=st.Infinity(p=0.1, seed=0), epochs=5)
    assert paper.estimates["service_rate"] == pytest.approx(25.0, rel=0.3)
    assert len(paper.history)


def test_a_differentiable_steady_state():
    Q = torch.rand(50, 21, 21, dtype=torch.float64, requires_grad=True)
    state = st.steady_state(Q, gradient=st.Exact())
    assert state.pi.shape == (50, 21)
    assert float(state.residual.max()) < 1e-10
    assert state.status is not None
    state.pi[:, -1].log().sum().backward()
    assert bool(Q.grad.isfinite().all())
    assert bool((st.spectral_gap(Q.detach()) > 0).all())
    assert float(st.mixing_time(Q[0].detach(), eps=1e-5)) > 0
    assert torch.equal(st.steady_state(st.Generator.from_dense(Q.detach())).pi, state.pi)
    for gradient in (st.BPTT(steps=20), st.DivideAndConquerBPTT(steps=32)):
        assert st.steady_state(Q, gradient=gradient).pi.shape == (50, 21)


def test_a_simulation(model):
    assert isinstance(st.simulate(model, x=[11.0, 12.0], duration=1.0, seed=0), st.Windows)


class Crashing(st.Model):
    """A chain of one's own."""

    states = ["up", "down"]
    params = {"wear": 0.1, "repair": 1.0}

    def rates(self, load, p):
        return {("up", "down"): load * p.wear, ("down", "up"): p.repair}


def test_a_chain_of_ones_own():
    pi = st.steady_state(Crashing()([10.0, 20.0])).pi.detach()
    torch.testing.assert_close(pi[:, 1], torch.tensor([1 / 2, 2 / 3], dtype=torch.float64))
    windows = st.simulate(Crashing(), x=[5.0, 10.0, 15.0] * 10, duration=100.0, seed=0)
    fit = st.fit(Crashing(), windows)
    ratio = fit.estimates["wear"] / fit.estimates["repair"]
    assert ratio == pytest.approx(0.1, rel=0.1)


def test_fixed_names():
    names = "MultiDiagonal UpperTriangular Relaxed FromFunction RuleModel from_prism ErlangService"
    for name in [*names.split(), "BatchArrivals", "FromModule", "PCMC"]:
        assert hasattr(st.models, name)
    assert callable(st.Edges.from_pairs)
    assert callable(st.conditional_nll)
    assert set(inspect.signature(st.models.MultiDiagonal).parameters) >= {"depth", "capacity"}
    assert set(inspect.signature(st.models.Relaxed).parameters) >= {"model", "alpha"}


WRONG = {
    "a model's name": (lambda m, w, f: st.fit("mmmk", w), "the model .*'mmmk'"),
    "a model's class": (lambda m, w, f: st.fit(st.models.MMmK, w), "the model .*MMmK"),
    "a file": (lambda m, w, f: st.fit(m, "file.csv"), r"Windows.*read_windows.*'file\.csv'"),
    "a frame": (lambda m, w, f: st.fit(m, w.to_frame()), "Windows"),
    "a gradient's name": (lambda m, w, f: st.fit(m, w, gradient="exact"), "gradient .*'exact'"),
    "a covariance's name": (
        lambda m, w, f: st.fit(m, w, covariance="sandwich"),
        "covariance .*'sandwich'",
    ),
    "a solver's name": (lambda m, w, f: st.fit(m, w, solver="gth"), "solver .*'gth'"),
    "a method's name": (lambda m, w, f: st.fit(m, w, method="newton"), "method .*'newton'"),
    "a seed": (lambda m, w, f: st.fit(m, w, seed="one"), "seed .*'one'"),
    "both ways": (lambda m, w, f: st.fit(m, w, method=st.Newton(), epochs=3), "method=.*epochs="),
    "a text for a generator": (lambda m, w, f: st.steady_state("Q"), "Generator.*got str"),
    "no chain": (lambda m, w, f: st.steady_state(None), "Generator.*NoneType"),
    "a text for rates": (lambda m, w, f: st.Generator.from_dense("x"), "'x'|got str"),
    "a text for pairs": (lambda m, w, f: st.Edges.from_pairs("x", 3), "pairs"),
    "a text for a precision": (lambda m, w, f: st.mixing_time(torch.ones(2, 2), eps="a"), "'a'"),
    "a name to relax": (lambda m, w, f: st.models.Relaxed("mmmk", alpha=1.0), "mmmk"),
    "a text for alpha": (lambda m, w, f: st.models.Relaxed(m, alpha="q"), "alpha .*'q'"),
    "a number for rates": (
        lambda m, w, f: st.models.FromFunction(5, states=2, params={}),
        "function.*5",
    ),
    "an option that the class decides": (
        lambda m, w, f: st.models.ErlangService(servers=2),
        "ErlangService decides 'servers'",
    ),
    "a number of items": (lambda m, w, f: st.models.PCMC(items=5), "items .*5"),
    "a text for probabilities": (lambda m, w, f: st.conditional_nll("x", "y", [0]), "str|'x'"),
    "a run by its number": (lambda m, w, f: st.load(5), "5"),
    "a file by its number": (lambda m, w, f: st.read_windows(5), "5"),
    "a gradient of a state": (
        lambda m, w, f: st.steady_state(torch.ones(2, 2).double(), gradient="exact"),
        "'exact'",
    ),
    "a solver of a state": (
        lambda m, w, f: st.steady_state(torch.ones(2, 2).double(), solver="gth"),
        "'gth'",
    ),
    "a number for an SLO": (lambda m, w, f: f.max_load(0.01), "SLO .*loss.*0.01"),
    "an SLO without a bound": (lambda m, w, f: f.max_load("loss"), "measure<bound.*'loss'"),
    "a text for a bound": (lambda m, w, f: f.max_load(loss="little"), "loss .*'little'"),
    "one model": (lambda m, w, f: st.compare(m, w), "several models"),
    "a list of names": (lambda m, w, f: st.compare(["mmmk"], w), "the model .*'mmmk'"),
    "a comparison of a file": (lambda m, w, f: st.compare([m], "file.csv"), "Windows"),
    "a plan of a number": (lambda m, w, f: st.plan(3), "Windows"),
    "a plan of no file": (lambda m, w, f: st.plan("file.csv"), "file.csv: there is no such file"),
    "a text for loads": (lambda m, w, f: f.forecast("a"), "loads .*'a'"),
    "no loads": (lambda m, w, f: f.forecast(None), "load"),
    "a level": (lambda m, w, f: f.forecast([20.0], level="high"), "level .*'high'"),
    "a measure": (lambda m, w, f: f.forecast([20.0], measures=3), "measure"),
    "a load to simulate": (lambda m, w, f: st.simulate(m, x="a", duration=1.0), "'a'"),
    "a model to simulate": (
        lambda m, w, f: st.simulate("mmmk", x=[1.0], duration=1.0),
        "model; got str",
    ),
    "a present load": (lambda m, w, f: f.max_load(loss=0.1, present="now"), "present .*'now'"),
    "an experiment": (lambda m, w, f: f.next_experiment("a", loss=0.1), "'a'"),
    "parameters": (
        lambda m, w, f: st.models.FromFunction(lambda load, p: {}, states=2, params={"k": "x"}),
        "'k'.*'x'",
    ),
    "rates in a list": (
        lambda m, w, f: st.models.FromFunction(lambda load, p: [1], states=2, params={"k": 1.0}),
        "list",
    ),
    "repeats": (lambda m, w, f: f.bootstrap("many"), "repeats; got 'many'"),
}


@pytest.mark.parametrize(("ask", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_type_gets_a_sentence(ask, said, model, windows, fit):
    with pytest.raises(st.errors.InputError, match=said):
        ask(model, windows, fit)


CALLS = {
    "fit": lambda m, w, f: (st.fit, {"model": m, "windows": w}),
    "compare": lambda m, w, f: (st.compare, {"models": [m], "windows": w, "jobs": 1}),
    "plan": lambda m, w, f: (st.plan, {"windows": w, "capacity": 20}),
    "Slo": lambda m, w, f: (st.Slo, {"measure": "loss", "bound": 0.1}),
    "Slo.parse": lambda m, w, f: (st.Slo.parse, {"text": "loss<1%"}),
    "Newton": lambda m, w, f: (st.Newton, {}),
    "Stochastic": lambda m, w, f: (st.Stochastic, {}),
    "load": lambda m, w, f: (st.load, {"folder": "nowhere"}),
    "forecast": lambda m, w, f: (f.forecast, {"x": [10.0]}),
    "max_load": lambda m, w, f: (f.max_load, {"loss": 0.01}),
    "what_if": lambda m, w, f: (f.what_if, {"servers": 2}),
    "next_experiment": lambda m, w, f: (f.next_experiment, {"loss": 0.01, "loads": [15.0]}),
    "bootstrap": lambda m, w, f: (f.bootstrap, {"repeats": 20, "jobs": 1}),
    "compared": lambda m, w, f: (f.compared, {"jobs": 1}),
    "identify": lambda m, w, f: (f.identify, {"x": [15.0]}),
    "table": lambda m, w, f: (f.table, {}),
    "conf_int": lambda m, w, f: (f.conf_int, {}),
    "plot": lambda m, w, f: (f.plot, {}),
    "plot_forecast": lambda m, w, f: (f.plot_forecast, {"x": [10.0]}),
    "plot_residuals": lambda m, w, f: (f.plot_residuals, {}),
    "plot_calibration": lambda m, w, f: (f.plot_calibration, {}),
    "plot_generator": lambda m, w, f: (f.plot_generator, {}),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_whatever_an_argument_is_there_is_an_answer_or_a_sentence(call, model, windows, fit):
    function, right = call(model, windows, fit)
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        for wrong in ("x", object(), ["a"], -2.5):
            with contextlib.suppress(st.errors.StationaryError):
                function(**{**right, name: wrong})


def test_every_name_at_the_top_can_be_asked_for_first():
    code = "import sys; import stationary; getattr(stationary, sys.argv[1])"
    for name in ("covariances", "optimisers", "measures", "simulation"):
        done = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
