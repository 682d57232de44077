"""The pictures of README.md of a demo: the screen of its answer, and the first page of its report.

    stationary demo -o build/demo > build/demo.txt && python tests/pictures.py build

Each holds the words it shows, so that a test can tell when it is out of date.
"""

import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

IMAGES = Path(__file__).parent.parent / "docs" / "images"
WIDTH, HEIGHT = 1200, 1450
_CHARACTER, _LINE, _MARGIN = 8.43, 19, 22


def screen_of(output):
    """The lines of the demo that are the answer of a plan, from the answer to what to do next."""
    lines = output.splitlines()
    first = next(k for k, line in enumerate(lines) if "hold up to" in line)
    last = next(k for k, line in enumerate(lines) if line.startswith("Next"))
    end = next(k for k in range(last, len(lines)) if not lines[k].strip())
    return lines[first:end]


def words_of(report):
    """What the top of a report says, in plain words."""
    top = report[report.index('<div id="answer">') : report.index('<section id="measure">')]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", top)).split())


def terminal(lines):
    """A terminal window as SVG."""
    width, height = 80 * _CHARACTER + 2 * _MARGIN, len(lines) * _LINE + 2 * _MARGIN
    rows = "".join(
        f'<text x="{_MARGIN}" y="{_MARGIN + 14 + k * _LINE}" xml:space="preserve" '
        f'textLength="{len(line) * _CHARACTER:.1f}">{html.escape(line, quote=False)}</text>\n'
        for k, line in enumerate(lines)
        if line
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" font-family="ui-monospace, Menlo, Consolas, monospace" '
        f'font-size="14" fill="#e6e9ed">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#14181d"/>\n{rows}</svg>\n'
    )


def photograph(report, target):
    """Write the top of a page as a PNG that holds its words."""
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        subprocess.run(
            [
                *("chromium", *options, f"--window-size={WIDTH},{HEIGHT}"),
                *(f"--screenshot={shot}", report.resolve().as_uri()),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
        about = PngInfo()
        about.add_text("Description", words_of(report.read_text(encoding="utf-8")))
        picture = Image.open(shot).convert("P", palette=Image.Palette.ADAPTIVE, colors=128)
        picture.save(target, pnginfo=about, optimize=True)


if __name__ == "__main__":
    build = Path(sys.argv[1])
    lines = screen_of((build / "demo.txt").read_text(encoding="utf-8"))
    (IMAGES / "terminal.svg").write_text(terminal(lines), encoding="utf-8")
    photograph(build / "demo" / "plan" / "report.html", IMAGES / "report.png")
