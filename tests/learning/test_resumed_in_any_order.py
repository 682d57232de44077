"""A stochastic fit that is stopped, cut off, damaged, mended and made longer, in any order."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import stationary as st
from stationary.errors import RunError
from stationary.learning import stochastic
from stationary.learning.stochastic import Trainer

MODEL = st.models.MMmK(servers=1, capacity=5)
WINDOWS = st.simulate(
    st.models.MMmK(servers=1, capacity=5, service_rate=25.0),
    np.repeat(np.arange(11.0, 16.0), 2),
    duration=20.0,
    seed=1,
).observing([0, 1])
SETTINGS = settings(
    max_examples=8,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class Resumes(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.folder, self.last, self.whole = Path(tempfile.mkdtemp()), 0, True

    def teardown(self):
        shutil.rmtree(self.folder)

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
    @rule(place=some.floats(0.0, 0.9))
    def damage(self, place):
        file = self.folder / "checkpoint.safetensors"
        self.kept = file, file.read_bytes()
        file.write_bytes(self.kept[1][: int(place * len(self.kept[1]))])
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


class TestResumes(Resumes.TestCase):
    settings = SETTINGS
