"""Raw traces of the testbed, in which every window counts from its own first request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import ibis

from stationary.errors import InputError
from stationary.ingest.columns import find
from stationary.ingest.formats._base import Format, format_of
from stationary.terms.spans import Unit


def _read(backend: Any, files: Sequence[str]) -> Any:
    # Without a look at its lines a file is a table.
    raw = cast("Format", format_of(files[0], None)[1]).read(backend, files)
    for name in ("window", "seconds", "arrival", "response"):
        column = find(raw, name, f"{files[0]} is not a trace of the testbed")
        if not column.type().is_numeric():
            raise InputError(
                f"{files[0]}, column {name!r}: the values are {column.type()}, not numbers; is a "
                f"line damaged?"
            )
    # A request that was sent after the end of its window belongs to no window. Windows are laid out
    # two lengths apart, so that requests still in the system at the end of one are not in the next.
    raw = raw.filter(raw.arrival < raw.seconds)
    return raw.select(
        arrival=2.0 * raw.window * raw.seconds + raw.arrival,
        response=ibis.ifelse(raw.response < 0, ibis.null("float64"), raw.response),
    )


FORMAT = Format(_read, Unit.S)
