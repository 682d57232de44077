"""``stationary simulate``: windows from a model whose parameters are known."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import stationary as st
from stationary._support.files import replacing
from stationary.cli._models import ModelText
from stationary.cli._options import check_new, command_of, plan_command
from stationary.cli._parse import parse_grid
from stationary.cli._say import say
from stationary.errors import InputError
from stationary.output.folders import check_run

_MOST_WINDOWS = 1_000_000


@command_of
def simulate(
    *,
    model: str,
    x: list[str],
    output: Path,
    windows: int = 1,
    duration: float = 1.0,
    scheme: Literal["events", "arrivals", "poisson", "requests"] = "events",
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Simulate windows, or requests, and write them as CSV: load, Q=0, Q=1, ...

    stationary simulate mmmk:servers=1,capacity=20,service_rate=25 --x 11:15 --windows 10
    -o windows.csv

    Arguments
    ---------
    model: Model with its parameters, as in mmmk:servers=1,capacity=20,service_rate=25, a model
        file, as in tandem.toml:mu1=30, or the folder of a run.

    Options
    -------
    x (--x, --loads): Loads: 11:15 or 11,12,13; name=loads for each of several inputs.
    output: CSV file to write.
    windows: Windows at each load.
    duration: Length of a window.
    scheme: events: the uniformized chain at its own events (the paper's Algorithm 1); arrivals: the
        state that each arriving request finds; poisson: independent counts; requests: a log of
        every request, for stationary plan.
    seed: Seed of the random numbers.
    """
    named, is_run = ModelText(model), os.path.isdir(model)  # noqa: PTH112  # which may be long
    if windows < 1:
        raise InputError(f"--windows must be at least 1; got {windows}")
    check_new(output, overwrite, ".csv")
    if is_run:
        check_run(Path(model))
    else:
        named.check()

    from stationary.simulation import Arrivals, Events, PoissonCounts

    chain = st.load(model).model if is_run else named.model()
    missing = [name for name in chain.param_names if name not in named.options]
    if missing and not is_run and not named.is_file:
        sign = "," if named.options else ":"
        raise InputError(
            f"to simulate, give every parameter a value, as in "
            f"{named.text.rstrip(':')}{sign}{missing[0]}=25"
        )
    points = parse_grid(x, chain.inputs)
    if windows * len(points) > _MOST_WINDOWS:
        raise InputError(
            f"--windows {windows} at {len(points)} loads are more than {_MOST_WINDOWS} windows; "
            f"take fewer, or longer ones"
        )
    loads = [value for value in points for _ in range(windows)]
    if scheme == "requests":
        _write_requests(chain, loads, duration, seed, output)
        return
    schemes = {"events": Events(), "arrivals": Arrivals(), "poisson": PoissonCounts()}
    data = st.simulate(chain, loads, duration=duration, seed=seed, scheme=schemes[scheme])
    data.to_csv(output)
    say(f"wrote {len(data)} windows to {output}")


def _write_requests(
    chain: st.Model, loads: list[float], duration: float, seed: int, output: Path
) -> None:
    import numpy as np
    import pandas as pd

    if not isinstance(chain, st.models.MMmK):
        raise InputError("--scheme requests simulates mmmk, the queue of M/M/m/K, only")
    log = st.simulation.simulate_requests(chain, loads, duration, seed)
    status = np.where(log.answered, 200, 503)
    table = pd.DataFrame({"arrival": log.arrival, "response": log.response, "status": status})
    with replacing(output) as part:
        table.to_csv(part, index=False, lineterminator="\n")
    after = plan_command(output, chain.servers, chain.capacity)
    say(f"wrote {len(log)} requests to {output}; next: {after}")
