"""From records to a tidy frame, and from it to the lines of the tables a reader looks at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
import torch

import stationary as st
from stationary.errors import InputError
from stationary.learning.estimate import check_whole
from stationary.paper.cells import (
    Line,
    half_width,
    interval,
    listed,
    mean_text,
    number,
    plus_minus,
)
from stationary.paper.columns import METHODS, OURS, PAPER, THROUGH_TIME, study
from stationary.paper.methods import Column
from stationary.paper.runner import Reading, Record, Task, errors, work
from stationary.paper.settings import Row, rows

METRICS = {
    "mape": "MAPE/100",
    "mse": "MSE",
    "median_ape": "median APE/100",
    "nll_gap": "nats above the optimum",
    "nll": "training loss per window",
    "seconds": "seconds per repeat",
}

TITLES = {
    Reading.ONE: "repeats on one data set",
    Reading.FRESH: "a fresh data set every repeat",
}

_PAPER_REPEATS = 20


def tidy(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per repeat; ``nll_gap`` is in nats over all windows, above the exact optimum.

    Relaxed chains have more parameters than the parametric optimum, and no gap to it.
    """
    kept = ["row", "method", "reading", "seed", "data", "mape", "median_ape", "mse"]
    kept += ["mape_steady", "mse_steady", "nll", "windows", "seconds", "side_by_side", "converged"]
    frame = pd.DataFrame([record for record in records if record["reading"] != Reading.LUCK])
    theta = [" ".join(f"{value:.6g}" for value in values[:3]) for values in frame["theta"]]
    relaxed, frame = frame["relaxed"], frame[kept].assign(theta=theta)
    measured = ["nll", "mape_steady", "mse_steady"]
    frame[measured] = frame[measured].astype(float)  # None becomes NaN
    best = frame[frame["method"] == "mle"].drop_duplicates(["row", "data"])
    best = best.set_index(["row", "data"])["nll"].rename("best")
    gap = frame["nll"] - frame.join(best, on=["row", "data"])["best"]
    frame["nll_gap"] = (gap * frame["windows"]).mask(relaxed)
    return frame.sort_values(["row", "method", "reading", "seed"])


def lucky(records: Iterable[Record]) -> dict[str, pd.DataFrame]:
    """Return the exact optimum on many data sets, one frame per row of the paper."""
    luck = [record for record in records if record["reading"] == Reading.LUCK]
    return dict(list(pd.DataFrame(luck).groupby("row"))) if luck else {}


def select(frame: pd.DataFrame, **wanted: str) -> pd.DataFrame:
    """Return the rows of a frame whose columns have these values."""
    kept = np.ones(len(frame), dtype=bool)
    for column, value in wanted.items():
        kept &= (frame[column] == value).to_numpy()
    return frame[kept]


def metric_table(
    frame: pd.DataFrame,
    rows: Sequence[Row],
    metric: str,
    reading: Reading,
    columns: Iterable[Column],
    with_printed: bool = True,
) -> Iterator[Line]:
    """Rows by methods: the mean, its interval, and in brackets what the paper prints."""
    some = frame[frame["row"].isin([row.name for row in rows])]
    shown = [column for column in columns if column.name in set(some["method"])]
    some = select(some, reading=reading).dropna(subset=[metric])
    # The times of repeats that ran side by side are equal shares, and have no spread.
    text = (lambda values: number(values.mean())) if metric == "seconds" else mean_text
    cells = some.groupby(["row", "method"])[metric].agg(text)
    for row in rows:
        line = {"row": row.title}
        for column in shown:
            ours: str = cells.get((row.name, column.name), "")
            printed = getattr(row, metric, {}).get(column.name) if with_printed else None
            line[column.title] = f"{ours} [{number(printed[0])}]" if ours and printed else ours
        yield line


def table(
    columns: Sequence[Column],
    names: str | Sequence[str] = "mm1k-fast",
    *,
    metric: str = "mape",
    repeats: int = 3,
    share: float = 1.0,
) -> pd.DataFrame:
    """Set estimators of one's own beside the paper's, on fresh data sets of its rows.

    Parameters
    ----------
    columns : sequence of Column
        Estimators, such as `Trained` with a gradient strategy of one's own.
    names : str or sequence of str
        Rows, as named in ``paper.toml``.
    metric : str
        ``mape``, ``mse``, ``median_ape``, ``nll_gap`` or ``seconds``.
    repeats : int
        Data sets of each row.
    share : float
        Share of the paper's epochs that stochastic estimators get.

    Returns
    -------
    DataFrame
        Rows by estimators: means with 95 % intervals over repeats.
    """
    if not isinstance(columns, Sequence) or not all(isinstance(c, Column) for c in columns):
        raise InputError(f"columns must be a list of estimators such as Trained; got {columns!r}")
    if metric not in METRICS:
        raise InputError(f"metric must be one of {', '.join(METRICS)}; got {metric!r}")
    if not 0 < share <= 1:
        raise InputError(f"share must be above 0 and at most 1; got {share!r}")
    check_whole(repeats, "repeats")
    shown = [*THROUGH_TIME, PAPER, OURS, *columns, METHODS["mle"]]
    used = [column.name for column in shown]
    for column in columns:
        if used.count(column.name) > 1:
            raise InputError(f"there is a column {column.name!r} already; give yours another name")
    seeds = tuple(range(repeats))
    known = {name: row for name, row in rows().items() if row.simulated}
    wanted = [names] if isinstance(names, str) else names
    for name in [name for name in wanted if name not in known]:
        raise InputError(
            f"there is no row {name!r} with simulated data; choose from {', '.join(known)}"
        )
    chosen = [known[name] for name in wanted]
    tasks = [
        Task(row, column, Reading.FRESH, seeds, share if column.trains else 1.0)
        for row in chosen
        for column in shown
    ]
    frame = tidy(record for task in tasks for record in work(task))
    lines = metric_table(frame, chosen, metric, Reading.FRESH, shown, with_printed=False)
    return pd.DataFrame(lines)


def method_table(
    frame: pd.DataFrame,
    rows: Sequence[Row],
    columns: Sequence[Column],
    printed: Sequence[Column] = (),
) -> Iterator[Line]:
    """Methods that ran on one data set of a row, beside what is printed of others, if asked."""
    for row in rows:
        for column, other in zip_longest(columns, printed):
            own = select(frame, row=row.name, method=column.name, reading=Reading.ONE)
            if own.empty:
                continue
            beside = {"printed MAPE/100, MSE": listed(row.printed(other.name))} if other else {}
            yield {
                "row": row.title,
                "method": column.title,
                **beside,
                "MAPE/100": mean_text(own["mape"]),
                "MSE": mean_text(own["mse"]),
                "estimate": _mean_theta(own),
                "training loss per window": mean_text(own["nll"].dropna()),
                "seconds per repeat": number(own["seconds"].mean()),
            }


def agreement_table(frame: pd.DataFrame, rows: Sequence[Row]) -> Iterator[Line]:
    """Every printed number beside ours, and whether it lies in the range of our repeats."""
    for row in rows:
        for metric in ("mape", "mse"):
            for name, printed in getattr(row, metric).items():
                mine = select(frame, row=row.name, method=name)
                one, fresh = (select(mine, reading=reading)[metric] for reading in TITLES)
                if one.empty:
                    continue
                low, high = (one if fresh.empty else fresh).quantile([0.05, 0.95])
                # Widened by rounding.
                above, below = printed[0] >= low * 0.99, printed[0] <= high * 1.01
                other = "printed is worse" if above else "printed is better"
                yield {
                    "row": row.title,
                    "method": METHODS[name].title,
                    "metric": METRICS[metric],
                    "printed": plus_minus(*printed),
                    "one data set": mean_text(one),
                    "5..95 % of repeats *": f"{number(low)} .. {number(high)}",
                    "verdict": "agrees" if above and below else other,
                }


def through_time_table(
    frame: pd.DataFrame, curves: pd.DataFrame, rows: Sequence[Row]
) -> Iterator[Line]:
    """Backpropagation through time on one data set: the epoch nearest to the printed numbers."""
    for row in rows:
        for column in THROUGH_TIME:
            which = {"row": row.name, "method": column.name, "reading": Reading.ONE}
            mine, of = select(frame, **which), select(curves, **which)
            if mine.empty or column.name not in row.mape:
                continue
            path = np.stack([select(of, metric=m)["mean"].to_numpy() for m in ("mape", "mse")], 1)
            printed = row.printed(column.name)
            nearest = int(np.abs(np.log(path / printed)).sum(1).argmin())
            yield {
                "row": row.title,
                "method": column.title,
                "printed MAPE/100, MSE": listed(printed),
                "before training": listed(path[0]),
                "epoch nearest to the printed": f"{nearest}: {listed(path[nearest])}",
                "after training": listed(path[-1]),
                "its chain's steady state": listed(mine[["mape_steady", "mse_steady"]].mean()),
            }


def readings_table(frame: pd.DataFrame, rows: Sequence[Row]) -> Iterator[Line]:
    """Half-widths of infinity-SGD's intervals: printed, and ours for both kinds of repeats."""
    for row in rows:
        printed = row.mape.get("infinity", [])
        mine = select(frame, row=row.name, method="infinity")
        if row.simulated and len(printed) > 1 and not mine.empty:
            line = {"row": row.title, "printed half-width of MAPE/100": number(printed[1])}
            for reading, title in TITLES.items():
                line[title] = number(interval(select(mine, reading=reading)["mape"])[1])
            yield line


def floor_table(luck: dict[str, pd.DataFrame], rows: Sequence[Row]) -> Iterator[Line]:
    """How the exact optimum varies over data sets, and how often it beats the printed error."""

    def within(errors: pd.Series, printed: list[float] | None) -> str:
        return f"{(errors <= printed[0]).mean():.1%}" if printed else ""

    for row in rows:
        if row.name not in luck:
            continue
        mine, mape = luck[row.name], luck[row.name]["mape"]
        printed, printed_mse = row.mape.get("infinity"), row.mse.get("infinity")
        yield {
            "row": row.title,
            "data sets": str(len(mine)),
            "converged": f"{mine['converged'].mean():.1%}",
            "MLE mean MAPE/100": number(mape.mean()),
            "5 %, 50 %, 95 %": listed(mape.quantile([0.05, 0.5, 0.95])),
            "printed, infinity-SGD": number(printed[0]) if printed else "",
            "data sets where the MLE does as well": within(mape, printed),
            "the same of the MSE": within(mine["mse"], printed_mse),
            "half-width of 20 fresh repeats": number(half_width(mape.to_numpy(), _PAPER_REPEATS)),
            "printed half-width": number(printed[1]) if printed else "",
        }


def gap_table(rows: Sequence[Row]) -> Iterator[Line]:
    """Spectral gaps of the training loads at the truth, beside the printed range.

    Equal means that three decimals, rounded or cut off, are the printed ones: the paper does both.
    """
    for row in rows:
        chains = row.build()(sorted(set(row.train_loads())))
        found = st.spectral_gap(chains, chains.exit_rates().amax(-1) + row.margin)
        gaps, printed = (found.min().item(), found.max().item()), row.gaps or []
        equal = all(
            shown in (round(gap, 3), math.floor(gap * 1e3) / 1e3)
            for gap, shown in zip(gaps, printed, strict=False)
        )
        yield {
            "row": row.title,
            "gamma above the largest exit rate": f"{row.margin:g}",
            "computed": " .. ".join(f"{value:.4f}" for value in gaps),
            "printed": " .. ".join(f"{value:g}" for value in printed),
            "equal": "yes" if equal else "no",
        }


def theta_table(
    frame: pd.DataFrame, luck: dict[str, pd.DataFrame], rows: Sequence[Row]
) -> Iterator[Line]:
    """Printed estimates, the error that they imply, and ours."""
    for row in rows:
        if row.theta is None or row.name not in luck:
            continue
        estimates = np.array(luck[row.name]["theta"].tolist())
        mine = partial(select, frame, row=row.name, reading=Reading.ONE)
        yield {
            "row": row.title,
            "truth": _vector(row.truth or []),
            "printed": _vector(row.theta),
            "MAPE/100 at the printed": number(_mape_at(row, row.theta)),
            "infinity-SGD (paper), one data set": _mean_theta(mine(method="infinity")),
            "infinity-SGD (ours), one data set": _mean_theta(mine(method="ours")),
            "MLE, one data set": _mean_theta(mine(method="mle")),
            "MLE over data sets: mean; sd": (
                f"{_vector(estimates.mean(0))}; {_vector(estimates.std(0))}"
            ),
        }


def loss_table(frame: pd.DataFrame, rows: Sequence[Row], name: str) -> Iterator[Line]:
    """Training loss per window by ``alpha`` or by ``p``, and that of our infinity-SGD."""
    for row in rows:
        printed = row.loss_alpha if name == "alpha" else row.loss_p
        for key, column in {**study(row, name), "ours": OURS}.items():
            mine = select(frame, row=row.name, method=column.name)
            floor = select(frame, row=row.name, method=column.exact, reading=Reading.FRESH)
            one, fresh = (select(mine, reading=reading) for reading in TITLES)
            yield {
                "row": row.title,
                name: key,
                "printed": plus_minus(*printed[key]) if key in printed else "",
                "one data set": mean_text(one["nll"]),
                "fresh data sets": mean_text(fresh["nll"]),
                "exact, fresh": mean_text(floor["nll"]),
                "MAPE/100, fresh": mean_text(fresh["mape"]),
                "ms per epoch": number(1e3 * one["seconds"].mean() / row.epochs),
            }


def formatted(frame: pd.DataFrame, **forms: tuple[str, Callable[[Any], str]]) -> Iterator[Line]:
    """Columns of a frame as texts: each with its new name and its form."""
    for row in frame.to_dict("records"):
        yield {
            name: "" if pd.isna(row[column]) else form(row[column])
            for column, (name, form) in forms.items()
        }


def _vector(values: Iterable[float]) -> str:
    """Return several parameters, with four digits."""
    return ", ".join(f"{value:.4g}" for value in values)


def _mean_theta(frame: pd.DataFrame) -> str:
    if frame.empty:
        return ""
    return _vector(np.mean([[float(v) for v in text.split()] for text in frame["theta"]], axis=0))


@torch.no_grad()
def _mape_at(row: Row, theta: Sequence[float]) -> float:
    """MAPE/100 of the forecast at given parameters."""
    model = row.build()
    x = model.as_inputs(row.test_loads())
    target = st.steady_state(model(x)).pi[:, -1]
    there = model.generator(x, torch.tensor(theta, dtype=torch.float64))
    return float(errors(st.steady_state(there).pi[:, -1], target)["mape"])
