"""Model files: a `RuleModel` as TOML, with errors that point into the file."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from stationary.errors import InputError, did_you_mean
from stationary.models.rules.description import Description
from stationary.models.rules.errors import DescriptionError, locate
from stationary.models.rules.model import RuleModel

_LARGEST = 1_000_000
_DIGITS = re.compile(r"[0-9][0-9_]{4000,}")
_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|(end of document))\)", re.DOTALL)


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
    source = _source(file)
    try:
        given = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(file, source, str(error)) from None
    except ValueError as error:  # Python reads no whole number of more than 4300 digits
        raise _too_long(file, source, str(error)) from None
    except RecursionError:
        raise InputError(
            f"{file}: the values are nested too deeply; a model needs two levels"
        ) from None
    for key in given:
        if key not in Description.model_fields:
            raise _located(
                file,
                source,
                DescriptionError(
                    f"a model has no such part{did_you_mean(key, Description.model_fields)}", key
                ),
            )
    for key in ("variables", "rules"):
        if key not in given:
            raise InputError(f"{file}: a model needs [{key}]")
    for key in changes:
        if key in given:
            raise InputError(f"{file}: {key!r} is a part of the model, and no constant of it")
    arguments: dict[str, Any] = {"params": {}, **given, **changes}
    try:
        return RuleModel(**arguments)
    except DescriptionError as error:
        raise _located(file, source, error) from None
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _source(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from None
    if len(content) > _LARGEST:
        raise InputError(f"{file}: a model file has at most {_LARGEST} bytes")
    try:
        # As tomllib reads lines, so that positions agree.
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file}: byte {error.start} is not UTF-8; save it as UTF-8 text"
        ) from None


def _not_toml(file: Path, source: str, message: str) -> InputError:
    match = _PLACE.fullmatch(message)
    if match is None:
        return InputError(f"{file}: this is not TOML: {message}")
    at = len(source.rstrip())
    if match[2]:
        lines = source.split("\n")
        at = sum(len(line) + 1 for line in lines[: int(match[2]) - 1]) + int(match[3]) - 1
    line, column, excerpt = locate(source, at)
    return InputError(f"{file}, line {line}, column {column}: {match[1]}\n{excerpt}")


def _too_long(file: Path, source: str, message: str) -> InputError:
    found = _DIGITS.search(source)
    if found is None:
        return InputError(f"{file}: this is not TOML: {message}")
    line, column, excerpt = locate(source, found.start())
    return InputError(
        f"{file}, line {line}, column {column}: a number of {len(found[0])} digits is too large to "
        f"compute with\n{excerpt}"
    )


def _located(file: Path, source: str, error: DescriptionError) -> InputError:
    """Return an error of a description as one of its file, pointing to the place."""
    at = _find(source, error)
    what = f"{error.part}: {error.reason}"
    if at is None:
        return InputError(f"{file}: {error}")
    line, column, excerpt = locate(source, at)
    return InputError(f"{file}, line {line}, column {column}: {what}\n{excerpt}")


def _find(source: str, error: DescriptionError) -> int | None:
    """Position in the file of what an error is about, or None: TOML's values have no positions."""
    start = _assignment(source, error.section, error.key)
    if start is None:
        return None
    if error.text:
        # The text stands in the file as it is, unless it has escapes or is folded.
        place = source.find(error.text, max(start, source.find("=", start)))
        if place >= 0:
            return place + error.at
    return start


def _assignment(source: str, section: str, key: str) -> int | None:
    """Where ``key = `` of a section, or the section itself, begins."""
    header = re.search(rf"^[ \t]*(\[[ \t]*{_word(section)}[ \t]*\])", source, re.MULTILINE)
    top = re.search(rf"^[ \t]*({_word(section)})[ \t]*[=.]", source, re.MULTILINE)
    whole = header or top
    if not key or whole is None:
        return whole.start(1) if whole else None
    if header:
        after = re.compile(r"^[ \t]*\[", re.MULTILINE).search(source, header.end())
        end = after.start() if after else len(source)
        line = rf"^[ \t]*({_word(key)})[ \t]*="
        match = re.compile(line, re.MULTILINE).search(source, header.end(), end)
    else:
        match = re.compile(rf"[.{{,\s]({_word(key)})[ \t]*=").search(source, whole.end() - 1)
    return match.start(1) if match else whole.start(1)


def _word(name: str) -> str:
    quoted = re.escape(name)
    return rf"(?:{quoted}|\"{quoted}\"|'{quoted}')"
