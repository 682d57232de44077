"""Saved runs: a folder that holds a fit, written whole or not at all.

``fit.json`` (readable), ``params.safetensors`` (estimates and covariance) and ``windows.parquet``.
The JSON file carries a checksum of the other two. Loading executes nothing from the folder: the
model is made again from its name and options.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
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
from stationary.data.windows import Windows
from stationary.errors import InputError, RunError
from stationary.fitting import Fit
from stationary.inference import Covariance
from stationary.models import Model
from stationary.models.registry import build, describe

T = TypeVar("T")

FORMAT = 1
_JSON, _PARAMS, _WINDOWS = "fit.json", "params.safetensors", "windows.parquet"


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
    inputs: list[str]
    observe: list[list[int | str]]
    sampling: str
    checksums: dict[str, str]


def save(fit: Fit, folder: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Write a fit to a folder; what is there is kept unless it is a run and may be replaced."""
    target = Path(folder)
    check_target(target, overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        _write(fit, scratch)
        scratch.chmod(0o755)  # mkdtemp makes it private
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
            target.replace(old)
            scratch.replace(target)
            shutil.rmtree(old)
        else:
            scratch.replace(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check_target(folder: Path, overwrite: bool) -> None:
    """Raise unless a run may be written here, so that a long fit is not lost at its end."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder for the run")
    if not any(folder.iterdir()):
        return
    if not (folder / _JSON).exists():
        raise InputError(f"{folder} holds other files; name a new folder for the run")
    if not overwrite:
        raise InputError(f"{folder} holds a run already; name another folder, or overwrite it")


def _write(fit: Fit, folder: Path) -> None:
    tensors = {
        "theta": fit.model.theta.detach().contiguous(),
        "covariance": torch.from_numpy(fit.covariance.matrix).contiguous(),
        "flat": torch.from_numpy(fit.covariance.flat).contiguous(),
    }
    safetensors.torch.save_file(tensors, folder / _PARAMS)
    windows = fit.windows
    columns = {f"x:{name}": windows.x[:, k] for k, name in enumerate(windows.inputs)}
    columns |= {f"count:{label}": windows.counts[:, k] for k, label in enumerate(windows.labels)}
    pd.DataFrame({k: v.numpy() for k, v in columns.items()}).to_parquet(folder / _WINDOWS)
    content = RunFile(
        format=FORMAT,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={
            "stationary": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "scipy": scipy.__version__,
        },
        model=describe(fit.model),
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
        inputs=list(windows.inputs),
        observe=[list(members(category)) for category in windows.observe],
        sampling=windows.sampling,
        checksums={name: _checksum(folder / name) for name in (_PARAMS, _WINDOWS)},
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
    for name, expected in content.checksums.items():
        file = path / name
        if not file.is_file():
            _damaged(path, f"{name} is missing")
        if _checksum(file) != expected:
            _damaged(path, f"{name} is not what was saved")
    tensors = _guard(path, lambda: safetensors.torch.load_file(path / _PARAMS))
    frame = _guard(path, lambda: pd.read_parquet(path / _WINDOWS))
    if model is None:
        if not content.model.get("name"):
            raise RunError(
                f"{path} holds a fit of a model of your own; pass it as load(folder, model=...)"
            )
        model = _guard(path, lambda: build(content.model))
    _guard(path, lambda: model.set_theta(tensors["theta"]))
    windows = _guard(
        path,
        lambda: Windows(
            x=frame[[c for c in frame if c.startswith("x:")]].to_numpy(),
            counts=frame[[c for c in frame if c.startswith("count:")]].to_numpy(),
            observe=content.observe,
            sampling=content.sampling,
            inputs=tuple(content.inputs),
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
        covariance=Covariance(
            tensors["covariance"].numpy(),
            content.covariance_df,
            content.covariance_kind,
            tensors["flat"].numpy(),
        ),
        seed=content.seed,
        starts=content.starts,
    )


def _read_json(path: Path) -> RunFile:
    if not path.is_dir():
        raise RunError(f"{path} is not a run folder; make one with 'stationary fit ... -o {path}'")
    try:
        text = (path / _JSON).read_text(encoding="utf-8")
    except FileNotFoundError:
        _damaged(path, f"{_JSON} is missing")
    except UnicodeDecodeError:
        _damaged(path, f"{_JSON} is not text")
    try:
        content = RunFile.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        _damaged(path, f"{_JSON}: {where}: {first['msg']}")
    if content.format > FORMAT:
        raise RunError(
            f"{path} was written by a newer stationary "
            f"({content.versions.get('stationary', 'unknown')}); this is {__version__}: upgrade"
        )
    return content


def _guard(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except (ValueError, KeyError, OSError, TypeError, safetensors.SafetensorError) as error:
        _damaged(path, str(error))


def _damaged(path: Path, why: str) -> NoReturn:
    raise RunError(f"the run in {path} is damaged: {why}; fit again, or restore it from a copy")


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
