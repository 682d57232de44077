"""Models by name, for the command line and for saved runs: a description in, a model out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from stationary.errors import InputError, did_you_mean
from stationary.models._base import Model
from stationary.models.prism.model import Prism
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
from stationary.models.rules.model import RuleModel
from stationary.models.structured import MultiDiagonal, UpperTriangular

MODELS: dict[str, Callable[..., Model]] = {
    model.name: model
    for model in (
        MMmK,
        StateDependent,
        Slowing,
        UniversalScalability,
        Balking,
        FiniteClients,
        BatchArrivals,
        OnOffArrivals,
        ErlangService,
        HyperexponentialService,
        Resetting,
        Leaking,
        MultiDiagonal,
        UpperTriangular,
        Relaxed,
        RuleModel,
        Prism,
    )
}

_OF_OTHERS = (Relaxed, RuleModel, Prism)
OFFERED = {name: model for name, model in MODELS.items() if model not in _OF_OTHERS}
"""Those that a name and a few numbers make, not a file or another model."""


def describe(model: Model) -> dict[str, Any]:
    """Return the name and options from which `build` makes the model again, parameters apart."""
    return {"name": model.name, **model.options}


def can_rebuild(model: Model) -> bool:
    """Whether name and options say it all: a subclass has code that they do not name."""
    if isinstance(model, Relaxed) and not can_rebuild(model.base):
        return False
    return MODELS.get(model.name) is type(model)


def build(description: Mapping[str, Any]) -> Model:
    """Make a model from its name and options; parameters may be among them.

    Examples
    --------
    >>> build({"name": "mmmk", "servers": 2, "capacity": 10, "service_rate": 3.0}).estimates
    {'service_rate': 3.0}
    """
    options = dict(description)
    name = options.pop("name", "")
    if name not in MODELS:
        raise InputError(f"there is no model {name!r}{did_you_mean(name, OFFERED)}")
    model = MODELS[name]
    accepted = inspect.signature(model).parameters
    free = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values())
    for option in options:
        if option not in accepted and not free:
            raise InputError(
                f"model {name} has no option {option!r}{did_you_mean(option, accepted)}"
            )
    if isinstance(options.get("model"), Mapping):
        options["model"] = build(options["model"])
    missing = [
        p.name
        for p in accepted.values()
        if p.default is p.empty and p.kind is not p.VAR_KEYWORD and p.name not in options
    ]
    if missing:
        raise InputError(f"model {name} needs the option {missing[0]!r}")
    return model(**options)
