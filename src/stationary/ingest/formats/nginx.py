"""nginx access log: combined, then ``$request_time`` and ``$msec`` in any order, see `_scan`.

A line is written when a request is done. `docs/prometheus.md` has the ``log_format``.
"""

from stationary.ingest.formats._base import LogLines

FORMAT = LogLines(
    "nginx combined",
    (
        '{} {} {} [{clock}] "{request}" {status} {} "{}" "{}"{tail}',
        '{} {} {} [{clock}] "{request}" {status} {tail}',
    ),
    ends=True,
    add_fraction="$msec to nginx's log_format",
    add_response="$request_time to nginx's log_format",
)
