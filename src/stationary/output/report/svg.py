"""Charts as inline SVG that takes its colours and its fonts from the page around it.

The colours of `stationary.output.charts` become ``currentColor`` and CSS variables, so that one
chart serves a light page, a dark one and paper.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable
from typing import Any, cast
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from stationary.output.charts import ACCENT, ALERT, INK, PAPER, SECOND

_VARIABLES = {
    INK: "currentColor",
    "#000000": "currentColor",  # matplotlib's own
    ACCENT: "var(--accent)",
    SECOND: "var(--second)",
    ALERT: "var(--alert)",
    PAPER: "var(--paper)",
}

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a name with a dollar sign is not a formula
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.8,
    **dict.fromkeys(("font.size", "axes.labelsize"), 11.0),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 10.5),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "grid.color"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor", "savefig.facecolor"), "none"),
    **dict.fromkeys(("axes.linewidth", "grid.linewidth"), 0.6),
    **dict.fromkeys(("xtick.major.width", "ytick.major.width"), 0.6),
}

_UNITS_PER_INCH = 72  # units of matplotlib's SVG per inch
_RASTER = 200  # pixels per inch of what is not drawn as lines
_LONGEST_LINE = 30  # letters of a label along the vertical axis before it is broken


def draw(name: str, label: str, size: tuple[int, int], paint: Callable[[Axes], Any]) -> Markup:
    """Return a chart as an ``<svg>`` element as wide as its container.

    All ids in it start with the ``name``, which is unique on the page; the ``label`` is for screen
    readers. The ``size`` is in units of which a small letter is about five wide.
    """
    settings: Any = _STYLE | {"svg.hashsalt": name}  # otherwise ids are random
    with matplotlib.rc_context(settings):
        width, height = (length / _UNITS_PER_INCH for length in size)
        figure = Figure(figsize=(width, height), dpi=_UNITS_PER_INCH, layout="constrained")
        paint(figure.add_subplot())
        for axes in figure.axes:
            _adapt(axes)
        return Markup(render(figure, name, label))  # noqa: S704 - made and escaped here


def _adapt(axes: Axes) -> None:
    """Make a chart fit a smaller space: break long labels, and move the legend below it."""
    for mesh in axes.collections:
        if isinstance(mesh, QuadMesh):
            mesh.set_rasterized(True)  # thousands of cells would be thousands of elements
    axes.set_title("")  # the page has its own
    axes.set_ylabel(textwrap.fill(axes.get_ylabel(), _LONGEST_LINE))
    legend = axes.get_legend()
    if legend is not None:
        legend.remove()
        figure: Any = axes.figure
        place = {"loc": "outside lower left", "ncols": 2, "handlelength": 1.2}
        figure.legend(*axes.get_legend_handles_labels(), **place)


def render(figure: Figure, name: str, label: str) -> str:
    """Return a figure as SVG for HTML: without namespaces, with ids that start with the name."""
    buffer, canvas = io.StringIO(), FigureCanvasSVG(figure)
    # savefig would draw everything twice more to find its place.
    cast(Any, figure.get_layout_engine()).execute(figure)
    figure.set_layout_engine("none")
    figure.dpi = _RASTER
    canvas.print_svg(buffer, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314 - matplotlib wrote it just now
    for element in root.iter():
        element.tag = _local(element.tag)
        element.tail = None
        if not (element.text or "").strip():
            element.text = None
        attributes = {_local(key): value for key, value in element.attrib.items()}
        element.attrib = {key: _value(key, value, name) for key, value in attributes.items()}
        for child in list(element):
            if _local(child.tag) == "style":  # it would apply to the whole page
                element.remove(child)
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _value(key: str, value: str, name: str) -> str:
    """Return the value of an attribute as the page needs it."""
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return re.sub(r"^#", f"#{name}-", value)
    if key in ("d", "points", "x", "y"):  # two decimals are enough, and half of the file
        return re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", value).strip()
    if key == "style":
        value = re.sub(r"font-family:[^;]*;? ?", "", value)
        value = re.sub("#[0-9a-f]{6}", lambda found: _VARIABLES.get(found[0], found[0]), value)
    return value.replace("url(#", f"url(#{name}-")
