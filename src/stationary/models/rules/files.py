"""Model files: a `RuleModel` as TOML, with errors that point into the file."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from stationary._support.arguments import explained
from stationary.errors import InputError, did_you_mean
from stationary.models.rules.description import Description
from stationary.models.rules.errors import DescriptionError, locate
from stationary.models.rules.model import RuleModel

_LARGEST = 1_000_000
_DIGITS = re.compile(r"[0-9][0-9_]{4000,}")
_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|(end of document))\)", re.DOTALL)


@explained
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
    source = read_source(file)
    try:
        given = tomllib.loads(source)
    except RecursionError:
        raise InputError(f"{file}: values are nested too deeply; a model has two levels") from None
    except ValueError as error:  # also where a whole number has more than 4300 digits
        raise _not_toml(file, source, str(error)) from None
    for key in changes:
        if key in given:
            raise InputError(f"{file}: {key!r} is a part of the model, and no constant of it")
    try:
        for key in given:
            if key not in Description.model_fields:
                known = did_you_mean(key, Description.model_fields)
                raise DescriptionError(f"a model has no such part{known}", key)
        arguments: dict[str, Any] = {"variables": None, "rules": None, **given, **changes}
        return RuleModel(**arguments)
    except DescriptionError as error:
        at = _position(source, error)
        if at is None:
            raise InputError(f"{file}: {error}") from None
        raise _pointing(file, source, at, f"{error.part}: {error.reason}") from None
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def read_source(file: Path) -> str:
    """Return the text of a model file."""
    try:
        with file.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from None
    if len(content) > _LARGEST:
        raise InputError(f"{file}: a model file has at most {_LARGEST} bytes")
    try:
        # Lines as tomllib reads them, so that positions agree; without the mark of some editors.
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file}: byte {error.start} is not UTF-8; save it as UTF-8 text"
        ) from None


def _pointing(file: Path, source: str, at: int, reason: str) -> InputError:
    line, column, excerpt = locate(source, at)
    return InputError(f"{file}, line {line}, column {column}: {reason}\n{excerpt}")


def _not_toml(file: Path, source: str, message: str) -> InputError:
    match = _PLACE.fullmatch(message)
    if match is None:
        digits = _DIGITS.search(source)
        at = digits.start() if digits else 0
        return _pointing(file, source, at, f"this cannot be read as TOML: {message}")
    at = len(source.rstrip())
    if match[2]:
        before = source.split("\n")[: int(match[2]) - 1]
        at = len("\n".join([*before, ""])) + int(match[3]) - 1
    return _pointing(file, source, at, match[1])


def _position(source: str, error: DescriptionError) -> int | None:
    """Position in the file of what an error is about, or None: TOML's values have no positions."""
    # A text stands in the file as it is, unless it has escapes or is folded.
    text = re.search(rf"[\"']\n?({re.escape(error.text)})[\"']", source) if error.text else None
    if text is not None:
        return text.start(1) + error.at
    part = re.search(rf"^[ \t]*(\[?[ \t]*{_word(error.section)})[ \t]*[\].=]", source, re.MULTILINE)
    if part is None or not error.key:
        return part and part.start(1)
    key = re.compile(rf"^[ \t]*({_word(error.key)})[ \t]*=", re.MULTILINE).search(
        source, part.end()
    )
    return (key or part).start(1)


def _word(name: str) -> str:
    return rf"[\"']?{re.escape(name)}[\"']?"
