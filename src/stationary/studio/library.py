"""The plans that the studio shows, by name: browsers name plans, never paths."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from stationary.errors import RunError
from stationary.output.folders import JSON
from stationary.planner import load
from stationary.studio.answers import View


class Library:
    """Saved plans: those below the folder where new ones go, and the one that was opened."""

    def __init__(self, folder: Path, opened: Path | None = None) -> None:
        self.folder, self.opened = folder.resolve(), None if opened is None else opened.resolve()

    def places(self) -> dict[str, Path]:
        """Return the folder of every plan by name, the newest first."""
        written = {}
        for file in self.folder.glob(f"*/{JSON}"):
            with suppress(RunError):  # somebody removes it at this moment
                written[file.parent] = stamp(file.parent)
        found = sorted(written, key=lambda place: -written[place])
        places = {place.name: place for place in found if place != self.opened}
        if self.opened is not None:
            places = {_free(self.opened.name, places): self.opened, **places}
        return places

    def place(self, name: str) -> Path:
        """Return the folder of a plan, or raise."""
        places = self.places()
        if name not in places:
            raise RunError(f"there is no plan {name!r} here; choose one of the list under New")
        return places[name]

    def view(self, name: str) -> View:
        """Return a plan as pages show it; it is read again where its folder was written anew."""
        place = self.place(name)
        return view_of(place, stamp(place))

    def new(self, title: str) -> Path:
        """Return a folder of its own for a new plan."""
        self.folder.mkdir(parents=True, exist_ok=True)
        stem = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "plan"
        taken = {path.name: path for path in self.folder.iterdir()} | self.places()
        while True:
            place = self.folder / _free(stem, taken)
            try:
                place.mkdir()  # which only one of two tabs can do
                return place
            except FileExistsError:
                taken[place.name] = place


@lru_cache(maxsize=8)
def view_of(place: Path, written: int) -> View:
    """Return the plan that was written in a folder at that time."""
    del written
    return View(load(place))


def stamp(place: Path) -> int:
    """Return when a plan was written, or raise where it was removed."""
    try:
        return (place / JSON).stat().st_mtime_ns
    except OSError:
        raise RunError(f"there is no plan in {place.name!r} any more; choose another") from None


def _free(name: str, taken: dict[str, Path]) -> str:
    """Return the name, with a number where it is taken."""
    chosen, number = name, 2
    while chosen in taken:
        chosen, number = f"{name}-{number}", number + 1
    return chosen
