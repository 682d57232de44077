"""Any order of saving, damaging, mending and loading: the run that was saved last, or a refusal."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import stationary as st
from stationary.errors import InputError, RunError
from stationary.learning import stochastic
from stationary.learning.stochastic import Trainer

MODEL = st.models.MMmK(servers=1, capacity=5)
WINDOWS = st.simulate(
    st.models.MMmK(servers=1, capacity=5, service_rate=25.0),
    np.repeat(np.arange(11.0, 16.0), 2),
    duration=20.0,
    seed=1,
).observing([0, 1])
PLANS = {seed: st.fit(MODEL, WINDOWS, seed=seed) for seed in (1, 2)}
FILES = ("plan.json", "arrays.safetensors", "windows.parquet")
SETTINGS = settings(
    max_examples=8,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def damage(file, place, how):
    """Change, cut or remove a file; ``place`` is where, as a share of its length."""
    raw = bytearray(file.read_bytes())
    at = int(place * (len(raw) - 1))
    if how == "gone":
        file.unlink()
    elif how == "cut":
        file.write_bytes(raw[:at])
    else:
        raw[at] ^= 1
        file.write_bytes(raw)


PLACES = some.floats(0.0, 0.9)  # so that more than the end of the last line is cut
HOWS = some.sampled_from(["flip", "cut", "gone"])


class Folders:
    """A folder of its own for each example."""

    def teardown(self):
        shutil.rmtree(self.folder)


class Runs(Folders, RuleBasedStateMachine):
    """A run that is saved, overwritten, damaged and restored from a copy."""

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp())
        self.run, self.copy, self.seed, self.whole = self.folder / "run", None, None, True

    @rule(seed=some.sampled_from(list(PLANS)))
    def save(self, seed):
        if self.seed is None:
            PLANS[seed].save(self.run)
            self.seed, self.whole = seed, True
        else:
            with pytest.raises(InputError, match="holds"):
                PLANS[seed].save(self.run)

    @rule(seed=some.sampled_from(list(PLANS)))
    def overwrite(self, seed):
        if self.seed is not None and not (self.run / "plan.json").exists():
            with pytest.raises(InputError, match="holds other files"):
                PLANS[seed].save(self.run, overwrite=True)
            return
        PLANS[seed].save(self.run, overwrite=True)
        self.seed, self.whole = seed, True

    @rule()
    def die_while_saving(self):
        half = Path(tempfile.mkdtemp(prefix=".run.saving-", dir=self.folder)) / "new"
        half.mkdir()
        (half / "plan.json").write_text("{")

    @precondition(lambda self: self.seed is not None and self.whole)
    @rule(name=some.sampled_from(FILES), place=PLACES, how=HOWS)
    def damage(self, name, place, how):
        self.copy = Path(tempfile.mkdtemp()) / "copy"
        shutil.copytree(self.run, self.copy)
        damage(self.run / name, place, how)
        self.whole = False

    @precondition(lambda self: not self.whole)
    @rule()
    def restore(self):
        shutil.rmtree(self.run)
        shutil.move(self.copy, self.run)
        self.whole = True

    @precondition(lambda self: self.seed is not None)
    @rule()
    def delete(self):
        shutil.rmtree(self.run)
        self.seed, self.whole = None, True

    @invariant()
    def loads_or_is_refused(self):
        if not hasattr(self, "folder"):
            return
        if self.seed is None:
            with pytest.raises(RunError, match="no such folder"):
                st.load(self.run)
        elif self.whole:
            back = st.load(self.run)
            assert back.seed == self.seed
            assert back.estimates == PLANS[self.seed].estimates
        else:
            with pytest.raises(RunError, match=r"run.* (is damaged|does not say)"):
                st.load(self.run)


class Resumes(Folders, RuleBasedStateMachine):
    """A stochastic fit that is stopped, cut off, damaged, mended and made longer."""

    @initialize()
    def begin(self):
        self.folder, self.last, self.whole = Path(tempfile.mkdtemp()), 0, True

    def train(self, epochs, callback=None, folder=None, resume=True):
        training = st.Stochastic(
            epochs=epochs, batch=5, average=True, folder=folder, resume=resume, callback=callback
        )
        trainer = Trainer(MODEL, WINDOWS, training)
        trainer.run()
        return trainer

    @precondition(lambda self: self.whole)
    @rule(epochs=some.integers(1, 6))
    def finish(self, epochs):
        epochs = max(epochs, -(-self.last // 2))
        found = self.train(epochs, folder=self.folder)
        straight = self.train(epochs, resume=False)
        assert found.history == straight.history
        assert found.estimate.equal(straight.estimate)
        self.last = found.step

    @precondition(lambda self: self.whole)
    @rule(steps=some.integers(1, 3))
    def stop(self, steps):
        seen = []
        found = self.train(9, lambda step: seen.append(step) or len(seen) == steps, self.folder)
        assert found.step >= self.last  # it goes on
        self.last = found.step

    @precondition(lambda self: self.whole)
    @rule(steps=some.integers(1, 3))
    def cut_off(self, steps):
        def die(step):
            if step.step >= self.last + steps - 1:
                raise KeyboardInterrupt

        if self.last + steps <= 18:  # or else it ends first
            with pytest.raises(KeyboardInterrupt):
                self.train(9, die, self.folder)
            self.last += steps - 1  # it died before the checkpoint of its last step

    @precondition(lambda self: self.whole and self.last > 0)
    @rule(place=PLACES)
    def damage(self, place):
        file = self.folder / "checkpoint.safetensors"
        self.kept = file, file.read_bytes()
        damage(file, place, "cut")
        self.whole = False

    @precondition(lambda self: not self.whole)
    @rule()
    def refused_until_mended(self):
        with pytest.raises(RunError, match=r"is damaged .*delete"):
            self.train(9, folder=self.folder)
        file, raw = self.kept
        file.write_bytes(raw)
        self.whole = True


@pytest.fixture(autouse=True)
def checkpoints_after_every_step(monkeypatch):
    monkeypatch.setattr(stochastic, "_EVERY", -1.0)
    monkeypatch.setattr(stochastic, "_SHARE", float("inf"))


class TestRuns(Runs.TestCase):
    settings = SETTINGS


class TestResumes(Resumes.TestCase):
    settings = SETTINGS
