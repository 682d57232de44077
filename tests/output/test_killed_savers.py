"""Writers that are killed, or race: there is always one whole run, the old one or the new one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("savers.py")


def saved_by_force(folder, mode, moments):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", SCRIPT, folder, mode, str(moments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "moments", [pytest.param(8, id="few"), pytest.param(30, id="many", marks=pytest.mark.slow)]
)
def test_kill_at_any_call_leaves_the_old_run_or_the_new_one(tmp_path, moments):
    seen = saved_by_force(tmp_path, "moments", moments)
    assert seen["old"]
    assert seen["none"]
    assert seen["new"]
    assert seen["left"]  # which no reader and no writer took for a run


@pytest.mark.parametrize(
    "rounds", [pytest.param(3, id="few"), pytest.param(40, id="many", marks=pytest.mark.slow)]
)
def test_two_writers_make_no_mixture(tmp_path, rounds):
    seen = saved_by_force(tmp_path, "race", rounds)
    assert seen["left"] == 0
