"""``stationary rules``: the largest load of a saved run, as alerting rules of Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stationary.cli._options import Objectives, Overwrite, Run, RunLevel, check_new
from stationary.errors import InputError


def rules(
    run: Run,
    load_expr: Annotated[
        str,
        typer.Option(
            help="The present load in PromQL, in the unit of the windows' loads, as in "
            "'sum(rate(http_requests_total[5m]))'."
        ),
    ],
    slo: Objectives = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write, .yml or .yaml; printed by default."),
    ] = None,
    headroom: Annotated[
        float,
        typer.Option(help="Warn when the load could not grow by this share, as in 0.2 for 20 %."),
    ] = 0.0,
    hold: Annotated[
        str, typer.Option("--for", help="How long the load must be above before an alert fires.")
    ] = "5m",
    label: Annotated[
        list[str] | None, typer.Option(help="Label of every rule, as in service=web; repeatable.")
    ] = None,
    level: RunLevel = None,
    overwrite: Overwrite = False,
) -> None:
    """Write rules for Prometheus: the load, its limit, and alerts when it comes near or above.

    stationary rules run/ --slo 'loss<0.001' --load-expr 'sum(rate(http_requests_total[5m]))'
    --headroom 0.2 -o rules.yml

    Exit codes: 0 fine; 1 the limit is not to be trusted, and the rules say so; 2 there is no
    limit to alert on.
    """
    from stationary.terms.slo import as_slos

    slos = as_slos(slo or [])
    labels = _labels(label or [])
    if output is not None:
        if output.suffix.lower() not in (".yml", ".yaml"):
            raise InputError(f"{output}: rules are YAML; give the file the ending .yml")
        check_new(output, overwrite)

    from stationary import words
    from stationary._support.files import replacing
    from stationary.output.alerts import alert_rules
    from stationary.planner import load

    plan = load(run)
    slos = slos or plan.question.slos
    if not slos:
        raise InputError(f"{run} was made without an SLO: give one, as in --slo 'loss<0.1%'")
    limit = plan.limit_of(plan.asking(slos, level, None))
    text = alert_rules(limit, load_expr, headroom=headroom, hold=hold, labels=labels)
    if output is None:
        typer.echo(text, nl=False)
    else:
        with replacing(output) as part:
            part.write_text(text, encoding="utf-8")
        typer.echo(words.sentence(words.limit(limit)))
        typer.echo(f"Wrote {output}; promtool check rules {output} and a reload bring it in.")
    if limit.doubt is not None:
        typer.echo(f"WARNING: not to be trusted: {words.doubt(limit.doubt)}.", err=True)
        raise typer.Exit(1)


def _labels(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, equals, value in pairs:
        if not equals or not value:
            raise InputError(f"a label is written name=value, as in service=web; got {name!r}")
    return {name.strip(): value for name, _, value in pairs}
