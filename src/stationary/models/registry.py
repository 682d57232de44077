"""Models by name, for the command line and for saved runs: a description in, a model out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from stationary import models
from stationary.errors import InputError, did_you_mean
from stationary.models import queues

if TYPE_CHECKING:
    from stationary.models import Model

_OTHERS = {
    "pcmc": "PCMC",
    "plackett_luce": "PlackettLuce",
    "prism": "Prism",
    "relaxed": "Relaxed",
    "rules": "RuleModel",
}
"""Models that are made from names, a file or another model, not from a few numbers."""


def names() -> tuple[str, ...]:
    """Return the names of models that a few numbers make; known without torch."""
    return queues.names()


def model_class(name: str) -> type[Model]:
    """Return the class of a model by its name on the command line or in a saved run."""
    check_name(name)
    return getattr(models, {**queues.class_names(), **_OTHERS}[name])


def check_name(name: str) -> None:
    """Raise unless there is a model of this name; loads no torch."""
    if name not in (*names(), *_OTHERS):
        raise InputError(f"there is no model {name!r}{did_you_mean(name, names())}")


def check_options(name: str, options: Iterable[str]) -> None:
    """Raise unless a queue model may have these options; loads no torch.

    The names of numbered parameters, such as ``service_2``, are left to the model.
    """
    known = queues.options(name)
    for option in options:
        if option not in known and not re.search(r"_\w*\d", option):
            raise InputError(
                f"model {name} has no parameter or option {option!r}{did_you_mean(option, known)}"
            )


def describe(model: Model) -> dict[str, Any]:
    """Return the name and options from which `build` makes the model again, parameters apart."""
    return {"name": model.name, **model.options}


def can_rebuild(model: Model) -> bool:
    """Whether name and options describe the model: a subclass has code that they do not name."""
    if isinstance(model, models.Relaxed) and not can_rebuild(model.base):
        return False
    return model.name in (*names(), *_OTHERS) and model_class(model.name) is type(model)


def build(description: Mapping[str, Any]) -> Model:
    """Make a model from its name and options; parameters may be among them.

    Examples
    --------
    >>> build({"name": "mmmk", "servers": 2, "capacity": 10, "service_rate": 3.0}).estimates
    {'service_rate': 3.0}
    """
    options = dict(description)
    name = options.pop("name", "")
    kind = model_class(name)
    if isinstance(options.get("model"), Mapping):
        options["model"] = build(options["model"])
    try:
        inspect.signature(kind).bind(**options)
    except TypeError as error:
        raise InputError(f"model {name}: {error}") from None
    return kind(**options)
