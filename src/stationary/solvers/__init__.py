"""Steady-state solvers: one file each; `Auto` chooses."""

from stationary.solvers._base import Accuracy, Factor, Solver
from stationary.solvers.auto import Auto
from stationary.solvers.birth_death import BirthDeath
from stationary.solvers.device import Jacobi
from stationary.solvers.gth import GTH
from stationary.solvers.lu import LU
from stationary.solvers.multigrid import Multigrid
from stationary.solvers.sparse import SparseLU
from stationary.solvers.sparse_gth import SparseGTH

__all__ = [
    "GTH",
    "LU",
    "Accuracy",
    "Auto",
    "BirthDeath",
    "Factor",
    "Jacobi",
    "Multigrid",
    "Solver",
    "SparseGTH",
    "SparseLU",
]
