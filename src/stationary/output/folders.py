"""Folders of saved plans: which files they hold, and whether one may be written or read.

Nothing here loads torch, so that a folder that is in the way is named at once.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from stationary._support.files import surviving
from stationary.errors import InputError, RunError

JSON, ARRAYS, WINDOWS = "plan.json", "arrays.safetensors", "windows.parquet"
HISTORY = "history.parquet"  # of a stochastic fit
REPORT = "report.html"  # which a plan may have beside it
FILES = {JSON, ARRAYS, WINDOWS, HISTORY, REPORT}


def as_folder(folder: Any) -> Path:
    """Return the path of a folder, or raise unless the argument names one."""
    if not isinstance(folder, str | os.PathLike) or not str(folder):
        raise InputError(f"name a folder, as in 'run/'; got {folder!r}")
    return Path(folder)


def check_target(folder: Path, overwrite: bool) -> None:
    """Raise unless a plan may be written here, so that a long fit is not lost at its end."""
    folder = surviving(folder)
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if above.is_file():
        raise InputError(f"{above} is a file; name a folder for the run")
    parent = above if above != folder else folder.absolute().parent
    try:  # permissions do not tell: root has all of them, and a disk may be read-only
        tempfile.TemporaryDirectory(prefix=".stationary-", dir=parent).cleanup()
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written: {error.strerror}; name another folder"
        ) from None
    if above != folder:
        return
    if folder.resolve() == Path.cwd():  # a shell would be left in a folder that is gone
        raise InputError("the run cannot replace the folder you are in; name another folder")
    try:
        present = {path.name for path in folder.iterdir()}
    except FileNotFoundError:  # another writer is replacing it just now
        return
    others = sorted(present - FILES)
    if others or (present and JSON not in present):
        raise InputError(
            f"{folder} holds other files ({(others or sorted(present))[0]}); name a new folder for "
            f"the run"
        )
    if present and not overwrite:
        raise InputError(
            f"{folder} holds a run already; name another folder, or overwrite it (overwrite=True, "
            f"--overwrite)"
        )


def described(path: Path) -> list[dict[str, Any]]:
    """Return name and options of the models of a saved plan, as its file has them; lenient."""
    try:
        fitted = json.loads((path / JSON).read_text(encoding="utf-8"))["fitted"]
        return [{**each["model"]["description"]} for each in fitted.values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []  # whoever loads the plan says what is wrong with it


def check_run(path: Path) -> None:
    """Raise unless the folder holds a saved plan, whole or not."""
    if not path.exists():
        raise RunError(f"{path}: there is no such folder; make it with 'stationary plan ... -o'")
    if not path.is_dir():
        raise RunError(f"{path} is a file; give the folder that 'stationary plan ... -o' wrote")
    if not any((path / name).exists() for name in FILES):
        raise RunError(f"{path} is not a run; give a folder that 'stationary plan ... -o' wrote")
