"""Sentences about results, each built once, for terminal, page and alerts alike.

Everything else passes codes and numbers. Nothing here loads torch, numpy or pandas.
"""

from stationary.words.findings import clause, finding
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
    "clause",
    "direction",
    "directions",
    "finding",
    "identifiability",
    "listed",
    "load_range",
    "number",
    "percent",
    "plain",
    "plural",
    "sentence",
]
