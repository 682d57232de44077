"""Saved plans: a folder that holds all of a plan, written whole or not at all.

``plan.json`` (readable), ``arrays.safetensors`` (numbers in bulk), ``windows.parquet``, and
``history.parquet`` of a stochastic fit. The JSON file carries checksums of the others. Loading
executes nothing from the folder: records are made by name from a fixed list, and models from their
name and options.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import pandas as pd
import safetensors
import safetensors.torch
import scipy
import torch
from torch import Tensor

from stationary._version import __version__
from stationary.data import Misplaced, Observation
from stationary.data.moments import Moments
from stationary.data.windows import Windows
from stationary.errors import InputError, MissingError, RunError
from stationary.learning.draws import Draws, Part
from stationary.learning.estimate import End, Ended, Estimate
from stationary.learning.fitting import at
from stationary.learning.inference import Covariance
from stationary.models import Model
from stationary.models.registry import build, can_rebuild, describe
from stationary.models.scales import Scale
from stationary.planning.changes import Change
from stationary.planning.record import Question, Record, Refits
from stationary.terms.findings import Check, Finding, Verdict
from stationary.terms.slo import Slo
from stationary.terms.trust import Choice, Chosen, Horizon, Reach
from stationary.trust.scoring import Score
from stationary.trust.study import Comparison, Study

T = TypeVar("T")

FORMAT = 3
"""Of the newest plans: 3 holds studies, comparisons and draws, which 1 and 2 made anew."""

_JSON, _ARRAYS, _WINDOWS = "plan.json", "arrays.safetensors", "windows.parquet"
_HISTORY = "history.parquet"  # of a stochastic fit
_FILES = {_JSON, _ARRAYS, _WINDOWS, _HISTORY}
_OLD = "fit.json"  # of formats 1 and 2
_OLD_FILES = {_OLD, "params.safetensors", _WINDOWS, _HISTORY}

_RECORDS: dict[str, type] = {
    record.__name__: record
    for record in (
        *(Question, Slo, Refits, Estimate, Ended, Covariance, Scale, Study, Finding, Horizon),
        *(Comparison, Score, Misplaced, Choice, Draws, Part, Change),
    )
}
_ENUMS: dict[str, type[StrEnum]] = {
    enum.__name__: enum for enum in (End, Check, Verdict, Reach, Chosen)
}
_KEPT = ("fitted", "pooled", "question", "failed", "seed", "recipe", "refits", "changed")


def write(plan: Record, folder: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a plan to a folder; what is there is kept unless it is a plan and may be replaced."""
    check_target(as_folder(folder), overwrite)
    for kind in plan.windows.observations:
        if not kind.kind:
            raise InputError(
                f"{type(kind).__name__} has no name to be saved by: give the class a kind, as in "
                f"kind = 'latencies'"
            )
    target = Path(folder).resolve()  # so that a link is followed, not replaced
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            new.mkdir()
            _write(plan, new)
            _swap(new, target, old)
    except OSError as error:
        raise InputError(
            f"{folder}: the run cannot be written: {error.strerror or error}; name another folder"
        ) from error


def as_folder(folder: Any) -> Path:
    """Return the path of a folder, or raise unless this can be one."""
    if not isinstance(folder, str | os.PathLike) or not str(folder):
        raise InputError(f"name a folder, as in 'run/'; got {folder!r}")
    return Path(folder)


def _swap(new: Path, target: Path, old: Path) -> None:
    """Put a folder in another's place, or leave that one as it was."""
    there = target.exists()
    if there:
        target.replace(old)
    try:
        new.replace(target)
    except BaseException:
        if there:
            old.replace(target)
        raise


def check_target(folder: Path, overwrite: bool) -> None:
    """Raise unless a plan may be written here, so that a long fit is not lost at its end."""
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not above.is_dir():
        raise InputError(f"{above} is a file; name a folder for the run")
    if not os.access(above if above != folder else folder.absolute().parent, os.W_OK):
        raise InputError(f"{folder} cannot be written: no permission; name another folder")
    if above != folder:
        return
    if folder.resolve() == Path.cwd():  # a shell would be left in a folder that is gone
        raise InputError("the run cannot replace the folder you are in; name another folder")
    found = {path.name for path in folder.iterdir()}
    others = sorted(found - _FILES - _OLD_FILES)
    if others or (found and not found & {_JSON, _OLD}):
        raise InputError(
            f"{folder} holds other files ({(others or sorted(found))[0]}); name a new folder for "
            f"the run"
        )
    if found and not overwrite:
        raise InputError(
            f"{folder} holds a run already; name another folder, or overwrite it (overwrite=True, "
            f"--overwrite)"
        )


def _write(plan: Record, folder: Path) -> None:
    arrays: dict[str, Tensor] = {}
    content = {name: _plain(getattr(plan, name), name, arrays) for name in _KEPT}
    content["known_studies"] = _plain(plan.studies, "studies", arrays)
    content["known_comparison"] = _plain(plan.comparison, "comparison", arrays)
    content["known_draws"] = _plain(_draws(plan), "draws", arrays)
    content["windows"] = _write_windows(plan.windows, folder, arrays)
    if not plan.history.empty:
        plan.history.to_parquet(folder / _HISTORY)
    # As bytes, so that others may read the file as they may read the JSON beside it.
    (folder / _ARRAYS).write_bytes(safetensors.torch.save(arrays))
    whole = {
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
    whole["checksum"] = _digest(whole)
    (folder / _JSON).write_text(
        json.dumps(whole, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def _draws(plan: Record) -> Draws | None:
    if plan.changed is not None:
        return None  # it has its own
    try:
        return plan.draws
    except InputError:  # nothing to pool: answers will say so
        return None


def _write_windows(windows: Windows, folder: Path, arrays: dict[str, Tensor]) -> dict[str, Any]:
    columns = {f"x:{name}": windows.x[:, k] for k, name in enumerate(windows.inputs)}
    for number, kind in enumerate(windows.observations):
        columns |= {f"{number}:{name}": kind.data[:, k] for k, name in enumerate(kind.columns)}
    if windows.duration is not None:
        columns["duration"] = windows.duration
    if windows.moments is not None:
        columns["windows"] = windows.many
        size = windows.data.shape[1]
        upper = list(combinations_with_replacement(range(size), 2))
        arrays["windows.squares"] = torch.stack(
            [windows.moments.squares[:, i, j] for i, j in upper], -1
        ).contiguous()
    pd.DataFrame({k: v.numpy() for k, v in columns.items()}).to_parquet(folder / _WINDOWS)
    return {
        "inputs": list(windows.inputs),
        "observations": [
            {"kind": kind.kind, "columns": len(kind.columns), **kind.facts()}
            for kind in windows.observations
        ],
    }


def _read_windows(
    content: Mapping[str, Any], frame: pd.DataFrame, arrays: Mapping[str, Tensor]
) -> Windows:
    def table(start: str) -> Tensor:
        names = [name for name in frame if name.startswith(start)]
        return torch.from_numpy(frame[names].to_numpy(dtype=np.float64, copy=True))

    kinds = []
    for number, facts in enumerate(content["observations"]):
        kind = Observation.kinds.get(facts["kind"])
        if kind is None:
            raise RunError(
                f"the run holds observations of a kind of your own, {facts['kind']!r}: import the "
                f"module that defines it first"
            )
        kinds.append(kind.restored(table(f"{number}:"), facts))
    moments = None
    if "windows" in frame:
        size = sum(kind.data.shape[1] for kind in kinds)
        squares = torch.empty(len(frame), size, size, dtype=torch.float64)
        for k, (i, j) in enumerate(combinations_with_replacement(range(size), 2)):
            squares[:, i, j] = squares[:, j, i] = arrays["windows.squares"][:, k]
        moments = Moments(torch.from_numpy(frame["windows"].to_numpy(copy=True)), squares)
    return Windows(
        table("x:"),
        inputs=tuple(content["inputs"]),
        duration=frame["duration"].to_numpy() if "duration" in frame else None,
        observations=kinds,
        moments=moments,
    )


def read(
    folder: str | os.PathLike[str], model: Model | Sequence[Model] | None = None
) -> dict[str, Any]:
    """Return the fields of a saved plan.

    Parameters
    ----------
    folder : path
        What `write` wrote.
    model : Model or sequence of Model, optional
        Models of a user's own that the plan holds: their code is not in the folder.
    """
    path = as_folder(folder)
    own = () if model is None else (model,) if isinstance(model, Model) else model
    if not isinstance(own, list | tuple) or not all(isinstance(each, Model) for each in own):
        raise InputError(f"model must be one such as MMmK(), or a list of them; got {model!r}")
    content = _read_json(path)
    checksums = content.get("checksums", {})
    for name in sorted({_ARRAYS, _WINDOWS} | (_FILES & checksums.keys())):
        if not (path / name).is_file():
            _damaged(path, f"{name} is missing")
        if _checksum(path / name) != checksums.get(name):
            _damaged(path, f"{name} is not what was saved")
    arrays = _guard(path, lambda: safetensors.torch.load_file(path / _ARRAYS))
    frame = _guard(path, lambda: pd.read_parquet(path / _WINDOWS))
    history = pd.DataFrame()
    if _HISTORY in checksums:
        history = _guard(path, lambda: pd.read_parquet(path / _HISTORY))
    reader = _Reader(path, arrays, own)
    names = (*_KEPT, "known_studies", "known_comparison", "known_draws")
    fields = _guard(path, lambda: {name: reader.made(content[name]) for name in names})
    held = {each.model.param_names for each in fields["fitted"].values()}
    for given in own:
        if given.param_names not in held:
            raise RunError(
                f"{path} holds fits of models with the parameters "
                f"{'; '.join(', '.join(names) for names in held)}; the one given has "
                f"{', '.join(given.param_names)}: pass the model that was fitted"
            )
    windows = _guard(path, lambda: _read_windows(content["windows"], frame, arrays))
    return {**fields, "windows": windows, "history": history}


def _plain(value: Any, path: str, arrays: dict[str, Tensor]) -> Any:
    """Return a value as JSON can hold it; arrays go to their own file, by the path to them."""
    if isinstance(value, Tensor | np.ndarray):
        tensor = torch.as_tensor(value).detach()
        if tensor.numel() == 0:
            return {"$empty": list(tensor.shape), "array": isinstance(value, np.ndarray)}
        arrays[path] = tensor.clone().contiguous()
        return {"$array" if isinstance(value, np.ndarray) else "$tensor": path}
    if isinstance(value, Model):
        described = describe(value) if can_rebuild(value) else _own(value)
        theta = _plain(value.theta, f"{path}.theta", arrays)
        return {"$model": described, "estimates": value.estimates, "theta": theta}
    if isinstance(value, StrEnum):
        return {"$enum": type(value).__name__, "value": str(value)}
    if isinstance(value, Misplaced):
        return {"$record": "Misplaced", "share": value.share, "error": value.error}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            f.name: _plain(getattr(value, f.name), f"{path}.{f.name}", arrays)
            for f in dataclasses.fields(value)
        }
        return {"$record": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {str(k): _plain(v, f"{path}.{k}", arrays) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v, f"{path}.{k}", arrays) for k, v in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}  # which JSON cannot say
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"{path} cannot be saved: it is a {type(value).__name__}")


def _own(model: Model) -> dict[str, Any]:
    """Tell a model of a user's own, whose code cannot be saved, from others of them."""
    return {"name": "", "class": type(model).__name__, "options": model.changeable}


class _Reader:
    """Makes records from what `_plain` wrote."""

    def __init__(self, path: Path, arrays: Mapping[str, Tensor], models: Sequence[Model]) -> None:
        self.path, self.arrays, self.models = path, arrays, models

    def made(self, value: Any) -> Any:
        """Return the value that was written."""
        if isinstance(value, list):
            return tuple(self.made(v) for v in value)
        if not isinstance(value, dict):
            return value
        if "$tensor" in value:
            return self.arrays[value["$tensor"]]
        if "$array" in value:
            return self.arrays[value["$array"]].numpy()
        if "$empty" in value:
            empty = torch.empty(value["$empty"], dtype=torch.float64)
            return empty.numpy() if value["array"] else empty
        if "$float" in value:
            return float(value["$float"])
        if "$enum" in value:
            return _ENUMS[value["$enum"]](value["value"])
        if "$model" in value:
            return self._model(value)
        if "$record" in value:
            fields = {k: self.made(v) for k, v in value.items() if k != "$record"}
            return _record(_RECORDS[value["$record"]], fields)
        return {k: self.made(v) for k, v in value.items()}

    def _model(self, value: dict[str, Any]) -> Model:
        described, names = value["$model"], tuple(value["estimates"])
        if described.get("name"):
            return at(build(described), self.made(value["theta"]))
        if not self.models:
            raise RunError(
                f"{self.path} holds a fit of a model of your own, {described['class']}; pass it as "
                f"load(folder, model=...)"
            )
        fitting = [model for model in self.models if model.param_names == names]
        if not fitting:
            raise RunError(
                f"{self.path} holds a fit of a model with the parameters {', '.join(names)}; "
                f"none of those given has these: pass the model that was fitted"
            )
        same = [model for model in fitting if type(model).__name__ == described["class"]]
        model = (same or fitting)[0]
        options = self.made(described["options"])
        if options != model.changeable and options.keys() <= model.changeable.keys():
            model = model.changed(**options)
        return at(model, self.made(value["theta"]))


_NUMBERS: dict[str, tuple[type, ...]] = {
    "float": (float, int),
    "int": (int,),
    "bool": (bool,),
    "str": (str,),
}


def _record(kind: type, fields: dict[str, Any]) -> Any:
    """Make a record, or raise where a field is not a number and should be: it would fail later."""
    for name, annotation in getattr(kind, "__annotations__", {}).items():
        value, wanted = fields.get(name), _NUMBERS.get(annotation)
        wrong = wanted and name in fields and not isinstance(value, wanted)
        if wrong or (isinstance(value, bool) and annotation in ("float", "int")):
            raise TypeError(f"{name} must be of type {annotation}; got {value!r}")
    return kind(**fields)


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise RunError(f"{path}: there is no such folder; make it with 'stationary fit ... -o'")
    if not path.is_dir():
        raise RunError(f"{path} is a file; give the folder that 'stationary fit ... -o' wrote")
    if (path / _OLD).exists() and not (path / _JSON).exists():
        _refuse_old(path)
    if not any((path / name).exists() for name in _FILES):
        raise RunError(f"{path} is not a run; give a folder that 'stationary fit ... -o' wrote")
    try:
        text = (path / _JSON).read_text(encoding="utf-8")
        content = json.loads(text)
    except FileNotFoundError:
        _damaged(path, f"{_JSON} is missing")
    except UnicodeDecodeError:
        _damaged(path, f"{_JSON} is not text")
    except ValueError as error:
        _damaged(path, f"{_JSON}: {error}")
    except OSError as error:
        _damaged(path, f"{_JSON}: {error.strerror or error}")
    number = content.get("format") if isinstance(content, dict) else None
    if not isinstance(number, int):
        _damaged(path, f"{_JSON} does not say its format")
    if number > FORMAT:
        raise RunError(
            f"{path} was written by a newer stationary "
            f"({content.get('versions', {}).get('stationary', 'unknown')}); this is "
            f"{__version__}: upgrade"
        )
    missing = {*_KEPT, "windows", "checksums", "checksum"} - content.keys()
    if missing:
        _damaged(path, f"{_JSON}: {sorted(missing)[0]} is missing")
    if content.pop("checksum") != _digest(content):
        _damaged(path, f"{_JSON} is not what was saved")
    return dict(content)


def _refuse_old(path: Path) -> NoReturn:
    """Say how to make a run again that was saved before what is known of it was saved, too."""
    try:
        command = json.loads((path / _OLD).read_text(encoding="utf-8"))["recipe"]["command"]
    except (OSError, ValueError, KeyError, TypeError):
        command = "stationary fit ... -o"
    raise RunError(
        f"{path} was saved by an older stationary, without its tests and draws; make it again with "
        f"'{command}' (--overwrite to replace it)"
    )


def _guard(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except (MissingError, RunError):  # the run is well
        raise
    except (ValueError, KeyError, OSError, TypeError, safetensors.SafetensorError) as error:
        _damaged(path, str(error))


def _damaged(path: Path, why: str) -> NoReturn:
    raise RunError(f"the run in {path} is damaged: {why}; fit again, or restore it from a copy")


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
