"""Memory of the gradient of a large chain: what the edges take, and the factor."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# In a process of its own, whose peak is not that of other tests. Everything is compiled on a small
# chain first.
CODE = """
import json, resource, sys
import torch
import stationary as st
from problems import tandem
from stationary.solvers._dissection import Dissection

def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

def gradient(generator, solver):
    rates = generator.rates.requires_grad_()
    state = st.steady_state(st.Generator(generator.edges, rates), solver)
    (state.pi * torch.linspace(0, 1, generator.n, dtype=torch.float64)).sum().backward()
    return state

side, solver = int(sys.argv[1]), getattr(st.solvers, sys.argv[2])()
gradient(tandem((60, 60), 0.7, [1.0, 1.1]), solver)
lattice = tandem((side, side), 0.7, [1.0, 1.1])
before = peak()
state = gradient(lattice, solver)
numbers = lattice.n + len(lattice.edges)
factor = lattice.edges.remembered(Dissection).memory if sys.argv[2] == "SparseLU" else 0.0
print(json.dumps({
    "grown": peak() - before, "numbers": 8 * numbers, "factor": factor,
    "residual": float(state.generator.balance(state.pi).abs().max()),
}))
"""


@pytest.mark.parametrize(("solver", "side"), [("SparseLU", 500), ("Multigrid", 300)])
def test_a_gradient_takes_its_factor_and_a_few_copies_of_the_edges(solver, side):
    path = str(Path(__file__).parent.parent)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {path!r})\n{CODE}",
            str(side),
            solver,
        ],
        capture_output=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["residual"] < 1e-10
    assert found["grown"] < found["factor"] + 30 * found["numbers"]
