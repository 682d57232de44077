"""Gradient strategies: how ``dL/dpi`` becomes ``dL/drates``."""

from stationary.gradients._base import Gradient
from stationary.gradients.exact import Exact

__all__ = ["Exact", "Gradient"]
