"""The plan as people see it: estimates of one or several models, and what follows from them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from stationary import words
from stationary._support.parallel import Progress
from stationary.errors import InputError
from stationary.learning.estimate import Estimate
from stationary.learning.inference import Covariance, check_level
from stationary.learning.resampling import bootstrap
from stationary.output.store import write
from stationary.planning.changes import what_if
from stationary.planning.experiment import Experiment, next_experiment
from stationary.planning.forecast import Forecast, forecast, quantiles
from stationary.planning.limits import Limit, check_present, check_slos
from stationary.planning.record import Question, Record, Refits
from stationary.terms.findings import Finding
from stationary.terms.slo import as_slos
from stationary.trust.baselines import BASELINES
from stationary.trust.checks import residuals
from stationary.trust.identifiability import Identifiability, identify
from stationary.trust.ladder import ladder_of
from stationary.trust.study import fit_all

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Plan(Record):
    """Estimates of one or several models, and the answers that follow from them.

    `fit` returns a plan of one model, `compare` and `plan` one of several. What costs time, such as
    refits that test how far a model may be believed, is computed when it is first needed, once, and
    saved with the plan.
    """

    @property
    def estimates(self) -> dict[str, float]:
        """Parameters by name, of the model that speaks for the plan; as changed by a what-if."""
        return self.model.estimates if self.change is not None else self.estimate.model.estimates

    @property
    def nll(self) -> float:
        """Negative log-likelihood of that model at its estimates, penalty included."""
        return self.estimate.nll

    @property
    def converged(self) -> bool:
        """Whether its estimates are as good as those of maximum likelihood."""
        return self.estimate.converged

    @property
    def covariance(self) -> Covariance:
        """Covariance of its free parameters."""
        return self.estimate.covariance

    @property
    def recommended(self) -> str | None:
        """The model to take, if any of several is to be trusted."""
        return self.comparison.choice.model

    @property
    def weights(self) -> dict[str, float]:
        """Weight of every model in pooled answers."""
        return {name: self.comparison.weights.get(name, 0.0) for name in self.fitted}

    @property
    def findings(self) -> list[Finding]:
        """Is the data what the method assumes? What the checks found, for the same model."""
        self.check_observed("a check of the data")
        return list(self.studies[self.name].findings)

    def table(self, level: float = 0.95) -> pd.DataFrame:
        """Estimates with standard errors and intervals, one row per parameter."""
        frame = self.estimate.table(level)
        if self.refits is not None:
            drawn = self.refits.theta.numpy()
            equal = np.full(len(drawn), 1 / len(drawn))
            ends = (0.5 - level / 2, 0.5 + level / 2)
            low, high = quantiles(drawn[:, None], equal, ends, np.array(0.0), np.array(np.inf))
            frame = frame.assign(std_error=drawn.std(0, ddof=1), low=low[0], high=high[0])
        if self.change is not None:
            factor = self.model.theta.detach() / self.estimate.theta
            sized = ["estimate", "std_error", "low", "high"]
            frame[sized] = frame[sized].mul(factor.numpy(), axis=0)
        return frame

    def ranking(self) -> pd.DataFrame:
        """Every model and baseline, best on held-out loads first.

        Returns
        -------
        DataFrame
            ``model``, ``kind`` (chain or baseline), ``parameters``, ``nll``, ``aic``, ``bic``
            (which take counts as independent), ``backtest`` (held-out negative log-likelihood per
            count), ``backtest_error`` (standard error of its difference to the best),
            ``misplaced`` (share of held-out counts put in the wrong place), ``weight`` in pooled
            answers, and a ``note``.
        """
        found, size = self.comparison, float(self.windows.size.sum())
        lines = [_line(name, each, size) for name, each in self.fitted.items()]
        lines += [
            {"model": name, "kind": "chain", "note": words.not_fitted(why)}
            for name, why in self.failed.items()
        ]
        lines += [
            {"model": name, "kind": "baseline", "note": ""}
            for name in found.scores
            if name in BASELINES
        ]
        best = min(found.scores.values(), key=lambda score: score.mean, default=None)
        for line in lines:
            name = line["model"]
            chain = line["kind"] == "chain"
            line["weight"] = found.weights.get(name, 0.0 if chain else math.nan)
            if name in found.scores and best is not None:
                score = found.scores[name]
                line["backtest"] = score.mean
                line["backtest_error"] = score.behind(best, found.held)[1]
                line["misplaced"] = score.wrong.share
        frame = pd.DataFrame(lines).reindex(columns=_RANKING)
        return frame.sort_values("backtest", kind="stable", ignore_index=True)

    def forecast(
        self, x: Any, level: float | None = None, measures: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Forecast measures at loads, with intervals.

        Parameters
        ----------
        x : sequence, array [G, d], mapping or DataFrame
            Loads, or all inputs of a model of several.
        level : float, optional
            Coverage of the intervals; 0.95 unless the plan says otherwise.
        measures : sequence of str, optional
            What to forecast; by default all that the models have to show.

        Returns
        -------
        DataFrame
            ``load`` (or the inputs), each measure with its ``_low`` and ``_high``, ``trusted`` and
            the ``reason`` if not. A row is not trusted beyond the load up to which the model was
            tested, nor where the data leave a measure open by more than a factor of ten each way.
        """
        return self._frame(self.forecast_of(x, level, measures))

    def forecast_of(
        self, x: Any, level: float | None = None, measures: Sequence[str] | None = None
    ) -> Forecast:
        """Return the same as arrays and codes."""
        level = self.question.level if level is None else level
        return forecast(self.draws, x, measures, level, self.doubt, self.horizon)

    def _frame(self, found: Forecast) -> pd.DataFrame:
        inputs = self.draws.first.inputs
        names = inputs if len(inputs) > 1 else ("load",)
        columns: dict[str, Any] = {name: found.x[:, k].numpy() for k, name in enumerate(names)}
        for k, name in enumerate(found.names):
            columns[name] = found.value[:, k]
            columns[f"{name}_low"], columns[f"{name}_high"] = found.low[:, k], found.high[:, k]
        reasons = ["" if doubt is None else words.doubt(doubt) for doubt in found.doubts]
        columns["trusted"] = np.array([not reason for reason in reasons])
        return pd.DataFrame(columns).assign(reason=np.array(reasons, dtype=object))

    @property
    def limit(self) -> Limit:
        """The largest load that meets the SLOs that the plan was made for."""
        if not self.question.slos:
            raise InputError("the plan has no SLO: give slo= to st.plan, or ask for max_load(...)")
        return self.limit_of(self.question)

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
            Coverage of the interval; 0.95 unless the plan says otherwise.
        present : float, optional
            The load to compare the limit with; by default the heaviest of the data.
        **bounds : float
            What must hold, as in ``loss=0.001``.
        """
        given = as_slos([*as_slos(list(slos)), *as_slos(bounds)]) or self.question.slos
        return self.limit_of(self.asking(given, level, present))

    def asking(self, slos: Any, level: float | None, present: float | None) -> Question:
        """Return a checked question; what is not said is as the plan has it."""
        level = self.question.level if level is None else level
        check_level(level)
        checked = as_slos(slos)
        if checked:
            check_slos([part.model for part in self.draws.parts], checked)
        present = self.question.present if present is None else check_present(present)
        return Question(checked, present, level)

    def what_if(self, *, faster: float | None = None, **options: Any) -> Plan:
        """Return the plan of the same system with other options, or with faster servers.

        What was learnt carries over, with its uncertainty: the parameters are those of a server or
        of a client, not of how many there are. That the system would go on like this is an
        assumption.

        Parameters
        ----------
        faster : float, optional
            Every server works this many times as fast: 1.2 is a fifth faster.
        **options
            New values of the model's options, such as ``servers=5`` or ``capacity=30``.

        Examples
        --------
        >>> import stationary as st
        >>> truth = st.models.MMmK(servers=2, capacity=10, service_rate=25.0)
        >>> windows = st.simulate(truth, x=[20.0, 30.0, 40.0] * 10, duration=10.0, seed=0)
        >>> fit = st.fit(st.models.MMmK(servers=2, capacity=10), windows.observing([0, 1, 2]))
        >>> changed = fit.what_if(servers=3)
        >>> changed.max_load(loss=0.01).load / fit.max_load(loss=0.01).load > 1.4
        True
        """
        observed = self
        if self.change is not None:  # from the system that was observed, with both changes
            observed = self.having(changed=None)
            options = {name: after for name, (_, after) in self.change.options.items()} | options
            faster = self.change.faster * (1.0 if faster is None else faster)
        draws, change = what_if(observed.draws, observed.part_names, options, faster)
        if not change.options and change.faster == 1:
            return observed
        return observed.having(changed=(change, draws), known_studies=observed.studies)

    def next_experiment(
        self,
        loads: Any = None,
        *,
        windows: int = 10,
        level: float | None = None,
        measure: str | None = None,
        at: float | None = None,
        **bounds: float,
    ) -> Experiment:
        """Say at which load a short test would shrink the interval of an answer most.

        The answer is a limit on the load, as in ``loss=0.001``, or a measure at a load, as in
        ``measure="loss", at=40.0``. See `stationary.planning.next_experiment`.
        """
        self.check_observed("the next experiment")
        if isinstance(loads, str):
            raise InputError(f"loads must be numbers; an SLO is given as loss=0.01; got {loads!r}")
        level = self.question.level if level is None else level
        slos = as_slos(bounds) or (self.question.slos if measure is None and at is None else ())
        found = next_experiment(
            self.estimate, self.windows, slos, measure, at, loads, windows, level
        )
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
            Successive windows to draw together, in the order of recording, where they are
            correlated.
        seed : int
            Of the draws.
        jobs, cluster, progress
            As for `stationary._support.parallel.in_parallel`.
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
        alone = {self.name: self.estimate}
        return self.having(
            fitted=alone,
            pooled=False,
            refits=refits,
            known_draws=None,
            known_comparison=None,
        )

    def compared(
        self, *, jobs: int = -1, cluster: str | None = None, progress: Progress | None = None
    ) -> Plan:
        """Return the plan beside other models of the same servers and capacity.

        Its answers stay those of its own model.
        """
        self.check_observed("a comparison")
        if self.pooled:
            return self
        own = self.estimate.model
        others = ladder_of(own, self.windows)
        models = {
            name: model
            for name, model in others.items()
            if name not in self.fitted and (model.name, model.options) != (own.name, own.options)
        }
        fitted, studies, failed = fit_all(
            models, self.windows, 3, self.seed, jobs, cluster, progress
        )
        return self.having(
            fitted={**self.fitted, **fitted},
            failed={**self.failed, **failed},
            known_studies={**self.studies, **studies},
            # Its own model goes on answering, with the same draws.
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
        """What a reader must know before believing the numbers."""
        notes = words.warnings(self.estimate, self.windows)
        return notes if self.change is None else [*notes, words.what_if(self.change)]

    def save(self, folder: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the plan as a folder that `stationary.load` reads; all of it or nothing.

        What it takes to answer later is computed first, so that nothing is fitted again.
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
            The plan that the report shows; it holds the other models, too.
        """
        from stationary.output.report import check_path, write_report  # pictures load matplotlib

        check_path(path)
        shown = self
        alone = len(self.fitted) == 1 and not self.failed
        # Models are compared by a backtest over one load.
        if compare and alone and self.change is None and len(self.windows.inputs) == 1:
            shown = self.compared()
        write_report(shown, path, **options)
        return shown

    def plot_forecast(self, x: Any, measure: str = "loss", **options: Any) -> Axes:
        """Draw a forecast over the loads the fit saw; see `output.plots.plot_forecast`."""
        from stationary.output.plots import plot_forecast

        loads = self.windows.loads
        level = options.pop("level", None)
        return plot_forecast(
            self.forecast(x, level, [measure]),
            measure,
            fitted=(float(loads.min()), float(loads.max())),
            **options,
        )

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
        if not self.pooled:
            level = self.question.level
            lines = [
                words.summary(self.estimate, self.windows, level, self.table(level), self.model)
            ]
            if self.refits is not None:
                lines.append(f"intervals: {words.refits(self.refits)}")
        else:
            shown = (
                self.ranking()
                .drop(columns="note")
                .to_string(index=False, float_format=lambda value: f"{value:.4g}", na_rep="-")
            )
            lines = [shown, words.choice(self.comparison.choice)]
        if self.change is not None:
            lines.append(words.sentence(words.what_if(self.change)))
        if self.question.slos:
            found = self.limit
            lines = [words.sentence(words.limit(found)), words.verdict(found), "", *lines]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.table(self.question.level).to_html(index=False)

    def __repr__(self) -> str:
        names = ", ".join(self.fitted)
        return f"Plan({names}; {words.observed(self.windows)})"


_RANKING = (
    *("model", "kind", "parameters", "nll", "aic", "bic"),
    *("backtest", "backtest_error", "misplaced", "weight", "note"),
)


def _line(name: str, each: Estimate, size: float) -> dict[str, Any]:
    parameters = len(each.model.param_names)
    return {
        "model": name,
        "kind": "chain",
        "parameters": parameters,
        "nll": each.nll,
        "aic": 2 * (each.nll + parameters),
        "bic": 2 * each.nll + parameters * math.log(size),
        "note": words.left_out(each),
    }
