"""The plan as people see it: estimates of one or several models, and what follows from them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from stationary import words
from stationary._support.arguments import explained
from stationary._support.parallel import Progress
from stationary.errors import InputError
from stationary.learning.inference import Covariance
from stationary.learning.resampling import bootstrap
from stationary.output.store import write
from stationary.planning.assumed import Assumed, assumed
from stationary.planning.experiment import Experiment, next_experiment
from stationary.planning.forecast import forecast, names_for
from stationary.planning.limits import Limit
from stationary.planning.prediction import predictable, prediction
from stationary.planning.record import Record, Refits
from stationary.planning.sources import Breakdown, breakdown, influence
from stationary.planning.what_if import what_if
from stationary.terms.findings import Finding
from stationary.terms.slo import as_slos, check_positive
from stationary.trust.checks import residuals
from stationary.trust.identifiability import Identifiability, identify
from stationary.trust.ladder import ladder_of
from stationary.trust.study import fit_all
from stationary.trust.unusual import unusual

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@explained
class Plan(Record):
    """Estimates of one or several models, and the answers that follow from them.

    `fit` returns a plan of one model, `compare` and `plan` one of several. What takes long, such as
    refits that test up to which load a model is trusted, is computed when it is first needed, once,
    and saved with the plan. Where a plan has several models, estimates and checks are those of the
    main one: the recommended model, else that of most weight.
    """

    @property
    def estimates(self) -> dict[str, float]:
        """Parameters by name; as changed by a what-if."""
        return self.model.estimates

    @property
    def nll(self) -> float:
        """Negative log-likelihood at the estimates, penalty included."""
        return self.estimate.nll

    @property
    def in_seconds(self) -> bool:
        """Whether times are known to be in seconds: by the source of the data, or by an SLO."""
        return "source" in self.recipe or any(slo.unit == "time" for slo in self.question.slos)

    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Intervals of the parameters: columns ``low`` and ``high``, rows by name."""
        return self.table(level).set_index("parameter")[["low", "high"]]

    @property
    def converged(self) -> bool:
        """Whether the estimates are as good as those of maximum likelihood."""
        return self.estimate.converged

    @property
    def covariance(self) -> Covariance:
        """Covariance of the free parameters."""
        return self.estimate.covariance

    @property
    def recommended(self) -> str | None:
        """The model to take; None if no model is to be trusted."""
        return self.comparison.choice.model

    @property
    def weights(self) -> dict[str, float]:
        """Weight of every model in pooled answers."""
        return {name: self.comparison.weights.get(name, 0.0) for name in self.fitted}

    @property
    def findings(self) -> list[Finding]:
        """Results of the checks whether the data are what the method assumes."""
        self.check_observed("a check of the data")
        return list(self.studies[self.name].findings)

    def forecast(
        self,
        x: Any,
        level: float | None = None,
        measures: Sequence[str] | None = None,
        window: float | None = None,
    ) -> pd.DataFrame:
        """Forecast measures at loads, with intervals.

        Parameters
        ----------
        x : sequence, array [G, d], mapping or DataFrame
            Loads, or all inputs of a model of several.
        level : float, optional
            Coverage of the intervals; by default the plan's, 0.95.
        measures : sequence of str, optional
            What to forecast; by default the measures that all models show.
        window : float, optional
            Also say between which ends (``_seen_low``, ``_seen_high``) losses, mean response times
            and percentiles of a single window of this length will lie. A measured value contradicts
            the forecast only outside of these: a short window may lose no request at all.

        Returns
        -------
        DataFrame
            ``load`` (or the inputs), each measure with its ``_low`` and ``_high``, ``trusted`` and
            the ``reason`` if not. A row is not trusted beyond the load up to which the model was
            tested, nor where the data leave a measure open by more than a factor of ten each way.
        """
        level = self.question.level if level is None else level
        names = names_for(self.draws, measures)  # before the refits that the horizon takes
        draws = self.answering_for(names)
        found = forecast(draws, x, names, level, self.doubt_of(names), self.horizon)
        frame = found.frame()
        if window is not None:
            check_positive(window, "window")
            told = [name for name in names if predictable(draws.first, name)]
            ends = prediction(draws, found.x, told, window, level)
            for end, values in zip(("low", "high"), ends, strict=True):
                frame[[f"{name}_seen_{end}" for name in told]] = values
        return frame

    @property
    def limit(self) -> Limit:
        """The largest load that meets the SLOs that the plan was made for."""
        self._check_asked()
        return self.limit_of(self.question)

    def _check_asked(self) -> None:
        if not self.question.slos:
            raise InputError("the plan has no SLO: give slo= to st.plan, or ask for max_load(...)")

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The largest load that meets each of these SLOs alone."""
        if len(self.question.slos) == 1:
            return (self.limit,)
        return tuple(self.max_load(slo) for slo in self.question.slos)

    def max_load(
        self,
        *slos: Any,
        level: float | None = None,
        present: float | None = None,
        **bounds: float,
    ) -> Limit:
        """Return the largest load that meets all bounds.

        Parameters
        ----------
        *slos : str or Slo
            What must hold, as in ``"loss<0.1%"``; by default what the plan was made for.
        level : float, optional
            Coverage of the interval; by default the plan's, 0.95.
        present : float, optional
            The load to compare the limit with; by default the heaviest of the data.
        **bounds : float
            What must hold, as in ``loss=0.001``.
        """
        given = as_slos([*as_slos(list(slos)), *as_slos(bounds)]) or self.question.slos
        return self.limit_of(self.asking(given, level, present))

    def assumed(self) -> tuple[Assumed, ...]:
        """Return what the answer takes as given, and what would move it how far."""
        return self._assumed

    @cached_property
    def _assumed(self) -> tuple[Assumed, ...]:
        slos, near = self.question.slos, self.heaviest
        parts = [part for part in self.draws.parts if part.weights.sum() > 0]
        parts.sort(key=lambda part: (part.name != self.name, -float(part.weights.sum())))
        # Requests of the system as it was do not tell what other servers of a changed one would do.
        windows = self.windows if self.change is None else None
        answer = self.limit.load if slos else 0.0
        answer = answer if answer < math.inf else 0.0
        missing = self.question.missing
        return assumed(parts, windows, slos, near, answer, missing) if parts else ()

    @cached_property
    def outlying(self) -> list[int]:
        """Positions of the windows unlike others at nearly their load, by how full the system was.

        `compare` and `plan` let them count little where they fit counts.
        """
        return [] if self.changed is not None else unusual(self.windows)

    def influence(self) -> pd.DataFrame:
        """Return by which share the limit would change without each window, the largest first."""
        self.check_observed("the influence of windows")
        self._check_asked()
        change = influence(self.estimate, self.windows, self.question.slos, self.heaviest)
        frame = pd.DataFrame({"load": self.windows.loads.numpy(), "change": change})
        return frame.sort_values("change", key=abs, ascending=False)

    def breakdown(self) -> Breakdown:
        """Return where the width of the limit's interval comes from."""
        return breakdown(self.limit, self.draws, self.discrepancy, self.assumed())

    def what_if(self, *, faster: float | None = None, **options: Any) -> Plan:
        """Return the plan of the same system with other options, or with faster servers.

        The parameters keep their estimates and their uncertainty: they are those of a server or of
        a client, not of how many there are. That the changed system would behave like this is an
        assumption.

        Parameters
        ----------
        faster : float, optional
            Every server works this many times as fast: 1.2 is a fifth faster.
        **options
            New values of the model's options, such as ``servers=5`` or ``capacity=30``.
        """
        if self.change is not None:  # apply both changes to the system that was observed
            earlier = {name: after for name, (_, after) in self.change.options.items()}
            speed = self.change.faster * (1.0 if faster is None else faster)
            return self.having(changed=None).what_if(faster=speed, **{**earlier, **options})
        draws, change = what_if(self.draws, options, faster)
        if not change.options and change.faster == 1:
            return self
        return self.having(changed=(change, draws), known_studies=self.studies)

    def next_experiment(
        self,
        loads: Any = None,
        *,
        windows: int = 10,
        level: float | None = None,
        **bounds: float,
    ) -> Experiment:
        """Say at which load a short test would shrink the interval of a limit on the load most.

        The limit is that of bounds, as in ``loss=0.001``, by default those that the plan was made
        for. See `stationary.planning.next_experiment`.
        """
        self.check_observed("the next experiment")
        level = self.question.level if level is None else level
        slos = as_slos(bounds) or self.question.slos
        found = next_experiment(self.estimate, self.windows, slos, loads, windows, level)
        return replace(found, model=self.name) if self.pooled else found

    def bootstrap(
        self,
        repeats: int = 200,
        *,
        block: int = 1,
        seed: int = 0,
        jobs: int = -1,
        cluster: str | None = None,
        progress: Progress | None = None,
    ) -> Plan:
        """Return the plan with intervals from refits to windows drawn again with replacement.

        Parameters
        ----------
        repeats : int
            Number of refits, each from the estimates.
        block : int
            Successive windows, in the order of recording, to draw as one block where they are
            correlated.
        seed : int
            Of the draws.
        jobs, cluster, progress
            As for `compare`.
        """
        self.check_observed("a bootstrap")
        if self.pooled:
            raise InputError(
                f"a bootstrap is of one model, and this plan pools several: fit the one to take, "
                f"{self.name}, alone"
            )
        theta = bootstrap(
            self.estimate, self.windows, repeats, block, seed, jobs, cluster, progress
        )
        refits = Refits(theta, block, repeats - len(theta))
        return self.having(fitted={self.name: self.estimate}, refits=refits)

    def compared(
        self, *, jobs: int = -1, cluster: str | None = None, progress: Progress | None = None
    ) -> Plan:
        """Return the plan beside other models of the same servers and capacity.

        Its answers stay those of its own model.
        """
        self.check_observed("a comparison")
        if self.pooled:
            return self
        _, *others = ladder_of(self.estimate.model, self.windows).items()
        models = {name: model for name, model in others if name not in self.fitted}
        fitted, studies, failed = fit_all(
            models, self.windows, 3, self.seed, jobs, cluster, progress
        )
        return self.having(
            fitted={**self.fitted, **fitted},
            failed={**self.failed, **failed},
            known_studies={**self.studies, **studies},
            known_draws=self.draws,
        )

    def identify(
        self,
        x: Any = None,
        nats: float = 2.0,
        measures: Sequence[str] | None = None,
        dispersion: float | None = None,
    ) -> Identifiability:
        """Say what the data determine; see `stationary.trust.identifiability.identify`."""
        self.check_observed("what the data determine")
        return identify(self.estimate, self.windows, x, nats, measures, dispersion)

    def residuals(self) -> pd.DataFrame:
        """Observed and predicted share of every category in every window, one row each."""
        return residuals(self.estimate, self.windows)

    def warnings(self) -> list[str]:
        """What a reader must know before relying on the numbers."""
        notes = words.warnings(self.estimate, self.windows)
        return notes if self.change is None else [*notes, words.what_if(self.change)]

    def save(self, folder: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the plan as a folder that `stationary.load` reads; all of it or nothing.

        What later answers need is computed first, so that nothing is fitted again.
        """
        write(self, folder, overwrite)

    def report(self, path: str | os.PathLike[str], *, compare: bool = True, **options: Any) -> Plan:
        """Write a report, one HTML file that opens anywhere.

        Parameters
        ----------
        path : path
            Where to write; ends in ``.html``.
        compare : bool
            Also fit other models, if that was not done yet, and show how they compare.
        **options
            As for `stationary.output.report.write_report`.

        Returns
        -------
        Plan
            The plan that the report shows, with the other models.
        """
        from stationary.output.report import check_path, write_report  # pictures load matplotlib

        check_path(path)
        # Other models are compared by a backtest over one load.
        alone = len(self.fitted) == 1 and not self.failed and len(self.windows.inputs) == 1
        shown = self.compared() if compare and alone and self.change is None else self
        write_report(shown, path, **options)
        return shown

    def plot(self, measure: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw a measure from light load to well beyond the data and the limit.

        Parameters
        ----------
        measure : str, optional
            What to draw; by default what the plan's limit is on, or else the first measure.
        ax : Axes, optional
            Where to draw; a new figure by default.
        """
        slos, low, high = self.question.slos, float(self.windows.loads.min()), self.heaviest
        binding = self.limit.binding if slos else None
        name = measure or (binding.measure if binding else self.draws.measures[0])
        bound = next((slo.bound for slo in slos if slo.measure == name), None)
        end = min(max(1.6 * high, 1.2 * self.limit.high if slos else 0.0), 10 * high)
        loads = [low / 2 + (end - low / 2) * k / 24 for k in range(25)]
        return self.plot_forecast(loads, name, bound=bound, ax=ax)

    def plot_forecast(self, x: Any, measure: str = "loss", **options: Any) -> Axes:
        """Draw a forecast over the fitted loads; see `output.plots.plot_forecast`."""
        from stationary.output.plots import plot_forecast

        frame = self.forecast(x, options.pop("level", None), [measure])
        fitted = float(self.windows.loads.min()), self.heaviest
        return plot_forecast(frame, measure, fitted=fitted, **options)

    def plot_residuals(self, ax: Axes | None = None) -> Axes:
        """Draw residuals against load; see `output.plots.plot_residuals`."""
        from stationary.output.plots import plot_residuals

        return plot_residuals(self.estimate, self.windows, ax)

    def plot_calibration(self, ax: Axes | None = None) -> Axes:
        """Draw observed against predicted shares; see `output.plots.plot_calibration`."""
        from stationary.output.plots import plot_calibration

        return plot_calibration(self.estimate, self.windows, ax)

    def plot_generator(self, x: Any = None, ax: Axes | None = None) -> Axes:
        """Draw the learned rates, by default at the heaviest observed load."""
        from stationary.output.plots import plot_generator

        heaviest = self.windows.x[self.windows.loads.argmax()]
        return plot_generator(self.model, heaviest if x is None else x, ax)

    def __str__(self) -> str:
        return words.plan(self)

    def _repr_html_(self) -> str:
        level = self.question.level
        limit = self.limit._repr_html_() if self.question.slos else ""
        shown = self.ranking() if self.pooled else self.table(level)
        return limit + shown.to_html(index=False, float_format=lambda size: f"{size:.4g}")

    def __repr__(self) -> str:
        return f"Plan({', '.join(self.fitted)}; {words.observed(self.windows)})"
