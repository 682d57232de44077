"""What an unfinished fit leaves in its folder, so that it can go on to the same bits.

A stochastic fit leaves a checkpoint, its whole state in one file, replaced in one step: tensors,
with the plain values as JSON in the header, never pickle. A reader sees the old state or the new
one, whenever the writer dies.

A second-order fit of a large chain leaves the points that it visited, one line each. An optimiser
without chance that gets at every point what it got last time goes the same way, so it goes on by
asking again, and needs no other state.
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
from stationary._support.types import Array
from stationary.data.windows import Windows
from stationary.errors import InputError, RunError
from stationary.models import Model

State = dict[str, Any]
"""Nested dictionaries of tensors and of what JSON can hold."""

_SEPARATOR = "\x1f"


def unfinished(folder: Path) -> InputError:
    """Return the error for a folder in which another fit has not ended."""
    return InputError(
        f"{folder} holds an unfinished run; resume it (--resume), or delete the folder to start "
        f"again"
    )


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


Visit = tuple[float, Array, Array]
"""Value, gradient and Hessian."""

VISITS = "visits.jsonl"
_END = b'{"ended": true}\n'


class VisitedPoints:
    """What was found at each point.

    Parameters
    ----------
    folder : Path, optional
        Where it is kept too, a line a point.
    owner : str
        What tells this fit from others.
    resume : bool
        Take up what an earlier run left in the folder.
    """

    def __init__(self, folder: Path | None = None, owner: str = "", resume: bool = False) -> None:
        self._known: dict[bytes, Visit] = {}
        self._file = None if folder is None else folder / VISITS
        if folder is None or self._file is None:
            return
        if self._file.exists() and not resume and self._file.read_bytes().endswith(_END):
            self._file.unlink()
        if self._file.exists():
            if not resume:
                raise unfinished(folder)
            self._read(self._file, owner)
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._append({"owner": owner})

    def __getstate__(self) -> dict[str, Any]:
        # A copy in another process has its own points, and writes to no file.
        return {"_known": {}, "_file": None}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, z: Array) -> Visit | None:
        """Return what was found at a point, if it was visited."""
        return self._known.get(z.tobytes())

    def keep(self, z: Array, visit: Visit) -> Visit:
        """Remember what was found at a point, and return it."""
        self._known[z.tobytes()] = visit
        value, gradient, hessian = visit
        # Python writes floats such that they read back to the same bits.
        self._append({"at": z.tolist(), "found": [value, gradient.tolist(), hessian.tolist()]})
        return visit

    def finish(self) -> None:
        """Note that the fit has ended: another may take the folder."""
        self._append({"ended": True})

    def _append(self, record: dict[str, Any]) -> None:
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(record) + "\n")

    def _read(self, file: Path, owner: str) -> None:
        text = file.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # the last line was cut off while it was written
            file.write_text(whole, encoding="utf-8")
        try:
            first, *records = [json.loads(line) for line in whole.splitlines()]
            found = first["owner"]
            for record in records:
                if "ended" in record:
                    continue
                value, gradient, hessian = record["found"]
                at = np.array(record["at"], dtype=np.float64).tobytes()
                self._known[at] = float(value), np.array(gradient), np.array(hessian)
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{file} is damaged ({error}); delete it to start again") from None
        if found != owner:
            raise RunError(
                f"{file} is of another run (other data, model or start); delete it, or start with "
                f"the same arguments"
            )
