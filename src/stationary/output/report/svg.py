"""Pictures as inline SVG that takes its colours and its type from the page around it.

matplotlib draws in colours that stand for roles; in the SVG they become ``currentColor`` and CSS
variables, so that one picture serves a light page, a dark one and paper.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from matplotlib.ticker import FixedLocator

INK, ACCENT, SECOND, ALERT, PAPER = "#010203", "#010204", "#010205", "#010206", "#010207"
"""Text and axes; the forecast; what stands beside it; limits; the ground."""

_ROLES = {
    INK: "currentColor",
    ACCENT: "var(--accent)",
    SECOND: "var(--second)",
    ALERT: "var(--alert)",
    PAPER: "var(--paper)",
    "#000000": "currentColor",  # from pictures that know nothing of roles
}

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.size": 11.0,
    "axes.labelsize": 11.0,
    "axes.titlesize": 11.0,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "legend.fontsize": 10.5,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.6,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=[ACCENT, SECOND, ALERT, "#80868f"]),
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "grid.color": INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.8,
}

_UNIT = 72
"""Units of the SVG in an inch of matplotlib."""

_LINE = 30
"""Letters of a label along an axis."""

_DARKEST, _LIGHTEST = 0.13, 0.30
"""Luminances between which a colour stands out from a white page and from a dark one, 3 to 1."""


def draw(name: str, label: str, size: tuple[int, int], paint: Callable[[Axes], Any]) -> Markup:
    """Return a picture as an ``<svg>`` element as wide as its container.

    Parameters
    ----------
    name : str
        Different for every picture of a page: its ids start with it.
    label : str
        What the picture shows, for those who do not see it.
    size : (width, height)
        In units of the SVG, of which a small letter is about five wide.
    paint : callable
        Draws on the axes it is given.
    """
    settings: Any = _STYLE | {"svg.hashsalt": name}  # otherwise ids are random
    with matplotlib.rc_context(settings):
        width, height = size
        figure = Figure(figsize=(width / _UNIT, height / _UNIT), layout="constrained")
        paint(figure.add_subplot())
        for axes in figure.axes:
            _settle(axes)
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=nothing, dpi=200)
    return Markup(_inline(buffer.getvalue(), name, label))  # noqa: S704 - made and escaped here


def _settle(axes: Axes) -> None:
    """Fit a picture made for a larger place: long labels are broken, a legend goes below."""
    for mesh in axes.collections:
        if isinstance(mesh, QuadMesh):
            mesh.set_rasterized(True)  # thousands of cells are thousands of elements
    axes.set_title("")  # the page has its own
    axes.set_ylabel(textwrap.fill(axes.get_ylabel(), _LINE))
    words = [axes.xaxis.label, axes.yaxis.label]
    for axis in (axes.xaxis, axes.yaxis):
        if isinstance(axis.get_major_locator(), FixedLocator):  # ticks with names
            words += axis.get_ticklabels()
    legend = axes.get_legend()
    if legend is not None:
        handles, labels = axes.get_legend_handles_labels()
        legend.remove()
        figure: Any = axes.figure
        below = figure.legend(handles, labels, loc="outside lower left", ncols=2, handlelength=1.2)
        words += below.get_texts()
    for text in words:
        text.set_parse_math(False)  # a name with a dollar sign is no formula


def _inline(text: str, name: str, label: str) -> str:
    """Return a matplotlib SVG as HTML takes it: no namespaces, own ids, the page's type."""
    root = ElementTree.fromstring(text)  # noqa: S314 - matplotlib wrote it just now
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.tail = None
        if not (element.text or "").strip():
            element.text = None
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            element.set(key.rpartition("}")[2], _attribute(key, value, name))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("style", "metadata"):  # a style here would reach the whole page
                parent.remove(child)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-label", label)
    return ElementTree.tostring(root, encoding="unicode")


def _attribute(key: str, value: str, name: str) -> str:
    key = key.rpartition("}")[2]
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return re.sub(r"^#", f"#{name}-", value)
    value = value.replace("url(#", f"url(#{name}-")
    if key == "style":
        value = re.sub(r"font-family:[^;]*;? ?", "", value)
        return re.sub("#[0-9a-f]{6}", lambda found: _colour(found[0]), value)
    if key in ("d", "points", "x", "y"):
        return re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", value).strip()
    return value


def _colour(given: str) -> str:
    """Return what a colour is on the page: its role, or a shade that light and dark both carry."""
    if given in _ROLES:
        return _ROLES[given]
    parts = [int(given[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    if len(set(parts)) == 1:
        return "var(--quiet)"
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    if light > _LIGHTEST:
        linear = [c * _LIGHTEST / light for c in linear]
    elif light < _DARKEST:
        white = (_DARKEST - light) / (1 - light)
        linear = [c + white * (1 - c) for c in linear]
    shades = [12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in linear]
    return "#" + "".join(f"{round(255 * shade):02x}" for shade in shades)
