"""``stationary fit --gradient``: stochastic fits, cut off and taken up again."""

import json
import os
import signal
import subprocess
import sysconfig
import time
from pathlib import Path

import numpy as np
import pytest

import stationary as st
from stationary.cli._parse import parse_gradient
from stationary.errors import InputError

SCRIPT = Path(sysconfig.get_path("scripts")) / "stationary"
MODEL = ("--model", "mmmk:servers=1,capacity=9", "--observe", "0,1")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "windows.csv"
    truth = st.models.MMmK(servers=1, capacity=9, service_rate=25.0)
    st.simulate(truth, np.repeat(np.arange(11.0, 16.0), 4), duration=10.0, seed=1).to_csv(path)
    return path


# On tensors of this size torch's threads only wait for one another.
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(*args, cwd=None):
    return subprocess.run(
        [SCRIPT, *map(str, args)], capture_output=True, text=True, cwd=cwd, check=False, env=ENV
    )


@pytest.mark.parametrize(
    "gradient",
    ["infinity:p=auto,series=doubling", "infinity:p=auto,control=yes", "dc-bptt:steps=512"],
)
def test_gradients_by_name(call, data, tmp_path, gradient):
    args = ("--gradient", gradient, "--epochs", 40, "--lr", 0.5, "--batch", 4, "--average")
    code, out, err = call("fit", data, *MODEL, *args, "-o", tmp_path / "run", "--json")
    assert code == 0, err
    found = json.loads(out)
    exact = st.fit(st.models.MMmK(servers=1, capacity=9), st.read_windows(data, observe=[0, 1]))
    assert found["nll"] - exact.nll < 0.05
    assert found["message"].startswith("40 epochs")
    assert len(st.load(tmp_path / "run").history) == 40 * 5
    assert not (tmp_path / "run.unfinished").exists()


def test_infinite_variance_is_said(call, data):
    args = ("--gradient", "infinity:p=0.9", "--epochs", 1, "--json")
    _, out, _ = call("fit", data, *MODEL, *args)
    assert any("variance is infinite" in w for w in json.loads(out)["warnings"])


def test_a_killed_fit_is_resumed(data, tmp_path):
    args = ["fit", data, *MODEL, "--gradient", "infinity:p=0.2", "--epochs", "150", "--lr", "0.05"]
    straight = run(*args, "-o", "straight", "--json", cwd=tmp_path)
    command = [SCRIPT, *args, "-o", "run"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, env=ENV)
    mark = tmp_path / "run.unfinished" / "checkpoint.safetensors"
    deadline = time.monotonic() + 60
    while not mark.exists() and time.monotonic() < deadline:
        assert process.poll() is None, "the fit ended before its first checkpoint"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "run").exists()
    again = run(*args, "-o", "run", cwd=tmp_path)
    assert again.returncode == 2
    assert "unfinished run" in again.stderr
    assert "--resume" in again.stderr
    resumed = run(*args, "-o", "run", "--resume", "--json", cwd=tmp_path)
    assert json.loads(resumed.stdout)["parameters"] == json.loads(straight.stdout)["parameters"]
    assert not mark.parent.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("newton", "there is no gradient 'newton'; there are: exact"),
        ("infinity:p=2", "stopping probability lies between 1e-06 and 1.*got 2"),
        ("infinity:p=high", "p must be a number; got 'high'"),
        ("infinity:q=1", "gradient infinity has no option 'q'"),
        ("infinity:series=fourier", "series is one of powers, doubling"),
        ("infinity:control=maybe", "control is one of yes, no"),
        ("infinity:draws=1.5", "draws must be a whole number"),
        ("dc-bptt:steps=100", "power of two"),
        ("bptt:steps=1.5", "steps must be a whole number"),
        ("exact:p=1", "gradient exact has no option 'p'"),
    ],
)
def test_bad_gradients(text, words):
    with pytest.raises(InputError, match=words):
        parse_gradient(text, seed=0)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--epochs", "0"), "epochs must be a whole number"),
        (("--epochs", "5", "--lr", "0"), "lr must be positive"),
        (("--epochs", "5", "--batch", "0"), "batch must be a whole number"),
        (("--lr", "0.1"), "go with a stochastic fit"),
        (("--epochs", "5", "--resume"), "--resume needs -o"),
    ],
)
def test_bad_options(call, data, args, words):
    code, _, err = call("fit", data, *MODEL, *args)
    assert code == 2
    assert words in err


def test_the_papers_way_is_one_option(call, data, tmp_path):
    args = ("--method", "paper", "--gradient", "infinity:p=0.2", "--epochs", 3)
    code, _, _ = call("fit", data, *MODEL, *args, "-o", tmp_path / "run")
    assert code == 1  # three epochs do not converge
    recipe = st.load(tmp_path / "run").recipe["method"]
    for part in ("p=0.2", "epochs=3", "clip=5.0", "floor=1e-06", "start=0.0", "amsgrad=False"):
        assert part in recipe
    args = ("--gradient", "infinity", "--epochs", 2, "--start", 5, "-o", tmp_path / "other")
    call("fit", data, *MODEL, *args)
    assert "start=5.0" in st.load(tmp_path / "other").recipe["method"]


def test_a_fit_that_starts_at_zero_and_stays_there_has_not_converged(call, tmp_path):
    """From zero, 128 steps make the observed states so unlikely that there is no gradient."""
    heavy = [f"{load},3,4" for load in range(200, 1000, 100)]
    (tmp_path / "w.csv").write_text("\n".join(["load,Q=1,Q=2", *heavy]))
    chain = ("--model", "uppertriangular:states=22", "--method", "paper", "--epochs", 1)
    args = ("--gradient", "dc-bptt:steps=128", "--floor", 0, "-o", tmp_path / "run")
    code, out, _ = call("fit", tmp_path / "w.csv", *chain, *args)
    assert code == 1
    assert "NOT converged: 1 epoch, far from an optimum" in out
    assert set(st.load(tmp_path / "run").estimates.values()) == {0.0}


@pytest.mark.parametrize("args", [("--method", "newton"), ("--start", 1), ("--floor", 0)])
def test_methods_that_there_are_not(call, data, args):
    code, _, err = call("fit", data, *MODEL, *args)
    assert code == 2
    assert args[0] in err
