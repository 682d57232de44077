"""What tests of the report share: a fit, stand-ins for its guests, and a reader of HTML."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from markupsafe import Markup

import stationary as st
from stationary.findings import Finding, Verdict
from stationary.measures import probability
from stationary.report import write_report

FINDINGS = (
    Finding("scatter", Verdict.OK, "Windows of one load scatter as the model says.", 0.41),
    Finding("drift", Verdict.WARNING, "Later windows differ from earlier ones.", 0.003),
    Finding("relaxation", Verdict.UNKNOWN, "The windows do not say how long they were."),
)


CAPACITY = 10


def whole_windows():
    """Windows that count every state of a single server."""
    truth = st.models.MMmK(servers=1, capacity=CAPACITY, service_rate=25.0)
    return st.simulate(truth, np.repeat(np.arange(11.0, 22.0), 3), duration=10.0, seed=1)


def small_fit():
    """Fit them by the first three states."""
    windows = whole_windows().observing([0, 1, 2])
    return st.fit(st.models.MMmK(servers=1, capacity=CAPACITY), windows)


LOADS = np.linspace(1.0, 10.0, 12)
LOST = {"loss": probability(torch.tensor([0.0, 1.0]))}


def failing(load, p):
    """Rates of a machine that fails at the load and is mended."""
    return {(0, 1): load, (1, 0): p.mend}


def two_state(rates, x, down, inputs=("load",), measures=None, name="down"):
    """Fit a chain on two states to counts in proportion to how often it is down."""
    counts = np.round(10_000 * np.column_stack([1 - down, down]))
    model = st.models.FromFunction(
        rates,
        states=["up", name],
        params={"mend": 5.0},
        inputs=inputs,
        measures=measures,
    )
    return st.fit(model, st.Windows(x, counts, ["up", name], inputs=inputs))


def demo_fit():
    """Fit light windows of a simulated queue; return it and the heavy windows.

    Made by ``stationary simulate mmmk:servers=4,capacity=24,service_rate=50 --x 60:298.8:1.2
    --duration 10 --scheme arrivals --seed 7``.
    """
    source = Path(__file__).with_name("simulated-four-servers.csv")
    windows = st.read_windows(source, sampling="arrival")
    light = windows.between(None, 130.0).observing([0, 1, 2, 3])
    return st.fit(st.models.MMmK(servers=4, capacity=24), light), windows.between(130.0, None)


def losses(windows):
    """Measured losses of windows whose last category is the full queue."""
    lost, seen = windows.counts[:, -1].numpy(), windows.counts.sum(-1).numpy()
    return pd.DataFrame({"x": windows.loads.numpy(), "loss": lost / seen})


@dataclass
class Comparison:
    """As the comparison of models gives it."""

    fit: st.Fit
    recommended: str | None = "mmmk"
    reason: str = "MMmK forecasts held-out loads best"

    @property
    def table(self):
        return pd.DataFrame(
            {
                "model": ["mmmk", "last value"],
                "kind": ["chain", "baseline"],
                "parameters": [1, 0],
                "nll": [812.5, 999.25],
                "aic": [1627.0, 1998.5],
                "bic": [1629.0, 1998.5],
                "backtest": [1.331, 1.61],
                "backtest_error": [0.0, 0.02],
                "weight": [0.97, 0.03],
                "note": ["", "predicts no change"],
            }
        )

    def max_load(self, level, present, **bound):
        return self.fit.max_load(level, present, **bound)

    def forecast(self, x, level):
        frame = self.fit.forecast(x, level)
        return frame.assign(loss=0.9 * frame["loss"], loss_low=0.5 * frame["loss"])


@dataclass
class Direction:
    sentence: str


@dataclass
class Identifiability:
    """As the search for what data leaves open gives it."""

    directions: tuple = (Direction("Two rates can grow together."),)
    ranges: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(
            {
                "x": [150.0, 200.0],
                "measure": ["loss", "response_time"],
                "value": [0.25, 2.5],
                "low": [0.125, 2.0],
                "high": [0.5, 3.0],
                "determined": [True, False],
            }
        )
    )

    determined: bool = False

    def findings(self):
        return [Finding("identified", Verdict.OK, "The forecast is determined.")]


def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the pictures out, which take most of the time, where a test is about words."""
    monkeypatch.setattr("stationary.report.figures.draw", lambda *given: Markup("<svg></svg>"))


def page(fit, folder, **options):
    """Write a report and read it."""
    write_report(fit, folder / "report.html", **options)
    return Page((folder / "report.html").read_text(encoding="utf-8"))


class Page(HTMLParser):
    """An HTML document: its text by the ids around it, its tags, and its tables by section."""

    VOID = frozenset({"meta", "link", "br", "img"})

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.tables: dict[str, list[list[list[str]]]] = {}
        self.open: list[tuple[str, str]] = []
        self.feed(source)
        self.close()
        assert not self.open, "every element is closed"

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if tag == "table":
            self.tables.setdefault(self.section, []).append([])
        if tag == "tr":
            self.tables[self.section][-1].append([])
        if tag in ("td", "th"):
            self.tables[self.section][-1][-1].append("")
        if tag not in self.VOID:
            self.open.append((tag, attrs.get("id", "")))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open[-1][0] == tag, f"{self.open[-1]} is closed by {tag}"
        self.open.pop()

    def handle_data(self, data):
        for name in {name for pair in self.open for name in pair if name}:
            self.texts.setdefault(name, []).append(data)
        if any(tag in ("td", "th") for tag, _ in self.open):
            self.tables[self.section][-1][-1][-1] += data

    @property
    def section(self) -> str:
        return next((name for tag, name in reversed(self.open) if tag == "section"), "")

    def text(self, name: str) -> str:
        """Text inside an element, by its tag or id, with single spaces."""
        return " ".join(" ".join(self.texts.get(name, [])).split())

    def having(self, tag: str) -> list[dict[str, str]]:
        return [attrs for found, attrs in self.tags if found == tag]
