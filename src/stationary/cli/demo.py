"""``stationary demo``: the main job on bundled data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stationary.cli._options import command_of
from stationary.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from stationary.data.windows import Windows

_BOUND = 0.001
_BIN = 250
"""Requests per second that one row of the table covers."""


@command_of
def demo(*, output: Path = Path("stationary-demo")) -> None:
    """Learn from a real server at light load, forecast its overload, compare with what happened.

    The bundled windows were RECORDED: a Kamailio SIP server on one machine, driven through a day of
    load into overload ('stationary testbed record'). The fits see only loads up to 2000 requests
    per second, and only requests that found 0 to 5 others, of which none was lost.

    Options
    -------
    output: Folder for run, table, plot and report.
    """
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; name a folder for the demo")

    import numpy as np

    from stationary import words
    from stationary.cli._show import progress_bar, table
    from stationary.data.demo import CAPACITY, LIGHT, OBSERVED, recording
    from stationary.output.plots import plot_forecast, save_figure
    from stationary.planner import compare
    from stationary.planning.record import Question
    from stationary.terms.slo import Slo
    from stationary.trust.ladder import ladder

    windows = recording()
    seen = windows.between(None, LIGHT).observing(OBSERVED)
    typer.echo(f"{len(windows)} windows of a second, recorded from a real SIP server under load;")
    typer.echo(f"learning from the {len(seen)} with load up to {LIGHT:g}/s, and only from requests")
    typer.echo("that found 0 to 5 others.\n")
    models = ladder(seen, servers=1, capacity=CAPACITY)
    with progress_bar("model", len(models)) as bar:
        plan = compare(models, seen, progress=bar).having(question=Question((Slo("loss", _BOUND),)))
    typer.echo(f"{words.choice(plan.comparison.choice)}\n")
    typer.echo(words.summary(plan.estimate, plan.windows))

    every = _measured(windows)
    light, heavy = every[every["load"] <= LIGHT], every[every["load"] > LIGHT]
    ahead = plan.forecast(heavy["load"].to_numpy())
    typer.echo()
    headings = ["load /s", "measured", "forecast", "95% interval", "trusted"]
    table("Loss at heavier loads", headings, _rows(heavy, ahead, LIGHT), left=0)
    typer.echo(words.sentence(words.horizon(plan.horizon)))
    typer.echo("Mean absolute error of the loss over these windows:")
    guesses = {
        "forecast": ahead["loss"].to_numpy(),
        "predict no loss": 0.0,
        "predict the light-load mean": light["lost"].sum() / light["sent"].sum(),
    }
    for name, guess in guesses.items():
        typer.echo(f"  {name:<28} {abs(guess - heavy['loss']).mean():.4f}")

    output.mkdir(parents=True, exist_ok=True)
    grid = plan.forecast(np.arange(300.0, 5001.0, 50.0))
    plan.save(output / "run", overwrite=True)
    grid.to_csv(output / "forecast.csv", index=False)
    fitted, observed = (float(seen.loads.min()), LIGHT), (heavy["load"], heavy["loss"])
    axes = plot_forecast(grid, fitted=fitted, observed=observed, bound=_BOUND)
    save_figure(axes, output / "forecast.png")
    plan.report(output / "report.html", observed=heavy[["load", "loss"]].reset_index(drop=True))
    typer.echo(f"\n{words.sentence(words.limit(plan.limit))}")
    typer.echo(f"Largest load that met it in the windows: {words.number(_met(every))}.")
    typer.echo(f"Open {output / 'report.html'}; all numbers are in {output / 'forecast.csv'}.")


def _measured(windows: Windows) -> pd.DataFrame:
    """Load, requests sent, requests lost and loss of every window."""
    import pandas as pd

    counts = windows.counts.numpy()
    frame = pd.DataFrame(
        {"load": windows.loads.numpy(), "sent": counts.sum(-1), "lost": counts[:, -1]}
    )
    return frame.assign(loss=frame["lost"] / frame["sent"])


def _rows(heavy: pd.DataFrame, ahead: pd.DataFrame, start: float) -> list[list[str]]:
    """Return measured and forecast loss over ranges of load, weighted by the requests sent."""
    rows = []
    loads = heavy["load"].to_numpy()
    groups = ((loads - start - 1e-9) // _BIN).astype(int)
    for group in sorted(set(groups)):
        inside, low = groups == group, start + _BIN * group
        weights = heavy["sent"].to_numpy()[inside] / heavy["sent"].to_numpy()[inside].sum()
        columns = [heavy["loss"], *(ahead[f"loss{end}"] for end in ("", "_low", "_high"))]
        means = [f"{(column.to_numpy()[inside] * weights).sum():.2%}" for column in columns]
        rows.append(
            [
                f"{low:g} to {low + _BIN:g}",
                *means[:2],
                f"{means[2]} to {means[3]}",
                "yes" if ahead["trusted"].to_numpy()[inside].all() else "no",
            ]
        )
    return rows


def _met(every: pd.DataFrame) -> float:
    """Largest load up to which the loss of windows within 5 % of it met the bound."""
    best = 0.0
    for load in sorted(every["load"]):
        near = every[(every["load"] - load).abs() <= 0.05 * load]
        if near["lost"].sum() > _BOUND * near["sent"].sum():
            break
        best = load
    return best
