"""From records to a tidy frame, and from it to the tables a reader looks at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import torch
from scipy.stats import t as student

from stationary.paper.cells import interval, listed, number, plus_minus, vector
from stationary.paper.columns import METHODS, OURS, study
from stationary.paper.runner import Reading, Record, errors
from stationary.paper.settings import Row
from stationary.spectrum import spectral_gap
from stationary.steady import steady_state

METRICS = {
    "mape": "MAPE/100",
    "mse": "MSE",
    "median_ape": "median APE/100",
    "nll_gap": "nats above the optimum",
    "seconds": "seconds a repeat",
}

TITLES = {
    Reading.ONE: "repeats on one data set",
    Reading.FRESH: "a fresh data set every repeat",
}


def tidy(records: Iterable[Record]) -> pd.DataFrame:
    """One line a repeat; ``nll_gap`` is in nats over all windows, above the exact optimum.

    Relaxed chains have more parameters than the optimum has, and no gap to it.
    """
    kept = ("row", "method", "reading", "seed", "data", "mape", "median_ape", "mse")
    more = ("mape_steady", "mse_steady", "nll", "windows", "seconds", "side_by_side", "converged")
    lines = [
        {
            **{name: record[name] for name in (*kept, *more)},
            "theta": " ".join(f"{value:.6g}" for value in record["theta"][:3]),
        }
        for record in records
        if record["reading"] != Reading.LUCK
    ]
    frame = pd.DataFrame(lines)
    measured = ["nll", "mape_steady", "mse_steady"]
    frame[measured] = frame[measured].astype(float)  # None where there is none
    best = frame[frame["method"] == "mle"].drop_duplicates(["row", "data"])
    best = best[["row", "data", "nll"]]
    frame = frame.merge(best, on=["row", "data"], how="left", suffixes=("", "_best"))
    gap = (frame["nll"] - frame["nll_best"]) * frame["windows"]
    relaxed = [METHODS[name].alpha is not None for name in frame["method"]]
    frame["nll_gap"] = gap.mask(relaxed)
    return frame.drop(columns="nll_best").sort_values(["row", "method", "reading", "seed"])


def select(frame: pd.DataFrame, **wanted: str) -> pd.DataFrame:
    """Lines whose columns have these values."""
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
) -> list[list[str]]:
    """Rows by methods: mean, its interval, and in brackets what the paper prints."""
    methods = [name for name in METHODS if name in set(frame["method"])]
    header = ["row", *(METHODS[name].title for name in methods)]
    body = []
    for row in rows:
        cells = [row.title]
        for name in methods:
            chosen = select(frame, row=row.name, method=name, reading=reading)
            printed = getattr(row, metric, {}).get(name) if with_printed else None
            if metric == "seconds":  # repeats that ran side by side have no spread of their own
                chosen = chosen.head(1).assign(seconds=chosen["seconds"].mean())
            cells.append(_cell(chosen[metric], printed))
        body.append(cells)
    return [header, *body]


def agreement_table(frame: pd.DataFrame, rows: Sequence[Row]) -> list[list[str]]:
    """Every printed number beside ours, and a word on whether they agree."""
    lines = [
        ["row", "method", "metric", "printed", "one data set", "5..95 % of repeats *", "verdict"]
    ]
    for row in rows:
        for metric in ("mape", "mse"):
            for name, printed in getattr(row, metric).items():
                mine = select(frame, row=row.name, method=name)
                one = select(mine, reading=Reading.ONE)[metric]
                fresh = select(mine, reading=Reading.FRESH)[metric]
                if one.empty:
                    continue
                low, high = (fresh if len(fresh) else one).quantile([0.05, 0.95])
                lines.append(
                    [
                        row.title,
                        METHODS[name].title,
                        METRICS[metric],
                        plus_minus(*printed),
                        plus_minus(*interval(one)),
                        f"{number(low)} .. {number(high)}",
                        _verdict(printed[0], low, high),
                    ]
                )
    return lines


def through_time_table(
    frame: pd.DataFrame, curves: pd.DataFrame, rows: Sequence[Row]
) -> list[list[str]]:
    """Backpropagation through time on one data set: where in training the printed numbers lie."""
    lines = [
        [
            "row",
            "method",
            "printed MAPE/100, MSE",
            "before training",
            "epoch nearest to the printed",
            "after training",
            "its chain's steady state",
        ]
    ]
    for row in rows:
        for name in ("dc16", "dc128"):
            mine = select(frame, row=row.name, method=name, reading=Reading.ONE)
            if mine.empty or name not in row.mape:
                continue
            of = select(curves, row=row.name, method=name, reading=Reading.ONE)
            path = np.stack([select(of, metric=m)["mean"].to_numpy() for m in ("mape", "mse")], 1)
            printed = (row.mape[name][0], row.mse[name][0])
            nearest = int(np.abs(np.log(path / printed)).sum(1).argmin())
            lines.append(
                [
                    row.title,
                    METHODS[name].title,
                    listed(printed),
                    listed(path[0]),
                    f"{nearest}: {listed(path[nearest])}",
                    listed(path[-1]),
                    listed(mine[["mape_steady", "mse_steady"]].mean()),
                ]
            )
    return lines


def readings_table(frame: pd.DataFrame, rows: Sequence[Row]) -> list[list[str]]:
    """Half-widths of infinity-SGD's intervals: printed, and ours in both readings of a repeat."""
    lines = [["row", "printed half-width of MAPE/100", *TITLES.values()]]
    for row in rows:
        printed = row.mape.get("infinity", [])
        mine = select(frame, row=row.name, method="infinity")
        if row.simulated and len(printed) > 1 and not mine.empty:
            halves = [interval(select(mine, reading=reading)["mape"])[1] for reading in TITLES]
            lines.append([row.title, number(printed[1]), *map(number, halves)])
    return lines


def floor_table(records: Iterable[Record], rows: Sequence[Row]) -> list[list[str]]:
    """How the exact optimum scatters over data sets, and how often it beats the printed error."""
    luck = {r["row"]: r for r in records if r["reading"] == Reading.LUCK}
    lines = [
        [
            "row",
            "data sets",
            "converged",
            "MLE mean MAPE/100",
            "5 %, 50 %, 95 %",
            "printed, infinity-SGD",
            "data sets where the MLE does as well",
            "the same of the MSE",
            "half-width of 20 fresh repeats",
            "printed half-width",
        ]
    ]
    for row in rows:
        if row.name not in luck:
            continue
        mape, mse = (np.array(luck[row.name][metric]) for metric in ("mape", "mse"))
        printed = row.mape.get("infinity")
        half = student.ppf(0.975, 19) * mape.std(ddof=1) / math.sqrt(20)
        lines.append(
            [
                row.title,
                str(len(mape)),
                f"{np.mean(luck[row.name]['converged']):.1%}",
                number(mape.mean()),
                listed(np.quantile(mape, [0.05, 0.5, 0.95])),
                number(printed[0]) if printed else "",
                f"{np.mean(mape <= printed[0]):.1%}" if printed else "",
                f"{np.mean(mse <= row.mse['infinity'][0]):.1%}" if printed else "",
                number(half),
                number(printed[1]) if printed else "",
            ]
        )
    return lines


def gap_table(rows: Sequence[Row]) -> list[list[str]]:
    """Spectral gaps of the training loads at the truth, beside the printed range.

    Equal means that three decimals, rounded or cut off, are the printed ones: the paper does both.
    """
    lines = [["row", "gamma above the largest exit rate", "computed", "printed", "equal"]]
    for row in rows:
        low, high = spectral_gaps(row)
        printed = row.gaps or []
        equal = all(map(_prints_as, (low, high), printed))
        lines.append(
            [
                row.title,
                f"{row.margin:g}",
                f"{low:.4f} .. {high:.4f}",
                f"{printed[0]:g} .. {printed[1]:g}",
                "yes" if equal else "no",
            ]
        )
    return lines


def _prints_as(value: float, printed: float) -> bool:
    """Whether three decimals of a value, rounded or cut off, are the printed ones."""
    return printed in (round(value, 3), math.floor(value * 1e3) / 1e3)


@torch.no_grad()
def spectral_gaps(row: Row) -> tuple[float, float]:
    """Smallest and largest gap over the training loads, at the true parameters."""
    chains = row.build()(sorted(set(row.train_loads())))
    gaps = spectral_gap(chains, chains.exit_rates().amax(-1) + row.margin)
    return gaps.min().item(), gaps.max().item()


def theta_table(
    frame: pd.DataFrame, records: Iterable[Record], rows: Sequence[Row]
) -> list[list[str]]:
    """Printed estimates, what error they imply, and ours."""
    luck = {r["row"]: r for r in records if r["reading"] == Reading.LUCK}
    lines = [
        [
            "row",
            "truth",
            "printed",
            "MAPE/100 at the printed",
            "infinity-SGD (paper), one data set",
            "infinity-SGD (ours), one data set",
            "MLE, one data set",
            "MLE over data sets: mean; sd",
        ]
    ]
    for row in rows:
        if row.theta is None or row.name not in luck:
            continue
        scatter = np.array(luck[row.name]["theta"])
        mean, sd = scatter.mean(0), scatter.std(0)
        lines.append(
            [
                row.title,
                vector(row.truth or []),
                vector(row.theta),
                number(_mape_at(row, row.theta)),
                *(_mean_theta(frame, row, name) for name in ("infinity", "ours", "mle")),
                f"{vector(mean)}; {vector(sd)}",
            ]
        )
    return lines


def loss_table(frame: pd.DataFrame, rows: Sequence[Row], name: str) -> list[list[str]]:
    """Training loss a window by alpha or by p, in both readings, and of our infinity-SGD."""
    lines = [
        [
            "row",
            name,
            "printed",
            "one data set",
            "fresh data sets",
            "exact, fresh",
            "MAPE/100, fresh",
        ]
    ]
    for row in rows:
        printed_all = row.loss_alpha if name == "alpha" else row.loss_p
        for key, method, exact in [*study(row, name), OURS]:
            mine = select(frame, row=row.name, method=method)
            floor = select(frame, row=row.name, method=exact, reading=Reading.FRESH)
            one, fresh = (select(mine, reading=reading) for reading in TITLES)
            printed = printed_all.get(key)
            lines.append(
                [
                    row.title,
                    key,
                    plus_minus(*printed) if printed else "",
                    plus_minus(*interval(one["nll"])),
                    plus_minus(*interval(fresh["nll"])),
                    plus_minus(*interval(floor["nll"])),
                    plus_minus(*interval(fresh["mape"])),
                ]
            )
    return lines


def _cell(values: pd.Series, printed: list[float] | None) -> str:
    if values.empty or values.isna().all():
        return ""
    shown = plus_minus(*interval(values))
    return f"{shown} [{number(printed[0])}]" if printed else shown


def _verdict(printed: float, low: float, high: float) -> str:
    """Agreement is to lie in the range of our repeats, widened by rounding."""
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
    target = steady_state(model(x)).pi[:, -1]
    there = model.generator(x, torch.tensor(theta, dtype=torch.float64))
    return float(errors(steady_state(there).pi[:, -1], target)["mape"])
