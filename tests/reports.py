"""What tests of the report share: plans, what might be known of them, and a reader of HTML."""

from __future__ import annotations

import math
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st
from stationary.models.measures import probability
from stationary.output.report import write_report
from stationary.terms.findings import Finding, Verdict
from stationary.terms.trust import Choice, Chosen
from stationary.trust.identifiability import Direction, Identifiability
from stationary.trust.identifiability.directions import DirectionKind
from stationary.trust.study import Comparison

FINDINGS = (
    Finding("drift", Verdict.OK, "no_drift", {"windows": 33}, 0.41),
    Finding(
        "serial correlation",
        Verdict.WARNING,
        "correlated",
        {"autocorrelation": 0.4, "windows": 33, "block": 3},
        0.003,
    ),
    Finding("steady state", Verdict.UNKNOWN, "duration_unknown"),
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
    return pd.DataFrame({"load": windows.loads.numpy(), "loss": lost / seen})


def found(plan, findings):
    """Return the plan as if checks had found this."""
    study = replace(plan.studies[plan.name], findings=tuple(findings))
    return plan.having(known_studies={**plan.studies, plan.name: study})


def beside(plan, name="slowing", **choice):
    """Return the plan of a queue beside one more model; by default its own is the best."""
    options = {"servers": plan.model.servers, "capacity": plan.model.capacity}
    other = st.fit(st.models.Slowing(**options), plan.windows)
    several = plan.having(
        fitted={**plan.fitted, name: other.estimate},
        known_studies={**plan.studies, name: other.studies[other.name]},
        known_comparison=None,
    )
    return several.having(known_comparison=chosen(several, **choice)) if choice else several


def chosen(plan, why=Chosen.BEST, **facts):
    """Return the comparison of a plan's models with another end."""
    end = Choice(why, **{"share": 0.01, "low": 15.0, "high": 21.0, **facts})
    return replace(plan.comparison, choice=end)


def weighed(plan, choice):
    """Return a comparison of models that were not tested, all of equal weight."""
    return Comparison({}, dict.fromkeys(plan.fitted, 1 / len(plan.fitted)), choice)


RANGES = pd.DataFrame(
    {
        "load": [150.0, 200.0],
        "measure": ["loss", "response_time"],
        "value": [0.25, 2.5],
        "low": [0.125, 2.0],
        "high": [0.5, 3.0],
        "determined": [True, False],
        "searched": [True, True],
    }
)


def identified(names=("one_rate", "another"), ranges=RANGES):
    """What a search for what the data leave open might find."""
    together = Direction(
        DirectionKind.COMMON_FACTOR, dict.fromkeys(names, 0.7), 0.0, raised=tuple(names)
    )
    return Identifiability(2, 1, math.nan, (together,), ranges, 2.0, 1.0, converged=True)


def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the pictures out, which take most of the time, where a test is about words."""
    monkeypatch.setattr("stationary.output.report.svg.render", lambda *given: "<svg></svg>")


def page(plan, folder, **options):
    """Write a report and read it."""
    write_report(plan, folder / "report.html", **options)
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
        return next(
            (name for tag, name in reversed(self.open) if tag in ("section", "details") and name),
            "",
        )

    def text(self, name: str) -> str:
        """Text inside an element, by its tag or id, with single spaces."""
        return " ".join(" ".join(self.texts.get(name, [])).split())

    def having(self, tag: str) -> list[dict[str, str]]:
        return [attrs for found, attrs in self.tags if found == tag]
