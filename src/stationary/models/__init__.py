"""Parametric chains: one small class each."""

from stationary.models._base import Model, Param, Point
from stationary.models._queue import Queue
from stationary.models.balking import Balking
from stationary.models.batch import BatchArrivals
from stationary.models.files import read_model
from stationary.models.finite import FiniteClients
from stationary.models.function import FromFunction
from stationary.models.onoff import OnOffArrivals
from stationary.models.phases import ErlangService, HyperexponentialService
from stationary.models.prism import Prism, from_prism
from stationary.models.queues import MMmK
from stationary.models.relaxed import Relaxed
from stationary.models.resets import Leaking, Resetting
from stationary.models.rules import RuleModel
from stationary.models.slowing import Slowing
from stationary.models.state_dependent import StateDependent
from stationary.models.structured import MultiDiagonal, UpperTriangular
from stationary.models.usl import UniversalScalability

__all__ = [
    "Balking",
    "BatchArrivals",
    "ErlangService",
    "FiniteClients",
    "FromFunction",
    "HyperexponentialService",
    "Leaking",
    "MMmK",
    "Model",
    "MultiDiagonal",
    "OnOffArrivals",
    "Param",
    "Point",
    "Prism",
    "Queue",
    "Relaxed",
    "Resetting",
    "RuleModel",
    "Slowing",
    "StateDependent",
    "UniversalScalability",
    "UpperTriangular",
    "from_prism",
    "read_model",
]
