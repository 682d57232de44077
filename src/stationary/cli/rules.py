"""``stationary rules``: the largest load of a saved run, as alerting rules of Prometheus."""

from __future__ import annotations

from pathlib import Path

import typer

import stationary as st
from stationary import words
from stationary._support.files import replacing
from stationary.cli._options import Asking, check_new, check_saved, command_of
from stationary.cli._parse import parse_pairs
from stationary.cli._say import prose, say
from stationary.cli._show import stages
from stationary.errors import InputError


@command_of
def rules(
    *,
    run: Path,
    load_expr: str,
    slo: list[str] | None = None,
    output: Path | None = None,
    headroom: float = 0.2,
    hold: str = "5m",
    label: list[str] | None = None,
    level: float | None = None,
    overwrite: bool = False,
) -> None:
    """Write rules for Prometheus: the load, its limit, and alerts when it comes near or above.

    stationary rules run/ --slo 'loss<0.001' --load-expr 'sum(rate(http_requests_total[5m]))'
    -o rules.yml

    Exit codes: 0 fine; 1 the limit is not to be trusted, and the rules say so; 2 there is no
    limit to alert on.

    Options
    -------
    load_expr: The present load in PromQL, in the unit of the windows' loads, as in
        'sum(rate(http_requests_total[5m]))'.
    output: File to write, .yml or .yaml; printed by default.
    headroom: Warn when the load could not grow by this share, as in 0.2 for 20 %.
    hold (--for): How long the load must be above before an alert fires.
    label: Label of every rule, as in service=web; repeatable.
    """
    from stationary.output.alerts import alert_rules, check_options

    asking = Asking(slo)
    slos = asking.slos  # which are checked before torch is loaded
    labels = parse_pairs(label or [], "--label", "service=web")
    if output is not None:
        check_new(output, overwrite, ".yml", ".yaml")
    check_options(load_expr, headroom, hold, labels)
    check_saved(run, asking)

    plan = st.load(run)
    slos = slos or plan.question.slos
    if not slos:
        raise InputError(f"{run} was made without an SLO: give one, as in --slo 'loss<0.1%'")
    with stages() as progress:
        progress("finding the limit")
        limit = plan.limit_of(plan.asking(slos, level, None))
    text = alert_rules(limit, load_expr, headroom=headroom, hold=hold, labels=labels)
    if output is None:
        say(text, nl=False)
    else:
        with replacing(output) as part:
            part.write_text(text, encoding="utf-8")
        prose(words.plan_answer(limit, reason=True))
        say(f"Wrote {output}. Next: promtool check rules {output}, then reload Prometheus.")
    if limit.doubt is not None:
        say(f"WARNING: {words.untrusted(limit)}", err=True)
        raise typer.Exit(1)
