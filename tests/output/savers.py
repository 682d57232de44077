"""A program of its own for `test_killed_savers`: writers that are killed while they save.

Usage: ``savers.py FOLDER MODE MOMENTS``. It prints how often the old and the new run were there
after a kill; an assertion fails where there was neither.
"""

import itertools
import json
import os
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import torch

import stationary as st
from stationary.errors import InputError

torch.set_num_threads(1)
MODEL = st.models.MMmK(servers=1, capacity=5)
EVENTS = ("open", "os.", "shutil.", "tempfile.", "ctypes.")


def plans():
    """Return two plans that are told apart by their seeds, with everything computed."""
    truth = st.models.MMmK(servers=1, capacity=5, service_rate=25.0)
    windows = st.simulate(truth, np.repeat(np.arange(11.0, 16.0), 2), duration=20.0, seed=1)
    made = [st.fit(MODEL, windows.observing([0, 1]), seed=seed) for seed in (1, 2)]
    for plan in made:
        plan.save(Path(sys.argv[1]) / f"warm-up-{plan.seed}")
    return made


def child(work):
    """Run a function in a process of its own; return its id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = work() or 0
        finally:
            os._exit(code)
    return pid


def ended(pid):
    """Wait for a process; return its exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def calls_of(work):
    """Return the names of the calls to the system that Python reports of a function."""
    reading, writing = os.pipe()

    def recorded():
        calls = []
        sys.addaudithook(lambda event, _: calls.append(event) if event.startswith(EVENTS) else None)
        work()
        os.write(writing, json.dumps(calls).encode())

    assert ended(child(recorded)) == 0
    return json.loads(os.read(reading, 60_000))


def killed_at(work, moment):
    """Run a function in a process that is killed right before a call to the system."""

    def dying():
        left = moment

        def hook(event, _):
            nonlocal left
            left -= event.startswith(EVENTS)
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        work()

    ended(child(dying))


def check(folder, allowed):
    """Return the seed of the run in a folder: it must be whole, and one of these."""
    if None in allowed and not folder.exists():
        return None
    plan = st.load(folder)
    assert plan.seed in allowed
    assert plan.estimate.seed == plan.seed
    return plan.seed


def kill_while_saving(folder, one, other, moments):
    """Kill a writer at moments all over a save, and wherever a folder is moved."""
    run, seen = folder / "run", Counter()
    for overwrite in (False, True):

        def save(overwrite=overwrite):
            other.save(run, overwrite=overwrite)

        def prepare(overwrite=overwrite):
            shutil.rmtree(run, ignore_errors=True)
            if overwrite:
                one.save(run)

        prepare()
        calls = calls_of(save)
        renames = [k for k, name in enumerate(calls) if name == "os.rename"]
        near = {k + step for k in renames for step in (0, 1, 2)}
        spread = np.linspace(0, len(calls) - 1, moments).astype(int).tolist()
        for moment in sorted({*spread, *near}):
            prepare()
            killed_at(save, moment)
            found = check(run, {one.seed if overwrite else None, other.seed})
            seen["new" if found == other.seed else "old" if overwrite else "none"] += 1
            # What the dead writer left is in nobody's way.
            one.save(run, overwrite=found is not None)
            assert check(run, {one.seed}) == one.seed
    return seen


def race(folder, one, other, rounds):
    """Two writers at once: one whole run at every moment, and an error that is clear."""
    run, seen = folder / "run", Counter()

    def save_all(plan):
        for _ in range(rounds):
            plan.save(run, overwrite=True)

    one.save(run)
    writers = [child(lambda plan=plan: save_all(plan)) for plan in (one, other)]
    while any(
        os.waitid(os.P_PID, p, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None for p in writers
    ):
        seen["new" if check(run, {one.seed, other.seed}) == other.seed else "old"] += 1
    assert [ended(pid) for pid in writers] == [0, 0]
    check(run, {one.seed, other.seed})

    def save_first(plan):
        try:
            plan.save(run)
        except InputError as error:
            return 7 if "holds a run already" in str(error) or "not empty" in str(error) else 1
        return 0

    for _ in range(rounds):
        shutil.rmtree(run)
        first = [child(lambda plan=plan: save_first(plan)) for plan in (one, other)]
        codes = [ended(pid) for pid in first]
        assert sorted(codes) == [0, 7]  # one saved, the other was told
        check(run, {(one, other)[codes.index(0)].seed})
    return seen


def main():
    """Run one of the ways to be killed."""
    folder, way, moments = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    one, other = plans()
    ways = {"moments": kill_while_saving, "race": race}
    seen = ways[way](folder, one, other, moments)
    left = list(itertools.islice(folder.glob(".run.saving-*"), 100))
    print(json.dumps({"left": len(left), **seen}))


if __name__ == "__main__":
    main()
