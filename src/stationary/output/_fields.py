"""Records as JSON and arrays, and back: both directions walk the fields of dataclasses.

`as_plain` writes what a field holds, and `Reader` reads it back by the field's type. So reading
executes nothing, and makes no object that the types of the fields do not name. Models are made from
their name and options.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor

from stationary.errors import InputError, RunError
from stationary.learning.fitting import at
from stationary.models import Model
from stationary.models.registry import build, can_rebuild, describe

_NOT_FINITE = [{"float": name} for name in ("nan", "inf", "-inf")]
"""How numbers are written that JSON has no word for."""


def as_plain(value: Any, path: str, arrays: dict[str, Tensor]) -> Any:
    """Return a value as JSON holds it; arrays go to their own file, by the path to them."""
    if isinstance(value, Tensor | np.ndarray):
        arrays[path] = torch.as_tensor(value).detach().clone().contiguous()
        return path
    if isinstance(value, Model):
        theta = as_plain(value.theta, f"{path}.theta", arrays)
        # The code of a model of the user's own cannot be saved: its class and options tell it
        # from others.
        own = {"name": "", "class": type(value).__name__, "options": value.changeable}
        described = describe(value) if can_rebuild(value) else own
        return {"description": described, "estimates": value.estimates, "theta": theta}
    if is_dataclass(value) or hasattr(value, "_asdict"):
        value = {name: getattr(value, name) for name in _saved(type(value))}
    if isinstance(value, Mapping):
        return {str(k): as_plain(v, f"{path}.{k}", arrays) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(v, f"{path}.{k}", arrays) for k, v in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"{path} cannot be saved: it is a {type(value).__name__}")


def _saved(kind: type) -> dict[str, Any]:
    """Types of the fields of a record, but for those that stay with the process that made it."""
    unsaved = getattr(kind, "unsaved", ())
    return {name: of for name, of in get_type_hints(kind).items() if name not in unsaved}


class Reader:
    """Makes a value of a given type from what `as_plain` wrote."""

    def __init__(self, path: Path, arrays: Mapping[str, Tensor], models: Sequence[Model]) -> None:
        self.path, self.arrays, self.models = path, arrays, models

    def read(self, kind: Any, value: Any, name: str) -> Any:
        """Return the value of a field of this type and name."""
        kind, of = get_origin(kind) or kind, get_args(kind)
        if type(None) in of:  # optional
            return None if value is None else self.read(of[0], value, name)
        if value in _NOT_FINITE:
            value = float(value["float"])
        if kind is Tensor:
            return self.arrays[value]
        if kind is np.ndarray:
            return self.arrays[value].numpy()
        if kind is Model:
            return self._model(value)
        if is_dataclass(kind) or hasattr(kind, "_asdict"):
            # A field that an older run does not have yet keeps its default.
            known = {k: of_k for k, of_k in _saved(kind).items() if k in value}
            return kind(**{k: self.read(of_k, value[k], k) for k, of_k in known.items()})
        if isinstance(value, dict) and (kind is Any or issubclass(dict, kind)):
            inner = of[1] if of else Any
            return {k: self.read(inner, v, f"{name}.{k}") for k, v in value.items()}
        if isinstance(value, list) and (kind in (Any, list) or issubclass(tuple, kind)):
            inner = [of[0]] * len(value) if ... in of else of or [Any] * len(value)
            return tuple(self.read(k, v, name) for k, v in zip(inner, value, strict=True))
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return kind(value)
        wanted = (float, int) if kind is float else kind
        if kind is not Any and (
            not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool)
        ):
            raise TypeError(f"{name} must be of type {kind.__name__}; got {value!r}")
        return value

    def _model(self, value: dict[str, Any]) -> Model:
        described, names = value["description"], tuple(value["estimates"])
        theta = self.read(Tensor, value["theta"], "theta")
        if described.get("name"):
            return at(build(described), theta)
        if not self.models:
            raise RunError(
                f"{self.path} holds a fit of a model of your own, {described['class']}; pass it as "
                f"load(folder, model=...)"
            )
        like = [model for model in self.models if model.param_names == names]
        if not like:
            raise RunError(
                f"{self.path} holds a fit of a model with the parameters {', '.join(names)}, which "
                f"no given model has: pass the model that was fitted"
            )
        model = next((m for m in like if type(m).__name__ == described["class"]), like[0])
        options = self.read(Any, described["options"], "options")
        if options != model.changeable and options.keys() <= model.changeable.keys():
            model = model.changed(**options)
        return at(model, theta)
