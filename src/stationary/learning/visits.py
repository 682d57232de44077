"""Points at which an objective was evaluated, kept in a file where an evaluation takes long.

An optimiser without chance that finds at every point what it found last time goes the same way: a
fit that was cut off goes on by asking again, and needs no other state.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from stationary._support.types import Array
from stationary.errors import InputError, RunError

Visit = tuple[float, Array, Array]
"""Value, gradient and Hessian."""

FILE = "visits.jsonl"
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
        self._file = None if folder is None else folder / FILE
        if folder is None or self._file is None:
            return
        if self._file.exists() and not resume and self._file.read_bytes().endswith(_END):
            self._file.unlink()
        if self._file.exists():
            if not resume:
                raise InputError(
                    f"{folder} holds an unfinished run; resume it (--resume), or delete the folder "
                    f"to start again"
                )
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
