"""Write what was found: tidy numbers, tables in Markdown, figures, and one page that shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from stationary._support.threads import one_thread
from stationary.paper import examples, figures, tables, testbed
from stationary.paper.cells import number
from stationary.paper.columns import METHODS, TABLE
from stationary.paper.page import Page
from stationary.paper.plan import Part, methods_of, parts, rows_of
from stationary.paper.runner import Reading, Record, provenance
from stationary.paper.settings import Row, rows

_ABOUT = (
    "MAPE/100 is the mean of |forecast - truth| / truth over the test loads: 1 is an error of 100 "
    "%. Means with 95 % t-intervals over repeats; in square brackets what the paper prints. Lower "
    "is better. *Infinity-SGD (paper)* is the paper's setting with the corrected estimator and no "
    "relaxation. The last two columns are generous: they are fitted to the failures of the "
    "training windows, which no other method sees."
)

_QUICK = (
    "**A quick run**: few repeats, and a share of the epochs. Stochastic methods are stopped "
    "early, so that their numbers cannot be compared with the printed ones, which are left out."
)


class Report:
    """Everything that can be shown of a set of records.

    Parameters
    ----------
    page : Page
        Where it goes.
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

    def __init__(
        self,
        page: Page,
        records: list[Record],
        names: Sequence[str] = (),
        recording: testbed.Recording | None = None,
        quick: bool = False,
        progress: Callable[[int, str], None] | None = None,
    ) -> None:
        self.page, self.records, self.names = page, records, names
        self.recording, self.quick, self.progress = recording, quick, progress
        self.frame = tables.tidy(records) if records else pd.DataFrame()
        self.curves = figures.curve_frame(records) if records else pd.DataFrame()

    def write(self, part: Part) -> Path:
        """Write all that belongs to a part, and return the page to read."""
        page, meta = self.page, self._meta(part)
        page.write("# The paper, reproduced", f"`stationary reproduce {part}`.")
        if self.records:
            page.write(_ABOUT)
        if self.quick:
            page.write(_QUICK)
        if self.records and meta["commits of the runs"] != [meta["commit"]]:
            made = ", ".join(meta["commits of the runs"])
            page.write(f"The runs were made by commit {made} and are shown by {meta['commit']}.")
        if self.records:
            page.csv(page.named("results"), self.frame)
            page.csv(page.named("curves"), self.curves)
        makers = {
            Part.MAPE: lambda rows: self._metric("mape", rows),
            Part.MSE: lambda rows: self._metric("mse", rows),
            Part.GAP: self._gap,
            Part.ALPHA: lambda rows: self._study(Part.ALPHA, rows),
            Part.P: lambda rows: self._study(Part.P, rows),
            Part.CURVES: self._curves,
            Part.TESTBED: self._testbed,
        }
        for each in parts(part):
            shown = self._there(rows_of(each, self.names))
            if each is Part.EXAMPLES:
                self._examples()
            elif shown:
                makers[each](shown)
        if set(parts(part)) & {Part.MAPE, Part.MSE, Part.GAP}:
            self._comparison(self._there(list(rows().values())))
        page.file(f"{page.named('meta')}.json", json.dumps(meta, indent=2) + "\n")
        return page.save()

    def _metric(self, metric: str, shown: list[Row]) -> None:
        self.page.write(f"## {tables.METRICS[metric]} at the failure state")
        self._both_readings(metric, shown, metric)

    def _gap(self, shown: list[Row]) -> None:
        for metric in ("mape", "mse"):
            self.page.write(f"## Gap-controlled rows: {tables.METRICS[metric]}")
            self._both_readings(metric, shown, f"gap-{metric}")
        simulated = [row for row in rows().values() if row.simulated]
        if self.names:
            simulated = [row for row in simulated if row.name in self.names]
        self.page.write("## Spectral gaps of the training data")
        self.page.table("gaps", tables.gap_table(simulated))
        self.page.write("Equal: three decimals, rounded or cut off, are the printed ones.")

    def _comparison(self, shown: list[Row]) -> None:
        """What the error tables mean: agreement, the floor, estimates, and the other metrics."""
        page, frame = self.page, self.frame
        if not shown:
            return
        page.write("## At a glance")
        page.figure(
            "overview",
            figures.plot_overview(frame, shown, [m.name for m in TABLE], not self.quick),
            "Errors of every row and method over fresh data sets (the testbed: over repeats on its "
            "one recording); hollow circles are printed. Zeros are drawn at 1e-7.",
        )
        if not self.quick:
            page.write("## Every printed number")
            page.table("agreement", tables.agreement_table(frame, shown))
            page.write(
                "\\* of repeats on fresh data sets, of the testbed on its one recording. A printed "
                "mean in that range *agrees*."
            )
            page.write("## What a repeat was")
            page.table("readings", tables.readings_table(frame, shown))
            page.write("## Backpropagation through time, one data set")
            page.table("through-time", tables.through_time_table(frame, self.curves, shown))
        page.write("## What luck does: the exact optimum on fresh data sets")
        page.table("floor", tables.floor_table(self.records, shown))
        page.write("## Estimates")
        page.table("theta", tables.theta_table(frame, self.records, shown))
        for metric in ("median_ape", "nll_gap", "seconds"):
            page.write(f"## All rows: {tables.METRICS[metric]}")
            self._both_readings(metric, shown, metric)
        page.write(
            "Seconds of a stochastic method are its share of the time in which all its repeats ran "
            "side by side, on one core of a machine whose other cores were busy."
        )

    def _study(self, part: Part, shown: list[Row]) -> None:
        title = "parametric strength alpha" if part is Part.ALPHA else "stopping probability p"
        self.page.write(f"## Training loss a window by {title}")
        self.page.table(part, tables.loss_table(self.frame, shown, part))
        used = {name for row in shown for name in methods_of(part, row)} - {"ours"}
        if part is Part.ALPHA:
            used -= {"infinity"}
        names = [name for name in METHODS if name in used and METHODS[name].random]
        for metric in ("mape", "nll"):
            self.page.figure(
                f"{part}-{metric}",
                figures.plot_curves(self.curves, self.frame, shown, names, metric, Reading.FRESH),
                f"The {part} study on fresh data sets: "
                f"{tables.METRICS.get(metric, 'training loss a window')} over epochs.",
            )

    def _curves(self, shown: list[Row]) -> None:
        self.page.write("## Training curves")
        for metric in ("mape", "mse"):
            self._training_curves(metric, shown, "curves")

    def _training_curves(self, metric: str, shown: list[Row], name: str) -> None:
        methods = [method.name for method in TABLE if method.random]
        for reading, title in tables.TITLES.items():
            some = _in_reading(shown, reading)
            if some:
                self.page.figure(
                    f"{name}-{metric}-{reading}",
                    figures.plot_curves(self.curves, self.frame, some, methods, metric, reading),
                    f"{tables.METRICS[metric]} over epochs, {title}; bands hold 90 % of the "
                    "repeats.",
                )

    def _testbed(self, shown: list[Row]) -> None:
        page, recording = self.page, self.recording
        if recording is None:  # then there are no records of its rows either
            return
        with one_thread():
            equal = testbed.undetermined(recording)
            ladder = testbed.ladder(recording, self.progress)
        page.csv("testbed-equal", equal.drop(columns="predicted"))
        page.csv("testbed-ladder", ladder.drop(columns="predicted"))
        page.write("## Testbed")
        for metric in ("mape", "mse"):
            page.write(f"{tables.METRICS[metric]}:")
            page.table(
                f"testbed-{metric}",
                tables.metric_table(self._table(), shown, metric, Reading.ONE, not self.quick),
            )
        self._training_curves("mape", shown, "testbed")
        page.write("### What was recorded")
        page.table("testbed-facts", testbed.facts(recording))
        page.write("### Upper triangular on states 1 and 2: fits of equal likelihood")
        page.table("testbed-equal", _equal_lines(equal))
        page.write("### All states of the training windows observed")
        page.table("testbed-ladder", _ladder_lines(ladder))
        page.write(
            "The backtest, which picks, is the negative log-likelihood a request of training "
            "windows heavier than those fitted. The rate and the phases of bursts are set, not "
            "fitted, and not counted as parameters."
        )
        page.figure(
            "testbed",
            figures.plot_testbed(recording, equal, ladder, self.records),
            "Forecasts of overload against what was measured. Left: models that see states 1 and 2 "
            "only; right: those that see all states of the training windows.",
        )
        learnt = [r for r in self.records if r["row"] == "testbed" and r["method"] == "infinity"]
        if learnt:
            page.figure(
                "testbed-rates",
                figures.plot_learned(learnt[0], len(rows()["testbed"].build().states)),
                "Rates learnt by infinity-SGD; those below 0.001 are drawn as 0.001.",
            )

    def _examples(self) -> None:
        self.page.write("## Example A1: the observed states agree")
        self.page.table("unidentifiable", examples.unidentifiable())
        self.page.write("## Example A2: mixing times")
        self.page.table("mixing", examples.mixing())

    def _both_readings(self, metric: str, shown: list[Row], name: str) -> None:
        for reading, title in tables.TITLES.items():
            some = _in_reading(shown, reading)
            if some:
                self.page.write(f"{title.capitalize()}:")
                lines = tables.metric_table(self._table(), some, metric, reading, not self.quick)
                self.page.table(f"{name}-{reading}", lines)

    def _table(self) -> pd.DataFrame:
        """Lines of the methods that are columns of the main tables."""
        return self.frame[self.frame["method"].isin([method.name for method in TABLE])]

    def _there(self, wanted: Sequence[Row]) -> list[Row]:
        there = {record["row"] for record in self.records}
        return [row for row in wanted if row.name in there]

    def _meta(self, part: Part) -> dict[str, Any]:
        single = [record for record in self.records if record["reading"] != Reading.LUCK]
        return {
            "part": str(part),
            "quick": self.quick,
            **provenance(),
            "seeds": sorted({record["seed"] for record in single}),
            "commits of the runs": sorted({record["commit"] for record in self.records}),
            "repeats": len(single),
            "seconds of computing": round(sum(record["seconds"] for record in single)),
        }


def _in_reading(shown: Sequence[Row], reading: Reading) -> list[Row]:
    """Rows that have a reading: there is but one data set of the testbed."""
    return [row for row in shown if row.simulated or reading is Reading.ONE]


def _equal_lines(equal: pd.DataFrame) -> list[list[str]]:
    return [
        ["overload at load 1500", "negative log-likelihood", "MAPE/100", "MSE"],
        *(
            [f"{f.overload:g}", f"{f.nll:.4f}", number(f.mape), number(f.mse)]
            for f in equal.itertuples()
        ),
    ]


def _ladder_lines(ladder: pd.DataFrame) -> list[list[str]]:
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
                number(f.mape),
                number(f.mse),
                "" if pd.isna(f.estimates) else f.estimates,
            ]
            for f in ladder.itertuples()
        ),
    ]
