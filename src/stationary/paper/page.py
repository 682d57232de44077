"""A page in Markdown that grows as tables and figures are written beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from stationary._support.files import replacing
from stationary.paper.cells import Line, markdown


@dataclass
class Page:
    """Text, tables (``tables/``), figures (``figures/``) and numbers in one folder.

    The ``name`` is that of the page and of its numbers; without one it is the folder's README.
    """

    folder: Path
    name: str = ""
    text: list[str] = field(default_factory=list)

    def write(self, *paragraphs: str) -> None:
        """Add paragraphs."""
        self.text += [f"{paragraph}\n" for paragraph in paragraphs]

    def table(self, name: str, lines: Iterable[Line], title: str) -> None:
        """Add a table below its title, if it has lines."""
        if table := list(lines):
            self.write(title)
            self.file(f"tables/{name}.md", markdown(table))
            self.text.append(markdown(table))

    def figure(self, name: str, figure: Figure, caption: str) -> None:
        """Add a figure."""
        with replacing(self._place(f"figures/{name}.png")) as part:
            figure.savefig(part, format="png", dpi=110)
        self.write(f"![{caption}](figures/{name}.png)", caption)

    def csv(self, name: str, frame: pd.DataFrame) -> None:
        """Write numbers beside the page."""
        self.file(f"{name}.csv", frame.to_csv(index=False, float_format="%.10g"))

    def file(self, name: str, text: str) -> None:
        """Write a file in one step."""
        with replacing(self._place(name)) as part:
            part.write_text(text, encoding="utf-8")

    def named(self, name: str) -> str:
        """Return the name of a file of numbers that belongs to this page."""
        return f"{name}-{self.name}" if self.name else name

    def save(self) -> Path:
        """Write the page itself."""
        name = f"{self.name or 'README'}.md"
        self.file(name, "\n".join(self.text))
        return self.folder / name

    def _place(self, name: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file
