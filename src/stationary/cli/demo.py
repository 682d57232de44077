"""``stationary demo``: the main job on bundled data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stationary.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from stationary.data.windows import Windows

_LIGHT = 130.0
"""Heaviest load the demo learns from."""

_OBSERVED = [0, 1, 2, 3]
"""States the demo learns from: logging stops when all four servers are busy."""

_BOUND = 0.001


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for run, table, plot and report.")
    ] = Path("stationary-demo"),
) -> None:
    """Learn from light load, forecast overload, and compare with what was measured there.

    The bundled windows are SIMULATED: four servers, room for 24 requests. The fit sees only loads
    up to 130 and states 0..3, in which no request is ever lost.
    """
    from importlib.resources import files

    import numpy as np
    import pandas as pd

    from stationary.cli._show import number, sentence, table
    from stationary.data.readers import read_windows
    from stationary.fitting import fit
    from stationary.models import MMmK
    from stationary.plots import plot_forecast, save_figure

    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; name a folder for the demo")
    source = files("stationary") / "data" / "demo" / "simulated-four-servers.csv"
    windows = read_windows(Path(str(source)), sampling="arrival", duration=10.0)
    light = windows.between(None, _LIGHT).observing(_OBSERVED)
    typer.echo(f"{len(windows)} SIMULATED windows of 10 s; learning from the {len(light)} with")
    typer.echo(f"load up to {_LIGHT:g}/s, and only from requests that found 0 to 3 others.\n")
    result = fit(MMmK(servers=4, capacity=24), light)
    typer.echo(result.summary())
    limit = result.max_load(loss=_BOUND)

    heavy = windows.between(_LIGHT, None)
    seen, lost = heavy.counts.sum(-1).numpy(), heavy.counts[:, -1].numpy()
    loads = heavy.loads.numpy()
    ahead = result.forecast(loads)
    rows = []
    for low in range(130, 290, 20):
        group = (loads > low) & (loads <= low + 20)
        mean = {
            name: np.average(ahead.loc[group, name], weights=seen[group])
            for name in ("loss", "loss_low", "loss_high", "response_time")
        }
        rows.append(
            [
                f"{low} to {low + 20}",
                f"{lost[group].sum() / seen[group].sum():.2%}",
                f"{mean['loss']:.2%}",
                f"{mean['loss_low']:.2%} to {mean['loss_high']:.2%}",
                number(1e3 * mean["response_time"]),
                "yes" if ahead.loc[group, "trusted"].all() else "no",
            ]
        )
    typer.echo()
    headings = [
        "load /s",
        "measured loss",
        "forecast loss",
        "95% interval",
        "response ms",
        "trusted",
    ]
    table("Loads nobody learnt from", headings, rows, left=0)
    typer.echo("Intervals are of the long-run loss; what a few windows measure scatters around it.")
    typer.echo(sentence(result.horizon))
    _baselines(ahead["loss"].to_numpy(), lost / seen, windows)

    output.mkdir(parents=True, exist_ok=True)
    grid = result.forecast(np.arange(40.0, 301.0, 5.0))
    result.save(output / "run", overwrite=True)
    grid.to_csv(output / "forecast.csv", index=False)
    axes = plot_forecast(
        grid, fitted=(float(light.loads.min()), _LIGHT), observed=(loads, lost / seen), bound=_BOUND
    )
    save_figure(axes, output / "forecast.png")
    measured = pd.DataFrame({"x": loads, "loss": lost / seen})
    result.report(output / "report.html", bound=("loss", _BOUND), observed=measured)
    typer.echo(f"\n{sentence(limit)}")
    typer.echo(f"Look at {output / 'report.html'}; all numbers in {output / 'forecast.csv'}.")


def _baselines(
    forecast: np.ndarray,
    measured: np.ndarray,
    windows: Windows,
) -> None:
    """Set the forecast's error beside two that need no model."""
    light = windows.between(None, _LIGHT).counts
    mean = float(light[:, -1].sum() / light.sum())
    errors = {
        "forecast": abs(forecast - measured).mean(),
        "predict no loss": abs(measured).mean(),
        "predict the light-load mean": abs(mean - measured).mean(),
    }
    typer.echo("Mean absolute error of the loss over these windows:")
    for name, error in errors.items():
        typer.echo(f"  {name:<28} {error:.4f}")
