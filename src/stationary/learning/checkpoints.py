"""What an unfinished fit leaves in its folder, so that it can go on to the same bits.

One file, replaced in one step: tensors, with the plain values as JSON in the header, never pickle.
A reader sees the old state or the new one, even if the writer dies.

A stochastic fit leaves its whole state. A second-order fit of a large chain leaves the values at
the points that it visited. Its optimiser uses no random numbers, so with the same values it takes
the same steps again, and needs no other state.
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
from torch import Tensor, as_tensor

from stationary._support.files import remove_abandoned, replacing
from stationary._support.types import Array
from stationary._version import __version__
from stationary.data.windows import Windows
from stationary.errors import InputError, RunError
from stationary.models import Model

State = dict[str, Any]
"""Nested dictionaries of tensors and of what JSON can hold."""

CHECKPOINT = "checkpoint.safetensors"
_SEPARATOR = "\x1f"


def taken_up(folder: Path, owner: Any, resume: bool) -> State | None:
    """Make a folder ready for a fit, and return the state that the same fit left in it, if any.

    ``owner`` tells this fit from others, as JSON can hold it. Without ``resume`` there must be
    nothing in the folder, or a state whose entry ``ended`` is true.
    """
    folder.mkdir(parents=True, exist_ok=True)
    remove_abandoned(folder.glob(".*.part"))
    state = read(folder / CHECKPOINT) if (folder / CHECKPOINT).exists() else None
    if state is None or (not resume and state.get("ended")):
        return None
    if not resume:
        raise InputError(
            f"{folder} holds an unfinished run; resume it (--resume), or delete the folder to "
            f"start again"
        )
    if state.get("owner") != owner:
        raise RunError(
            f"{folder} holds the checkpoint of another run (other data, model, method, start or "
            f"version); delete it, or start with the same arguments"
        )
    return state


def fingerprint(model: Model, windows: Windows) -> dict[str, Any]:
    """What must be the same for an unfinished fit to be this one: data, model and program."""
    return {
        "version": __version__,
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
    plain = json.dumps(_split(state, "", tensors))
    header = {"plain": plain, "digest": _digest(plain, tensors)}
    with replacing(path) as part:
        part.write_bytes(safetensors.torch.save(tensors, metadata=header))


def read(path: Path) -> State:
    """Return the state of a checkpoint, as it was written."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata()
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        if header["digest"] != _digest(header["plain"], tensors):
            raise ValueError("it is not what was saved")
        state: State = json.loads(header["plain"])
        for key, tensor in tensors.items():
            *parents, last = key.split(_SEPARATOR)
            place = state
            for parent in parents:
                place = place[parent]
            place[last] = tensor
    except (OSError, KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise damaged(path, error) from None
    return state


def damaged(path: Path, why: object) -> RunError:
    """Return the error for a file of an unfinished fit that cannot be taken up again."""
    return RunError(f"{path} is damaged ({why}); delete it to start again")


def _digest(plain: str, tensors: Mapping[str, Tensor]) -> str:
    facts = {key: [str(t.dtype), list(t.shape), identity(t)] for key, t in tensors.items()}
    return hashlib.sha256(json.dumps([plain, facts], sort_keys=True).encode()).hexdigest()


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


Visit = tuple[float, Array, Array]
"""Value, gradient and Hessian."""

_PARTS = ("at", "gradient", "hessian")


class VisitedPoints:
    """What was found at each point.

    It is kept in a folder, too, written anew at every point: those of a large chain take seconds.
    """

    def __init__(self, folder: Path | None = None, owner: Any = None, resume: bool = False) -> None:
        self._known: dict[bytes, Visit] = {}
        self._owner, self._file = owner, None if folder is None else folder / CHECKPOINT
        if folder is None or self._file is None:
            return
        state = taken_up(folder, owner, resume)
        try:
            for point in state["points"].values() if state else ():
                at, gradient, hessian = (point[name].numpy() for name in _PARTS)
                self._known[at.tobytes()] = float(point["value"]), gradient, hessian
        except (KeyError, AttributeError, TypeError) as error:
            raise damaged(self._file, error) from None
        self._write()

    def __getstate__(self) -> dict[str, Any]:
        # A copy in another process has its own points, and writes to no file.
        return {"_known": {}, "_owner": None, "_file": None}

    def get(self, z: Array) -> Visit | None:
        """Return what was found at a point, if it was visited."""
        return self._known.get(z.tobytes())

    def keep(self, z: Array, visit: Visit) -> Visit:
        """Remember what was found at a point, and return it."""
        self._known[z.tobytes()] = visit
        self._write()
        return visit

    def finish(self) -> None:
        """Note that the fit has ended: another may take the folder."""
        self._write(ended=True)

    def _write(self, ended: bool = False) -> None:
        if self._file is None:
            return
        points = {}
        for k, (at, (value, *slopes)) in enumerate(self._known.items()):
            arrays = np.frombuffer(at).copy(), *slopes
            points[str(k)] = {
                "value": value,
                **dict(zip(_PARTS, map(as_tensor, arrays), strict=True)),
            }
        write(self._file, {"owner": self._owner, "ended": ended, "points": points})
