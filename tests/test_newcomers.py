"""What is added is one short file, as docs/architecture.md says, and known everywhere at once."""

import sys
from importlib import import_module, invalidate_caches
from pathlib import Path

import numpy as np
import pytest
import torch

import stationary as st
from stationary.models import queues
from stationary.models.measures import probability

LOADS = np.tile([4.0, 8.0, 12.0, 16.0], 8)
MODEL = "mmmk:servers=1,capacity=10"

QUEUE = '''
from stationary.models._params import Param, rate
from stationary.models.queues._birth_death import BirthDeathQueue


class Discouraged(BirthDeathQueue):
    """A queue that requests join less often the longer it is: ``load / (1 + reluctance * n)``."""

    params = {"service_rate": rate(), "reluctance": Param(0.2)}

    def births(self, load, p):
        """Those that join."""
        return load / (1 + p.reluctance * self.levels[:-1])
'''

FORMAT = '''
"""A log that ends in milliseconds and a word."""

from stationary.ingest.formats._base import LogLines

LAYOUT = '{} [{clock}] "{request}" {status} {} {took:ms} toy'
FORMAT = LogLines("a toy log", (LAYOUT,))
'''

KIND = '''
"""How often the system was seen idle, and how often busy."""

import numpy as np
import torch

from stationary.data._base import Counts


class Idle(Counts):
    """Counts of idle and busy."""

    kind = "idleness"
    columns = ("idle", "busy")

    @classmethod
    def find_columns(cls, names):
        return cls.columns if {*cls.columns} <= {*names} else ()

    @classmethod
    def from_columns(cls, columns, metadata):
        return cls(np.column_stack([columns[name] for name in cls.columns]))

    def on(self, model):
        return self

    def probabilities(self, point):
        idle = point.pi[..., :1]
        return torch.cat([idle, 1 - idle], -1)
'''


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Add a file to a package, for one test: beside links to the files that are there."""
    caches = (queues.class_names, queues._classes)

    def to(package, name, text):
        package = import_module(package)
        folder = tmp_path / package.__name__
        folder.mkdir()
        for file in Path(package.__path__[0]).iterdir():
            (folder / file.name).symlink_to(file)
        (folder / name).write_text(text)
        monkeypatch.setattr(package, "__path__", [str(folder)])
        added = f"{package.__name__}.{name.removesuffix('.py')}"
        monkeypatch.setitem(sys.modules, added, None)  # so that it is forgotten afterwards
        del sys.modules[added]
        for cache in caches:
            cache.cache_clear()
        invalidate_caches()

    yield to
    for cache in caches:
        cache.cache_clear()


def test_a_queue_model_is_one_file(add, call, tmp_path):
    add("stationary.models.queues", "discouraged.py", QUEUE)
    model = st.models.Discouraged(servers=2, capacity=8, service_rate=5.0)
    point = model.at([3.0, 30.0])
    served = (point.pi[..., 1:] * model.deaths(point.p)).sum(-1)
    torch.testing.assert_close(model.measure("throughput")(point), served)
    lost = 1 - served / point.load[..., 0]
    torch.testing.assert_close(model.measure("loss")(point), lost)
    little = (point.pi * model.levels).sum(-1) / served
    torch.testing.assert_close(model.measure("response_time")(point), little)

    name = "discouraged:servers=1,capacity=10"
    file, truth = tmp_path / "w.csv", f"{name},service_rate=20,reluctance=0.3"
    args = ["--x", "4:16:4", "--windows", 6, "--duration", 50, "-o", file]
    assert call("simulate", truth, *args)[0] == 0
    code, out, _ = call("fit", file, "--model", name)
    assert code == 0, out
    assert "reluctance" in out
    assert call("fit", file, "--model", "discouragd")[2].count("did you mean 'discouraged'?") == 1
    assert call("models")[1].count("discouraged") >= 1


def test_percentiles_of_a_queue_count_those_that_join(add):
    text = QUEUE.replace("    def births", "    exponential = True\n\n    def births")
    add("stationary.models.queues", "discouraged.py", text)
    model = st.models.Discouraged(servers=2, capacity=8, service_rate=5.0, reluctance=1.0)
    point = model.at([12.0])
    mean = model.measure("response_time")(point)
    torch.testing.assert_close(model.response_times(point).mean, mean)


def waiting_share(self, name):
    """What `Queue.measure` would be with one measure more."""
    if name == "waiting_share":
        return probability(self.levels > self.servers, "share of time in which a request waits")
    return waiting_share.usual(self, name)


def test_a_measure_is_a_few_lines(call, tmp_path, monkeypatch):
    monkeypatch.setattr(waiting_share, "usual", queues.Queue.measure, raising=False)
    monkeypatch.setattr(queues.Queue, "measure", waiting_share)
    truth = st.models.MMmK(servers=1, capacity=10, service_rate=20.0)
    run = tmp_path / "run"
    fit = st.fit(truth, st.simulate(truth, LOADS, duration=50.0, seed=1))
    fit.save(run)
    limit = fit.max_load("waiting_share<90%")
    bound = truth.measure("waiting_share")(truth.at([limit.load]))
    assert float(bound.detach()) == pytest.approx(0.9, rel=0.02)
    code, out, _ = call("forecast", run, "--slo", "waiting_share<90%", "--x", "5,10")
    assert code == 0, out
    assert "Waiting share < 90% holds up to" in out
    assert "%" in call("forecast", run, "--x", "5", "--measures", "waiting_share")[1]
    code, _, err = call("forecast", run, "--slo", "wating_share<30%")
    assert code == 2
    assert "MMmK has no measure 'wating_share'" in err
    code, _, err = call("forecast", run, "--slo", "respons_time<1s")
    assert "did you mean 'response_time'?" in err


class PinvFactor(st.solvers.Factor):
    accuracy = st.solvers.Accuracy.NORMWISE

    def __init__(self, generator):
        Q = generator.dense().detach()
        self.edges = generator.edges
        self.pinv = torch.linalg.pinv(-Q)
        null = (torch.eye(generator.n, dtype=Q.dtype) + Q @ self.pinv)[..., 0, :]
        self.pi = null / null.sum(-1, keepdim=True)

    def solve(self, h):
        return (self.pinv @ h[..., None])[..., 0]

    def solve_transposed(self, b):
        return (self.pinv.mT @ b[..., None])[..., 0]


class Pinv(st.solvers.Solver):
    def factor(self, generator):
        return PinvFactor(generator)


def test_a_solver_fits_and_forecasts():
    truth = st.models.MMmK(servers=2, capacity=6, service_rate=9.0)
    windows = st.simulate(truth, LOADS, duration=50.0, seed=1)
    fit, usual = st.fit(truth, windows, solver=Pinv()), st.fit(truth, windows)
    assert fit.estimates["service_rate"] == pytest.approx(usual.estimates["service_rate"])
    assert fit.max_load("loss<1%").load == pytest.approx(usual.max_load("loss<1%").load, rel=1e-6)
    with pytest.raises(st.errors.InputError, match="solver must be one such as GTH"):
        st.steady_state(truth([3.0]), solver=Pinv)


def test_a_kind_of_observation_is_one_file(add, call, tmp_path, monkeypatch):
    monkeypatch.setattr(st.Observation, "kinds", dict(st.Observation.kinds))
    add("stationary.data", "idleness.py", KIND)
    truth = st.models.MMmK(servers=1, capacity=10, service_rate=20.0)
    share = truth.closed_form(LOADS)[:, 0].numpy()
    idle = np.random.default_rng(0).binomial(400, share)
    rows = [f"{load},{n},{400 - n}" for load, n in zip(LOADS, idle, strict=True)]
    file, run = tmp_path / "w.csv", tmp_path / "run"
    file.write_text("\n".join(["load,idle,busy", *rows]))
    code, out, err = call("fit", file, "--model", MODEL, "-o", run)
    assert code == 0, out + err
    assert "observed idle, busy" in out
    assert [kind.kind for kind in st.load(run).windows.observations] == ["idleness"]


def test_a_log_format_is_one_file(add, call, tmp_path):
    add("stationary.ingest.formats", "toy.py", FORMAT)
    line = 'me [19/Nov/2026:10:{:02}:{:02}.{:03} +0000] "GET / HTTP/1.1" 200 9 {} toy'
    lines = [
        line.format(k // 3000, k // 50 % 60, k % 50 * 20, 30 if k % 3 else 5) for k in range(6000)
    ]
    log, file = tmp_path / "server.log", tmp_path / "w.csv"
    log.write_text("\n".join(lines))
    code, out, err = call("ingest", log, "-o", file, "--window", "10s")
    assert code == 0, err
    assert "Read as toy" in out + err
    assert set(st.read_windows(file).loads.tolist()) == {50.0}
    code, _, err = call("ingest", log, "-o", tmp_path / "v.csv", "--format", "tyo")
    assert "did you mean 'toy'?" in err
