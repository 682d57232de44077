"""Saved runs: a folder that holds a fit, written whole or not at all.

``fit.json`` (readable), ``params.safetensors`` (estimates and covariance), ``windows.parquet``,
and ``history.parquet`` of a stochastic fit. The JSON file carries checksums of the others. Loading
executes nothing from the folder: the model is made again from its name and options.
"""

from __future__ import annotations

import copy
import hashlib
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pandas as pd
import safetensors
import safetensors.torch
import scipy
import torch
from pydantic import BaseModel, ValidationError

from stationary._version import __version__
from stationary.data.categories import members
from stationary.data.moments import Moments
from stationary.data.windows import Windows
from stationary.errors import InputError, MissingError, RunError
from stationary.forecast import Horizon
from stationary.inference import Covariance
from stationary.models import Model
from stationary.models.registry import build, can_rebuild, describe
from stationary.result import Fit
from stationary.scales import Scale

T = TypeVar("T")

FORMAT = 2
"""Of the newest runs: 2 holds pooled windows, which 1 would take for single ones."""

_JSON, _PARAMS, _WINDOWS = "fit.json", "params.safetensors", "windows.parquet"
_HISTORY = "history.parquet"  # of a stochastic fit
_FILES = {_JSON, _PARAMS, _WINDOWS, _HISTORY}


class _Header(BaseModel):
    """What every version of ``fit.json`` starts with."""

    format: int
    versions: dict[str, str] = {}


class RunFile(BaseModel):
    """What ``fit.json`` holds."""

    format: int
    created: str
    versions: dict[str, str]
    model: dict[str, Any]
    estimates: dict[str, float]
    nll: float
    converged: bool
    gradient_norm: float
    evaluations: int
    message: str
    seed: int
    starts: int
    covariance_kind: str
    covariance_df: int
    covariance_supposes: str = ""
    covariance_inflation: float = 1.0
    inputs: list[str]
    observe: list[list[int | str]]
    sampling: str
    duration: float | None = None
    notes: list[str] = []
    recipe: dict[str, str] = {}
    tested: Horizon | None = None
    checksums: dict[str, str]


def save(fit: Fit, folder: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a fit to a folder; what is there is kept unless it is a run and may be replaced."""
    check_target(Path(folder), overwrite)
    target = Path(folder).resolve()  # so that a link is followed, not replaced
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            new.mkdir()
            _write(fit, new)
            _swap(new, target, old)
    except OSError as error:
        raise InputError(
            f"{folder}: the run cannot be written: {error.strerror or error}; name another folder"
        ) from error


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
    """Raise unless a run may be written here, so that a long fit is not lost at its end."""
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
    others = sorted(found - _FILES)
    if others or (found and _JSON not in found):
        raise InputError(
            f"{folder} holds other files ({(others or sorted(found))[0]}); name a new folder for "
            f"the run"
        )
    if found and not overwrite:
        raise InputError(
            f"{folder} holds a run already; name another folder, or overwrite it (--overwrite)"
        )


def _write(fit: Fit, folder: Path) -> None:
    tensors = {
        "theta": fit.model.theta.detach().contiguous(),
        "covariance": torch.from_numpy(fit.covariance.matrix).contiguous(),
        "flat": torch.from_numpy(fit.covariance.flat).contiguous(),
        "scale_log": fit.covariance.scale.log.contiguous(),
        "scale_unit": fit.covariance.scale.unit.contiguous(),
    }
    safetensors.torch.save_file(tensors, folder / _PARAMS)
    windows = fit.windows
    columns = {f"x:{name}": windows.x[:, k] for k, name in enumerate(windows.inputs)}
    columns |= {f"count:{label}": windows.counts[:, k] for k, label in enumerate(windows.labels)}
    if windows.moments is not None:
        columns["windows"] = windows.many
        columns |= {
            f"square:{i},{j}": windows.moments.squares[:, i, j]
            for i, j in _pairs(len(windows.observe))
        }
    pd.DataFrame({k: v.numpy() for k, v in columns.items()}).to_parquet(folder / _WINDOWS)
    if not fit.history.empty:
        fit.history.to_parquet(folder / _HISTORY)
    content = RunFile(
        format=1 if windows.moments is None else FORMAT,  # who cannot pool can read the others
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={
            "stationary": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "scipy": scipy.__version__,
        },
        model=describe(fit.model) if can_rebuild(fit.model) else {"name": ""},
        estimates=fit.estimates,
        nll=fit.nll,
        converged=fit.converged,
        gradient_norm=fit.gradient_norm,
        evaluations=fit.evaluations,
        message=fit.message,
        seed=fit.seed,
        starts=fit.starts,
        covariance_kind=fit.covariance.kind,
        covariance_df=fit.covariance.df,
        covariance_supposes=fit.covariance.supposes,
        covariance_inflation=fit.covariance.inflation,
        inputs=list(windows.inputs),
        observe=[list(members(category)) for category in windows.observe],
        sampling=windows.sampling,
        duration=windows.duration,
        notes=list(fit.notes),
        recipe=fit.recipe,
        tested=fit.tested,
        checksums={file.name: _checksum(file) for file in sorted(folder.iterdir())},
    )
    (folder / _JSON).write_text(content.model_dump_json(indent=2) + "\n", encoding="utf-8")


def load(folder: str | os.PathLike[str], model: Model | None = None) -> Fit:
    """Read a saved run.

    Parameters
    ----------
    folder : path
        What `Fit.save` wrote.
    model : Model, optional
        The model, needed when it is one of your own: its code is not in the folder.
    """
    path = Path(folder)
    content = _read_json(path)
    for name in sorted({_PARAMS, _WINDOWS} | (_FILES & content.checksums.keys())):
        if not (path / name).is_file():
            _damaged(path, f"{name} is missing")
        if _checksum(path / name) != content.checksums.get(name):
            _damaged(path, f"{name} is not what was saved")
    tensors = _guard(path, lambda: safetensors.torch.load_file(path / _PARAMS))
    frame = _guard(path, lambda: pd.read_parquet(path / _WINDOWS))
    history = pd.DataFrame()
    if _HISTORY in content.checksums:
        history = _guard(path, lambda: pd.read_parquet(path / _HISTORY))
    if model is None:
        if not content.model.get("name"):
            raise RunError(
                f"{path} holds a fit of a model of your own; pass it as load(folder, model=...)"
            )
        model = _guard(path, lambda: build(content.model))
    elif model.param_names != tuple(content.estimates):
        raise RunError(
            f"{path} holds a fit of a model with the parameters {', '.join(content.estimates)}; "
            f"the one given has {', '.join(model.param_names)}: pass the model that was fitted"
        )
    model = copy.deepcopy(model)  # the caller's own stays as it is
    _guard(path, lambda: model.set_theta(tensors["theta"]))
    windows = _guard(
        path,
        lambda: Windows(
            x=frame[[c for c in frame if c.startswith("x:")]].to_numpy(),
            counts=frame[[c for c in frame if c.startswith("count:")]].to_numpy(),
            observe=content.observe,
            sampling=content.sampling,
            inputs=tuple(content.inputs),
            duration=content.duration,
            moments=_moments(frame, len(content.observe)),
        ),
    )
    return Fit(
        model=model,
        windows=windows,
        nll=content.nll,
        converged=content.converged,
        gradient_norm=content.gradient_norm,
        evaluations=content.evaluations,
        message=content.message,
        covariance=_guard(
            path,
            lambda: Covariance(
                tensors["covariance"].numpy(),
                content.covariance_df,
                content.covariance_kind,
                tensors["flat"].numpy(),
                Scale(tensors["scale_log"], tensors["scale_unit"]),
                content.covariance_supposes,
                content.covariance_inflation,
            ),
        ),
        seed=content.seed,
        starts=content.starts,
        notes=tuple(content.notes),
        recipe=content.recipe,
        tested=content.tested,
        history=history,
    )


def _pairs(categories: int) -> Iterator[tuple[int, int]]:
    return combinations_with_replacement(range(categories), 2)


def _moments(frame: pd.DataFrame, categories: int) -> Moments | None:
    """Return the moments of pooled windows, if these are."""
    if "windows" not in frame:
        return None
    squares = torch.empty(len(frame), categories, categories, dtype=torch.float64)
    for i, j in _pairs(categories):
        column = torch.from_numpy(frame[f"square:{i},{j}"].to_numpy(copy=True))
        squares[:, i, j] = squares[:, j, i] = column
    return Moments(torch.from_numpy(frame["windows"].to_numpy(copy=True)), squares)


def _read_json(path: Path) -> RunFile:
    if not path.exists():
        raise RunError(f"{path}: there is no such folder; make it with 'stationary fit ... -o'")
    if not path.is_dir():
        raise RunError(f"{path} is a file; give the folder that 'stationary fit ... -o' wrote")
    if not any((path / name).exists() for name in _FILES):
        raise RunError(f"{path} is not a run; give a folder that 'stationary fit ... -o' wrote")
    try:
        text = (path / _JSON).read_text(encoding="utf-8")
    except FileNotFoundError:
        _damaged(path, f"{_JSON} is missing")
    except UnicodeDecodeError:
        _damaged(path, f"{_JSON} is not text")
    except OSError as error:
        _damaged(path, f"{_JSON}: {error.strerror or error}")
    _refuse_newer(path, text)
    try:
        return RunFile.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        _damaged(path, f"{_JSON}: {where}: {first['msg']}")


def _refuse_newer(path: Path, text: str) -> None:
    """Say so before the fields are checked, which a newer version may have renamed."""
    try:
        header = _Header.model_validate_json(text)
    except ValidationError:
        return
    if header.format > FORMAT:
        raise RunError(
            f"{path} was written by a newer stationary "
            f"({header.versions.get('stationary', 'unknown')}); this is {__version__}: upgrade"
        )


def _guard(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except MissingError:  # the run is well
        raise
    except (ValueError, KeyError, OSError, TypeError, safetensors.SafetensorError) as error:
        _damaged(path, str(error))


def _damaged(path: Path, why: str) -> NoReturn:
    raise RunError(f"the run in {path} is damaged: {why}; fit again, or restore it from a copy")


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
