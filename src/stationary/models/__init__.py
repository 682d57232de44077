"""Parametric chains: one small class each."""

from stationary.models._base import Model, Param, Point
from stationary.models.function import FromFunction
from stationary.models.prism.model import Prism, from_prism
from stationary.models.queues._queue import Queue
from stationary.models.queues.balking import Balking
from stationary.models.queues.batch import BatchArrivals
from stationary.models.queues.finite import FiniteClients
from stationary.models.queues.mmmk import MMmK
from stationary.models.queues.onoff import OnOffArrivals
from stationary.models.queues.phases import ErlangService, HyperexponentialService
from stationary.models.queues.resets import Leaking, Resetting
from stationary.models.queues.slowing import Slowing
from stationary.models.queues.state_dependent import StateDependent
from stationary.models.queues.usl import UniversalScalability
from stationary.models.relaxed import Relaxed
from stationary.models.rules.files import read_model
from stationary.models.rules.model import RuleModel
from stationary.models.structured import MultiDiagonal, UpperTriangular

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
