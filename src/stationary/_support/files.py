"""Files and folders that appear whole or not at all, and are on the disk once they are there.

A file takes the place of another by one rename. A folder needs two, and `surviving` finds the old
folder if the writer dies between them.
"""

from __future__ import annotations

import errno
import glob
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_ABANDONED = 24 * 3600.0
"""Seconds after which what a writer left beside its target is taken for that of a dead one."""

_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)
"""Errors of a rename to a folder that holds something; systems differ."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to; on success it takes the place of ``path``, durably, in one step."""
    # Beside the target, because a rename is atomic within one file system only. No two writers
    # have the same name, so none moves what the other has half written.
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        sync(part)
        part.replace(path)
        sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def replacing_folder(target: Path, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder to fill; on success it takes the place of ``target``, durably.

    Whenever the writer dies, ``target`` is what it was or what it was to be, read through
    `surviving`. Of several writers the last one wins. Unless ``overwrite``, a target that holds
    something is an OSError.
    """
    prefix = _scratch_prefix(target)
    with tempfile.TemporaryDirectory(
        prefix=prefix, dir=target.parent, ignore_cleanup_errors=True
    ) as scratch:
        new = Path(scratch, "new")
        new.mkdir()
        yield new
        for file in new.iterdir():
            sync(file)
        sync(new)
        surviving(target)  # or else what a dead writer moved aside would outlive the new one
        _put(new, target, overwrite)
        sync(target.parent)
    remove_abandoned(target.parent.glob(f"{glob.escape(prefix)}*"))


def surviving(target: Path) -> Path:
    """Return where a folder stands, put back if its writer died between the two renames.

    It stands aside where it may not be moved.
    """
    if target.exists():
        return target
    place = target.resolve()
    for old in place.parent.glob(f"{glob.escape(_scratch_prefix(place))}*/old"):
        if old.with_name("new").exists():  # the second rename did not happen
            with suppress(OSError):  # a writer that is alive goes on, and moves it again
                old.rename(place)
            return target if target.exists() else old
    return target


def remove_abandoned(leftovers: Iterable[Path]) -> None:
    """Remove those of these files and folders that no writer has touched for a day."""
    for path in leftovers:
        with suppress(OSError):  # somebody else's, or just removed
            if time.time() - path.stat().st_mtime > _ABANDONED:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # which has no such call for folders
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _scratch_prefix(target: Path) -> str:
    return f".{target.name}.saving-"


def _put(new: Path, target: Path, overwrite: bool) -> None:
    """Move a folder to its place; one that is there goes to the scratch folder of the new one."""
    old = new.with_name("old")
    try:
        while not _moved(new, target, overwrite):
            # An earlier turn may have left one: another writer was faster, and replaced it.
            shutil.rmtree(old, ignore_errors=True)
            with suppress(FileNotFoundError):  # another writer is between its two renames
                target.rename(old)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise


def _moved(new: Path, target: Path, overwrite: bool) -> bool:
    """Move a folder to where there is none, or an empty one; return whether that was so."""
    try:
        new.rename(target)
    except OSError as error:
        if not overwrite or error.errno not in _NOT_EMPTY:
            raise
        return False
    return True
