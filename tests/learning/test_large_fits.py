"""Fits of chains large enough for sparse solvers, from lumped counts, exact and stochastic."""

import json
import signal
import subprocess
import sys
import time

import pytest

import stationary as st
from stationary.learning import checkpoints

RULES = {
    "arrive": "q1 < K -> q1 += 1 else lost at load",
    "move": "q1 > 0 and q2 < K -> q1 -= 1, q2 += 1 at mu1",
    "leave": "q2 > 0 -> q2 -= 1 at mu2",
}


def tandem(**params):
    return st.models.RuleModel(
        variables={"q1": (0, "K"), "q2": (0, "K")},
        rules=RULES,
        params=params,
        constants={"K": 49},
        count="3 * min(q1, 2) + min(q2, 2)",
        jobs="q1 + q2",
    )


@pytest.fixture(scope="module")
def windows():
    truth = tandem(mu1=12.0, mu2=15.0)
    return st.simulate(truth, x=[4.0, 6.0, 8.0] * 2, duration=100.0, seed=2)


@pytest.fixture(scope="module")
def exact(windows):
    return st.fit(tandem(mu1=20.0, mu2=9.0), windows)


def test_second_order_steps_find_the_truth(exact):
    assert exact.converged
    assert exact.estimate.starts == 1
    for name, value in (("mu1", 12.0), ("mu2", 15.0)):
        row = exact.table(0.99).set_index("parameter").loc[name]
        assert row["low"] < value < row["high"]


def test_stochastic_steps_beside_the_forward_factor_find_the_same(windows, exact):
    gradient = st.Infinity(p=0.5, seed=0, series=st.gradients.Preconditioned(), control=True)
    method = st.Stochastic(gradient, 12, st.optimisers.Adam(lr=0.3), batch=3, average=True)
    model, solver = tandem(mu1=13.0, mu2=14.0), st.solvers.Multigrid()
    with pytest.warns(st.errors.ConvergenceWarning):  # which 24 steps do not quite reach
        found = st.fit(model, windows, method=method, solver=solver)
    for name, value in exact.estimates.items():
        assert found.estimates[name] == pytest.approx(value, rel=0.03)


def test_a_killed_fit_goes_on_from_the_points_it_visited(tmp_path, windows):
    windows.to_csv(tmp_path / "windows.csv")
    (tmp_path / "tandem.toml").write_text(
        'count = "3 * min(q1, 2) + min(q2, 2)"\njobs = "q1 + q2"\n[constants]\nK = 49\n'
        '[variables]\nq1 = [0, "K"]\nq2 = [0, "K"]\n[params]\nmu1 = 20.0\nmu2 = 9.0\n[rules]\n'
        + "".join(f'{name} = "{rule}"\n' for name, rule in RULES.items())
    )
    command = [sys.executable, "-c", "from stationary.cli import main; main()", "fit"]
    command += ["windows.csv", "--model", "tandem.toml", "--duration", "100", "--json", "-o"]
    straight = subprocess.run([*command, "whole"], cwd=tmp_path, capture_output=True, check=True)
    visits = tmp_path / "run.unfinished" / checkpoints.CHECKPOINT
    cut_off = subprocess.Popen([*command, "run"], cwd=tmp_path, stdout=subprocess.PIPE)
    until = time.monotonic() + 120
    while not (visits.exists() and len(checkpoints.read(visits)["points"]) > 1):
        assert time.monotonic() < until
        assert cut_off.poll() is None
        time.sleep(0.02)
    cut_off.send_signal(signal.SIGKILL)
    cut_off.communicate()
    resumed = subprocess.run(
        [*command, "run", "--resume"], cwd=tmp_path, capture_output=True, check=True
    )
    kept = ("parameters", "nll", "evaluations")
    first, second = (json.loads(done.stdout) for done in (straight, resumed))
    assert {k: first[k] for k in kept} == {k: second[k] for k in kept}
    assert not visits.exists()
