"""How ``stationary fit`` fits, and the bar that shows how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from stationary.cli._parse import parse_gradient
from stationary.cli._show import progress_bar
from stationary.errors import InputError
from stationary.gradients import Exact
from stationary.learning.estimate import Method
from stationary.learning.newton import Newton
from stationary.learning.optimisers import Adam
from stationary.learning.stochastic import Step, Stochastic
from stationary.models import Model
from stationary.models.chunks import is_large


def make_method(
    gradient: str,
    epochs: int | None,
    lr: float | None,
    batch: int | None,
    average: bool,
    starts: int | None,
    cluster: str | None,
    folder: Path | None,
    resume: bool,
    seed: int,
) -> Method:
    """Return how to fit; an option that goes with another way is an error."""
    strategy = parse_gradient(gradient, seed)
    given = {"epochs": epochs, "batch": batch, "rule": None if lr is None else Adam(lr=lr)}
    if epochs is not None or not isinstance(strategy, Exact):
        options: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        return Stochastic(strategy, average=average, folder=folder, resume=resume, **options)
    if average or lr is not None or batch is not None:
        raise InputError(
            "--average, --lr and --batch go with a stochastic fit: --gradient infinity, or --epochs"
        )
    return Newton(starts, cluster=cluster, folder=folder, resume=resume)


def check_shared(method: Method, chain: Model) -> None:
    """Raise unless a cluster has several starts to run."""
    usual = 1 if is_large(chain.edges) else 3
    if not isinstance(method, Newton) or (method.starts or usual) == 1:
        raise InputError(
            "--cluster has nothing to share out: it runs the starts of a fit that is not "
            "stochastic side by side (--starts 3), or the refits of a --bootstrap"
        )


@contextmanager
def watched(method: Method) -> Iterator[Method]:
    """Yield the method with a bar on the terminal that shows how far it is."""
    if isinstance(method, Newton):
        with progress_bar("start", method.starts or 3) as bar:

            def at_start(start: int, evaluations: int, nll: float) -> None:
                if bar is not None:
                    bar(start, f"{evaluations} gradients, nll {nll:.3f}")

            yield replace(method, progress=at_start)
    elif isinstance(method, Stochastic):
        with progress_bar("epoch", method.epochs) as bar:

            def at_step(step: Step) -> None:
                if bar is not None:
                    bar(step.epoch, f"step {step.step}, loss {step.loss:.4g}")

            yield replace(method, callback=at_step)
