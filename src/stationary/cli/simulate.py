"""``stationary simulate``: windows from a model whose parameters are known."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stationary.cli._options import Overwrite, check_new
from stationary.errors import InputError

if TYPE_CHECKING:
    from stationary.models import Model

_MOST_WINDOWS = 1_000_000


class SchemeName(StrEnum):
    """How windows are sampled."""

    EVENTS = "events"
    ARRIVALS = "arrivals"
    POISSON = "poisson"
    REQUESTS = "requests"


def simulate(
    model: Annotated[
        str,
        typer.Argument(
            help="Model with its parameters, as in mmmk:servers=1,capacity=20,service_rate=25, a "
            "model file, as in tandem.toml:mu1=30, or the folder of a run."
        ),
    ],
    x: Annotated[
        list[str],
        typer.Option(help="Loads: 11:15 or 11,12,13; name=loads for each of several inputs."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV file to write.")],
    windows: Annotated[int, typer.Option(help="Windows at each load.")] = 1,
    duration: Annotated[float, typer.Option(help="Length of a window.")] = 1.0,
    scheme: Annotated[
        SchemeName,
        typer.Option(
            help="events: the uniformized chain at its own events (the paper's Algorithm 1); "
            "arrivals: what each arriving request finds; poisson: independent counts; requests: a "
            "log of every request, for stationary ingest."
        ),
    ] = SchemeName.EVENTS,
    gamma: Annotated[
        float | None, typer.Option(help="Event rate for events; just enough by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Simulate windows, or requests, and write them as CSV: load, Q=0, Q=1, ...

    stationary simulate mmmk:servers=1,capacity=20,service_rate=25 --x 11:15 --windows 10
    -o windows.csv
    """
    from stationary.cli._parse import model_file, parse_grid, parse_model, parse_options
    from stationary.planner import load
    from stationary.simulation.simulate import Arrivals, Events, PoissonCounts
    from stationary.simulation.simulate import simulate as run

    if windows < 1:
        raise InputError(f"--windows must be at least 1; got {windows}")
    if output.suffix.lower() != ".csv":
        raise InputError(f"{output}: simulate writes CSV; give the file the ending .csv")
    check_new(output, overwrite)
    if gamma is not None and scheme is not SchemeName.EVENTS:
        raise InputError("--gamma goes with --scheme events")
    if _is_folder(model):
        chain = load(model).model
    else:
        chain = parse_model(model)
        given = parse_options(model)
        unset = [name for name in chain.param_names if name not in given]
        if unset and model_file(model) is None:
            raise InputError(
                f"to simulate, give every parameter a value, as in {model},{unset[0]}=25"
                if ":" in model
                else f"to simulate, give every parameter a value, as in {model}:{unset[0]}=25"
            )
    points = parse_grid(x, chain.inputs)
    if windows * len(points) > _MOST_WINDOWS:
        raise InputError(
            f"--windows {windows} at {len(points)} loads are more than {_MOST_WINDOWS} windows; "
            f"take fewer, or longer ones"
        )
    loads = [value for value in points for _ in range(windows)]
    if scheme is SchemeName.REQUESTS:
        _write_requests(chain, loads, duration, seed, output)
        return
    schemes = {
        SchemeName.EVENTS: Events(gamma=gamma),
        SchemeName.ARRIVALS: Arrivals(),
        SchemeName.POISSON: PoissonCounts(),
    }
    data = run(chain, loads, duration=duration, seed=seed, scheme=schemes[scheme])
    data.to_csv(output)
    typer.echo(f"wrote {len(data)} windows to {output}")


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except OSError:  # a model with many options is too long for a name
        return False


def _write_requests(
    chain: Model, loads: list[float], duration: float, seed: int, output: Path
) -> None:
    import numpy as np
    import pandas as pd

    from stationary._support.files import replacing
    from stationary.models import MMmK
    from stationary.simulation import simulate_requests

    if not isinstance(chain, MMmK):
        raise InputError("--scheme requests simulates mmmk, the queue of M/M/m/K, only")
    log = simulate_requests(chain, loads, duration, seed)
    status = np.where(log.answered, 200, 503)
    table = pd.DataFrame({"arrival": log.arrival, "response": log.response, "status": status})
    with replacing(output) as part:
        table.to_csv(part, index=False, lineterminator="\n")
    typer.echo(f"wrote {len(log)} requests to {output}; next: stationary ingest {output}")
