"""``stationary rules``: the largest load of a saved run, as alerting rules of Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stationary.cli._options import Level, Overwrite, check_new
from stationary.errors import InputError


def rules(
    run: Annotated[Path, typer.Argument(help="Folder that 'stationary fit -o' wrote.")],
    slo: Annotated[str, typer.Option(help="What must hold, as in 'loss<0.001'.")],
    load_expr: Annotated[
        str,
        typer.Option(
            help="The present load in PromQL, in the unit of the windows' loads, as in "
            "'sum(rate(http_requests_total[5m]))'."
        ),
    ],
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
    level: Level = 0.95,
    overwrite: Overwrite = False,
) -> None:
    """Write rules for Prometheus: the load, its limit, and alerts when it comes near or above.

    stationary rules run/ --slo 'loss<0.001' --load-expr 'sum(rate(http_requests_total[5m]))'
    --headroom 0.2 -o rules.yml

    Exit codes: 0 fine; 1 the limit is not to be trusted, and the rules say so; 2 there is no
    limit to alert on.
    """
    from stationary.alerts import alert_rules
    from stationary.atomic import replacing
    from stationary.cli._parse import parse_bound
    from stationary.cli._show import sentence
    from stationary.runs import load

    if output is not None:
        if output.suffix.lower() not in (".yml", ".yaml"):
            raise InputError(f"{output}: rules are YAML; give the file the ending .yml")
        check_new(output, overwrite)
    limit = load(run).max_load(level, **dict([parse_bound(slo)]))
    text = alert_rules(limit, load_expr, headroom=headroom, hold=hold, labels=_labels(label or []))
    if output is None:
        typer.echo(text, nl=False)
    else:
        with replacing(output) as part:
            part.write_text(text, encoding="utf-8")
        typer.echo(sentence(limit))
        typer.echo(f"Wrote {output}; promtool check rules {output} and a reload bring it in.")
    if not limit.trusted:
        typer.echo(f"WARNING: not to be trusted: {limit.reason}.", err=True)
        raise typer.Exit(1)


def _labels(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, equals, value in pairs:
        if not equals or not value:
            raise InputError(f"a label is written name=value, as in service=web; got {name!r}")
    return {name.strip(): value for name, _, value in pairs}
