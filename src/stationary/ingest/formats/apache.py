"""Apache access log: combined or common, then ``%D``, the microseconds that a request took.

Apache logs when a request was received. `docs/prometheus.md` has the ``LogFormat``.
"""

from stationary.ingest.formats._base import LogLines

FORMAT = LogLines(
    "Apache combined",
    (
        '{} {} {} [{clock}] "{request}" {status} {} "{}" "{}" {took:us}{}',
        '{} {} {} [{clock}] "{request}" {status} {:code} {took:us}{}',
        '{} {} {} [{clock}] "{request}" {status} {}',
    ),
    add_fraction="%{usec_frac}t to Apache's LogFormat, as in docs/prometheus.md",
    add_response="%D to Apache's LogFormat",
)
