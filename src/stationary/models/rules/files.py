"""Model files: a `RuleModel` as TOML."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from stationary.errors import InputError, did_you_mean
from stationary.models.rules.description import Description
from stationary.models.rules.model import RuleModel

_LARGEST = 1_000_000


def read_model(path: str | os.PathLike[str], **changes: float) -> RuleModel:
    """Read a model from a TOML file whose keys are the arguments of `RuleModel`.

    Parameters
    ----------
    path : path
        The file.
    **changes
        New values of constants and parameters of the file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "queue.toml"
    >>> _ = file.write_text('''
    ... [variables]
    ... n = [0, "K"]
    ... [constants]
    ... K = 20
    ... [params]
    ... mu = 25.0
    ... [rules]
    ... arrive = "n < K -> n += 1 else lost at load"
    ... serve = "n > 0 -> n -= 1 at mu"
    ... ''')
    >>> len(read_model(file, K=5).states)
    6
    """
    file = Path(path)
    try:
        given = _read(file)
        for key in changes:
            if key in given:
                raise InputError(f"{key!r} is a part of the model, and no constant of it")
        for key in given:
            if key not in Description.model_fields:
                known = did_you_mean(key, Description.model_fields)
                raise InputError(f"{key}: a model has no such part{known}")
        return RuleModel(**{"variables": None, "rules": None, **given, **changes})
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None
    if len(content) > _LARGEST:
        raise InputError(f"a model file has at most {_LARGEST} bytes")
    try:
        return tomllib.loads(content.decode("utf-8-sig"))  # without the mark of some editors
    except UnicodeDecodeError as error:
        raise InputError(f"byte {error.start} is not UTF-8; save it as UTF-8 text") from None
    except RecursionError:
        raise InputError("the values are nested too deeply; a model needs two levels") from None
    except ValueError as error:  # also where a whole number has more than 4300 digits
        raise InputError(f"this cannot be read as TOML: {error}") from None
