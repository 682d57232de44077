import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st
from stationary.errors import ConvergenceWarning, InputError, RunError, SolverError
from stationary.learning import stochastic
from stationary.learning.estimate import End
from stationary.learning.likelihood import Likelihood
from stationary.learning.optimisers import Adam
from stationary.learning.stochastic import Trainer

LOADS = np.repeat(np.arange(11.0, 16.0), 4)
TRUTH = st.models.MMmK(servers=1, capacity=9, service_rate=25.0)
WINDOWS = st.simulate(TRUTH, LOADS, duration=5.0, seed=3).observing([0, 1])
MODEL = st.models.MMmK(servers=1, capacity=9)
EXACT = st.fit(MODEL, WINDOWS)


def low_variance():
    return st.Infinity(p="auto", seed=0, series=st.gradients.Doubling())


@pytest.mark.parametrize(
    "gradient",
    [
        st.Infinity(p="auto", seed=0),
        st.Infinity(p="auto", seed=0, control=True),
        low_variance(),
        st.Exact(),
        st.BPTT(steps=128),
        st.DivideAndConquerBPTT(steps=512),
    ],
    ids=["plain", "control", "doubling", "exact", "bptt", "dc-bptt"],
)
def test_every_strategy_finds_the_maximum(gradient):
    method = st.Stochastic(gradient, 40, st.optimisers.Adam(lr=0.5), batch=2, average=True)
    fit = st.fit(MODEL, WINDOWS, method=method)
    assert fit.converged
    assert fit.nll - EXACT.nll < 0.05
    ended = fit.estimate.ended
    assert (ended.why, ended.epochs) == (End.EPOCHS, 40)
    assert ended.above == pytest.approx(fit.nll - EXACT.nll, abs=0.01)
    assert len(fit.history) == 40 * len(WINDOWS) / 2


def test_a_short_horizon_does_not():
    # The model must be asked about a chain that has not mixed in two steps.
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        fit = st.fit(MODEL, WINDOWS, gradient=st.DivideAndConquerBPTT(steps=2), epochs=20)
    assert fit.nll - EXACT.nll > 0.5


def test_step_rules_batches_and_averages():
    for method in (
        st.Stochastic(low_variance(), 40, st.optimisers.RobbinsMonro(lr=5.0), batch=5),
        st.Stochastic(low_variance(), 150, Adam(lr=0.5, amsgrad=True), batch=20, average=True),
    ):
        fit = st.fit(MODEL, WINDOWS, method=method)
        assert fit.nll - EXACT.nll < 0.05, method
        assert len(fit.history) == method.epochs * -(-len(WINDOWS) // method.batch)


def test_average_is_the_mean_of_the_second_half():
    training = st.Stochastic(epochs=4, average=True)
    trainer = Trainer(MODEL, WINDOWS, training)
    trainer.run()
    half = trainer.frame().query("epoch >= 2")["service_rate"].mean()
    assert trainer.estimate.item() == pytest.approx(half, rel=1e-12)


def test_robbins_monro_steps_shrink():
    rule = st.optimisers.RobbinsMonro(lr=1.0, power=0.75, delay=10.0)
    assert [rule.rate(k) for k in (0, 10, 1000)] == pytest.approx([1, 2**-0.75, 101**-0.75])


def test_penalties_add_up_over_an_epoch():
    model = st.models.Relaxed(MODEL, alpha=10.0, initial=0.1)
    trainer = Trainer(model, WINDOWS, st.Stochastic(epochs=1, rule=st.optimisers.Adam(lr=1e-12)))
    trainer.run()
    likelihood = Likelihood(model, WINDOWS)
    total = likelihood(model.free(likelihood.start)).item()
    assert trainer.frame()["loss"].sum() == pytest.approx(total, rel=1e-6)


def test_parameters_stay_above_the_floor_and_gradients_are_clipped():
    training = st.Stochastic(epochs=2, rule=Adam(lr=1e3), clip=1.0, floor=0.5, start=60.0)
    trainer = Trainer(MODEL, WINDOWS, training)
    trainer.run()
    frame = trainer.frame()
    assert frame["service_rate"].min() == 0.5
    assert frame["gradient_norm"].max() > 1  # before clipping
    steps = frame["service_rate"].diff().abs().dropna()
    assert steps.max() <= 1e3


def test_early_stopping_looks_at_the_training_loss_only():
    training = st.Stochastic(low_variance(), 60, st.optimisers.Adam(lr=3.0), patience=3)
    trainer = Trainer(MODEL, WINDOWS, training)
    ended = trainer.run()
    means = trainer.frame().groupby("epoch")["loss"].mean()
    assert (ended.why, ended.stale) == (End.PATIENCE, 3)
    assert ended.epochs == len(means) < 60
    assert (means.iloc[-3:].to_numpy() >= means.iloc[:-3].min()).all()


def test_a_callback_sees_every_step_and_may_end_the_run():
    seen = []
    training = st.Stochastic(epochs=5, callback=lambda s: seen.append(s) or len(seen) == 7)
    trainer = Trainer(MODEL, WINDOWS, training)
    assert trainer.run().why is End.STOPPED
    assert [s.step for s in seen] == list(range(7))
    assert seen[0].epoch == 0
    assert seen[3].theta == (trainer.frame()["service_rate"][3],)


def test_infinite_variance_is_diagnosed():
    wild, chain = st.Infinity(p=0.6, seed=0), TRUTH([14.0])
    assert wild.has_heavy_tails(chain)
    assert not st.Infinity(p="auto").has_heavy_tails(chain)
    assert not st.Infinity(p=0.6, series=st.gradients.Doubling()).has_heavy_tails(chain)
    assert not st.Exact().has_heavy_tails(chain)
    trainer = Trainer(MODEL, WINDOWS, st.Stochastic(wild, epochs=1))
    assert trainer.optimiser.param_groups[0]["amsgrad"]
    assert trainer.heavy_tails
    tame = Trainer(MODEL, WINDOWS, st.Stochastic(low_variance(), epochs=1))
    assert not tame.optimiser.param_groups[0]["amsgrad"]
    assert not tame.heavy_tails


def test_heavy_tails_and_history_are_saved(tmp_path):
    with pytest.warns(ConvergenceWarning):
        fit = st.fit(MODEL, WINDOWS, gradient=st.Infinity(p=0.6, seed=0), epochs=1)
    fit.save(tmp_path / "run")
    again = st.load(tmp_path / "run")
    assert again.estimate.heavy_tails
    assert again.warnings() == fit.warnings()
    assert any("variance" in warning for warning in again.warnings())
    pd.testing.assert_frame_equal(again.history, fit.history)


def test_a_gradient_that_is_not_finite_raises():
    class Broken(st.models.MMmK):
        def rates(self, load, p):
            return super().rates(load, p) + 0 * (p.service_rate - 13).sqrt()  # infinite slope

    with pytest.raises(SolverError, match="gradient of step 0"):
        st.fit(Broken(1, 9), WINDOWS, epochs=1)


def trained(folder, pause=0.0):
    """Fit with a checkpoint 20 times per second, and a pause after every step."""
    gradient = st.Infinity(p=0.05, seed=4, control=True)
    method = st.Stochastic(
        *(gradient, 12),
        batch=3,
        average=True,
        folder=folder,
        resume=True,
        callback=lambda step: time.sleep(pause),
    )
    with mock.patch.object(stochastic, "_EVERY", 0.05):
        return st.fit(MODEL, WINDOWS, method=method, seed=7)


@pytest.mark.filterwarnings("ignore:the fit did not converge")
def test_killed_and_resumed_gives_the_same_bits(tmp_path):
    """SIGKILL, twice, at whatever moment it falls; nothing differs but the time."""
    straight = trained(tmp_path / "straight")
    code = "import pathlib, sys, test_stochastic as tests\n"
    code += "tests.trained(pathlib.Path(sys.argv[1]), 0.03)"
    for _ in range(2):
        command = [sys.executable, "-c", code, tmp_path / "killed"]
        process = subprocess.Popen(command, cwd=Path(__file__).parent)
        deadline, mark = time.monotonic() + 60, tmp_path / "killed" / "checkpoint.safetensors"
        before = mark.stat().st_mtime_ns if mark.exists() else 0
        while not (mark.exists() and mark.stat().st_mtime_ns != before):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.2)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    found = trained(tmp_path / "killed")
    assert found.estimates == straight.estimates
    pd.testing.assert_frame_equal(found.history, straight.history, check_exact=True)


def test_a_strategy_serves_several_fits():
    """A fit works on a fresh copy: the same draws, and no guesses from another model."""
    strategy = st.Infinity(p="auto", seed=0, control=True)
    small = st.models.MMmK(servers=1, capacity=4)
    training = st.Stochastic(strategy, epochs=2)
    first = Trainer(MODEL, WINDOWS, training)
    first.run()
    Trainer(small, WINDOWS, training).run()
    again = Trainer(MODEL, WINDOWS, training)
    again.run()
    assert first.history == again.history


def test_schedules_and_factors_can_be_resumed(tmp_path):
    def run(epochs):
        factor = st.solvers.GTH().factor(TRUTH(WINDOWS.x))
        series = st.gradients.Preconditioned(factor)
        strategy = st.Infinity(p=lambda step: 0.3, seed=0, series=series)
        training = st.Stochastic(strategy, epochs=epochs, folder=tmp_path, resume=True)
        trainer = Trainer(MODEL, WINDOWS, training)
        trainer.run()
        return trainer

    run(1)
    assert run(2).epoch == 2


def test_more_epochs_go_on_where_the_last_ended(tmp_path):
    def run(epochs, folder, resume):
        gradient = st.Infinity(p=0.2, seed=0)
        training = st.Stochastic(gradient, epochs=epochs, folder=folder, resume=resume)
        trainer = Trainer(MODEL, WINDOWS, training)
        trainer.run()
        return trainer

    run(2, tmp_path / "a", False)
    longer = run(5, tmp_path / "a", True)
    whole = run(5, tmp_path / "b", False)
    assert torch.equal(longer.estimate, whole.estimate)
    assert longer.history == whole.history


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    def run(seed=0, resume=True):
        training = st.Stochastic(st.Infinity(seed=seed), 1, folder=tmp_path, resume=resume)
        Trainer(MODEL, WINDOWS, training).run()

    run(resume=False)
    with pytest.raises(InputError, match="unfinished run"):
        run(resume=False)
    with pytest.raises(RunError, match="another run"):
        run(seed=1)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"nonsense")
    with pytest.raises(RunError, match="delete it to start again"):
        run()


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"epochs": 0}, "epochs"),
        ({"batch": 1.5}, "batch"),
        ({"patience": -1}, "patience"),
        ({"clip": 0.0}, "clip"),
        ({"floor": -1.0}, "floor"),
    ],
)
def test_bad_training(options, part):
    with pytest.raises(InputError, match=part):
        st.Stochastic(**options)


def test_bad_rates():
    with pytest.raises(InputError, match="lr"):
        st.optimisers.Adam(lr=0.0)


def resumed(folder, epochs, **options):
    training = st.Stochastic(epochs=epochs, batch=5, folder=folder, resume=True, **options)
    trainer = Trainer(MODEL, WINDOWS, training)
    trainer.run()
    return trainer


def test_more_epochs_average_the_second_half_of_all(tmp_path):
    resumed(tmp_path / "a", 2, average=True)
    longer = resumed(tmp_path / "a", 6, average=True)
    assert torch.equal(longer.estimate, resumed(tmp_path / "b", 6, average=True).estimate)


def test_a_run_that_a_callback_stopped_goes_on(tmp_path):
    resumed(tmp_path / "a", 3, callback=lambda step: step.step == 4)
    assert resumed(tmp_path / "a", 3).history == resumed(tmp_path / "b", 3).history


def test_an_edited_checkpoint_is_refused(tmp_path):
    resumed(tmp_path, 1)
    file = tmp_path / "checkpoint.safetensors"
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    with pytest.raises(RunError, match="not what was saved"):
        resumed(tmp_path, 2)


def test_a_fit_that_diverged_is_not_converged():
    truth = st.models.MMmK(capacity=8, service_rate=20.0)
    windows = st.simulate(truth, [4.0, 8.0, 12.0] * 4, duration=10.0, seed=3)
    method = st.Stochastic(rule=Adam(1e9), epochs=2)
    with pytest.warns(st.errors.ConvergenceWarning, match="far from an optimum"):
        fit = st.fit(st.models.MMmK(capacity=8), windows, method=method)
    assert fit.estimate.ended.above > 1000
    assert not fit.forecast([10.0])["trusted"].any()
