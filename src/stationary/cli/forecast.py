"""``stationary forecast``: measures over load from a saved run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stationary.errors import InputError


def forecast(
    run: Annotated[Path, typer.Argument(help="Folder that 'stationary fit -o' wrote.")],
    x: Annotated[
        list[str],
        typer.Option(help="Loads: 10:60:2 or 10,20,30; name=loads for each of several inputs."),
    ],
    level: Annotated[float, typer.Option(help="Coverage of the intervals.")] = 0.95,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV for programs.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the measure here, as .png, .svg or .pdf.")
    ] = None,
    measure: Annotated[str, typer.Option(help="Measure to draw.")] = "loss",
) -> None:
    """Forecast loss, queue, throughput, response time and utilisation at loads of your choice.

    stationary forecast run/ --x 10:60:2
    """
    from stationary.cli._parse import parse_grid
    from stationary.cli._show import as_json, forecast_table
    from stationary.runs import load

    if json and csv:
        raise InputError("choose one of --json and --csv")
    fit = load(run)
    frame = fit.forecast(parse_grid(x, fit.model.inputs), level)
    low, high = float(fit.windows.loads.min()), float(fit.windows.loads.max())
    if plot is not None:
        from stationary.plots import plot_forecast, save_figure

        save_figure(plot_forecast(frame, measure, fitted=(low, high)), plot)
    if json:
        typer.echo(as_json(frame.to_dict("records")))
    elif csv:
        typer.echo(frame.to_csv(index=False), nl=False)
    else:
        title = f"Forecast with {100 * level:g}% intervals; the fit saw loads {low:g} to {high:g}"
        forecast_table(frame, title)
