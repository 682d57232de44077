"""Saved plans: a folder that holds all of a plan, written whole or not at all.

``plan.json`` is readable, ``arrays.safetensors`` holds large arrays, ``windows.parquet`` the data
and ``history.parquet`` the steps of a stochastic fit. The JSON file has checksums of the others.

Loading executes nothing from the folder; see `stationary.output._fields`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

import numpy as np
import pandas as pd
import safetensors
import safetensors.torch
import scipy
import torch
from torch import Tensor

from stationary._support.files import replacing_folder, surviving
from stationary._version import __version__
from stationary.data import known_kinds
from stationary.data.moments import Moments
from stationary.data.windows import Windows
from stationary.errors import InputError, MissingError, RunError
from stationary.learning.draws import Draws
from stationary.models import Model
from stationary.models.registry import can_rebuild
from stationary.output._fields import Reader, as_plain
from stationary.output.folders import (
    ARRAYS,
    FILES,
    HISTORY,
    JSON,
    WINDOWS,
    as_folder,
    check_run,
    check_target,
)
from stationary.planning.record import Record

FORMAT = 7
"""Number of the layout: 4 is read by the types of fields, where 3 named a type in every record; 6
has the limits that were found; 7 what windows weigh."""

_TABLES = ("windows", "history")  # fields of a plan that have files of their own

_UNREADABLE = (ValueError, KeyError, OSError, TypeError, safetensors.SafetensorError)


def write(plan: Record, folder: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a plan to a folder; what is there stays unless it is a plan and may be replaced."""
    check_target(as_folder(folder), overwrite)
    for kind in plan.windows.observations:
        if not kind.kind:
            raise InputError(
                f"{type(kind).__name__} has no name to be saved by: give the class a kind, as in "
                f"kind = 'latencies'"
            )
    # What later answers need is computed now, so that a plan that is loaded fits nothing.
    whole = replace(
        plan,
        known_studies=plan.studies,
        known_comparison=plan.comparison,
        known_draws=_draws(plan),
        known_limits=plan.having().known_limits,
    )
    target = Path(folder).resolve()  # so that a link is followed, not replaced
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing_folder(target, overwrite) as new:
            _write(whole, new)
            _check_readable(whole, new)
            check_target(target, overwrite)  # again: another writer may have been faster
    except OSError as error:
        raise InputError(
            f"{folder}: the run cannot be written: {error.strerror or error}; name another folder"
        ) from error


def _write(plan: Record, folder: Path) -> None:
    arrays: dict[str, Tensor] = {}
    content = {
        field.name: as_plain(getattr(plan, field.name), field.name, arrays)
        for field in fields(Record)
        if field.name not in _TABLES
    }
    content["windows"] = _write_windows(plan.windows, folder, arrays)
    if not plan.history.empty:
        plan.history.to_parquet(folder / HISTORY)
    # As bytes: save_file would make a file that only its owner may read.
    (folder / ARRAYS).write_bytes(safetensors.torch.save(arrays))
    signed = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "stationary": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "scipy": scipy.__version__,
        },
        **content,
        "checksums": {file.name: _checksum(file) for file in sorted(folder.iterdir())},
    }
    signed["checksum"] = _digest(signed)
    text = json.dumps(signed, indent=2, ensure_ascii=False)
    (folder / JSON).write_text(f"{text}\n", encoding="utf-8")


def _draws(plan: Record) -> Draws | None:
    if plan.changed is not None:
        return None  # a what-if has its own
    try:
        return plan.draws
    except InputError:  # nothing to pool: answers will say so
        return None


def _write_windows(windows: Windows, folder: Path, arrays: dict[str, Tensor]) -> dict[str, Any]:
    columns = {f"x:{name}": windows.x[:, k] for k, name in enumerate(windows.inputs)}
    for number, kind in enumerate(windows.every):
        columns |= {f"{number}:{name}": kind.data[:, k] for k, name in enumerate(kind.columns)}
    if windows.duration is not None:
        columns["duration"] = windows.duration
    if windows.weights is not None:
        columns["weight"] = windows.weights
    if windows.moments is not None:
        columns["windows"] = windows.multiplicity
        rows, others = np.triu_indices(windows.data.shape[1])
        arrays["windows.squares"] = windows.moments.squares[:, rows, others].contiguous()
    pd.DataFrame({k: v.numpy() for k, v in columns.items()}).to_parquet(folder / WINDOWS)
    return {
        "inputs": list(windows.inputs),
        "observations": [
            {"kind": kind.kind, "columns": len(kind.columns), **kind.facts()}
            for kind in windows.every
        ],
        "used": len(windows.observations),
    }


def _read_windows(
    content: Mapping[str, Any], frame: pd.DataFrame, arrays: Mapping[str, Tensor]
) -> Windows:
    def table(start: str) -> Tensor:
        names = [name for name in frame if name.startswith(start)]
        return torch.from_numpy(frame[names].to_numpy(dtype=np.float64, copy=True))

    kinds = []
    for number, entry in enumerate(content["observations"]):
        facts = {name: value for name, value in entry.items() if name not in ("kind", "columns")}
        kind = known_kinds().get(entry["kind"])
        if kind is None:
            raise RunError(
                f"the run holds observations of a kind of your own, {entry['kind']!r}: import the "
                f"module that defines it first"
            )
        kinds.append(kind(table(f"{number}:"), **facts))
    used, aside = kinds[: content["used"]], kinds[content["used"] :]
    moments = None
    if "windows" in frame:
        size = sum(kind.data.shape[1] for kind in used)
        rows, others = np.triu_indices(size)
        squares = torch.empty(len(frame), size, size, dtype=torch.float64)
        squares[:, rows, others] = squares[:, others, rows] = arrays["windows.squares"]
        moments = Moments(torch.from_numpy(frame["windows"].to_numpy(copy=True)), squares)
    found = Windows(
        table("x:"),
        inputs=tuple(content["inputs"]),
        duration=frame["duration"].to_numpy() if "duration" in frame else None,
        observations=used,
        aside=aside,
        moments=moments,
    )
    return found.weighed(frame["weight"].to_numpy()) if "weight" in frame else found


def read(
    folder: str | os.PathLike[str], model: Model | Sequence[Model] | None = None
) -> dict[str, Any]:
    """Return the fields of a plan that `write` wrote.

    Models of the user's own must be passed: their code is not in the folder.
    """
    path = as_folder(folder)
    own = () if model is None else (model,) if isinstance(model, Model) else model
    if not isinstance(own, list | tuple) or not all(isinstance(each, Model) for each in own):
        raise InputError(f"model must be one such as MMmK(), or a list of them; got {model!r}")
    while True:
        place = surviving(path)
        before = _identity(place)
        try:
            plan = _read_whole(place, own)
            break
        except RunError:
            # A writer that replaces the run meanwhile makes a mixture of two that looks damaged.
            if _identity(surviving(path)) == before:
                raise
    held = {each.model.param_names for each in plan["fitted"].values()}
    for given in own:
        if given.param_names not in held:
            raise RunError(
                f"{path} holds fits of models with the parameters "
                f"{'; '.join(', '.join(names) for names in held)}; the one given has "
                f"{', '.join(given.param_names)}: pass the model that was fitted"
            )
    return plan


def _identity(folder: Path) -> tuple[int, ...]:
    """Tell a folder from one that took its place."""
    try:
        facts = folder.stat()
    except OSError:
        return ()
    return facts.st_dev, facts.st_ino, facts.st_mtime_ns


def _read_whole(path: Path, own: Sequence[Model]) -> dict[str, Any]:
    content = _read_json(path)
    checksums = content["checksums"]
    try:  # a file may also go away while it is read
        for name in sorted({ARRAYS, WINDOWS} | (FILES & checksums.keys())):
            if not (path / name).is_file():
                _damaged(path, f"{name} is missing")
            if _checksum(path / name) != checksums.get(name):
                _damaged(path, f"{name} is not what was saved")
        return _read(path, content, own)
    except (MissingError, RunError):  # the run itself is intact
        raise
    except _UNREADABLE as error:
        _damaged(path, str(error))


def _check_readable(plan: Record, folder: Path) -> None:
    """Raise unless what was written can be read, so that nothing is saved that does not load."""
    own = [each.model for each in plan.fitted.values() if not can_rebuild(each.model)]
    try:
        _read(folder, _read_json(folder), own)
    except (RunError, *_UNREADABLE) as error:
        raise InputError(f"the run cannot be saved: {error}; it would not load") from error


def _read(path: Path, content: dict[str, Any], own: Sequence[Model]) -> dict[str, Any]:
    # load_file() has an error of its own where the file is gone.
    arrays = safetensors.torch.load((path / ARRAYS).read_bytes())
    reader, hints = Reader(path, arrays, own), get_type_hints(Record)
    plan = {k: reader.read(hints[k], content[k], k) for k in hints if k not in _TABLES}
    plan["windows"] = _read_windows(content["windows"], pd.read_parquet(path / WINDOWS), arrays)
    if HISTORY in content["checksums"]:
        plan["history"] = pd.read_parquet(path / HISTORY)
    return plan


def _read_json(path: Path) -> dict[str, Any]:
    """Return the content of the JSON file, checked to be as it was saved by this version."""
    check_run(path)
    try:
        content: Any = json.loads((path / JSON).read_text(encoding="utf-8"))
    except FileNotFoundError:
        _damaged(path, f"{JSON} is missing")
    except UnicodeDecodeError:
        _damaged(path, f"{JSON} is not text")
    except (ValueError, OSError) as error:
        _damaged(path, f"{JSON}: {getattr(error, 'strerror', None) or error}")
    content = content if isinstance(content, dict) else {}
    number = content.get("format")
    if not isinstance(number, int):
        _damaged(path, f"{JSON} does not say its format")
    if number < FORMAT:
        recipe = (content.get("recipe") or {}).get("command", "stationary fit ... -o")
        raise RunError(
            f"{path} was saved by an older stationary, in a form that is no longer read; make it "
            f"again with '{recipe}' (--overwrite to replace it)"
        )
    if number > FORMAT:
        raise RunError(
            f"{path} was written by a newer stationary "
            f"({content.get('versions', {}).get('stationary', 'unknown')}); this is "
            f"{__version__}: upgrade"
        )
    if content.pop("checksum", None) != _digest(content) or "checksums" not in content:
        _damaged(path, f"{JSON} is not what was saved")
    return dict(content)


def _damaged(path: Path, why: str) -> NoReturn:
    raise RunError(f"the run in {path} is damaged: {why}; fit again, or restore it from a copy")


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
