"""`fit`, `compare`, `plan` and `load`: the ways to a `Plan`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stationary import words
from stationary._support.parallel import Progress
from stationary.data.windows import Windows
from stationary.errors import ConvergenceWarning, InputError
from stationary.facade import Plan
from stationary.gradients import Exact, Gradient
from stationary.ingest.found import Found, find
from stationary.learning.covariances import CovarianceKind
from stationary.learning.discrepancy import Discrepancy
from stationary.learning.estimate import Method
from stationary.learning.fitting import check_model, estimate
from stationary.learning.newton import Newton
from stationary.learning.stochastic import Stochastic
from stationary.models import Model
from stationary.output.store import read
from stationary.planning.limits import check_slos
from stationary.solvers import Solver
from stationary.terms.candidates import as_candidates
from stationary.terms.measures import as_names, check_times
from stationary.terms.slo import as_slos, check_level, check_positive
from stationary.trust.baselines import BASELINES
from stationary.trust.ladder import candidates, likely_capacities
from stationary.trust.study import fit_all
from stationary.trust.unusual import weigh_unusual

if TYPE_CHECKING:
    from stationary.ingest import Ingested, Source

_EXAMPLES: dict[str, tuple[type, str]] = {
    "method": (Method, "Newton(starts=3) or Stochastic(epochs=50)"),
    "gradient": (Gradient, "Exact() or Infinity(p=0.1)"),
    "solver": (Solver, "GTH() or SparseLU()"),
    "covariance": (CovarianceKind, "Sandwich() or AutoCovariance()"),
}
"""Arguments that are objects: their class, and what a message suggests for a wrong one."""


def fit(
    model: Model,
    windows: Windows,
    *,
    method: Method | None = None,
    gradient: Gradient | None = None,
    epochs: int | None = None,
    solver: Solver | None = None,
    covariance: CovarianceKind | None = None,
    observations: Sequence[str] | None = None,
    seed: int = 0,
) -> Plan:
    """Fit a model to windows by maximum likelihood.

    With exact gradients and no ``epochs``, by second-order steps on all windows at once. With
    another gradient strategy, or with ``epochs``, by stochastic steps on a few windows at a time.

    Parameters
    ----------
    model : Model
        The chain; left as it is, the fit works on a copy.
    windows : Windows
        Inputs and what was observed at them.
    method : Method, optional
        How to fit: `Newton()` by default, or `Stochastic(...)`.
    gradient, epochs
        Short for ``method=Stochastic(gradient=..., epochs=...)``.
    solver : Solver, optional
        As for `steady_state`.
    covariance : CovarianceKind, optional
        How sure the estimates are: `AutoCovariance()` by default, see `st.covariances`.
    observations : sequence of str, optional
        Which of the kinds of observations in the windows to fit, as in ``["states"]``; several make
        a composite likelihood. By default the one that tells most, see `Windows.informing`.
    seed : int
        Of scattered starting points, of the order of windows and of draws; a random gradient has
        its own.

    Returns
    -------
    Plan
        Of this one model, with a `ConvergenceWarning` if the fit did not converge.

    Examples
    --------
    >>> import stationary as st
    >>> truth = st.models.MMmK(servers=1, capacity=19, service_rate=25.0)
    >>> windows = st.simulate(truth, x=[11.0, 12.0, 13.0, 14.0, 15.0] * 20, duration=5.0, seed=1)
    >>> windows = windows.observing([0, 1])
    >>> result = fit(st.models.MMmK(servers=1, capacity=19), windows)
    >>> round(result.estimates["service_rate"])
    25

    The paper's way:

    >>> paper = fit(truth, windows, gradient=st.Infinity(p="auto", seed=0), epochs=10)
    >>> round(paper.estimates["service_rate"])
    25
    """
    check_model(model)
    _check_windows(windows)
    kinds = None if observations is None else as_names(observations, "observations", "states")
    _check_kinds(method=method, gradient=gradient, solver=solver, covariance=covariance)
    stochastic = epochs is not None or not isinstance(gradient, Exact | None)
    if method is not None and (stochastic or gradient is not None):
        raise InputError("give method=, or gradient= and epochs=, not both")
    if method is None and stochastic:
        options: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
        method = Stochastic(gradient=gradient or Exact(), **options)
    method = method or Newton()
    windows = windows.informing([model]) if kinds is None else windows.using(kinds)
    found, way = estimate(model, windows, method, solver=solver, covariance=covariance, seed=seed)
    if not found.converged:
        why = words.ended(found.ended)
        warnings.warn(f"the fit did not converge: {why}", ConvergenceWarning, stacklevel=2)
    recipe = {} if isinstance(method, Newton) else {"method": repr(method)}
    name = model.name or type(model).__name__
    return Plan(windows, {name: found}, seed=seed, history=way.history, recipe=recipe)


def compare(
    models: Mapping[str, Model] | Sequence[Model],
    windows: Windows,
    *,
    starts: int = 3,
    seed: int = 0,
    jobs: int = -1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Fit every model, and backtest it on heavier load than it was fitted to.

    The likelihood judges a model at the loads of the data, and a plan is about heavier ones. So
    every model is fitted to the lightest windows and scored on the heaviest, at several cuts,
    beside baselines that need no chain. The simplest chain within one standard error of the best is
    recommended, unless a baseline does better or it misplaces too many counts. A chain with
    parameters that the data leave open could predict anything for unobserved states: it is neither
    recommended nor pooled, nor is one whose fit did not converge.

    Parameters
    ----------
    models : mapping or sequence of Model
        The models, by name.
    windows : Windows
        The data.
    starts, seed
        As for `Newton` and `fit`.
    jobs, cluster, progress
        Processes (-1 for all cores), address of a Dask cluster, and a function that is called with
        the number of finished tasks.

    Examples
    --------
    >>> import stationary as st
    >>> truth = st.models.ErlangService(phases=4, capacity=10, service_rate=25.0)
    >>> windows = st.simulate(truth, x=[6.0, 9.0, 12.0, 15.0, 18.0] * 6, duration=40.0, seed=1)
    >>> several = {"M/M/1/K": st.models.MMmK(capacity=10),
    ...            "steady": st.models.ErlangService(phases=4, capacity=10)}
    >>> compare(several, windows).recommended
    'steady'
    """
    _check_windows(windows)
    named = _by_name(models)
    if len(windows.inputs) != 1:
        raise InputError(
            f"models are compared over one input, the load; the windows have "
            f"{', '.join(windows.inputs)}"
        )
    windows = weigh_unusual(windows.informing(named.values()))
    fitted, studies, failed = fit_all(named, windows, starts, seed, jobs, cluster, progress)
    if not fitted:
        raise InputError(f"no model could be fitted: {next(iter(failed.values()))}")
    found = Plan(windows, fitted, pooled=True, failed=failed, seed=seed, known_studies=studies)
    return found.having(discrepancy=Discrepancy.of(found.estimate, windows))


def plan(
    windows: Windows | str | os.PathLike[str] | Source | Ingested | Found,
    *,
    servers: Any = None,
    capacity: Any = None,
    patience: float | None = None,
    slo: Any = (),
    models: Mapping[str, Model] | Sequence[Model] | None = None,
    present: float | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Answer how much load a system takes: compare models, test them, find the limit.

    Parameters
    ----------
    windows : Windows, path, Source or Ingested
        The data: windows; the path of an access log, or of a table of requests or of windows;
        ``st.ingest.Source``, which names columns or the table of a database; or what an ingestion
        returned, such as of a Prometheus.
    servers, capacity : int, list or tuple
        Of the system; the default models have them. Where they are not known for sure, a list of
        candidates, or the ends of a range as a tuple: the data choose where they can, and elsewhere
        the interval spans all of them. By default one server. Without a capacity, the full system
        that the windows name, else a range from the longest queue to 200 requests; `Plan.assumed`
        says so.
    patience : float, optional
        Longest time that a request waits before it is given up; by default it waits for ever.
        Without a capacity, it alone decides how many requests there are.
    slo : str, Slo or sequence
        What must hold, as in ``"loss < 0.1%"``; of several all must.
    models : mapping or sequence of Model, optional
        Models to compare, in place of the default ones.
    present : float, optional
        The load to compare the limit with; by default the heaviest of the data.
    level : float
        Coverage of intervals.
    seed, progress
        As for `compare`.

    Examples
    --------
    >>> import stationary as st
    >>> truth = st.models.MMmK(servers=2, capacity=12, service_rate=10.0)
    >>> windows = st.simulate(truth, x=[4.0, 6.0, 8.0, 10.0, 12.0] * 8, duration=50.0, seed=0)
    >>> found = st.plan(windows, servers=2, capacity=12, slo="loss < 1%")
    >>> 14 < found.limit.load < 18, found.limit.binding.measure
    (True, 'loss')
    """
    slos = as_slos(slo)
    check_level(level)
    for name, value in {"the present load": present, "patience": patience}.items():
        if value is not None:
            check_positive(value, name)
    said = {"servers": servers, "capacity": capacity, "patience": patience}
    if models is not None and any(value is not None for value in said.values()):
        raise InputError("give models=, or servers=, capacity= and patience=, not both")
    machines = as_candidates(1 if servers is None else servers, "servers")
    sizes = () if capacity is None else as_candidates(capacity, "capacity")
    known = () if servers is None else machines, sizes[0] if len(sizes) == 1 else None
    found = find(windows, *known)
    if found.of_requests:
        check_times(slos)
    seen, full = found.windows, None if patience is not None else found.full
    sizes = sizes or ((full,) if full else likely_capacities(seen, machines, patience))
    chosen = candidates(seen, machines, sizes, patience) if models is None else models
    if slos:
        check_slos(list(chosen.values() if isinstance(chosen, Mapping) else chosen), slos)
    made = compare(chosen, seen, seed=seed, progress=progress)
    missing = tuple(name for name, value in said.items() if value is None)
    question = made.asking(slos, level, present)
    question = replace(question, missing=missing if models is None else ())
    return made.having(question=question, recipe=found.recipe)


def load(folder: str | os.PathLike[str], model: Model | Sequence[Model] | None = None) -> Plan:
    """Read a saved plan.

    Parameters
    ----------
    folder : path
        What `Plan.save` wrote.
    model : Model or sequence of Model, optional
        Models of your own in the plan: their code is not in the folder.
    """
    return Plan(**read(folder, model))


def _check_windows(windows: object) -> None:
    if not isinstance(windows, Windows):
        raise InputError(
            f"the data must be Windows, as from st.read_windows('windows.csv'); got {windows!r:.80}"
        )


def _check_kinds(**given: object) -> None:
    for name, value in given.items():
        kind, example = _EXAMPLES[name]
        if value is not None and not isinstance(value, kind):
            raise InputError(f"{name} must be an object such as {example}; got {value!r:.80}")


def _by_name(models: Mapping[str, Model] | Sequence[Model]) -> Mapping[str, Model]:
    """Return models by name, or raise unless they can be compared."""
    if isinstance(models, str | Model) or not isinstance(models, Mapping | Sequence):
        raise InputError(f"compare takes several models, in a list or by name; got {models!r}")
    if not models:
        raise InputError("there are no models to compare; name at least one")
    for model in models.values() if isinstance(models, Mapping) else models:
        check_model(model)
    if not isinstance(models, Mapping):
        names = [model.name or type(model).__name__ for model in models]
        if len(set(names)) < len(names):
            raise InputError(f"two models have the same name; pass a mapping of names: {names}")
        models = dict(zip(names, models, strict=True))
    if not all(isinstance(name, str) for name in models):
        raise InputError(f"names of models must be texts; got {list(models)}")
    taken = sorted(set(models) & set(BASELINES))
    if taken:
        raise InputError(f"a model cannot have the name of a baseline, {taken[0]!r}")
    return models
