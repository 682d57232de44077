"""How models are made: constructor arguments are kept, so that no model needs code for it."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from typing import Any

from stationary.errors import InputError, did_you_mean
from stationary.models._params import Param, Parameters, few
from stationary.models._rates import check_batches

DECLARED = ("states", "params", "edges", "inputs", "groups", "measures")
"""Arguments of which a model makes an attribute of the same name that is something else."""


class Constructed(ABCMeta):
    """Keeps the arguments that a model was made with, and tests its rates on a batch."""

    @property
    def __signature__(cls) -> inspect.Signature:
        """Options of the constructor, then the parameters that the class declares."""
        arguments = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
        if arguments and arguments[-1].kind is inspect.Parameter.VAR_KEYWORD:
            kind = arguments[-2].kind if len(arguments) > 1 else inspect.Parameter.KEYWORD_ONLY
            for name, param in getattr(cls, "params", {}).items():
                value = param.value if isinstance(param, Param) else param
                arguments.insert(-1, inspect.Parameter(name, kind, default=value))
        return inspect.Signature(arguments)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(cls).bind(*args, **kwargs)
        bound.apply_defaults()
        given: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            given |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
        try:
            model = super().__call__(**given)
        except TypeError as error:
            if "multiple values" not in str(error):
                raise
            name = str(error).split("'")[-2]  # an option of its base that the class decides
            raise InputError(f"{cls.__name__} decides {name!r} itself: leave it out") from None
        model._given = given
        check_batches(model)
        return model


def unknown_argument(kind: type, name: str, declared: Parameters) -> InputError:
    """Return the error for a constructor argument that is neither option nor parameter."""
    arguments = list(inspect.signature(kind).parameters)[:-1]
    options = [option for option in arguments if option not in (*DECLARED, *declared.names)]
    known = did_you_mean(name, [*options, *few(declared.labels)])
    return InputError(f"{kind.__name__} has no parameter or option {name!r}{known}")
