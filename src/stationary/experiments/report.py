"""Write what was found: tidy numbers, tables in Markdown, figures, and one page that shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from stationary.atomic import replacing
from stationary.experiments import examples, figures, tables, testbed
from stationary.experiments.columns import METHODS, TABLE
from stationary.experiments.plan import Part, methods_of, parts, rows_of
from stationary.experiments.runner import Reading, Record, provenance
from stationary.experiments.settings import Row, rows

Lines = list[list[str]]


@dataclass
class Report:
    """A folder of results that grows part by part.

    Parameters
    ----------
    folder : Path
        Where everything goes.
    records : list of dict
        Of all runs.
    names : sequence of str
        Rows, if not all.
    recording : Recording, optional
        For the testbed study.
    quick : bool
        Whether the runs were cut short, which the page must say.
    progress : callable, optional
        Called while the testbed's ladder is fitted.
    """

    folder: Path
    records: list[Record]
    names: Sequence[str] = ()
    recording: testbed.Recording | None = None
    quick: bool = False
    progress: Callable[[int, str], None] | None = None
    page: list[str] = field(default_factory=list)

    def write(self, part: Part) -> Path:
        """Write all that belongs to a part, and return the page to read."""
        self.folder.mkdir(parents=True, exist_ok=True)
        makers = {
            Part.MAPE: lambda: self._metric("mape"),
            Part.MSE: lambda: self._metric("mse"),
            Part.GAP: self._gap,
            Part.ALPHA: lambda: self._study("alpha"),
            Part.P: lambda: self._study("p"),
            Part.CURVES: self._curves,
            Part.TESTBED: self._testbed,
            Part.EXAMPLES: self._examples,
        }
        self.page = [
            "# The paper, reproduced\n",
            f"`stationary reproduce {part}`. Means with 95 % t-intervals over repeats; what the "
            "paper prints in square brackets. Lower is better.\n",
        ]
        if self.quick:
            self.page.append(
                "**A quick run**: few repeats, and a share of the epochs. Stochastic methods are "
                "stopped early and their numbers are not to be compared with the printed ones.\n"
            )
        if self.records:
            self.frame = tables.tidy(self.records)
            self.curves = figures.curve_frame(self.records)
            self._csv("results", self.frame)
            self._csv("curves", self.curves)
        for each in parts(part):
            makers[each]()
            if each is Part.GAP or each is part in (Part.MAPE, Part.MSE):
                self._comparison()  # once, after the last table of errors
        self._text("meta.json", json.dumps(self._meta(part), indent=2) + "\n")
        self._text("README.md", "\n".join(self.page))
        return self.folder / "README.md"

    def _metric(self, metric: str) -> None:
        shown = self._available(rows_of(Part(metric), self.names))
        self.page.append(f"## {tables.METRICS[metric]} at the failure state\n")
        self._both_readings(metric, shown, metric)

    def _gap(self) -> None:
        simulated = [row for row in rows().values() if row.simulated]
        self._table("gaps", "Spectral gaps of the training data", tables.gap_table(simulated))
        shown = self._available(rows_of(Part.GAP, self.names))
        for metric in ("mape", "mse"):
            self.page.append(f"## Gap-controlled rows: {tables.METRICS[metric]}\n")
            self._both_readings(metric, shown, f"gap-{metric}")

    def _comparison(self) -> None:
        """What the error tables mean: agreement, the floor, estimates, and the other metrics."""
        shown = self._available(list(rows().values()))
        columns = [method.name for method in TABLE]
        self._figure(
            "overview",
            figures.plot_overview(self.frame, shown, columns),
            "Errors of every row and method, over fresh data sets; hollow circles are printed.",
        )
        self._table("agreement", "Every printed number", tables.agreement_table(self.frame, shown))
        self._table(
            "floor",
            "What luck does: the exact optimum on fresh data sets",
            tables.floor_table(self.records, shown),
        )
        self._table("theta", "Estimates", tables.theta_table(self.frame, self.records, shown))
        self._table(
            "through-time",
            "Backpropagation through time, one data set",
            tables.through_time_table(self.frame, self.curves, shown),
        )
        for metric in ("median_ape", "nll_gap", "seconds"):
            self.page.append(f"## All rows: {tables.METRICS[metric]}\n")
            self._both_readings(metric, shown, metric)

    def _study(self, study: str) -> None:
        part = Part(study)
        shown = self._available(rows_of(part, self.names))
        title = "parametric strength alpha" if study == "alpha" else "stopping probability p"
        self._table(
            study, f"Training loss a window by {title}", tables.loss_table(self.frame, shown, study)
        )
        used = {name for row in shown for name in methods_of(part, row)}
        names = [n for n in METHODS if n in used and METHODS[n].random]
        if study == "alpha":
            names.remove("infinity")
        for metric in ("mape", "nll"):
            self._figure(
                f"{study}-{metric}",
                figures.plot_curves(self.curves, self.frame, shown, names, metric, Reading.FRESH),
                f"The {study} study: {tables.METRICS.get(metric, 'training loss')} over epochs.",
            )

    def _curves(self) -> None:
        self.page.append("## Training curves\n")
        names = [method.name for method in TABLE if method.random]
        shown = self._available(rows_of(Part.CURVES, self.names))
        for metric in ("mape", "mse"):
            for reading in (Reading.ONE, Reading.FRESH):
                simulated = [r for r in shown if r.simulated or reading is Reading.ONE]
                self._figure(
                    f"curves-{metric}-{reading}",
                    figures.plot_curves(self.curves, self.frame, simulated, names, metric, reading),
                    f"{tables.METRICS[metric]} over epochs, {tables.TITLES[reading]}; bands hold "
                    "90 % of the repeats.",
                )

    def _testbed(self) -> None:
        if self.recording is None:
            self.page.append("## Testbed\n\nLeft out: the recording was not given.\n")
            return
        equal = testbed.undetermined(self.recording)
        ladder = testbed.ladder(self.recording, self.progress)
        self._csv("testbed-equal", equal.drop(columns="predicted"))
        self._csv("testbed-ladder", ladder.drop(columns="predicted"))
        self._table("testbed-facts", "Testbed: what was recorded", testbed.facts(self.recording))
        self._table(
            "testbed-equal",
            "Testbed: upper triangular on states 1 and 2, fits of equal likelihood",
            [
                ["overload at load 1500", "negative log-likelihood", "MAPE/100", "MSE"],
                *(
                    [f"{f.overload:g}", f"{f.nll:.4f}", tables.number(f.mape), tables.number(f.mse)]
                    for f in equal.itertuples()
                ),
            ],
        )
        self._table("testbed-ladder", "Testbed: all states observed", _ladder_lines(ladder))
        self._figure(
            "testbed",
            figures.plot_testbed(self.recording, equal, ladder, self.records),
            "Forecasts of overload against what was measured.",
        )
        learnt = [r for r in self.records if r["row"] == "testbed" and r["method"] == "infinity"]
        if learnt:
            self._figure("testbed-rates", figures.plot_learned(learnt[0], 22), "The learnt rates.")

    def _examples(self) -> None:
        self._table(
            "unidentifiable", "Example A1: the observed states agree", examples.unidentifiable()
        )
        self._table("mixing", "Example A2: mixing times", examples.mixing())

    def _both_readings(self, metric: str, shown: Sequence[Row], name: str) -> None:
        for reading, title in tables.TITLES.items():
            some = [row for row in shown if row.simulated or reading is Reading.ONE]
            table_only = self.frame[self.frame["method"].isin([m.name for m in TABLE])]
            lines = tables.metric_table(table_only, some, metric, reading)
            self._table(f"{name}-{reading}", "", lines, caption=f"{title.capitalize()}:")

    def _available(self, wanted: Sequence[Row]) -> list[Row]:
        there = {record["row"] for record in self.records}
        return [row for row in wanted if row.name in there]

    def _table(self, name: str, title: str, lines: Lines, caption: str = "") -> None:
        text = tables.markdown(lines)
        self._text(f"tables/{name}.md", text)
        self.page += [f"## {title}\n"] if title else []
        self.page += [f"{caption}\n"] if caption else []
        self.page.append(text)

    def _figure(self, name: str, figure: Figure, caption: str) -> None:
        for ending in ("png", "svg"):
            file = self.folder / "figures" / f"{name}.{ending}"
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as part:
                figure.savefig(part, format=ending, dpi=110)
        self.page.append(f"![{caption}](figures/{name}.png)\n\n{caption}\n")

    def _csv(self, name: str, frame: pd.DataFrame) -> None:
        self._text(f"{name}.csv", frame.to_csv(index=False, float_format="%.10g"))

    def _text(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as part:
            part.write_text(text, encoding="utf-8")

    def _meta(self, part: Part) -> dict[str, object]:
        seeds = {record["seed"] for record in self.records if record["reading"] != Reading.LUCK}
        return {
            "part": str(part),
            "quick": self.quick,
            **provenance(),
            "seeds": sorted(seeds),
            "commits of the runs": sorted({record["commit"] for record in self.records}),
            "runs": len(self.records),
            "seconds of computing": round(
                sum(r["seconds"] for r in self.records if r["reading"] != Reading.LUCK)
            ),
        }


def _ladder_lines(ladder: pd.DataFrame) -> Lines:
    def cell(value: float, digits: str) -> str:
        return "" if pd.isna(value) else format(value, digits)

    return [
        ["model", "parameters", "train NLL", "backtest", "test MAPE/100", "test MSE", "estimates"],
        *(
            [
                f"**{f.model}** (picked)" if f.picked else f.model,
                cell(f.parameters, ".0f"),
                cell(f.nll, ".1f"),
                cell(f.backtest, ".4f"),
                tables.number(f.mape),
                tables.number(f.mse),
                "" if pd.isna(f.estimates) else f.estimates,
            ]
            for f in ladder.itertuples()
        ),
    ]
