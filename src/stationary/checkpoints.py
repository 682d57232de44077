"""Checkpoints: the whole state of a running fit in one file, replaced in one step.

A file of tensors with the plain values as JSON in its header, never pickle. A reader sees the old
state or the new one, whenever the writer dies.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from stationary.atomic import replacing
from stationary.data.windows import Windows
from stationary.errors import RunError
from stationary.models import Model

State = dict[str, Any]
"""Nested dictionaries of tensors and of what JSON can hold."""

_SEPARATOR = "\x1f"


def fingerprint(model: Model, windows: Windows) -> dict[str, str]:
    """What must be the same for an unfinished fit to be this one: data and model."""
    data = windows.x.numpy().tobytes() + windows.data.numpy().tobytes()
    return {
        "data": hashlib.sha256(data).hexdigest(),
        "model": f"{type(model).__name__}({model.options}) {model.param_names}",
        "chain": hashlib.sha256(b"".join(end.tobytes() for end in model.edges.numpy)).hexdigest(),
        "observed": repr([(kind.kind, kind.facts()) for kind in windows.observations]),
    }


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
