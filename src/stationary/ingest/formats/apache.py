r"""Apache access log: combined or common, then ``%D``, the microseconds that a request took.

Apache logs the time at which a request was *received*. The usual ``%t`` has whole seconds only::

    LogFormat "%h %l %u [%{%d/%b/%Y:%T}t.%{usec_frac}t %{%z}t] \"%r\" %>s %b \
    \"%{Referer}i\" \"%{User-agent}i\" %D" stationary

Response times in other units have a format string of their own, as in ``--format '%h ... %T'``.
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
