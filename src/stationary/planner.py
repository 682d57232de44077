"""`fit`, `compare`, `plan` and `load`: the ways to a `Plan`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stationary import words
from stationary._support.parallel import Progress
from stationary.data.windows import Windows
from stationary.errors import ConvergenceWarning, InputError
from stationary.facade import Plan
from stationary.gradients import Exact, Gradient
from stationary.learning.covariances import CovarianceKind
from stationary.learning.fitting import check_model, estimate
from stationary.learning.inference import check_level
from stationary.learning.methods import Method
from stationary.learning.newton import Newton
from stationary.learning.stochastic import Stochastic
from stationary.models import Model
from stationary.output.store import read
from stationary.planning.limits import check_present, check_slos
from stationary.solvers import Solver
from stationary.terms.slo import as_slos
from stationary.trust.baselines import BASELINES
from stationary.trust.ladder import ladder
from stationary.trust.study import fit_all

if TYPE_CHECKING:
    pass


def fit(
    model: Model,
    windows: Windows,
    *,
    method: Method | None = None,
    gradient: Gradient | None = None,
    epochs: int | None = None,
    solver: Solver | None = None,
    covariance: CovarianceKind | None = None,
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
        How sure the estimates are: `Best()` by default, see `stationary.learning.covariances`.
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
    _check_kind(covariance, CovarianceKind, "covariance", "Sandwich() or Best()")
    _check_kind(solver, Solver, "solver", "GTH() or SparseLU()")
    method = _method(method, gradient, epochs)
    found, way = estimate(model, windows, method, solver=solver, covariance=covariance, seed=seed)
    recipe = {} if isinstance(method, Newton) else {"method": repr(method)}
    name = model.name or type(model).__name__
    result = Plan(windows, {name: found}, seed=seed, history=way.history, recipe=recipe)
    if not found.converged:
        why = words.ended(found.ended, found.gradient_norm)
        warnings.warn(f"the fit did not converge: {why}", ConvergenceWarning, stacklevel=2)
    return result


def _method(method: Method | None, gradient: Gradient | None, epochs: int | None) -> Method:
    _check_kind(method, Method, "method", "Newton(starts=3) or Stochastic(epochs=50)")
    _check_kind(gradient, Gradient, "gradient", "Exact() or Infinity(p=0.1)")
    short = epochs is not None or not isinstance(gradient, Exact | None)
    if method is not None and (short or gradient is not None):
        raise InputError("give method=, or gradient= and epochs=, not both")
    if method is not None:
        return method
    if not short:
        return Newton()
    options: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    return Stochastic(gradient=gradient or Exact(), **options)


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

    Likelihood rewards a model for the loads it saw. What counts is the others, so every model is
    fitted to the lightest windows and scored on the heaviest, at several cuts, beside forecasts
    that need no chain. The simplest chain within one standard error of the best is recommended,
    unless a forecast without a chain does better or it puts too many counts in the wrong place. A
    chain with parameters that the data leave open can say anything about the states nobody saw: it
    is neither recommended nor pooled, nor is one whose fit did not converge.

    Parameters
    ----------
    models : mapping or sequence of Model
        The models, by name.
    windows : Windows
        The data.
    starts, seed
        As for `Newton` and `fit`.
    jobs, cluster, progress
        As for `stationary._support.parallel.in_parallel`.

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
    if isinstance(models, str | Model) or not isinstance(models, Mapping | Sequence):
        raise InputError(f"compare takes several models, in a list or by name; got {models!r}")
    if not isinstance(models, Mapping):
        for model in models:
            check_model(model)
        names = [model.name or type(model).__name__ for model in models]
        if len(set(names)) < len(names):
            raise InputError(f"two models have the same name; pass a mapping of names: {names}")
        models = dict(zip(names, models, strict=True))
    for model in models.values():
        check_model(model)
    taken = sorted(set(models) & set(BASELINES))
    if taken:
        raise InputError(f"a model cannot have the name of a baseline, {taken[0]!r}")
    if not models:
        raise InputError("there are no models to compare; name at least one")
    if len(windows.inputs) != 1:
        raise InputError(
            f"models are compared over one input, the load; the windows have "
            f"{', '.join(windows.inputs)}"
        )
    fitted, studies, failed = fit_all(models, windows, starts, seed, jobs, cluster, progress)
    if not fitted:
        raise InputError(f"no model could be fitted: {next(iter(failed.values()))}")
    return Plan(windows, fitted, pooled=True, failed=failed, seed=seed, known_studies=studies)


def plan(
    windows: Windows,
    *,
    servers: int = 1,
    capacity: int = 20,
    slo: Any = (),
    models: Mapping[str, Model] | Sequence[Model] | None = None,
    present: float | None = None,
    level: float = 0.95,
    seed: int = 0,
    jobs: int = -1,
    progress: Progress | None = None,
) -> Plan:
    """Answer how much load a system takes: compare models, test them, find the limit.

    Parameters
    ----------
    windows : Windows
        The data.
    servers, capacity : int
        Of the system; they choose the models.
    slo : str, Slo or sequence
        What must hold, as in ``"loss < 0.1%"``; of several all must.
    models : mapping or sequence of Model, optional
        Models to compare, in place of the default ones.
    present : float, optional
        The load to compare the limit with; by default the heaviest of the data.
    level : float
        Coverage of intervals.
    seed, jobs, progress
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
    _check_windows(windows)
    slos = as_slos(slo)
    check_level(level)
    if present is not None:
        check_present(present)
    for option, value in (("servers", servers), ("capacity", capacity)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"{option} must be a whole number; got {value!r}")
    chosen = ladder(windows, servers, capacity) if models is None else models
    if slos:
        check_slos(list(chosen.values() if isinstance(chosen, Mapping) else chosen), slos)
    found = compare(chosen, windows, seed=seed, jobs=jobs, progress=progress)
    return found.having(question=found.asking(slos, level, present))


def load(folder: str | os.PathLike[str], model: Model | Sequence[Model] | None = None) -> Plan:
    """Read a saved plan.

    Parameters
    ----------
    folder : path
        What `Plan.save` wrote.
    model : Model or sequence of Model, optional
        Models of your own that the plan holds: their code is not in the folder.
    """
    return Plan(**read(folder, model))


def _check_windows(windows: object) -> None:
    if not isinstance(windows, Windows):
        raise InputError(
            f"the data must be Windows, as from st.read_windows('windows.csv'); got {windows!r:.80}"
        )


def _check_kind(value: object, kind: type, name: str, example: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise InputError(f"{name} must be an object such as {example}; got {value!r:.80}")
