"""Parametric chains: one small class each."""

from stationary.models._base import Model, Queue
from stationary.models.function import FromFunction
from stationary.models.queues import MMmK
from stationary.models.relaxed import Relaxed
from stationary.models.structured import MultiDiagonal, UpperTriangular

__all__ = ["FromFunction", "MMmK", "Model", "MultiDiagonal", "Queue", "Relaxed", "UpperTriangular"]
