import typing

from . import measures as measures
from . import queues as queues
from . import registry as registry
from ._base import Model as Model
from ._params import Param as Param
from ._point import Point as Point
from .choice.navigation import navigation_scores as navigation_scores
from .choice.pcmc import PCMC as PCMC
from .choice.plackett_luce import PlackettLuce as PlackettLuce
from .function import FromFunction as FromFunction
from .function import FromModule as FromModule
from .prism.model import Prism as Prism
from .prism.model import from_prism as from_prism
from .queues._queue import Queue as Queue
from .relaxed import Relaxed as Relaxed
from .rules.files import read_model as read_model
from .rules.model import RuleModel as RuleModel

def __getattr__(name: str) -> typing.Any: ...  # the models in queues/
