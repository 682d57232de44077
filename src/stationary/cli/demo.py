"""``stationary demo``: the main job on bundled data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stationary.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from stationary.data.windows import Windows

_BOUND = 0.001


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for run, table, plot and report.")
    ] = Path("stationary-demo"),
) -> None:
    """Learn from a real server at light load, forecast its overload, compare with what happened.

    The bundled windows were RECORDED: a Kamailio SIP server on one machine, driven through a day of
    load into overload ('stationary testbed record'). The fits see only loads up to 2000 requests a
    second, and only requests that found 0 to 5 others, of which none was lost.
    """
    from itertools import pairwise

    import numpy as np
    import pandas as pd

    from stationary import words
    from stationary.cli._show import progress_bar, table
    from stationary.data.demo import CAPACITY, LIGHT, OBSERVED, recording
    from stationary.output.plots import plot_forecast, save_figure
    from stationary.planner import compare
    from stationary.planning.record import Question
    from stationary.terms.slo import Slo
    from stationary.trust.ladder import ladder

    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; name a folder for the demo")
    windows = recording()
    light, heavy = windows.between(None, LIGHT), windows.between(LIGHT, None)
    seen = light.observing(OBSERVED)
    typer.echo(f"{len(windows)} windows of a second, recorded from a real SIP server under load;")
    typer.echo(f"learning from the {len(seen)} with load up to {LIGHT:g}/s, and only from requests")
    typer.echo("that found 0 to 5 others.\n")
    models = ladder(seen, servers=1, capacity=CAPACITY)
    with progress_bar("model", len(models)) as bar:
        found = compare(models, seen, progress=bar)
    typer.echo(f"{words.choice(found.comparison.choice)}\n")
    # The answers of the model to take alone; the others stand beside it.
    alone = {found.name: found.estimate, **found.fitted}
    result = found.having(
        fitted=alone,
        pooled=False,
        known_comparison=found.comparison,
        question=Question((Slo("loss", _BOUND),)),
    )
    typer.echo(words.summary(result.estimate, result.windows))

    loads, lost, sent = _measured(heavy)
    ahead, pooled = result.forecast(loads), found.forecast(loads)
    rows = []
    edges = np.arange(LIGHT, loads.max() + 250, 250)
    for low, high in pairwise(edges.tolist()):
        group = (loads > low) & (loads <= high)
        if group.any():
            rows.append(_row(low, high, lost[group], sent[group], ahead[group], pooled[group]))
    typer.echo()
    headings = ["load /s", "measured", "forecast", "95% interval", "all models", "trusted"]
    table("Loss at loads nobody learnt from", headings, rows, left=0)
    typer.echo(words.sentence(words.horizon(result.horizon)))
    _baselines(ahead["loss"].to_numpy(), lost / sent, light)

    output.mkdir(parents=True, exist_ok=True)
    grid = result.forecast(np.arange(300.0, 5001.0, 50.0))
    result.save(output / "run", overwrite=True)
    grid.to_csv(output / "forecast.csv", index=False)
    axes = plot_forecast(
        grid, fitted=(float(seen.loads.min()), LIGHT), observed=(loads, lost / sent), bound=_BOUND
    )
    save_figure(axes, output / "forecast.png")
    measured = pd.DataFrame({"load": loads, "loss": lost / sent})
    result.report(output / "report.html", observed=measured)
    typer.echo(f"\n{words.sentence(words.limit(result.limit))}")
    typer.echo(f"Largest load that met it in the windows: {words.number(_met(windows))}.")
    typer.echo(f"Look at {output / 'report.html'}; all numbers in {output / 'forecast.csv'}.")


def _measured(windows: Windows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Load, requests lost and requests sent of every window."""
    counts = windows.counts.numpy()
    return windows.loads.numpy(), counts[:, -1], counts.sum(-1)


def _row(
    low: float,
    high: float,
    lost: np.ndarray,
    sent: np.ndarray,
    ahead: pd.DataFrame,
    pooled: pd.DataFrame,
) -> list[str]:
    import numpy as np

    def mean(frame: pd.DataFrame, name: str) -> str:
        return f"{np.average(frame[name], weights=sent):.2%}"

    return [
        f"{low:g} to {high:g}",
        f"{lost.sum() / sent.sum():.2%}",
        mean(ahead, "loss"),
        f"{mean(ahead, 'loss_low')} to {mean(ahead, 'loss_high')}",
        f"{mean(pooled, 'loss_low')} to {mean(pooled, 'loss_high')}",
        "yes" if ahead["trusted"].all() else "no",
    ]


def _met(windows: Windows) -> float:
    """Largest load up to which, a twentieth of it around, no more than the bound was lost."""
    import numpy as np

    loads, lost, sent = _measured(windows)
    order = np.argsort(loads)
    loads, lost, sent = loads[order], lost[order], sent[order]
    best = 0.0
    for load in loads:
        near = np.abs(loads - load) <= 0.05 * load
        if lost[near].sum() > _BOUND * sent[near].sum():
            break
        best = float(load)
    return best


def _baselines(forecast: np.ndarray, measured: np.ndarray, light: Windows) -> None:
    """Set the forecast's error beside two that need no model."""
    _, lost, sent = _measured(light)
    mean = float(lost.sum() / sent.sum())
    errors = {
        "forecast": abs(forecast - measured).mean(),
        "predict no loss": abs(measured).mean(),
        "predict the light-load mean": abs(mean - measured).mean(),
    }
    typer.echo("Mean absolute error of the loss over these windows:")
    for name, error in errors.items():
        typer.echo(f"  {name:<28} {error:.4f}")
