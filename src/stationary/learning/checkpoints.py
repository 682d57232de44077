"""Checkpoints: the whole state of a running fit in one file, replaced in one step.

A file of tensors with the plain values as JSON in its header, never pickle. A reader sees the old
state or the new one, whenever the writer dies.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
from torch import Tensor

from stationary._support.files import replacing
from stationary.data.windows import Windows
from stationary.errors import RunError
from stationary.models import Model

State = dict[str, Any]
"""Nested dictionaries of tensors and of what JSON can hold."""

_SEPARATOR = "\x1f"


def fingerprint(model: Model, windows: Windows) -> dict[str, Any]:
    """What must be the same for an unfinished fit to be this one: data and model."""
    return {
        "data": identity([windows.x, windows.data]),
        "model": [type(model).__qualname__, identity(model.options), list(model.param_names)],
        "chain": identity(list(model.edges.numpy)),
        "observed": [[kind.kind, identity(kind.facts())] for kind in windows.observations],
    }


def identity(value: Any) -> Any:
    """Tell settings apart, as JSON can hold it: the same in another process.

    Functions are told by name, arrays by their digest, and what has an address of its own, such as
    a factor, by its type.
    """
    if isinstance(value, Tensor | np.ndarray):
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
        return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = [f.name for f in dataclasses.fields(value) if f.repr and f.compare]
        return {"type": type(value).__qualname__} | {
            name: identity(getattr(value, name)) for name in shown
        }
    if isinstance(value, Mapping):
        return {str(key): identity(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | range):
        return [identity(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    named = value if callable(value) and hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def write(path: Path, state: State) -> None:
    """Replace the checkpoint by this state, durably."""
    tensors: dict[str, Tensor] = {}
    plain = _split(state, "", tensors)
    with replacing(path) as part:
        part.write_bytes(safetensors.torch.save(tensors, metadata={"plain": json.dumps(plain)}))


def read(path: Path) -> State:
    """Return the state of a checkpoint."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            plain = json.loads(file.metadata()["plain"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise RunError(
            f"the checkpoint {path} is damaged ({error}); delete it to start again"
        ) from None
    for key, tensor in tensors.items():
        *parents, last = key.split(_SEPARATOR)
        place = plain
        for parent in parents:
            place = place[parent]
        place[last] = tensor
    state: State = plain
    return state


def _split(value: Any, prefix: str, tensors: dict[str, Tensor]) -> Any:
    """Move tensors out of a nested dictionary, each under the path that leads to it."""
    if not isinstance(value, dict):
        return value
    plain = {}
    for key, entry in value.items():
        path = f"{prefix}{_SEPARATOR}{key}" if prefix else str(key)
        if isinstance(entry, Tensor):
            tensors[path] = entry.detach().contiguous().clone()
        else:
            plain[str(key)] = _split(entry, path, tensors)
    return plain
