"""``stationary fit``: from a file of windows to a saved run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import stationary as st
from stationary import words
from stationary.cli._models import ModelText, PrismOptions
from stationary.cli._options import Asking, Reading, RunFolder, command_line, command_of, refuse
from stationary.cli._parse import parse_errors, parse_gradient
from stationary.cli._records import as_json, fit_record
from stationary.cli._say import prose, say
from stationary.cli._show import progress_bar, stages
from stationary.errors import InputError

if TYPE_CHECKING:
    from stationary.learning.estimate import Method
    from stationary.learning.stochastic import Step


@dataclass(frozen=True)
class Training:
    """How the likelihood is maximised.

    Options
    -------
    method: best (second-order steps, or stochastic ones with --gradient or --epochs), or paper: the
        paper's gradient, optimiser, clip, floor and start at zero, and windows without observed
        counts left out; the options below change it.
    gradient: exact; infinity:p=0.1 (or p=auto, series=doubling, least=10, control=yes, draws=4);
        bptt:steps=16; dc-bptt:steps=128. All but exact fit by stochastic steps.
    epochs: Passes over the windows of a stochastic fit [50].
    lr: Learning rate of a stochastic fit, by Adam [0.1].
    batch: Windows per stochastic step [1].
    start: Where all parameters of a stochastic fit start [where the model says].
    floor: Least value of positive parameters in a stochastic fit; 0 allows a start at zero [1e-6].
    average: Average the second half of the stochastic steps.
    resume: Go on with a fit that was interrupted.
    starts: Starting points of the optimiser [3, or 1 for a large chain].
    seed: Seed of starts, order and draws.
    """

    method: str = "best"
    gradient: str | None = None
    epochs: int | None = None
    lr: float | None = None
    batch: int | None = None
    start: float | None = None
    floor: float | None = None
    average: bool = False
    resume: bool = False
    starts: int | None = None
    seed: int = 0

    @property
    def of_the_paper(self) -> bool:
        """Whether the paper's way is asked for."""
        if self.method not in ("best", "paper"):
            raise InputError(f"--method must be best or paper; got {self.method!r}")
        return self.method == "paper"

    def chosen(self, cluster: str | None, folder: Path | None) -> Method:
        """Return the method; an option that goes with another method is an error."""
        gradient = None if self.gradient is None else parse_gradient(self.gradient, self.seed)
        changes = ("epochs", "batch", "start", "floor")
        given = {k: v for k, v in vars(self).items() if k in changes and v is not None}
        given |= {"average": True} if self.average else {}
        given |= {} if self.lr is None else {"rule": st.optimisers.Adam(lr=self.lr)}
        if self.of_the_paper:
            way = st.paper.training(gradient=gradient, seed=self.seed)
        elif self.epochs is None and (gradient is None or isinstance(gradient, st.Exact)):
            if given:
                raise InputError(
                    "--average, --lr, --batch, --start and --floor go with a stochastic fit: "
                    "--gradient infinity, --method paper, or --epochs"
                )
            return st.Newton(self.starts, cluster=cluster, folder=folder, resume=self.resume)
        else:
            way = st.Stochastic(gradient or st.Exact())
        return replace(way, folder=folder, resume=self.resume, **given)


@command_of
def fit(
    *,
    windows: Path,
    model: str,
    prism: PrismOptions,
    reading: Reading,
    observations: str | None = None,
    pool: bool = False,
    folder: RunFolder,
    asking: Asking,
    level: float = 0.95,
    errors: str = "best",
    bootstrap: int | None = None,
    block: int = 1,
    jobs: int = -1,
    cluster: str | None = None,
    relax: float | None = None,
    training: Training,
    json: bool = False,
) -> None:
    """Fit a model to counts of some of its states, by maximum likelihood.

    stationary fit windows.csv --x callrate --counts 'Q={}' --observe 0,1
    --model mmmk:servers=1,capacity=20 -o run/ --slo 'loss<0.001'

    stationary fit windows.csv --model tandem.sm --constants c=5 --theta mu1,mu2 --x lambda
    --counts 'full=full,empty=empty' -o run/

    The inputs of a PRISM file are constants: --x lambda reads the column lambda, --x lambda=rate
    the column rate.

    Exit codes: 0 fine; 1 the fit did not converge, or with --slo the present load misses the limit,
    or the answer is not to be trusted; 2 bad input.

    Options
    -------
    model: Model and options, as in mmmk:servers=1,capacity=20, a model file, as in
        tandem.toml:K=20, or a PRISM file.
    observations: What to learn from, as in states or states,latencies; by default the kind that
        tells most about the model.
    pool: Add up windows of equal load as they are read, for files larger than memory: the same fit,
        but no checks that need single windows.
    level: Coverage of the intervals.
    errors: Standard errors: best, sandwich (spread of windows), sandwich:block=5, correlated (the
        chain's own autocorrelation), dispersed or information.
    bootstrap: Also refit to this many redrawn sets of windows, such as 200.
    block: Successive windows that a bootstrap redraws as one.
    relax: Add a free rate wherever the model has none, at this penalty alpha.
    """
    # Whatever can be wrong with the options is said before the work is done.
    output, named = folder.output, ModelText(model)
    refuse(
        (
            training.resume and output is None,
            "--resume needs -o, the folder that the interrupted fit was to fill",
        ),
        (
            bootstrap is None and block != 1,
            "--block is an option of a bootstrap: ask for one with --bootstrap 200",
        ),
        (
            pool and "block=" in errors,
            "--errors sandwich:block=... needs the order of windows, which --pool adds up: leave "
            "one out",
        ),
        (
            bootstrap is not None and pool,
            "--bootstrap redraws single windows, which --pool adds up: leave one out",
        ),
    )
    if training.of_the_paper:
        reading = replace(reading, drop_empty=True)
    folder.check()
    named.check()
    asking.check(level, of_queues=named.is_queue)
    reading.check(windows, named.columns(reading.x))

    from stationary.planning.limits import check_slos

    chain = named.model(relax, prism, reading.x)
    given = [] if named.is_prism else named.options
    # An option such as overhead says that there is such a parameter; a fit starts from its value.
    learnt = [name for name in chain.param_names if name in given and name not in chain.options]
    if learnt:
        raise InputError(f"a fit learns {learnt[0]}; leave it out of --model")
    kind = parse_errors(errors)
    unfinished = None if output is None else output.with_name(f"{output.name}.unfinished")
    method = training.chosen(cluster, unfinished)
    if cluster is not None and bootstrap is None:
        _check_shared(method, chain)
    if asking.slos:
        check_slos([chain], asking.slos)
    data = reading.windows(windows, chain.states, pool, named.columns(reading.x))
    if training.resume and unfinished is not None and not unfinished.exists():
        say(f"there is nothing to resume in {unfinished}; starting anew", err=True)
    kinds = [kind.strip() for kind in observations.split(",")] if observations else None
    try:
        with _watched(method) as seen:
            plan = st.fit(
                chain, data, method=seen, covariance=kind, observations=kinds, seed=training.seed
            )
    except KeyboardInterrupt:
        if unfinished is not None and unfinished.exists():
            say(f"the work so far is kept in {unfinished}; go on with --resume", err=True)
        raise
    if bootstrap is not None:
        with progress_bar("refit", bootstrap) as bar:
            plan = plan.bootstrap(
                bootstrap, block=block, seed=training.seed, jobs=jobs, cluster=cluster, progress=bar
            )
    with stages() as progress:
        progress("testing the model on held-out heavier loads")
        plan = plan.having(
            recipe={**plan.recipe, "command": command_line()}, question=asking.question(level)
        )
        limit = plan.limit if asking.slos else None
        folder.save(plan)
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
    if json:
        say(as_json(fit_record(plan, limit, output)))
    else:
        _show(plan, limit, output)
    if not plan.converged or (limit is not None and not limit.holds):
        raise typer.Exit(1)


def _check_shared(method: Method, chain: st.Model) -> None:
    """Raise unless a cluster has several starts to run."""
    from stationary.models.chunks import is_large

    usual = 1 if is_large(chain.edges) else 3
    if not isinstance(method, st.Newton) or (method.starts or usual) == 1:
        raise InputError(
            "--cluster has nothing to share out: it runs the starts of a fit that is not "
            "stochastic (--starts 3), or the refits of a --bootstrap"
        )


@contextmanager
def _watched(method: Method) -> Iterator[Method]:
    """Yield the method with a bar on the terminal that shows how far it is."""
    if isinstance(method, st.Newton):
        with progress_bar("start", method.starts or 3) as bar:

            def at_start(start: int, evaluations: int, nll: float) -> None:
                if bar is not None:
                    bar(start, f"{evaluations} gradients, nll {nll:.3f}")

            yield replace(method, progress=at_start)
    elif isinstance(method, st.Stochastic):
        with progress_bar("epoch", method.epochs) as bar:

            def at_step(step: Step) -> None:
                if bar is not None:
                    bar(step.epoch, f"step {step.step}, loss {step.loss:.4g}")

            yield replace(method, callback=at_step)


def _show(plan: st.Plan, limit: st.Limit | None, output: Path | None) -> None:
    prose(words.summary(plan))
    if limit is not None:
        say()
        prose(words.plan_answer(limit, reason=True))
        prose(words.headroom(limit))
    if output is not None:
        say(f"\nsaved in {output}; next: stationary check {output}, then")
        say(f"stationary forecast {output} --x LOW:HIGH:STEP, or stationary report {output}")
