"""Steady-state solvers: one file each; `Auto` chooses."""

from stationary.solvers._base import Accuracy, Factor, Solver
from stationary.solvers.auto import Auto
from stationary.solvers.birth_death import BirthDeath
from stationary.solvers.device import Jacobi
from stationary.solvers.gauss_seidel import GaussSeidel
from stationary.solvers.gth import GTH
from stationary.solvers.krylov import Krylov
from stationary.solvers.lu import LU
from stationary.solvers.multigrid import Multigrid
from stationary.solvers.reused import Reused
from stationary.solvers.sparse import SparseLU

__all__ = [
    "GTH",
    "LU",
    "Accuracy",
    "Auto",
    "BirthDeath",
    "Factor",
    "GaussSeidel",
    "Jacobi",
    "Krylov",
    "Multigrid",
    "Reused",
    "Solver",
    "SparseLU",
]
