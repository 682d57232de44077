"""Sentences about results, each built once, for terminal, page and alerts alike.

Everything else passes codes and numbers. Nothing here loads torch, numpy or pandas.
"""

from stationary.words.answers import (
    answer,
    change,
    choice,
    doubt,
    experiment,
    horizon,
    limit,
    slo,
    verdict,
    what_if,
)
from stationary.words.findings import clause, finding
from stationary.words.fits import (
    covariance,
    ended,
    left_out,
    not_fitted,
    observed,
    plan,
    summary,
    warnings,
)
from stationary.words.headlines import (
    alarms,
    at_load,
    headroom,
    pooled,
    preferred,
    refits,
    room,
    untrusted,
)
from stationary.words.identifiability import direction, directions, identifiability
from stationary.words.numbers import (
    listed,
    load_range,
    number,
    percent,
    plain,
    plural,
    sentence,
)

__all__ = [
    "alarms",
    "answer",
    "at_load",
    "change",
    "choice",
    "clause",
    "covariance",
    "direction",
    "directions",
    "doubt",
    "ended",
    "experiment",
    "finding",
    "headroom",
    "horizon",
    "identifiability",
    "left_out",
    "limit",
    "listed",
    "load_range",
    "not_fitted",
    "number",
    "observed",
    "percent",
    "plain",
    "plan",
    "plural",
    "pooled",
    "preferred",
    "refits",
    "room",
    "sentence",
    "slo",
    "summary",
    "untrusted",
    "verdict",
    "warnings",
    "what_if",
]
