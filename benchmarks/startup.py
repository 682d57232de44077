"""How long a user waits before anything happens, against an interpreter that only imports torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.timing import compare, milliseconds, table


def main() -> None:
    python = sys.executable
    command = str(Path(python).with_name("stationary"))
    calls = {
        "python -c pass": [python, "-c", "pass"],
        "python -c 'import stationary'": [python, "-c", "import stationary"],
        "stationary --help": [command, "--help"],
        "stationary models": [command, "models"],
        "python -c 'import torch'": [python, "-c", "import torch"],
    }
    measured = compare(
        {
            name: lambda arguments=arguments: subprocess.run(
                arguments, check=True, capture_output=True
            )
            for name, arguments in calls.items()
        },
        seconds=10.0,
    )
    other = measured["python -c 'import torch'"]
    table(
        "Start-up",
        ["call", "ms", "of importing torch"],
        [[f"`{k}`", milliseconds(v), f"{v / other:.2f}"] for k, v in measured.items()],
    )


if __name__ == "__main__":
    main()
