"""Gradient strategies: how ``dL/dpi`` becomes ``dL/drates``."""

from stationary.gradients._base import Gradient
from stationary.gradients.bptt import BPTT, DivideAndConquerBPTT
from stationary.gradients.exact import Exact
from stationary.gradients.infinity import Infinity
from stationary.gradients.series import Doubling, Powers, Preconditioned, Series

__all__ = [
    "BPTT",
    "DivideAndConquerBPTT",
    "Doubling",
    "Exact",
    "Gradient",
    "Infinity",
    "Powers",
    "Preconditioned",
    "Series",
]
