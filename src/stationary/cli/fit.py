"""``stationary fit``: from a file of windows to a saved run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stationary.cli._options import (
    Asking,
    Cluster,
    Jobs,
    Json,
    Level,
    Reading,
    WindowsFile,
    command_line,
    grouped,
)
from stationary.cli._prism import PrismOptions, is_prism
from stationary.errors import InputError

if TYPE_CHECKING:
    from stationary.facade import Plan
    from stationary.learning.covariances import CovarianceKind
    from stationary.learning.estimate import Method
    from stationary.models import Model
    from stationary.planning.limits import Limit


@dataclass(frozen=True)
class Training:
    """How the likelihood is maximised."""

    gradient: Annotated[
        str,
        typer.Option(
            help="exact; infinity:p=0.1 (or p=auto, series=doubling, least=10, control=yes, "
            "draws=4); bptt:steps=16; dc-bptt:steps=128. All but exact fit by stochastic steps."
        ),
    ] = "exact"
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the windows of a stochastic fit [50].")
    ] = None
    lr: Annotated[
        float | None, typer.Option(help="Learning rate of a stochastic fit, by Adam [0.1].")
    ] = None
    batch: Annotated[int | None, typer.Option(help="Windows per stochastic step [1].")] = None
    average: Annotated[
        bool, typer.Option("--average", help="Average the second half of the stochastic steps.")
    ] = False
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a fit that was cut off.")] = (
        False
    )
    starts: Annotated[
        int | None,
        typer.Option(help="Starting points of the optimiser [3, or 1 for a large chain]."),
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of starts, order and draws.")] = 0

    def method(self, cluster: str | None, folder: Path | None) -> Method:
        """Return the method; an option that goes with another method is an error."""
        from stationary.cli._parse import parse_gradient
        from stationary.gradients import Exact
        from stationary.learning.newton import Newton
        from stationary.learning.optimisers import Adam
        from stationary.learning.stochastic import Stochastic

        gradient = parse_gradient(self.gradient, self.seed)
        if self.epochs is None and isinstance(gradient, Exact):
            if self.average or self.lr is not None or self.batch is not None:
                raise InputError(
                    "--average, --lr and --batch go with a stochastic fit: --gradient infinity, or "
                    "--epochs"
                )
            return Newton(self.starts, cluster=cluster, folder=folder, resume=self.resume)
        rule = None if self.lr is None else Adam(lr=self.lr)
        given: dict[str, Any] = {"epochs": self.epochs, "batch": self.batch, "rule": rule}
        return Stochastic(
            gradient,
            average=self.average,
            folder=folder,
            resume=self.resume,
            **{name: value for name, value in given.items() if value is not None},
        )


@grouped
def fit(
    *,
    windows: WindowsFile,
    model: Annotated[
        str,
        typer.Option(
            help="Model and options, as in mmmk:servers=1,capacity=20, a model file, as in "
            "tandem.toml:K=20, or a PRISM file."
        ),
    ],
    prism: PrismOptions,
    reading: Reading,
    pool: Annotated[
        bool,
        typer.Option(
            "--pool",
            help="Add up windows of equal load as they are read, for files larger than memory: "
            "the same fit, but no checks that need single windows.",
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the run.")
    ] = None,
    asking: Asking,
    level: Level = 0.95,
    errors: Annotated[
        str,
        typer.Option(
            help="Standard errors: best, sandwich (spread of windows), sandwich:block=5, "
            "correlated (the chain's own autocorrelation), dispersed or information."
        ),
    ] = "best",
    bootstrap: Annotated[
        int | None,
        typer.Option(help="Also refit to this many redrawn sets of windows, such as 200."),
    ] = None,
    block: Annotated[
        int, typer.Option(help="Successive windows that a bootstrap redraws together.")
    ] = 1,
    jobs: Jobs = -1,
    cluster: Cluster = None,
    relax: Annotated[
        float | None,
        typer.Option(help="Add a free rate wherever the model has none, at this penalty alpha."),
    ] = None,
    training: Training,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a run that is already in the folder.")
    ] = False,
    json: Json = False,
) -> None:
    """Fit a model to counts of some of its states, by maximum likelihood.

    stationary fit windows.csv --x callrate --counts 'Q={}' --observe 0,1
    --model mmmk:servers=1,capacity=20 -o run/ --slo 'loss<0.001'

    stationary fit windows.csv --model tandem.sm --constants c=5 --theta mu1,mu2 --x lambda
    --counts 'full=full,empty=empty' -o run/

    The inputs of a PRISM file are constants: --x lambda reads the column lambda, --x lambda=rate
    the column rate.
    """
    # Whatever can be wrong with the options is said before the work is done.
    slos, present, seed = asking.slos, asking.present, training.seed
    if training.resume and output is None:
        raise InputError("--resume needs -o, the folder the fit that was cut off was to fill")
    if bootstrap is None and block != 1:
        raise InputError("--block is of a bootstrap: give one with --bootstrap 200")
    if bootstrap is not None and pool:
        raise InputError("--bootstrap redraws single windows, which --pool adds up: leave one out")

    from stationary.cli._parse import parse_errors
    from stationary.cli._show import as_json, progress_bar, stages
    from stationary.output.folders import check_target
    from stationary.planner import fit as run_fit
    from stationary.planning.limits import check_slos
    from stationary.planning.record import Question
    from stationary.terms.slo import check_level, check_present

    check_level(level)
    if output is not None:
        check_target(output, overwrite)
    chain = _model(model, relax, prism, reading.x)
    kind = parse_errors(errors)
    _check_pooled(kind, pool)
    folder = None if output is None else _unfinished(output)
    method = training.method(cluster, folder)
    if cluster is not None and bootstrap is None:
        _check_shared(method, chain)
    if slos:
        check_slos([chain], slos)
    if present is not None:
        check_present(present)
    columns = prism.columns(reading.x) if is_prism(model) else reading.x
    data = reading.windows(windows, chain.states, pool, columns)
    if training.resume and folder is not None and not folder.exists():
        typer.echo(f"there is nothing to resume in {folder}; starting anew", err=True)
    try:
        with _watched(method) as seen:
            plan = run_fit(chain, data, method=seen, covariance=kind, seed=seed)
    except KeyboardInterrupt:
        if folder is not None and folder.exists():
            typer.echo(f"what was done is kept in {folder}; go on with --resume", err=True)
        raise
    if bootstrap is not None:
        with progress_bar("refit", bootstrap) as bar:
            plan = plan.bootstrap(
                bootstrap, block=block, seed=seed, jobs=jobs, cluster=cluster, progress=bar
            )
    with stages() as say:
        say("testing the model on held-out heavier loads")
        plan = plan.having(
            recipe={**plan.recipe, "command": command_line()},
            question=Question(slos, present, level),
        )
        limit = plan.limit if slos else None
        if output is not None:
            plan.save(output, overwrite)
            shutil.rmtree(_unfinished(output), ignore_errors=True)
    if json:
        typer.echo(as_json(_record(plan, limit, output)))
    else:
        _show(plan, limit, output)
    if not plan.converged or (limit is not None and not limit.met_at(limit.present)):
        raise typer.Exit(1)


def _model(text: str, relax: float | None, prism: PrismOptions, x: str) -> Model:
    from stationary.cli._parse import parse_model, parse_options

    chain = parse_model(text, relax, prism, x)
    if not is_prism(text):
        given = [name for name in chain.param_names if name in parse_options(text)]
        if given:
            raise InputError(f"a fit learns {given[0]}; leave it out of --model")
    return chain


def _check_pooled(kind: CovarianceKind, pool: bool) -> None:
    from stationary.learning.covariances import Sandwich

    if pool and isinstance(kind, Sandwich) and kind.block > 1:
        raise InputError(
            "--errors sandwich:block=... needs the order of windows, which --pool adds up: leave "
            "one out"
        )


def _check_shared(method: Method, chain: Model) -> None:
    """Raise unless a cluster has several starts to run."""
    from stationary.learning.newton import Newton
    from stationary.models.chunks import is_large

    usual = 1 if is_large(chain.edges) else 3
    if not isinstance(method, Newton) or (method.starts or usual) == 1:
        raise InputError(
            "--cluster has nothing to share out: it runs the starts of a fit that is not "
            "stochastic side by side (--starts 3), or the refits of a --bootstrap"
        )


@contextmanager
def _watched(method: Method) -> Iterator[Method]:
    """Yield the method with a bar on the terminal that shows how far it is."""
    from stationary.cli._show import progress_bar
    from stationary.learning.newton import Newton
    from stationary.learning.stochastic import Step, Stochastic

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


def _unfinished(output: Path) -> Path:
    """Folder of the checkpoints of a stochastic fit that has not ended."""
    return output.with_name(f"{output.name}.unfinished")


def _record(plan: Plan, limit: Limit | None, output: Path | None) -> dict[str, Any]:
    from stationary import words
    from stationary.cli._show import limit_record
    from stationary.models.registry import describe

    found, level = plan.estimate, plan.question.level
    return {
        "model": describe(found.model),
        "parameters": found.table(level).to_dict("records"),
        "level": level,
        "windows": plan.windows.recorded,
        "loads": [float(plan.windows.loads.min()), float(plan.windows.loads.max())],
        "observed": list(plan.windows.labels),
        "nll": found.nll,
        "converged": found.converged,
        "gradient_norm": found.gradient_norm,
        "evaluations": found.evaluations,
        "message": words.ended(found.ended, found.gradient_norm),
        "standard_errors": words.covariance(found.covariance, plan.windows.recorded),
        "bootstrap": None if plan.refits is None else plan.table(level).to_dict("records"),
        "warnings": plan.warnings(),
        "limit": limit_record(limit),
        "run": str(output) if output else None,
    }


def _show(plan: Plan, limit: Limit | None, output: Path | None) -> None:
    from stationary import words
    from stationary.cli._show import table

    level = plan.question.level
    typer.echo(words.summary(plan.estimate, plan.windows, level))
    if plan.refits is not None:
        typer.echo()
        rows = [
            [row["parameter"], *(words.number(row[k]) for k in ("std_error", "low", "high"))]
            for row in plan.table(level).to_dict("records")
        ]
        columns = ["parameter", "std error", "low", "high"]
        table(f"{words.refits(plan.refits)} ({100 * level:g}% intervals)", columns, rows)
    if limit is not None:
        typer.echo(f"\n{words.sentence(words.limit(limit))}")
        typer.echo(words.verdict(limit))
    if output is not None:
        typer.echo(f"\nsaved in {output}; next: stationary check {output}, then")
        typer.echo(f"stationary forecast {output} --x LOW:HIGH:STEP, or stationary report {output}")
