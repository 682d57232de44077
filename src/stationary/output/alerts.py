"""A limit as rules of Prometheus: what to record, and when to raise the alarm.

The text is YAML. Every text in it is written as a JSON string, which is YAML, too, so that no
expression or name can be mistaken for anything else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from stationary import words
from stationary.errors import InputError
from stationary.planning.limits import Limit

_DURATION = re.compile(r"(?:\d+(?:ms|[smhdwy]))+|0")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OWN = ("measure", "bound", "severity", "trusted")


def alert_rules(
    limit: Limit,
    load: str,
    *,
    headroom: float = 0.0,
    hold: str = "5m",
    labels: Mapping[str, str] | None = None,
) -> str:
    """Write a limit as rules for Prometheus.

    Recorded are ``stationary:load``, ``stationary:limit``, ``stationary:limit_low`` (the low end
    of its interval, or where the data stops to speak for the model, if that is less) and
    ``stationary:limit_used`` (load over limit). ``LoadNearLimit`` (a warning) fires where the load
    cannot be said to meet all SLOs with the headroom that was asked for, ``LoadAboveLimit``
    (critical) where it is above the limit itself. The labels ``measure`` and ``bound`` are those of
    the SLO that is missed first. Rules of a limit that is not to be trusted have
    the label ``trusted="no"`` and say why in an annotation.

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
        How long the load must be above before an alert fires, as Prometheus writes it: ``5m``.
    labels : mapping, optional
        Further labels of every rule, such as ``service``.

    Examples
    --------
    >>> from stationary.terms.slo import Slo
    >>> slo = Slo("loss", 0.001)
    >>> print(alert_rules(Limit((slo,), slo, 120.0, 110.0, 130.0), "sum(rate(x[5m]))"))
    groups:
      - name: "stationary_loss"
        rules:
          - record: "stationary:load"
            expr: "sum(rate(x[5m]))"
            labels:
              measure: "loss"
    ...
    """
    labels = dict(labels or {})
    _check(limit, load, headroom, hold, labels)
    vouched = min(limit.low, limit.tested)
    binding = limit.binding
    about = {"measure": binding.measure, "bound": f"{binding.bound:g}", **labels}
    if not limit.trusted:
        about["trusted"] = "no"
    warn = vouched / (1 + headroom)
    notes = {"description": _escaped(words.limit(limit, present=False, reason=False))}
    if limit.doubt is not None:
        why = words.doubt(limit.doubt)
        notes["warning"] = _escaped(f"this limit is not to be trusted: {why}")
    now = "The load is {{ $value | humanize }}"
    meets = _slos(limit)
    near = f"{now}, above {vouched:.4g}, up to which the data vouches for {meets}."
    if headroom:
        near = (
            f"{now} and could not grow by {100 * headroom:g} % within {vouched:.4g}, up to which "
            f"the data vouches for {meets}."
        )
    above = f"{now}, above {limit.load:.4g}, the limit that meets {meets}."
    rules = [
        _record("load", load, about),
        _record("limit", f"vector({_number(limit.load)})", about),
        _record("limit_low", f"vector({_number(vouched)})", about),
        _record("limit_used", f"({load}\n) / {_number(limit.load)}", about),
        _alert("LoadNearLimit", load, warn, hold, "warning", about, {"summary": near, **notes}),
        _alert(
            "LoadAboveLimit", load, limit.load, hold, "critical", about, {"summary": above, **notes}
        ),
    ]
    name = "_".join(["stationary", *(slo.measure for slo in limit.slos), *labels.values()])
    return f"groups:\n  - name: {_text(name)}\n    rules:\n{''.join(rules)}"


def _check(limit: Limit, load: str, headroom: float, hold: str, labels: Mapping[str, str]) -> None:
    """Raise where there is no alert to write, or not this way."""
    meets = _slos(limit)
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
    if not load.strip():
        raise InputError("the expression of the load is empty; write it as sum(rate(requests[5m]))")
    if not 0 <= headroom < math.inf:
        raise InputError(f"headroom is a share, zero or more, as in 0.2; got {headroom!r}")
    if not _DURATION.fullmatch(hold):
        raise InputError(f"a time is written as Prometheus does, as in 5m or 90s; got {hold!r}")
    for name in labels:
        if not _LABEL.fullmatch(name) or name in _OWN:
            raise InputError(
                f"a label has a name of letters, digits and _, none of {', '.join(_OWN)}; got "
                f"{name!r}"
            )


def _record(name: str, expression: str, labels: Mapping[str, str]) -> str:
    return _rule({"record": f"stationary:{name}", "expr": expression}, {"labels": labels})


def _alert(
    name: str,
    load: str,
    threshold: float,
    hold: str,
    severity: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> str:
    return _rule(
        # A line of its own for the bracket, because a comment may end the expression.
        {"alert": name, "expr": f"({load}\n) > {_number(threshold)}", "for": hold},
        {"labels": {**labels, "severity": severity}, "annotations": annotations},
    )


def _rule(head: Mapping[str, str], parts: Mapping[str, Mapping[str, str]]) -> str:
    """One entry of a list of rules: plain fields, then groups of them."""
    lines = [f"{key}: {_text(value)}" for key, value in head.items()]
    for name, entries in parts.items():
        lines += [f"{name}:", *(f"  {key}: {_text(value)}" for key, value in entries.items())]
    return "".join(f"      {'- ' if k == 0 else '  '}{line}\n" for k, line in enumerate(lines))


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    return f"{value:.6g}"


def _slos(limit: Limit) -> str:
    return " and ".join(map(str, limit.slos))


def _escaped(clause: str) -> str:
    """A clause as a sentence in which Prometheus finds nothing to fill in."""
    return words.sentence(clause).replace("{{", '{{ "{{" }}')
