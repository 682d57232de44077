"""A few cases of the fuzzer; ``make fuzz`` runs thousands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FUZZER = Path(__file__).with_name("fuzz.py")


@pytest.mark.parametrize(
    ("first", "cases"), [(0, 20), pytest.param(20, 100, marks=pytest.mark.slow)]
)
def test_no_mutated_file_crashes_a_command(first, cases):
    # In a process of its own: it forks, which threads of other tests would not survive.
    command = [sys.executable, str(FUZZER), "--seed", str(first), "--cases", str(cases)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert f"{cases} cases, 0 ended badly" in done.stdout
