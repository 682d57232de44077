"""``stationary fit``: from a file of windows to a saved run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stationary.cli._options import (
    Cluster,
    Counts,
    DropEmpty,
    Duration,
    Jobs,
    Json,
    Level,
    Loads,
    Observe,
    Pool,
    Present,
    Sampling,
    Slo,
    WindowsFile,
    X,
    command_line,
    read,
)
from stationary.cli._prism import Constants, GroupBy, PrismOptions, Theta, is_prism
from stationary.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from stationary.limits import Limit
    from stationary.resampling import Bootstrap
    from stationary.result import Fit
    from stationary.stochastic import Step


def fit(
    windows: WindowsFile,
    model: Annotated[
        str,
        typer.Option(
            help="Model and options, as in mmmk:servers=1,capacity=20, a model file, as in "
            "tandem.toml:K=20, or a PRISM file."
        ),
    ],
    theta: Theta = None,
    constants: Constants = None,
    group_by: GroupBy = None,
    x: X = "load",
    counts: Counts = "Q={}",
    observe: Observe = None,
    loads: Loads = None,
    sampling: Sampling = None,
    duration: Duration = None,
    drop_empty: DropEmpty = False,
    pool: Pool = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the run.")
    ] = None,
    slo: Slo = None,
    present: Present = None,
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
    gradient: Annotated[
        str,
        typer.Option(
            help="exact; infinity:p=0.1 (or p=auto, series=doubling, least=10, control=yes, "
            "draws=4); bptt:steps=16; dc-bptt:steps=128. All but exact fit by stochastic steps."
        ),
    ] = "exact",
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the windows of a stochastic fit [50].")
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate of a stochastic fit, by Adam [0.1].")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Windows a stochastic step [1].")] = None,
    average: Annotated[
        bool, typer.Option("--average", help="Average the second half of the stochastic steps.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a fit that was cut off.")
    ] = False,
    starts: Annotated[
        int | None,
        typer.Option(help="Starting points of the optimiser [3, or 1 for a large chain]."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of starts, order and draws.")] = 0,
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
    from dataclasses import replace

    from stationary.chunks import is_large
    from stationary.cli._parse import (
        parse_bound,
        parse_errors,
        parse_gradient,
        parse_model,
        parse_options,
    )
    from stationary.cli._show import as_json, progress_bar
    from stationary.covariances import Sandwich
    from stationary.fitting import fit as run_fit
    from stationary.gradients import Exact
    from stationary.inference import check_level
    from stationary.limits import check_bound, check_present
    from stationary.optimisers import Adam
    from stationary.resampling import bootstrap as run_bootstrap
    from stationary.runs import check_target
    from stationary.stochastic import Training

    # Whatever can be wrong with the options is said before the work is done.
    check_level(level)
    if output is not None:
        check_target(output, overwrite)
    prism = PrismOptions(x, theta, constants, group_by)
    chain = parse_model(model, relax, prism)
    if is_prism(model):
        x = prism.columns
    else:
        given = [name for name in chain.param_names if name in parse_options(model)]
        if given:
            raise InputError(f"a fit learns {given[0]}; leave it out of --model")
    strategy = parse_gradient(gradient, seed)
    kind = parse_errors(errors)
    training = None
    if epochs is not None or not isinstance(strategy, Exact):
        usual = Training()
        training = replace(
            usual,
            epochs=usual.epochs if epochs is None else epochs,
            batch=usual.batch if batch is None else batch,
            rule=usual.rule if lr is None else Adam(lr=lr),
            average=average,
        )
    elif average or lr is not None or batch is not None:
        raise InputError(
            "--average, --lr and --batch go with a stochastic fit: --gradient infinity, or --epochs"
        )
    if resume and output is None:
        raise InputError("--resume needs -o, the folder the fit that was cut off was to fill")
    bound = None if slo is None else parse_bound(slo)
    if bound is not None:
        check_bound(chain, *bound)
    if present is not None:
        if bound is None:
            raise InputError("--present is the load that must meet a limit: give one with --slo")
        check_present(present)
    if bootstrap is None and block != 1:
        raise InputError("--block is of a bootstrap: give one with --bootstrap 200")
    folder = None if output is None else _unfinished(output)
    if bootstrap is not None and pool:
        raise InputError("--bootstrap redraws single windows, which --pool adds up: leave one out")
    if pool and isinstance(kind, Sandwich) and kind.block > 1:
        raise InputError(
            "--errors sandwich:block=... needs the order of windows, which --pool adds up: leave "
            "one out"
        )
    single = training is not None or (starts or (1 if is_large(chain.edges) else 3)) == 1
    if cluster is not None and single and bootstrap is None:
        raise InputError(
            "--cluster has nothing to share out: it runs the starts of a fit that is not "
            "stochastic side by side (--starts 3), or the refits of a --bootstrap"
        )
    data = read(
        windows, x, counts, observe, loads, sampling, duration, drop_empty, pool, chain.states
    )
    if resume and folder is not None and not folder.exists():
        typer.echo(f"there is nothing to resume in {folder}; starting anew", err=True)
    try:
        if training is None:
            with progress_bar("start", starts or 3) as bar:
                result = run_fit(
                    chain,
                    data,
                    folder=folder,
                    resume=resume,
                    starts=starts,
                    seed=seed,
                    progress=bar and _exact_progress(bar),
                    covariance=kind,
                    cluster=cluster,
                )
        else:
            with progress_bar("epoch", training.epochs) as bar:
                training = replace(training, callback=bar and _epoch_progress(bar))
                result = run_fit(
                    chain,
                    data,
                    gradient=strategy,
                    training=training,
                    folder=folder,
                    seed=seed,
                    resume=resume,
                    covariance=kind,
                )
    except KeyboardInterrupt:
        if folder is not None and folder.exists():
            typer.echo(f"what was done is kept in {folder}; go on with --resume", err=True)
        raise
    result = replace(result, recipe={**result.recipe, "command": command_line()})
    source: Fit | Bootstrap = result
    if bootstrap is not None:
        with progress_bar("refit", bootstrap) as bar:
            source = run_bootstrap(
                result,
                bootstrap,
                block=block,
                seed=seed,
                jobs=jobs,
                cluster=cluster,
                progress=bar,
            )
    limit = source.max_load(level, present, **{bound[0]: bound[1]}) if bound else None
    if output is not None:
        result.save(output, overwrite)
        shutil.rmtree(_unfinished(output), ignore_errors=True)
    if json:
        typer.echo(as_json(_record(source, result, limit, level, output)))
    else:
        _show(source, result, limit, present, level, output)
    if not result.converged or (limit is not None and not limit.met_at(limit.present)):
        raise typer.Exit(1)


def _unfinished(output: Path) -> Path:
    """Folder of the checkpoints of a stochastic fit that has not ended."""
    return output.with_name(f"{output.name}.unfinished")


def _exact_progress(update: Callable[[int, str], None]) -> Callable[[int, int, float], None]:
    return lambda start, evaluations, nll: update(start, f"{evaluations} gradients, nll {nll:.3f}")


def _epoch_progress(update: Callable[[int, str], None]) -> Callable[[Step], None]:
    return lambda step: update(step.epoch, f"step {step.step}, loss {step.loss:.4g}")


def _record(
    source: Fit | Bootstrap, result: Fit, limit: Limit | None, level: float, output: Path | None
) -> dict[str, Any]:
    from stationary.cli._show import limit_record
    from stationary.models.registry import describe

    return {
        "model": describe(result.model),
        "parameters": result.table(level).to_dict("records"),
        "level": level,
        "windows": result.windows.recorded,
        "loads": [float(result.windows.loads.min()), float(result.windows.loads.max())],
        "observed": list(result.windows.labels),
        "nll": result.nll,
        "converged": result.converged,
        "gradient_norm": result.gradient_norm,
        "evaluations": result.evaluations,
        "message": result.message,
        "standard_errors": result.covariance.kind,
        "bootstrap": None if source is result else source.table(level).to_dict("records"),
        "warnings": result.warnings(),
        "limit": limit_record(limit),
        "run": str(output) if output else None,
    }


def _show(
    source: Fit | Bootstrap,
    result: Fit,
    limit: Limit | None,
    present: float | None,
    level: float,
    output: Path | None,
) -> None:
    from stationary.cli._show import number, sentence, table, verdict

    typer.echo(result.summary(level))
    if source is not result:
        typer.echo()
        rows = [
            [row["parameter"], *(number(row[k]) for k in ("std_error", "low", "high"))]
            for row in source.table(level).to_dict("records")
        ]
        columns = ["parameter", "std error", "low", "high"]
        table(f"{source} ({100 * level:g}% intervals)", columns, rows)
    if limit is not None:
        typer.echo(f"\n{sentence(limit)}")
        typer.echo(verdict(limit, present))
    if output is not None:
        typer.echo(f"\nsaved in {output}; next: stationary check {output}, then")
        typer.echo(f"stationary forecast {output} --x LOW:HIGH:STEP, or stationary report {output}")
