"""Traefik's access log as it is by default: common, with the time that a request took at the end.

Its times are whole seconds.
"""

from stationary.ingest.formats._base import LogLines

FORMAT = LogLines(
    "of Traefik's common format",
    (
        '{} {} {} [{clock}] "{request}" {status} {} "{}" "{}" {:code} "{router}" "{server}" '
        "{took:ms}ms",
    ),
    add_fraction="format: json to the accessLog, as in docs/prometheus.md",
)
