"""The example programs run as they stand, without a warning, and show what they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def output_of(name):
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_network_bends_where_the_queue_does_not():
    out = output_of("neural_rate")
    load, truth, queue, low, _, high, _ = out.splitlines()[-2].split()
    assert float(load) == 20
    assert float(queue) == pytest.approx(float(truth), rel=0.1)
    assert float(high) > 1.2 * float(low)
    assert "trusted: False" in out


def test_the_layer_learns_inside_a_network():
    error, correlation = map(float, re.findall(r": (0\.\d+)", output_of("layer_in_network")))
    assert error < 0.1
    assert correlation > 0.9


def test_an_estimator_of_ones_own_stands_in_the_table():
    out = output_of("own_estimator")
    assert {"20 terms", "exact MLE", "infinity-SGD (paper)"} <= set(re.split(r"  +|\n", out))


def test_every_program_is_tested():
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {
        "neural_rate",
        "layer_in_network",
        "own_estimator",
    }
