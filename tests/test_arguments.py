"""Whatever a public function is given, it answers or says in a sentence what is wrong."""

import contextlib
import inspect
import math

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st
from stationary._support.arguments import explained

Q = torch.rand(3, 4, 4, dtype=torch.float64)
CHAINS = st.Generator.from_dense(Q)
EDGES = st.Edges.from_pairs([(0, 1), (1, 2), (2, 0)], 3)
QUEUE = st.models.MMmK(servers=1, capacity=5, service_rate=20.0)
WINDOWS = st.simulate(QUEUE, x=[5.0, 10.0, 15.0], duration=50.0)
LOG = st.ingest.RequestLog(np.arange(200) * 0.1, np.full(200, 0.05))
FIT = st.fit(QUEUE, WINDOWS)
TIMES = st.simulation.Responses("x")
CHANGED = FIT.having(discrepancy="x")
FILE = "windows.csv"
WRONG = (None, "x", object(), ["a"], [], {}, ("a", 1), math.nan, -2.5, True, torch.ones(2, 2, 5))


def ones(*shape):
    return torch.ones(*shape, dtype=torch.float64)


def rates(load, p):
    return {("a", "b"): load * p.k, ("b", "a"): p.k}


RULES = {"in": "q < 5 -> q += 1 at load", "out": "q > 0 -> q -= 1 at mu"}
CALLS = [
    (st.Windows, {"x": [1.0, 2.0], "counts": [[1, 2], [3, 4]], "observe": [0, 1]}),
    (st.Windows, {"x": [1.0, 2.0], "latency": [[1, 2], [3, 4]], "edges": [0.1]}),
    (st.Windows.from_frame, {"frame": WINDOWS.to_frame(), "counts": ["Q=0", "Q=1"]}),
    (st.read_windows, {"path": FILE}),
    (WINDOWS.between, {"low": 6.0}),
    (WINDOWS.observing, {"categories": [0, 1]}),
    (WINDOWS.select, {"which": [0, 1]}),
    (WINDOWS.using, {"kinds": ["states"]}),
    (WINDOWS.informing, {"models": [QUEUE]}),
    (WINDOWS.to_csv, {"path": "other.csv"}),
    (st.States, {"data": [[1, 2]], "observe": [0, 1]}),
    (st.data.Latencies, {"data": [[1, 2]], "edges": [0.1]}),
    (st.data.Losses, {"data": [[1, 2]]}),
    (st.data.Choices, {"data": [[1, 2]], "items": ["a", "b"]}),
    (st.data.ServiceTimes, {"data": [[3.0, 1.0, 1.0]], "cells": [(1, False, 1)]}),
    (st.data.choices, {"menus": [[1, 1]], "chosen": ["a"], "items": ["a", "b"]}),
    (st.conditional_nll, {"pi": ones(2, 3) / 3, "counts": ones(2, 2), "observation": [0, 1]}),
    (st.simulate, {"model": QUEUE, "x": [1.0, 2.0]}),
    (st.simulation.simulate_requests, {"model": QUEUE, "x": [1.0, 2.0]}),
    (st.simulation.trajectory, {"model": QUEUE, "x": 1.0, "duration": 2.0}),
    (st.simulation.Events, {}),
    (st.simulation.Responses, {}),
    (st.Edges, {"src": torch.tensor([0, 1]), "dst": torch.tensor([1, 0]), "n": 2}),
    (st.Edges.from_pairs, {"pairs": [(0, 1), (1, 0)], "n": 2}),
    (st.Edges.complete, {"n": 3}),
    (st.Generator, {"edges": EDGES, "rates": ones(2, 3)}),
    (st.Generator.from_dense, {"Q": Q}),
    (CHAINS.closed_class, {"index": (0,)}),
    (CHAINS.sparse, {"index": 0}),
    (CHAINS.uniformize, {}),
    (st.steady_state, {"generator": Q}),
    (st.spectral_gap, {"generator": Q}),
    (st.mixing_time, {"generator": Q[0]}),
    (st.Infinity, {"p": 0.1}),
    (st.BPTT, {"steps": 3}),
    (st.DivideAndConquerBPTT, {"steps": 4}),
    (st.gradients.Powers, {}),
    (st.gradients.Preconditioned, {}),
    (st.solvers.Jacobi, {}),
    (st.solvers.LU, {}),
    (st.solvers.Multigrid, {}),
    (st.solvers.SparseLU, {}),
    (st.covariances.Sandwich, {}),
    (st.optimisers.Adam, {}),
    (st.optimisers.RobbinsMonro, {}),
    (st.Newton, {}),
    (st.Stochastic, {}),
    (st.Param, {"value": 1.0}),
    (st.Slo, {"measure": "loss", "bound": 0.1}),
    (QUEUE, {"x": [1.0]}),
    (QUEUE.as_inputs, {"x": [1.0]}),
    (QUEUE.measure, {"name": "loss"}),
    (QUEUE.set_theta, {"values": [1.0]}),
    (QUEUE.state_index, {"state": 1}),
    (st.models.FromFunction, {"rates_fn": rates, "states": ["a", "b"], "params": {"k": 1.0}}),
    (st.models.FromModule, {"module": torch.nn.Linear(1, 2).double(), "states": 2}),
    (st.models.Relaxed, {"model": QUEUE, "alpha": 1.0}),
    (st.models.RuleModel, {"variables": {"q": (0, 5)}, "rules": RULES, "params": {"mu": 2.0}}),
    (st.models.read_model, {"path": "nowhere.toml"}),
    (st.models.from_prism, {"path": "nowhere.sm", "x": "load", "theta": ["mu"]}),
    (st.models.PCMC, {"items": ["a", "b", "c"]}),
    (st.models.PlackettLuce, {"items": ["a", "b", "c"]}),
    (st.models.navigation_scores, {"edges": EDGES, "views": ones(3)}),
    *((getattr(st.models, name), {}) for name in ("MMmK", "ErlangService", "MultiDiagonal")),
    *((getattr(st.models, name), {}) for name in ("Service", "UpperTriangular", "FiniteClients")),
    (st.ingest.RequestLog, {"arrival": [1.0, 2.0], "response": [0.1, 0.2]}),
    (st.ingest.calibrate, {"logs": [LOG]}),
    (st.ingest.windows_from_logs, {"logs": [LOG], "duration": 5.0, "capacity": 20}),
    (st.ingest.Cut, {}),
    (st.ingest.Source, {"location": "access.log"}),
    (st.ingest.Prometheus, {"url": "http://localhost:1", "start": 0.0, "end": 10.0}),
    (st.ingest.load_format, {"name": "nginx"}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("function", "right"), CALLS, ids=[getattr(f, "__qualname__", "model") for f, _ in CALLS]
)
def test_every_wrong_argument_gets_an_answer_or_a_sentence(function, right, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    WINDOWS.to_frame().to_csv(FILE, index=False)
    with contextlib.suppress(st.errors.StationaryError):
        function(**right)
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        for wrong in WRONG:
            with contextlib.suppress(st.errors.StationaryError):
                function(**{**right, name: wrong})


SENTENCES = [
    (lambda: st.BPTT(steps=3, margin="x"), "BPTT: margin must be a number; got 'x'"),
    (lambda: st.Infinity(p=None), "p must be a number or a function or 'auto'; got None"),
    (lambda: st.mixing_time(Q, eps="a"), "eps .*'a'"),
    (lambda: st.Edges.from_pairs([(0, 1)], None), "n must be a whole number; got None"),
    (lambda: st.Windows([1.0], [[1, 2]], 5), "observe must be a sequence.*; got 5"),
    (lambda: st.models.Service(overhead=["a"]), r"overhead must be a number or None; got \['a'\]"),
    (lambda: st.Windows([1.0], latency="x", edges=[1.0]), "latency must be a table.*'x'"),
    (lambda: st.read_windows(FILE, counts=3), "counts .*3"),
    (lambda: st.Generator(EDGES, [1.0, 2.0]), r"rates must be .*Tensor; got \[1.0, 2.0\]"),
    (lambda: st.Edges.from_pairs([(0.5, 1)], 3), r"pairs of states.*got \[\(0.5, 1\)\]"),
    (lambda: st.Edges.from_pairs([0, 1], 2), r"pairs of states.*got \[0, 1\]"),
    (lambda: st.Edges.from_pairs([(0, 1)], 2.5), "a whole number of states.*got n=2.5"),
    (lambda: st.compare({5: QUEUE}, WINDOWS), r"names of models must be texts; got \[5\]"),
    (lambda: st.plan(st.ingest.Source(5)), "Source: location must be a text; got 5"),
    # What was made wrong is named where it fails.
    (lambda: st.simulate(QUEUE, [5.0], scheme=TIMES), "Responses: edges must be .*'x'"),
    (lambda: CHANGED.forecast([5.0]), "Plan: discrepancy must be .*'x'"),
    (lambda: FIT.report("r.html", observed="x", compare=False), "observed must be .*'x'"),
]


def test_one_name_stands_for_a_list_of_one():
    class Sticky(st.Model):
        states, params, inputs = 2, {"wear": 1.0}, "load"

        def rates(self, load, p):
            return {(0, 1): load, (1, 0): p.wear}

    assert (Sticky().inputs, Sticky().states) == (("load",), ("0", "1"))
    assert WINDOWS.using("states") == WINDOWS.using(["states"])


@pytest.mark.parametrize(("ask", "said"), SENTENCES)
def test_a_sentence_names_the_argument_what_it_must_be_and_what_it_was(
    ask, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    WINDOWS.to_frame().to_csv(FILE, index=False)
    with pytest.raises(st.errors.InputError, match=said):
        ask()


def test_a_failure_of_another_kind_stays_what_it_is():
    @explained
    def divide(whole: float, parts: list[int], names: "Nowhere" = None) -> float:  # noqa: F821
        return parts[len(parts)] if whole < 0 else whole / parts[0]

    assert divide(4.0, [2]) == 2.0
    for given, error in (((-1.0, [1]), IndexError), ((1.0, [0]), ZeroDivisionError)):
        with pytest.raises(error):
            divide(*given)
    with pytest.raises(TypeError, match="positional argument"):
        divide()
    with pytest.raises(st.errors.InputError, match=r"parts must be .*a whole number; got 3"):
        divide(1.0, 3)


def test_a_class_of_ones_own_says_what_is_wrong_too():
    class Sticky(st.Model):
        states, params = ("up", "down"), {"wear": 1.0}

        def __init__(self, crews: int = 1, **values: float) -> None:
            self.most = range(crews)
            super().__init__(**values)

        def rates(self, load, p):
            return {("up", "down"): load, ("down", "up"): p.wear * len(self.most)}

    assert Sticky(crews=2)([1.0]).n == 2
    with pytest.raises(st.errors.InputError, match="Sticky: crews must be a whole number; got 'b'"):
        Sticky(crews="b")


def test_a_frame_of_texts_is_refused():
    with pytest.raises(st.errors.InputError, match="inputs must be numbers"):
        st.simulate(QUEUE, x=pd.DataFrame({"load": ["a"]}))


def test_a_function_that_does_not_take_the_inputs_is_named():
    with pytest.raises(st.errors.InputError, match="rates_fn is called with load and p"):
        st.models.FromFunction(lambda load: load, states=["a", "b"], params={"k": 1.0})


def test_a_measure_of_no_numbers_is_refused():
    with pytest.raises(st.errors.InputError, match="one number per state; got 'busy'"):
        st.measures.probability("busy")
