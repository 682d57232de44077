"""A limit as rules for Prometheus: what to record, and when to alert."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import yaml

from stationary import words
from stationary.errors import InputError

if TYPE_CHECKING:
    from stationary.planning.limits import Limit

_DURATION = re.compile(r"(?:\d+(?:ms|[smhdwy]))+|0")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED = ("measure", "bound", "severity", "trusted")


def alert_rules(
    limit: Limit,
    load: str,
    *,
    headroom: float = 0.0,
    hold: str = "5m",
    labels: Mapping[str, str] | None = None,
) -> str:
    """Write a limit as rules for Prometheus, in YAML.

    The rules record ``stationary:load``, ``stationary:limit``, ``stationary:limit_low`` (the low
    end of the interval, or the heaviest load at which the data support the model, if that is less)
    and ``stationary:limit_used`` (load divided by limit). ``LoadNearLimit`` (a warning) fires where
    the data do not show that the load meets all SLOs with the headroom asked for,
    ``LoadAboveLimit`` (critical) where the load is above the limit itself. The labels ``measure``
    and ``bound`` are those of the SLO that is missed first. Rules of a limit that is not to be
    trusted have the label ``trusted="no"`` and an annotation that says why.

    Parameters
    ----------
    limit : Limit
        The largest load that meets its SLOs; finite, and with a low end above zero.
    load : str
        The present load in PromQL, in the unit of the limit, as in
        ``sum(rate(http_requests_total[5m]))``.
    headroom : float
        By what share the load should be able to grow before it reaches the low end: 0.2 warns at
        the low end divided by 1.2.
    hold : str
        How long the load must be above before an alert fires, in Prometheus's notation: ``5m``.
    labels : mapping, optional
        Further labels of every rule, such as ``service``.

    Examples
    --------
    >>> from stationary.planning.limits import Limit
    >>> from stationary.terms.slo import Slo
    >>> slo = Slo("loss", 0.001)
    >>> print(alert_rules(Limit((slo,), slo, 120.0, 110.0, 130.0), "sum(rate(x[5m]))"))
    groups:
    - name: stationary_loss
      rules:
      - record: stationary:load
        expr: sum(rate(x[5m]))
        labels:
          measure: loss
    ...
    """
    labels = dict(labels or {})
    check_options(load, headroom, hold, labels)
    _check(limit)
    vouched, binding = min(limit.low, limit.tested), limit.binding
    shared = {"measure": _escaped(binding.measure), "bound": f"{binding.bound:g}", **labels}
    notes = {"description": _escaped(words.plan_answer(limit))}
    if not limit.trusted:
        shared["trusted"] = "no"
        notes["warning"] = _escaped(words.untrusted(limit))
    # A comment may end the expression; the bracket behind it then needs a line of its own.
    group = f"({load}\n)" if "#" in load else f"({load})"
    records = {
        "load": load,
        "limit": f"vector({limit.load:.6g})",
        "limit_low": f"vector({vouched:.6g})",
        "limit_used": f"{group} / {limit.load:.6g}",
    }
    near = words.near_limit(limit.slos, vouched, "$value", headroom)
    above = words.above_limit(limit.slos, limit.load, "$value")
    alerts = [
        ("LoadNearLimit", "warning", vouched / (1 + headroom), near),
        ("LoadAboveLimit", "critical", limit.load, above),
    ]
    rules: list[dict[str, object]] = [
        {"record": f"stationary:{name}", "expr": expression, "labels": dict(shared)}
        for name, expression in records.items()
    ]
    for name, severity, threshold, summary in alerts:
        text = _escaped(summary).replace("$value", "{{ $value | humanize }}", 1)
        rules.append(
            {
                "alert": name,
                "expr": f"{group} > {threshold:.6g}",
                "for": hold,
                "labels": {**shared, "severity": severity},
                "annotations": {"summary": text, **notes},
            }
        )
    title = "_".join(["stationary", *(slo.measure for slo in limit.slos), *labels.values()])
    groups = {"groups": [{"name": title, "rules": rules}]}
    return yaml.safe_dump(groups, sort_keys=False, allow_unicode=True, width=math.inf)


def check_options(load: str, headroom: float, hold: str, labels: Mapping[str, str]) -> None:
    """Raise unless rules can be written this way; loads no torch."""
    if not load.strip():
        raise InputError("the expression of the load is empty; write it as sum(rate(requests[5m]))")
    if not 0 <= headroom < math.inf:
        raise InputError(f"headroom is a share, zero or more, as in 0.2; got {headroom!r}")
    if not _DURATION.fullmatch(hold):
        raise InputError(f"a time is written as in 5m or 90s; got {hold!r}")
    for name in labels:
        if not _LABEL.fullmatch(name) or name in _RESERVED:
            raise InputError(
                f"the name of a label has letters, digits and _, and is not one of "
                f"{', '.join(_RESERVED)}; got {name!r}"
            )


def _check(limit: Limit) -> None:
    """Raise where there is nothing to alert on."""
    meets = words.bounds(limit.slos)
    if limit.load == math.inf:
        raise InputError(
            f"any load meets {meets}, so there is nothing to alert on: lower the bound"
        )
    if limit.load == 0:
        raise InputError(f"no load meets {meets}: an alert would never stop; raise the bound")
    if not min(limit.low, limit.tested) > 0:
        why = "the interval of the limit begins at 0"
        if limit.doubt is not None:
            why = words.doubt(limit.doubt)
        raise InputError(
            f"no load can be said to meet {meets}: an alert would never stop, because {why}; "
            f"record more windows, or take another model"
        )


def _escaped(text: str) -> str:
    """Return a text in which Prometheus sees no template."""
    return text.replace("{{", '{{ "{{" }}')
