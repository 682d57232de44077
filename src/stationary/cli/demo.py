"""``stationary demo``: a plan of bundled data, beside what happened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import stationary as st
from stationary.cli._options import command_of, use_one_thread
from stationary.cli._say import say
from stationary.errors import InputError
from stationary.output.folders import REPORT

if TYPE_CHECKING:
    import pandas as pd

_SLOS = ("loss<0.1%", "p99<8ms")
_BIN = 250  # requests per second that one row of the table covers

_SHOWN = ("loss", "p50", "p95", "p99")


@command_of
def demo(*, output: Path = Path("stationary-demo")) -> None:
    """Plan for a real server from its light load, and compare with the overload that followed.

    The bundled windows were RECORDED: a Kamailio SIP server on one machine, driven through a day of
    load into overload ('stationary testbed record'). The plan sees only loads up to 2000 requests
    per second, and only the response times of requests that were answered.

    Options
    -------
    output: Folder for the plan with its report, a table and a plot.
    """
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; name a folder for the demo")

    use_one_thread()

    from stationary import words
    from stationary.cli._show import progress_bar, stages, table
    from stationary.data.demo import CAPACITY, LIGHT, OBSERVED, recording
    from stationary.planner import plan as run

    windows = recording(latencies=True)
    seen = windows.between(None, LIGHT).observing(OBSERVED)
    say(words.demo_data(len(windows), len(seen), LIGHT))
    say()
    with progress_bar("model", 2) as bar:
        plan = run(seen, servers=1, capacity=CAPACITY, slo=_SLOS, progress=bar)
    later = _measured(windows, LIGHT)
    with stages() as progress:
        progress("finding the limits")
        plan = plan.having(recipe={"command": "stationary demo", "unit": "req/s"})
        limit, ahead = plan.limit, plan.forecast(later["load"].to_numpy(), measures=_SHOWN)
        progress("writing the report")
        output.mkdir(parents=True, exist_ok=True)
        folder = output / "plan"
        plan.save(folder, overwrite=True)
        plan.report(folder / REPORT, observed=later[["load", *_SHOWN]])
        ahead.to_csv(output / "forecast.csv", index=False)
        draw(plan, later, output / "forecast.png")
    advice = f"open {folder / REPORT}; the numbers below are in {output / 'forecast.csv'}"
    say(words.plan_screen(plan, limit, plan.limits, [*words.warned(plan)], advice))
    say()
    columns = ["load /s", "lost", "forecast (95%)", "p99", "forecast (95%)"]
    table("What happened later, beside the forecast", columns, _rows(later, ahead), left=0)
    say(words.demo_score(_score(later, ahead, "loss"), _score(later, ahead, "p99"), len(later)))


def draw(plan: Any, later: pd.DataFrame, path: Path) -> None:
    """Draw loss and percentiles over load, beside what was measured."""
    import numpy as np
    from matplotlib.figure import Figure

    from stationary.output.plots import plot_forecast, plot_percentiles, save_figure

    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    grid = plan.forecast(np.linspace(300.0, 5000.0, 25), measures=_SHOWN)
    fitted, bound = (float(plan.windows.loads.min()), plan.heaviest), plan.question.slos[0].bound
    measured = later["load"], later["loss"]
    plot_forecast(grid, fitted=fitted, observed=measured, bound=bound, ax=left)
    # The numbers stay with the picture, so that a test can tell when it is out of date.
    about = grid.iloc[::6][["load", *_SHOWN]].to_json(double_precision=10)
    save_figure(plot_percentiles(grid, fitted=fitted, observed=later, ax=right), path, about)


def _measured(windows: st.Windows, start: float) -> pd.DataFrame:
    """Return what was measured at heavier loads, over ranges of load."""
    import pandas as pd

    from stationary.data import Latencies

    counts, (times,) = windows.counts.numpy(), windows.using(["latencies"]).observations
    frame = pd.DataFrame({"sent": counts.sum(-1), "lost": counts[:, -1]})
    frame["load"] = windows.loads.numpy() * frame["sent"]
    buckets = pd.DataFrame(times.data.numpy())
    group = ((windows.loads.numpy() - start - 1e-9) // _BIN).astype(int)
    heavy = group >= 0
    frame, buckets = (each[heavy].groupby(group[heavy]).sum() for each in (frame, buckets))
    pooled = Latencies(buckets.to_numpy(), times.edges)  # type: ignore[attr-defined]
    shares = {name: pooled.percentile(float(name[1:]) / 100) for name in _SHOWN[1:]}
    load, loss = frame["load"] / frame["sent"], frame["lost"] / frame["sent"]
    return pd.DataFrame({"load": load, "loss": loss, **shares}).reset_index(drop=True)


def _rows(later: pd.DataFrame, ahead: pd.DataFrame) -> list[list[str]]:
    rows = []
    for measured, row in zip(later.to_dict("records"), ahead.to_dict("records"), strict=True):
        loss = [f"{100 * row[f'loss{end}']:.2g}%" for end in ("", "_low", "_high")]
        p99 = [f"{1000 * row[f'p99{end}']:.1f}" for end in ("", "_low", "_high")]
        seen = f"{100 * measured['loss']:.2g}%", f"{1000 * measured['p99']:.1f} ms"
        forecast = "{} ({} to {})".format(*loss), "{} ms ({} to {})".format(*p99)
        rows.append([f"{measured['load']:.0f}", seen[0], forecast[0], seen[1], forecast[1]])
    return rows


def _score(later: pd.DataFrame, ahead: pd.DataFrame, name: str) -> int:
    """Count the ranges of load in which the measured value lies inside the interval."""
    return int(later[name].between(ahead[f"{name}_low"], ahead[f"{name}_high"]).sum())
