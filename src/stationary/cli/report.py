"""``stationary report``: a saved run as one HTML file."""

from __future__ import annotations

from pathlib import Path

import typer

import stationary as st
from stationary import words
from stationary.cli._options import Asking, check_new, check_saved, command_line, command_of
from stationary.cli._say import prose, say
from stationary.cli._show import progress_bar, stages
from stationary.errors import InputError


@command_of
def report(
    *,
    run: Path,
    output: Path = Path("report.html"),
    asking: Asking,
    level: float | None = None,
    title: str | None = None,
    unit: str | None = None,
    compare: bool = True,
    overwrite: bool = False,
) -> None:
    """Write a report to mail around: one HTML file that needs no network and prints well.

    stationary report run/ -o report.html --slo 'loss<0.1%' --present 120

    Without --slo the report is on that of the run, or on a loss of at most 0.1 %.

    Exit codes: 0 fine; 1 the present load misses the SLO that was asked for, the fit did not
    converge, or the answer is not to be trusted; 2 bad input.

    Options
    -------
    output: File to write, ending in .html.
    title: Title of the report; that of the plan by default.
    unit: Unit of the loads, as in req/s; that of the plan by default.
    compare: Fit other models, too, and show how they compare; done once and kept in the run.
    """
    asking.check(level, of_run=True)
    slos = asking.slos or None
    check_new(output, overwrite, ".html", ".htm")
    check_saved(run, asking)

    from stationary.output.report import write_report

    plan = st.load(run)
    named = {"title": title, "unit": unit}
    given = {name: text for name, text in named.items() if text is not None}
    plan = plan.having(recipe={**plan.recipe, **given})
    asked = slos or plan.question.slos
    plan.asking(asked, level, asking.present)  # fails before models are fitted
    if compare:
        plan = _compared(plan, run)
    with stages() as progress:
        progress("writing the report")
        said = write_report(
            plan, output, slos=slos, present=asking.present, level=level, command=command_line()
        )
    prose(said.sentence)
    prose(said.headroom)
    limit = said.limit
    if limit is not None and limit.doubt is not None:
        prose(f"WARNING: {words.untrusted(limit)}")
    say(f"Wrote {output}.")
    missed = limit is not None and not limit.holds
    if plan.doubt is not None or (asked and missed):
        raise typer.Exit(1)


def _compared(plan: st.Plan, run: Path) -> st.Plan:
    """Return the plan beside other models; they are fitted once, and kept in the run."""
    from stationary.trust.ladder import ladder_of

    others = len(ladder_of(plan.estimate.model, plan.windows)) - 1
    done = len(plan.fitted) > 1 or plan.failed
    if done or not others or len(plan.windows.inputs) > 1:
        return plan
    with progress_bar("model", others) as bar:
        plan = plan.compared(progress=bar)
    try:
        plan.save(run, overwrite=True)
    except InputError as error:  # such as a folder that may only be read
        say(f"warning: the other models are not kept: {error}", err=True)
    return plan
