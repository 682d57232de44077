r"""Apache access log: combined or common, then ``%D``, the microseconds that a request took.

Apache logs the time at which a request was *received*. The usual ``%t`` has whole seconds only::

    LogFormat "%h %l %u [%{%d/%b/%Y:%T}t.%{usec_frac}t %{%z}t] \"%r\" %>s %b \
    \"%{Referer}i\" \"%{User-agent}i\" %D" stationary
"""

from __future__ import annotations

from typing import Any

from stationary.ingest.formats import _lines
from stationary.ingest.formats._base import Format
from stationary.terms.spans import Unit


def apache(unit: Unit) -> Format:
    """Return the format whose last number counts these units."""

    def read(backend: Any, path: str) -> Any:
        table = _lines.common_log(backend, path)
        took = table.rest.re_extract(r"^ (\d+)(?: |$)", 1)
        table = table.mutate(
            arrival=table.logged,
            response=_lines.micros(took, 1 / unit.per_second),
            fine=table.fraction != "",
        )
        return _lines.requests(
            table,
            path,
            "Apache combined",
            add_fraction="%{usec_frac}t to the LogFormat, as in docs/prometheus.md",
            add_response="%D to the LogFormat",
        )

    return Format(read, Unit.US, needs_duckdb=True)


FORMAT = apache(Unit.US)
