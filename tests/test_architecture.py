"""Imports run one way, as docs/architecture.md says."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "stationary"

# Each may import what stands before it.
ORDER = [
    "_version",
    "errors",
    "threads",
    "atomic",
    "findings",
    "parallel",
    "edges",
    "generator",
    "solvers",
    "spectrum",
    "gradients",
    "steady",
    "measures",
    "scales",
    "expressions",
    "models",
    "chunks",
    "derivatives",
    "data",
    "losses",
    "visits",
    "objective",
    "inference",
    "autocorrelation",
    "covariances",
    "forecast",
    "limits",
    "alerts",
    "result",
    "planning",
    "diagnostics",
    "identifiability",
    "newton",
    "optimisers",
    "checkpoints",
    "stochastic",
    "fitting",
    "resampling",
    "backtest",
    "baselines",
    "pooling",
    "least_squares",
    "runs",
    "ingest",
    "testbed",
    "ladder",
    "scoring",
    "selection",
    "plots",
    "report",
    "experiments",
    "cli",
]


def imports(file):
    """Modules of our own that a file imports when it is itself imported."""
    pending = list(ast.parse(file.read_text(encoding="utf-8")).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stationary."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.ImportFrom) and node.module == "stationary":
            yield from (name.name for name in node.names)


FILES = sorted(file for file in SOURCE.rglob("*.py") if file != SOURCE / "__init__.py")


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_imports_run_one_way(file):
    part = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    allowed = ORDER[: ORDER.index(part) + 1]
    assert set(imports(file)) <= set(allowed)
