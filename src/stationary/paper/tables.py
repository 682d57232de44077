"""From records to a tidy frame, and from it to the tables a reader looks at.

Every table is a frame of texts, with the headers as its columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import pandas as pd
import torch

import stationary as st
from stationary.errors import InputError
from stationary.paper.cells import (
    half_width,
    interval,
    listed,
    mean_text,
    number,
    plus_minus,
    vector,
)
from stationary.paper.columns import METHODS, OURS, RELAXED, THROUGH_TIME, study
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
    kept = ("row", "method", "reading", "seed", "data", "mape", "median_ape", "mse")
    more = ("mape_steady", "mse_steady", "nll", "windows", "seconds", "side_by_side", "converged")
    frame = pd.DataFrame(
        {
            **{name: record[name] for name in (*kept, *more)},
            "theta": " ".join(f"{value:.6g}" for value in record["theta"][:3]),
        }
        for record in records
        if record["reading"] != Reading.LUCK
    )
    measured = ["nll", "mape_steady", "mse_steady"]
    frame[measured] = frame[measured].astype(float)  # None becomes NaN
    best = frame[frame["method"] == "mle"].drop_duplicates(["row", "data"])
    best = best[["row", "data", "nll"]]
    frame = frame.merge(best, on=["row", "data"], how="left", suffixes=("", "_best"))
    gap = (frame["nll"] - frame["nll_best"]) * frame["windows"]
    frame["nll_gap"] = gap.mask(is_relaxed(frame["method"]))
    return frame.drop(columns="nll_best").sort_values(["row", "method", "reading", "seed"])


def is_relaxed(methods: Iterable[str]) -> list[bool]:
    """Whether each method relaxes the model."""
    return [METHODS[name].alpha is not None for name in methods]


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
    with_printed: bool = True,
) -> pd.DataFrame:
    """Rows by methods: the mean, its interval, and in brackets what the paper prints."""
    some = frame[frame["row"].isin([row.name for row in rows])]
    methods = [name for name in METHODS if name in set(some["method"])]
    some = select(some, reading=reading).dropna(subset=[metric])
    # The times of repeats that ran side by side are equal shares, and have no spread.
    text = (lambda values: number(values.mean())) if metric == "seconds" else mean_text
    cells = some.groupby(["row", "method"])[metric].agg(text)

    def cell(row: Row, name: str) -> str:
        printed = getattr(row, metric, {}).get(name) if with_printed else None
        shown: str = cells.get((row.name, name), "")
        return f"{shown} [{number(printed[0])}]" if shown and printed else shown

    return pd.DataFrame(
        {"row": row.title, **{METHODS[name].title: cell(row, name) for name in methods}}
        for row in rows
    )


def table(
    columns: Sequence[Column],
    names: Sequence[str] = ("mm1k-fast",),
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
    names : sequence of str
        Rows; ``stationary reproduce --rows`` lists them.
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
    own = {column.name: column for column in columns}
    taken = sorted(own.keys() & {name for name in METHODS if METHODS[name] is not own.get(name)})
    if taken:
        raise InputError(f"there is a column {taken[0]!r} already; give yours another name")
    METHODS.update(own)
    try:
        shown = [*THROUGH_TIME, METHODS["infinity"], METHODS["ours"], *columns, METHODS["mle"]]
        seeds = tuple(range(repeats))
        chosen = [rows()[name] for name in names]
        records = [
            record
            for row in chosen
            for column in shown
            for record in work(
                Task(row, column.name, Reading.FRESH, seeds, share if column.trains else 1.0)
            )
        ]
        return metric_table(tidy(records), chosen, metric, Reading.FRESH, with_printed=False)
    finally:
        for name in own:
            del METHODS[name]


def cost_table(frame: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Seconds per epoch by stopping probability, and over that of the tables' p."""
    lines = []
    for row in rows:
        each = {
            p: select(frame, row=row.name, method=column.name, reading=Reading.ONE)["seconds"]
            for p, column in study(row, "p").items()
        }
        seconds = {p: found.mean() / row.epochs for p, found in each.items() if len(found)}
        first = next(iter(seconds.values()), math.nan)
        for p, value in seconds.items():
            ratio = number(value / first)
            lines.append(
                {
                    "row": row.title,
                    "p": p,
                    "ms per epoch and repeat": number(1e3 * value),
                    "times the first": ratio,
                }
            )
    return pd.DataFrame(lines)


def method_table(frame: pd.DataFrame, row: Row) -> pd.DataFrame:
    """Every method that ran on one data set of a row: estimate, errors, likelihood, seconds."""
    mine = select(frame, row=row.name, reading=Reading.ONE)
    lines = []
    for name in [name for name in METHODS if name in set(mine["method"])]:
        own = select(mine, method=name)
        lines.append(
            {
                "method": METHODS[name].title,
                "estimate": _mean_theta(frame, row, name),
                "MAPE/100": mean_text(own["mape"]),
                "MSE": mean_text(own["mse"]),
                "training loss per window": mean_text(own["nll"].dropna()),
                "seconds per repeat": number(own["seconds"].mean()),
            }
        )
    return pd.DataFrame(lines)


def relaxed_table(frame: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Relaxed backpropagation through time on one data set, beside what is printed."""
    lines = []
    for row in rows:
        for column, plain in zip(RELAXED, THROUGH_TIME, strict=True):
            mine = select(frame, row=row.name, method=column.name, reading=Reading.ONE)
            lines.append(
                {
                    "row": row.title,
                    "method": column.title,
                    "printed MAPE/100, MSE": listed(
                        (row.mape[plain.name][0], row.mse[plain.name][0])
                    ),
                    "MAPE/100": mean_text(mine["mape"]),
                    "MSE": mean_text(mine["mse"]),
                    "estimate": _mean_theta(frame, row, column.name),
                }
            )
    return pd.DataFrame(lines)


def agreement_table(frame: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Every printed number beside ours, and whether they agree."""
    lines = []
    for row in rows:
        for metric in ("mape", "mse"):
            for name, printed in getattr(row, metric).items():
                mine = select(frame, row=row.name, method=name)
                one, fresh = (select(mine, reading=reading)[metric] for reading in TITLES)
                if one.empty:
                    continue
                low, high = (one if fresh.empty else fresh).quantile([0.05, 0.95])
                lines.append(
                    {
                        "row": row.title,
                        "method": METHODS[name].title,
                        "metric": METRICS[metric],
                        "printed": plus_minus(*printed),
                        "one data set": mean_text(one),
                        "5..95 % of repeats *": f"{number(low)} .. {number(high)}",
                        "verdict": _verdict(printed[0], low, high),
                    }
                )
    return pd.DataFrame(lines)


def through_time_table(
    frame: pd.DataFrame, curves: pd.DataFrame, rows: Sequence[Row]
) -> pd.DataFrame:
    """Backpropagation through time on one data set: the epoch nearest to the printed numbers."""
    lines = []
    for row in rows:
        for column in THROUGH_TIME:
            which = {"row": row.name, "method": column.name, "reading": Reading.ONE}
            mine, of = select(frame, **which), select(curves, **which)
            if mine.empty or column.name not in row.mape:
                continue
            path = np.stack([select(of, metric=m)["mean"].to_numpy() for m in ("mape", "mse")], 1)
            printed = (row.mape[column.name][0], row.mse[column.name][0])
            nearest = int(np.abs(np.log(path / printed)).sum(1).argmin())
            lines.append(
                {
                    "row": row.title,
                    "method": column.title,
                    "printed MAPE/100, MSE": listed(printed),
                    "before training": listed(path[0]),
                    "epoch nearest to the printed": f"{nearest}: {listed(path[nearest])}",
                    "after training": listed(path[-1]),
                    "its chain's steady state": listed(mine[["mape_steady", "mse_steady"]].mean()),
                }
            )
    return pd.DataFrame(lines)


def readings_table(frame: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Half-widths of infinity-SGD's intervals: printed, and ours for both kinds of repeats."""
    lines = []
    for row in rows:
        printed = row.mape.get("infinity", [])
        mine = select(frame, row=row.name, method="infinity")
        if row.simulated and len(printed) > 1 and not mine.empty:
            halves = {
                title: number(interval(select(mine, reading=reading)["mape"])[1])
                for reading, title in TITLES.items()
            }
            of_print = {"printed half-width of MAPE/100": number(printed[1])}
            lines.append({"row": row.title, **of_print, **halves})
    return pd.DataFrame(lines)


def floor_table(luck: dict[str, pd.DataFrame], rows: Sequence[Row]) -> pd.DataFrame:
    """How the exact optimum varies over data sets, and how often it beats the printed error."""
    lines = []
    for row in rows:
        if row.name not in luck:
            continue
        mape, mse = (luck[row.name][metric].to_numpy() for metric in ("mape", "mse"))
        printed, printed_mse = row.mape.get("infinity"), row.mse.get("infinity")
        lines.append(
            {
                "row": row.title,
                "data sets": str(len(mape)),
                "converged": f"{luck[row.name]['converged'].mean():.1%}",
                "MLE mean MAPE/100": number(mape.mean()),
                "5 %, 50 %, 95 %": listed(np.quantile(mape, [0.05, 0.5, 0.95])),
                "printed, infinity-SGD": number(printed[0]) if printed else "",
                "data sets where the MLE does as well": _share_within(mape, printed),
                "the same of the MSE": _share_within(mse, printed_mse),
                "half-width of 20 fresh repeats": number(half_width(mape, _PAPER_REPEATS)),
                "printed half-width": number(printed[1]) if printed else "",
            }
        )
    return pd.DataFrame(lines)


def gap_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Spectral gaps of the training loads at the truth, beside the printed range.

    Equal means that three decimals, rounded or cut off, are the printed ones: the paper does both.
    """
    lines = []
    for row in rows:
        low, high = spectral_gaps(row)
        printed = row.gaps or []
        equal = all(map(_prints_as, (low, high), printed))
        lines.append(
            {
                "row": row.title,
                "gamma above the largest exit rate": f"{row.margin:g}",
                "computed": f"{low:.4f} .. {high:.4f}",
                "printed": " .. ".join(f"{value:g}" for value in printed),
                "equal": "yes" if equal else "no",
            }
        )
    return pd.DataFrame(lines)


@torch.no_grad()
def spectral_gaps(row: Row) -> tuple[float, float]:
    """Smallest and largest gap over the training loads, at the true parameters."""
    chains = row.build()(sorted(set(row.train_loads())))
    gaps = st.spectral_gap(chains, chains.exit_rates().amax(-1) + row.margin)
    return gaps.min().item(), gaps.max().item()


def theta_table(
    frame: pd.DataFrame, luck: dict[str, pd.DataFrame], rows: Sequence[Row]
) -> pd.DataFrame:
    """Printed estimates, the error that they imply, and ours."""
    lines = []
    for row in rows:
        if row.theta is None or row.name not in luck:
            continue
        estimates = np.array(luck[row.name]["theta"].tolist())
        mine = partial(_mean_theta, frame, row)
        lines.append(
            {
                "row": row.title,
                "truth": vector(row.truth or []),
                "printed": vector(row.theta),
                "MAPE/100 at the printed": number(_mape_at(row, row.theta)),
                "infinity-SGD (paper), one data set": mine("infinity"),
                "infinity-SGD (ours), one data set": mine("ours"),
                "MLE, one data set": mine("mle"),
                "MLE over data sets: mean; sd": (
                    f"{vector(estimates.mean(0))}; {vector(estimates.std(0))}"
                ),
            }
        )
    return pd.DataFrame(lines)


def loss_table(frame: pd.DataFrame, rows: Sequence[Row], name: str) -> pd.DataFrame:
    """Training loss per window by ``alpha`` or by ``p``, and that of our infinity-SGD."""
    lines = []
    for row in rows:
        printed_all = row.loss_alpha if name == "alpha" else row.loss_p
        for key, column in {**study(row, name), "ours": OURS}.items():
            mine = select(frame, row=row.name, method=column.name)
            floor = select(frame, row=row.name, method=column.exact, reading=Reading.FRESH)
            one, fresh = (select(mine, reading=reading) for reading in TITLES)
            lines.append(
                {
                    "row": row.title,
                    name: key,
                    "printed": plus_minus(*printed_all[key]) if key in printed_all else "",
                    "one data set": mean_text(one["nll"]),
                    "fresh data sets": mean_text(fresh["nll"]),
                    "exact, fresh": mean_text(floor["nll"]),
                    "MAPE/100, fresh": mean_text(fresh["mape"]),
                }
            )
    return pd.DataFrame(lines)


def equal_table(equal: pd.DataFrame) -> pd.DataFrame:
    """Fits of equal likelihood to the testbed."""
    return pd.DataFrame(
        {
            "overload at load 1500": equal["overload"].map("{:g}".format),
            "negative log-likelihood": equal["nll"].map("{:.4f}".format),
            "MAPE/100": equal["mape"].map(number),
            "MSE": equal["mse"].map(number),
        }
    )


def ladder_table(ladder: pd.DataFrame) -> pd.DataFrame:
    """The chains of the testbed by their backtest, then forecasts without a chain."""

    def column(name: str, form: str) -> pd.Series:
        return ladder[name].map(form.format, na_action="ignore").fillna("")

    return pd.DataFrame(
        {
            "model": ladder["model"].mask(ladder["picked"], "**" + ladder["model"] + "** (picked)"),
            "parameters": column("parameters", "{:.0f}"),
            "train NLL": column("nll", "{:.1f}"),
            "backtest": column("backtest", "{:.4f}"),
            "test MAPE/100": ladder["mape"].map(number),
            "test MSE": ladder["mse"].map(number),
            "estimates": column("estimates", "{}"),
        }
    )


def _share_within(errors: np.ndarray, printed: list[float] | None) -> str:
    return f"{np.mean(errors <= printed[0]):.1%}" if printed else ""


def _prints_as(value: float, printed: float) -> bool:
    """Whether three decimals of a value, rounded or cut off, are the printed ones."""
    return printed in (round(value, 3), math.floor(value * 1e3) / 1e3)


def _verdict(printed: float, low: float, high: float) -> str:
    """Whether the printed value lies in the range of our repeats, widened by rounding."""
    if low * 0.99 <= printed <= high * 1.01:
        return "agrees"
    return "printed is better" if printed < low else "printed is worse"


def _mean_theta(frame: pd.DataFrame, row: Row, name: str) -> str:
    chosen = select(frame, row=row.name, method=name, reading=Reading.ONE)["theta"]
    if chosen.empty:
        return ""
    return vector(np.mean([[float(v) for v in text.split()] for text in chosen], axis=0))


@torch.no_grad()
def _mape_at(row: Row, theta: Sequence[float]) -> float:
    """MAPE/100 of the forecast at given parameters."""
    model = row.build()
    x = model.as_inputs(row.test_loads())
    target = st.steady_state(model(x)).pi[:, -1]
    there = model.generator(x, torch.tensor(theta, dtype=torch.float64))
    return float(errors(st.steady_state(there).pi[:, -1], target)["mape"])
