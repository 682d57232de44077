"""The result of learning: estimates, how sure they are, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.findings import Finding
from stationary.forecast import Horizon, forecast
from stationary.inference import Array, Covariance
from stationary.limits import Limit, check_present, max_load, one_bound
from stationary.models import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from stationary.identifiability import Identifiability
    from stationary.planning import Experiment


@dataclass(frozen=True, eq=False)
class Fit:
    """The result of learning.

    Attributes
    ----------
    model : Model
        A copy of the model with its parameters at their estimates.
    windows : Windows
        The data.
    nll : float
        Conditional negative log-likelihood at the estimates, penalty included.
    converged : bool
        Whether the gradient vanished, or a stochastic fit came within 0.05 nats of the optimum;
        ``message`` says more.
    gradient_norm : float
        Largest gradient entry, in nats per count for a change of a parameter by a factor of e.
    evaluations : int
        Gradient evaluations, over all starts.
    message : str
        How the optimiser ended.
    covariance : Covariance
        Of the free parameters.
    seed, starts
        What `fit` was called with; a stochastic fit has one start.
    notes : tuple of str
        What the fitting loop wants its reader to know.
    history : DataFrame
        The steps of a stochastic fit, one row each; empty otherwise.
    recipe : dict
        How it was made, as text: the command, and gradient and training of a stochastic fit.
    tested : Horizon, optional
        The horizon of a system that was not itself observed, such as a what-if; by default it
        is found by refits to the windows.
    """

    model: Model
    windows: Windows
    nll: float
    converged: bool
    gradient_norm: float
    evaluations: int
    message: str
    covariance: Covariance
    seed: int
    starts: int
    notes: tuple[str, ...] = ()
    history: pd.DataFrame = field(default_factory=pd.DataFrame)
    recipe: dict[str, str] = field(default_factory=dict)
    tested: Horizon | None = None

    @property
    def estimates(self) -> dict[str, float]:
        """Parameters by name."""
        return self.model.estimates

    @property
    def doubt(self) -> str:
        """Why no forecast of this fit is trusted; empty if there is no such reason."""
        return "" if self.converged else "the fit did not converge"

    @property
    def hypothetical(self) -> bool:
        """Whether this is a system as it might be: a what-if, which no window is of."""
        return self.tested is not None

    def check_observed(self, what: str) -> None:
        """Raise unless the windows are of this very system."""
        if self.hypothetical:
            raise InputError(
                f"{what} goes by the windows, which are of the system as it was: ask the fit that "
                f"was observed, not a what-if"
            )

    @cached_property
    def horizon(self) -> Horizon:
        """The heaviest load up to which a forecast has been put to the test."""
        from stationary.backtest import doubted, horizon  # it refits, so it stands after fits

        return self.tested or doubted(horizon(self.model, self.windows), self.diagnose())

    def table(self, level: float = 0.95) -> pd.DataFrame:
        """Estimates with standard errors and intervals, one row a parameter."""
        theta = self.model.theta.detach().numpy()
        scale, stderr = self.covariance.scale, self.covariance.stderr
        log, unit = scale.log.numpy(), scale.unit.numpy()
        half = self.covariance.quantile(level) * stderr
        with np.errstate(over="ignore"):
            low = np.where(log, theta * np.exp(-half), theta - unit * half)
            high = np.where(log, theta * np.exp(half), theta + unit * half)
        low = np.where(self.model.positive.numpy(), low.clip(0.0), low)
        return pd.DataFrame(
            {
                "parameter": self.model.param_names,
                "estimate": theta,
                "std_error": np.where(log, theta, unit) * stderr,
                "low": low,
                "high": high,
                "determined": _determined(self.covariance),
            }
        )

    def warnings(self) -> list[str]:
        """What a reader must know before believing the numbers."""
        notes = [] if self.converged else [f"The fit did not converge: {self.message}"]
        notes += self.notes
        table = self.table()
        open_ = table.loc[~table["determined"], "parameter"].tolist()
        if open_:
            shown = ", ".join(open_[:5]) + (", ..." if len(open_) > 5 else "")
            notes.append(
                f"The data does not determine {len(open_)} of {len(table)} parameters ({shown}); "
                f"a forecast that hangs on them is marked as not trusted."
            )
        if self.covariance.supposes:
            notes.append(
                f"Standard errors do not come from the spread of "
                f"{_plural(self.windows.recorded, 'window')}; they suppose that "
                f"{self.covariance.supposes}."
            )
        return notes

    def summary(self, level: float = 0.95, most: int = 30) -> str:
        """Estimates, standard errors, likelihood, convergence and warnings, as text."""
        model = type(self.model).__name__
        table = self.table(level)
        loads = self.windows.loads
        shown = (
            table.head(most)
            .drop(columns="determined")
            .to_string(index=False, float_format=lambda value: f"{value:.5g}")
        )
        if len(table) > most:
            shown += f"\n... and {len(table) - most} more parameters: fit.table()"
        ended = "converged" if self.converged else "NOT converged"
        lines = [
            f"{model}({self.model.extra_repr()})",
            f"{_plural(self.windows.recorded, 'window')}"
            f"{'' if self.windows.moments is None else f' pooled into {len(self.windows)}'}, "
            f"loads {float(loads.min()):g} to "
            f"{float(loads.max()):g}, observed {', '.join(self.windows.labels)}",
            "",
            shown,
            "",
            f"negative log-likelihood {self.nll:.6f} over "
            f"{float(self.windows.counts.sum()):.0f} counts",
            f"{ended}: {self.message}",
            f"largest gradient {self.gradient_norm:.1e} nats per count, "
            f"{_plural(self.evaluations, 'gradient evaluation')}, "
            f"{_plural(self.starts, 'start')}",
            f"standard errors: {self.covariance.kind}, variance "
            f"{self.covariance.inflation:.3g} times that of independent counts; intervals "
            f"{100 * level:g}%",
            *(f"WARNING: {note}" for note in self.warnings()),
        ]
        return "\n".join(lines)

    def forecast(self, x: Any, level: float = 0.95) -> pd.DataFrame:
        """Measures over loads with intervals; see `stationary.forecast.forecast`."""
        return forecast(self.model, self.covariance, x, level, self.doubt, self.horizon)

    def max_load(self, level: float = 0.95, present: float | None = None, **bound: float) -> Limit:
        """Return the largest load that meets a bound, as in ``fit.max_load(loss=0.001)``.

        Its headroom is that over the ``present`` load, by default the heaviest in the data.
        """
        measure, value = one_bound(bound)
        near = float(self.windows.loads.max())
        present = near if present is None else float(present)
        check_present(present)
        return max_load(
            self.model,
            self.covariance,
            measure,
            value,
            near,
            level=level,
            doubt=self.doubt,
            present=present,
            horizon=self.horizon,
        )

    def what_if(self, *, faster: float | None = None, **options: Any) -> Fit:
        """Return the fit of a changed system; see `stationary.planning.what_if`."""
        from stationary.planning import what_if  # planning reads Fit, so it stands after it

        return what_if(self, faster=faster, **options)

    def next_experiment(self, loads: Any = None, **options: Any) -> Experiment:
        """Say where to test next; see `stationary.planning.next_experiment`."""
        from stationary.planning import next_experiment

        return next_experiment(self, loads, **options)

    def diagnose(self) -> list[Finding]:
        """Check whether the data is what the method assumes; see `stationary.diagnostics`."""
        from stationary.diagnostics import diagnose  # reads Fit, as all that follows here

        self.check_observed("a check of the data")
        return diagnose(self)

    def plot_forecast(
        self,
        x: Any,
        measure: str = "loss",
        *,
        level: float = 0.95,
        observed: tuple[ArrayLike, ArrayLike] | None = None,
        bound: float | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw a forecast over the loads the fit saw; see `stationary.plots.plot_forecast`."""
        from stationary.plots import plot_forecast

        loads = self.windows.loads
        return plot_forecast(
            self.forecast(x, level),
            measure,
            fitted=(float(loads.min()), float(loads.max())),
            observed=observed,
            bound=bound,
            ax=ax,
        )

    def plot_residuals(self, ax: Axes | None = None) -> Axes:
        """Draw residuals against load; see `stationary.plots.plot_residuals`."""
        from stationary.plots import plot_residuals

        return plot_residuals(self, ax)

    def plot_calibration(self, ax: Axes | None = None) -> Axes:
        """Draw observed against predicted shares; see `stationary.plots.plot_calibration`."""
        from stationary.plots import plot_calibration

        return plot_calibration(self, ax)

    def plot_generator(self, x: Any = None, ax: Axes | None = None) -> Axes:
        """Draw the learned rates, by default at the heaviest observed load."""
        from stationary.plots import plot_generator

        heaviest = self.windows.x[self.windows.loads.argmax()]
        return plot_generator(self.model, heaviest if x is None else x, ax)

    def identify(
        self,
        x: Any = None,
        nats: float = 2.0,
        measures: Sequence[str] | None = None,
        dispersion: float | None = None,
    ) -> Identifiability:
        """Say what the data determine; see `stationary.identifiability.identify`."""
        from stationary.identifiability import identify  # which reads Fit, so it stands after it

        self.check_observed("what the data determine")
        return identify(self, x, nats, measures, dispersion)

    def save(self, folder: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the run as a folder that `stationary.load` reads; all of it or nothing."""
        from stationary.runs import save  # runs read Fit, so they stand after it

        save(self, folder, overwrite)

    def report(self, path: str | os.PathLike[str], *, compare: bool = True, **options: Any) -> None:
        """Write a report, one HTML file that opens anywhere.

        Parameters
        ----------
        path : path
            Where to write; ends in ``.html``.
        compare : bool
            Also fit the models of the ladder, and show how they compare.
        **options
            As for `stationary.report.write_report`; checks and what the data determine are made
            if they are not given.
        """
        from stationary.report import check_path, compared, write_report

        check_path(path)
        if not self.hypothetical:
            if "findings" not in options:
                options["findings"] = self.diagnose()
            if "identifiability" not in options:
                options["identifiability"] = self.identify()
            if compare and "comparison" not in options:
                options["comparison"] = compared(self)
        write_report(self, path, **options)


def _determined(cov: Covariance) -> Array:
    """Parameters that no flat direction touches."""
    return np.asarray((cov.flat**2).sum(1) < 1e-3)


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
