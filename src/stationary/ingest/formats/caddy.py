"""Caddy's access log: one JSON object per line, written when a request is done."""

from stationary.ingest.formats._base import LogLines

FORMAT = LogLines(
    "requests in Caddy's JSON",
    {
        "ts": "{epoch}",  # or a time as text, where the encoder was told so
        "duration": "{took:s}",
        "status": "{status}",
        "request.method": "{method}",
        "request.host": "{host}",
        "request.uri": "{path}",
    },
    ends=True,
    add_fraction="fractions: leave time_format at its default",
    add_response="duration in seconds: leave duration_format at its default",
)
