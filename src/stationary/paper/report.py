"""Write the results: tidy numbers, tables in Markdown, figures, and one page that shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from stationary._support.threads import one_thread
from stationary.paper import examples, figures, tables, testbed
from stationary.paper.cells import number
from stationary.paper.columns import METHODS, OURS, PAPER, RELAXED, TABLE, THROUGH_TIME
from stationary.paper.page import Page
from stationary.paper.plan import Part, columns_of, parts, rows_of
from stationary.paper.runner import Reading, Record, provenance
from stationary.paper.settings import Row, rows

_ABOUT = (
    "MAPE/100 is the mean of |forecast - truth| / truth over the test loads: 1 is an error of 100 "
    "%. Means with 95 % t-intervals over repeats. Lower is better. *Infinity-SGD (paper)* is the "
    "paper's setting with the corrected estimator and no relaxation. The last two columns have an "
    "advantage: they are fitted to the failures of the training windows, which no other method "
    "sees."
)

_PRINTED = "In square brackets stands what the paper prints."

_QUICK = (
    "**A quick run**: few repeats, and a share of the epochs. Stochastic methods are stopped "
    "early, so their numbers cannot be compared with the printed ones."
)


@dataclass
class Report:
    """The pages of a set of records: of the named rows, or of all."""

    page: Page
    records: list[Record]
    names: Sequence[str] = ()
    recording: testbed.Recording | None = None
    quick: bool = False
    """Whether the runs were cut short, which the page must say."""
    progress: Callable[[int, str], None] | None = None
    """Called while the testbed's chains are fitted."""

    def __post_init__(self) -> None:
        self.frame = tables.tidy(self.records) if self.records else pd.DataFrame()
        self.curves = figures.curve_frame(self.records) if self.records else pd.DataFrame()

    def write(self, part: Part) -> Path:
        """Write all that belongs to a part, and return the page to read."""
        page, meta = self.page, self._meta(part)
        page.write("# The paper, reproduced", f"`stationary reproduce {part}`.")
        if self.records:
            page.write(_ABOUT, _QUICK if self.quick else _PRINTED)
            if meta["commits of the runs"] != [meta["commit"]]:
                made = ", ".join(meta["commits of the runs"])
                page.write(f"Commit {made} made the runs; commit {meta['commit']} shows them.")
            page.csv(page.named("results"), self.frame)
            page.csv(page.named("curves"), self.curves)
        for each in parts(part):
            shown = self._available(rows_of(each, self.names))
            if shown or each is Part.EXAMPLES:
                self._section(each, shown)
        shown = self._available(list(rows().values()))
        if shown and set(parts(part)) & {Part.MAPE, Part.MSE, Part.GAP}:
            self._comparison(shown)
        page.file(f"{page.named('meta')}.json", json.dumps(meta, indent=2) + "\n")
        return page.save()

    def _section(self, part: Part, shown: list[Row]) -> None:
        page = self.page
        match part:
            case Part.MAPE | Part.MSE:
                title = f"## {tables.METRICS[part]} at the failure state"
                self._metric_tables(part, shown, title, part)
            case Part.GAP:
                self._gap(shown)
            case Part.ALPHA | Part.P:
                self._study(part, shown)
            case Part.CURVES:
                page.write("## Training curves")
                for metric in ("mape", "mse"):
                    self._training_curves(metric, shown, "curves")
            case Part.TEXT:
                self._text(shown)
            case Part.EXAMPLES:
                page.table(
                    "unidentifiable",
                    examples.unidentifiable(),
                    "## Example A1: the observed states agree",
                )
                page.table("mixing", examples.mixing(), "## Example A2: mixing times")
            case _:
                self._testbed(shown)

    def _gap(self, shown: list[Row]) -> None:
        for metric in ("mape", "mse"):
            title = f"## Gap-controlled rows: {tables.METRICS[metric]}"
            self._metric_tables(metric, shown, title, f"gap-{metric}")
        simulated = [r for r in rows().values() if r.simulated and r.name in (self.names or rows())]
        title = "## Spectral gaps of the training data"
        self.page.table("gaps", tables.gap_table(simulated), title)
        self.page.write("Equal: three decimals, rounded or cut off, are the printed ones.")

    def _comparison(self, shown: list[Row]) -> None:
        """Write what the error tables mean: agreement, the optimum, estimates, other metrics."""
        page, frame, luck = self.page, self.frame, tables.lucky(self.records)
        page.write("## At a glance")
        page.figure(
            "overview",
            figures.plot_overview(frame, shown, TABLE, not self.quick),
            "Errors of every row and method over fresh data sets (the testbed: over repeats on its "
            f"one recording){'' if self.quick else '; hollow circles are printed'}. Zeros are "
            "drawn at 1e-7.",
        )
        if not self.quick:
            page.table("agreement", tables.agreement_table(frame, shown), "## Every printed number")
            page.write(
                "\\* of repeats on fresh data sets, of the testbed on its one recording. A printed "
                "mean in that range *agrees*."
            )
            page.table("readings", tables.readings_table(frame, shown), "## What a repeat was")
            page.table(
                "through-time",
                tables.through_time_table(frame, self.curves, shown),
                "## Backpropagation through time, one data set",
            )
        title = "## Luck: the exact optimum on fresh data sets"
        page.table("floor", tables.floor_table(luck, shown), title)
        page.table("theta", tables.theta_table(frame, luck, shown), "## Estimates")
        for metric in ("median_ape", "nll_gap", "seconds"):
            self._metric_tables(metric, shown, f"## All rows: {tables.METRICS[metric]}", metric)
        page.write(
            "Seconds of a stochastic method are its share of the time in which all its repeats ran "
            "side by side, on one core of a machine whose other cores were busy."
        )

    def _study(self, part: Part, shown: list[Row]) -> None:
        title = "parametric strength alpha" if part is Part.ALPHA else "stopping probability p"
        losses = tables.loss_table(self.frame, shown, part)
        self.page.table(part, losses, f"## Training loss per window by {title}")
        left_out = [OURS, PAPER] if part is Part.ALPHA else [OURS]
        used = [column for row in shown for column in columns_of(part, row)]
        some = [c for c in METHODS.values() if c in used and c.random and c not in left_out]
        for metric in ("mape", "nll"):
            self.page.figure(
                f"{part}-{metric}",
                figures.plot_curves(self.curves, self.frame, shown, some, metric, Reading.FRESH),
                f"The {part} study on fresh data sets: {tables.METRICS[metric]} over epochs.",
            )

    def _text(self, shown: list[Row]) -> None:
        """Write what the paper's text says and none of its tables shows."""
        page, frame = self.page, self.frame
        title = "## Theorem 1 as printed, and as implemented: a chain of five states, p = 0.1"
        page.table("theorem", examples.printed_theorem(), title)
        every, other, relaxed = (
            [row for row in shown if study in row.studies]
            for study in ("methods", "text", "relaxed")
        )
        found = tables.method_table(frame, every, list(METHODS.values()))
        page.table("methods", found, "## Every method on one data set")
        if other:
            page.write("## Settings, loads and counts as the text has them")
            for metric in ("mape", "mse"):
                self._metric_tables(metric, other, f"{tables.METRICS[metric]}:", f"text-{metric}")
        found = tables.method_table(frame, relaxed, RELAXED, printed=THROUGH_TIME)
        page.table("relaxed", found, "## DC-BPTT with the relaxation of the text, one data set")

    def _training_curves(self, metric: str, shown: list[Row], name: str) -> None:
        columns = [column for column in TABLE if column.random]
        for reading, title, some in _readings(shown):
            self.page.figure(
                f"{name}-{metric}-{reading}",
                figures.plot_curves(self.curves, self.frame, some, columns, metric, reading),
                f"{tables.METRICS[metric]} over epochs, {title}; bands hold 90 % of the repeats.",
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
            self._metric_tables(metric, shown, f"{tables.METRICS[metric]}:", f"testbed-{metric}")
        self._training_curves("mape", shown, "testbed")
        known = testbed.facts(recording).items()
        facts = ({"question": question, "answer": answer} for question, answer in known)
        page.table("testbed-facts", facts, "### What was recorded")
        page.figure(
            "workload",
            figures.plot_workload(recording),
            "Calls per second of all windows, and how often a request found the queue empty or at "
            "20.",
        )
        page.table("testbed-zero", testbed.zero_start(recording), "### DC-BPTT from zero")
        page.table(
            "testbed-equal",
            tables.formatted(
                equal,
                overload=("overload at load 1500", "{:g}".format),
                nll=("negative log-likelihood", "{:.4f}".format),
                mape=("MAPE/100", number),
                mse=("MSE", number),
            ),
            "### Upper triangular on states 1 and 2: fits of equal likelihood",
        )
        best = "**" + ladder["model"] + "** (picked)"
        page.table(
            "testbed-ladder",
            tables.formatted(
                ladder.assign(model=ladder["model"].mask(ladder["picked"], best)),
                model=("model", str),
                parameters=("parameters", "{:.0f}".format),
                nll=("train NLL", "{:.1f}".format),
                backtest=("backtest", "{:.4f}".format),
                mape=("test MAPE/100", number),
                mse=("test MSE", number),
                estimates=("estimates", str),
            ),
            "### All states of the training windows observed",
        )
        page.write(
            "The backtest, which picks the chain, is the negative log-likelihood per request of "
            "training windows heavier than those fitted. The rate and the phases of bursts are "
            "set, not fitted, and not counted as parameters."
        )
        learnt = [r for r in self.records if r["row"] == "testbed" and r["method"] == PAPER.name]
        page.figure(
            "testbed",
            figures.plot_testbed(recording, equal, ladder, learnt),
            "Forecasts of overload against what was measured. Left: models that see states 1 and 2 "
            "only; right: those that see all states of the training windows.",
        )
        if learnt:
            page.table(
                "testbed-learnt",
                testbed.learnt_rates([r["theta"] for r in learnt]),
                "### What is read off the learnt rates",
            )
            page.figure(
                "testbed-rates",
                figures.plot_learned(learnt[0], len(rows()["testbed"].build().states)),
                "Rates learnt by infinity-SGD; those below 0.001 are drawn as 0.001.",
            )

    def _metric_tables(self, metric: str, shown: list[Row], title: str, name: str) -> None:
        """Write the table of a metric for both meanings of a repeat."""
        self.page.write(title)
        for reading, about, some in _readings(shown):
            found = tables.metric_table(
                self.frame, some, metric, reading, TABLE, with_printed=not self.quick
            )
            self.page.table(f"{name}-{reading}", found, f"{about.capitalize()}:")

    def _available(self, wanted: Sequence[Row]) -> list[Row]:
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


def _readings(shown: Sequence[Row]) -> Iterator[tuple[Reading, str, list[Row]]]:
    """Yield each meaning of a repeat with the rows that have it: the testbed has one data set."""
    for reading, title in tables.TITLES.items():
        some = [row for row in shown if row.simulated or reading is Reading.ONE]
        if some:
            yield reading, title, some
